"""Dates written as text: which format a column has, and reading it by that format.

The format is found once, on the training table, and kept in the schema: ``03/04/2024`` must not change its meaning
because the rows to predict happen to hold no day above 12.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

from headstart.data.values import Distinct, Texts

Dates = NDArray[np.datetime64]

ISO = "ISO8601"
"""Year first, any precision, with or without a time zone; values of one column may differ in precision."""

_EXAMPLES = 20
"""Values whose looks suggest formats, where some are no dates."""
_DOUBT = 0.05
_ISO = re.compile(r"\d{4}-\d{2}(-\d{2}([T ]\d{2}(:?\d{2}(:?\d{2}([.,]\d+)?)?)?\s?(Z|[+-]\d{2}(:?\d{2})?)?)?)?$")
_YEAR_FIRST = re.compile(r"\d{4}([/.-])\d{1,2}\1\d{1,2}")
_YEAR_LAST = re.compile(r"\d{1,2}([/.-])\d{1,2}\1\d{4}(?!\d)")
_SHORT_YEAR = re.compile(r"\d{1,2}(/)\d{1,2}/\d{2}(?!\d)")
_DAY_NAME = re.compile(r"\d{1,2}([ /-])([A-Za-z]{3,9})\1(\d{4}|\d{2})(?!\d)")
_NAME_DAY = re.compile(r"([A-Za-z]{3,9}) \d{1,2}(,?) \d{4}(?!\d)")
_TIME = re.compile(r"([T ])(\d{1,2}):\d{2}(:\d{2})?(\.\d+)?( ?)([AaPp][Mm])?\s?(Z|[+-]\d{2}:?\d{2})?$")


@dataclass(frozen=True)
class DateFormat:
    """A format of dates.

    Parameters
    ----------
    format
        For `read_dates`.
    ambiguous
        Whether another reading (day and month swapped) fits the column as well.
    fits
        Share of the different values that have it.
    """

    format: str
    ambiguous: bool = False
    fits: float = 1.0


def find_date_format(column: Distinct, least: float = 1.0) -> DateFormat | None:
    """The date format that every value of the column has, or a share of at least `least` of them; None without one.

    Year first, day/month/year, month/day/year, and dates with English month names are known, each with or without a
    time of day. Where both day-first and month-first fit all values, month-first is taken for slashes and day-first for
    dots and hyphens. Numbers (years, seconds since 1970) are not dates.
    """
    sample = column.sample(200)
    if not len(sample):
        return None
    looks = [text for text in sample if _ISO.match(text)]
    if len(looks) >= least * len(sample) and (len(looks) == len(sample) or least < 1):
        # A bare year and month could be many things (2024-07 is also a range); it takes several to be a date.
        if len(looks[0]) <= 7 and len(column.texts) <= 3:
            return None
        found = [DateFormat(ISO, fits=_share(column.texts, ISO))]
    else:
        examples = sample[:1] if least == 1 else sample[:_EXAMPLES]
        known = dict.fromkeys(form for text in examples for form in _formats_like(text))
        likely = [form for form in known if _share(sample, form) >= least - _DOUBT * (least < 1)]
        found = [DateFormat(form, fits=_share(column.texts, form)) for form in likely]
        found.sort(key=lambda each: -each.fits)
    found = [each for each in found if each.fits >= least]
    if not found:
        return None
    return replace(found[0], ambiguous=len(found) > 1 and found[1].fits == found[0].fits)


def read_dates(texts: Texts, date_format: str) -> Dates:
    """Texts as moments in UTC, NaT for what does not have the format."""
    series = pd.Series(texts, dtype=object)
    parsed: Any = pd.to_datetime(series, format=date_format, errors="coerce", utc=True)
    return as_moments(parsed)


def as_moments(column: pd.Series[Any]) -> Dates:
    """A column of dates of any resolution and time zone as microseconds in UTC."""
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    elif types.is_object_dtype(column.dtype):
        column = pd.to_datetime(column, errors="coerce", utc=True)
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    moments: Dates = column.to_numpy(dtype="datetime64[us]")
    return moments


def epoch_format(numbers: NDArray[np.float64]) -> str:
    """How numbers are to be read that a caller declared to be dates: ``%Y%m%d`` or a unit since 1970."""
    largest = float(np.nanmax(np.abs(numbers)))
    if float(np.nanmin(numbers)) >= 1e7 and largest < 1e8:
        return "%Y%m%d"
    return next(
        (unit for unit, limit in (("D", 1e6), ("s", 1e11), ("ms", 1e14), ("us", 1e17)) if largest < limit), "ns"
    )


def read_epoch(numbers: NDArray[np.float64], date_format: str) -> Dates:
    """Numbers as moments, by what `epoch_format` found."""
    if date_format == "%Y%m%d":
        texts = np.array(["" if np.isnan(n) else f"{int(n):d}" for n in numbers], dtype=object)
        return read_dates(texts, date_format)
    unit: Any = date_format
    moments: Any = pd.to_datetime(pd.Series(numbers), unit=unit, errors="coerce")
    return as_moments(moments)


def _share(texts: Texts, date_format: str) -> float:
    return 1.0 - float(np.isnat(read_dates(texts, date_format)).mean())


def is_swapped(one: str, other: str) -> bool:
    """Whether two formats differ in whether the day or the month comes first.

    >>> is_swapped("%m/%d/%Y", "%d/%m/%Y"), is_swapped("%d.%m.%Y", "%d/%m/%y"), is_swapped("%m/%d/%Y", ISO)
    (True, False, False)
    """
    orders = [f.find("%d") < f.find("%m") for f in (one, other) if re.match("%d.%m|%m.%d", f)]
    return len(set(orders)) == 2


def _formats_like(text: str) -> list[str]:
    """Formats that one value may have, the preferred first."""
    for pattern, formats in (
        (_YEAR_FIRST, ("%Y{0}%m{0}%d",)),
        (_YEAR_LAST, ("%m{0}%d{0}%Y", "%d{0}%m{0}%Y")),
        (_SHORT_YEAR, ("%m{0}%d{0}%y", "%d{0}%m{0}%y")),
    ):
        if found := pattern.match(text):
            if found.group(1) != "/":
                formats = formats[::-1]
            return _with_time([f.format(found.group(1)) for f in formats], text[found.end() :])
    if found := _DAY_NAME.match(text):
        mark, year = found.group(1), "%Y" if len(found.group(3)) == 4 else "%y"
        return _with_time([f"%d{mark}{name}{mark}{year}" for name in ("%b", "%B")], text[found.end() :])
    if found := _NAME_DAY.match(text):
        return _with_time([f"{name} %d{found.group(2)} %Y" for name in ("%b", "%B")], text[found.end() :])
    return []


def _with_time(formats: list[str], rest: str) -> list[str]:
    if not rest:
        return formats
    found = _TIME.match(rest)
    if not found:
        return []
    mark, _, seconds, fraction, gap, half_day, zone = found.groups()
    time = f"{'%I' if half_day else '%H'}:%M" + (":%S" if seconds else "") + (".%f" if fraction else "")
    time += (gap + "%p" if half_day else "") + ("%z" if zone else "")
    return [f"{f}{mark}{time}" for f in formats]
