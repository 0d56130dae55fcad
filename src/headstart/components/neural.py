"""Multi-layer perceptrons by number and width of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neural_network import MLPClassifier as _Classifier
from sklearn.neural_network import MLPRegressor as _Regressor

from headstart.components._shared import Adapted, DelegateClassifier, ScaledTarget


@dataclass(eq=False, repr=False)
class _MLP(Adapted):
    """Multi-layer perceptron with `n_layers` hidden layers of `width` units.

    `early_stopping` keeps a tenth of the rows apart, where the table is large enough for it.
    """

    n_layers: int = 1
    width: int = 100
    activation: str = "relu"
    solver: str = "adam"
    alpha: float = 1e-4
    learning_rate: str = "constant"
    learning_rate_init: float = 1e-3
    batch_size: int = 200
    early_stopping: bool = False
    max_iter: int = 200
    random_state: Any = None

    def _sized(self, rows: int, can_split: bool) -> dict[str, Any]:
        return self._settings(
            *("width", "n_layers"),
            hidden_layer_sizes=(self.width,) * self.n_layers,
            batch_size=min(self.batch_size, rows),
            early_stopping=self.early_stopping and can_split,
        )


@dataclass(eq=False, repr=False)
class MLPClassifier(DelegateClassifier, _MLP):
    __doc__ = _MLP.__doc__

    def _make(self, X: Any, y: Any) -> Any:
        _, counts = np.unique(y, return_counts=True)
        enough = len(y) >= 100 and len(y) // 10 >= len(counts) and int(counts.min()) >= 2
        return _Classifier(**self._sized(X.shape[0], enough))


class MLPRegressor(ScaledTarget, _MLP):
    """As `MLPClassifier`, on a target of mean 0 and standard deviation 1."""

    def _make(self, X: Any, y: Any) -> Any:
        return _Regressor(**self._sized(X.shape[0], len(y) >= 100))
