"""Multi-layer perceptrons by number and width of layers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.neural_network import MLPClassifier as _Classifier
from sklearn.neural_network import MLPRegressor as _Regressor

from headstart.components._shared import Delegate, DelegateClassifier, ScaledTarget

_MEASURED_BATCHES = 20


@dataclass(eq=False, repr=False)
class _MLP(Delegate):
    """Multi-layer perceptron with `n_layers` hidden layers of `width` units.

    `early_stopping` keeps a tenth of the rows apart, where the table is large enough for it. `max_seconds` of `fit`
    lowers `max_iter` to what there is time for.
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None, max_seconds: float | None = None) -> Self:
        self._max_seconds = max_seconds
        try:
            return super().fit(X, y, sample_weight)
        finally:
            del self._max_seconds

    def _sized(self, rows: int, can_split: bool) -> dict[str, Any]:
        return self._settings(
            *("width", "n_layers"),
            hidden_layer_sizes=(self.width,) * self.n_layers,
            batch_size=min(self.batch_size, rows),
            early_stopping=self.early_stopping and can_split,
        )


@dataclass(eq=False, repr=False)
class MLPClassifier(_MLP, DelegateClassifier):
    __doc__ = _MLP.__doc__

    def _make(self, X: Any, y: Any) -> Any:
        classes, counts = np.unique(y, return_counts=True)
        enough = len(y) >= 100 and len(y) // 10 >= len(counts) and int(counts.min()) >= 2
        return _in_time(_Classifier(**self._sized(X.shape[0], enough)), X, y, self._max_seconds, classes=classes)


class MLPRegressor(_MLP, ScaledTarget):
    """As `MLPClassifier`, on a target of mean 0 and standard deviation 1."""

    def _make(self, X: Any, y: Any) -> Any:
        return _in_time(_Regressor(**self._sized(X.shape[0], len(y) >= 100)), X, y, self._max_seconds)


def _in_time(model: Any, X: Any, y: Any, max_seconds: float | None, **options: Any) -> Any:
    """A perceptron, unfitted, with no more epochs than there is time for, by what a few batches take; one at least."""
    if max_seconds is None:
        return model
    few = min(X.shape[0], _MEASURED_BATCHES * model.batch_size)
    measured = clone(model).set_params(early_stopping=False)  # partial_fit knows no early stopping
    started = time.perf_counter()
    measured.partial_fit(X[:few], y[:few], **options)
    epoch = (time.perf_counter() - started) * X.shape[0] / few
    return model.set_params(max_iter=int(np.clip(max_seconds / max(epoch, 1e-9), 1, model.max_iter)))
