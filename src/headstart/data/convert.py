"""Columns in the form that pipelines get them, by their kind.

===========================  ==========================================================================
numeric, boolean             float64; NaN where missing or infinite; true is 1, false is 0
categorical                  pandas category of sorted strings; the integer 1 and the float 1.0 are ``"1"``
date                         datetime64 in microseconds, UTC, without a time zone
text                         strings
id, constant                 float64 where they are numbers, dates where they are dates, strings otherwise
===========================  ==========================================================================
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from headstart.data.columns import ColumnSpec, Kind, dense, plain_numbers
from headstart.data.compact import compact
from headstart.data.dates import ISO, as_moments, epoch_format, find_date_format, is_swapped, read_dates, read_epoch
from headstart.data.errors import DataWarning, TableError, listed
from headstart.data.values import Distinct, distinct_texts, to_numbers, to_truths

TEXT_DTYPE: Any = pd.Series(["a"]).dtype
"""What this pandas makes of strings by itself."""


@dataclass(frozen=True)
class Converted:
    """A column in its final form, and what became missing on the way.

    Parameters
    ----------
    values
        One value per row.
    infinite
        How many infinities became missing.
    unread
        Different values that could not be read and became missing; only for a lenient column.
    """

    values: Any
    infinite: int = 0
    unread: tuple[str, ...] = ()


def convert_compactly(column: pd.Series[Any], spec: ColumnSpec, name: str) -> Converted:
    """A column as `convert` makes it, in few bytes, see `headstart.data.compact`."""
    if spec.kind in (Kind.ID, Kind.CONSTANT):
        return Converted(np.zeros(len(column), dtype=np.int8))
    found = convert(column, spec, name)
    is_number = isinstance(found.values, np.ndarray) and found.values.dtype.kind == "f"
    return replace(found, values=compact(found.values)) if is_number else found


def convert(column: pd.Series[Any], spec: ColumnSpec, name: str) -> Converted:
    """A column in the form of its kind; `TableError` where a value cannot be read as that kind."""
    column = dense(column)
    if spec.kind is Kind.NUMERIC:
        return _numeric(column, spec, name)
    if spec.kind is Kind.BOOLEAN:
        return _boolean(column, name)
    if spec.kind is Kind.CATEGORICAL:
        return Converted(as_category(column))
    if spec.kind is Kind.DATE:
        return _date(column, spec, name)
    if spec.kind is Kind.TEXT:
        return Converted(_as_text(distinct_texts(column)))
    return _as_it_is(column)


def as_category(column: pd.Series[Any]) -> pd.Categorical:
    """Any column as categories: strings, sorted, only those that occur."""
    distinct = distinct_texts(column)
    order = np.argsort(distinct.texts, kind="stable")
    rank = np.empty(len(order) + 1, dtype=np.intp)
    rank[order], rank[-1] = np.arange(len(order)), -1
    categories = pd.Index(distinct.texts[order], dtype=TEXT_DTYPE)
    return pd.Categorical.from_codes(rank[distinct.codes], categories=categories)


def finite_or_missing(numbers: NDArray[Any]) -> tuple[NDArray[np.float64], int]:
    """Numbers as float64 with NaN for infinities, and how many there were."""
    values = numbers.astype(np.float64)
    infinite = np.isinf(values)
    count = int(infinite.sum())
    if count:
        values[infinite] = np.nan
    return values, count


def _numeric(column: pd.Series[Any], spec: ColumnSpec, name: str) -> Converted:
    dtype: Any = column.dtype
    if types.is_timedelta64_dtype(dtype):
        return Converted(column.dt.total_seconds().to_numpy(dtype=np.float64))
    if types.is_datetime64_any_dtype(dtype):
        raise TableError(f"column {name!r} must contain numbers, found dates; convert it, or refit with this type")
    if types.is_numeric_dtype(dtype):  # booleans too
        return Converted(*finite_or_missing(plain_numbers(column)))
    distinct = distinct_texts(column)
    numbers = to_numbers(distinct.texts, spec.format or ".")
    for i in np.flatnonzero(np.isnan(numbers)):  # booleans that came as text or as Python objects
        numbers[i] = {"true": 1.0, "false": 0.0}.get(distinct.texts[i].lower(), np.nan)
    unread = tuple(str(t) for t in distinct.texts[np.isnan(numbers)] if t.lower() != "nan")
    if unread and not spec.lenient:
        raise TableError(f"column {name!r} must contain numbers, found {_some(unread)}; {_ADVICE}")
    values, infinite = finite_or_missing(distinct.spread(numbers, np.nan))
    return Converted(values, infinite, unread)


def _boolean(column: pd.Series[Any], name: str) -> Converted:
    if types.is_numeric_dtype(column.dtype):
        values, infinite = finite_or_missing(plain_numbers(column))
        other = values[~np.isnan(values) & (values != 0) & (values != 1)]
        if len(other):
            raise TableError(f"column {name!r} must contain true and false, found {other[0]:g}; {_ADVICE}")
        return Converted(values, infinite)
    distinct = distinct_texts(column)
    truths = to_truths(distinct.texts)
    if np.isnan(truths).any():
        found = _some(tuple(distinct.texts[np.isnan(truths)]))
        raise TableError(f"column {name!r} must contain true and false, or yes and no, found {found}; {_ADVICE}")
    return Converted(distinct.spread(truths, np.nan))


def _date(column: pd.Series[Any], spec: ColumnSpec, name: str) -> Converted:
    dtype: Any = column.dtype
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return Converted(as_moments(column))
    if types.is_numeric_dtype(dtype) and not types.is_bool_dtype(dtype):
        numbers = plain_numbers(column).astype(np.float64)
        if spec.format in ("%Y%m%d", "D", "s", "ms", "us", "ns"):
            return Converted(read_epoch(numbers, spec.format))
        if np.isnan(numbers).all():
            return Converted(np.full(len(numbers), "NaT", dtype="datetime64[us]"))
        if epoch_format(numbers) == "%Y%m%d" and not np.isnat(read_epoch(numbers[~np.isnan(numbers)], "%Y%m%d")).any():
            return Converted(read_epoch(numbers, "%Y%m%d"))
        raise TableError(f"column {name!r} must contain dates, found the number {numbers[~np.isnan(numbers)][0]:g}")
    if types.is_object_dtype(dtype) and types.infer_dtype(column, skipna=True) in ("datetime", "datetime64", "date"):
        return Converted(as_moments(column))
    distinct = distinct_texts(column)
    moments = read_dates(distinct.texts, spec.format or ISO)
    if np.isnat(moments).mean() > 0.5:
        moments = _dates_written_otherwise(distinct, spec.format or ISO, name, moments)
    unread = tuple(str(t) for t in distinct.texts[np.isnat(moments)])
    if unread and not spec.lenient:
        wanted = f"written as {spec.format}" if spec.format else "year-month-day"
        raise TableError(f"column {name!r} must contain dates {wanted}, found {_some(unread)}; {_ADVICE}")
    return Converted(distinct.spread(moments, np.datetime64("NaT")), 0, unread)


def _dates_written_otherwise(distinct: Distinct, trained: str, name: str, moments: Any) -> Any:
    """Dates of a new table in another usual format than the training table's; `moments` where there is none.

    A few values do not make another format: most must have it, and day and month must not change places.
    """
    found = find_date_format(distinct, 0.95)
    if found is None:
        return moments
    formats = [found.format]
    if found.ambiguous or is_swapped(found.format, trained):
        swapped = found.format.translate(str.maketrans("md", "dm"))
        formats = [form for form in (found.format, swapped) if not is_swapped(form, trained)]
        if found.ambiguous and len(formats) == 2:  # nothing tells which comes first
            warnings.warn(
                f"dates in {name!r} were read as {found.format}; they would also fit with day and month swapped",
                DataWarning,
                stacklevel=2,
            )
        elif not found.ambiguous:
            return moments
    return read_dates(distinct.texts, formats[0])


def _as_text(distinct: Distinct) -> Any:
    return pd.array(distinct.spread(distinct.texts, np.nan), dtype=TEXT_DTYPE)


def _as_it_is(column: pd.Series[Any]) -> Converted:
    dtype: Any = column.dtype
    if types.is_timedelta64_dtype(dtype):
        return Converted(column.dt.total_seconds().to_numpy(dtype=np.float64))
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return Converted(as_moments(column))
    if types.is_numeric_dtype(dtype):
        return Converted(finite_or_missing(plain_numbers(column))[0])
    return Converted(_as_text(distinct_texts(column)))


_ADVICE = "fix the values, or declare the column's kind (kinds=...) when training"


def _some(values: tuple[str, ...]) -> str:
    return listed((repr(v[:40]) for v in values), 3)
