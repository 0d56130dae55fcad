"""`ForestSurrogate`: a random forest over encoded pipelines, as in SMAC."""

from __future__ import annotations

from typing import Self

from headstart.history import History
from headstart.numerics.forest import Forest
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate

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

    def fit(self, history: History) -> Self:
        encoded, targets = history.with_pending()
        forest = Forest(n_trees=self.n_trees, min_samples_leaf=self.min_samples_leaf, seed=self.seed)
        self._forest = forest.fit(encoded.features(_INACTIVE), targets)
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        return Prediction(*self._forest.posterior(encoded.features(_INACTIVE)))
