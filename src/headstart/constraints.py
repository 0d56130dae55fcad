"""`Constraint`: a bound that a solution must satisfy, and how people write one.

`Outcome.constraints` holds the measured values; what can be measured is in `headstart.evaluation.constraints`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from headstart.errors import InvalidInput, suggestion

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_BYTES = {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}
_UNITS = {"latency": _SECONDS, "training_seconds": _SECONDS, "size": _BYTES}
"""Of the values that have one; a bound without a unit is in seconds or bytes."""

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_BOUND = re.compile(rf"(.*?)\s*(<=|<)\s*({_NUMBER})\s*([^\W\d_]*)\s*", re.DOTALL)
_PLAIN = r"[^\s\"'(),:](?:[^\"'(),:]*[^\s\"'(),:])?"
_GROUPED = re.compile(
    rf"""\s*(\w+)\s*\(\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|({_PLAIN}))\s*"""
    rf"(?::\s*({_NUMBER}(?:\s*,\s*{_NUMBER})*)\s*)?(?:,\s*([^\W\d]\w*)\s*)?\)\s*",
    re.DOTALL,
)


@dataclass(frozen=True)
class Measured:
    """What a constraint bounds, taken apart: ``disparity(age: 25, 60, recall)`` or a plain name such as ``latency``.

    Parameters
    ----------
    kind
        ``"disparity"``, or all of a plain name.
    column
        Whose groups are compared. In text it is quoted if it has spaces at its ends, commas, colons, parentheses or
        quotes.
    edges
        Where the groups of a numeric column begin, ascending.
    metric
        What is compared, by its name in scikit-learn.

    Examples
    --------
    >>> Measured.parse("disparity( 'age, in years':25,60, recall)")
    Measured(kind='disparity', column='age, in years', edges=(25.0, 60.0), metric='recall')
    >>> str(_)
    'disparity("age, in years": 25, 60, recall)'
    """

    kind: str
    column: str | None = None
    edges: tuple[float, ...] = ()
    metric: str | None = None

    @classmethod
    def parse(cls, name: str) -> Measured:
        if "(" not in name:
            return cls(name.strip())
        found = _GROUPED.fullmatch(name)
        if found is None:
            raise InvalidInput(
                "a constraint on groups must be written as disparity(COLUMN), disparity(COLUMN, METRIC) or "
                f"disparity(COLUMN: EDGE, EDGE), got {name!r}; put a column with commas, colons, parentheses or quotes "
                'in quotes: disparity("my, column")'
            )
        kind, double, single, plain, edges, metric = found.groups()
        quoted = double if double is not None else single
        column = plain if quoted is None else re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL)
        starts = tuple(float(edge) for edge in edges.split(",")) if edges else ()
        if list(starts) != sorted(set(starts)):
            raise InvalidInput(f"edges of groups must ascend, got {edges} in {name!r}")
        return cls(kind, column, starts, metric)

    def __str__(self) -> str:
        if self.column is None:
            return self.kind
        escaped = re.sub(r'(["\\])', r"\\\1", self.column)
        column = self.column if re.fullmatch(_PLAIN, self.column) else f'"{escaped}"'
        edges = ": " + ", ".join(f"{edge:.15g}" for edge in self.edges) if self.edges else ""
        return f"{self.kind}({column}{edges}{f', {self.metric}' if self.metric else ''})"


@dataclass(frozen=True)
class Constraint:
    """A measured value that must not be above a bound, such as seconds per prediction or a false-positive rate.

    Parameters
    ----------
    name
        Of the value in `Outcome.constraints`; see `headstart.evaluation.constraints`.
    upper
        The bound: seconds for times, bytes for sizes.
    """

    name: str
    upper: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """A constraint as people write it: a name, ``<=`` (``<`` means the same), a number and perhaps a unit.

        Times may be in us, ms or s, sizes in B, kB, MB or GB (powers of 1000).

        >>> Constraint.parse("latency <= 1ms"), Constraint.parse("disparity(sex)<0.05")
        (Constraint(name='latency', upper=0.001), Constraint(name='disparity(sex)', upper=0.05))
        """
        found = _BOUND.fullmatch(text)
        if found is None or not found[1].strip():
            raise InvalidInput(
                f"a constraint must be a name, <= and a number, such as 'latency <= 1ms' or 'disparity(sex) <= 0.05', "
                f"got {text!r}"
            )
        return cls._of(found[1], f"{found[3]}{found[4]}")

    @classmethod
    def _of(cls, name: str, bound: object) -> Constraint:
        """From a name and its bound: a number, or text with a unit."""
        name = str(Measured.parse(name))
        unit = ""
        if isinstance(bound, str):
            found = re.fullmatch(rf"\s*({_NUMBER})\s*([^\W\d_]*)\s*", bound)
            number: Any = float(found[1]) if found else bound
            unit = found[2].replace("µ", "u").replace("μ", "u") if found else ""
        else:
            number = bound
        if isinstance(number, bool) or not isinstance(number, Real) or math.isnan(number):
            raise InvalidInput(f"constraint {name!r} must be bounded by a number, got {bound!r}")
        factors = {known.lower(): factor for known, factor in _UNITS.get(name, {}).items()}
        if unit and unit.lower() not in factors:
            units = ", ".join(_UNITS.get(name, ()))
            has = f"must be in {units}" if units else "has no unit"
            known = "" if units else f"; {suggestion(name, _UNITS)}"
            raise InvalidInput(f"constraint {name!r} {has}, got {bound!r}{known}")
        return cls(name, float(number) * factors.get(unit.lower(), 1.0))

    def excess(self, measured: Mapping[str, float]) -> float:
        """By how much of the bound a value is above it; 0 if it is not, ∞ if it was not measured."""
        value = measured.get(self.name, math.inf)
        if value <= self.upper:
            return 0.0
        return math.inf if math.isnan(value) else (value - self.upper) / (abs(self.upper) or 1.0)

    def shown(self, value: float) -> str:
        """A value for people, with its unit."""
        units = _UNITS.get(self.name)
        if units is None:
            return f"{value:.4g}"
        unit = max((u for u in units if units[u] <= abs(value)), key=lambda u: units[u], default=next(iter(units)))
        return f"{value / units[unit]:.4g} {unit}"

    def __str__(self) -> str:
        return f"{self.name} <= {self.shown(self.upper)}"


ConstraintsLike = str | Mapping[str, "float | str"] | Iterable["str | Constraint"]
"""What `parse_constraints` takes."""


def parse_constraints(given: ConstraintsLike | None) -> tuple[Constraint, ...]:
    """Constraints from text, from bounds by name, or as they are.

    Parameters
    ----------
    given
        Such as ``["latency <= 1ms", "size <= 2MB"]`` or ``{"latency": 1e-3, "size": "2MB"}``; see `Constraint.parse`.

    Raises
    ------
    InvalidInput
        What cannot be read; the message says what must hold.
    """
    if isinstance(given, str | Constraint):
        given = [given]
    if given is not None and not isinstance(given, Iterable):
        raise InvalidInput(f"constraints must be a list of text such as 'latency <= 1ms', got {given!r}")
    found: dict[str, Constraint] = {}
    for item in given.items() if isinstance(given, Mapping) else given or ():
        if isinstance(item, Constraint):
            constraint = item
        elif isinstance(item, str):
            constraint = Constraint.parse(item)
        elif isinstance(given, Mapping) and isinstance(item[0], str):
            constraint = Constraint._of(*item)
        else:
            raise InvalidInput(f"a constraint must be text such as 'latency <= 1ms', got {item!r}")
        if constraint.name in found:
            raise InvalidInput(f"a value can be bounded once, got two bounds of {constraint.name!r}; leave one out")
        found[constraint.name] = constraint
    return tuple(found.values())


def total_excess(constraints: Iterable[Constraint], measured: Mapping[str, float]) -> float:
    """By how much measured values exceed their bounds in all, in units of the bounds; 0 if all constraints hold."""
    return sum(constraint.excess(measured) for constraint in constraints)
