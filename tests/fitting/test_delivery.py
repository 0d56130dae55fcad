"""What a fit delivers: probabilities, thresholds, and the rows that its models have seen."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import f1_score, log_loss

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.data import Dataset
from headstart.errors import HeadstartWarning, SandboxError
from headstart.evaluation.kept_models import restore
from headstart.evaluation.prediction import Predictor, predict_model
from headstart.evaluation.scoring import Metric
from headstart.fitting import assembly
from headstart.fitting.assembly import Assembly
from headstart.fitting.decisions import Decisions
from headstart.fitting.refit import RefitObjective, last_step, stopped_at
from headstart.fitting.run import Run
from headstart.fitting.settings import Settings, choose_space
from headstart.trials import Limits


@pytest.fixture(scope="module")
def classes() -> tuple[Any, Any]:
    """Four classes in six columns, few rows of each."""
    rng = np.random.default_rng(0)
    y = rng.permutation(160) % 4
    return rng.normal(size=(160, 6)) + 1.5 * np.eye(4, 6)[y], y


@pytest.fixture(scope="module")
def rare() -> tuple[Any, Any]:
    """Two classes, one of them rare and hard to tell."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(1500, 3))
    y = (X[:, 0] + X[:, 1] + 1.2 * rng.normal(size=1500) > 3.6).astype(int)
    return X, y


@pytest.fixture
def forest(quick: dict[str, Any]) -> dict[str, Any]:
    """Its means of trees are less sure than they should be."""
    return {**quick, "include": ["extra_trees"], "evaluations": 1}


class TestProbabilities:
    def test_log_loss_is_calibrated_by_default(self, classes: Any, forest: dict[str, Any]) -> None:
        X, y = classes
        found = HeadstartClassifier(**forest).fit(X[::2], y[::2])
        plain = HeadstartClassifier(**forest, calibrate=False).fit(X[::2], y[::2])
        assert found.model_.metric == "neg_log_loss"
        assert found.model_.decisions.temperature < 1
        assert plain.model_.decisions.temperature == 1
        assert any("calibrated with temperature" in note for note in found.notes_)
        assert found.model_.validation_score > plain.model_.validation_score
        losses = [log_loss(y[1::2], model.predict_proba(X[1::2])) for model in (found, plain)]
        assert losses[0] < losses[1]

    def test_the_models_of_the_folds_are_pooled_as_logarithms(self, classes: Any, forest: dict[str, Any]) -> None:
        X, y = classes
        model = HeadstartClassifier(**{**forest, "evaluations": 3}).fit(X, y).model_
        assert model.decisions.folds == 3
        ready = model.schema.apply(X)
        average = [
            sum(m.weight * predict_model(m.models[fold], ready, (4,)) for m in model.members) for fold in range(3)
        ]
        logs = np.mean(np.log(np.clip(average, 1e-15, 1)), axis=0) / model.decisions.temperature
        np.testing.assert_allclose(model.predict_ready(ready), softmax(logs, axis=1), atol=1e-9)

    def test_models_that_predict_a_row_together_stay_together(self, classes: Any, forest: dict[str, Any]) -> None:
        """Of folds that are gone through twice, a row's prediction is the mean of two models: so are the parts."""
        from sklearn.model_selection import RepeatedStratifiedKFold

        splitter = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
        model = HeadstartClassifier(**{**forest, "splitter": splitter}).fit(*classes).model_
        assert (len(model.members[0].models), model.decisions.folds) == (6, 3)
        ready = model.schema.apply(classes[0])
        one = Predictor(model.members[0].models, model.members[0].shares(3), (4,))(ready)
        both = [predict_model(model.members[0].models[i], ready, (4,)) for i in (1, 4)]
        np.testing.assert_allclose(one[1], np.mean(both, axis=0))

    def test_one_model_needs_no_pool(self, classes: Any, forest: dict[str, Any]) -> None:
        model = HeadstartClassifier(**forest, refit="single").fit(*classes).model_
        assert model.decisions.temperature < 1
        assert model.decisions.folds == 1

    @pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
    def test_other_metrics_are_not_calibrated_unless_wanted(
        self, classes: Any, forest: dict[str, Any], metric: str
    ) -> None:
        model = HeadstartClassifier(**forest, metric=metric).fit(*classes)
        assert model.model_.decisions.temperature == 1
        model = HeadstartClassifier(**forest, metric=metric, calibrate=True).fit(*classes)
        assert model.model_.decisions.temperature != 1

    def test_nothing_is_calibrated_that_gets_worse(
        self, classes: Any, forest: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(assembly, "fit_temperature", lambda *_: 5.0)
        model = HeadstartClassifier(**forest).fit(*classes)
        assert (model.model_.decisions.temperature, model.model_.decisions.folds) == (1, 1)
        assert not any("temperature" in note for note in model.notes_)
        assert HeadstartClassifier(**forest, calibrate=True).fit(*classes).model_.decisions.temperature == 5

    @pytest.mark.parametrize(
        ("name", "task", "expected"),
        [
            ("neg_log_loss", "multiclass", True),
            ("neg_brier_score", "binary", True),
            ("roc_auc", "binary", False),
            ("f1", "binary", False),
            ("neg_mean_squared_error", "regression", False),
        ],
    )
    def test_metrics_of_probabilities(self, name: str, task: str, expected: bool) -> None:
        assert Metric(name, task).of_probabilities is expected


class TestLabels:
    def test_f1_has_its_threshold_by_default(self, rare: Any, quick: dict[str, Any]) -> None:
        X, y = rare
        settings = {**quick, "include": ["logistic_regression"], "evaluations": 1, "metric": "f1"}
        found = HeadstartClassifier(**settings).fit(X[::2], y[::2])
        plain = HeadstartClassifier(**settings, tune_threshold=False).fit(X[::2], y[::2])
        assert found.model_.decisions.factors is not None
        assert any("thresholds between classes are tuned for F1" in note for note in found.notes_)
        assert found.model_.validation_score > plain.model_.validation_score
        scores = [f1_score(y[1::2], model.predict(X[1::2])) for model in (found, plain)]
        assert scores[0] > scores[1] + 0.05

    def test_luck_is_not_tuned(self, quick: dict[str, Any]) -> None:
        """Where no threshold is better than the middle, the best on a few rows is better only there."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(120, 2))
        y = (X[:, 0] + 0.8 * rng.normal(size=120) > 0).astype(int)
        settings = {**quick, "include": ["logistic_regression"], "evaluations": 1, "metric": "accuracy"}
        assert HeadstartClassifier(**settings).fit(X, y).model_.decisions.factors is None
        assert HeadstartClassifier(**settings, tune_threshold=True).fit(X, y).model_.decisions.factors is not None

    def test_without_thresholds_nothing_is_selected_for_them(
        self, rare: Any, quick: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        quick |= {"include": ["gaussian_nb", "logistic_regression", "decision_tree"], "evaluations": 6, "metric": "f1"}
        monkeypatch.setattr(Assembly, "_factors", lambda *_: None)  # all of them were luck
        found = HeadstartClassifier(**quick).fit(*rare)
        assert found._run is not None
        own, rows, trials = Assembly(found._run), np.arange(len(rare[1])), found._run.candidates()
        candidates = [assembly.predictions_of(t) for t in trials]
        first = own._first_decisions(candidates, rows)
        tuned, plain = (own._select(candidates, rows, d, None).tolist() for d in (first, Decisions()))
        assert tuned != plain
        weights = {m.number: m.weight for m in found.model_.members}
        assert [weights.get(t.number, 0.0) for t in trials] == plain

    def test_metrics_of_ranks_have_none(self, rare: Any, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(*rare)
        assert model.model_.decisions.factors is None
        assert not any("threshold" in note for note in model.notes_)

    def test_a_note_says_that_classes_are_imbalanced(self, rare: Any, classes: Any, quick: dict[str, Any]) -> None:
        X, y = rare
        (note,) = [n for n in HeadstartClassifier(**quick).fit(X, y).notes_ if "imbalanced" in n]
        assert note == f"classes are imbalanced: {y.sum()} of 1500 rows ({100 * y.mean():.2g} %) are 1"
        assert not any("imbalanced" in n for n in HeadstartClassifier(**quick).fit(*classes).notes_)

    def test_it_is_said_which_class_a_metric_is_about(self, rare: Any, quick: dict[str, Any]) -> None:
        X, y = rare
        quick |= {"include": ["gaussian_nb"], "metric": "f1"}
        names = {"sick": np.where(y, "sick", "healthy"), "ill": np.where(y, "ill", "well")}
        note = "F1 is that of 'sick', the last of the labels in order"
        assert note in HeadstartClassifier(**quick).fit(X, names["sick"]).notes_
        with pytest.warns(HeadstartWarning, match=r"of 'well', .* if you look for 'ill', rename it") as warned:
            found = HeadstartClassifier(**quick).fit(X, names["ill"])
        assert len([w for w in warned if "F1 is that of" in str(w.message)]) == 1
        assert str(warned[0].message) in found.notes_
        for metric, labels in (("f1", y), ("roc_auc", names["ill"]), ("f1_macro", names["ill"])):
            model = HeadstartClassifier(**{**quick, "metric": metric}).fit(X, labels)
            assert not any("of the labels in order" in n for n in model.notes_)


@pytest.fixture(scope="module")
def numbers() -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 3))
    return X, X[:, 0] + 0.3 * rng.normal(size=400)


class TestRows:
    @pytest.fixture
    def ridge(self) -> dict[str, Any]:
        return {"evaluations": 2, "include": ["ridge", "decision_tree"], "sandbox": False, "n_jobs": 1}

    def test_after_a_hold_out_the_members_are_fitted_on_all_rows(self, numbers: Any, ridge: dict[str, Any]) -> None:
        model = HeadstartRegressor(**ridge, splitter=0.25).fit(*numbers)
        assert {(m.rows, len(m.models)) for m in model.model_.members} == {(400, 1)}
        assert any(note.endswith("fitted on all rows") for note in model.notes_)
        assert model.model_.refit == "full"
        assert "each model was fitted to all 400 rows" in str(model.summary_)
        tree = HeadstartRegressor(**{**ridge, "include": ["decision_tree"]}, splitter=0.25, ensemble=False)
        tree.fit(*numbers)
        (fitted,) = tree.model_.members[0].models
        assert fitted.steps[-1][1].tree_.n_node_samples[0] == 400

    def test_the_model_of_one_fold_says_its_rows(self, numbers: Any, ridge: dict[str, Any]) -> None:
        model = HeadstartRegressor(**ridge, splitter=0.25, refit="single", ensemble=False).fit(*numbers)
        assert model.model_.members[0].rows == 300
        assert any(n.endswith("the model of one fold, trained on 75 % of the rows") for n in model.notes_)

    def test_the_models_of_folds_have_seen_all_rows(self, numbers: Any, ridge: dict[str, Any]) -> None:
        model = HeadstartRegressor(**ridge, splitter=4, ensemble=False).fit(*numbers)
        assert (model.model_.members[0].rows, len(model.model_.members[0].models)) == (400, 4)
        assert any(n.endswith("one pipeline, the mean of the models of its folds (4 models)") for n in model.notes_)

    def test_rows_that_the_user_keeps_apart_stay_so(self, numbers: Any, ridge: dict[str, Any]) -> None:
        pairs = [(np.arange(200), np.arange(200, 400))]
        model = HeadstartRegressor(**ridge, splitter=pairs).fit(*numbers)
        assert {m.rows for m in model.model_.members} == {200}

    def test_without_time_the_notes_say_what_was_trained_on_what(
        self, numbers: Any, ridge: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One member would take longer than there is time; nothing says that it was fitted on all rows."""
        settings = Settings.of(HeadstartRegressor(**ridge, refit="full", splitter=0.25))
        run = Run(Dataset.from_arrays(*numbers), settings)
        run.search()
        made = Assembly(run)
        trials = run.candidates()
        members = made._members(trials, np.ones(2) / 2)
        monkeypatch.setattr(type(run), "end", property(lambda _: time.time() + 100))
        slow = trials[1].number
        monkeypatch.setattr(run, "refit_seconds", lambda t: 1e6 if t.number == slow else 1.0)
        found = assembly.predictions_of(trials[0])
        rows = np.flatnonzero(assembly.is_predicted(found))
        model = made._model(made._refitted(members), assembly.Decisions(), found[rows], rows)
        notes = model.notes
        assert model.refit == "mixed"
        assert model.summary is not None
        assert model.summary.trained_rows == 350
        assert "there was no time to fit 1 of 2 pipelines on all rows" in notes
        assert notes[-1] == (
            "a hold-out of 0.25; an ensemble of 2 pipelines, 1 of them fitted on all rows, "
            "1 of them with the model of one fold, trained on 75 % of the rows"
        )

    def test_members_without_time_for_a_refit_are_bags(
        self, numbers: Any, ridge: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What they were trained on decides what is said, not what was wanted."""
        run = Run(Dataset.from_arrays(*numbers), Settings.of(HeadstartRegressor(**ridge, refit="full", splitter=4)))
        run.search()
        monkeypatch.setattr(type(run), "end", property(lambda _: time.time() + 100))
        monkeypatch.setattr(run, "refit_seconds", lambda _: 1e6)
        model = run.finish()
        assert model.refit == "bag"
        assert model.summary is not None
        assert (model.summary.rows, model.summary.trained_rows) == (400, 300)

    def test_of_windows_that_grow_the_rows_of_the_model_that_is_kept(self, numbers: Any, ridge: dict[str, Any]) -> None:
        ends = (100, 200, 370, 390)
        pairs = [(np.arange(end), np.arange(end, end + 10)) for end in ends]
        bag = HeadstartRegressor(**ridge, splitter=pairs, ensemble=False).fit(*numbers)
        assert [len(m.models) for m in bag.model_.members] == [2]
        assert bag.summary_ is not None
        assert bag.summary_.trained_rows == 380
        single = HeadstartRegressor(**ridge, splitter=pairs, ensemble=False, refit="single").fit(*numbers)
        assert [m.rows for m in single.model_.members] == [390]
        assert single.summary_ is not None
        assert single.summary_.trained_rows == 390

    def test_models_of_all_rows_are_not_taken_for_those_of_a_fold(
        self, numbers: Any, ridge: dict[str, Any], tmp_path: Any
    ) -> None:
        settings = {**ridge, "include": ["decision_tree"], "evaluations": 1, "splitter": 0.25}
        first = HeadstartRegressor(**settings, store=tmp_path / "store").fit(*numbers)
        first.save(tmp_path / "model")
        again = HeadstartRegressor.load(tmp_path / "model").set_params(refit="single")
        again.fit(*numbers, resume=True)
        (member,) = again.model_.members
        assert [m.steps[-1][1].tree_.n_node_samples[0] for m in member.models] == [300]
        assert (member.rows, again.model_.refit) == (300, "single")

    @pytest.mark.parametrize("broken", ["worker", "model"])
    def test_what_cannot_be_refitted_keeps_the_models_of_its_folds(
        self, numbers: Any, ridge: dict[str, Any], monkeypatch: pytest.MonkeyPatch, broken: str
    ) -> None:
        run = Run(Dataset.from_arrays(*numbers), Settings.of(HeadstartRegressor(**ridge, splitter=0.25)))
        run.search()

        def fail(*_: Any) -> Any:
            raise SandboxError("no worker can be started")

        def sandboxed(run: Run, objective: Any, stack: Any) -> Any:
            if broken == "worker":
                return fail
            return lambda *call: replace(objective(*call), artefacts={"models": bytes(8) + b"damaged"})

        monkeypatch.setattr(Run, "sandboxed", sandboxed)
        model = run.finish()
        assert {(m.rows, len(m.models)) for m in model.members} == {(300, 1)}
        assert model.refit == "single"
        why = "no worker can be started" if broken == "worker" else "UnpicklingError: "
        n = len(model.members)
        said = f"{n} of {n} pipelines could not be fitted on all rows and kept what the folds gave: {why}"
        assert any(note.startswith(said) for note in model.notes)

    def test_the_time_of_a_refit_is_told_by_that_of_the_trial(self, numbers: Any, ridge: dict[str, Any]) -> None:
        """Four thirds of the rows, and the root of that of the rounds."""
        settings = Settings.of(HeadstartRegressor(**{**ridge, "evaluations": 1, "splitter": 4}))
        run = Run(Dataset.from_arrays(*numbers), settings)
        run.search()
        (trial,) = run.candidates()
        assert run.refit_seconds(trial) == pytest.approx(trial.outcome.seconds / 4 * 4 / 3 * np.sqrt(4 / 3))

    def test_networks_and_forests_end_in_time(self, numbers: Any) -> None:
        """They cannot keep to rounds that a trial was stopped at; with time enough nothing changes."""
        data = Dataset.from_arrays(*numbers)
        space = choose_space(Settings(), "regression")
        for name, size in (("mlp", lambda m: m.model_.n_iter_), ("random_forest", lambda m: len(m.estimators_))):
            pipeline = space.default({"estimator": [name]})
            found = []
            for seconds in ({}, {0: 1e6}, {0: 1e-6}):
                outcome = RefitObjective(space, data, {}, seconds)(pipeline, Limits(), 0)
                found.append(size(last_step(restore(io.BytesIO(outcome.artefacts["models"]))[0])))
            assert found[0] == found[1] > 10 >= found[2]

    def test_boosters_have_more_rounds_for_more_rows(self, numbers: Any, ridge: dict[str, Any]) -> None:
        run = Run(
            Dataset.from_arrays(*numbers),
            Settings.of(HeadstartRegressor(**{**ridge, "include": ["lightgbm"]}, splitter=0.25, ensemble=False)),
        )
        run.search()
        found = run.finish().members[0]
        before = stopped_at(run.shelf.models(run.seed_of(found.number)) or [])
        assert before is not None
        assert stopped_at(found.models) == round(before * np.sqrt(4 / 3))

    def test_time_is_kept_for_it_if_there_is_something_to_refit(self, numbers: Any, ridge: dict[str, Any]) -> None:
        """Seen long after the budget began: what was kept for a refit is search time if nothing was found."""
        data, ends = Dataset.from_arrays(*numbers), {}
        for splitter in (0.25, 4):
            settings = Settings.of(HeadstartRegressor(**ridge, splitter=splitter))
            run = Run(data, settings)
            run.settings = replace(settings, time_budget=100.0)
            for searched in (False, True):
                run.started = time.time()
                ends[splitter, "begin"] = run.search_end - run.started
                run.started = time.time() - 90
                ends[splitter, searched] = run.search_end - run.started
                run.settings = settings
                if not searched:
                    run.search()
                run.settings = replace(settings, time_budget=100.0)
        assert ends[4, False] == pytest.approx(ends[0.25, False], abs=0.1)
        assert 1.0 < ends[4, True] - ends[0.25, True] < 25.0

    def test_time_is_kept_for_what_can_be_refitted_in_it(
        self, numbers: Any, ridge: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        settings = Settings.of(HeadstartRegressor(**ridge, splitter=0.25))
        run = Run(Dataset.from_arrays(*numbers), settings)
        assert run._for_refits(25.0) == 0.0  # nothing is known yet
        run.search()
        seconds = dict(zip([t.number for t in run.candidates()], (10.0, 30.0), strict=True))
        monkeypatch.setattr(run, "refit_seconds", lambda t: seconds[t.number])
        run.plan, run._slowdown = replace(run.plan, n_jobs=1), 1.0
        assert [run._for_refits(most) for most in (50.0, 40.0, 11.0, 10.0)] == [41.0, 11.0, 11.0, 0.0]
