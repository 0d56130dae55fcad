"""The commonest scores of scikit-learn for plain arrays, without its checks of every argument.

The greedy ensemble computes a score more than a thousand times; for a few thousand rows scikit-learn's checks take
longer than the score. Each function takes class codes or numbers, (n, k) probabilities or (n,) numbers, and weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
FastScore = Callable[[NDArray[Any], Array, "Array | None"], float]


def _roc_auc(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    _, places = np.unique(predictions[:, 1], return_inverse=True)
    own = np.ones(len(truth)) if weights is None else weights
    positive = np.bincount(places, own * (truth == 1))
    negative = np.bincount(places, own * (truth == 0))
    pairs = positive.sum() * negative.sum()
    if pairs == 0:
        return float("nan")
    below = np.cumsum(negative) - negative
    return float((positive * (below + 0.5 * negative)).sum() / pairs)


def _roc_auc_ovr(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    """The mean over the classes that are there; scikit-learn refuses rows that lack one."""
    scores = []
    for c in range(predictions.shape[1]):
        one = (truth == c).astype(np.int64)
        if 0 < one.sum() < len(one):
            scores.append(_roc_auc(one, np.column_stack([1 - predictions[:, c], predictions[:, c]]), weights))
    return float(np.mean(scores)) if scores else float("nan")


def _neg_log_loss(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    eps = np.finfo(np.float64).eps
    own = np.clip(predictions[np.arange(len(truth)), truth], eps, 1 - eps)
    return float(np.average(np.log(own), weights=weights))


def _accuracy(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    return float(np.average(predictions.argmax(axis=1) == truth, weights=weights))


def _confusion(truth: NDArray[Any], predictions: Array, weights: Array | None) -> Array:
    """Weights of rows by class and chosen class, (k, k)."""
    k = predictions.shape[1]
    cells = truth * k + predictions.argmax(axis=1)
    found: Array = np.bincount(cells, weights, minlength=k * k).reshape(k, k).astype(np.float64)
    return found


def _f1_by_class(confusion: Array) -> Array:
    """NaN for a class that neither occurs nor is chosen."""
    both = confusion.sum(axis=0) + confusion.sum(axis=1)
    found: Array = np.divide(2 * np.diag(confusion), both, out=np.full(len(both), np.nan), where=both > 0)
    return found


def _f1(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    return float(np.nan_to_num(_f1_by_class(_confusion(truth, predictions, weights))[1]))


def _f1_macro(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    return float(np.nanmean(_f1_by_class(_confusion(truth, predictions, weights))))


def _balanced_accuracy(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    confusion = _confusion(truth, predictions, weights)
    rows = confusion.sum(axis=1)
    return float(np.mean(np.diag(confusion)[rows > 0] / rows[rows > 0]))


def _neg_mean_squared_error(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    return -float(np.average(np.square(truth - predictions), weights=weights))


def _neg_root_mean_squared_error(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    return -float(np.sqrt(-_neg_mean_squared_error(truth, predictions, weights)))


def _neg_mean_absolute_error(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    return -float(np.average(np.abs(truth - predictions), weights=weights))


def _r2(truth: NDArray[Any], predictions: Array, weights: Array | None) -> float:
    spread = -_neg_mean_squared_error(truth, np.full(len(truth), np.average(truth, weights=weights)), weights)
    error = -_neg_mean_squared_error(truth, predictions, weights)
    if spread == 0:
        return 1.0 if error == 0 else 0.0
    return 1.0 - error / spread


_FOR_CLASSES: dict[str, FastScore] = {
    "neg_log_loss": _neg_log_loss,
    "accuracy": _accuracy,
    "balanced_accuracy": _balanced_accuracy,
    "f1_macro": _f1_macro,
}
_FOR_NUMBERS: dict[str, FastScore] = {
    "neg_mean_squared_error": _neg_mean_squared_error,
    "neg_root_mean_squared_error": _neg_root_mean_squared_error,
    "neg_mean_absolute_error": _neg_mean_absolute_error,
    "r2": _r2,
}


def fast_score(name: str, task: str) -> FastScore | None:
    """The function for a scorer's name, if there is one for the task."""
    if task == "regression":
        return _FOR_NUMBERS.get(name)
    if name == "roc_auc" and task == "binary":
        return _roc_auc
    if name in ("roc_auc", "roc_auc_ovr"):
        return _roc_auc_ovr
    if name == "f1":
        return _f1 if task == "binary" else _f1_macro
    return _FOR_CLASSES.get(name)
