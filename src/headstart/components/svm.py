"""Classifiers that know a margin only, with probabilities.

Support vector machines, perceptrons and their kin give decision values. Their probabilities come from a sigmoid that is
fitted to decision values of held-out rows (Platt, 1999); where a class has too few rows for that, from the softmax of
the decision values themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn import linear_model, svm
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import StratifiedKFold

from headstart.components._shared import DelegateClassifier, seed_of


@dataclass(eq=False, repr=False, kw_only=True)
class _MarginClassifier(DelegateClassifier):
    """Adds probabilities to the classifier that `_margins` returns."""

    class_weight: Any = None
    folds = 3

    def _margins(self, X: Any) -> Any:  # noqa: ARG002
        return self.wraps(**self._settings(), n_jobs=1)

    def _calibrates(self) -> bool:
        return True

    def _make(self, X: Any, y: Any) -> Any:
        model = self._margins(X)
        if not self._calibrates() or np.unique(y, return_counts=True)[1].min() < self.folds:
            return model
        splits = StratifiedKFold(self.folds, shuffle=True, random_state=seed_of(self.random_state))
        return CalibratedClassifierCV(model, cv=splits, ensemble=False)

    def predict_proba(self, X: Any) -> Any:
        if hasattr(self.model_, "predict_proba"):
            return self.model_.predict_proba(X)
        values = np.asarray(self.model_.decision_function(X), dtype=np.float64)
        if values.ndim == 1:
            second = expit(values)
            return np.column_stack([1 - second, second])
        return softmax(values, axis=1)


@dataclass(eq=False, repr=False)
class LinearSVM(_MarginClassifier):
    """Linear support vector machine, solved by liblinear."""

    C: float = 1.0
    penalty: str = "l2"
    loss: str = "squared_hinge"
    tol: float = 1e-4
    max_iter: int = 1000

    def _margins(self, X: Any) -> Any:
        # Of the two hinges, only the squared one has a primal solver.
        dual = self.loss == "hinge" or (self.penalty == "l2" and X.shape[0] < X.shape[1])
        return svm.LinearSVC(**self._settings(), dual=dual)


@dataclass(eq=False, repr=False)
class KernelSVM(_MarginClassifier):
    """Support vector machine with a kernel.

    `gamma` is divided by the number of columns when `relative` is set, so that one range suits all tables.
    """

    C: float = 1.0
    kernel: str = "rbf"
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    shrinking: bool = True
    tol: float = 1e-3
    relative: bool = False
    max_iter: int = -1

    def _margins(self, X: Any) -> Any:
        return svm.SVC(**self._settings("relative", gamma=self._gamma(X)), cache_size=500)


@dataclass(eq=False, repr=False)
class SGD(_MarginClassifier):
    """Linear classifier trained by stochastic gradient descent; for the names see ``SGDClassifier``."""

    loss: str = "log_loss"
    penalty: str | None = "l2"
    alpha: float = 1e-4
    l1_ratio: float = 0.15
    learning_rate: str = "optimal"
    eta0: float = 0.01
    power_t: float = 0.5
    epsilon: float = 0.1
    tol: float = 1e-3
    average: bool = False
    max_iter: int = 1000
    wraps = linear_model.SGDClassifier

    def _calibrates(self) -> bool:
        return self.loss not in ("log_loss", "modified_huber")


@dataclass(eq=False, repr=False)
class Perceptron(_MarginClassifier):
    """The perceptron."""

    penalty: str | None = None
    alpha: float = 1e-4
    max_iter: int = 1000
    wraps = linear_model.Perceptron


@dataclass(eq=False, repr=False)
class PassiveAggressive(_MarginClassifier):
    """The passive-aggressive classifier: PA-I for the hinge, PA-II for the squared hinge.

    scikit-learn no longer has it as a class of its own; it is a schedule of its stochastic gradient descent.
    """

    C: float = 1.0
    loss: str = "hinge"
    average: bool = False
    tol: float = 1e-3
    max_iter: int = 1000

    def _margins(self, X: Any) -> Any:  # noqa: ARG002
        schedule = {"learning_rate": "pa1" if self.loss == "hinge" else "pa2", "eta0": self.C}
        return linear_model.SGDClassifier(**self._settings("C", loss="hinge", penalty=None, **schedule), n_jobs=1)
