"""`Predictor`: the weighted mean of many fitted pipelines, with the work that they share done once.

The models of a fit have much in common. All prepare columns of numbers alike; members impute and scale alike in the
same fold. Steps that were fitted alike are found by their content and applied once for all pipelines that begin with
them. Rows are predicted in parts, so that memory depends on the model and not on the number of rows.

For a few rows, most of scikit-learn's time goes into checks and into setting up parallel work. Forests, and the sides
of a `ColumnTransformer`, are therefore called directly here; the numbers are the same.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

Array = NDArray[np.float64]

PART_CELLS = 1_000_000
"""Most cells of a table that are predicted at once; preparation may make ten times as many of them."""
LEAST_PART, LARGEST_PART = 1_000, 50_000
"""Rows of a part, whatever the number of columns."""

_KNOWN = ("sklearn.", "headstart.components.")
"""Modules whose objects are data in attributes, and whose transformers leave their input as it is."""
_NOT_USED = {"PrepareTable": ("random_state",), "TfidfVectorizer": ("_stop_words_id",)}
"""Attributes that a transformation does not depend on: the seed of what was learned, an address in memory."""


class Predictor:
    """The weighted mean of fitted pipelines, or several such means at once.

    Parameters
    ----------
    models
        Fitted scikit-learn pipelines, or other estimators.
    weights
        Of each, (models,); (models, means) for several means.
    shape
        Of the prediction for one row: ``(classes,)``, or ``()`` for a regression.
    """

    def __init__(self, models: Sequence[Any], weights: ArrayLike, shape: tuple[int, ...]) -> None:
        self.shape = shape
        given = np.asarray(weights, dtype=np.float64)
        self._several = given.ndim == 2
        shares = given.reshape(len(models), -1)
        self._means = shares.shape[1]
        self._root = _Node()
        for model, weight in zip(models, shares, strict=True):
            node = self._root
            *before, last = pipeline_steps(model)
            for step in before:
                node = node.after(step, alone=len(models) == 1)
            node.ends.append((_predictions(last, shape), weight, _is_careful(last)))

    def __call__(self, X: Any) -> Array:
        """Probabilities (n, classes) or numbers (n,) for a table; with a first axis (means,) for several."""
        n = X.shape[0]
        total = np.zeros((self._means, n, *self.shape))
        size = rows_at_once(X.shape[1])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they could be about was known at the fit
            for start in range(0, n, size):
                part = slice(start, min(n, start + size))
                self._root.add(X if n <= size else X.iloc[part] if hasattr(X, "iloc") else X[part], total[:, part])
        return total if self._several else np.asarray(total[0])


def rows_at_once(columns: int) -> int:
    """Rows of a part of a table with so many columns."""
    return min(LARGEST_PART, max(LEAST_PART, PART_CELLS // max(1, columns)))


def predict_model(model: Any, X: Any, shape: tuple[int, ...]) -> Array:
    """Predictions of a fitted pipeline: (n, classes) probabilities with a column for every class, or (n,) numbers.

    A classifier without ``predict_proba`` is taken by its ``decision_function``, as logits, and one that has neither by
    its labels, as probabilities of 0 and 1.
    """
    return Predictor([model], [1.0], shape)(X)


@dataclass
class _Node:
    """What happens to a table: it is transformed further, and estimators predict from it."""

    children: dict[Any, tuple[Callable[[Any], Any], bool, _Node]] = field(default_factory=dict)
    ends: list[tuple[Callable[[Any], Array], Array, bool]] = field(default_factory=list)

    def after(self, step: Any, alone: bool) -> _Node:
        """The node after a transformer; the same one for transformers that were fitted alike."""
        key = id(step) if alone else fingerprint(step)
        if key not in self.children:
            self.children[key] = _transform(step), _is_careful(step), _Node()
        return self.children[key][2]

    def add(self, X: Any, total: Array) -> None:
        """Add the weighted predictions for a table to the totals of all means."""
        shared = len(self.children) + len(self.ends) > 1
        for transform, careful, node in self.children.values():
            node.add(transform(X.copy() if shared and not careful else X), total)
        for predict, weight, careful in self.ends:
            found = predict(X.copy() if shared and not careful else X)
            for mean in np.flatnonzero(weight):
                total[mean] += weight[mean] * found


def pipeline_steps(model: Any) -> list[Any]:
    """The steps of a fitted pipeline that do something, or the estimator alone."""
    from sklearn.pipeline import Pipeline

    if type(model) is not Pipeline:
        return [model]
    *before, (_, last) = model.steps
    return [*(step for _, step in before if step is not None and not isinstance(step, str)), last]


def _is_careful(step: Any) -> bool:
    """Whether a step is known to leave its input as it is."""
    return type(step).__module__.startswith(_KNOWN) and getattr(step, "copy", True) is not False


# -- steps, called directly where that gives the same -----------------------------------------------------------------


def _transform(step: Any) -> Callable[[Any], Any]:
    from sklearn.compose import ColumnTransformer

    if type(step) is ColumnTransformer and step.remainder == "drop" and not getattr(step, "sparse_output_", True):
        made_of = getattr(step, "_sklearn_output_config", {}).get("transform", "default")
        by_name = all(isinstance(names, list) and all(isinstance(n, str) for n in names) for *_, names in _sides(step))
        if made_of == "default" and by_name:
            return _Columns(step)
    found: Callable[[Any], Any] = step.transform
    return found


def _sides(step: Any) -> Iterable[tuple[str, Any, Any]]:
    return [side for side in step.transformers_ if not isinstance(side[1], str) and len(side[2])]


class _Columns:
    """A fitted `ColumnTransformer` that gives numbers to its parts as a matrix, which they need not check again."""

    def __init__(self, step: Any) -> None:
        self.step = step
        self.sides = _sides(step)

    def __call__(self, X: Any) -> Any:
        if not hasattr(X, "columns"):
            return self.step.transform(X)
        parts = []
        for _, transformer, names in self.sides:
            part = X if list(X.columns) == names else X[names]
            if all(dtype == np.float64 for dtype in part.dtypes):
                part = part.to_numpy()
            parts.append(np.asarray(transformer.transform(part)))
        return parts[0] if len(parts) == 1 else np.hstack(parts)


def _predictions(last: Any, shape: tuple[int, ...]) -> Callable[[Any], Array]:
    """What an estimator predicts for a table."""
    from headstart.components.balance import BalancedWeights

    inner = last.estimator_ if type(last) is BalancedWeights else last
    if not shape:
        values = _forest(inner) or inner.predict
        return lambda X: np.asarray(values(X), dtype=np.float64).reshape(X.shape[0])
    probabilities = _forest(inner) or _class_shares(inner)
    if probabilities is None:
        return lambda X: np.eye(shape[0])[np.asarray(inner.predict(X)).astype(np.int64).reshape(X.shape[0])]
    places = np.asarray(inner.classes_, dtype=np.int64)
    if np.array_equal(places, np.arange(*shape)):
        return lambda X: np.asarray(probabilities(X), dtype=np.float64)

    def for_all_classes(X: Any) -> Array:  # a fold may lack a class
        found = np.zeros((X.shape[0], *shape))
        found[:, places] = probabilities(X)
        return found

    return for_all_classes


def _class_shares(estimator: Any) -> Callable[[Any], Array] | None:
    """Probabilities (n, classes that it knows), or the softmax of decisions; None if it has neither."""
    if hasattr(estimator, "predict_proba"):
        found: Callable[[Any], Array] = estimator.predict_proba
        return found
    if not hasattr(estimator, "decision_function"):
        return None
    if len(estimator.classes_) > 2 and getattr(estimator, "decision_function_shape", "ovr") == "ovo":
        return None

    def shares(X: Any) -> Array:
        scores = np.asarray(estimator.decision_function(X), dtype=np.float64)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros(len(scores)), scores])
        return np.asarray(softmax(scores, axis=1))

    return shares


def _forest(estimator: Any) -> Callable[[Any], Any] | None:
    """The mean of the trees of a forest one after the other; None for other estimators."""
    if "sklearn.ensemble" not in sys.modules:
        return None
    from sklearn import ensemble as known

    classifiers = (known.ExtraTreesClassifier, known.RandomForestClassifier)
    if type(estimator) not in (*classifiers, known.ExtraTreesRegressor, known.RandomForestRegressor):
        return None
    if estimator.n_outputs_ != 1:
        return None
    trees = [tree.tree_ for tree in estimator.estimators_]
    own = estimator.predict_proba if type(estimator) in classifiers else estimator.predict

    def mean(X: Any) -> Any:
        if not _is_matrix(X) or X.shape[1] != estimator.n_features_in_:
            return own(X)
        rows = np.ascontiguousarray(X, dtype=np.float32)
        if np.isinf(rows).any():
            return own(X)  # which says what is wrong
        total = np.zeros((len(rows), trees[0].value.shape[2]))
        for tree in trees:
            total += tree.predict(rows)
        total /= len(trees)
        return total

    return mean


def _is_matrix(X: Any) -> bool:
    return isinstance(X, np.ndarray) or (hasattr(X, "dtypes") and all(dtype == np.float64 for dtype in X.dtypes))


# -- which steps were fitted alike ------------------------------------------------------------------------------------


def fingerprint(step: Any) -> str:
    """The same text for steps that transform alike: a hash of their type and content.

    What is not known to be plain data counts as different from everything else.
    """
    digest = hashlib.sha256()
    _feed(step, digest)
    return digest.hexdigest()


def _feed(value: Any, digest: Any) -> None:
    if value is None or isinstance(value, bool | int | float | str | bytes | slice | np.generic | np.dtype):
        digest.update(f"{type(value).__name__} {value!r};".encode(errors="surrogatepass"))
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biufcSUV":
        digest.update(f"array {value.dtype} {value.shape};".encode())
        digest.update(value.tobytes())
    elif isinstance(value, np.ndarray):
        digest.update(f"objects {value.shape};".encode())
        _feed(value.ravel().tolist(), digest)
    elif isinstance(value, list | tuple):
        digest.update(f"{type(value).__name__} {len(value)};".encode())
        for item in value:
            _feed(item, digest)
    elif isinstance(value, dict):
        digest.update(f"dict {len(value)};".encode())
        for key, item in value.items():
            _feed(key, digest)
            _feed(item, digest)
    elif isinstance(value, type):
        digest.update(f"type {value.__module__} {value.__qualname__};".encode())
    elif type(value).__module__.startswith(_KNOWN) and hasattr(value, "__dict__"):
        _feed(type(value), digest)
        left_out = _NOT_USED.get(type(value).__name__, ())
        _feed({name: item for name, item in vars(value).items() if name not in left_out}, digest)
    elif type(value).__module__.startswith("scipy.sparse"):
        rows = value.tocsr()
        _feed([type(value), rows.shape, rows.data, rows.indices, rows.indptr], digest)
    else:
        digest.update(f"id {id(value)};".encode())
