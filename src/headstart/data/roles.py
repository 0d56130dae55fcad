"""Columns of a table that are not features: target, weights, groups, times."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from headstart.data.columns import plain_numbers
from headstart.data.dates import as_moments, find_date_format, read_dates
from headstart.data.errors import NOT_UNICODE, TableError, column_hint
from headstart.data.values import blanked, distinct_texts, to_numbers


class Roles:
    """Hands out a table's columns by role, with nothing where `missing` has it; what is left are the features."""

    def __init__(self, frame: pd.DataFrame, missing: Collection[str] = ()) -> None:
        self._frame = frame
        self._missing = missing
        self._claimed: dict[str, str] = {}

    @property
    def claimed(self) -> tuple[str, ...]:
        """Columns that have a role."""
        return tuple(self._claimed)

    @property
    def features(self) -> list[str]:
        """Columns that have none."""
        return [name for name in self._frame.columns if name not in self._claimed]

    def claim(self, role: str, given: Any) -> tuple[pd.Series[Any] | None, str]:
        """The values for a role and their name; `given` is a column's name or the values."""
        if given is None:
            return None, role
        if isinstance(given, str) or (isinstance(given, int) and not isinstance(given, bool)):
            name = str(given)
            if name in self._claimed:
                raise TableError(f"column {name!r} cannot be {role}, it is already {self._claimed[name]}")
            if name not in self._frame.columns:
                raise TableError(f"{role} column {name!r} not found; {column_hint(name, self._frame.columns)}")
            self._claimed[name] = role
            return blanked(self._frame[name], self._missing), name
        column = as_column(given, role)
        if len(column) != len(self._frame):
            raise TableError(f"{role} must have one value per row of the table, {len(self._frame)}, got {len(column)}")
        return blanked(column, self._missing), role if column.name is None else str(column.name)


def as_column(given: Any, role: str) -> pd.Series[Any]:
    """Values of any library as a Series numbered from 0."""
    try:
        return _column(given, role)
    except UnicodeEncodeError:
        raise TableError(f"{role}: {NOT_UNICODE}") from None


def _column(given: Any, role: str) -> pd.Series[Any]:
    if isinstance(given, Mapping | str) or not hasattr(given, "__len__"):
        raise TableError(f"{role} must be the name of a column or one value per row, got {type(given).__name__}")
    if isinstance(given, pd.DataFrame):
        if given.shape[1] != 1:
            raise TableError(f"{role} must be one column, got {given.shape[1]}")
        given = given.iloc[:, 0]
    if isinstance(given, pd.Series):
        return given.reset_index(drop=True)
    if hasattr(given, "to_pandas"):
        return pd.Series(given.to_pandas()).reset_index(drop=True)
    if isinstance(given, pd.Categorical | pd.Index):
        return pd.Series(given).reset_index(drop=True)
    if isinstance(given, list | tuple):  # a list of mixed types must not become one of strings
        return pd.Series(list(given), dtype=object).infer_objects()
    array = np.asarray(given)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise TableError(f"{role} must have one value per row, got an array of shape {array.shape}")
    return pd.Series(array.astype(object) if array.dtype.kind in "US" else array)


def read_weights(column: pd.Series[Any]) -> NDArray[np.float64]:
    """Weights: finite, none negative, not all 0."""
    weights = _numbers(column)
    if weights is None:
        example = next(iter(column.dropna()), None)
        raise TableError(f"weights must be numbers, found {example!r}; give every row a weight")
    if not np.isfinite(weights).all():
        row = int(np.flatnonzero(~np.isfinite(weights))[0])
        raise TableError(f"weights must be finite, row {row} has {weights[row]}; give every row a weight")
    if (weights < 0).any():
        row = int(np.flatnonzero(weights < 0)[0])
        raise TableError(f"weights must not be negative, row {row} has {weights[row]:g}")
    if not weights.any():
        raise TableError("weights must not all be zero")
    return weights


def read_groups(column: pd.Series[Any]) -> NDArray[Any]:
    """What each row belongs to; integers as they are, anything else as text."""
    if types.is_integer_dtype(column.dtype) and isinstance(column.dtype, np.dtype):
        integers: NDArray[Any] = column.to_numpy()
        return integers
    distinct = distinct_texts(column)
    if (distinct.codes < 0).any():
        row = int(np.flatnonzero(distinct.codes < 0)[0])
        raise TableError(f"groups must be known for every row, row {row} has none; fill it, or leave the row out")
    return distinct.spread(distinct.texts, "")


def read_times(column: pd.Series[Any]) -> NDArray[Any]:
    """When each row was: numbers as float64, dates as datetime64."""
    if types.is_datetime64_any_dtype(column.dtype) or isinstance(column.dtype, pd.PeriodDtype):
        times: NDArray[Any] = as_moments(column)
    elif (numbers := _numbers(column)) is not None:
        times = numbers
    else:
        distinct = distinct_texts(column)
        found = find_date_format(distinct)
        if found is None:
            example = distinct.texts[0] if len(distinct.texts) else None
            raise TableError(f"times must be numbers or dates, found {example!r}; convert them with pandas.to_datetime")
        times = distinct.spread(read_dates(distinct.texts, found.format), np.datetime64("NaT"))
    unknown = np.isnan(times) if times.dtype.kind == "f" else np.isnat(times)
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise TableError(f"times must be known for every row, row {row} has none; fill it, or leave the row out")
    return times


def _numbers(column: pd.Series[Any]) -> NDArray[np.float64] | None:
    if types.is_numeric_dtype(column.dtype):
        return plain_numbers(column).astype(np.float64)
    distinct = distinct_texts(column)
    numbers = to_numbers(distinct.texts)
    return None if np.isnan(numbers).any() or not len(numbers) else distinct.spread(numbers, np.nan)
