"""Landmarks: how well simple models do in ten-fold cross-validation on `Table.part`.

=============================  =======================================================  ==============================
                               classification                                           regression
=============================  =======================================================  ==============================
score                          accuracy                                                 R² of a fold, at least -1
tree, node, nearest neighbour  decision tree, its root alone, nearest row               the same
LDA                            linear discriminant analysis                             least squares
naive Bayes                    Gaussian naive Bayes                                     least squares along the
                                                                                        covariances with the target, as
                                                                                        if columns were independent
=============================  =======================================================  ==============================

Those with capital letters are auto-sklearn's, on its encoding; folds as published: rows are shuffled, then each class
is cut into ten runs. The others are pymfe's, on its encoding, with stratified folds of the rows as they stand; mean and
standard deviation are over folds. Columns are encoded once for all folds, as published.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from headstart.metafeatures.handcrafted.columns import attributes, distances, standardised
from headstart.metafeatures.handcrafted.declare import Family, shared
from headstart.metafeatures.handcrafted.table import Array, Table, Whole

_family = Family("landmarks")
_one, _each = _family.one, _family.each
_FOLDS = 10
_SHUFFLE = 42
"""Seed of auto-sklearn's shuffle, which its published values come from."""


class _Marginal:
    """Least squares on one direction: the covariances of standardised columns with the target."""

    def fit(self, X: Array, y: Array) -> _Marginal:
        self._centre, self._mean = X.mean(axis=0), y.mean()
        variance = X.var(axis=0)
        covariance = (X - self._centre).T @ (y - self._mean) / len(y)
        self._direction = covariance / np.where(variance > 0, variance, 1.0)
        scores = (X - self._centre) @ self._direction
        length = scores @ scores
        self._slope = scores @ (y - self._mean) / length if length > 0 else 0.0
        return self

    def predict(self, X: Array) -> Array:
        return np.asarray(self._mean + self._slope * ((X - self._centre) @ self._direction))


def runs(labels: Whole, order: Whole) -> Whole:
    """The fold of each row: those of each class, in an order, are cut into ten runs; of a small class, runs of one."""
    folds = np.zeros(len(labels), dtype=np.int64)
    for label in np.unique(labels):
        rows = order[labels[order] == label]
        n = max(len(rows), _FOLDS)
        sizes = np.full(_FOLDS, n // _FOLDS) + (np.arange(_FOLDS) < n % _FOLDS)
        folds[rows] = np.repeat(np.arange(_FOLDS), sizes)[: len(rows)]
    return folds


@shared
def shuffled_folds(table: Table) -> Whole:
    """auto-sklearn's: the fold of each row."""
    order = np.arange(table.n)
    np.random.RandomState(_SHUFFLE).shuffle(order)
    return runs(np.zeros(table.n, dtype=np.int64) if table.regression else table.labels, order)


@shared
def stratified_folds(table: Table) -> Whole:
    """pymfe's: the fold of each row; those of a regression, and of classes that are all too small, are runs of rows."""
    if table.regression or table.label_counts.max() < _FOLDS:
        return runs(np.zeros(table.n, dtype=np.int64), np.arange(table.n))
    folds = np.zeros(table.n, dtype=np.int64)
    for fold, (_, test) in enumerate(StratifiedKFold(_FOLDS).split(table.labels, table.labels)):
        folds[test] = fold
    return folds


def _score(table: Table, predicted: Array, test: Whole, mean: float) -> float:
    """Accuracy, or R² against the mean of the training rows."""
    if not table.regression:
        return float((predicted == table.labels[test]).mean())
    actual = table.target[test]
    spread = ((actual - mean) ** 2).sum()
    if not spread > 0:
        return np.nan
    return float(np.clip(1.0 - ((actual - predicted) ** 2).sum() / spread, -1.0, 1.0))


def _scores(table: Table, columns: Array, folds: Whole, make: Callable[[], Any]) -> Array:
    """Of a model, in each fold."""
    target = table.target if table.regression else table.labels
    if (not table.regression and len(table.label_counts) < 2) or not columns.shape[1]:
        return np.full(_FOLDS, np.nan)
    found = []
    for fold in range(int(folds.max()) + 1):
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if len(test) and len(np.unique(table.labels[train])) > 1:
            try:
                predicted = make().fit(columns[train], target[train]).predict(columns[test])
            except (ValueError, IndexError, np.linalg.LinAlgError):  # such as numbers too large for a tree
                return np.full(_FOLDS, np.nan)
            found.append(_score(table, predicted, test, float(np.mean(target[train]))))
    return np.array(found)


def _neighbour_scores(table: Table, apart: Array, folds: Whole) -> Array:
    """Of the nearest row that is in another fold."""
    if not table.regression and len(table.label_counts) < 2:
        return np.full(_FOLDS, np.nan)
    nearest = np.where(folds[:, None] == folds, np.inf, apart).argmin(axis=1)
    target = table.target if table.regression else table.labels
    found = []
    for fold in range(int(folds.max()) + 1):
        test = np.flatnonzero(folds == fold)
        if len(test):
            found.append(_score(table, target[nearest[test]], test, float(np.mean(target[folds != fold]))))
    return np.array(found)


def _tree(table: Table, **settings: Any) -> Callable[[], Any]:
    made = DecisionTreeRegressor if table.regression else DecisionTreeClassifier
    if table.regression:
        settings.pop("criterion", None)
    return partial(made, random_state=table.seed, **settings)


@shared
def _single(table: Table) -> Array:
    """auto-sklearn's encoding in the precision of decision trees."""
    return standardised(table).astype(np.float32)


def _mean(function: Callable[[Table], Array]) -> Callable[[Table], float]:
    def of_table(table: Table) -> float:
        found = function(table.part)
        return float(np.mean(found)) if len(found) else np.nan

    return of_table


def _linear(table: Table) -> Callable[[], Any]:
    return partial(LinearRegression if table.regression else LinearDiscriminantAnalysis)


def _naive(table: Table) -> Callable[[], Any]:
    return _Marginal if table.regression else GaussianNB


@shared
def fold_importances(table: Table) -> Array:
    """(folds, p) importances of the attributes in trees that are fitted without each fold."""
    target = table.target if table.regression else table.labels
    folds, columns = stratified_folds(table), attributes(table).astype(np.float32)
    make = _tree(table)
    return np.array(
        [make().fit(columns[folds != f], target[folds != f]).feature_importances_ for f in range(int(folds.max()) + 1)]
    )


def _of_one_attribute(table: Table, chosen: Whole, nearest: bool) -> Array:
    """Scores of the root of a tree, or of the nearest row, with one attribute in each fold."""
    folds, target = stratified_folds(table), table.target if table.regression else table.labels
    found = []
    for fold, attribute in enumerate(chosen):
        column = np.ascontiguousarray(attributes(table)[:, [attribute]])
        train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if not len(test):
            continue
        if nearest:
            predicted = target[train][np.abs(column[test] - column[train].T).argmin(axis=1)]
        else:
            predicted = _tree(table, max_depth=1)().fit(column[train], target[train]).predict(column[test])
        found.append(_score(table, predicted, test, float(np.mean(target[train]))))
    return np.array(found)


def _elite(table: Table) -> Array:
    if _hopeless(table):
        return np.zeros(0)
    return _of_one_attribute(table, np.argsort(fold_importances(table), axis=1, kind="stable")[:, -1], True)


def _worst(table: Table) -> Array:
    if _hopeless(table):
        return np.zeros(0)
    return _of_one_attribute(table, np.argsort(fold_importances(table), axis=1, kind="stable")[:, 0], False)


def _random(table: Table) -> Array:
    if _hopeless(table):
        return np.zeros(0)
    chosen = int(np.random.default_rng([table.seed, 4]).integers(attributes(table).shape[1]))
    return _of_one_attribute(table, np.full(int(stratified_folds(table).max()) + 1, chosen), False)


def _hopeless(table: Table) -> bool:
    """Whether there is nothing to predict, or nothing to predict it from."""
    return len(table.label_counts) < 2 or not attributes(table).shape[1]


FEATURES = (
    # auto-sklearn
    _one(
        "Landmark1NN",
        "nearest neighbour",
        _mean(
            lambda t: _neighbour_scores(t, cdist(standardised(t), standardised(t), "sqeuclidean"), shuffled_folds(t))
        ),
    ),
    _one(
        "LandmarkDecisionNodeLearner",
        "root of a decision tree",
        _mean(lambda t: _scores(t, _single(t), shuffled_folds(t), _tree(t, criterion="entropy", max_depth=1))),
    ),
    _one(
        "LandmarkDecisionTree",
        "decision tree",
        _mean(lambda t: _scores(t, _single(t), shuffled_folds(t), _tree(t))),
    ),
    _one(
        "LandmarkLDA",
        "linear discriminant analysis; of a regression, least squares",
        _mean(lambda t: _scores(t, standardised(t), shuffled_folds(t), _linear(t))),
    ),
    _one(
        "LandmarkNaiveBayes",
        "Gaussian naive Bayes; of a regression, columns as if independent",
        _mean(lambda t: _scores(t, standardised(t), shuffled_folds(t), _naive(t))),
    ),
    _one(
        "LandmarkRandomNodeLearner",
        "root of a decision tree that sees a random column",
        _mean(
            lambda t: _scores(
                t, _single(t), shuffled_folds(t), _tree(t, criterion="entropy", max_depth=1, max_features=1)
            )
        ),
    ),
    # pymfe
    _each(
        "best_node",
        "root of a decision tree",
        lambda t: _scores(t.part, attributes(t.part), stratified_folds(t.part), _tree(t, max_depth=1)),
    ),
    _each("elite_nn", "nearest neighbour in the most important attribute", lambda t: _elite(t.part)),
    _each(
        "linear_discr",
        "linear discriminant analysis; of a regression, least squares",
        lambda t: _scores(t.part, attributes(t.part), stratified_folds(t.part), _linear(t)),
    ),
    _each(
        "naive_bayes",
        "Gaussian naive Bayes; of a regression, columns as if independent",
        lambda t: _scores(t.part, attributes(t.part), stratified_folds(t.part), _naive(t)),
    ),
    _each(
        "one_nn",
        "nearest neighbour",
        lambda t: _neighbour_scores(t.part, distances(t.part), stratified_folds(t.part)),
    ),
    _each("random_node", "root of a decision tree that sees one random attribute", lambda t: _random(t.part)),
    _each("worst_node", "root of a decision tree that sees the least important attribute", lambda t: _worst(t.part)),
)
