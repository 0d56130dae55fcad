"""A surrogate of your own, under a name, in a fit.

Run: python examples/plugin.py [EVALUATIONS]

A package makes it known to all who install it by an entry point; more, and the contract tests: docs/plugins.md.

    [project.entry-points."headstart.surrogates"]
    neighbours = "my_package:Neighbours"
"""

from __future__ import annotations

import sys
from typing import Self

from sklearn.datasets import load_wine
from sklearn.neighbors import NearestNeighbors

from headstart import HeadstartClassifier, History
from headstart.registry import register
from headstart.space import Encoded
from headstart.surrogates import Prediction, Surrogate

EVALUATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 15


class Neighbours(Surrogate):
    """The mean of the k closest trials, and how far apart they are."""

    def __init__(self, k: int = 5) -> None:
        self.k = k

    def fit(self, history: History) -> Self:
        self._targets = history.targets()
        self._index = NearestNeighbors(n_neighbors=min(self.k, len(self._targets))).fit(history.encoded.features())
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        near = self._targets[self._index.kneighbors(encoded.features(), return_distance=False)]
        return Prediction(near.mean(axis=1), near.std(axis=1) + 0.01 * (self._targets.std() or 1.0))


register("surrogate", "neighbours", Neighbours)  # for this process; an entry point does it for all

X, y = load_wine(return_X_y=True, as_frame=True)
model = HeadstartClassifier(evaluations=EVALUATIONS, optimizer="neighbours(k=3)").fit(X, y)
print(model.leaderboard_[["score", "weight", "estimator"]].head(5).to_string(index=False))
print("proposed by:", sorted({str(trial.proposal.origin.get("by")) for trial in model.history_}))
