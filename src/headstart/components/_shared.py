"""What several components share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_sample_weight


def dense(X: Any) -> Any:
    """A matrix of numbers that is not sparse."""
    return X.toarray() if issparse(X) else np.asarray(X, dtype=np.float64)


def seed_of(random_state: Any) -> int:
    """The number that a library takes."""
    return 0 if random_state is None else int(random_state)


def row_weights(class_weight: Any, y: Any, sample_weight: Any) -> Any:
    """Weights of the rows from those of their classes and their own; ``None`` if there are neither."""
    weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if class_weight is None:
        return weight
    balanced = compute_sample_weight(class_weight, y)
    return balanced if weight is None else balanced * weight


class Adapted(BaseEstimator):  # type: ignore[misc]
    """Has the parameters of another class, some of them in units that suit all tables."""

    wraps: Any
    """That class."""

    def _settings(self, *own: str, **changed: Any) -> dict[str, Any]:
        """Parameters for that class: all but those that are this one's `own`, some of them `changed`."""
        given = self.get_params(deep=False).items()
        return {name: value for name, value in given if name not in own} | changed

    def _gamma(self, X: Any) -> float:
        """`gamma`, divided by the number of columns if `relative` is set."""
        gamma: float = self.gamma
        return gamma / X.shape[1] if self.relative else gamma


class Delegate(Adapted):
    """Predicts with the model that `_make` returns for the rows at hand, which knows sample weights."""

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        return self.wraps(**self._settings())

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.n_features_in_ = X.shape[1]
        self.model_ = self._make(X, y).fit(X, y, sample_weight=sample_weight)
        if hasattr(self.model_, "classes_"):
            self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)


class MostProbable(ClassifierMixin):  # type: ignore[misc]
    """Predicts the class with the highest probability."""

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


@dataclass(eq=False, repr=False, kw_only=True)
class DelegateClassifier(ClassifierMixin, Delegate):  # type: ignore[misc]
    """A `Delegate` with probabilities."""

    random_state: Any = None

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, their columns in the order of `classes_`."""
        return self.model_.predict_proba(X)


class ScaledTarget(RegressorMixin, Delegate):  # type: ignore[misc]
    """A regressor that is fitted to a target of mean 0 and standard deviation 1.

    Penalties, tolerances and step lengths are in units of the target; so scaled, one range suits all tables.
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        y = np.asarray(y, dtype=np.float64)
        self.mean_, self.scale_ = float(y.mean()), float(y.std()) or 1.0
        return super().fit(X, (y - self.mean_) / self.scale_, sample_weight)

    def predict(self, X: Any) -> Any:
        return super().predict(X) * self.scale_ + self.mean_
