"""Cells as text and as numbers, worked out once per distinct value of a column.

A column of 100,000 strings seldom has 100,000 different ones, so everything that has to look into strings (does it read
as a number, as a date, how many words has it) looks at the distinct values and is spread to the rows afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import date
from numbers import Integral, Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api import types

Floats = NDArray[np.float64]
Texts = NDArray[np.object_]

MISSING_TEXTS = frozenset(("", "?"))
"""Cells that stand for a missing value in every table. ``NA`` and its like may be real values (a country code), so they
count as missing only where a text file is read."""

MISSING_WORDS = frozenset(
    ("na", "n/a", "nan", "null", "none", "nil", "missing", "unknown", "-", "--", ".", "#n/a", "<na>")
)
"""What stands for a missing value in a column whose other values are numbers."""

SAMPLE = 1000
"""Distinct values that expensive questions are first asked of."""

BOOLEAN_PAIRS = (("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"), ("off", "on"))
_TRUTH = {text: float(value) for pair in BOOLEAN_PAIRS for value, text in enumerate(pair)} | {"0": 0.0, "1": 1.0}

_CURRENCY = "$€£¥"
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:([, '\u00a0\u202f])\d{3})(?:\1\d{3})*(?:\.\d+)?$")
_PLAIN = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity)$", re.IGNORECASE)
_PADDED = re.compile(r"0\d+$")


@dataclass(frozen=True)
class Distinct:
    """A column as its distinct texts.

    Parameters
    ----------
    codes
        For each row the position in `texts`; -1 where the value is missing.
    texts
        The distinct values, stripped of surrounding blanks.
    """

    codes: NDArray[np.intp]
    texts: Texts

    @property
    def present(self) -> int:
        """How many rows have a value."""
        return int((self.codes >= 0).sum())

    def sample(self, size: int = SAMPLE) -> Texts:
        """Some of the texts; which ones depends on the texts alone, not on the order of the rows."""
        if len(self.texts) <= size:
            return self.texts
        hashes = pd.util.hash_array(self.texts, categorize=False)
        return self.texts[np.argpartition(hashes, size)[:size]]

    def spread(self, per_text: NDArray[Any], missing: Any) -> NDArray[Any]:
        """One value per row from one per distinct text."""
        return np.append(per_text, np.array([missing], dtype=per_text.dtype))[self.codes]


def distinct_texts(column: pd.Series[Any]) -> Distinct:
    """The distinct values of a column as text; `MISSING_TEXTS` count as missing."""
    codes: Any
    values: Any
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, values = column.cat.codes.to_numpy().astype(np.intp), column.cat.categories.to_numpy(dtype=object)
    else:
        try:
            codes, values = pd.factorize(column)
        except TypeError:  # lists, dicts and the like cannot be hashed
            codes, values = pd.factorize(column.map(text_of, na_action="ignore"))
    originals = np.asarray(values, dtype=object)
    texts = np.empty(len(originals), dtype=object)
    texts[:] = [v.strip() if type(v) is str else text_of(v) for v in originals]
    # Stripping can make two values one, some stand for missing, and a category may have no rows.
    used = np.zeros(len(texts) + 1, dtype=bool)
    used[codes] = True
    used = used[:-1] & np.array([t not in MISSING_TEXTS for t in texts], dtype=bool)
    renumbered = np.full(len(texts) + 1, -1, dtype=np.intp)
    merged, kept = pd.factorize(texts[used])
    renumbered[:-1][used] = merged
    return Distinct(renumbered[codes], np.asarray(kept, dtype=object))


def blanked(column: pd.Series[Any], markers: Collection[str]) -> pd.Series[Any]:
    """The column with nothing where one of the markers stands.

    >>> blanked(pd.Series(["3", "k.A.", " k.A. "]), ["k.A."]).tolist(), blanked(pd.Series([3, -999]), ["-999"]).tolist()
    (['3', nan, nan], [3.0, nan])
    """
    if not markers:
        return column
    wanted = {marker.strip() for marker in markers}
    if types.is_numeric_dtype(column.dtype) and not types.is_bool_dtype(column.dtype):
        numbers = to_numbers(np.array(sorted(wanted), dtype=object))
        hit = column.isin(numbers[~np.isnan(numbers)].tolist())
    else:
        distinct = distinct_texts(column)
        hit = pd.Series(
            distinct.spread(np.array([t in wanted for t in distinct.texts], dtype=bool), False), column.index
        )
    return column.mask(hit) if hit.any() else column


def text_of(value: Any) -> str:
    """A cell as text; equal numbers give equal text whether they are stored as integers or as floats."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace").strip()
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, Integral):
        return str(int(value))
    if isinstance(value, Real):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e15 else repr(number)
    if isinstance(value, date):
        return value.isoformat()
    return str(value)


def to_numbers(texts: Texts, decimal: str = ".") -> Floats:
    """Texts as numbers, NaN for what is none.

    Thousands may be grouped (``1,234.5``), and a currency sign or a percent sign may stand beside the number. With
    ``decimal=","`` the comma is the decimal sign and the dot groups.

    >>> to_numbers(np.array(["12", "1,234.5", "$7", "abc"], dtype=object)).tolist()
    [12.0, 1234.5, 7.0, nan]
    >>> to_numbers(np.array(["1.234,5", "0,25"], dtype=object), ",").tolist()
    [1234.5, 0.25]
    """
    if decimal == ",":
        swap = str.maketrans(",.", ".,")
        texts = np.array([t.translate(swap) for t in texts], dtype=object)
    # Python's own float is exact to the last digit, which older versions of pandas are not.
    is_plain = _PLAIN.match
    return np.array([float(t) if is_plain(t) else _dressed_number(t) for t in texts], dtype=np.float64)


def _dressed_number(text: str) -> float:
    bare = text.strip().removesuffix("%").rstrip()
    sign = "-" if bare.startswith("-") else ""
    bare = sign + bare.lstrip("+-").strip(_CURRENCY).strip()
    if _PLAIN.match(bare):
        return float(bare)
    grouped = _GROUPED.match(bare)
    return float(bare.replace(grouped.group(1), "")) if grouped else float("nan")


def decimal_sign(texts: Texts) -> str:
    """The decimal sign with which more of the texts read as numbers; the dot when in doubt."""
    dots, commas = (int(np.isfinite(to_numbers(texts, sign)).sum()) for sign in ".,")
    return "," if commas > dots else "."


def are_padded_codes(texts: Texts) -> bool:
    """Whether some texts are digits with leading zeros: such codes (``00123``) are names, not amounts."""
    return any(_PADDED.match(t) for t in texts)


def to_truths(texts: Texts) -> Floats:
    """Texts such as ``yes`` or ``FALSE`` as 1 and 0, NaN for what is neither."""
    return np.array([_TRUTH.get(t.lower(), np.nan) for t in texts], dtype=np.float64)


def are_truths(texts: Texts) -> bool:
    """Whether the texts are the two words of one pair, or one of them that is unmistakable.

    >>> are_truths(np.array(["Yes", "no"], dtype=object)), are_truths(np.array(["yes", "false"], dtype=object))
    (True, False)
    """
    if not 0 < len(texts) <= 6:
        return False
    words = {t.lower() for t in texts}
    if len(words) == 1:
        return words <= {"true", "false", "yes", "no"}
    return any(words == set(pair) for pair in BOOLEAN_PAIRS)
