"""`Plan`: what follows from a table's size and the budget.

==================================  ==================================================================================
rows to search on                   all, or where a booster would need more than half of the budget for them, or there
                                    is no memory for them, a stratified part: the table halved until a booster needs
                                    at most a fifteenth of the budget
splits                              as `headstart.data.splits` has them, with fewer folds or a hold-out where the
                                    budget is short for the table
limit of an evaluation              a sixth of the budget, up to a third where a booster needs that for the table, at
                                    least 3 s; ten minutes without a time budget
first look                          where a booster would need twice the limit of an evaluation or more, pipelines are
                                    first tried on as many rows as it can learn from in a quarter of the limit
jobs                                a core each, as long as there is memory for the table in each; on a cluster, the
                                    threads of its workers
memory of an evaluation             what the run may have, or 80 % of what is free, shared by the jobs; on a cluster,
                                    what its workers have
==================================  ==================================================================================
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from headstart.data.compact import is_large
from headstart.data.folds import Rows, stratified_part
from headstart.data.splits import HOLDOUT_SHARE, LARGE_ROWS, SMALL_ROWS, Splits, make_splits, strata_of
from headstart.errors import InvalidInput
from headstart.fitting.settings import Settings
from headstart.space.catalog.portfolios import MANY_CLASSES
from headstart.trials import Fidelity, Limits

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.evaluation.cluster import Cluster

CELLS_PER_SECOND = 1_500
"""Cells of a table that five folds can take for each second of the budget and job.

For more there are three folds in tables of less than 5,000 rows, and up to four times as many also in those of up to
10,000; else a hold-out: many rows validate well enough, and time is better spent on more pipelines and their refits.
Beyond `_WIDE` times as many, which takes thousands of columns, it is a hold-out in any case.
"""
_WIDE = 40
HOLDOUT_ROWS = 5_000
THREE_FOLDS_ROWS = 10_000
BOOSTER_CELLS = 500_000
"""Cells of a table, times half the classes, that a booster can learn from in a second until it is stopped early.

LightGBM with a learning rate of 0.1 and 15 leaves was measured on three tables of 40,000 to 70,000 rows with 16 to 30
columns: 400,000 (7 classes, 10 s) to 1,200,000 (2 classes, 1 s).
"""
WHOLE_SHARE, PART_SHARE = 0.5, 1 / 15
"""Of the time budget: what a booster may need for a table that is searched as a whole; for the part of a larger one."""
REPEAT_SECONDS = 120
"""Shortest budget with which the folds of a small table are repeated."""
WORKER_BYTES = 400 * 10**6
"""About what a worker's libraries take."""
FREE_SHARE = 0.8
TABLES = 3
"""Most memory of a fit of a large table, in tables."""
_LARGE_BYTES = 2 * 10**9
"""What the workers of a fit may take together, however small the table is."""
_EVALUATION_TABLES = 10
"""Memory of an evaluation, in tables that it works with."""


@dataclass(frozen=True)
class Plan:
    """What follows from a table's size and the budget.

    Parameters
    ----------
    splits
        The same for all pipelines.
    screen
        How thoroughly pipelines are tried at first, or None where that is not worth it.
    n_jobs
        Evaluations at once.
    limits
        Of one evaluation.
    """

    splits: Splits
    screen: Fidelity | None
    n_jobs: int
    limits: Limits

    def describe(self) -> list[str]:
        """In words."""
        lines = [f"validation: {self.splits.kind}"]
        if self.screen is not None:
            lines.append(f"first look: {self.screen.rows:.2g} of the training rows")
        limit = "" if self.limits.seconds is None else f", at most {self.limits.seconds:.3g} s each"
        lines.append(f"{self.n_jobs} {'evaluation' if self.n_jobs == 1 else 'evaluations'} at once{limit}")
        return lines


def make_plan(
    dataset: Dataset, settings: Settings, splits: Splits | None = None, cluster: Cluster | None = None
) -> Plan:
    """The plan of a fit; `splits` are those of an earlier one that is resumed."""
    if splits is None:
        splits = next(possible_splits(dataset, settings, cluster))
    n_jobs, seconds = _jobs(dataset, settings, cluster), _seconds(dataset, settings)
    most = cluster.bytes if cluster is not None else _bytes(settings, n_jobs)
    return Plan(splits, _screen(dataset, splits, seconds), n_jobs, Limits(seconds, most))


def possible_parts(dataset: Dataset, settings: Settings) -> Iterator[Rows | None]:
    """The rows to search on, None for all of them, then those that another budget would have given.

    Their numbers are halves of halves, so that budgets that are nearly alike have the same part. There are more than
    those that call for a hold-out. With splits that the user has chosen, there is no part but all.
    """
    sizes = [dataset.n_rows]
    given = settings.splitter
    while (given is None or isinstance(given, float)) and sizes[-1] // 2 > LARGE_ROWS:
        sizes.append(sizes[-1] // 2)
    most = _most_rows(dataset, settings)
    wanted = next((size for size in sizes if size <= most), sizes[-1])
    for size in [wanted, *(size for size in sizes if size != wanted)]:
        rng = np.random.default_rng(np.random.SeedSequence(settings.seed))
        yield None if size == dataset.n_rows else stratified_part(strata_of(dataset), size, rng)


def _most_rows(dataset: Dataset, settings: Settings) -> float:
    """Most rows to search on, by the time and the memory that there are."""
    most = float(dataset.n_rows)
    if settings.seconds is not None:
        seconds = _cells(dataset, dataset.n_rows) / BOOSTER_CELLS
        if seconds > WHOLE_SHARE * settings.seconds:
            most *= PART_SHARE * settings.seconds / seconds
    if settings.memory_limit is None and not is_large(dataset.n_rows, dataset.n_features):
        return most
    room = max(total_bytes(dataset, settings) - WORKER_BYTES - _LEAST_BYTES, _LEAST_BYTES)
    return min(most, dataset.n_rows * room / (_EVALUATION_TABLES * dataset.nbytes))


def total_bytes(dataset: Dataset, settings: Settings) -> float:
    """Memory that there is for workers: what the user allows; else free memory, for a large table up to a bound.

    With that, a fit takes at most three times what its table does.
    """
    ours = psutil.Process().memory_info().rss
    if settings.memory_limit is not None:
        return float(settings.memory_limit - ours)
    free = FREE_SHARE * psutil.virtual_memory().available
    return float(min(free, max(TABLES * dataset.nbytes - ours, _LARGE_BYTES)))


def possible_splits(dataset: Dataset, settings: Settings, cluster: Cluster | None = None) -> Iterator[Splits]:
    """The splits of a fit, then those that another budget would have given."""
    for way in _ways(dataset, settings, cluster):
        yield make_splits(dataset, **way, seed=settings.seed)


def _ways(dataset: Dataset, settings: Settings, cluster: Cluster | None) -> list[dict[str, Any]]:
    """Arguments of `make_splits`, the wanted ones first."""
    given, seconds = settings.splitter, settings.seconds
    if isinstance(given, int) and not isinstance(given, bool):
        return [{"folds": given}]
    if isinstance(given, float):
        return [{"holdout": given}]
    if given is not None:
        return [{"splitter": given}]
    if dataset.n_rows > LARGE_ROWS or dataset.times is not None:
        return [{}]
    if dataset.n_rows < SMALL_ROWS:
        ways: list[dict[str, Any]] = [{}, {"repeats": 1}]
        return ways if seconds is None or seconds >= REPEAT_SECONDS else ways[::-1]
    ways = [{}, {"folds": 3}, {"holdout": HOLDOUT_SHARE}]
    work = 0.0 if seconds is None else _cells(dataset, dataset.n_rows) / (seconds * _jobs(dataset, settings, cluster))
    if work > _WIDE * CELLS_PER_SECOND:
        return ways[::-1]
    few = dataset.n_rows < (THREE_FOLDS_ROWS + 1 if work <= 4 * CELLS_PER_SECOND else HOLDOUT_ROWS)
    wanted = ways[0 if work <= CELLS_PER_SECOND else 1 if few else 2]
    return [wanted, *(way for way in ways if way is not wanted)]


def _cells(dataset: Dataset, rows: int) -> float:
    """Cells of so many rows, times half the classes: boosters make a tree for each class in every round.

    With many classes others than boosters are tried first.
    """
    return rows * dataset.n_features * (1.0 if dataset.classes is None else min(len(dataset.classes), MANY_CLASSES) / 2)


def _screen(dataset: Dataset, splits: Splits, seconds: float) -> Fidelity | None:
    needed = _cells(dataset, max(len(train) for train, _ in splits)) / BOOSTER_CELLS
    few = dataset.classes is None or len(dataset.classes) <= MANY_CLASSES  # else hardly two rows of each would be left
    return Fidelity(0.25 * seconds / needed, 1) if few and needed > 2 * seconds else None


def available_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _jobs(dataset: Dataset, settings: Settings, cluster: Cluster | None) -> int:
    if cluster is not None:
        return cluster.n_jobs if settings.n_jobs in (None, -1) else int(settings.n_jobs or 1)
    if not settings.sandbox:
        return 1  # estimators, and Python's warnings, are not made for threads
    cores = available_cores()
    if settings.n_jobs is not None:
        return cores if settings.n_jobs == -1 else settings.n_jobs
    if settings.memory_limit is None:
        total = FREE_SHARE * psutil.virtual_memory().available
    else:
        total = settings.memory_limit - psutil.Process().memory_info().rss
    return max(1, min(cores, int(total // (WORKER_BYTES + _LEAST_BYTES + _EVALUATION_TABLES * dataset.nbytes))))


def _seconds(dataset: Dataset, settings: Settings) -> float:
    if settings.evaluation_seconds is not None:
        return settings.evaluation_seconds
    if settings.seconds is None:
        return 600.0
    needed = 1.5 * _cells(dataset, dataset.n_rows) / BOOSTER_CELLS
    return max(3.0, min(max(settings.seconds / 6, needed), settings.seconds / 3))


def _bytes(settings: Settings, n_jobs: int) -> int:
    if settings.memory_limit is None:
        return int(FREE_SHARE * psutil.virtual_memory().available / n_jobs)
    ours = psutil.Process().memory_info().rss + n_jobs * WORKER_BYTES
    left = int((settings.memory_limit - ours) / n_jobs)
    if left < _LEAST_BYTES:
        needed = ours + n_jobs * _LEAST_BYTES
        raise InvalidInput(
            f"memory_limit (--memory) must be at least {needed / 1e9:.1f}e9 bytes for this table and n_jobs={n_jobs}, "
            f"got {settings.memory_limit:.3g}; raise it, or set n_jobs (--jobs) to 1"
        )
    return left


_LEAST_BYTES = 100 * 10**6
