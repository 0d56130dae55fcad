"""`RecordedBounds`, `LiveBounds`: searches that know constraints beside one whose pipelines are filtered afterwards.

As figures 2 and 3 of Liu et al. (AAAI 2020). A search without constraints is made once and filtered by each bound; with
them there is one search for each bound, with the same number of evaluations and the same seed.

============  ================================================================================================
share         of the evaluated pipelines that keep all bounds
shortfall     loss of the best of them, minus the lowest that is known to keep them where results are recorded;
              where none was found the highest recorded one, or a loss of 1, stands for it
============  ================================================================================================
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.live_tables import RawTable, ReadTable, read_table
from headstart.constraints import Constraint
from headstart.errors import InvalidInput
from headstart.evaluation.live import LiveObjective
from headstart.evaluation.recorded import Replay, recorded_task
from headstart.evaluation.sandbox import Sandbox
from headstart.metadata.metadataset import MetaDataset
from headstart.registry import create
from headstart.replay.results import MethodResults, half_width, rounded, wilcoxon
from headstart.replay.runner import run_method, seed_of_run
from headstart.space import catalog
from headstart.space.space import PipelineSpace
from headstart.study import Study
from headstart.task import Task
from headstart.trials import Limits, Trial

Array = NDArray[np.float64]
Bounds = Mapping[str, float]
SECONDS = "training_seconds"
CONSTRAINED, FILTERED = "with constraints", "filtered afterwards"


def kept(trials: Iterable[Trial], bounds: Bounds) -> list[float]:
    """Losses of the trials that keep all bounds."""
    return [
        trial.outcome.loss
        for trial in trials
        if trial.outcome.loss is not None
        and all(trial.outcome.constraints.get(name, np.inf) <= upper for name, upper in bounds.items())
    ]


@dataclass
class Bounded(MethodResults):
    """Shares and shortfalls of both ways on the same problems, ``[problem][bound]``.

    Parameters
    ----------
    title, evaluations
        What is searched, and how long.
    labels
        Names of the bounds.
    bounds
        Those that are the same for all problems, else empty.
    problems
        Names of tasks, or of seeds.
    """

    holds, rows = "searches with and without constraints", "runs"
    title: str
    evaluations: int
    labels: list[str]
    bounds: list[dict[str, float]]
    problems: list[str]

    def add_runs(self, method: str, runs: list[Any], **facts: Any) -> None:
        self.methods[method] = {"runs": runs, **facts}

    def values(self, method: str, what: str) -> Array:
        """(problems, bounds) of ``shares`` or ``shortfalls``."""
        return np.array([run[what] for run in self.methods[method]["runs"]], dtype=np.float64)

    def line(self, method: str) -> str:
        share = self.values(method, "shares").mean()
        return f"{method}: {100 * share:.0f} % of the pipelines keep the bounds"

    def table(self) -> Table:
        """Both ways at each bound and over all; ± is of the mean difference over problems, p of Wilcoxon's test."""
        columns = ["bound", "share", "filtered", "difference", "loss", "filtered", "difference", "won–lost", "p"]
        of = {what: [self.values(way, what) for way in (CONSTRAINED, FILTERED)] for what in ("shares", "shortfalls")}
        rows = []
        for i, label in enumerate([*self.labels, "all together"]):
            cells = []
            for one, two in of.values():
                a, b = (x[:, i] if i < len(self.labels) else x.mean(axis=1) for x in (one, two))
                width = float(half_width(a - b))
                cells += [f"{a.mean():.3f}", f"{b.mean():.3f}", f"{(a - b).mean():+.4f} ± {width:.4f}"]
            cells += [f"{(a < b).sum()}–{(a > b).sum()}", f"{wilcoxon(a, b):.2g}"]
            rows.append([label, *cells])
        return Table(f"{self.title}, {self.evaluations} evaluations", columns, rows)

    def points(self) -> list[tuple[int | None, list[list[float]]]]:
        """Values and losses of single pipelines with the position of the bound of their search, where they are kept."""
        return [
            (None if way == FILTERED else i, points)
            for way in (FILTERED, CONSTRAINED)
            for run in self.methods[way]["runs"]
            for i, points in enumerate(run.get("points", ()))
        ]


def run_both(
    results: Bounded, optimizer: str, given: str, items: Mapping[str, Any], run: Callable[..., Any], setup: Setup
) -> Bounded:
    """Results with those of both ways."""
    for way in (CONSTRAINED, FILTERED):
        results = run_method(
            results,
            way,
            create("optimizer", optimizer).describe(),
            given,
            items,
            partial(_shared, optimizer, way, results.evaluations),
            run,
            out=setup.out,
            jobs=setup.jobs,
            progress=setup.progress,
        )
    return results


def _shared(*parts: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return parts, {}


@dataclass(frozen=True)
class RecordedBounds:
    """On recorded results: the seconds of a pipeline are bounded at quantiles of what the task has on record.

    Parameters
    ----------
    optimizer
        Name and settings.
    quantiles
        Shares of the recorded pipelines that keep a bound.
    """

    optimizer: str = "admm"
    quantiles: Sequence[float] = (0.02, 0.1, 0.25, 0.5)

    def run(self, setup: Setup) -> Bounded:
        tasks = list(setup.partition.test)
        assert setup.evaluations is not None
        results = Bounded(
            f"{setup.meta.name}, {setup.partition.name}",
            setup.evaluations,
            [f"{100 * q:g} % of the pipelines" for q in self.quantiles],
            [],
            [setup.meta.tasks[task] for task in tasks],
        ).in_file(setup.out)
        run = partial(search_recorded, setup.meta, tuple(self.quantiles))
        return run_both(results, self.optimizer, setup.meta.key, {f"task {t}": t for t in tasks}, run, setup)

    load = staticmethod(Bounded.load)


def search_recorded(
    meta: MetaDataset, quantiles: Sequence[float], optimizer: str, way: str, evaluations: int, task: int
) -> dict[str, Any]:
    """All bounds of one task."""
    one = meta.select([task])
    assert one.seconds is not None
    known = one.changed(constraints={SECONDS: one.seconds})
    losses, seconds = known.loss_row(0), known.constraint_rows(0)[SECONDS]
    objective, seed = Replay(known, 0), seed_of_run(task, 0)
    uppers = [float(np.nanquantile(seconds[np.isfinite(losses)], q)) for q in quantiles]
    shares, shortfalls = [], []
    trials: list[Trial] = []
    for upper in uppers:
        if way == CONSTRAINED or not trials:
            bounds = [Constraint(SECONDS, upper)] if way == CONSTRAINED else []
            study = Study(recorded_task(known, 0, (), bounds), objective, create("optimizer", optimizer), seed=seed)
            study.run(evaluations=evaluations)
            trials = list(study.history)
        found = kept(trials, {SECONDS: upper})
        within = losses[(seconds <= upper) & np.isfinite(losses)]
        shares.append(len(found) / len(trials))
        shortfalls.append(min(found, default=float(within.max())) - float(within.min()))
    return {"shares": rounded(np.array(shares)), "shortfalls": rounded(np.array(shortfalls))}


@dataclass(frozen=True)
class LiveBounds:
    """On a raw table: latency and disparity are bounded at quantiles of what random pipelines have.

    Parameters
    ----------
    table, disparity
        Its name in the folder of tables, and the disparity that is bounded.
    optimizer, space
        Name and settings; name of a space, whose order of stages is kept.
    quantiles
        Shares of random pipelines that keep the bound that varies; `other` is that of the second one.
    seeds
        Searches for each bound.
    """

    table: str
    disparity: str
    optimizer: str = "admm"
    space: str = "admm_large"
    quantiles: Sequence[float] = (0.05, 0.15, 0.4)
    other: float = 0.6
    seeds: int = 2
    trials: int = 60
    sandbox: bool = field(default=True, compare=False)

    def run(self, setup: Setup) -> Bounded:
        if setup.data is None:
            raise InvalidInput(f"{setup.name} is on a raw table: give --data DIR, a folder with tables/")
        assert setup.evaluations is not None
        place = setup.data / "tables" / "classification" / f"{self.table}.parquet"
        if setup.out.exists():  # bounds were measured then
            results = Bounded.load(setup.out)
        else:
            results = self._measured(setup.evaluations, place)
            results.save(setup.out)
        given = hashlib.sha256(json.dumps([self.space, self.disparity, results.bounds]).encode()).hexdigest()[:16]
        run = partial(search_live, self, place, results.bounds)
        items = {name: seed for seed, name in enumerate(results.problems)}
        return run_both(results, self.optimizer, given, items, run, setup)

    load = staticmethod(Bounded.load)

    def _measured(self, evaluations: int, place: Path) -> Bounded:
        """What random pipelines have, and bounds by it."""
        drawn = self.search("random", place, self.trials, 1000, {})
        values = {name: [t.outcome.constraints[name] for t in drawn if t.outcome.ok] for name in self.names}
        bounds, labels = [], []
        for name, second in (self.names, self.names[::-1]):
            for q in self.quantiles:
                upper, most = float(np.quantile(values[name], q)), float(np.quantile(values[second], self.other))
                bounds.append({name: float(f"{upper:.3g}"), second: float(f"{most:.3g}")})
                labels.append(", ".join(f"{_brief(n)} ≤ {_unit(n, u)}" for n, u in bounds[-1].items()))
        names = [f"seed {seed}" for seed in range(self.seeds)]
        return Bounded(f"{self.table}, {self.space}", evaluations, labels, bounds, names)

    @property
    def names(self) -> tuple[str, str]:
        return "latency", self.disparity

    def search(self, optimizer: str, place: Path, evaluations: int, seed: int, bounds: Bounds) -> list[Trial]:
        """One search; all values are measured, bounds or not."""
        whole = catalog.load(self.space)
        space = PipelineSpace(whole.name, whole.stages, whole.forbidden)
        table = RawTable("0", self.table, 0, 0, place, "target")
        ready: ReadTable = read_table(table, max_rows=10_000, test=0.2, holdout=0.25, seed=0)
        objective: Any = LiveObjective(space, ready.dataset, ready.splits, "roc_auc", self.names)
        task = Task(space, constraints=[Constraint(name, upper) for name, upper in bounds.items()])
        with ExitStack() as stack:
            if self.sandbox:
                objective = stack.enter_context(Sandbox(objective))
            study = Study(task, objective, create("optimizer", optimizer), seed=seed, limits=Limits(5.0))
            study.run(evaluations=evaluations)
        return list(study.history)


def search_live(
    live: LiveBounds, place: Path, bounds: Sequence[Bounds], optimizer: str, way: str, evaluations: int, seed: int
) -> dict[str, Any]:
    """All bounds with one seed."""
    shares, shortfalls, points = [], [], []
    trials: list[Trial] = []
    for bound in bounds:
        if way == CONSTRAINED or not trials:
            trials = live.search(optimizer, place, evaluations, seed, bound if way == CONSTRAINED else {})
            ok = [t for t in trials if t.outcome.loss is not None]
            rows = [[*(t.outcome.constraints[n] for n in live.names), t.outcome.loss] for t in ok]
            points.append([rounded(np.array(row, dtype=np.float64), 4) for row in rows])
        found = kept(trials, bound)
        shares.append(len(found) / len(trials))
        shortfalls.append(min(found, default=1.0))
    return {"shares": rounded(np.array(shares)), "shortfalls": rounded(np.array(shortfalls)), "points": points}


def _brief(name: str) -> str:
    return name.partition("(")[0]


def _unit(name: str, upper: float) -> str:
    return f"{1e6 * upper:.3g} µs" if name == "latency" else f"{upper:.3g}"
