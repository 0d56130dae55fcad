"""The target of a table: which task it sets, its labels as codes, the metric that suits it.

The task, where none is given:

- text, booleans and categories: classification. Text that reads as numbers is taken as numbers.
- numbers: two different values make a classification; whole numbers do with at most 20 different values that are also
  at most a tenth of the rows and fill at least half of their range (0, 10, …, 100 are amounts); all else is regression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from headstart.data.columns import dense, plain_numbers
from headstart.data.errors import TableError
from headstart.data.values import decimal_sign, distinct_texts, to_numbers
from headstart.errors import suggestion

TaskKind = Literal["binary", "multiclass", "regression"]
TASKS: tuple[str, ...] = get_args(TaskKind)
FEW_VALUES = 20
"""Most different whole numbers that are taken for labels."""
FEW_SHARE = 0.1
"""Largest share of the rows that their number may be."""
IMBALANCE = 0.1
"""Classes are imbalanced if the rarest has at most so many rows for each of the commonest."""

_METRICS = {"binary": "roc_auc", "multiclass": "neg_log_loss", "regression": "neg_root_mean_squared_error"}


def default_metric(task: str) -> str:
    """The scikit-learn scorer that a task is judged by where none is named.

    >>> default_metric("binary")
    'roc_auc'
    """
    if task not in _METRICS:
        raise TableError(f"task {task!r} is unknown; {suggestion(task, TASKS)}")
    return _METRICS[task]


@dataclass(frozen=True)
class Target:
    """A target made ready.

    Parameters
    ----------
    values
        One per kept row: codes from 0 for a classification, float64 for a regression.
    classes
        The labels that the codes stand for; None for a regression.
    task
        What is to be learned.
    kept
        For each row whether its target is known.
    notes
        What was inferred and left out.
    """

    values: NDArray[Any]
    classes: NDArray[Any] | None
    task: TaskKind
    kept: NDArray[np.bool_]
    notes: tuple[str, ...]


def read_target(column: pd.Series[Any], name: str, task: str | None) -> Target:
    """Make a target ready: infer the task, leave out rows without a value, turn labels into codes.

    Parameters
    ----------
    column
        The raw target.
    name
        For messages.
    task
        One of `TASKS`, ``"classification"``, or None to infer it.
    """
    if task is not None and task not in (*TASKS, "classification"):
        raise TableError(f"task {task!r} is unknown; {suggestion(task, (*TASKS, 'classification'))}")
    column = dense(column)
    if types.is_datetime64_any_dtype(column.dtype) or isinstance(column.dtype, pd.PeriodDtype):
        raise TableError(f"target {name!r} must contain numbers or labels, found dates; convert them to numbers first")
    if types.is_object_dtype(column.dtype):
        column = column.infer_objects()
    numbers = _as_numbers(column)
    inferred = task is None
    if task is None:
        task = _infer_task(column, numbers)
    if task == "regression":
        return _regression(column, numbers, name, inferred)
    return _classification(column, name, task, inferred)


def _as_numbers(column: pd.Series[Any]) -> NDArray[np.float64] | None:
    """The target as numbers, or None where it has something else."""
    dtype: Any = column.dtype
    if types.is_numeric_dtype(dtype):
        return plain_numbers(column).astype(np.float64)
    if types.is_timedelta64_dtype(dtype):
        return np.asarray(column.dt.total_seconds(), dtype=np.float64)
    distinct = distinct_texts(column)
    per_text = to_numbers(distinct.texts, decimal_sign(distinct.sample()))
    return None if np.isnan(per_text).any() or not len(per_text) else distinct.spread(per_text, np.nan)


def _infer_task(column: pd.Series[Any], numbers: NDArray[np.float64] | None) -> str:
    if numbers is None or types.is_bool_dtype(column.dtype) or isinstance(column.dtype, pd.CategoricalDtype):
        return "classification"
    present = numbers[np.isfinite(numbers)]
    different = len(np.unique(present))
    if different <= 2:
        return "classification"
    whole = bool(np.all(present == np.rint(present)))
    few = different <= FEW_VALUES and different <= FEW_SHARE * len(present)
    close = float(present.max() - present.min()) < 2 * different
    return "classification" if whole and few and close else "regression"


def _regression(column: pd.Series[Any], numbers: NDArray[np.float64] | None, name: str, inferred: bool) -> Target:
    if numbers is None:
        texts = distinct_texts(column).texts
        wrong = [t for t in texts if np.isnan(to_numbers(np.array([t], dtype=object))[0])]
        found = f"found {wrong[0]!r}" if wrong else "found no values"
        raise TableError(
            f"target {name!r} must contain numbers for a regression, {found}; fix it, or use a classification"
        )
    kept = np.isfinite(numbers)
    values = numbers[kept]
    if not len(values):
        raise TableError(f"target {name!r} must have values, but is missing in all {len(numbers)} rows")
    if values.min() == values.max():
        raise TableError(f"target {name!r} must vary, but every row has {values[0]:g}; check the column")
    notes = _notes_on_missing(kept, name)
    if inferred:
        different = len(np.unique(values))
        notes.append(f"regression, because {name!r} has numbers with {different} distinct values")
    return Target(values, None, "regression", kept, tuple(notes))


def _classification(column: pd.Series[Any], name: str, task: str, inferred: bool) -> Target:
    codes, labels = _coded(column)
    kept = codes >= 0
    codes, rows = codes[kept], len(codes)
    if not len(codes):
        raise TableError(f"target {name!r} must have values, but is missing in all {rows} rows")
    counts = np.bincount(codes, minlength=len(labels))
    labels, codes = labels[counts > 0], (np.cumsum(counts > 0) - 1)[codes]
    counts = counts[counts > 0]
    if len(labels) < 2:
        raise TableError(
            f"target {name!r} must have at least two classes, found only {_plain(labels[0])!r}; check the column"
        )
    if len(labels) == len(codes):
        raise TableError(
            f"target {name!r} must have classes that occur more than once, but each of its {len(codes)} rows has its "
            "own; check the column, or use a regression if it contains numbers"
        )
    if task == "binary" and len(labels) != 2:
        raise TableError(f"target {name!r} must have two classes for a binary task, found {len(labels)}")
    notes = _notes_on_missing(kept, name)
    found: TaskKind = "binary" if len(labels) == 2 and task != "multiclass" else "multiclass"
    if inferred:
        notes.append(f"{found} classification, because {name!r} has {len(labels)} distinct values")
    notes += _note_on_balance(labels, counts)
    return Target(codes.astype(np.int64), labels, found, kept, tuple(notes))


def _note_on_balance(labels: NDArray[Any], counts: NDArray[np.int64]) -> list[str]:
    """What the rarest class is if others have ten times as many rows."""
    rarest = int(counts.argmin())
    fewest, rows = int(counts[rarest]), int(counts.sum())
    if fewest > IMBALANCE * counts.max():
        return []
    return [
        f"classes are imbalanced: {fewest} of {rows} rows ({100 * fewest / rows:.2g} %) are {_plain(labels[rarest])!r}"
    ]


def _coded(column: pd.Series[Any]) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Codes (-1 where missing) and labels: numbers by size, then text by the alphabet, then the rest.

    An ordered category type keeps its order.
    """
    if isinstance(column.dtype, pd.CategoricalDtype) and column.cat.ordered:
        return column.cat.codes.to_numpy().astype(np.intp), _label_array(list(column.cat.categories))
    if types.is_bool_dtype(column.dtype):
        column = column.astype("boolean").astype(object)
    elif isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object)
    try:
        codes, uniques = pd.factorize(column)
    except TypeError:
        raise TableError("labels must be numbers, text or booleans, found values such as lists or dicts") from None
    values = [_plain(value) for value in np.asarray(uniques, dtype=object)]
    order = sorted(range(len(values)), key=lambda i: _label_rank(values[i]))
    rank = np.empty(len(order) + 1, dtype=np.intp)
    rank[order], rank[-1] = np.arange(len(order)), -1
    return rank[codes], _label_array([values[i] for i in order])


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _label_rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool | int | float):
        return 0, value
    return (1, value) if isinstance(value, str) else (2, repr(value))


def _label_array(labels: list[Any]) -> NDArray[Any]:
    labels = [_plain(label) for label in labels]
    held = {type(label) for label in labels}
    if held in ({bool}, {int}, {float}):
        try:
            return np.array(labels, dtype=held.pop())
        except OverflowError:
            pass
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def _notes_on_missing(kept: NDArray[np.bool_], name: str) -> list[str]:
    left_out = int((~kept).sum())
    return [f"{left_out} of {len(kept)} rows have no value in {name!r} and were left out"] if left_out else []
