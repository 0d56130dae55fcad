"""Spaces with classes of the user's own, which do what they like: only they are harmed."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest

from headstart import HeadstartClassifier
from headstart.errors import HeadstartWarning
from headstart.fitting.run import Run
from headstart.space import Algorithm, PipelineSpace, Stage

pytestmark = pytest.mark.filterwarnings("ignore::headstart.errors.HeadstartWarning")

CLASSES = """
import os, sys, time
import numpy as np
from sklearn.linear_model import LogisticRegression

MAIN = os.environ.get("HEADSTART_SANDBOX") is None

class Good(LogisticRegression):
    pass

class Loaded(Good):
    def __getstate__(self):
        return {"content": dict(self.__dict__)}
    def __setstate__(self, state):
        self.__dict__.update(state["content"])
        self.act()

class SleepsWhenLoaded(Loaded):
    def act(self):
        time.sleep(60)

class ExitsWhenLoaded(Loaded):
    def act(self):
        os._exit(7)

class RaisesWhenLoaded(Loaded):
    def act(self):
        raise OSError("no licence")

class LeavesWhenLoadedLater(Loaded):
    def act(self):
        if os.environ.get("HEADSTART_SANDBOX") is None:
            sys.exit(5)

class SleepsInFit(Good):
    def fit(self, *args, **options):
        time.sleep(60)

class AllocatesInFit(Good):
    def fit(self, *args, **options):
        self.taken = [np.ones(10**7) for _ in range(200)]

class ExitsInFit(Good):
    def fit(self, *args, **options):
        os._exit(3)
"""
KINDS = re.findall(r"class (\w+)\(\w+\):", CLASSES)


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A space of classes of a module of the user's."""
    (tmp_path / "own_classes.py").write_text(CLASSES, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)

    def make(*names: str) -> PipelineSpace:
        algorithms = [Algorithm(name, f"own_classes:{name}") for name in names]
        return PipelineSpace("own", [Stage("estimator", algorithms)])

    return make


def settings(**others: Any) -> dict[str, Any]:
    return {"splitter": 2, "n_jobs": 1, "evaluation_seconds": 5, **others}


def test_only_pipelines_that_misbehave_fail(own: Any, frame: pd.DataFrame) -> None:
    names = [name for name in KINDS if name not in ("Loaded", "LeavesWhenLoadedLater", "Good")]
    space = own(*names, "Good")  # the first used to be fitted by each worker when it started
    limit = psutil.Process().memory_info().rss + 10**9  # it is for all processes, and this one has run many tests
    model = HeadstartClassifier(evaluations=len(names) + 1, space=space, memory_limit=limit, **settings())
    model.fit(frame, target="label")
    (member,) = model.model_.members
    assert member.pipeline.algorithms == ("Good",)
    found = dict(zip(model.failures_["estimator"], model.failures_["status"], strict=True))
    assert found.pop("AllocatesInFit") in ("memory", "timeout")  # on a busy machine to allocate takes long
    assert found == {
        "SleepsWhenLoaded": "timeout",
        "ExitsWhenLoaded": "crashed",
        "RaisesWhenLoaded": "invalid",
        "SleepsInFit": "timeout",
        "ExitsInFit": "crashed",
    }
    assert model.predict(frame).shape == (120,)


def test_one_that_cannot_be_loaded_here_after_all_is_left_out_with_a_note(own: Any, frame: pd.DataFrame) -> None:
    space = own("LeavesWhenLoadedLater", "Good")
    model = HeadstartClassifier(evaluations=2, space=space, **settings()).fit(frame, target="label")
    assert [m.pipeline.algorithms for m in model.model_.members] == [("Good",)]
    assert model.model_.members[0].weight == 1
    assert any("cannot be loaded: SystemExit: 5" in note for note in model.notes_)


@pytest.mark.parametrize("constraints", [None, ["size <= 1MB"]])
def test_if_nothing_can_be_loaded_the_model_is_a_simple_one(own: Any, frame: pd.DataFrame, constraints: Any) -> None:
    model = HeadstartClassifier(
        evaluations=1, space=own("LeavesWhenLoadedLater"), constraints=constraints, **settings()
    )
    with pytest.warns(HeadstartWarning, match="a small tree"):
        model.fit(frame, target="label")
    assert model.predict(frame).shape == (120,)


def test_members_that_take_too_long_to_load_are_left_out(
    frame: pd.DataFrame, quick: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick |= {"evaluations": 3, "include": ["logistic_regression", "decision_tree", "gaussian_nb"], "time_budget": 1000}
    whole = HeadstartClassifier(**quick).fit(frame, target="label")
    assert len(whole.model_.members) > 1
    run = whole._run
    assert isinstance(run, Run)
    seeds = [run.seed_of(m.number) for m in sorted(whole.model_.members, key=lambda m: -m.weight)]
    seconds = dict.fromkeys(seeds, 2000.0) | {seeds[1]: 1.0}
    monkeypatch.setattr("headstart.fitting.shelf.Shelf.loading_seconds", lambda _, seed: seconds.get(seed, 0.0))
    small = HeadstartClassifier(**quick).fit(frame, target="label")
    (member,) = small.model_.members
    assert small._run.seed_of(member.number) == seeds[1]
    assert any(f"{len(seeds) - 1} of {len(seeds)} members were left out" in note for note in small.notes_)
    assert any("time that is left" in note for note in small.notes_)
