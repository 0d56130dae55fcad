"""Selection of columns by a score of each, which never leaves a table without columns."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import feature_selection
from sklearn.base import TransformerMixin
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.svm import LinearSVC

from headstart.components._shared import Adapted, dense


class _Selection(TransformerMixin, Adapted, ABC):  # type: ignore[misc]
    """Keeps the columns that `_chosen` names."""

    @abstractmethod
    def _chosen(self, X: Any, y: Any) -> Any:
        """Which columns to keep; (d,) booleans."""

    def fit(self, X: Any, y: Any) -> Self:
        X = dense(X)
        self.n_features_in_ = X.shape[1]
        with warnings.catch_warnings():  # columns that are constant have no score: they come last, no need to say so
            warnings.simplefilter("ignore")
            self.support_ = np.asarray(self._chosen(X, np.asarray(y)), dtype=bool)
        return self

    def transform(self, X: Any) -> Any:
        return dense(X)[:, self.support_]


@dataclass(eq=False, repr=False, kw_only=True)
class _ByScore(_Selection):
    score_func: str = "f_classif"
    random_state: Any = None

    def _scores(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Score and p-value of each column; the worst ones where they are not defined."""
        if self.score_func.startswith("mutual_info"):
            found = getattr(feature_selection, self.score_func)(X, y, random_state=self.random_state)
        else:
            shifted = X - X.min(axis=0) if self.score_func == "chi2" else X  # chi2 wants counts
            found = getattr(feature_selection, self.score_func)(shifted, y)
        scores, p_values = found if isinstance(found, tuple) else (found, np.zeros(X.shape[1]))
        perfect = scores < 0  # a correlation that rounding made larger than 1
        scores, p_values = np.where(perfect, np.inf, scores), np.where(perfect, 0.0, p_values)
        return np.where(np.isnan(scores), -np.inf, scores), np.where(np.isnan(p_values), 1.0, p_values)


def _best(scores: Any, count: int) -> Any:
    chosen = np.zeros(len(scores), dtype=bool)
    chosen[np.argsort(-scores, kind="stable")[:count]] = True
    return chosen


def _or_best(chosen: Any, scores: Any) -> Any:
    return chosen if chosen.any() else _best(scores, 1)


@dataclass(eq=False, repr=False)
class SelectPercentile(_ByScore):
    """The best share of the columns, at least one.

    Parameters
    ----------
    percentile
        Share in percent.
    score_func
        Name of a function of ``sklearn.feature_selection``: ``f_classif``, ``chi2`` (the columns are shifted to
        start at 0), ``mutual_info_classif``, ``f_regression``, ``mutual_info_regression``.
    """

    percentile: float = 50.0

    def _chosen(self, X: Any, y: Any) -> Any:
        return _best(self._scores(X, y)[0], max(1, round(X.shape[1] * self.percentile / 100)))


@dataclass(eq=False, repr=False)
class SelectKBest(_ByScore):
    """The best columns, their number given as a share of all; at least one."""

    share: float = 0.5

    def _chosen(self, X: Any, y: Any) -> Any:
        return _best(self._scores(X, y)[0], max(1, int(X.shape[1] * self.share)))


@dataclass(eq=False, repr=False)
class SelectRates(_ByScore):
    """The columns whose p-values pass a test; the best one if none does.

    Parameters
    ----------
    alpha
        Highest p-value, or rate.
    mode
        ``"fpr"``: false positive rate; ``"fdr"``: false discovery rate; ``"fwe"``: family-wise error.
    """

    alpha: float = 0.1
    mode: str = "fpr"

    def _chosen(self, X: Any, y: Any) -> Any:
        scores, p_values = self._scores(X, y)
        if self.mode == "fpr":
            chosen = p_values < self.alpha
        elif self.mode == "fwe":
            chosen = p_values < self.alpha / len(p_values)
        else:
            ranked = np.sort(p_values)
            passed = ranked[ranked <= self.alpha * np.arange(1, len(ranked) + 1) / len(ranked)]
            chosen = p_values <= (passed.max() if len(passed) else -1.0)
        return _or_best(chosen, scores)


@dataclass(eq=False, repr=False)
class VarianceThreshold(_Selection):
    """The columns that vary more than a threshold; the one that varies most if none does."""

    threshold: float = 0.0

    def fit(self, X: Any, y: Any = None) -> Self:
        return super().fit(X, y)

    def _chosen(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        variances = X.var(axis=0)
        return _or_best(variances > self.threshold, variances)


@dataclass(eq=False, repr=False)
class SelectFromTrees(_Selection):
    """The columns of at least mean importance to extremely randomised trees; `max_features` is an exponent.

    Each split looks at ``d ** max_features`` of the d columns.
    """

    n_estimators: int = 100
    criterion: str = "gini"
    max_features: float = 0.5
    min_samples_leaf: int = 1
    min_samples_split: int = 2
    bootstrap: bool = False
    random_state: Any = None

    def _chosen(self, X: Any, y: Any) -> Any:
        columns = max(1, int(X.shape[1] ** self.max_features))
        trees = ExtraTreesClassifier(**self._settings(max_features=columns), n_jobs=1)
        importance = trees.fit(X, y).feature_importances_
        return importance >= importance.mean() * (1 - 1e-9)


@dataclass(eq=False, repr=False)
class SelectFromLinearSVM(_Selection):
    """The columns with a weight in an L1-penalised linear support vector machine; the heaviest one if none has."""

    C: float = 1.0
    tol: float = 1e-4
    random_state: Any = None

    def _chosen(self, X: Any, y: Any) -> Any:
        machine = LinearSVC(penalty="l1", loss="squared_hinge", dual=False, **self._settings())
        weight = np.abs(machine.fit(X, y).coef_).max(axis=0)
        return _or_best(weight > 1e-5, weight)
