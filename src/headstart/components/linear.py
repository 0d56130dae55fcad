"""Linear models whose options do not depend on the number of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import linear_model, svm
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import LabelBinarizer

from headstart.components._shared import DelegateClassifier, ScaledTarget, row_weights


@dataclass(eq=False, repr=False)
class LogisticRegression(DelegateClassifier):
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

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        l1_ratio = {"l2": 0.0, "l1": 1.0}.get(self.penalty, self.l1_ratio)
        solver = self.solver or ("lbfgs" if self.penalty == "l2" else "saga")
        settings = self._settings("penalty", "class_weight", l1_ratio=l1_ratio, solver=solver)
        model = linear_model.LogisticRegression(**settings)
        return _OneVersusRest(model) if self.solver == "liblinear" and len(np.unique(y)) > 2 else model

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        return super().fit(X, y, row_weights(self.class_weight, y, sample_weight))


class _OneVersusRest(OneVsRestClassifier):  # type: ignore[misc]
    """One against the rest with sample weights, without metadata routing."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.label_binarizer_ = LabelBinarizer(sparse_output=True)
        columns = self.label_binarizer_.fit_transform(y).toarray().T
        self.classes_ = self.label_binarizer_.classes_
        self.estimators_ = [clone(self.estimator).fit(X, column, sample_weight) for column in columns]
        return self


@dataclass(eq=False, repr=False)
class ElasticNet(ScaledTarget):
    """Linear regression with an elastic-net penalty, on a scaled target."""

    alpha: float = 0.01
    l1_ratio: float = 0.5
    max_iter: int = 1000
    random_state: Any = None
    wraps = linear_model.ElasticNet


@dataclass(eq=False, repr=False)
class LinearSVR(ScaledTarget):
    """Linear support vector regression on a scaled target."""

    C: float = 1.0
    epsilon: float = 0.1
    tol: float = 1e-4
    max_iter: int = 1000
    random_state: Any = None

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        return svm.LinearSVR(**self._settings(loss="squared_epsilon_insensitive", dual=X.shape[0] < X.shape[1]))


@dataclass(eq=False, repr=False)
class KernelSVR(ScaledTarget):
    """Support vector regression with a kernel on a scaled target; `gamma` is divided by the number of columns."""

    kernel: str = "rbf"
    C: float = 1.0
    epsilon: float = 0.1
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    tol: float = 1e-3
    max_iter: int = -1

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        return svm.SVR(**self._settings(gamma=self.gamma / X.shape[1]), cache_size=500)


@dataclass(eq=False, repr=False)
class SGDRegressor(ScaledTarget):
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
    wraps = linear_model.SGDRegressor
