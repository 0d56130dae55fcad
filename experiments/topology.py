"""`Topology`: whether tasks that are near by their meta-features are near by their best pipelines (Metabu's task 1).

=========  ==================  ===============================================================================
symbol     name in code        equation
=========  ==================  ===============================================================================
k          at                  so many of the nearest tasks are looked at
r_i        relevant            whether the i-th nearest task by meta-features is among the k nearest by d_W¹
DCG@k      `gain`              Σ_{i ≤ k} r_i / log₂(i + 1)
NDCG@k     ``"full"``          DCG@k by that of k relevant tasks
           ``"retrieved"``     DCG@k by that of the same k tasks, the relevant ones first
=========  ==================  ===============================================================================

The second one says nothing of how many of the k tasks are relevant, only of how early they come. The thesis describes
the first and its figures have the size of the second, so both are measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources.metabu_adaboost import feature_names
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.methods.metabu import Metabu
from headstart.methods.metabu.targets import target_representations, wasserstein_distances
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.recorded import best_columns
from headstart.registry import create
from headstart.replay.results import Saved, half_width, shown, wilcoxon

Array = NDArray[np.float64]
AT = (10, 15, 20, 25)
TOP = 20
BASE = {"metabu_adaboost": "pymfe"}
"""Meta-features that sets are parts of and Metabu combines, by meta-dataset; ``"handcrafted"`` for others."""
_PYMFE: Mapping[str, tuple[str, ...]] = {
    "auto_sklearn": (
        *("freq_class.mean", "freq_class.sd", "attr_to_inst", "inst_to_attr", "kurtosis.mean", "kurtosis.sd"),
        *("skewness.mean", "skewness.sd", "nr_attr", "nr_cat", "nr_num", "nr_class", "nr_inst", "cat_to_num"),
        *("num_to_cat", "log nr_attr", "log nr_inst", "log attr_to_inst"),
    ),
    "landmark": ("nr_attr", "nr_num", "nr_cat", "nr_class", "linear_discr.mean", "naive_bayes.mean"),
    "scot": ("nr_class", "log nr_attr", "log attr_to_inst", "t4"),
}
"""What there is of the sets among the columns that were released; ``log`` is the logarithm of a column."""


def vectors_of_set(meta: MetaDataset, name: str, data: Path | None) -> Array:
    """Vectors (T, k) of a set of meta-features, as they are on record."""
    base = np.asarray(meta.metafeatures[BASE.get(meta.name, "handcrafted")], dtype=np.float64)
    if name == "all":
        return base
    if meta.name in BASE:
        assert data is not None
        known, wanted = feature_names(data), _PYMFE[name]
    else:
        known, wanted = list(HandCrafted("mf1").names), HandCrafted(name).names
    columns = []
    for column in wanted:
        values = base[:, known.index(column.removeprefix("log "))]
        columns.append(np.log(np.maximum(values, 1e-12)) if column.startswith("log ") else values)
    return np.array(columns).T


def standardised(vectors: Array, train: Sequence[int]) -> Array:
    """Vectors in units of the training tasks; what is missing is at their median."""
    known = np.where(np.isfinite(vectors), vectors, np.nan)
    some = np.isfinite(known[train]).any(axis=0)
    medians = np.zeros(vectors.shape[1])
    medians[some] = np.nanmedian(known[train][:, some], axis=0)
    filled = np.where(np.isnan(known), medians, known)
    deviation = filled[train].std(axis=0)
    varies = deviation > 1e-12 * np.maximum(1.0, np.abs(filled[train].mean(axis=0)))
    found: Array = (filled - filled[train].mean(axis=0)) * np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)
    return found


def embedded(meta: MetaDataset, method: str, train: Sequence[int], data: Path | None) -> Array:
    """Vectors (T, k) of all tasks by a method that has learned from some: the name of a set, or a Metabu."""
    if not method.startswith("metabu"):
        return standardised(vectors_of_set(meta, method, data), train)
    base = BASE.get(meta.name, "handcrafted")
    learned: Metabu = create("metafeatures", method, metafeatures=base).meta_fit(meta.select(train))
    return np.array([learned.transform(None, {base: row}) for row in meta.metafeatures[base]])


def folds_of(meta: MetaDataset) -> list[tuple[list[int], list[int]]]:
    """Training and test tasks, over and over: the split of the meta-dataset, or one task left out at a time.

    Tasks without results or meta-features are left out altogether.
    """
    vectors = meta.metafeatures[BASE.get(meta.name, "handcrafted")]
    usable = [t for t in range(len(meta)) if np.isfinite(vectors[t]).any() and np.isfinite(meta.loss_row(t)).any()]
    if "test" in meta.splits:
        train, test = ([t for t in meta.splits[name].tolist() if t in set(usable)] for name in ("train", "test"))
        return [(train, test)]
    return [([t for t in usable if t != left], [left]) for left in usable]


def without_best(meta: MetaDataset, number: int) -> MetaDataset:
    """The meta-dataset without the best results of each task."""
    losses = np.array(meta.losses)
    for task, columns in enumerate(best_columns(meta, number)):
        losses[task, columns] = np.nan
    return meta.changed(losses=losses)


def gain(relevant: NDArray[np.bool_]) -> float:
    """Discounted cumulative gain of tasks in their order."""
    return float((relevant / np.log2(np.arange(len(relevant)) + 2)).sum())


def scores(found: NDArray[np.int64], truth: NDArray[np.int64], at: Sequence[int]) -> dict[str, list[float]]:
    """NDCG of tasks in an order, (at,), when they should be in another; both ways of counting.

    >>> found, truth = np.array([3, 0, 1, 2]), np.array([0, 3, 2, 1])
    >>> scores(found, truth, (2,)), scores(np.array([1, 0, 2, 3]), truth, (2,))["retrieved"][0].__round__(3)
    ({'full': [1.0], 'retrieved': [1.0]}, 0.631)
    """
    given: dict[str, list[float]] = {"full": [], "retrieved": []}
    for k in at:
        relevant = np.isin(found[:k], truth[:k])
        reached = gain(relevant)
        given["full"].append(reached / gain(np.ones(len(relevant), dtype=bool)))
        given["retrieved"].append(reached / gain(np.sort(relevant)[::-1]) if relevant.any() else 0.0)
    return given


@dataclass
class Ranked(Saved):
    """NDCG of methods on the same tasks.

    Parameters
    ----------
    meta, key
        Name and key of the meta-dataset.
    settings
        Of the experiment.
    at
        Numbers of neighbours.
    tasks
        Names of the test tasks.
    methods
        By label: ``"full"`` and ``"retrieved"``, (tasks, at).
    """

    holds = "NDCG of meta-features"
    meta: str
    key: str
    settings: dict[str, Any]
    at: list[int]
    tasks: list[str]
    methods: dict[str, dict[str, list[list[float]]]] = field(default_factory=dict)

    def values(self, method: str, how: str = "full") -> Array:
        """(tasks, at)."""
        return np.array(self.methods[method][how])

    def table(self) -> Table:
        """Means over tasks, half widths of 95 % intervals, and p of Wilcoxon's test against the first (Holm)."""
        from experiments.pages import holm  # pages know all experiments, this one too

        rows: list[list[str]] = []
        own, *others = self.methods
        corrected = [
            holm({name: wilcoxon(self.values(own)[:, k], self.values(name)[:, k]) for name in others}) for k in (0, -1)
        ]
        for name in self.methods:
            found = self.values(name)
            widths = half_width(found)
            cells = [f"{m:.3f} ± {shown(float(w), '.3f')}" for m, w in zip(found.mean(axis=0), widths, strict=True)]
            p = ["" if name == own else f"{of_k[name]:.2g}" for of_k in corrected]
            late = " / ".join(f"{m:.2f}" for m in self.values(name, "retrieved").mean(axis=0))
            rows.append([name, *cells, *p, late])
        title = f"{self.meta}: NDCG@k over {len(self.tasks)} tasks"
        columns = ["meta-features", *map(str, self.at), f"p at {self.at[0]}", f"p at {self.at[-1]}", "of the retrieved"]
        return Table(title, columns, rows)


@dataclass(frozen=True)
class Topology:
    """An experiment on neighbours of tasks.

    Parameters
    ----------
    methods
        By label: the name of a set, ``"all"`` meta-features, or a Metabu with settings. The first is compared with the
        others.
    left_out
        So many of the best results of each task are taken away first.
    folds
        So many of the folds, evenly spaced; all when omitted.
    """

    methods: Mapping[str, str]
    left_out: int = 0
    folds: int | None = None

    def run(self, setup: Setup) -> Ranked:
        """Measure what is not in the file yet; saved after each method."""
        meta = setup.meta
        folds = folds_of(meta)
        if self.folds is not None and self.folds < len(folds):
            folds = [folds[i] for i in np.linspace(0, len(folds) - 1, self.folds).round().astype(int)]
        test = [task for _, tasks in folds for task in tasks]
        settings = {"left_out": self.left_out, "folds": len(folds)}
        found = Ranked(meta.name, meta.key, settings, list(AT), [meta.tasks[t] for t in test])
        if setup.out.exists():
            before = Ranked.load(setup.out)
            if {**vars(before), "methods": {}} == vars(found):
                found = before
        given = without_best(meta, self.left_out) if self.left_out else meta
        with one_blas_thread():
            truth: Array | None = None
            for label, method in self.methods.items():
                if label in found.methods:
                    continue
                truth = self._truth(given, folds) if truth is None else truth
                found.methods[label] = self._measured(given, folds, method, truth, setup.data)
                found.methods = {name: found.methods[name] for name in self.methods if name in found.methods}
                found.save(setup.out)
                reached = found.values(label).mean(axis=0)[0]
                setup.progress.done(f"{label}: NDCG@{AT[0]} {reached:.3f}")
        return found

    load = staticmethod(Ranked.load)

    def _truth(self, meta: MetaDataset, folds: list[tuple[list[int], list[int]]]) -> Array:
        """Distances (T, T) between all tasks by their best pipelines; 0 where they are not needed."""
        needed = sorted({task for train, test in folds for task in (*train, *test)})
        part = wasserstein_distances(target_representations(meta.select(needed), TOP))
        distances = np.zeros((len(meta), len(meta)))
        distances[np.ix_(needed, needed)] = part
        return distances

    def _measured(
        self,
        meta: MetaDataset,
        folds: list[tuple[list[int], list[int]]],
        method: str,
        truth: Array,
        data: Path | None,
    ) -> dict[str, list[list[float]]]:
        rows: dict[str, list[list[float]]] = {"full": [], "retrieved": []}
        for train, test in folds:
            vectors = embedded(meta, method, train, data)
            for task in test:
                apart = np.linalg.norm(vectors[train] - vectors[task], axis=1)
                found, wanted = (np.argsort(far, kind="stable") for far in (apart, truth[task][train]))
                for how, values in scores(found, wanted, AT).items():
                    rows[how].append([round(value, 5) for value in values])
        return rows
