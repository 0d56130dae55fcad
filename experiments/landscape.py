"""What Metabu says of the space of tasks: its dimension, what counts in it, how bootstraps lie, what it costs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.embedding import flattened, short
from experiments.experiment import Setup, Table, known
from experiments.topology import TOP, standardised, without_best
from headstart.errors import NeedsTable
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources import load
from headstart.metadata.sources.metabu_adaboost import feature_names
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.metafeatures.tables import table_metafeatures
from headstart.methods.metabu import Metabu
from headstart.methods.metabu.geometry import dimension_stability
from headstart.methods.metabu.targets import target_representations, wasserstein_distances
from headstart.numerics.threads import one_blas_thread
from headstart.replay.results import Saved

Array = NDArray[np.float64]
_SHARES = (0.1, 0.25, 0.5, 0.75, 1.0)
_DRAWS = 50


@dataclass
class Stable(Saved):
    """Intrinsic dimensions of parts of the tasks.

    Parameters
    ----------
    meta, key
        Name and key of the meta-dataset.
    dimensions
        By what was done: share of the tasks, their number, mean and standard deviation over draws.
    """

    holds = "intrinsic dimensions"
    meta: str
    key: str
    dimensions: dict[str, list[list[float]]]

    def table(self) -> Table:
        rows = []
        for name, parts in self.dimensions.items():
            cells = [
                f"{mean:.2f} ({deviation:.2f})" if share < 1 else f"{mean:.2f}" for share, _, mean, deviation in parts
            ]
            rows.append([name, *cells])
        title = f"{self.meta}: intrinsic dimension by share of the tasks, mean (standard deviation) of {_DRAWS} draws"
        return Table(title, ["distances", *(f"{share:g}" for share in _SHARES)], rows)


class Dimension:
    """An experiment on the intrinsic dimension, as it should be and as it was printed (table C.5)."""

    def run(self, setup: Setup) -> Stable:
        """Estimate; save."""
        meta = setup.meta
        if before := known(Stable, setup.out, meta=meta.name, key=meta.key):
            return before
        best = target_representations(meta, TOP)
        later = target_representations(without_best(meta, 10), TOP)
        distances = {"20 best": wasserstein_distances(best), "11th to 30th": wasserstein_distances(later)}
        distances["11th to 30th, each pair by its largest cost"] = _by_largest(later, distances["11th to 30th"])
        distances["the same, ratios of squares as printed"] = (
            distances["11th to 30th, each pair by its largest cost"] ** 2
        )
        found = Stable(
            meta.name,
            meta.key,
            {
                name: [[round(value, 3) for value in part] for part in dimension_stability(values, _SHARES, _DRAWS)]
                for name, values in distances.items()
            },
        )
        found.save(setup.out)
        return found

    load = staticmethod(Stable.load)


def _by_largest(representations: list[Array], distances: Array) -> Array:
    """Distances by the largest cost of each pair, as in the released code; not comparable across pairs."""
    from scipy.spatial.distance import cdist

    largest = np.array([[cdist(one, other).max() for other in representations] for one in representations])
    return np.where(np.eye(len(distances), dtype=bool), 0.0, distances / np.maximum(largest, 1e-12))


@dataclass
class Important(Saved):
    """Importance of the same meta-features for two kinds of pipelines.

    Parameters
    ----------
    meta, key
        Of the second.
    about
        Names of both, and how many tasks they were learned from.
    importance
        By meta-feature: for the first and the second, as shares of the largest.
    """

    holds = "importance of meta-features"
    meta: str
    key: str
    about: dict[str, Any]
    importance: dict[str, list[float]]

    def table(self) -> Table:
        rows = [
            [f"most for {what}", ", ".join(sorted(self.importance, key=lambda n: -self.importance[n][i])[:8])]
            for i, what in enumerate(self.about["names"])
        ]
        both = sorted(self.importance, key=lambda name: -min(self.importance[name]))[:8]
        return Table("importance of meta-features", ["", "meta-features"], [*rows, ["for both", ", ".join(both)]])


@dataclass(frozen=True)
class Importance:
    """An experiment on what counts for AdaBoost and for an estimator of another meta-dataset (figure 6.6).

    Parameters
    ----------
    estimator
        Its name there.
    """

    estimator: str = "random_forest"

    def run(self, setup: Setup) -> Important:
        """Learn both maps of the meta-features that both have; save."""
        meta = setup.meta
        if before := known(Important, setup.out, meta=meta.name, key=meta.key):
            return before
        if setup.data is None:
            raise NeedsTable("importance is compared on raw tables: name a folder with --data DIR")
        described = with_full(setup, self.estimator)
        adaboost = load("metabu_adaboost", setup.data)
        theirs, ours = feature_names(setup.data), list(HandCrafted("full").names)
        both = [name for name in ours if name in theirs]
        first = adaboost.changed(
            metafeatures={"shared": adaboost.metafeatures["pymfe"][:, [theirs.index(n) for n in both]]}
        )
        second = described.changed(
            metafeatures={"shared": described.metafeatures["full"][:, [ours.index(n) for n in both]]}
        )
        with one_blas_thread():
            maps = [Metabu("shared").meta_fit(part) for part in (first, second)]
        found = []
        for learned in maps:
            by_name = learned.importance()
            values = np.array([by_name[f"shared {k}"] for k in range(len(both))])
            found.append(values / values.max())
        important = Important(
            meta.name,
            meta.key,
            {"names": ["AdaBoost", self.estimator], "tasks": [len(m.tasks) for m in maps]},
            {name: [round(float(values[k]), 4) for values in found] for k, name in enumerate(both)},
        )
        important.save(setup.out)
        return important

    load = staticmethod(Important.load)


def with_full(setup: Setup, estimator: str) -> MetaDataset:
    """The training tasks that have tables, with all hand-crafted meta-features and the results of one estimator."""
    meta = setup.meta.split("train") if "train" in setup.meta.splits else setup.meta
    meta = meta.select([task for task in range(len(meta)) if meta.tables[task] is not None])
    stage = meta.pipelines.space.stages[-1]
    own = meta.pipelines.choice[:, -1] == stage.position(estimator)
    vectors = []
    for task in range(len(meta)):
        dataset = meta.dataset(task)
        vectors.append(None if dataset is None else table_metafeatures(dataset, ["full"], {})["full"])
        if task % 20 == 19:
            setup.progress.done(f"{task + 1} of {len(meta)} tables described")
    width = next(len(vector) for vector in vectors if vector is not None)
    full = np.array([np.full(width, np.nan) if vector is None else vector for vector in vectors])
    return meta.changed(losses=np.where(own, meta.losses, np.nan), metafeatures={"full": full})


@dataclass
class Resampled(Saved):
    """Tables and their bootstraps by their meta-features, in two dimensions.

    Parameters
    ----------
    meta, key
        Name and key of the meta-dataset.
    tables
        Their names.
    owner
        (n,) which table each point is of; the first point of a table is the table itself.
    flat
        (n, 2) by t-SNE of standardised meta-features.
    closest
        Share of the bootstraps whose nearest other point is of the same table.
    seconds
        Of the processor: mean for describing a table, and for training on 63 tasks.
    """

    holds = "bootstraps of tables"
    meta: str
    key: str
    tables: list[str]
    owner: list[int]
    flat: list[list[float]]
    closest: float
    seconds: dict[str, float]

    def table(self) -> Table:
        rows = [["tables", str(len(self.tables))], ["bootstraps", str(len(self.owner) - len(self.tables))]]
        rows += [["points whose nearest other point is of the same table", f"{self.closest:.3f}"]]
        rows += [[f"seconds: {what}", f"{value:.2f}"] for what, value in self.seconds.items()]
        return Table(f"{self.meta}: tables and their bootstraps", ["", "value"], rows)


@dataclass(frozen=True)
class Augmented:
    """An experiment on bootstraps (figure 6.2) and on what meta-features and training cost (figure C.1).

    Parameters
    ----------
    tables, bootstraps
        The first tables with at most 2,000 rows, and how many bootstraps of each.
    """

    tables: int = 15
    bootstraps: int = 8

    def run(self, setup: Setup) -> Resampled:
        """Resample and describe; save."""
        meta = setup.meta
        if before := known(Resampled, setup.out, meta=meta.name, key=meta.key):
            return before
        if setup.data is None:
            raise NeedsTable("bootstraps are of raw tables: name a folder with --data DIR")
        rng, extractor = np.random.default_rng(0), HandCrafted("full")
        names: list[str] = []
        vectors: list[Array] = []
        owner: list[int] = []
        spent = 0.0
        for task in range(len(meta)):
            dataset = meta.dataset(task) if len(names) < self.tables else None
            if dataset is None or dataset.n_rows > 2000:
                continue
            n = dataset.n_rows
            samples = [dataset, *(dataset.take(rng.integers(0, n, n)) for _ in range(self.bootstraps))]
            began = time.process_time()
            vectors += [extractor.measure(sample).values for sample in samples]
            spent += time.process_time() - began
            owner += [len(names)] * len(samples)
            names.append(meta.tasks[task])
            setup.progress.done(f"{len(names)} of {self.tables} tables")
        each = spent / len(vectors)
        adaboost = load("metabu_adaboost", setup.data)
        began = time.process_time()
        with one_blas_thread():
            Metabu("pymfe").meta_fit(adaboost.select(range(1, len(adaboost))))
        training = time.process_time() - began
        points = np.clip(standardised(np.array(vectors), range(len(vectors))), -3.0, 3.0)
        apart = np.linalg.norm(points[:, None] - points, axis=2)
        np.fill_diagonal(apart, np.inf)
        own = np.array(owner)
        found = Resampled(
            meta.name,
            meta.key,
            names,
            owner,
            short(flattened(points)),
            float((own[apart.argmin(axis=1)] == own).mean()),
            {"describe a table (full)": each, "train on 63 tasks": training},
        )
        found.save(setup.out)
        return found

    load = staticmethod(Resampled.load)
