"""Nearest neighbours, at most as many as there are rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from sklearn import neighbors
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier


@dataclass(eq=False, repr=False)
class _Neighbours(BaseEstimator):  # type: ignore[misc]
    """Nearest neighbours; with fewer rows than `n_neighbors`, all of them."""

    n_neighbors: int = 5
    weights: str = "uniform"
    p: int = 2

    def fit(self, X: Any, y: Any) -> Self:
        self.n_features_in_ = X.shape[1]
        kind = neighbors.KNeighborsClassifier if is_classifier(self) else neighbors.KNeighborsRegressor
        settings = {**self.get_params(deep=False), "n_neighbors": min(self.n_neighbors, X.shape[0]), "n_jobs": 1}
        self.model_ = kind(**settings).fit(X, y)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)


class KNeighborsClassifier(ClassifierMixin, _Neighbours):  # type: ignore[misc]
    __doc__ = _Neighbours.__doc__

    @property
    def classes_(self) -> Any:
        return self.model_.classes_

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, their columns in the order of `classes_`."""
        return self.model_.predict_proba(X)


class KNeighborsRegressor(RegressorMixin, _Neighbours):  # type: ignore[misc]
    __doc__ = _Neighbours.__doc__
