"""The model under constraints: as it is delivered, it satisfies them."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier
from headstart.constraints import Constraint
from headstart.data import Dataset
from headstart.data.schema import Schema
from headstart.errors import HeadstartWarning
from headstart.evaluation import constraints, prediction
from headstart.evaluation.constraints import pickled_size
from headstart.fitting import assembly
from headstart.fitting.run import Run
from headstart.fitting.settings import Settings


@pytest.fixture(scope="module")
def searched(frame: pd.DataFrame) -> Run:
    """Some pipelines with their models; each test puts its own bounds on them."""
    bounds = dict.fromkeys(("size", "latency", "false_positive_rate", "disparity(colour, accuracy)"), np.inf)
    run = Run(
        Dataset.from_table(frame, "label"),
        Settings(
            evaluations=6,
            include=["logistic_regression", "decision_tree", "knn"],
            splitter=3,
            sandbox=False,
            constraints=bounds,
            metric="accuracy",
        ),
    )
    run.search()
    return run


def finished(run: Run, *constraints: Constraint, **changes: Any) -> Any:
    """The model under other bounds, as if they had been given from the start."""
    before = run.task, run.history.constraints, run.settings
    run.task = replace(run.task, constraints=constraints)
    run.history.constraints = constraints
    run.settings = replace(run.settings, **changes)
    try:
        return run.finish()
    finally:
        run.task, run.history.constraints, run.settings = before


def best(run: Run) -> Any:
    return run.candidates()[0]


def member(run: Run, trial: Any) -> Any:
    return assembly.Assembly(run)._members([trial], np.ones(1))[0]


def size(run: Run, *models: Any) -> float:
    """Of the file of a model of these."""
    return assembly.Assembly(run)._measured(replace(member(run, best(run)), models=models))["size"]


def sizes(run: Run, trial: Any) -> list[float]:
    return [size(run, model) for model in member(run, trial).models]


def test_a_bag_within_its_bounds_stays_one(searched: Run) -> None:
    bound = Constraint("size", size(searched, *member(searched, best(searched)).models) + 100)
    model = finished(searched, bound)
    assert (len(model.members), len(model.members[0].models), model.refit) == (1, 3, "bag")
    assert model.members[0].number == best(searched).number
    assert any(note.startswith("constraints are satisfied: size <=") for note in model.notes)


def test_a_bag_over_its_bound_becomes_the_model_of_one_fold(searched: Run) -> None:
    of_folds = sizes(searched, best(searched))
    model = finished(searched, Constraint("size", max(of_folds) + 100))
    assert (len(model.members[0].models), model.refit) == (1, "single")
    assert model.members[0].number == best(searched).number
    assert size(searched, *model.members[0].models) == of_folds[-1]
    assert any("so one is used" in note for note in model.notes)


def test_of_several_folds_one_that_is_within_the_bound(searched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = pickled_size((searched.shelf.models(searched.seed_of(best(searched).number)) or [])[:1])

    def measured(self: Any, member: Any) -> dict[str, float]:
        return {"size": 0.0 if len(member.models) == 1 and pickled_size(member.models) == wanted else np.inf}

    monkeypatch.setattr(assembly.Assembly, "_measured", measured)
    model = finished(searched, Constraint("size", 1e9))
    assert (pickled_size(model.members[0].models), model.refit) == (wanted, "single")


def test_the_next_candidate_where_the_first_is_over_its_bound_after_all(
    searched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a latency that was measured as lower than it is."""
    first, second, *_ = searched.candidates()

    def measured(self: Any, member: Any) -> dict[str, float]:
        return {"latency": 2.0 if member.number == first.number else 0.5}

    monkeypatch.setattr(assembly.Assembly, "_measured", measured)
    model = finished(searched, Constraint("latency", 1.0))
    assert (model.members[0].number, model.refit) == (second.number, "bag")
    assert any("latency <= 1 s (500 ms)" in note for note in model.notes)
    with pytest.warns(HeadstartWarning, match=r"the nearest one: latency 500 ms \(must be at most 200 ms\)"):
        model = finished(searched, Constraint("latency", 0.2))


def test_latency_is_that_of_all_models_that_predict(searched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that each prediction moves on by three seconds, and bringing a table into its form by two."""
    made = assembly.Assembly(searched)
    whole = member(searched, best(searched))
    now = [0.0]
    predictions = prediction._predictions

    def slow(last: Any, shape: Any) -> Any:
        predict = predictions(last, shape)

        def slowly(X: Any) -> Any:
            now[0] += 3.0
            return predict(X)

        return slowly

    apply = Schema.apply

    def applied(schema: Schema, source: Any) -> Any:
        now[0] += 2.0
        return apply(schema, source)

    monkeypatch.setattr(prediction, "_predictions", slow)
    monkeypatch.setattr(Schema, "apply", applied)
    monkeypatch.setattr(constraints, "_seconds_in_queue", lambda: 0.0)
    monkeypatch.setattr(constraints.time, "perf_counter", lambda: now[0])
    rows = len(searched.plan.splits[-1][1])
    for n in (1, 3):
        found = made._measured(replace(whole, models=whole.models[:n]))
        assert found["latency"] == pytest.approx((3.0 * n + 2.0) / rows)


def test_latency_is_the_median_of_calls(searched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter([0.09, 0.01, 0.03, 0.02, 0.04, 0.02, 0.01])
    monkeypatch.setattr(assembly, "timed", lambda call, repeat: (call(), next(took)))
    rows = len(searched.plan.splits[-1][1])
    found = assembly.Assembly(searched)._measured(member(searched, best(searched)))
    assert found["latency"] == pytest.approx(0.02 / rows)


def test_a_refit_over_its_bound_becomes_the_model_of_a_fold(searched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    bound = Constraint("size", max(sizes(searched, best(searched))) + 100)
    model = finished(searched, Constraint("size", 10 * bound.upper), refit="full")
    assert model.refit == "full"
    padded = assembly.Assembly._refitted

    def large(self: Any, members: Any) -> Any:
        return [replace(m, models=[(m.models[0], b"0" * 10**6)]) for m in padded(self, members)]

    monkeypatch.setattr(assembly.Assembly, "_refitted", large)
    model = finished(searched, bound, refit="full")
    assert (model.refit, len(model.members[0].models)) == ("single", 1)


def test_a_refit_without_time_is_a_bag(searched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly.Assembly, "_refitted", lambda _, members: list(members))
    model = finished(searched, Constraint("size", 1e9), refit="full")
    assert (model.refit, len(model.members[0].models)) == ("bag", 3)
    assert model.summary.trained_rows == 80
    bound = Constraint("size", max(sizes(searched, best(searched))) + 100)
    model = finished(searched, bound, refit="full")
    assert (model.refit, len(model.members[0].models), model.summary.trained_rows) == ("single", 1, 80)


@pytest.fixture
def probable(frame: pd.DataFrame) -> Run:
    """Pipelines that are judged by their probabilities, which are calibrated."""
    settings = Settings(
        evaluations=3,
        include=["logistic_regression", "decision_tree"],
        splitter=3,
        sandbox=False,
        constraints={"latency": np.inf},
        metric="neg_log_loss",
    )
    run = Run(Dataset.from_table(frame, "label"), settings)
    run.search()
    return run


def test_the_summary_is_that_of_the_pipeline_which_is_delivered(probable: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several candidates, none within its bound, that which came nearest, not the last one that was looked at."""
    first = best(probable)
    monkeypatch.setattr(
        assembly.Assembly, "_measured", lambda _, m: {"latency": 2.0 if m.number == first.number else 3.0}
    )
    with pytest.warns(HeadstartWarning, match="the nearest one"):
        model = finished(probable, Constraint("latency", 1.0))
    assert model.members[0].number == first.number
    assert model.summary.score == pytest.approx(-model.validation_score)


def test_the_simple_model_has_no_summary(probable: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though others were judged before their models turned out not to be loadable."""

    def broken(*_: Any) -> Any:
        raise RuntimeError("not here")

    monkeypatch.setattr(probable.shelf, "models", broken)
    with pytest.warns(HeadstartWarning, match="the model is a simple one"):
        model = finished(probable, Constraint("latency", 1.0))
    assert (model.members[0].number, model.summary, model.validation_score, model.refit) == (-1, None, None, None)


def test_thresholds_that_exceed_a_bound_are_not_tuned(searched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assembly, "fit_factors", lambda *_, **__: (1e-6, 1.0))  # everything is positive
    bound = Constraint("false_positive_rate", 0.5)
    settings = {"tune_threshold": True, "metric": "accuracy"}
    model = finished(searched, bound, **settings)
    assert model.decisions.factors is None
    assert any("false_positive_rate 1 (must be at most 0.5)" in note for note in model.notes)
    assert finished(searched, Constraint("false_positive_rate", 1.0), **settings).decisions.factors is not None


def test_nothing_satisfies_them(searched: Run) -> None:
    with pytest.warns(HeadstartWarning, match=r"no pipeline satisfied the constraints.*size .* B\)"):
        model = finished(searched, Constraint("size", 10.0), Constraint("false_positive_rate", 1.0))
    smallest = min(searched.history, key=lambda t: t.outcome.constraints["size"])
    assert model.members[0].number == smallest.number
    assert size(searched, *model.members[0].models) == min(sizes(searched, smallest))


def test_the_file_is_within_the_bound(frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Path) -> None:
    """As pickles the models of all folds are within it, as a file they are not."""
    plain = HeadstartClassifier(**quick, ensemble=False).fit(frame, target="label")
    plain.save(tmp_path / "plain")
    [bag] = plain.model_.members
    bound = (tmp_path / "plain").stat().st_size - 100
    assert pickled_size(bag.models) < bound
    small = HeadstartClassifier(**quick, constraints={"size": bound}).fit(frame, target="label")
    small.save(tmp_path / "small")
    assert small.model_.refit == "single"
    assert (tmp_path / "small").stat().st_size <= bound
    small.set_params(constraints={"size": 1000})
    with pytest.warns(HeadstartWarning, match=r"small does not satisfy size <= 1 kB: it has \d+"):
        small.save(tmp_path / "small")


def test_the_leaderboard_has_the_values(frame: pd.DataFrame, quick: dict[str, Any]) -> None:
    with pytest.warns(HeadstartWarning, match=r"the lowest size found was \d.*, bounded by size <= 10 B; the model is"):
        model = HeadstartClassifier(**quick, constraints={"size": 10, "latency": 1.0}).fit(frame, target="label")
    values = {t.number: t.outcome.constraints["size"] for t in model.history_}
    table = model.leaderboard_
    assert len(table) == 2
    assert table.set_index("trial")["size"].to_dict() == values
    assert table["size"].is_monotonic_increasing  # the nearest comes first
    assert (table["latency"] > 0).all()


def test_a_model_that_is_too_large_is_warned_of_once(
    frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Path
) -> None:
    """The fit says so, with an upper bound of the size; saving it says it only if the fit could not know."""
    with pytest.warns(HeadstartWarning, match=r"size at most \d.* \(must be at most 10 B\)"):
        model = HeadstartClassifier(**quick, constraints={"size": 10}).fit(frame, target="label")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "model")


def test_a_fit_with_constraints_as_text(frame: pd.DataFrame, quick: dict[str, Any]) -> None:
    texts: Any = ["latency <= 1s", "size <= 10MB", "disparity(colour, accuracy) <= 0.9", "parity(size: 0) <= 1"]
    model = HeadstartClassifier(**quick, constraints=texts).fit(frame, target="label")
    measured = model.history_.best.outcome.constraints
    assert set(measured) == {"latency", "size", "disparity(colour, accuracy)", "parity(size: 0)"}
    assert all(value > 0 for value in measured.values())
    assert any(note.startswith("constraints are satisfied: latency <= 1 s (") for note in model.notes_)


@pytest.mark.parametrize(("factors", "share"), [(None, 0.4), ((0.5, 1.5), 0.1)])
def test_a_fast_model_is_the_smallest_that_is_good_enough(
    searched: Run, monkeypatch: pytest.MonkeyPatch, factors: Any, share: float
) -> None:
    """With the thresholds that the ensemble is selected with; these let no pipeline alone be good enough."""
    monkeypatch.setattr(assembly, "FAST_LOSS", share)  # so few rows tell pipelines apart by more than a hundredth
    monkeypatch.setattr(assembly, "fit_factors", lambda *_, **__: factors)
    model = finished(searched, deploy="fast", tune_threshold=True)
    best = finished(searched, tune_threshold=True)
    trials = {t.number: t for t in searched.history}
    y = searched.dataset.y
    assert y is not None
    constant = 1 - np.bincount(y).max() / len(y)

    def good(factors: Any) -> list[int]:
        def loss(predictions: Any) -> float:
            return float(((predictions * (factors or (1.0, 1.0))).argmax(axis=1) != y).mean())

        whole = loss(sum(m.weight * assembly.predictions_of(trials[m.number]) for m in best.members))
        most = whole + share * (constant - whole)
        found = [n for n, trial in trials.items() if loss(assembly.predictions_of(trial)) <= most]
        return sorted(found, key=lambda n: pickled_size(member(searched, trials[n]).models))

    assert 0 < len(good(None)) < len(trials)
    assert bool(good(factors)) == (len(model.members) == 1)
    assert all(len(m.models) == 1 for m in model.members)
    assert model.refit == "full"
    if factors is None:
        assert model.members[0].number == good(None)[0]
    else:
        assert good(factors) == []
    assert any(note.startswith("deploy is fast: accuracy 0.") for note in model.notes)


def test_thresholds_for_the_selection_are_tuned_once_and_in_time(
    searched: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "FAST_LOSS", -1e9)  # all numbers of members are tried
    now, shares = time.time(), []

    def factors(probabilities: Any, loss: Any, deadline: float | None = None) -> None:
        shares.append(None if deadline is None else (deadline - now) / 1000)

    monkeypatch.setattr(assembly, "fit_factors", factors)
    monkeypatch.setattr(type(searched), "end", property(lambda _: now + 1000))
    finished(searched, deploy="fast", tune_threshold=True)
    assert len(shares) == 3  # for the selection, for the model, for the linear model beside it
    assert 0 < shares[0] < 0.5


def test_a_fast_model_may_be_a_small_ensemble(searched: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no pipeline alone is good enough, as when a few are much better together."""
    monkeypatch.setattr(assembly, "FAST_LOSS", -1e9)
    model = finished(searched, deploy="fast")
    assert [m.number for m in model.members] == [m.number for m in finished(searched).members]
    assert all(len(m.models) == 1 for m in model.members)
