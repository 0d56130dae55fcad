"""What the columns of a table are: numbers, categories, dates, text, ids, constants.

The rules, in this order:

=============  ====================================================================================================
constant       every row has the same value, or none has one. (One value in some rows and nothing in the others is
               no constant: what is missing may say something.)
boolean        a boolean type, or the words of one pair: true/false, yes/no, t/f, y/n, on/off, in any case. Numbers 0
               and 1 stay numeric: it is the same thing to every algorithm.
categorical    the table's own category type (unless nearly every row has a category of its own)
date           a date type, or text that has one date format, see `headstart.data.dates`; of the different values as
               many may be something else as in a numeric column. Numbers such as seconds since 1970 are no dates.
numeric        numbers, also few different ones (say so if they are codes: ``kinds={"branch": "categorical"}``), time
               spans (in seconds), and text that reads as numbers; up to 5 % of the different values may be something
               else, such as ``n/a``, and count as missing. Digits with leading zeros (``00123``) are categories.
id             whole numbers that differ in every row and run without gaps from 0 or 1; whole numbers or text that
               differ in at least 95 % of the rows where the name says id; text without blanks that differs in at
               least 95 % of the rows (uuids, codes). Other than by name, only in tables of 20 rows or more.
text           mostly different and of several words, or long
categorical    any other text
=============  ====================================================================================================

Kinds depend on the values and the column's name alone, never on the order of the rows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from headstart.data.dates import DateFormat, epoch_format, find_date_format, read_dates
from headstart.data.errors import TableError, column_hint, listed
from headstart.data.values import (
    MISSING_WORDS,
    Distinct,
    are_padded_codes,
    are_truths,
    decimal_sign,
    distinct_texts,
    to_numbers,
)
from headstart.errors import suggestion

ID_ROWS = 20
"""Rows from which on different values everywhere are taken for an id."""
ID_SHARE = 0.95
STRAY_SHARE = 0.05
STRAY_FROM = 20
"""Share of the different values of a text column with numbers or dates that may be something else, and how many
different ones it must have for that."""

_ID_NAME = re.compile(
    r"(?:^|[\W_])(?:id|ids|uuid|guid|identifier|rowid|row_?(?:names?|num|number)|index|key)$"
    r"|^(?:id|uuid|guid)[\W_]|^unnamed[\W_]*\d*$|^index$",
    re.IGNORECASE,
)
_ID_CAMEL = re.compile(r"[a-z](?:Id|ID|Key)$|^(?:Id|ID)(?:[A-Z]|$)")
_TIME_NAME = re.compile(r"year|month|week|day|hour|minute|time|date|period|quarter", re.IGNORECASE)


class Kind(StrEnum):
    """What a column holds; the module's documentation has the rules."""

    NUMERIC = "numeric"
    BOOLEAN = "boolean"
    CATEGORICAL = "categorical"
    DATE = "date"
    TEXT = "text"
    ID = "id"
    CONSTANT = "constant"


@dataclass(frozen=True)
class ColumnSpec:
    """A column's kind and how its values are read.

    Parameters
    ----------
    kind
        What the column holds.
    format
        For dates, how they are written; for numbers written as text, the decimal sign.
    lenient
        Whether values that cannot be read count as missing, because the training table had a few.
    """

    kind: Kind
    format: str | None = None
    lenient: bool = False


def infer_kinds(frame: pd.DataFrame, overrides: Mapping[str, Kind | str] | None = None) -> dict[str, Kind]:
    """The kind of each column.

    Parameters
    ----------
    frame
        A table.
    overrides
        Kinds by column name that are known better.

    >>> infer_kinds(pd.DataFrame({"age": ["31", "45"], "smokes": ["no", "yes"], "born": ["1993-02-11", "1979-12-30"]}))
    {'age': <Kind.NUMERIC: 'numeric'>, 'smokes': <Kind.BOOLEAN: 'boolean'>, 'born': <Kind.DATE: 'date'>}
    """
    return {name: spec.kind for name, spec in infer_columns(frame, overrides)[0].items()}


def infer_columns(
    frame: pd.DataFrame, overrides: Mapping[str, Kind | str] | None = None
) -> tuple[dict[str, ColumnSpec], list[str]]:
    """The kind of each column with how to read it, and notes on what was uncertain."""
    known = _checked_overrides(overrides or {}, [str(c) for c in frame.columns])
    specs, notes = {}, []
    for position, label in enumerate(frame.columns):
        name, column = str(label), frame.iloc[:, position]
        if name in known:
            specs[name] = _declared(column, name, known[name])
        else:
            specs[name], note = _infer(column, name)
            notes += note
    return specs, notes


def _checked_overrides(overrides: Mapping[str, Kind | str], names: list[str]) -> dict[str, Kind]:
    if not isinstance(overrides, Mapping):
        raise TableError(
            f"kinds must be a mapping from columns to kinds, such as {{'zip': 'categorical'}}, got {overrides!r}"
        )
    checked = {}
    for name, kind in overrides.items():
        if name not in names:
            raise TableError(f"kinds: column {name!r} not found; {column_hint(str(name), names)}")
        try:
            checked[name] = Kind(kind)
        except ValueError:
            raise TableError(f"column {name!r}: unknown kind {kind!r}; {suggestion(str(kind), Kind)}") from None
    return checked


def _infer(column: pd.Series[Any], name: str) -> tuple[ColumnSpec, list[str]]:
    dtype: Any = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return _infer_category(column, name), []
    column = _unboxed(column)
    dtype = column.dtype
    if types.is_bool_dtype(dtype):
        return ColumnSpec(_or_constant(column, Kind.BOOLEAN)), []
    if types.is_datetime64_any_dtype(dtype) or isinstance(dtype, pd.PeriodDtype):
        return ColumnSpec(_or_constant(column, Kind.DATE)), []
    if types.is_timedelta64_dtype(dtype):
        return ColumnSpec(_or_constant(column, Kind.NUMERIC)), []
    if types.is_numeric_dtype(dtype):
        return ColumnSpec(_numeric_kind(plain_numbers(column), name)), []
    return _infer_text(distinct_texts(column), name)


def _unboxed(column: pd.Series[Any]) -> pd.Series[Any]:
    """A column of Python objects with the type that its values share, where they do; any other column as it is."""
    if not types.is_object_dtype(column.dtype):
        return column
    held = types.infer_dtype(column, skipna=True)
    if held == "boolean":
        return column.astype("boolean")
    if held in ("integer", "floating", "mixed-integer-float", "decimal"):
        return _floats(column)
    if held in ("datetime", "datetime64", "date"):
        return pd.to_datetime(column, errors="coerce", utc=True)
    if held in ("timedelta", "timedelta64"):
        return pd.to_timedelta(column, errors="coerce")
    return column


def dense(column: Any) -> pd.Series[Any]:
    """A column without pandas' sparse storage."""
    filled: pd.Series[Any] = column.sparse.to_dense() if isinstance(column.dtype, pd.SparseDtype) else column
    return filled


def _floats(column: pd.Series[Any]) -> pd.Series[Any]:
    """Python's numbers as floats; those that are too large for one are infinite."""
    try:
        return pd.to_numeric(column, errors="coerce").astype(np.float64)
    except OverflowError:
        return pd.Series([_float(value) for value in column], column.index, np.float64, column.name)


def _float(value: Any) -> float:
    try:
        return np.nan if value is None or value is pd.NA else float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def plain_numbers(column: pd.Series[Any]) -> NDArray[Any]:
    """A numeric column as a NumPy array, NaN where nothing is known."""
    dtype: Any = column.dtype
    if isinstance(dtype, pd.SparseDtype):
        return plain_numbers(dense(column))
    if dtype.kind == "c":
        raise TableError(
            f"column {column.name!r} must contain real numbers, found complex ones; split it into two columns"
        )
    native = isinstance(dtype, np.dtype) and dtype.kind in "iuf"
    numbers: NDArray[Any] = column.to_numpy() if native else column.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def _or_constant(column: pd.Series[Any], kind: Kind) -> Kind:
    different = column.nunique(dropna=True)
    return Kind.CONSTANT if different == 0 or (different == 1 and not column.isna().any()) else kind


def _numeric_kind(numbers: NDArray[Any], name: str) -> Kind:
    present = numbers if numbers.dtype.kind in "iu" else numbers[np.isfinite(numbers)]
    if not len(present):
        return Kind.CONSTANT
    low, high = present.min(), present.max()
    if low == high:
        return Kind.CONSTANT if len(present) == len(numbers) else Kind.NUMERIC
    span = float(high) - float(low) + 1
    if span < ID_SHARE * len(present) or _TIME_NAME.search(name):  # too few possible values to be an id
        return Kind.NUMERIC
    named = _names_an_id(name)
    gapless = span <= 1.05 * len(present) and float(low) in (0.0, 1.0) and len(numbers) >= ID_ROWS
    if not (named or gapless) or (present.dtype.kind == "f" and not bool(np.all(present == np.rint(present)))):
        return Kind.NUMERIC
    different = len(pd.unique(present))
    if (gapless and different == len(numbers)) or (named and different >= ID_SHARE * len(numbers)):
        return Kind.ID
    return Kind.NUMERIC


def _infer_category(column: pd.Series[Any], name: str) -> ColumnSpec:
    distinct = distinct_texts(column)
    if _is_constant(distinct):
        return ColumnSpec(Kind.CONSTANT)
    if types.is_bool_dtype(column.cat.categories.dtype):
        return ColumnSpec(Kind.BOOLEAN)
    if len(column) >= ID_ROWS and len(distinct.texts) >= ID_SHARE * len(column):
        return ColumnSpec(_text_kind(distinct, name))
    return ColumnSpec(Kind.CATEGORICAL)


def _infer_text(distinct: Distinct, name: str) -> tuple[ColumnSpec, list[str]]:
    if _is_constant(distinct):
        return ColumnSpec(Kind.CONSTANT), []
    if are_truths(distinct.texts):
        return ColumnSpec(Kind.BOOLEAN), []
    if numeric := _numbers_as_text(distinct):
        numbers = distinct.spread(to_numbers(distinct.texts, numeric.format or "."), np.nan)
        kind = _numeric_kind(numbers, name)
        return (numeric if kind is Kind.NUMERIC else ColumnSpec(kind)), []
    dates = without_missing_words(distinct)
    if date := find_date_format(dates) or _mostly_dates(dates):
        lenient = date.fits < 1 or len(dates.texts) < len(distinct.texts)
        note = f"dates in {name!r} were read as {date.format}; they would also fit with day and month swapped"
        return ColumnSpec(Kind.DATE, date.format, lenient), [note] if date.ambiguous else []
    kind = _text_kind(distinct, name)
    return ColumnSpec(kind), _note_on_dates(dates, name, kind)


def _is_constant(distinct: Distinct) -> bool:
    return not len(distinct.texts) or (len(distinct.texts) == 1 and bool((distinct.codes >= 0).all()))


def _numbers_as_text(distinct: Distinct) -> ColumnSpec | None:
    sample = np.array([t for t in distinct.sample() if t.lower() not in MISSING_WORDS], dtype=object)
    if not len(sample):
        return None
    sign = decimal_sign(sample)
    if np.isfinite(to_numbers(sample, sign)).mean() < 1 - 2 * STRAY_SHARE or are_padded_codes(sample):
        return None
    stray = ~np.isfinite(to_numbers(distinct.texts, sign))
    if all(text.lower() in MISSING_WORDS for text in distinct.texts[stray]):
        return ColumnSpec(Kind.NUMERIC, sign, lenient=bool(stray.any()))
    enough = stray.mean() <= STRAY_SHARE and len(distinct.texts) >= STRAY_FROM
    return ColumnSpec(Kind.NUMERIC, sign, lenient=True) if enough else None


def without_missing_words(distinct: Distinct) -> Distinct:
    """The column without what stands for a missing value among numbers and dates."""
    words = np.array([text.lower() in MISSING_WORDS for text in distinct.texts], dtype=bool)
    if not words.any():
        return distinct
    places = np.where(words, -1, np.cumsum(~words) - 1)
    return Distinct(np.append(places, -1)[distinct.codes], distinct.texts[~words])


def _mostly_dates(distinct: Distinct) -> DateFormat | None:
    """The format of dates of which a few are something else."""
    return find_date_format(distinct, 1 - STRAY_SHARE) if len(distinct.texts) >= STRAY_FROM else None


def _note_on_dates(distinct: Distinct, name: str, kind: Kind) -> list[str]:
    """What to tell of a column that is not taken for dates although many of its values are."""
    found = find_date_format(distinct, 0.5)
    if found is None or len(distinct.texts) < 4:
        return []
    unread = distinct.texts[np.isnat(read_dates(distinct.texts, found.format))]
    shown = listed((repr(str(text)[:30]) for text in unread), 3)
    return [
        f"{name!r} was taken as {kind}: most of its values are dates, {found.format}, but {len(unread)} are not, "
        f"{shown}; fix these, or declare the kind date"
    ]


def _text_kind(distinct: Distinct, name: str) -> Kind:
    """Id, text or category, from how often values repeat and how they are written."""
    different, rows = len(distinct.texts), distinct.present
    share = different / rows
    if _names_an_id(name) and share >= ID_SHARE and rows > 3:
        return Kind.ID
    sample = distinct.sample()
    words = float(np.mean([t.count(" ") + 1 for t in sample]))
    length = float(np.mean([len(t) for t in sample]))
    if different > ID_ROWS:
        if share >= 0.3 and (words >= 4 or (length >= 50 and words >= 2)):
            return Kind.TEXT
        if share >= 0.9 and words >= 2:
            return Kind.TEXT
    if rows >= ID_ROWS and share >= ID_SHARE and words < 1.5:
        return Kind.ID
    return Kind.CATEGORICAL


def _names_an_id(name: str) -> bool:
    return bool(_ID_NAME.search(name) or _ID_CAMEL.search(name))


def _declared(column: pd.Series[Any], name: str, kind: Kind) -> ColumnSpec:
    """How to read a column whose kind the caller declared."""
    dtype: Any = column.dtype
    if types.is_bool_dtype(dtype) or types.is_timedelta64_dtype(dtype) or types.is_datetime64_any_dtype(dtype):
        return ColumnSpec(kind)
    if types.is_numeric_dtype(dtype):
        if kind is Kind.DATE:
            numbers = plain_numbers(column).astype(np.float64)
            return ColumnSpec(kind, epoch_format(numbers) if np.isfinite(numbers).any() else "s")
        return ColumnSpec(kind)
    if kind is Kind.NUMERIC:
        return ColumnSpec(kind, decimal_sign(distinct_texts(column).sample()))
    if kind is Kind.DATE and not types.is_datetime64_any_dtype(_unboxed(column).dtype):
        distinct = without_missing_words(distinct_texts(column))
        found = find_date_format(distinct, 0.5)
        if not found:
            example = f", found {distinct.texts[0]!r}" if len(distinct.texts) else ""
            raise TableError(
                f"column {name!r} is declared a date, but its values share no known date format{example}; "
                "convert it with pandas.to_datetime first"
            )
        return ColumnSpec(kind, found.format, lenient=True)
    return ColumnSpec(kind)
