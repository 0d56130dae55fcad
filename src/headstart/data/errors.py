"""Errors and warnings about tables."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from headstart.errors import HeadstartWarning, InvalidInput


class TableError(InvalidInput):
    """A table cannot be read, or does not hold what was asked of it."""


class DataWarning(HeadstartWarning):
    """Something in a table was changed or ignored, or is likely to mislead a model."""


NOT_UNICODE = "text must be Unicode, found half a character (a lone surrogate such as \\ud800); mend it"


def column_hint(name: str, columns: Iterable[str]) -> str:
    """End of a message about a column that is not there: the likeliest one, and the first few.

    >>> column_hint("pirce", ["size", "price"])
    "did you mean 'price'? Columns are size, price"
    """
    names = list(columns)
    close = get_close_matches(name, names, n=1) or [n for n in names if n.lower() == name.lower()]
    return (f"did you mean {close[0]!r}? " if close else "") + f"Columns are {listed(names, 12) or 'none'}"


def listed(items: Iterable[str], most: int = 5) -> str:
    """The first few of them, and how many more there are.

    >>> listed("abc", 2)
    'a, b and 1 more'
    """
    texts = list(items)
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")
