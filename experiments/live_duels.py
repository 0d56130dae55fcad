"""`LiveDuels`: methods that search on raw tables with several seeds, counted by significant wins and losses.

As section 4.4.2 of Rakotoarison (2022): of a table two thirds of the rows are searched on, of which 70 % train and 30 %
validate; the best pipeline is fitted again to all of them and scored on the other third. A run is judged after given
numbers of evaluations and at the end of its seconds.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.live import ByOptimizer, Refit
from experiments.live_smac import Smac, python
from experiments.live_tables import RawTable, read_table
from experiments.live_tpot import Budget, Step, Tpot, load_tpot
from headstart.errors import InvalidInput, MissingDependency
from headstart.evaluation.live import LiveObjective
from headstart.evaluation.objective import Objective
from headstart.evaluation.sandbox import Sandbox
from headstart.replay.protocol import Method
from headstart.replay.results import MethodResults, half_width, ranks, rounded
from headstart.replay.runner import run_method, seed_of_run
from headstart.space import catalog
from headstart.space.pipeline import Pipeline
from headstart.trials import Limits

Array = NDArray[np.float64]
HOLDOUT, TEST = 0.3, 1 / 3
_OTHERS = {"smac": Smac, "tpot": Tpot}
_REFIT_SECONDS = 60.0
_LEVEL = 0.05


@dataclass
class DuelResults(MethodResults):
    """Scores on test rows of methods on the same tables with the same seeds.

    ``runs`` of a method are those on the first table with all seeds, then on the second, … Lists in them have a number
    for each of ``evaluations``, and one for the end of the search.
    """

    holds, rows = "the results of searches on raw tables with several seeds", "runs"
    space: str
    metric: str
    seconds: float
    evaluations: list[int]
    seeds: int
    ours: str
    tables: list[dict[str, Any]]

    def values(self, method: str, what: str = "scores") -> Array:
        """(tables, seeds, moments) of a method."""
        found = np.array([run[what] for run in self.methods[method]["runs"]], dtype=np.float64)
        return found.reshape(len(self.tables), self.seeds, -1)

    def add_runs(self, method: str, runs: list[Any], **facts: Any) -> None:
        self.methods[method] = {"runs": runs, **facts}

    def line(self, method: str) -> str:
        if not self.complete(method):
            return f"{method} is left out: {self.methods[method]['left_out']}"
        mean, tried = self.values(method)[..., -1].mean(), self.values(method, "observed")[..., -1].mean()
        return f"{method}: mean score {mean:.4f} with {tried:.0f} pipelines after {self.seconds:g} s"

    def table(self) -> Table:
        """Mean ranks over tables of the mean score over seeds, and how often ours differs from each.

        A difference counts as significant if the two-sided Mann-Whitney test over the seeds has p < 0.05.
        """
        ran = sorted((name for name in self.methods if self.complete(name)), key=lambda name: name != self.ours)
        moments = [f"{e} pipelines" for e in self.evaluations] + [f"{self.seconds:g} s"]
        columns = ["method", *(f"rank, {m}" for m in moments), "score", "pipelines", "better", "worse", "significant"]
        scores = [self.values(name).mean(axis=1) for name in ran]
        places = ranks([-score for score in scores]) if ran else ()
        rows = []
        for name, place, score in zip(ran, places, scores, strict=True):
            cells = [
                f"{m:.2f} ± {'-' if np.isnan(w) else f'{w:.2f}'}"
                for m, w in zip(place.mean(axis=0), half_width(place), strict=True)
            ]
            cells += [f"{score[:, -1].mean():.4f}", f"{self.values(name, 'observed')[..., -1].mean():.0f}"]
            rows.append([name, *cells, *(["", "", ""] if name == self.ours else self._duel(name))])
        return Table(f"{self.space}, {len(self.tables)} tables, {self.seeds} seeds", columns, rows)

    def _duel(self, other: str) -> list[str]:
        """Tables on which ours has the higher and the lower median at the end; of both, those that are significant."""
        from scipy.stats import mannwhitneyu

        one, two = (self.values(name)[..., -1] for name in (self.ours, other))
        higher = np.median(one, axis=1) - np.median(two, axis=1)
        p = np.array([mannwhitneyu(a, b).pvalue for a, b in zip(one, two, strict=True)])  # NaN where all are equal
        sure = p < _LEVEL
        return [
            str((higher > 0).sum()),
            str((higher < 0).sum()),
            f"{(sure & (higher > 0)).sum()}–{(sure & (higher < 0)).sum()}",
        ]


@dataclass(frozen=True)
class LiveDuels:
    """An experiment on raw tables with several seeds.

    Parameters
    ----------
    methods
        Optimizers by name and settings, ``smac`` or ``tpot``; the first is compared with the others.
    space
        Name of a space of the catalog.
    tables, rows
        How many tables of the folder ``tables`` in the data, and fewer rows than how many: the largest ones.
    source
        Where they are from, as the index begins to say it: those of UCI, for many others are generated.
    seeds
        Searches of each method on each table.
    evaluations
        Numbers of pipelines after which methods are compared too.
    seconds
        Of a search, unless told otherwise; an evaluation has a twelfth of it.
    metric
        By which pipelines are judged, while searching and on the test rows.
    classes
        Tables with so many classes alone.
    """

    methods: Sequence[str]
    space: str = "auto_sklearn"
    tables: int = 6
    rows: int = 2_000
    source: str = "arff-datasets"
    seeds: int = 5
    evaluations: tuple[int, ...] = (25, 50, 100)
    seconds: float = 60.0
    metric: str = "accuracy"
    classes: int | None = None
    sandbox: bool = True

    def run(self, setup: Setup) -> DuelResults:
        if setup.data is None:
            raise InvalidInput(f"{setup.name} is on raw tables: give --data DIR, a folder with tables/")
        chosen = replace(self, seconds=setup.seconds or self.seconds)
        tables = chosen.choose(setup.data / "tables")[: setup.tables or self.tables]
        facts = [{"name": t.name, "rows": t.rows, "columns": t.columns} for t in tables]
        results = DuelResults(
            self.space, self.metric, chosen.seconds, list(self.evaluations), self.seeds, self.methods[0], facts
        )
        results = results.in_file(setup.out)
        cells = {f"{t.name}, seed {seed}": (t, seed) for t in tables for seed in range(self.seeds)}
        given = json.dumps([catalog.load(self.space).key, self.metric, HOLDOUT, TEST, chosen.seconds, self.evaluations])
        for text in self.methods:
            results = run_method(
                results,
                text,
                self.make(text).describe(),
                hashlib.sha256(given.encode()).hexdigest()[:16],
                cells,
                partial(chosen.ready, text),
                run_cell,
                out=setup.out,
                jobs=setup.jobs,
                progress=setup.progress,
                skipped=MissingDependency,
            )
        return results

    load = staticmethod(DuelResults.load)

    def choose(self, folder: Path) -> list[RawTable]:
        """The tables, by the index of the folder."""
        index = folder / "index.csv"
        if not index.is_file():
            raise InvalidInput(f"raw tables must lie in a folder with an index.csv, and {folder} has none; see --data")
        with index.open(encoding="utf-8", newline="") as file:
            listed = list(enumerate(csv.DictReader(file)))
        groups: dict[str, RawTable] = {}
        for number, row in sorted(listed, key=lambda item: (-int(item[1]["rows"]), item[1]["name"])):
            wanted = row["task"] == "classification" and row["source"].startswith(self.source)
            wanted &= self.classes is None or row["classes"] == str(self.classes)
            if wanted and int(row["rows"]) < self.rows:
                path = folder / row["task"] / f"{row['name']}.parquet"
                table = RawTable(str(number), row["name"], int(row["rows"]), int(row["features"]), path, "target")
                groups.setdefault(row["group"], table)
        if len(groups) < self.tables:
            raise InvalidInput(f"{folder} must have {self.tables} tables below {self.rows} rows, it has {len(groups)}")
        return list(groups.values())[: self.tables]

    def make(self, text: str) -> Any:
        """A method as its text says."""
        method = Method.parse(text)
        return _OTHERS[method.name](**method.settings) if method.name in _OTHERS else method.make()

    def ready(self, text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """A method that can be run, and this; raises `MissingDependency` where its package is not there."""
        made = self.make(text)
        if isinstance(made, Tpot):
            load_tpot()
        elif isinstance(made, Smac):
            python()
        else:
            made = ByOptimizer(made)
        return (made, self), {}


def run_cell(searcher: ByOptimizer | Tpot | Smac, duels: LiveDuels, cell: tuple[RawTable, int]) -> dict[str, Any]:
    """Search on a table with a seed, and test what was found at each moment."""
    table, seed = cell
    space = catalog.load(duels.space)
    ready = read_table(table, max_rows=duels.rows, test=TEST, holdout=HOLDOUT, seed=0)
    limits = Limits(duels.seconds / 12, 3_000_000_000)
    objective: Objective = LiveObjective(space, ready.dataset, ready.splits, duels.metric)
    refit = Refit(space, ready, duels.metric)
    with ExitStack() as stack:
        if duels.sandbox:
            objective = stack.enter_context(Sandbox(objective))
            objective.warm()
        budget = Budget(duels.seconds, limits)
        steps = searcher.search(space, objective, seed_of_run(int(table.id), seed), budget, ())
    bests = [best_of(steps[:n]) for n in (*duels.evaluations, len(steps))]
    scores: dict[Pipeline | None, float] = {None: refit.without()}
    for best in {best.pipeline: best for best in bests if best is not None}.values():
        with ExitStack() as stack:
            fit = stack.enter_context(Sandbox(refit)) if duels.sandbox else refit
            loss = fit(best.pipeline, Limits(_REFIT_SECONDS, limits.bytes), best.seed).loss
        scores[best.pipeline] = scores[None] if loss is None else refit.metric.to_score(loss)
    validated = [np.nan if best is None else refit.metric.to_score(best.loss or 0.0) for best in bests]
    return {
        "scores": rounded(np.array([scores[best and best.pipeline] for best in bests])),
        "validation": rounded(np.array(validated)),
        "observed": [min(n, len(steps)) for n in (*duels.evaluations, len(steps))],
        "failed": sum(step.loss is None for step in steps),
        "best": bests[-1] and str(bests[-1].pipeline),
    }


def best_of(steps: Sequence[Step]) -> Step | None:
    """The step of lowest loss, the first of equal ones."""
    found = [step for step in steps if step.loss is not None]
    return min(found, key=lambda step: (step.loss or 0.0, step.seconds)) if found else None
