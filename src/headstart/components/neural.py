"""Multi-layer perceptrons by number and width of layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.neural_network import MLPClassifier as _Classifier
from sklearn.neural_network import MLPRegressor as _Regressor


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


class MLPClassifier(ClassifierMixin, _MLP):  # type: ignore[misc]
    __doc__ = _MLP.__doc__

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        y = np.asarray(y)
        self.n_features_in_ = X.shape[1]
        self.classes_, counts = np.unique(y, return_counts=True)
        enough = len(y) >= 100 and len(y) // 10 >= len(counts) and int(counts.min()) >= 2
        self.model_ = _Classifier(**self._settings(len(y), enough)).fit(X, y, sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, their columns in the order of `classes_`."""
        return self.model_.predict_proba(X)


class MLPRegressor(RegressorMixin, _MLP):  # type: ignore[misc]
    """As `MLPClassifier`, on a target of mean 0 and standard deviation 1."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        y = np.asarray(y, dtype=np.float64)
        self.n_features_in_ = X.shape[1]
        self.mean_, self.scale_ = float(y.mean()), float(y.std()) or 1.0
        model = _Regressor(**self._settings(len(y), len(y) >= 100))
        self.model_ = model.fit(X, (y - self.mean_) / self.scale_, sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X) * self.scale_ + self.mean_
