"""Searches on a raw table within a budget of seconds, and what is read off them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from experiments.live_tables import ReadTable
from headstart.evaluation.live import fit_model, predict_model
from headstart.evaluation.objective import Objective, outcome_of
from headstart.evaluation.scoring import Metric
from headstart.optimizers.base import Optimizer, evaluation_seed
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.study import Study
from headstart.task import Task
from headstart.trials import FULL, Fidelity, Limits, Outcome


class Step(NamedTuple):
    """A pipeline that was tried.

    Parameters
    ----------
    seconds
        After how many seconds of the search its result was there.
    loss
        ``None`` if it failed.
    pipeline, seed
        What was evaluated, and with which seed.
    """

    seconds: float
    loss: float | None
    pipeline: Pipeline
    seed: int


@dataclass(frozen=True)
class Budget:
    """What one search may use.

    Parameters
    ----------
    seconds
        From the first question for a pipeline to the last result.
    limits
        Of an evaluation.
    evaluations
        Most pipelines; ``None`` leaves it to the seconds.
    """

    seconds: float
    limits: Limits
    evaluations: int | None = None


@dataclass(frozen=True)
class ByOptimizer:
    """A study of an optimizer, one evaluation at a time; the objective is told the deadline with the limits.

    Parameters
    ----------
    optimizer
        Has learned what it is to learn; is not changed.
    """

    optimizer: Optimizer

    def search(
        self, space: PipelineSpace, objective: Objective, seed: int, budget: Budget, initial: Sequence[Pipeline]
    ) -> list[Step]:
        """The pipelines that were evaluated at full fidelity."""
        study = Study(Task(space, initial=initial), objective, self.optimizer, seed=seed, limits=budget.limits)
        began = time.time()
        history = study.run(seconds=budget.seconds, evaluations=budget.evaluations)
        return [
            Step(t.finished - began, t.outcome.loss, t.pipeline, evaluation_seed(seed, t.number))
            for t in history.full()
        ]


class Reading(NamedTuple):
    """A search as it was after some seconds.

    Parameters
    ----------
    observed, failed
        Pipelines with a loss, and those without.
    best
        The one with the lowest loss; ``None`` where there is none.
    """

    observed: int
    failed: int
    best: Step | None


def read_off(steps: Sequence[Step], seconds: float) -> Reading:
    """What a search had found after so many of its seconds.

    >>> a, b, c = Pipeline(["a"]), Pipeline(["b"]), Pipeline(["c"])
    >>> steps = [Step(2.0, 0.3, a, 0), Step(4.0, None, b, 1), Step(9.0, 0.1, c, 2)]
    >>> read_off(steps, 5.0).observed, read_off(steps, 5.0).failed, read_off(steps, 10.0).best.pipeline.algorithms
    (1, 1, ('c',))
    """
    there = [step for step in steps if step.seconds <= seconds]
    found = [step for step in there if step.loss is not None]
    best = min(found, key=lambda step: (step.loss or 0.0, step.seconds)) if found else None
    return Reading(len(found), len(there) - len(found), best)


class Refit:
    """An objective: fit a pipeline to all rows that were searched on; its loss is that on the test rows.

    Parameters
    ----------
    space, table, metric
        As they were searched with.
    """

    def __init__(self, space: PipelineSpace, table: ReadTable, metric: str) -> None:
        data = table.dataset
        assert data.task is not None
        assert data.y is not None
        assert data.classes is not None
        self.space, self.table, self.metric = space, table, Metric(metric, data.task)
        self.y, self.n_classes = data.y, len(data.classes)

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:  # noqa: ARG002
        return outcome_of(lambda: self._loss(pipeline, seed))

    def _loss(self, pipeline: Pipeline, seed: int) -> float:
        data, train, test = self.table.dataset, self.table.train, self.table.test
        model = self.space.build(pipeline, seed, data.preparation)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit_model(model, data.X.iloc[train], self.y[train])
            predictions = predict_model(model, data.X.iloc[test], (self.n_classes,))
        return self.metric.loss(self.y[test], predictions)

    def without(self) -> float:
        """The score of what a search without any pipeline is left with: always the most frequent class."""
        predictions = np.zeros((len(self.table.test), self.n_classes))
        predictions[:, np.bincount(self.y[self.table.train].astype(np.int64)).argmax()] = 1.0
        return self.metric.score(self.y[self.table.test], predictions)
