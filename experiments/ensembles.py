"""`FitDuels`: fits with several optimizers on raw tables; the ensemble of what was found beside the best pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.live_duels import HOLDOUT, TEST, LiveDuels
from experiments.live_tables import RawTable, read_table
from headstart.errors import InvalidInput
from headstart.estimators import HeadstartClassifier
from headstart.replay.results import MethodResults, half_width, ranks, rounded
from headstart.replay.runner import run_method

Array = NDArray[np.float64]
_EVALUATION = 12
"""An evaluation has a twelfth of a search."""


@dataclass
class Fitted(MethodResults):
    """Accuracy on test rows of the best pipeline and of the ensemble that each fit ended with.

    Parameters
    ----------
    space, seconds
        What was searched, and for how long.
    seeds
        Fits of each optimizer on each table.
    tables
        What they are called, with their sizes.
    """

    holds, rows = "the scores of fits on raw tables", "runs"
    parts: ClassVar[tuple[str, ...]] = ("best pipeline", "ensemble")
    space: str
    seconds: float
    seeds: int
    tables: list[dict[str, Any]]

    def add_runs(self, method: str, runs: list[Any], **facts: Any) -> None:
        self.methods[method] = {"runs": runs, **facts}

    def scores(self, method: str, part: str) -> Array:
        """Means over seeds (tables,) of the best pipelines or of the ensembles."""
        found = np.array([run[part] for run in self.methods[method]["runs"]])
        mean: Array = found.reshape(len(self.tables), self.seeds).mean(axis=1)
        return mean

    def line(self, method: str) -> str:
        found = ", ".join(f"{part} {self.scores(method, part).mean():.4f}" for part in self.parts)
        return f"{method}: {found}"

    def table(self) -> Table:
        """Mean ranks over tables, and by how much ensembles are better than the best pipelines of the same fits."""
        ran = [name for name in self.methods if self.complete(name)]
        found = {(name, part): self.scores(name, part) for name in ran for part in self.parts}
        places = ranks([-scores[:, None] for scores in found.values()])
        rows = []
        for (name, part), scores, place in zip(found, found.values(), places, strict=True):
            cells = [f"{place.mean():.2f} ± {float(half_width(place[:, 0])):.2f}", f"{scores.mean():.4f}"]
            gain = scores - found[name, self.parts[0]]
            cells += (
                ["", ""]
                if part == self.parts[0]
                else [
                    f"{gain.mean():+.4f} ± {float(half_width(gain)):.4f}",
                    f"{(gain > 0).sum()}–{(gain < 0).sum()}",
                ]
            )
            tried = np.mean([run["observed"] for run in self.methods[name]["runs"]])
            rows.append([f"`{name}`, {part}", *cells, f"{tried:.0f}"])
        columns = ["", "rank", "score", "gain by the ensemble", "better–worse", "pipelines"]
        return Table(f"{self.space}, {len(self.tables)} tables, {self.seeds} seeds", columns, rows)


@dataclass(frozen=True)
class FitDuels:
    """An experiment on the tables of `LiveDuels`, and on the same rows of them.

    Parameters
    ----------
    optimizers
        By name and settings.
    duels
        Which tables, which space, how long.
    seeds
        Fits of each optimizer on each table.
    """

    optimizers: tuple[str, ...]
    duels: LiveDuels
    seeds: int = 1

    def run(self, setup: Setup) -> Fitted:
        if setup.data is None:
            raise InvalidInput(f"{setup.name} is on raw tables: give --data DIR, a folder with tables/")
        seconds = setup.seconds or self.duels.seconds
        tables = self.duels.choose(setup.data / "tables")[: setup.tables or self.duels.tables]
        facts = [{"name": t.name, "rows": t.rows, "columns": t.columns} for t in tables]
        results = Fitted(self.duels.space, seconds, self.seeds, facts).in_file(setup.out)
        cells = {f"{t.name}, seed {seed}": (t, seed) for t in tables for seed in range(self.seeds)}
        for text in self.optimizers:
            results = run_method(
                results,
                text,
                self.duels.make(text).describe(),
                f"{self.duels.space}, {seconds:g} s",
                cells,
                partial(_ready, text, self.duels, seconds),
                fit_cell,
                out=setup.out,
                jobs=setup.jobs,
                progress=setup.progress,
            )
        return results

    load = staticmethod(Fitted.load)


def _ready(text: str, duels: LiveDuels, seconds: float) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (text, duels, seconds), {}


def fit_cell(optimizer: str, duels: LiveDuels, seconds: float, cell: tuple[RawTable, int]) -> dict[str, Any]:
    """Search on a table with a seed, and score the best pipeline and the ensemble on the test rows.

    Both are made of the same trials and fitted to all rows that were searched on, without a limit of time.
    """
    table, seed = cell
    ready = read_table(table, max_rows=duels.rows, test=TEST, holdout=HOLDOUT, seed=0)
    assert ready.dataset.y is not None
    assert ready.dataset.classes is not None
    X, y = ready.dataset.X, ready.dataset.classes[ready.dataset.y.astype(np.int64)]
    train, test = ready.train, ready.test
    with TemporaryDirectory() as folder:
        model = HeadstartClassifier(
            seconds,
            optimizer=duels.make(optimizer),
            space=duels.space,
            metric=duels.metric,
            splitter=HOLDOUT,
            refit="full",
            evaluation_seconds=seconds / _EVALUATION,
            n_jobs=1,
            random_state=seed,
            store=folder,
        )
        tried = len(model.fit(X.iloc[train], y[train]).leaderboard_)
        scores = []
        for joined in (False, True):
            model.set_params(time_budget=None, evaluations=max(tried, 1), ensemble=joined)
            model.fit(X.iloc[train], y[train], resume=True)
            scores.append(np.mean(model.predict(X.iloc[test]) == y[test]))
    return {**dict(zip(Fitted.parts, rounded(np.array(scores)), strict=True)), "observed": tried}
