"""Members fitted on more rows than the search had, where it had a part of a large table.

The rows that validate stay what they were, and none of them is trained on, nor any of their groups, nor any that is as
late as they are. So boosters are stopped early as in the search, and the score is that of the model that is delivered.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.data.folds import Rows, stratified_part
from headstart.data.splits import Splits, strata_of
from headstart.errors import SandboxError, printable
from headstart.evaluation.live import FITTING_SHARE, LiveObjective
from headstart.fitting.model import Member
from headstart.fitting.plan import total_bytes
from headstart.fitting.shelf import Shelf
from headstart.trials import Fidelity, Limits, Status, Trial

if TYPE_CHECKING:
    from headstart.fitting.run import Run

Array = NDArray[np.float64]

WORTH_IT = 1.2
"""Growth of the rows that is worth a fit."""
_START_SECONDS = 3.0
"""To write the rows and start a worker."""
_CAUTION = 0.8
"""Of the memory that there is, how much is planned with."""


@dataclass(frozen=True)
class Enlarged:
    """A member's pipeline fitted on more rows.

    Parameters
    ----------
    models
        One fitted model.
    rows
        How many rows it was trained on.
    predictions
        Of the validation rows of the search, in their order.
    """

    models: list[Any]
    rows: int
    predictions: Array


def enlarge(run: Run, members: Sequence[Member], limits: Limits) -> dict[int, Enlarged]:
    """Fit the heaviest members on as many rows as time and memory allow; by the numbers of their trials.

    As many members as there are jobs, each of which has all the time. Adds notes on what was done to those of the run.
    """
    trials = {trial.number: trial for trial in run.history}
    heaviest = sorted(members, key=lambda m: -m.weight)[: run.plan.n_jobs]
    free = trainable(run)
    best = trials[heaviest[0].number]
    jobs = max(range(len(heaviest), 0, -1), key=lambda n: _possible(run, best, limits, n, len(free)))
    sizes = {m.number: _possible(run, trials[m.number], limits, jobs, len(free)) for m in heaviest[:jobs]}
    worth = {n: rows for n, rows in sizes.items() if rows >= WORTH_IT * trained_rows(run, trials[n])}
    if not worth:
        run.notes.append("there was no time or memory to fit a member on more rows")
        return {}
    run.progress.phase(run, f"fitting {len(worth)} of the members on up to {max(worth.values()):,} rows")
    objective, most = _objective(run, free, max(worth.values()))
    found: dict[int, Enlarged] = {}
    with ExitStack() as stack:
        shelf = Shelf(run.sandboxed(objective, stack), len(worth))
        splits = objective.splits
        del objective  # the workers have the rows now
        bounds = Limits(limits.seconds, int(_room(run, limits) / jobs), limits.deadline)

        def fit(number: int) -> Enlarged | str:
            share, seed = min(1.0, worth[number] / most), run.seed_of(number)
            try:
                outcome = shelf(trials[number].pipeline, bounds, seed, Fidelity(share))
                models = shelf.models(seed)
            except SandboxError as error:  # no worker can be started
                return printable(str(error))
            except (Exception, SystemExit) as error:  # a class of the user's does not let itself be loaded
                return printable(f"{type(error).__name__}: {error}")
            if not outcome.ok or not models:
                return "there was no time" if outcome.status is Status.TIMEOUT else outcome.error or "it gave no model"
            given = outcome.artefacts["predictions"]
            every = np.load(given, mmap_mode="r", allow_pickle=False) if isinstance(given, Path) else given
            rows = len(splits.subsample(share)[0][0])
            return Enlarged(models, rows, np.array(every[splits[0][1]]))

        with ThreadPoolExecutor(jobs) as pool:
            for number, result in zip(worth, pool.map(fit, worth), strict=True):
                if isinstance(result, str):
                    run.notes.append(f"trial {number} could not be fitted on {worth[number]:,} rows: {result}")
                else:
                    found[number] = result
    return found


def trainable(run: Run) -> Rows:
    """Rows of the table that may be trained on without a look at those that validate."""
    table, rows = run.table, run.rows
    assert rows is not None
    valid = rows[np.concatenate([valid for _, valid in run.plan.splits])]
    free = np.ones(table.n_rows, dtype=bool)
    free[valid] = False
    if table.groups is not None:
        free &= ~np.isin(table.groups, table.groups[valid])
    if table.times is not None:
        free &= table.times < table.times[valid].min()
    return np.flatnonzero(free)


def trained_rows(run: Run, trial: Trial) -> float:
    """Rows that the model of a trial was trained on."""
    return trial.proposal.fidelity.rows * len(run.plan.splits[0][0])


def _possible(run: Run, trial: Trial, limits: Limits, jobs: int, most: int) -> int:
    """Rows that a pipeline can be fitted on, by what its trial took for each row."""
    trained = trained_rows(run, trial)
    rows = float(most)
    if limits.deadline is not None:
        seconds = FITTING_SHARE * (limits.deadline - time.time() - _START_SECONDS)
        rows = min(rows, trained * seconds / max(trial.outcome.seconds, 1e-3))
    own = run.table.nbytes / run.table.n_rows
    bytes_per_row = trial.outcome.bytes / trained or 10 * own
    rows = min(rows, _CAUTION * _room(run, limits) / (jobs * bytes_per_row + own))
    return max(0, int(rows))


def _room(run: Run, limits: Limits) -> float:
    """Memory for all workers."""
    if run.settings.cluster is not None:
        return float(limits.bytes or 0) * run.plan.n_jobs
    return total_bytes(run.table, run.settings)


def _objective(run: Run, free: Rows, size: int) -> tuple[LiveObjective, int]:
    """Trains on that many rows and validates on those of the search; and how many rows there are to train on."""
    assert run.rows is not None
    rng = np.random.default_rng(np.random.SeedSequence(run.settings.seed))
    train = free if size >= len(free) else free[stratified_part(strata_of(run.table)[free], size, rng)]
    valid = run.rows[run.plan.splits[0][1]]
    table = run.table.take(np.concatenate([train, valid]))  # in this order, so that training rows need no copy
    pair = np.arange(len(train)), np.arange(len(train), table.n_rows)
    strata = None if table.classes is None else strata_of(table)
    splits = Splits((pair,), table.n_rows, run.plan.splits.kind, strata=strata)
    return LiveObjective(run.space, table, splits, run.metric.given, keep_models=True), len(train)
