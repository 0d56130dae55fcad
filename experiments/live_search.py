"""Searches on a raw table within a budget of seconds, one evaluation at a time, and what is read off them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.live_tables import ReadTable
from headstart.errors import Exhausted
from headstart.evaluation.live import fit_model, predict_model
from headstart.evaluation.objective import Objective, outcome_of
from headstart.evaluation.scoring import Metric
from headstart.optimizers.base import Optimizer, evaluation_seed
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.task import Task
from headstart.trials import FULL, Fidelity, Limits, Outcome, Trial

Clock = Callable[[], float]


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
    clock
        What tells the time, in seconds.
    """

    seconds: float
    limits: Limits
    evaluations: int | None = None
    clock: Clock = time.monotonic

    def of_next(self, elapsed: float) -> Limits:
        """Limits of an evaluation that begins so many seconds after the search."""
        left = max(self.seconds - elapsed, 1e-3)
        seconds = left if self.limits.seconds is None else min(left, self.limits.seconds)
        return Limits(seconds, self.limits.bytes)


class Searcher(Protocol):
    """Anything that can search a space on a table."""

    def search(
        self, space: PipelineSpace, objective: Objective, seed: int, budget: Budget, initial: Sequence[Pipeline]
    ) -> list[Step]: ...


@dataclass(frozen=True)
class ByOptimizer:
    """Asks an optimizer, evaluates, tells it.

    Parameters
    ----------
    optimizer
        Has learned what it is to learn; is not changed.
    """

    optimizer: Optimizer

    def search(
        self, space: PipelineSpace, objective: Objective, seed: int, budget: Budget, initial: Sequence[Pipeline]
    ) -> list[Step]:
        """Go on until the budget is used up. A result that comes too late does not count."""
        run = self.optimizer.start(Task(space, initial=initial), seed)
        clock = budget.clock
        steps: list[Step] = []
        began = clock()
        while len(steps) != budget.evaluations:
            try:
                (proposal,) = run.ask(1)
            except Exhausted:
                break
            started = clock() - began
            if started >= budget.seconds:
                break
            own = evaluation_seed(seed, proposal.number)
            outcome = objective(proposal.pipeline, budget.of_next(started), own)
            finished = clock() - began
            if finished > budget.seconds:
                break
            run.tell(Trial(proposal, outcome, started, finished))
            steps.append(Step(finished, outcome.loss, proposal.pipeline, own))
        return steps


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
        assert table.dataset.task is not None
        self.space = space
        self.table = table
        self.metric = Metric(metric, table.dataset.task)

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:  # noqa: ARG002
        return outcome_of(lambda: self._loss(pipeline, seed))

    def _loss(self, pipeline: Pipeline, seed: int) -> float:
        data, train, test = self.table.dataset, self.table.train, self.table.test
        y = _known(data.y)
        model = self.space.build(pipeline, seed, data.preparation)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit_model(model, data.X.iloc[train], y[train])
            predictions = predict_model(model, data.X.iloc[test], (len(_known(data.classes)),))
        return self.metric.loss(y[test], predictions)

    def without(self) -> float:
        """The score of what a search without any pipeline is left with: always the most frequent class."""
        data = self.table.dataset
        y = _known(data.y)
        predictions = np.zeros((len(self.table.test), len(_known(data.classes))))
        predictions[:, np.bincount(y[self.table.train].astype(np.int64)).argmax()] = 1.0
        return self.metric.score(y[self.table.test], predictions)


def _known(values: NDArray[Any] | None) -> NDArray[Any]:
    assert values is not None
    return values
