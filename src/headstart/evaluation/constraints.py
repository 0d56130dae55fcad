"""Values of a fitted pipeline that a constraint may bound: speed, size, error rates, fairness.

==========================  ================================================================================
name                        value
==========================  ================================================================================
``latency``                 seconds to predict one row, averaged over the validation rows of a fold
``size``                    bytes of the pickled model of one fold
``training_seconds``        seconds to fit one fold
``false_positive_rate``     share of the negative rows that are predicted positive (binary)
``false_negative_rate``     share of the positive rows that are predicted negative (binary)
``disparity:COLUMN``        largest difference between groups of COLUMN in the share predicted positive (binary)
                            or in the error rate (multiclass) or in the mean error (regression)
a function                  ``function(model, X, y, predictions) -> float``
==========================  ================================================================================

All are means over the folds. The second class in sorted order is the positive one.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, UnknownName, suggestion
from headstart.task import Constraint

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset

Measure = Callable[["FittedFold"], float]


@dataclass(frozen=True)
class FittedFold:
    """A model fitted on a training part, and what it predicts for the validation part."""

    model: Any
    X: Any
    y: NDArray[Any]
    predictions: NDArray[np.float64]
    fit_seconds: float
    predict_seconds: float

    @property
    def labels(self) -> NDArray[Any]:
        """Predicted classes, or numbers."""
        if self.predictions.ndim == 1:
            return self.predictions
        chosen: NDArray[Any] = self.predictions.argmax(axis=1)
        return chosen


def _rate(predicted: NDArray[Any], among: NDArray[np.bool_]) -> float:
    return float(predicted[among].mean()) if among.any() else 0.0


def _false_positive_rate(fold: FittedFold) -> float:
    return _rate(fold.labels == 1, fold.y == 0)


def _false_negative_rate(fold: FittedFold) -> float:
    return _rate(fold.labels == 0, fold.y == 1)


def _latency(fold: FittedFold) -> float:
    return fold.predict_seconds / max(1, len(fold.y))


def _size(fold: FittedFold) -> float:
    return float(len(pickle.dumps(fold.model, protocol=pickle.HIGHEST_PROTOCOL)))


def _training_seconds(fold: FittedFold) -> float:
    return fold.fit_seconds


class Disparity:
    """Largest difference between the groups of a column."""

    def __init__(self, column: str, task: str) -> None:
        self.column = column
        self.task = task

    def __call__(self, fold: FittedFold) -> float:
        groups = np.asarray(fold.X[self.column].astype(str))
        if self.task == "binary":
            values = (fold.labels == 1).astype(float)
        elif self.task == "multiclass":
            values = (fold.labels != fold.y).astype(float)
        else:
            values = fold.predictions - fold.y
        means = [values[groups == group].mean() for group in np.unique(groups)]
        return float(max(means) - min(means))


class UserMeasure:
    """A user's own ``function(model, X, y, predictions)``."""

    def __init__(self, function: Callable[..., float]) -> None:
        self.function = function

    def __call__(self, fold: FittedFold) -> float:
        return float(self.function(fold.model, fold.X, fold.y, fold.predictions))


_MEASURES: dict[str, Measure] = {
    "latency": _latency,
    "size": _size,
    "training_seconds": _training_seconds,
    "false_positive_rate": _false_positive_rate,
    "false_negative_rate": _false_negative_rate,
}
_BINARY_ONLY = ("false_positive_rate", "false_negative_rate")


def measures(wanted: Iterable[str] | Mapping[str, Callable[..., float] | None], dataset: Dataset) -> dict[str, Measure]:
    """What measures each named value; a mapping may give functions for names of its own."""
    found: dict[str, Measure] = {}
    functions = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
    for name, function in functions.items():
        kind, _, column = name.partition(":")
        if function is not None:
            found[name] = UserMeasure(function)
        elif kind == "disparity":
            if column not in dataset.kinds:
                columns = map(str, dataset.kinds)
                raise InvalidInput(f"constraint {name!r} needs a column of the table; {suggestion(column, columns)}")
            found[name] = Disparity(column, str(dataset.task))
        elif name in _MEASURES:
            if name in _BINARY_ONLY and dataset.task != "binary":
                raise InvalidInput(f"constraint {name!r} needs two classes, found a {dataset.task} task")
            found[name] = _MEASURES[name]
        else:
            known = [*_MEASURES, "disparity:COLUMN"]
            raise UnknownName(f"no constraint is named {name!r}; {suggestion(name, known)}; or give a function")
    return found


def parse_constraints(given: Mapping[str, float] | Iterable[str | Constraint] | None) -> tuple[Constraint, ...]:
    """Constraints as the search takes them, of a mapping or of texts such as ``"latency <= 1e-3"``."""
    if given is None:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else map(_parsed, given)
    found = []
    for name, upper in pairs:
        bound: Any = upper
        if isinstance(bound, bool) or not isinstance(bound, Real) or math.isnan(bound):
            raise InvalidInput(f"constraint {name!r} must be bounded by a number, got {upper!r}")
        found.append(Constraint(name, float(bound)))
    return tuple(found)


def _parsed(given: str | Constraint) -> tuple[str, Any]:
    if isinstance(given, Constraint):
        return given.name, given.upper
    name, _, bound = given.partition("<=")
    try:
        return name.strip(), float(bound)
    except ValueError:
        raise InvalidInput(
            f"a constraint must read 'NAME <= NUMBER', such as 'latency <= 1e-3', got {given!r}"
        ) from None
