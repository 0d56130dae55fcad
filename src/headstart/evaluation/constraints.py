"""Values of a pipeline that a constraint may bound: speed, size, error rates, fairness.

==============================  =======================================================================================
name                            value
==============================  =======================================================================================
``latency``                     seconds to predict one row with the model of one fold, in a batch of validation rows
``size``                        bytes of the pickled model of one fold; in a fit, bytes of the file of the model
``training_seconds``            seconds to fit one fold
``false_positive_rate``         share of the negative rows that are predicted positive (binary)
``false_negative_rate``         share of the positive rows that are predicted negative (binary)
``parity(COLUMN)``              largest difference between groups of COLUMN in the share of rows predicted to be of a
                                class; the largest over the classes (binary, multiclass)
``disparity(COLUMN)``           largest difference between groups of COLUMN in the metric of the fit
``disparity(COLUMN, METRIC)``   … in another metric, by its name in scikit-learn
``disparity(COLUMN: 25, 60)``   … between the groups below 25, from 25 to below 60, and from 60 on; a METRIC may follow
a function                      ``function(model, X, y, predictions) -> float``, for each fold
==============================  =======================================================================================

Rates, parity and disparity are those of all out-of-fold predictions together; the others are means over the folds. The
second class in sorted order is the positive one.

**Groups.** The values of a column; missing ones are a group too. A numeric column with more than five different values
is grouped by the edges that are given, else by the quintiles of the table. A group with fewer than 10 rows, or one in
which the metric is not defined (ROC AUC or recall where a class is missing), is left out. Where fewer than two are left
the value is not measured.
"""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.constraints import Measured
from headstart.errors import InvalidInput, UnknownName, suggestion
from headstart.evaluation.scoring import Metric

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

FEWEST_ROWS = 10
"""A smaller group is left out: its rate is noise."""
_GROUPS = 5
"""Of a numeric column without edges."""
_REPEATS, _REPEAT_SECONDS = 3, 0.1
"""A prediction is timed so often as long as all of it takes less than this; the fastest counts."""


@dataclass(frozen=True)
class FittedFold:
    """A model fitted on a training part, and what it predicts for the validation part."""

    model: Any
    X: Any
    y: NDArray[Any]
    predictions: Array
    fit_seconds: float
    predict_seconds: float


OfFold = Callable[[FittedFold], float]
OfPredictions = Callable[[Rows, Array], float]
"""From rows (m,) of the table and what is predicted for them, (m, classes) or (m,); NaN where it is not defined."""


def timed(call: Callable[[], Array], repeat: bool) -> tuple[Array, float]:
    """What a call returns and the seconds it takes, the least of several calls if wanted.

    Others may be busy too, other evaluations for instance: time in which it waited for a core does not count. What it
    waited between a look at the clock and one at the queue may be taken off too much, but it takes no less than the
    processor worked for it.
    """
    seconds: list[float] = []
    while not seconds or (repeat and len(seconds) < _REPEATS and sum(seconds) < _REPEAT_SECONDS):
        waited, started, worked = _seconds_in_queue(), time.perf_counter(), time.thread_time()
        found = call()
        worked = time.thread_time() - worked
        took = time.perf_counter() - started
        seconds.append(max(took - (_seconds_in_queue() - waited), worked, 1e-9))
    return found, min(seconds)


def _seconds_in_queue() -> float:
    """How long this thread has been ready to run without a core to run on; 0 where the system does not tell."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def pickled_size(models: Iterable[Any]) -> float:
    """Bytes of fitted models, each pickled."""
    return float(sum(len(pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL)) for model in models))


def _latency(fold: FittedFold) -> float:
    return fold.predict_seconds / max(1, len(fold.y))


def _size(fold: FittedFold) -> float:
    return pickled_size([fold.model])


def _training_seconds(fold: FittedFold) -> float:
    return fold.fit_seconds


_OF_FOLD: dict[str, OfFold] = {"latency": _latency, "size": _size, "training_seconds": _training_seconds}
_RATES = {"false_positive_rate": 1, "false_negative_rate": 0}
"""The class that is predicted wrongly."""


class Rate:
    """Share of the rows of the other class that are predicted to be of this one."""

    def __init__(self, y: NDArray[Any], predicted: int) -> None:
        self.y, self.predicted = y, predicted

    def __call__(self, rows: Rows, predictions: Array) -> float:
        others = self.y[rows] != self.predicted
        return float((predictions[others].argmax(axis=1) == self.predicted).mean()) if others.any() else 0.0


class Parity:
    """Largest difference between groups in the share of rows predicted to be of a class, over the classes."""

    def __init__(self, groups: Rows) -> None:
        self.groups = groups

    def __call__(self, rows: Rows, predictions: Array) -> float:
        chosen = np.eye(predictions.shape[1])[predictions.argmax(axis=1)]
        shares = [chosen[inside].mean(axis=0) for inside in _parts(self.groups[rows])]
        return float(np.ptp(shares, axis=0).max()) if len(shares) > 1 else np.nan


class Disparity:
    """Largest difference between groups in a metric."""

    def __init__(self, groups: Rows, metric: Metric, y: NDArray[Any], weights: Array | None) -> None:
        self.groups, self.metric, self.y, self.weights = groups, metric, y, weights

    def __call__(self, rows: Rows, predictions: Array) -> float:
        losses = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scikit-learn's on metrics that are not defined
            for inside in _parts(self.groups[rows]):
                y, weights = self.y[rows][inside], None if self.weights is None else self.weights[rows][inside]
                if _is_defined(self.metric, y, predictions.shape[1:]):
                    losses.append(self.metric.loss(y, predictions[inside], weights))
        return float(np.ptp(losses)) if len(losses) > 1 else np.nan


def _parts(groups: Rows) -> list[NDArray[np.bool_]]:
    """Where each group is, without those that are too small."""
    found, counts = np.unique(groups, return_counts=True)
    return [groups == group for group in found[counts >= FEWEST_ROWS]]


def _is_defined(metric: Metric, y: NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Whether the metric tells predictions apart on these rows: scikit-learn gives 0 even to perfect ones if not."""
    try:
        loss = metric.loss(y, _perfect(y, shape))
    except ValueError:
        return False
    return bool(np.isfinite(loss)) and (not isinstance(metric.given, str) or loss < 1e-6)


def _perfect(y: NDArray[Any], shape: tuple[int, ...]) -> Array:
    """The truth in the form of predictions; `shape` is that of one row."""
    return np.eye(shape[0])[y] if shape else np.asarray(y, dtype=np.float64)


class UserMeasure:
    """A user's own ``function(model, X, y, predictions)``."""

    def __init__(self, function: Callable[..., float]) -> None:
        self.function = function

    def __call__(self, fold: FittedFold) -> float:
        return float(self.function(fold.model, fold.X, fold.y, fold.predictions))


@dataclass(frozen=True)
class Measures:
    """What measures each named value: of the model of each fold, or of all out-of-fold predictions together."""

    of_folds: dict[str, OfFold] = field(default_factory=dict)
    of_predictions: dict[str, OfPredictions] = field(default_factory=dict)

    def values(self, folds: Sequence[Mapping[str, float]], rows: Rows, predictions: Array) -> dict[str, float]:
        """Values by name, from those of the folds and from predictions for rows; without those not defined."""
        found = {name: float(np.mean([fold[name] for fold in folds])) for name in self.of_folds if folds}
        found |= {name: measure(rows, predictions) for name, measure in self.of_predictions.items()}
        return {name: value for name, value in found.items() if not np.isnan(value)}


def measures(
    wanted: Iterable[str] | Mapping[str, Callable[..., float] | None], dataset: Dataset, metric: Metric, rows: Rows
) -> Measures:
    """What measures each named value.

    Parameters
    ----------
    wanted
        Names as in the table above; a mapping may give functions for names of its own.
    dataset, metric
        Of the fit.
    rows
        Those that are validated.
    """
    found = Measures()
    functions = wanted if isinstance(wanted, Mapping) else dict.fromkeys(wanted)
    for name, function in functions.items():
        if function is not None:
            found.of_folds[name] = UserMeasure(function)
            continue
        measured = Measured.parse(name)
        if measured.kind in ("parity", "disparity"):
            found.of_predictions[name] = _between_groups(measured, dataset, metric, rows)
        elif measured.column is not None or measured.kind not in (*_OF_FOLD, *_RATES):
            known = [*_OF_FOLD, *_RATES, "parity(COLUMN)", "disparity(COLUMN)"]
            raise UnknownName(f"no constraint is named {name!r}; {suggestion(name, known)}; or give a function")
        elif measured.kind in _RATES:
            if dataset.task != "binary" or dataset.y is None:
                raise InvalidInput(f"constraint {name!r} needs two classes, found a {dataset.task} task")
            found.of_predictions[name] = Rate(dataset.y, _RATES[measured.kind])
        else:
            found.of_folds[name] = _OF_FOLD[measured.kind]
    return found


def _between_groups(measured: Measured, dataset: Dataset, metric: Metric, rows: Rows) -> OfPredictions:
    if measured.column is None or measured.column not in dataset.kinds:
        known = suggestion(measured.column or "", map(str, dataset.kinds))
        raise InvalidInput(f"constraint '{measured}' needs a column of the table, as in {measured.kind}(sex); {known}")
    assert dataset.y is not None
    groups, is_parity = groups_of(dataset, measured), measured.kind == "parity"
    if is_parity and (measured.metric is not None or dataset.classes is None):
        found = f"the metric {measured.metric}" if measured.metric is not None else "a regression"
        raise InvalidInput(f"constraint '{measured}' compares shares of predicted classes, got {found}; use disparity")
    chosen = metric if measured.metric is None else Metric(measured.metric, str(dataset.task))
    measure = Parity(groups) if is_parity else Disparity(groups, chosen, dataset.y, dataset.weights)
    shape = () if dataset.classes is None else (len(dataset.classes),)
    if np.isnan(measure(rows, _perfect(dataset.y[rows], shape))):
        counts = np.unique(groups[rows], return_counts=True)[1]
        raise InvalidInput(
            f"constraint '{measured}' needs two groups of at least {FEWEST_ROWS} validated rows in which the metric is "
            f"defined, found groups of {', '.join(map(str, counts[:10]))} rows; choose another column or metric, or "
            f"give the edges of a numeric column: {measured.kind}({measured.column}: EDGE, EDGE)"
        )
    return measure


def groups_of(dataset: Dataset, measured: Measured) -> Rows:
    """The group of each row (n,), by a column; missing values are group -1."""
    import pandas as pd

    values = dataset.X[measured.column]
    if not pd.api.types.is_float_dtype(values.dtype):
        if measured.edges:
            kind = dataset.kinds[str(measured.column)]
            raise InvalidInput(f"edges are for numeric columns, and {measured.column!r} is {kind}; leave them out")
        return np.asarray(pd.factorize(values)[0], dtype=np.int64)
    numbers = values.to_numpy(dtype=np.float64)
    known = ~np.isnan(numbers)
    distinct = np.unique(numbers[known])
    if measured.edges:
        codes = np.searchsorted(measured.edges, numbers, side="right")
    elif len(distinct) <= _GROUPS:
        codes = np.searchsorted(distinct, numbers)
    else:
        inner = np.arange(1, _GROUPS) / _GROUPS
        codes = np.searchsorted(np.unique(np.quantile(numbers[known], inner)), numbers)
    return np.where(known, codes, -1).astype(np.int64)
