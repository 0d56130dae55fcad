"""Linear models whose options do not depend on the number of classes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import linear_model, svm
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.class_weight import compute_sample_weight


@dataclass(eq=False, repr=False)
class LogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Logistic regression with a penalty by name.

    scikit-learn replaces `penalty` by `l1_ratio`, and its solver liblinear takes two classes only; here more classes
    are then fitted one against the rest, as liblinear always did. Without a `solver` the penalty decides.
    """

    C: float = 1.0
    penalty: str = "l2"
    l1_ratio: float = 0.5
    solver: str | None = None
    tol: float = 1e-4
    fit_intercept: bool = True
    max_iter: int = 200
    class_weight: Any = None
    random_state: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        y = np.asarray(y)
        self.n_features_in_ = X.shape[1]
        self.classes_ = np.unique(y)
        model = linear_model.LogisticRegression(
            C=self.C,
            l1_ratio={"l2": 0.0, "l1": 1.0}.get(self.penalty, self.l1_ratio),
            solver=self.solver or ("lbfgs" if self.penalty == "l2" else "saga"),
            tol=self.tol,
            fit_intercept=self.fit_intercept,
            max_iter=self.max_iter,
            random_state=self.random_state,
        )
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, y)
            weight = own if weight is None else own * weight
        if self.solver == "liblinear" and len(self.classes_) > 2:
            self.model_ = _OneVersusRest(model).fit(X, y, weight)
        else:
            self.model_ = model.fit(X, y, weight)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, their columns in the order of `classes_`."""
        return self.model_.predict_proba(X)


class _OneVersusRest(OneVsRestClassifier):  # type: ignore[misc]
    """One against the rest with sample weights, without metadata routing."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        if sample_weight is None:
            super().fit(X, y)
            return self
        from sklearn.base import clone
        from sklearn.preprocessing import LabelBinarizer

        self.label_binarizer_ = LabelBinarizer(sparse_output=True)
        columns = self.label_binarizer_.fit_transform(y).toarray().T
        self.classes_ = self.label_binarizer_.classes_
        self.estimators_ = [clone(self.estimator).fit(X, column, sample_weight) for column in columns]
        return self


class _ScaledTarget(RegressorMixin, BaseEstimator, ABC):  # type: ignore[misc]
    """Fits the regressor that `_make` returns to a target of mean 0 and standard deviation 1.

    Penalties, tolerances and step lengths are in units of the target; so scaled, one range suits all tables.
    """

    @abstractmethod
    def _make(self, X: Any) -> Any: ...

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        y = np.asarray(y, dtype=np.float64)
        self.n_features_in_ = X.shape[1]
        self.mean_, self.scale_ = float(y.mean()), float(y.std()) or 1.0
        given = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight, dtype=np.float64)}
        self.model_ = self._make(X).fit(X, (y - self.mean_) / self.scale_, **given)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X) * self.scale_ + self.mean_


@dataclass(eq=False, repr=False)
class ElasticNet(_ScaledTarget):
    """Linear regression with an elastic-net penalty, on a scaled target."""

    alpha: float = 0.01
    l1_ratio: float = 0.5
    max_iter: int = 1000
    random_state: Any = None

    def _make(self, X: Any) -> Any:  # noqa: ARG002
        return linear_model.ElasticNet(**self.get_params(deep=False))


@dataclass(eq=False, repr=False)
class LinearSVR(_ScaledTarget):
    """Linear support vector regression on a scaled target."""

    C: float = 1.0
    epsilon: float = 0.1
    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Any = None

    def _make(self, X: Any) -> Any:
        return svm.LinearSVR(
            **self.get_params(deep=False), loss="squared_epsilon_insensitive", dual=X.shape[0] < X.shape[1]
        )


@dataclass(eq=False, repr=False)
class KernelSVR(_ScaledTarget):
    """Support vector regression with a kernel on a scaled target; `gamma` is divided by the number of columns."""

    kernel: str = "rbf"
    C: float = 1.0
    epsilon: float = 0.1
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    tol: float = 1e-3
    max_iter: int = -1

    def _make(self, X: Any) -> Any:
        return svm.SVR(**{**self.get_params(deep=False), "gamma": self.gamma / X.shape[1]}, cache_size=500)


@dataclass(eq=False, repr=False)
class SGDRegressor(_ScaledTarget):
    """Linear regression by stochastic gradient descent on a scaled target."""

    loss: str = "squared_error"
    penalty: str = "l2"
    alpha: float = 1e-4
    l1_ratio: float = 0.15
    epsilon: float = 0.1
    learning_rate: str = "invscaling"
    eta0: float = 0.01
    power_t: float = 0.25
    tol: float = 1e-3
    average: bool = False
    max_iter: int = 1000
    random_state: Any = None

    def _make(self, X: Any) -> Any:  # noqa: ARG002
        return linear_model.SGDRegressor(**self.get_params(deep=False))
