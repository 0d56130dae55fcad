"""What ends with the budget: the search, the simple model, the loading of members."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.data import Dataset
from headstart.errors import HeadstartWarning, SandboxError
from headstart.evaluation.kept_models import keep, restore
from headstart.fitting import assembly, simple
from headstart.fitting.run import Run
from headstart.fitting.settings import Settings
from headstart.fitting.simple import SIMPLE, WithSimple, constant
from headstart.trials import Fidelity, Limits, Outcome, Status


class Asked:
    """In the place of a sandbox: notes what it is asked for and answers at once."""

    def __init__(self, ok: bool) -> None:
        self.ok = ok
        self.requests: list[tuple[Any, Limits, Fidelity]] = []

    def __call__(self, pipeline: Any, limits: Limits, seed: int, fidelity: Fidelity) -> Outcome:
        self.requests.append((pipeline, limits, fidelity))
        if not self.ok:
            return Outcome.failed(Status.TIMEOUT, "took long", fidelity=fidelity)
        return Outcome.of(0.0, fidelity=fidelity, artefacts={"models": keep([f"tree {fidelity.rows}"], lambda _: None)})


@pytest.fixture
def texts() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(300)])
    content = [" ".join(rng.choice(words, 30)) for _ in range(60)]
    return pd.DataFrame({"content": content, "label": rng.choice(["a", "b"], 60)})


def finished(frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, asked: Asked, seconds: float | None) -> Any:
    budget = {"evaluations": 1} if seconds is None else {"time_budget": seconds}
    run = Run(Dataset.from_table(frame, "label"), Settings(**budget))  # type: ignore[arg-type]
    monkeypatch.setattr(run, "evaluator", lambda: asked)
    with pytest.warns(HeadstartWarning, match="the model is a simple one"):
        return run, run.finish()


def here(*_: Any) -> None:
    raise AssertionError("the tree must not be made in this process")


class TestTheSimpleModel:
    def test_it_is_made_by_a_worker_by_the_end_of_the_budget(
        self, texts: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(assembly, "small_tree", here)
        asked = Asked(ok=True)
        run, model = finished(texts, monkeypatch, asked, seconds=1000.0)
        assert [(pipeline, fidelity.rows) for pipeline, _, fidelity in asked.requests] == [(SIMPLE, 0.1), (SIMPLE, 1.0)]
        assert all(limits.deadline is not None and limits.deadline < run.end for _, limits, _ in asked.requests)
        assert model.members[0].models == ["tree 1.0"]

    def test_if_that_takes_too_long_it_is_a_constant(
        self, texts: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(assembly, "small_tree", here)
        asked = Asked(ok=False)
        _, model = finished(texts, monkeypatch, asked, seconds=1000.0)
        assert len(asked.requests) == 1
        assert any("a constant: give more time" in note for note in model.notes)
        shares = (texts["label"] == "b").mean()
        np.testing.assert_allclose(model.predict_proba(texts.drop(columns="label"))[:, 1], shares)

    def test_without_time_no_worker_is_asked(self, texts: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(assembly, "small_tree", here)
        asked = Asked(ok=True)
        _, model = finished(texts, monkeypatch, asked, seconds=1e-3)
        assert asked.requests == []
        assert model.members[0].pipeline.algorithms == ("constant",)

    def test_small_tables_get_a_tree_all_the_same(self, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
        _, model = finished(frame, monkeypatch, Asked(ok=False), seconds=1e-3)
        assert model.members[0].pipeline.algorithms == ("decision_tree",)

    def test_without_a_time_budget_there_is_the_limit_of_an_evaluation(
        self, texts: pd.DataFrame, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = Asked(ok=False)
        run, _ = finished(texts, monkeypatch, asked, seconds=None)
        assert asked.requests[0][1].seconds == run.plan.limits.seconds

    def test_what_a_worker_makes(self, frame: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(simple, "SIMPLE_ROWS", 40)
        data = Dataset.from_table(frame, "label")
        objective = WithSimple(lambda *_: Outcome.of(0.25), data)  # type: ignore[arg-type]
        assert objective(assembly.Pipeline(["other"]), Limits(), 0).loss == 0.25
        sizes = []
        for share in (0.1, 1.0):
            (model,) = restore(io.BytesIO(objective(SIMPLE, Limits(), 0, Fidelity(share)).artefacts["models"]))
            sizes.append(int(model[-1].tree_.n_node_samples[0]))
            assert model.predict(data.X).shape == (120,)
        assert sizes[0] < 10
        assert 40 <= sizes[1] <= 42

    def test_a_constant_minds_weights(self, frame: pd.DataFrame) -> None:
        weights = np.where(frame["label"] == "yes", 3.0, 1.0)
        data = Dataset.from_table(frame.assign(w=weights), "label", weights="w")
        share = weights[frame["label"] == "yes"].sum() / weights.sum()
        np.testing.assert_allclose(constant(data).predict_proba(data.X)[0, 1], share)

    def test_a_constant_for_numbers(self, texts: pd.DataFrame) -> None:
        table = texts.assign(label=np.arange(60.0))
        with pytest.warns(HeadstartWarning, match="a constant"):
            model = HeadstartRegressor(time_budget=1e-3).fit(table, target="label")
        np.testing.assert_allclose(model.predict(table), 29.5)


class TestPlanning:
    @pytest.fixture
    def run(self, frame: pd.DataFrame) -> Run:
        return Run(Dataset.from_table(frame, "label"), Settings(time_budget=50.0), reserve=2.0)

    def test_a_slow_machine_needs_more_time_for_the_model(self, run: Run) -> None:
        assert run.end == pytest.approx(run.started + 48)
        assert run.search_end == pytest.approx(run.end - 2.5)
        run._slowdown = 8.0
        assert run.search_end == pytest.approx(run.end - 4.0)
        run._slowdown = 99.0
        assert run.search_end == pytest.approx(run.end - 20)  # 40 % of the budget

    def test_a_short_fit_on_an_idle_machine_searches_for_most_of_its_time(self, frame: pd.DataFrame) -> None:
        """The model takes half a second then, and the command line needs another half to write it."""
        run = Run(Dataset.from_table(frame, "label"), Settings(time_budget=10.0), reserve=0.5)
        assert run.search_end == pytest.approx(run.started + 9.0)

    def test_models_that_take_long_to_load_need_more_time(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(run.shelf, "best_loading_seconds", lambda n: 0.2 * n)
        assert run.search_end == pytest.approx(run.end - 0.5 - 1.5 * 0.2 * 10)

    def test_the_search_ends_by_what_is_known_then(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        ends: list[float] = []
        monkeypatch.setattr(run.study, "end_by", ends.append)
        run._evaluator = type("Sandboxed", (), {"slowdown": 6.0})()
        run.replan()
        assert ends == [pytest.approx(run.end - 3.0)]


def test_a_search_that_loses_its_workers_gives_what_it_has_found(
    frame: pd.DataFrame, quick: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = WithSimple.__call__
    calls: list[int] = []

    def lost(self: WithSimple, *args: Any) -> Outcome:
        calls.append(1)
        if len(calls) > 1:
            raise SandboxError("a worker process could not be started")
        return made(self, *args)

    monkeypatch.setattr(WithSimple, "__call__", lost)
    with pytest.warns(HeadstartWarning, match="the search ended early: a worker process"):
        model = HeadstartClassifier(**quick | {"evaluations": 5}).fit(frame, target="label")
    assert len(model.history_) == 1
    assert model.model_.members[0].number == 0
    calls.clear()
    calls.append(1)
    with pytest.raises(SandboxError):
        HeadstartClassifier(**quick).fit(frame, target="label")


def test_half_of_a_surrogate_pair_in_an_error_ends_nothing(
    frame: pd.DataFrame, quick: dict[str, Any], tmp_path: Any
) -> None:
    def broken(estimator: Any, X: Any, y: Any) -> float:
        raise OSError("cannot read caf\udce9.csv")

    with pytest.warns(HeadstartWarning, match=r"cannot read caf\\udce9"):
        model = HeadstartClassifier(**quick, metric=broken, store=tmp_path / "store").fit(frame, target="label")
    model.failures_.to_csv(tmp_path / "failures.csv")
    model.save(tmp_path / "model.headstart")
    assert r"caf\udce9" in model.failures_["reason"].iloc[0]


def test_time_is_read_again_before_each_step(frame: pd.DataFrame) -> None:
    run = Run(Dataset.from_table(frame, "label"), Settings(time_budget=5.0), started=time.time() - 100)
    assert run.search() == "seconds"
    assert run._evaluator is None  # there was no time to start workers
