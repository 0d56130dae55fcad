"""`Replay`: look an outcome up in a meta-dataset instead of measuring it; `recorded_task`: the task to go with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.constraints import ConstraintsLike, parse_constraints
from headstart.errors import UnknownName, UnknownPipeline, suggestion
from headstart.metadata.metadataset import MetaDataset
from headstart.space.candidates import Pool
from headstart.space.pipeline import Pipeline
from headstart.task import Task
from headstart.trials import FULL, Fidelity, Limits, Outcome, Status


def recorded_task(
    meta: MetaDataset,
    task: int,
    initial: Sequence[int] | None = None,
    constraints: ConstraintsLike | None = None,
    *,
    table: bool = False,
) -> Task:
    """One task of a meta-dataset as a problem to solve.

    Its candidates are the pipelines observed on it, and those it is begun with: an initial pipeline without a value
    costs an evaluation, as a crash would.

    Parameters
    ----------
    meta, task
        The meta-dataset and the position of the task in it.
    initial
        Ids of the pipelines to begin with instead of those of the meta-dataset.
    constraints
        Bounds on values that the meta-dataset has; see `headstart.constraints.parse_constraints`.
    table
        Whether the method needs the raw table, which is then read where it is known.
    """
    bounds = parse_constraints(constraints)
    for bound in bounds:
        if bound.name not in meta.constraint_names:
            known = suggestion(bound.name, meta.constraint_names)
            raise UnknownName(f"meta-dataset {meta.name!r} has no values of the constraint {bound.name!r}; {known}")
    begin = meta.initial[task] if initial is None else tuple(initial)
    rows = meta.everything.rows(begin)
    candidates = np.isfinite(meta.loss_row(task))
    candidates[rows] = True
    return Task(
        Pool(meta.pipelines.take(candidates)),
        key=f"{meta.name}: {meta.tasks[task]}{''.join(f', {bound.name} <= {bound.upper!r}' for bound in bounds)}",
        dataset=meta.dataset(task) if table else None,
        metafeatures={
            name: vectors[task] for name, vectors in meta.metafeatures.items() if np.isfinite(vectors[task]).any()
        },
        initial=tuple(meta.pipelines.take(rows)),
        constraints=bounds,
    )


class Replay:
    """The recorded losses of one task as an objective.

    Parameters
    ----------
    meta, task
        The meta-dataset and the position of the task in it.
    """

    def __init__(self, meta: MetaDataset, task: int) -> None:
        self._known = meta.everything
        self._losses: NDArray[Any] = meta.loss_row(task)
        self._seconds: NDArray[Any] | None = meta.seconds_row(task)
        self._constraints = meta.constraint_rows(task)

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        del limits, seed  # what is recorded has been run
        if pipeline.id is None:
            raise UnknownPipeline(f"only recorded pipelines (with an id) can be replayed, got {pipeline!r}")
        column = int(self._known.rows([pipeline.id])[0])
        loss = float(self._losses[column])
        seconds = 0.0 if self._seconds is None else float(np.nan_to_num(self._seconds[column]))
        if np.isnan(loss):
            return Outcome.failed(
                Status.CRASHED, "no value was recorded for this pipeline", seconds=seconds, fidelity=fidelity
            )
        measured = {name: float(row[column]) for name, row in self._constraints.items() if not np.isnan(row[column])}
        return Outcome.of(loss, constraints=measured, seconds=seconds, fidelity=fidelity)
