"""A surrogate of your own, under a name, in a fit.

Run: python examples/plugin.py [EVALUATIONS]

A package makes it known to all who install it by an entry point; more, and the contract tests: docs/plugins.md.

    [project.entry-points."headstart.surrogates"]
    neighbours = "my_package:Neighbours"
"""

from __future__ import annotations

import sys
from typing import Self

import numpy as np
from sklearn.datasets import load_wine

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
        self._points, self._targets = history.encoded.features(), history.targets()
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        if len(self._targets) == 0:
            return Prediction(np.zeros(len(encoded)), np.ones(len(encoded)))
        apart = np.linalg.norm(encoded.features()[:, None] - self._points, axis=2)
        near = self._targets[np.argsort(apart, axis=1, kind="stable")[:, : self.k]]
        return Prediction(near.mean(axis=1), near.std(axis=1) + 0.01 * (self._targets.std() or 1.0))


register("surrogate", "neighbours", Neighbours)  # for this process; an entry point does it for all

X, y = load_wine(return_X_y=True, as_frame=True)
model = HeadstartClassifier(evaluations=EVALUATIONS, optimizer="neighbours(k=3)").fit(X, y)
print(model.leaderboard_[["score", "weight", "estimator"]].head(5).to_string(index=False))
print("proposed by:", sorted({str(trial.proposal.origin.get("by")) for trial in model.history_}))
