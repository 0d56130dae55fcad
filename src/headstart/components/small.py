"""Gaussian processes for small tables: they learn from some rows of a large one."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import gaussian_process
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import kernels

from headstart.components._shared import MostProbable


def _kernel(name: str, length: float) -> Any:
    shape = {
        "rbf": lambda: kernels.RBF(length, (1e-2, 1e4)),
        "matern32": lambda: kernels.Matern(length, (1e-2, 1e4), nu=1.5),
        "matern52": lambda: kernels.Matern(length, (1e-2, 1e4), nu=2.5),
        "rational_quadratic": lambda: kernels.RationalQuadratic(length, 1.0, (1e-2, 1e4), (1e-2, 1e4)),
    }[name]()
    return kernels.ConstantKernel(1.0, (1e-2, 1e3)) * shape


def _rows(n: int, most: int, labels: Any, random_state: Any) -> Any:
    """At most `most` rows, the same ones for the same `random_state`; each label keeps at least one."""
    rng = np.random.default_rng(0 if random_state is None else random_state)
    order = rng.permutation(n)
    if labels is not None:
        _, first = np.unique(labels[order], return_index=True)
        order = np.concatenate([order[first], np.delete(order, first)])
    return np.sort(order[: max(most, 0 if labels is None else len(first))])


class _FewRows(BaseEstimator):  # type: ignore[misc]
    """Fits a Gaussian process to at most `max_rows` rows."""

    def _learn(self, model: Any, X: Any, y: Any, labels: Any = None) -> Self:
        self.n_features_in_ = X.shape[1]
        rows = _rows(len(y), self.max_rows, labels, self.random_state)
        with warnings.catch_warnings():  # a length scale at its bound says that a column does not matter
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.model_ = model.fit(X[rows], y[rows])
        return self


@dataclass(eq=False, repr=False)
class GaussianProcessClassifier(MostProbable, _FewRows):
    """Gaussian process classification (Laplace approximation; one against the rest) on at most `max_rows` rows."""

    kernel: str = "rbf"
    max_iter_predict: int = 100
    max_rows: int = 300
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        model = gaussian_process.GaussianProcessClassifier(
            _kernel(self.kernel, np.sqrt(X.shape[1])),
            max_iter_predict=self.max_iter_predict,
            random_state=self.random_state,
            n_jobs=1,
        )
        self._learn(model, X, y, labels=y)
        self.classes_ = self.model_.classes_
        return self

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, their columns in the order of `classes_`."""
        proba = self.model_.predict_proba(np.asarray(X, dtype=np.float64))
        # All one-against-the-rest probabilities of a row can vanish.
        return np.where(np.isfinite(proba), proba, 1 / len(self.classes_))


@dataclass(eq=False, repr=False)
class GaussianProcessRegressor(RegressorMixin, _FewRows):  # type: ignore[misc]
    """Gaussian process regression with noise on at most `max_rows` rows."""

    kernel: str = "rbf"
    alpha: float = 1e-6
    max_rows: int = 500
    random_state: Any = None

    def fit(self, X: Any, y: Any) -> Self:
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        model = gaussian_process.GaussianProcessRegressor(
            _kernel(self.kernel, np.sqrt(X.shape[1])) + kernels.WhiteKernel(0.1, (1e-6, 10.0)),
            alpha=self.alpha,
            normalize_y=True,
            random_state=self.random_state,
        )
        return self._learn(model, X, y)

    def predict(self, X: Any) -> Any:
        return self.model_.predict(np.asarray(X, dtype=np.float64))
