"""`BalancedWeights`: class weighting for classifiers that know sample weights only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import has_fit_parameter

from headstart.components._shared import row_weights


def _has(method: str) -> Callable[[Any], bool]:
    return lambda wrapper: hasattr(getattr(wrapper, "estimator_", wrapper.estimator), method)


class BalancedWeights(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Fits a classifier with rows weighted so that all classes weigh the same.

    A classifier that takes no sample weights is fitted as it is.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **others: Any) -> Self:
        self.estimator_ = clone(self.estimator)
        if has_fit_parameter(self.estimator_, "sample_weight"):
            others["sample_weight"] = row_weights("balanced", y, sample_weight)
        self.estimator_.fit(X, y, **others)
        self.classes_ = self.estimator_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.estimator_.predict(X)

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        return self.estimator_.predict_proba(X)

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        return self.estimator_.decision_function(X)
