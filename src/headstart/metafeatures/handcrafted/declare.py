"""How meta-features are declared: a name, what it is, and a function of a `Table`.

Each family is one module with a tuple of declarations at its end. What several features are made of is a function
marked `shared`: it is computed when the first of them asks for it, and once for each table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import numpy as np

from headstart.metafeatures.handcrafted.table import Table

Value = TypeVar("Value")


@dataclass(frozen=True)
class Feature:
    """One declared meta-feature.

    Parameters
    ----------
    name
        As the literature prints it.
    family
        Module that declares it.
    meaning
        In a few words.
    function
        From a table to a number, or to several of which mean and standard deviation are taken. NaN, or nothing at all,
        where it cannot be computed.
    several
        Whether the function gives several numbers. Then there are two columns, ``name.mean`` and ``name.sd``.
    """

    name: str
    family: str
    meaning: str
    function: Callable[[Table], Any]
    several: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of its values."""
        return (f"{self.name}.mean", f"{self.name}.sd") if self.several else (self.name,)

    def values(self, table: Table) -> tuple[float, ...]:
        """One for each of its columns; NaN where it cannot be computed."""
        found = self.function(table)
        if not self.several:
            return (float(found),)
        known = np.asarray(found, dtype=np.float64).ravel()
        known = known[np.isfinite(known)]
        if not len(known):
            return (np.nan, np.nan)
        return (float(known.mean()), float(known.std(ddof=1)) if len(known) > 1 else np.nan)


@dataclass(frozen=True)
class Family:
    """Makes the declarations of a module."""

    name: str

    def one(self, name: str, meaning: str, function: Callable[[Table], Any]) -> Feature:
        """A feature that is one number."""
        return Feature(name, self.name, meaning, function, False)

    def each(self, name: str, meaning: str, function: Callable[[Table], Any]) -> Feature:
        """A feature that has a number for each attribute, fold, row or the like: their mean and standard deviation."""
        return Feature(name, self.name, meaning, function, True)


def shared(function: Callable[[Table], Value]) -> Callable[[Table], Value]:
    """A function of a table that is computed once for each table."""
    key = f"{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def once(table: Table) -> Value:
        if key not in table.computed:
            table.computed[key] = function(table)
        found: Value = table.computed[key]
        return found

    return once
