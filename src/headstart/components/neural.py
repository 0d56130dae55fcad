"""Multi-layer perceptrons by number and width of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.neural_network import MLPClassifier as _Classifier
from sklearn.neural_network import MLPRegressor as _Regressor

from headstart.components._shared import DelegateClassifier, ScaledTarget


@dataclass(eq=False, repr=False)
class _MLP(BaseEstimator):  # type: ignore[misc]
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

    def _settings(self, rows: int, can_split: bool) -> dict[str, Any]:
        settings: dict[str, Any] = self.get_params(deep=False)
        settings["hidden_layer_sizes"] = (settings.pop("width"),) * settings.pop("n_layers")
        settings["batch_size"] = min(self.batch_size, rows)
        settings["early_stopping"] = self.early_stopping and can_split
        return settings


class MLPClassifier(DelegateClassifier, _MLP):
    __doc__ = _MLP.__doc__

    def _make(self, X: Any, y: Any) -> Any:
        _, counts = np.unique(y, return_counts=True)
        enough = len(y) >= 100 and len(y) // 10 >= len(counts) and int(counts.min()) >= 2
        return _Classifier(**self._settings(X.shape[0], enough))


class MLPRegressor(ScaledTarget, _MLP):
    """As `MLPClassifier`, on a target of mean 0 and standard deviation 1."""

    def _make(self, X: Any, y: Any) -> Any:
        return _Regressor(**self._settings(X.shape[0], len(y) >= 100))
