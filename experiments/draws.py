"""`Draws`: pipelines drawn from those of the nearest tasks, without a model of the new one (Metabu's task 2).

=======  ================  ====================================================================================
symbol   name in code      equation
=======  ================  ====================================================================================
z_ℓ                        the 20 best pipelines of the ℓ-th nearest training task
ẑ        `mixture`         Σ_{ℓ ≤ 10} e^{-ℓ} z_ℓ, normalised; draws are independent
T        draws             30
r(t)     ranks             among the meta-features and uniform draws, by the lowest loss so far, mean over tasks
=======  ================  ====================================================================================

On recorded results a draw that was not run on the task is replaced by the nearest one that was, in the scaled encoding
of pipelines in which tasks are compared (ours). There is one loss, so the pipeline that looks best is best.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.topology import TOP, embedded, folds_of
from headstart.metadata.metadataset import MetaDataset
from headstart.methods.metabu.targets import scaled
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.recorded import best_columns
from headstart.replay.results import Saved, half_width, ranks, rounded, shown, wilcoxon

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
_NEIGHBOURS = 10
_SHOWN = (1, 5, 10, 20, 30)


@dataclass
class Drawn(Saved):
    """Lowest losses so far, of several samplers on the same tasks.

    Parameters
    ----------
    meta, key, settings
        What it was found with.
    tasks
        Names of the test tasks.
    lowest
        Lowest loss on record of each task.
    samplers
        By label: (tasks, draws), the mean over repetitions of the lowest loss so far.
    places
        By label: (tasks, draws), the mean over repetitions of the rank among all samplers; filled in at the end.
    """

    holds = "draws from the nearest tasks"
    meta: str
    key: str
    settings: dict[str, Any]
    tasks: list[str]
    lowest: list[float | None]
    samplers: dict[str, list[list[float | None]]] = field(default_factory=dict)
    places: dict[str, list[list[float | None]]] = field(default_factory=dict)

    def table(self) -> Table:
        from experiments.pages import holm  # pages know all experiments, this one too

        rows = []
        last = {name: np.array(places, dtype=np.float64)[:, -1] for name, places in self.places.items()}
        own, *others = self.samplers
        corrected = holm({name: wilcoxon(last[own], last[name]) for name in others})
        best = np.array(self.lowest, dtype=np.float64)[:, None]
        for name in self.samplers:
            place = np.array(self.places[name], dtype=np.float64)
            regret = np.array(self.samplers[name], dtype=np.float64) - best
            cells = [f"{place[:, t - 1].mean():.2f}" for t in _SHOWN]
            width = half_width(regret)[-1]
            p = "" if name == own else f"{corrected[name]:.2g}"
            rows.append([name, *cells, p, f"{regret[:, -1].mean():.4f} ± {shown(float(width))}"])
        title = f"{self.meta}: mean rank after so many draws, over {len(self.tasks)} tasks"
        return Table(title, ["meta-features", *map(str, _SHOWN), "p at 30", "regret at 30"], rows)


@dataclass(frozen=True)
class Draws:
    """An experiment that draws pipelines.

    Parameters
    ----------
    methods
        By label: see `experiments.topology.embedded`. Uniform draws are added.
    draws, repetitions
        Of each sampler on each task.
    """

    methods: Mapping[str, str]
    draws: int = 30
    repetitions: int = 20

    def run(self, setup: Setup) -> Drawn:
        """Draw, unless the same is in the file; save."""
        meta = setup.meta
        folds = folds_of(meta)
        test = [task for _, tasks in folds for task in tasks]
        settings = {"methods": dict(self.methods), "draws": self.draws, "repetitions": self.repetitions}
        if setup.out.exists():
            before = Drawn.load(setup.out)
            if (before.meta, before.key, before.settings) == (meta.name, meta.key, settings):
                setup.progress.done("draws: already known")
                return before
        lowest = np.array([np.nanmin(meta.loss_row(task)) for task in test], dtype=np.float64)
        curves: dict[str, list[Array]] = {name: [] for name in (*self.methods, "uniform")}
        with one_blas_thread():
            points = scaled(meta.pipelines, np.logical_or.reduce(np.isfinite(meta.losses), axis=0))
            for train, tasks in folds:
                best = best_columns(meta.select(train), TOP)
                for name, method in self.methods.items():
                    vectors = embedded(meta, method, train, setup.data)
                    for task in tasks:
                        apart = np.linalg.norm(vectors[train] - vectors[task], axis=1)
                        near = np.argsort(apart, kind="stable")[:_NEIGHBOURS]
                        columns, weights = mixture([best[i] for i in near])
                        curves[name].append(self._curve(meta, task, points, columns, weights))
                for task in tasks:
                    columns = np.flatnonzero(np.isfinite(meta.loss_row(task)))
                    weights = np.full(len(columns), 1.0 / len(columns))
                    curves["uniform"].append(self._curve(meta, task, points, columns, weights))
                setup.progress.done(f"{len(curves['uniform'])} of {len(test)} tasks")
        stacked = {name: np.array(values) for name, values in curves.items()}  # tasks × repetitions × draws
        flat = [values.reshape(-1, self.draws) for values in stacked.values()]
        places = ranks(flat).reshape(len(flat), len(test), self.repetitions, self.draws).mean(axis=2)
        found = Drawn(
            meta.name,
            meta.key,
            settings,
            [meta.tasks[task] for task in test],
            rounded(lowest),
            {name: [rounded(row) for row in values.mean(axis=1)] for name, values in stacked.items()},
            {name: [rounded(row) for row in values] for name, values in zip(stacked, places, strict=True)},
        )
        found.save(setup.out)
        return found

    load = staticmethod(Drawn.load)

    def _curve(self, meta: MetaDataset, task: int, points: Array, columns: Rows, weights: Array) -> Array:
        """Lowest losses so far, (repetitions, draws)."""
        losses = np.asarray(meta.loss_row(task), dtype=np.float64)
        place = recorded_nearest(points, columns, np.flatnonzero(np.isfinite(losses)))
        rng = np.random.default_rng(task)
        drawn = rng.choice(len(columns), (self.repetitions, self.draws), p=weights)
        found: Array = np.minimum.accumulate(losses[place[drawn]], axis=1)
        return found


def mixture(best: list[Rows]) -> tuple[Rows, Array]:
    """Columns of the pipelines of the nearest tasks, the nearest first, and their weights in ẑ."""
    shares = np.exp(-np.arange(1, len(best) + 1, dtype=np.float64))
    shares /= shares.sum()
    weights = [np.full(len(columns), share / len(columns)) for columns, share in zip(best, shares, strict=True)]
    return np.concatenate(best), np.concatenate(weights)


def recorded_nearest(points: Array, wanted: Rows, recorded: Rows) -> Rows:
    """Of each wanted column the nearest recorded one: itself where it is recorded."""
    from scipy.spatial.distance import cdist

    found = wanted.copy()
    lacking = ~np.isin(wanted, recorded)
    if lacking.any():
        found[lacking] = recorded[cdist(points[wanted[lacking]], points[recorded]).argmin(axis=1)]
    return found
