"""`Nearest`: the best pipelines of the datasets that are most alike by their meta-features."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.errors import InvalidInput, NeedsTable, UnknownName, check_positive, suggestion
from headstart.learning.base import Needs
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.recorded import Mask, RecordedOptimizer, Rows, best_columns

Array = NDArray[np.float64]
Distance = Literal["l1", "l2"]
Order = Literal["turns", "mean_rank", "drawn"]


class Neighbourhood:
    """Distances between datasets.

    A meta-feature that is missing or infinite stands at the mean of the others; one that is the same on all training
    tasks is left out.

    Parameters
    ----------
    vectors
        (T, k) of the training tasks.
    distance
        ``"l1"``, the sum of absolute differences, or ``"l2"``, Euclidean.
    standardise
        Whether to divide each meta-feature by its standard deviation over the training tasks.
    """

    def __init__(self, vectors: ArrayLike, distance: Distance = "l1", standardise: bool = True) -> None:
        self._power = 1 if distance == "l1" else 2
        known = np.array(vectors, dtype=np.float64)
        if known.ndim != 2:
            raise InvalidInput(f"meta-features must be tasks × features, got shape {known.shape}")
        present = np.isfinite(known)
        count = np.maximum(present.sum(axis=0), 1)
        self._mean = np.where(present, known, 0.0).sum(axis=0) / count
        deviation = np.where(present, known - self._mean, 0.0)
        scale = np.sqrt((deviation**2).sum(axis=0) / count)
        varies = scale > 1e-12 * np.maximum(1.0, np.abs(self._mean))
        self._weight = np.where(varies, 1.0 / np.where(varies & standardise, scale, 1.0), 0.0)
        self._vectors = deviation * self._weight

    def nearest(self, vector: ArrayLike) -> Rows:
        """Positions of all training tasks, the nearest first."""
        point = np.asarray(vector, dtype=np.float64).reshape(-1)
        if len(point) != len(self._mean):
            raise InvalidInput(
                f"the task must have the {len(self._mean)} meta-features that were learned from, got {len(point)}"
            )
        scaled = np.where(np.isfinite(point), point - self._mean, 0.0) * self._weight
        return np.argsort((np.abs(self._vectors - scaled) ** self._power).sum(axis=1), kind="stable")


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


def _by_mean_rank(lists: list[Rows]) -> Rows:
    """By the mean place in the lists; what is not in a list is behind the last of the longest one there."""
    turns = _taking_turns(lists)
    ranks = np.full((int(turns.max(initial=-1)) + 1, len(lists)), max(map(len, lists), default=0), dtype=np.int64)
    for i, row in enumerate(lists):
        ranks[row, i] = np.arange(len(row))
    return turns[np.argsort(ranks[turns].sum(axis=1), kind="stable")]


class Nearest(RecordedOptimizer):
    """The best pipelines of the datasets that are most alike by their meta-features (Feurer, Springenberg & Hutter,
    AAAI 2015).

    It learns nothing from results on the new task, so it is mostly a warm start of another optimizer. As published:

    - ``nearest``: the best of the nearest dataset, of the second nearest, and so on, by L1. The first five are PMF's
      start, the first 25 auto-sklearn's.
    - ``metabu``: drawn from those of ten neighbours by learned meta-features (Rakotoarison et al., ICLR 2022).

    Parameters
    ----------
    neighbours
        How many datasets have a say.
    metafeatures
        Name of the meta-features to compare; the first ones of the meta-dataset when omitted.
    distance
        ``"l1"`` or ``"l2"``.
    order
        ``"turns"``: the best of each neighbour, the nearest first, then the second best of each, and so on.
        ``"mean_rank"``: by the mean rank over the neighbours; what is not remembered of one ranks last there.
        ``"drawn"``: a neighbour at random, the ℓ-th with a chance proportional to e^−ℓ, then any of its pipelines.
    depth
        How many pipelines of each training task count, the best ones; at most as many as `meta_fit` has remembered.
    standardise
        Whether to divide each meta-feature by its standard deviation over the training tasks.
    """

    keeps = ("_recorded", "_name", "_vectors", "_best")
    adjustable = frozenset({"neighbours", "distance", "order", "depth", "standardise"})
    _name: str | None = None

    def __init__(
        self,
        neighbours: int = 25,
        metafeatures: str | None = None,
        distance: Distance = "l1",
        order: Order = "turns",
        depth: int = 500,
        standardise: bool = True,
    ) -> None:
        check_positive("neighbours", neighbours, whole=True)
        check_positive("depth", depth, whole=True)
        for name, value, known in (("distance", distance, Distance), ("order", order, Order)):
            if value not in get_args(known):
                raise InvalidInput(f"{name} must be one of {', '.join(get_args(known))}, got {value!r}")
        self.neighbours = neighbours
        self.metafeatures = metafeatures
        self.distance: Distance = distance
        self.order: Order = order
        self.depth = depth
        self.standardise = standardise

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
        near = Neighbourhood(self._vectors, self.distance, self.standardise).nearest(self.task.metafeatures[self._name])
        place = np.full(int(self.known.columns.max(initial=-1)) + 1, -1, dtype=np.int64)
        place[self.known.columns] = np.arange(len(self.known))
        self._lists: list[Rows] = []
        for task in near[: self.neighbours]:  # what is not a candidate is passed over
            best = self._best[task][: self.depth]
            columns = best[best < len(place)]
            self._lists.append(place[columns][place[columns] >= 0])
        self._order = _by_mean_rank(self._lists) if self.order == "mean_rank" else _taking_turns(self._lists)

    def choose(self, left: Mask, rng: np.random.Generator) -> tuple[int, dict[str, Any]]:
        if not left[self._order].any():
            return int(rng.choice(np.flatnonzero(left))), {"by": "random"}
        if self.order != "drawn":
            turn = int(left[self._order].argmax())
            return int(self._order[turn]), {"by": "nearest", "turn": turn}
        chances = np.array([np.exp(-i) * left[row].any() for i, row in enumerate(self._lists)])
        neighbour = int(rng.choice(len(chances), p=chances / chances.sum()))
        row = self._lists[neighbour]
        return int(rng.choice(row[left[row]])), {"by": "nearest", "neighbour": neighbour}
