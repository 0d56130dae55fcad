"""Discriminant analysis and naive Bayes that accept what a search hands them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.special import softmax
from sklearn import discriminant_analysis, naive_bayes
from sklearn.base import BaseEstimator

from headstart.components._shared import MostProbable, dense


class _Delegate(MostProbable, BaseEstimator):  # type: ignore[misc]
    def _learn(self, X: Any, y: Any) -> Any:
        y = np.asarray(y)
        self.n_features_in_ = X.shape[1]
        self.classes_, counts = np.unique(y, return_counts=True)
        self.shares_ = counts / counts.sum()
        return y

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, their columns in the order of `classes_`."""
        proba = self.model_.predict_proba(self._clean(X))
        # Far from all classes every density is 0, and columns may be constant: then nothing more is known.
        return np.where(np.isfinite(proba).all(axis=1, keepdims=True), proba, self.shares_)

    def _clean(self, X: Any) -> Any:
        return X


@dataclass(eq=False, repr=False)
class LDA(_Delegate):
    """Linear discriminant analysis; `shrinkage` is ``None``, ``"auto"`` or ``"manual"`` (then `shrinkage_factor`).

    `n_components` is for use as a reduction and does not change predictions.
    """

    shrinkage: str | None = None
    shrinkage_factor: float = 0.5
    n_components: int | None = None
    tol: float = 1e-4

    def fit(self, X: Any, y: Any) -> Self:
        y = self._learn(X, y)
        most = min(len(self.classes_) - 1, X.shape[1])
        model = discriminant_analysis.LinearDiscriminantAnalysis(
            solver="svd" if self.shrinkage is None else "lsqr",
            shrinkage=self.shrinkage_factor if self.shrinkage == "manual" else self.shrinkage,
            n_components=None if self.n_components is None else min(self.n_components, most),
            tol=self.tol,
        )
        with warnings.catch_warnings():  # columns that depend on each other, classes of one row
            warnings.simplefilter("ignore", UserWarning)
            self.model_ = model.fit(X, y)
        return self


@dataclass(eq=False, repr=False)
class QDA(MostProbable, BaseEstimator):  # type: ignore[misc]
    """Quadratic discriminant analysis; the covariance of a class is (1 - `reg_param`) · S + `reg_param` · I.

    Own, because that of scikit-learn refuses classes with fewer rows than columns, whatever the regularisation.
    Directions in which a class hardly varies get a millionth of its largest variance.
    """

    reg_param: float = 0.0

    def fit(self, X: Any, y: Any) -> Self:
        X, y = np.asarray(X, dtype=np.float64), np.asarray(y)
        self.n_features_in_ = X.shape[1]
        self.classes_ = np.unique(y)
        self.means_, self.directions_, self.variances_, shares = [], [], [], []
        for label in self.classes_:
            rows = X[y == label]
            centred = rows - rows.mean(axis=0)
            variances, directions = np.linalg.eigh(centred.T @ centred / len(rows))
            variances = (1 - self.reg_param) * variances + self.reg_param
            self.means_.append(rows.mean(axis=0))
            self.directions_.append(directions)
            self.variances_.append(np.maximum(variances, max(1e-6 * variances.max(), 1e-12)))
            shares.append(len(rows) / len(y))
        self.log_priors_ = np.log(shares)
        return self

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, their columns in the order of `classes_`."""
        X = np.asarray(X, dtype=np.float64)
        scores = np.empty((len(X), len(self.classes_)))
        for k, (mean, directions, variances) in enumerate(
            zip(self.means_, self.directions_, self.variances_, strict=True)
        ):
            distances = ((X - mean) @ directions) ** 2 / variances
            scores[:, k] = self.log_priors_[k] - 0.5 * (distances.sum(axis=1) + np.log(variances).sum())
        return softmax(scores, axis=1)


@dataclass(eq=False, repr=False)
class GaussianNB(_Delegate):
    """Gaussian naive Bayes; where all densities vanish, the shares of the classes."""

    var_smoothing: float = 1e-9

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        y = self._learn(X, y)
        with np.errstate(all="ignore"):
            self.model_ = naive_bayes.GaussianNB(var_smoothing=self.var_smoothing).fit(X, y, sample_weight)
        return self

    def predict_proba(self, X: Any) -> Any:
        with np.errstate(all="ignore"):
            return super().predict_proba(X)


@dataclass(eq=False, repr=False)
class MultinomialNB(_Delegate):
    """Multinomial naive Bayes on columns shifted to start at 0; it knows counts only."""

    alpha: float = 1.0
    fit_prior: bool = True

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        y = self._learn(X, y)
        self.low_ = dense(X).min(axis=0)
        model = naive_bayes.MultinomialNB(**self.get_params(deep=False))
        self.model_ = model.fit(self._clean(X), y, sample_weight)
        return self

    def _clean(self, X: Any) -> Any:
        return np.maximum(dense(X) - self.low_, 0.0)
