"""What a shelf keeps."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headstart.constraints import Constraint
from headstart.evaluation.kept_models import keep
from headstart.fitting.refit import evaluate_all
from headstart.fitting.shelf import Shelf
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Limits, Outcome, Status

PIPELINE = Pipeline(["knn"])


class Made:
    """An objective with the losses it is given, and models in files of a given size or in memory."""

    def __init__(self, losses: list[float | None], folder: Path | None = None, size: int = 10) -> None:
        self.losses, self.folder, self.size = losses, folder, size

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, *_: Any) -> Outcome:
        loss = self.losses[seed]
        if loss is None:
            return Outcome.failed(Status.CRASHED, "no")
        models: Any = [f"model {seed}", "x" * self.size]
        if self.folder is not None:
            path = self.folder / f"{seed}.pkl"
            path.write_bytes(keep(models, lambda _: None))
            models = path
        return Outcome.of(loss, artefacts={"models": models, "predictions": [1]})


def fill(shelf: Shelf, n: int) -> list[Outcome]:
    return [shelf(PIPELINE, Limits(), seed) for seed in range(n)]


@pytest.mark.parametrize("files", [False, True])
def test_the_best_are_kept_and_the_outcomes_have_none(files: bool, tmp_path: Path) -> None:
    shelf = Shelf(Made([3.0, 1.0, None, 2.0, 4.0], tmp_path if files else None), capacity=2)
    outcomes = fill(shelf, 5)
    assert [set(o.artefacts) for o in outcomes if o.ok] == [{"predictions"}] * 4
    kept = [seed for seed in range(5) if shelf.models(seed) is not None]
    assert kept == [seed for seed in range(5) if seed in shelf] == [1, 3]
    found = shelf.models(1)
    assert found is not None
    assert found[0] == "model 1"
    assert len(list(tmp_path.iterdir())) == (2 if files else 0)


def test_large_files_leave_room_for_fewer(tmp_path: Path) -> None:
    shelf = Shelf(Made([2.0, 1.0, 3.0], tmp_path, size=1000), capacity_bytes=2500)
    fill(shelf, 3)
    assert [seed for seed in range(3) if shelf.models(seed) is not None] == [0, 1]
    alone = Shelf(Made([1.0], tmp_path, size=1000), capacity_bytes=10)
    fill(alone, 1)
    assert alone.models(0) is not None


def test_what_satisfies_the_constraints_is_kept_first() -> None:
    class Sized(Made):
        def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, *_: Any) -> Outcome:
            return replace(super().__call__(pipeline, limits, seed), constraints={"size": [9.0, 30.0, 20.0, 5.0][seed]})

    shelf = Shelf(Sized([0.9, 0.1, 0.2, 0.8]), capacity=3, constraints=[Constraint("size", 10.0)])
    fill(shelf, 4)
    assert [seed in shelf for seed in range(4)] == [True, False, True, True]


def test_ctrl_c_ends_what_is_being_evaluated() -> None:
    running, stopped, ended = threading.Event(), threading.Event(), {}

    class Endless:
        def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, *_: Any) -> Outcome:
            if seed == 0:
                running.wait()
                raise KeyboardInterrupt
            running.set()
            ended[seed] = stopped.wait(5)
            return Outcome.failed(Status.CRASHED, "interrupted")

        def interrupt(self) -> None:
            stopped.set()

    with pytest.raises(KeyboardInterrupt):
        evaluate_all(Shelf(Endless()), [(PIPELINE, seed, FULL) for seed in range(9)], Limits(), 2)
    assert ended
    assert all(ended.values())
    assert ended.keys() <= {1, 2}  # the others were not begun
