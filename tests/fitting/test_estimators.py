"""The estimators: conventions of scikit-learn and what a user gets."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.inspection import permutation_importance as sklearn_importance
from sklearn.metrics import f1_score, get_scorer, make_scorer, mean_absolute_error, roc_auc_score
from sklearn.model_selection import GroupKFold, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from headstart import Algorithm, HeadstartClassifier, HeadstartRegressor, Integer, PipelineSpace, Stage
from headstart.data import Dataset, DataWarning, TableError
from headstart.errors import ConstraintWarning, HeadstartWarning, InvalidInput, SpaceError, UnknownName
from headstart.evaluation.live import LiveObjective
from headstart.fitting.assembly import predictions_of
from headstart.fitting.run import Run
from headstart.fitting.settings import Settings
from headstart.store import Store
from headstart.trials import Outcome, Proposal, Status, Trial

_WEIGHTS = "rows that are repeated fall into other folds than one row of twice the weight"
EXCEPTIONS = {
    "check_sample_weight_equivalence_on_dense_data": _WEIGHTS,
    "check_sample_weight_equivalence_on_sparse_data": _WEIGHTS,
}
_CHECKED = {"evaluations": 1, "splitter": 2, "sandbox": False, "n_jobs": 1}


@parametrize_with_checks(
    [HeadstartClassifier(include=["lda"], **_CHECKED), HeadstartRegressor(include=["ridge"], **_CHECKED)],
    expected_failed_checks=lambda _: EXCEPTIONS,
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


class TestClassifier:
    def test_a_table_with_everything(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        X, y = frame.drop(columns="label"), frame["label"]
        model = HeadstartClassifier(**quick).fit(X, y)
        assert model.classes_.tolist() == ["no", "yes"]
        assert model.feature_names_in_.tolist() == ["size", "weight", "colour", "day"]
        probabilities = model.predict_proba(X)
        assert probabilities.shape == (120, 2)
        np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
        assert (model.predict(X) == model.classes_[probabilities.argmax(axis=1)]).all()
        assert model.score(X, y) > 0.8

    def test_the_target_by_name_is_the_same(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        X = frame.drop(columns="label")
        apart = HeadstartClassifier(**quick).fit(X, frame["label"])
        named = HeadstartClassifier(**quick).fit(frame, target="label")
        np.testing.assert_array_equal(apart.predict_proba(X), named.predict_proba(frame))

    def test_a_file(self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any) -> None:
        path = tmp_path / "t.csv"
        frame.to_csv(path, index=False)
        model = HeadstartClassifier(**quick).fit(path, target="label")
        assert (model.predict(path) == model.predict(frame)).all()

    def test_the_score_of_a_file(self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any) -> None:
        """The target is a column of it; rows without one do not count."""
        path, table = tmp_path / "t.csv", frame.assign(label=(frame["label"] == "yes").astype(int))
        model = HeadstartClassifier(**quick).fit(table, target="label")
        found = model.score(frame.drop(columns="label")[10:], table["label"][10:])
        gaps = table.assign(label=table["label"].where(table.index >= 10))  # 0.0 and 1.0 now
        gaps.to_csv(path, index=False)
        assert model.score(path) == model.score(str(path)) == model.score(gaps) == found
        with pytest.raises(TableError, match="must have the target 'label' to be scored"):
            model.score(frame.drop(columns="label"))

    def test_the_score_for_a_target_with_half_a_character(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame, target="label")
        with pytest.raises(TableError, match="y: text must be Unicode"):
            model.leaderboard(frame, ["\ud800"] * 120)

    def test_columns_in_another_order_and_more_of_them(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame, target="label")
        other = frame[["day", "colour", "weight", "size"]].assign(new=1)
        with pytest.warns(DataWarning, match="new"):
            np.testing.assert_array_equal(model.predict_proba(other), model.predict_proba(frame))
        with pytest.raises(TableError, match="colour"):
            model.predict(frame.drop(columns="colour"))

    def test_several_classes(self, quick: dict[str, Any]) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 3))
        y = X[:, :3].argmax(axis=1) * 10
        model = HeadstartClassifier(**quick).fit(X, y)
        assert model.classes_.tolist() == [0, 10, 20]
        assert model.score(X, y) > 0.8

    def test_a_sparse_matrix(self, quick: dict[str, Any]) -> None:
        X = sparse.random(100, 30, 0.2, random_state=0, format="csr")
        y = np.asarray(X[:, 0].todense()).ravel() > 0
        model = HeadstartClassifier(**quick).fit(X, y)
        assert model.predict_proba(X).shape == (100, 2)
        with pytest.raises(InvalidInput, match="sparse"):
            model.feature_importance(X, y)

    def test_pickle(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame, target="label")
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
        assert again.leaderboard_.equals(model.leaderboard_)
        with pytest.raises(InvalidInput, match="before this model was saved"):
            again.best_pipeline_

    def test_not_fitted(self) -> None:
        for call in (lambda m: m.predict([[1]]), lambda m: m.best_pipeline_, lambda m: m.leaderboard()):
            with pytest.raises(NotFittedError):
                call(HeadstartClassifier())

    def test_clone_has_the_same_parameters(self) -> None:
        model = HeadstartClassifier(5, metric="f1", include=["lda"])
        assert clone(model).get_params() == model.get_params()

    def test_in_cross_validation(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        scores = cross_val_score(HeadstartClassifier(**quick), frame.drop(columns="label"), frame["label"], cv=2)
        assert (scores > 0.6).all()


class TestSearch:
    def test_the_same_seed_gives_the_same_leaderboard(self, frame: pd.DataFrame) -> None:
        names = ["logistic_regression", "lda", "decision_tree"]
        settings: dict[str, Any] = {"evaluations": 5, "include": names, "splitter": 3}
        first = HeadstartClassifier(**settings, n_jobs=2).fit(frame, target="label")
        second = HeadstartClassifier(**settings, n_jobs=2).fit(frame, target="label")
        columns = ["score", "pipeline", "weight", "trial"]
        assert len(first.history_) == 5
        pd.testing.assert_frame_equal(first.leaderboard_[columns], second.leaderboard_[columns])
        np.testing.assert_array_equal(first.predict_proba(frame), second.predict_proba(frame))

    def test_a_budget_that_is_too_short_gives_a_simple_model(self, frame: pd.DataFrame) -> None:
        with pytest.warns(HeadstartWarning, match="too short for one full fit"):
            model = HeadstartClassifier(time_budget=0.01).fit(frame, target="label")
        assert model.predict_proba(frame).shape == (120, 2)
        assert len(model.leaderboard_) == 0
        assert set(model.best_pipeline_.predict(frame)) == {"yes", "no"}
        assert any("too short" in note for note in model.notes_)

    def test_when_everything_fails_the_reason_is_told(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        def broken(*_: Any) -> float:
            raise RuntimeError("no score today")

        with pytest.warns(HeadstartWarning, match="no score today"):
            model = HeadstartClassifier(**quick, metric=broken).fit(frame, target="label")
        assert model.failures_["count"].sum() == 2
        assert set(model.failures_["status"]) == {"crashed"}

    def test_resume_goes_on(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame, target="label")
        first = [trial.pipeline for trial in model.history_]
        model.set_params(evaluations=4).fit(frame, target="label", resume=True)
        assert len(model.history_) == 4
        assert [trial.pipeline for trial in model.history_][:2] == first
        with pytest.raises(InvalidInput, match="same data"):
            model.fit(frame[:100], target="label", resume=True)
        with pytest.raises(InvalidInput, match="same metric"):
            model.set_params(metric="accuracy").fit(frame, target="label", resume=True)

    def test_resume_in_another_object(self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any) -> None:
        quick["store"] = tmp_path / "store"
        HeadstartClassifier(**quick).fit(frame, target="label")
        again = HeadstartClassifier(**quick).set_params(evaluations=3).fit(frame, target="label", resume=True)
        whole = HeadstartClassifier(**quick).set_params(evaluations=3, store=None).fit(frame, target="label")
        assert len(again.history_) == 3
        np.testing.assert_array_equal(again.predict_proba(frame), whole.predict_proba(frame))
        anew = HeadstartClassifier(**quick).fit(frame, target="label")
        assert len(anew.history_) == 2

    def test_resume_with_a_budget_that_would_give_other_splits(self, frame: pd.DataFrame, tmp_path: Any) -> None:
        settings: dict[str, Any] = {"include": ["lda"], "store": tmp_path, "sandbox": False, "evaluations": 1}
        first = HeadstartClassifier(60, **settings).fit(frame, target="label")
        again = HeadstartClassifier(600, **settings).set_params(evaluations=2).fit(frame, target="label", resume=True)
        assert len(again.history_) == 2
        assert again.history_[0].outcome == first.history_[0].outcome
        assert len(HeadstartClassifier(600, **settings).fit(frame, target="label")._run.plan.splits) == 15

    def test_resume_with_time_what_began_with_a_number_of_evaluations(self, frame: pd.DataFrame, tmp_path: Any) -> None:
        settings: dict[str, Any] = {"include": ["lda"], "store": tmp_path, "sandbox": False}
        HeadstartClassifier(evaluations=1, **settings).fit(frame, target="label")
        again = HeadstartClassifier(600, evaluations=2, **settings).fit(frame, target="label", resume=True)
        assert len(again.history_) == 2

    def test_resume_makes_its_model_of_what_was_found_before(
        self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any
    ) -> None:
        quick["store"] = tmp_path
        first = HeadstartClassifier(**quick).fit(frame, target="label")
        quick["evaluations"] = 2  # there is nothing left to try
        again = HeadstartClassifier(1000, **quick).fit(frame, target="label", resume=True)
        np.testing.assert_array_equal(again.predict_proba(frame), first.predict_proba(frame))

    @pytest.mark.parametrize("changes", [{}, {"deploy": "fast"}])
    def test_a_resumed_model_is_chosen_from_all_that_was_found(
        self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any, changes: dict[str, Any]
    ) -> None:
        quick |= {"include": ["knn", "gaussian_nb", "decision_tree"], "random_state": 3, **changes}
        whole = HeadstartClassifier(**{**quick, "evaluations": 14}).fit(frame, target="label")
        quick["store"] = tmp_path
        for n in (12, 13, 14):
            again = HeadstartClassifier(**{**quick, "evaluations": n}).fit(frame, target="label", resume=n > 12)
        assert [(m.number, m.weight) for m in again.model_.members] == [
            (m.number, m.weight) for m in whole.model_.members
        ]
        np.testing.assert_array_equal(again.predict_proba(frame), whole.predict_proba(frame))

    def test_damaged_predictions_cost_one_trial_not_the_model(
        self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any
    ) -> None:
        quick |= {"store": tmp_path, "evaluations": 4}
        first = HeadstartClassifier(**quick).fit(frame, target="label")
        trials = {trial.number: trial for trial in first.history_}
        best, *others = first.leaderboard_["trial"].tolist()
        files = [Path(trials[number].outcome.artefacts["predictions"]) for number in (best, *others)]
        files[0].write_bytes(files[0].read_bytes()[:200])
        np.save(files[1], np.zeros(7))
        files[2].unlink()
        again = HeadstartClassifier(**quick).fit(frame, target="label", resume=True)
        assert [m.number for m in again.model_.members] == others[2:]
        for number in (best, *others[:2]):
            assert any(f"trial {number} was left out, for its predictions are damaged" in n for n in again.notes_)
        files[3].unlink()
        with pytest.warns(HeadstartWarning, match="none of 4 pipelines that worked can be used"):
            HeadstartClassifier(**quick).fit(frame, target="label", resume=True)

    def test_what_cannot_be_fitted_again_is_left_out_of_the_model(
        self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        quick |= {"store": tmp_path, "evaluations": 3}
        quick["include"] = ["logistic_regression", "decision_tree", "gaussian_nb"]
        first = HeadstartClassifier(**quick).fit(frame, target="label")
        gone = first._run.seed_of(first.model_.best.number)
        evaluate = LiveObjective.__call__

        def evaluated(objective: Any, pipeline: Any, limits: Any, seed: int, *rest: Any) -> Outcome:
            if seed == gone:
                return Outcome.failed(Status.CRASHED, "a disk is full")
            return evaluate(objective, pipeline, limits, seed, *rest)

        monkeypatch.setattr(LiveObjective, "__call__", evaluated)
        again = HeadstartClassifier(**quick).fit(frame, target="label", resume=True)
        assert first.model_.best.number not in {m.number for m in again.model_.members}
        assert f"trial {first.model_.best.number} was left out, for it could not be fitted again" in again.notes_
        assert sum(m.weight for m in again.model_.members) == pytest.approx(1)

    @pytest.mark.parametrize("fits", [1, 0])
    def test_members_that_do_not_fit_into_memory_are_left_out(
        self, frame: pd.DataFrame, quick: dict[str, Any], monkeypatch: pytest.MonkeyPatch, fits: int
    ) -> None:
        quick |= {"evaluations": 3, "include": ["logistic_regression", "decision_tree", "gaussian_nb"]}
        whole = HeadstartClassifier(**quick, memory_limit=10**12).fit(frame, target="label")
        assert len(whole.model_.members) > 1
        assert not any("memory_limit" in note for note in whole.notes_)
        seeds = [whole._run.seed_of(m.number) for m in sorted(whole.model_.members, key=lambda m: -m.weight)]
        sizes = {seed: 2 * 10**12 + place for place, seed in enumerate(seeds)}
        if fits:
            sizes[seeds[1]] = 0
        monkeypatch.setattr("headstart.fitting.shelf.Shelf.size", lambda _, seed: sizes[seed])
        small = HeadstartClassifier(**quick, memory_limit=10**12).fit(frame, target="label")
        (member,) = small.model_.members
        assert small._run.seed_of(member.number) == seeds[fits]  # the one that fits, or the smallest
        assert member.weight == 1
        assert any(f"{len(seeds) - 1} of {len(seeds)} members were left out" in note for note in small.notes_)

    def test_resume_of_a_loaded_model_takes_its_fitted_models(
        self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        quick |= {"store": tmp_path / "store", "evaluations": 3}
        quick["include"] = ["logistic_regression", "decision_tree", "gaussian_nb"]
        first = HeadstartClassifier(**quick).fit(frame, target="label")
        first.save(tmp_path / "model")
        assert len(first.model_.members) > 1
        fitted: list[int] = []
        monkeypatch.setattr(
            "headstart.evaluation.live.LiveObjective.__call__",
            lambda *args, **_: fitted.append(args[3]) or pytest.fail("fitted again"),
        )
        again = HeadstartClassifier.load(tmp_path / "model").fit(frame, target="label", resume=True)
        assert fitted == []
        np.testing.assert_allclose(again.predict_proba(frame), first.predict_proba(frame))

    def test_resume_of_a_loaded_model_fits_again_what_it_has_not_or_has_not_seen(
        self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any
    ) -> None:
        quick |= {"store": tmp_path / "store", "evaluations": 1}
        HeadstartClassifier(**quick).fit(frame, target="label").save(tmp_path / "one")
        full = (
            HeadstartClassifier(**quick).set_params(evaluations=3, refit="full").fit(frame, target="label", resume=True)
        )
        full.save(tmp_path / "full")
        for name in ("one", "full"):  # the latter has no models of folds
            again = HeadstartClassifier.load(tmp_path / name).set_params(evaluations=3, refit="bag")
            again.fit(frame, target="label", resume=True)
            assert {m.number for m in again.model_.members} == {m.number for m in full.model_.members}
            assert all(len(m.models) == 3 for m in again.model_.members)

    def test_resume_without_time_says_so(self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any) -> None:
        quick["store"] = tmp_path
        HeadstartClassifier(**quick).fit(frame, target="label")
        again = HeadstartClassifier(1e-4, **{**quick, "sandbox": True})
        with pytest.warns(HeadstartWarning, match="could not be fitted again"):
            again.fit(frame, target="label", resume=True)

    def test_resume_in_one_object_plans_anew(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame, target="label")
        model.set_params(evaluations=3, evaluation_seconds=77).fit(frame, target="label", resume=True)
        run = model._run
        assert run is not None
        assert run.study.limits.seconds == 77
        splits = [(np.arange(60), np.arange(60, 120)), (np.arange(60, 120), np.arange(60))]
        own = HeadstartClassifier(**{**quick, "splitter": splits}).fit(frame, target="label")
        own.set_params(splitter=[(a.copy(), b.copy()) for a, b in splits]).fit(frame, target="label", resume=True)

    def test_a_resume_is_checked_as_a_fit_is(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame, target="label")
        with pytest.raises(InvalidInput, match=r"tune_threshold needs a metric of labels.*got 'roc_auc'"):
            model.set_params(tune_threshold=True).fit(frame, target="label", resume=True)
        assert model._run is not None
        assert not model._run.settings.tune_threshold

    def test_a_refused_resume_leaves_the_model(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame, target="label")
        with pytest.raises(InvalidInput):
            model.fit(frame[:100], target="label", resume=True)
        assert len(model.predict(frame)) == 120

    def test_metrics_of_one_name_and_constraints_are_other_problems(
        self, frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any
    ) -> None:
        quick["store"] = tmp_path
        for changes in (
            {"metric": make_scorer(f1_score, pos_label=1)},
            {"metric": make_scorer(f1_score, pos_label=0)},
            {"metric": lambda model, X, y: 1.0},
            {"metric": lambda model, X, y: 2.0},
            {"constraints": {"size": 1e9}},
            {"constraints": {"size": 1e8}},
        ):
            HeadstartClassifier(**quick, **changes).fit(frame, target="label")
        with Store.open(tmp_path) as store:
            assert len({study.task_key for study in store.studies()}) == 6

    def test_limits_relax_while_nothing_ends_in_time(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        run = Run(Dataset.from_table(frame, "label"), Settings(60, evaluations=1, sandbox=False))
        before = run.study.limits.seconds
        assert before is not None
        failed = Outcome.failed(Status.TIMEOUT, "too long")
        run.relax(Trial(Proposal(0, run.space.default()), failed, 0.0, 1.0))
        assert run.study.limits.seconds == 2 * before

    def test_nothing_to_resume(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match="nothing to resume"):
            HeadstartClassifier(**quick).fit(frame, target="label", resume=True)

    def test_constraints_give_one_pipeline_that_keeps_them(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick, constraints={"size": 1e9}).fit(frame, target="label")
        assert len(model.model_.members) == 1
        with pytest.warns(ConstraintWarning, match="no pipeline satisfied the constraints"):
            small = HeadstartClassifier(**quick, constraints={"size": 1.0}).fit(frame, target="label")
        sizes = {trial.number: trial.outcome.constraints["size"] for trial in small.history_}
        assert small.model_.members[0].number == min(sizes, key=lambda number: sizes[number])
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConstraintWarning)
            with pytest.raises(ConstraintWarning, match=r"the lowest size found was .* bounded by size <= 1 B"):
                HeadstartClassifier(**quick, constraints={"size": 1.0}).fit(frame, target="label")

    def test_weights_and_groups(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        X, y = frame.drop(columns="label"), frame["label"]
        groups = np.arange(120) // 4
        quick["splitter"] = GroupKFold(3)
        plain = HeadstartClassifier(**quick).fit(X, y, groups=groups)
        weighted = HeadstartClassifier(**quick).fit(X, y, np.where(y == "yes", 10.0, 1.0), groups)
        assert weighted.predict_proba(X)[:, 1].mean() > plain.predict_proba(X)[:, 1].mean()
        run = plain._run
        assert run is not None
        for train, valid in run.plan.splits:
            assert not set(groups[train]) & set(groups[valid])


class TestModel:
    @pytest.mark.parametrize("refit", ["bag", "full", "single"])
    def test_refit(self, frame: pd.DataFrame, quick: dict[str, Any], refit: Any) -> None:
        model = HeadstartClassifier(**quick, refit=refit).fit(frame, target="label")
        counts = [len(member.models) for member in model.model_.members]
        assert set(counts) == ({3} if refit == "bag" else {1})
        assert model.score(frame, frame["label"]) > 0.8

    def test_bagging_is_the_mean_of_the_folds(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick, ensemble=False).fit(frame, target="label")
        (member,) = model.model_.members
        ready = model.model_.schema.apply(frame.drop(columns="label"))
        expected = np.mean([fold.predict_proba(ready) for fold in member.models], axis=0)
        np.testing.assert_allclose(model.predict_proba(frame), expected)

    def test_the_ensemble_is_not_worse_on_validation_rows(self, frame: pd.DataFrame) -> None:
        names = ["logistic_regression", "decision_tree", "knn", "gaussian_nb"]
        model = HeadstartClassifier(evaluations=6, include=names, splitter=3, sandbox=False).fit(frame, target="label")
        run = model._run
        assert run is not None
        assert run.dataset.y is not None
        predictions = {t.number: predictions_of(t) for t in run.history}
        together = sum(m.weight * predictions[m.number] for m in model.model_.members)
        best = max(roc_auc_score(run.dataset.y, p[:, 1]) for p in predictions.values())
        assert roc_auc_score(run.dataset.y, together[:, 1]) >= best

    def test_a_pipeline_that_tells_nothing_is_no_member(self, frame: pd.DataFrame) -> None:
        space = PipelineSpace(
            "s",
            [
                Stage(
                    "estimator",
                    [
                        Algorithm("tree", "sklearn.tree:DecisionTreeClassifier", [Integer("max_depth", 1, 3)]),
                        Algorithm("dummy", "sklearn.dummy:DummyClassifier"),
                    ],
                )
            ],
        )
        model = HeadstartClassifier(evaluations=4, space=space, splitter=3, sandbox=False).fit(frame, target="label")
        assert "dummy" in set(model.leaderboard_["estimator"])
        assert {member.pipeline.algorithms[-1] for member in model.model_.members} == {"tree"}

    def test_at_most_so_many_members(self, frame: pd.DataFrame) -> None:
        names = ["logistic_regression", "decision_tree", "knn", "gaussian_nb"]
        model = HeadstartClassifier(evaluations=4, include=names, max_members=1, splitter=3, sandbox=False)
        assert len(model.fit(frame, target="label").model_.members) == 1

    def test_the_best_pipeline_is_plain_scikit_learn(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame, target="label")
        best = model.best_pipeline_
        assert isinstance(best, Pipeline)
        assert best is model.best_pipeline_
        X = frame.drop(columns="label")
        assert set(best.predict(X)) <= {"yes", "no"}
        again = clone(best).fit(X, frame["label"])
        np.testing.assert_allclose(again.predict_proba(X), best.predict_proba(X))

    def test_the_best_pipeline_reads_dates_as_the_table_had_them(self, quick: dict[str, Any]) -> None:
        days = pd.date_range("2024-01-01", periods=120)
        table = pd.DataFrame({"day": days.strftime("%d.%m.%Y"), "y": np.where(days.day > 15, "late", "early")})
        quick["include"] = ["decision_tree"]
        model = HeadstartClassifier(**quick).fit(table, target="y")
        early = pd.DataFrame({"day": ["01.02.2025", "05.12.2025", "11.03.2025"]})
        assert model.best_pipeline_.predict(early).tolist() == model.predict(early).tolist() == ["early"] * 3

    def test_times_are_predicted_by_the_models_that_saw_most(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        del quick["splitter"]
        for refit in ("bag", "single"):
            model = HeadstartClassifier(**quick, refit=refit, ensemble=False)
            model.fit(frame, target="label", times=np.arange(120))
            run = model._run
            assert run is not None
            sizes = [len(train) for train, _ in run.plan.splits]
            assert len(model.model_.members[0].models) == sum(size >= 0.9 * max(sizes) for size in sizes) == 1
            last = run.shelf.models(run.seed_of(model.model_.members[0].number))
            assert last is not None
            X = run.dataset.X
            np.testing.assert_array_equal(model.predict_proba(frame), last[-1].predict_proba(X))

    def test_folds_that_lack_a_class(self, quick: dict[str, Any]) -> None:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 3))
        rare = np.zeros(150, dtype=int)
        rare[:3] = 1
        model = HeadstartClassifier(**{**quick, "splitter": 5}).fit(X, rare)
        assert len(model.leaderboard_) == 2
        few = np.arange(150) % 3
        few[few == 2] = 0
        few[:2] = 2
        model = HeadstartClassifier(**{**quick, "splitter": 5}, metric="roc_auc").fit(X, few)
        assert len(model.leaderboard_) == 2

    def test_reports_use_the_tuned_thresholds(self) -> None:
        rng = np.random.default_rng(1)
        X = rng.normal(size=(400, 2))
        y = (X[:, 0] + rng.normal(size=400) > 1.6).astype(int)
        model = HeadstartClassifier(
            evaluations=1, include=["logistic_regression"], metric="f1", tune_threshold=True, splitter=3, sandbox=False
        ).fit(X, y)
        assert model.model_.decisions.factors is not None
        table = model.leaderboard(X, y).set_index("estimator")
        assert table.loc["model", "test_score"] == pytest.approx(f1_score(y, model.predict(X)))
        plain = f1_score(y, model.predict_proba(X)[:, 1] > 0.5)
        assert table.loc["model", "test_score"] > plain

    def test_thresholds_are_for_metrics_of_labels(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match="needs a metric of labels"):
            HeadstartClassifier(**quick, tune_threshold=True).fit(frame, target="label")

    def test_thresholds_and_calibration(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick, metric="f1", tune_threshold=True, calibrate=True)
        with pytest.raises(TypeError):
            HeadstartRegressor(calibrate=True)  # type: ignore[call-arg]
        model.fit(frame, target="label")
        assert any("threshold" in note for note in model.notes_)
        assert any("temperature" in note for note in model.notes_)
        assert set(model.predict(frame)) == {"yes", "no"}


class TestReports:
    def test_the_leaderboard_is_sorted_by_the_metric(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick, metric="accuracy").fit(frame, target="label")
        table = model.leaderboard_
        assert table["score"].is_monotonic_decreasing
        assert table["score"].between(0, 1).all()
        assert table["weight"].sum() == pytest.approx(1.0)

    def test_the_score_of_a_model_of_one_pipeline_is_that_of_the_pipeline(
        self, frame: pd.DataFrame, quick: dict[str, Any]
    ) -> None:
        model = HeadstartClassifier(**quick, ensemble=False).fit(frame, target="label")
        assert model.model_.validation_score == pytest.approx(model.leaderboard_["score"][0], rel=1e-12)

    def test_test_scores(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        model = HeadstartClassifier(**quick).fit(frame[:80], target="label")
        table = model.leaderboard(frame[80:]).set_index("estimator")
        probabilities = model.predict_proba(frame[80:])[:, 1]
        expected = roc_auc_score(frame["label"][80:], probabilities)
        assert table.loc["model", "test_score"] == pytest.approx(expected)
        assert (
            model.leaderboard(frame[80:].drop(columns="label"), frame["label"][80:]).shape == table.reset_index().shape
        )
        with pytest.raises(InvalidInput, match="maybe"):
            model.leaderboard(frame[80:].assign(label="maybe"))

    def test_importance_is_that_of_scikit_learn(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        X, y = frame.drop(columns="label"), frame["label"]
        model = HeadstartClassifier(**quick).fit(X, y)
        found = model.feature_importance(X, y, repeats=8).set_index("feature")
        scorer = get_scorer("roc_auc")
        oracle = sklearn_importance(model, X, y, scoring=scorer, n_repeats=8, random_state=1)
        expected = pd.Series(oracle.importances_mean, X.columns)
        assert found["importance"].idxmax() == expected.idxmax()
        np.testing.assert_allclose(found["importance"][X.columns], expected, atol=0.06)

    def test_importance_is_the_same_however_many_rows_are_predicted_at_once(
        self, frame: pd.DataFrame, quick: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X, y = frame.drop(columns="label").assign(number=[f"N{i:04}" for i in range(len(frame))]), frame["label"]
        model = HeadstartClassifier(**quick, kinds={"number": "id"}).fit(X, y)
        told: list[tuple[int, int]] = []
        together = model.feature_importance(X, y, repeats=5, progress=lambda done, of: told.append((done, of)))
        for rows in (1, 2 * len(X)):
            monkeypatch.setattr("headstart.fitting.reports.BATCH_ROWS", rows)
            apart = model.feature_importance(X, y, repeats=5)
            pd.testing.assert_frame_equal(apart, together)
        assert told == [(i, 4) for i in range(4)]  # one of the five columns is not used
        assert "number" not in set(together["feature"])
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            hurried = model.feature_importance(X, y, time_budget=1e-3)
        assert 1 <= len(hurried) < 4
        assert any("there was time for" in str(warning.message) for warning in said)
        assert together["std"].max() > 0


class TestRegressor:
    def test_a_table(self, frame: pd.DataFrame) -> None:
        target = frame["weight"] * 3 + (frame["colour"] == "red")
        X = frame.drop(columns="weight").assign(other=frame["weight"])
        settings: dict[str, Any] = {"evaluations": 2, "include": ["ridge", "decision_tree"], "sandbox": False}
        model = HeadstartRegressor(**settings, splitter=KFold(3, shuffle=True, random_state=0)).fit(X, target)
        assert model.score(X, target) > 0.9
        assert not hasattr(model, "classes_")
        assert (model.leaderboard_["score"] < 0).all()
        assert model.feature_importance(X, target)["feature"][0] == "other"

    def test_own_metric(self, frame: pd.DataFrame) -> None:
        scorer = make_scorer(mean_absolute_error, greater_is_better=False)
        settings: dict[str, Any] = {"evaluations": 2, "include": ["ridge"], "sandbox": False, "splitter": 3}
        own = HeadstartRegressor(**settings, metric=scorer).fit(frame.drop(columns="label"), target="weight")
        named = HeadstartRegressor(**settings, metric="neg_mean_absolute_error")
        named.fit(frame.drop(columns="label"), target="weight")
        np.testing.assert_allclose(own.leaderboard_["score"], named.leaderboard_["score"])


class TestBadInput:
    @pytest.mark.parametrize(
        ("settings", "error", "message"),
        [
            ({"time_budget": 0}, InvalidInput, "time_budget must be a positive number, got 0"),
            ({"time_budget": -1}, InvalidInput, "time_budget must be a positive number, got -1"),
            ({"time_budget": float("nan")}, InvalidInput, "time_budget must be a positive number, got nan"),
            ({"time_budget": float("inf")}, InvalidInput, "finite"),
            ({"time_budget": "60"}, InvalidInput, "got '60'"),
            ({"evaluations": 0}, InvalidInput, "evaluations must be a positive whole number"),
            ({"evaluations": 2.5}, InvalidInput, "evaluations must be a positive whole number"),
            ({"metric": "acuracy"}, UnknownName, "did you mean 'accuracy'"),
            ({"metric": "r2"}, InvalidInput, "is for regression"),
            ({"metric": 3}, TypeError, "name of a scorer or a callable"),
            ({"kinds": "numeric"}, TableError, "kinds must be a mapping"),
            ({"optimizer": "bays"}, UnknownName, "did you mean 'bayes'"),
            ({"space": "clasification"}, UnknownName, "did you mean 'classification'"),
            ({"space": 3}, InvalidInput, "must be a PipelineSpace"),
            ({"include": ["lightgbn"]}, SpaceError, "did you mean 'lightgbm'"),
            ({"include": "lightgbm"}, SpaceError, "write"),
            ({"exclude": ["nothing"]}, SpaceError, "no algorithm 'nothing'"),
            ({"refit": "all"}, InvalidInput, "refit must be one of"),
            ({"n_jobs": 0}, InvalidInput, "n_jobs must be"),
            ({"n_jobs": 1.5}, InvalidInput, "n_jobs must be"),
            ({"memory_limit": 4}, InvalidInput, "in bytes"),
            ({"memory_limit": 10**7}, InvalidInput, "must be at least"),
            ({"random_state": -1}, InvalidInput, "random_state must be"),
            ({"max_members": 0}, InvalidInput, "max_members must be"),
            ({"constraints": {"latency": "fast"}}, InvalidInput, "bounded by a number"),
            ({"constraints": {"latncy": 1}}, UnknownName, "did you mean 'latency'"),
            ({"kinds": {"colour": "colour"}}, ValueError, "colour"),
            ({"splitter": 1}, ValueError, "folds"),
        ],
    )
    def test_settings(self, frame: pd.DataFrame, settings: Any, error: type[Exception], message: str) -> None:
        with pytest.raises(error, match=message):
            HeadstartClassifier(**{"evaluations": 1, "sandbox": False, **settings}).fit(frame, target="label")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda f: f[:3], "at least 4 rows"),
            (lambda f: f.assign(label="yes"), "at least two classes"),
            (lambda f: f.assign(label=None), "label"),
            (lambda f: f[["label"]], "at least one feature"),
            (lambda f: f.rename(columns={"size": "weight"}), "weight"),
            (lambda f: f.rename(columns={"label": "labels"}), "did you mean 'labels'"),
            (lambda f: f[:0], "at least one row"),
        ],
    )
    def test_tables(self, frame: pd.DataFrame, quick: dict[str, Any], change: Any, message: str) -> None:
        with pytest.raises((TableError, InvalidInput), match=message):
            HeadstartClassifier(**quick).fit(change(frame), target="label")

    def test_a_constant_target(self, frame: pd.DataFrame) -> None:
        with pytest.raises(TableError, match="must vary"):
            HeadstartRegressor(evaluations=1, sandbox=False).fit(frame.assign(label=1.0), target="label")

    def test_both_forms_of_the_target(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        with pytest.raises(InvalidInput, match="not both"):
            HeadstartClassifier(**quick).fit(frame, frame["label"], target="label")

    def test_all_features_missing(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        empty = frame.assign(size=np.nan, weight=np.nan, colour=None, day=None)
        with pytest.raises((TableError, InvalidInput)):
            HeadstartClassifier(**quick).fit(empty, target="label")

    def test_a_dataset_with_roles(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        dataset = Dataset.from_table(frame, "label")
        with pytest.raises(InvalidInput, match="weights"):
            HeadstartClassifier(**quick).fit(dataset, sample_weight=np.ones(120))

    def test_a_dataset_of_another_task(self, frame: pd.DataFrame, quick: dict[str, Any]) -> None:
        dataset = Dataset.from_table(frame.drop(columns="label"), "weight")
        with pytest.raises(InvalidInput, match="regression"):
            HeadstartClassifier(**quick).fit(dataset)
