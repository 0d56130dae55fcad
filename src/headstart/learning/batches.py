"""Batches of tasks and pipelines for meta-training.

=======  ============  ==================================================================================
symbol   name in code  equation
=======  ============  ==================================================================================
B, n, F                tasks of a batch, pipelines of each, features of a pipeline
x        points        (B, n, F), or (n, F) of pipelines that all tasks share
y        targets       (B, n), (loss - mean of its task) / std of its task over all that was observed
         mask          (B, n), False where a task has fewer than n observations (and x, y are 0)
=======  ============  ==================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.metadata.metadataset import MetaDataset

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]

_LEAST_OBSERVATIONS = 2


@dataclass(frozen=True)
class Batch:
    """Some tasks with some pipelines of each; see the notation."""

    points: Array
    targets: Array
    mask: Mask
    tasks: Rows

    def __len__(self) -> int:
        return len(self.tasks)

    def parts(self, size: int) -> list[Batch]:
        """At most `size` tasks at a time."""
        found = []
        for start in range(0, len(self), size):
            rows = slice(start, start + size)
            points = self.points if self.points.ndim == 2 else self.points[rows]
            found.append(Batch(points, self.targets[rows], self.mask[rows], self.tasks[rows]))
        return found


class TaskBatches:
    """Draws batches from some of the tasks of a meta-dataset.

    Tasks with fewer than two different losses say nothing and are left out.

    Parameters
    ----------
    meta
        Its matrices are read row by row and never copied whole.
    points
        (P, F) features of its pipelines.
    """

    def __init__(self, meta: MetaDataset, points: Array) -> None:
        self._meta, self.points = meta, points
        self.means, self.stds = np.zeros(len(meta)), np.zeros(len(meta))
        useful = []
        for task in range(len(meta)):
            row = meta.loss_row(task)
            observed = row[np.isfinite(row)].astype(np.float64)
            if len(observed) >= _LEAST_OBSERVATIONS and observed.max() > observed.min():
                self.means[task], self.stds[task] = observed.mean(), observed.std()
                useful.append(task)
        self.tasks: Rows = np.array(useful, dtype=np.int64)

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def n_pipelines(self) -> int:
        """P, pipelines of the meta-dataset."""
        return len(self.points)

    @property
    def coverage(self) -> float:
        """Share of the pipelines that a task has, on average."""
        counts = [np.isfinite(self._meta.loss_row(int(task))).mean() for task in self.tasks]
        return float(np.mean(counts)) if counts else 0.0

    def crossed(self, which: Rows, columns: Rows) -> tuple[Array, Mask]:
        """Targets and mask (B, n) of the same pipelines on several tasks, given by their places in `tasks`."""
        targets = np.zeros((len(which), len(columns)))
        for b, task in enumerate(self.tasks[which]):
            losses = self._meta.loss_row(int(task))[columns].astype(np.float64)
            targets[b] = (np.where(np.isfinite(losses), losses, np.nan) - self.means[task]) / self.stds[task]
        mask = np.isfinite(targets)
        targets[~mask] = 0.0
        return targets, mask

    def draw(self, rng: np.random.Generator, n_tasks: int, n_pipelines: int) -> Batch:
        """Random tasks, and for each of them random pipelines observed on it."""
        tasks = rng.permutation(self.tasks)[:n_tasks]
        rows = [self._meta.loss_row(int(task)) for task in tasks]
        n_pipelines = min(n_pipelines, max((int(np.isfinite(row).sum()) for row in rows), default=0))
        columns = np.zeros((len(tasks), n_pipelines), dtype=np.int64)
        targets = np.zeros((len(tasks), n_pipelines))
        mask = np.zeros((len(tasks), n_pipelines), dtype=bool)
        for b, (task, row) in enumerate(zip(tasks, rows, strict=True)):
            seen = np.flatnonzero(np.isfinite(row))
            k = min(n_pipelines, len(seen))
            columns[b, :k] = seen[rng.choice(len(seen), k, replace=False, shuffle=False)]
            targets[b, :k] = (row[columns[b, :k]].astype(np.float64) - self.means[task]) / self.stds[task]
            mask[b, :k] = True
        points = self.points[columns]
        points[~mask] = 0.0
        return Batch(points, targets, mask, tasks)


def training_and_validation(
    meta: MetaDataset, points: Array, rng: np.random.Generator
) -> tuple[TaskBatches, TaskBatches]:
    """Batches to train on and batches to stop by; see `MetaDataset.held_out`."""
    training, validation = meta.held_out(rng)
    return TaskBatches(training, points), TaskBatches(validation, points)
