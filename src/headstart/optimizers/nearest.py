"""`Nearest`: the best pipelines of the datasets that are most alike by their meta-features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.errors import InvalidInput, NeedsTable, UnknownName, check_positive, suggestion
from headstart.learning.base import Needs
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.recorded import Mask, RecordedOptimizer, Rows, best_columns

Array = NDArray[np.float64]


class Neighbourhood:
    """Distances between datasets: L1 on meta-features that are standardised over the training tasks.

    A meta-feature that is missing or infinite stands at the mean of the others; one that is the same on all training
    tasks is left out.

    Parameters
    ----------
    vectors
        (T, k) of the training tasks.
    """

    def __init__(self, vectors: ArrayLike) -> None:
        known = np.array(vectors, dtype=np.float64)
        if known.ndim != 2:
            raise InvalidInput(f"meta-features must be tasks × features, got shape {known.shape}")
        present = np.isfinite(known)
        count = np.maximum(present.sum(axis=0), 1)
        self._mean = np.where(present, known, 0.0).sum(axis=0) / count
        deviation = np.where(present, known - self._mean, 0.0)
        scale = np.sqrt((deviation**2).sum(axis=0) / count)
        varies = scale > 1e-12 * np.maximum(1.0, np.abs(self._mean))
        self._weight = np.where(varies, 1.0 / np.where(varies, scale, 1.0), 0.0)
        self._vectors = deviation * self._weight

    def nearest(self, vector: ArrayLike) -> Rows:
        """Positions of all training tasks, the nearest first."""
        point = np.asarray(vector, dtype=np.float64).reshape(-1)
        if len(point) != len(self._mean):
            raise InvalidInput(
                f"the task must have the {len(self._mean)} meta-features that were learned from, got {len(point)}"
            )
        scaled = np.where(np.isfinite(point), point - self._mean, 0.0) * self._weight
        return np.argsort(np.abs(self._vectors - scaled).sum(axis=1), kind="stable")


def meta_features_name(meta: MetaDataset, name: str | None) -> str:
    """The meta-features to use: those named, or the first; raises where the meta-dataset does not have them."""
    if not meta.metafeatures:
        raise NeedsTable(f"meta-features are needed to find near datasets, and meta-dataset {meta.name!r} has none")
    if name is None:
        return next(iter(meta.metafeatures))
    if name not in meta.metafeatures:
        raise UnknownName(f"no meta-features are named {name!r}; {suggestion(name, meta.metafeatures)}")
    return name


def _taking_turns(lists: list[Rows]) -> Rows:
    """First of each list, second of each, and so on; what came before is left out."""
    depth = max((len(row) for row in lists), default=0)
    table = np.full((depth, len(lists)), -1, dtype=np.int64)
    for i, row in enumerate(lists):
        table[: len(row), i] = row
    flat = table.ravel()
    flat = flat[flat >= 0]
    _, first = np.unique(flat, return_index=True)
    return flat[np.sort(first)]


class Nearest(RecordedOptimizer):
    """The best pipelines of the nearest datasets in turns: the best of the nearest, of the second nearest, … (Feurer,
    Springenberg & Hutter, AAAI 2015).

    After the best of all neighbours come their second best, and so on. It learns nothing from results on the new task.
    Distance is L1 on standardised meta-features, as in auto-sklearn's and PMF's warm start, of which this is the
    continuation.

    Parameters
    ----------
    neighbours
        How many datasets take turns.
    metafeatures
        Name of the meta-features to compare; the first ones of the meta-dataset when omitted.
    depth
        How many pipelines of each training task are remembered.
    """

    keeps = ("_recorded", "_name", "_vectors", "_best")
    adjustable = frozenset({"neighbours"})
    _name: str | None = None

    def __init__(self, neighbours: int = 25, metafeatures: str | None = None, depth: int = 500) -> None:
        check_positive("neighbours", neighbours, whole=True)
        check_positive("depth", depth, whole=True)
        self.neighbours = neighbours
        self.metafeatures = metafeatures
        self.depth = depth

    @property
    def needs(self) -> Needs:
        name = self._name or self.metafeatures
        return super().needs | Needs(metafeatures=frozenset({name} if name else ()))

    def learn(self, meta: MetaDataset) -> None:
        self._name = meta_features_name(meta, self.metafeatures)
        described = np.flatnonzero(np.isfinite(meta.metafeatures[self._name]).any(axis=1))
        meta = meta.select(described)  # the others are near to nothing
        self._vectors: Array = np.array(meta.metafeatures[self._name], dtype=np.float64)
        self._best = best_columns(meta, self.depth)

    def begin(self) -> None:
        assert self._name is not None
        if self._name not in self.task.metafeatures:
            raise NeedsTable(
                f"the task has no meta-features {self._name!r}, which Nearest was taught with; "
                f"{suggestion(self._name, self.task.metafeatures)}"
            )
        near = Neighbourhood(self._vectors).nearest(self.task.metafeatures[self._name])
        place = np.full(int(self.known.columns.max(initial=-1)) + 1, -1, dtype=np.int64)
        place[self.known.columns] = np.arange(len(self.known))
        lists = []
        for task in near[: self.neighbours]:  # what is not a candidate is passed over
            columns = self._best[task][self._best[task] < len(place)]
            lists.append(place[columns][place[columns] >= 0])
        order = _taking_turns(lists)
        others = np.setdiff1d(np.arange(len(self.known)), order)
        self._order, self._ranked = np.concatenate([order, others]), len(order)

    def choose(self, left: Mask, rng: np.random.Generator) -> tuple[int, dict[str, Any]]:
        turn = int(left[self._order].argmax())
        if turn >= self._ranked:
            return int(rng.choice(np.flatnonzero(left))), {"by": "random"}
        return int(self._order[turn]), {"by": "nearest", "turn": turn}
