"""`ForestSurrogate`: a random forest over encoded pipelines, as in SMAC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from headstart.history import History
from headstart.numerics.forest import Forest, Leaves
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Array, Prediction, Surrogate

_INACTIVE = -1.0
"""Outside the range of every column, so that one split tells active from inactive."""


class ForestSurrogate(Surrogate):
    """Random forest whose variance is that over trees plus that within leaves (Hutter, Hoos & Leyton-Brown, LION 2011).

    Parameters
    ----------
    n_trees
        Number of trees.
    min_samples_leaf
        Fewest trials in a leaf.
    seed
        Of the trees; the same history gives the same forest.
    """

    def __init__(self, n_trees: int = 30, min_samples_leaf: int = 3, seed: int = 0) -> None:
        self.n_trees = n_trees
        self.min_samples_leaf = min_samples_leaf
        self.seed = seed
        self._grown: Forest | None = None
        """From the trials alone; `_forest` knows the proposals under way too."""
        self._grown_from = b""
        self._held: list[int] = []
        """Ids of the pipelines under way that `_forest` knows."""
        self._seen: _Seen | None = None

    def fit(self, history: History) -> Self:
        """Grow the trees from the trials alone; what is under way is added to their leaves, which takes no time.

        So of several proposals between two results only the first one has to wait for trees.
        """
        targets = history.targets()
        key = history.encoded.ids.tobytes() + targets.tobytes()
        if self._grown is None or self._grown_from != key:
            grown = Forest(n_trees=self.n_trees, min_samples_leaf=self.min_samples_leaf, seed=self.seed)
            self._grown = self._forest = grown.fit(history.encoded.features(_INACTIVE), targets)
            self._grown_from, self._held, self._seen = key, [], None
        waiting = history.waiting
        ids = waiting.ids.tolist()
        if ids[: len(self._held)] != self._held:
            self._forest, self._held = self._grown, []
        if len(ids) > len(self._held):
            new = waiting.take(np.arange(len(self._held), len(ids)))
            self._forest, self._held = self._forest.holding(new.features(_INACTIVE), history.lie), ids
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        seen = self._seen
        if seen is None or seen.encoded is not encoded:  # where candidates are listed they are always the same
            leaves = self._forest.leaves(encoded.features(_INACTIVE))
            seen = self._seen = _Seen(encoded, leaves, self._forest, *self._forest.at(leaves))
        elif seen.forest is not self._forest:
            rows = np.flatnonzero(self._forest.differs(seen.forest, seen.leaves))
            mean, std = seen.mean.copy(), seen.std.copy()
            mean[rows], std[rows] = self._forest.at(seen.leaves[:, rows])
            seen = self._seen = _Seen(encoded, seen.leaves, self._forest, mean, std)
        return Prediction(seen.mean.copy(), seen.std.copy())


@dataclass(frozen=True)
class _Seen:
    """What was predicted last, and by which forest."""

    encoded: Encoded
    leaves: Leaves
    forest: Forest
    mean: Array
    std: Array
