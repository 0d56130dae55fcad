"""`Task`: what a method may know of the problem at hand; `Constraint`: a bound that its solution must satisfy."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, suggestion
from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    from headstart.space.candidates import Candidates
    from headstart.space.space import PipelineSpace


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
            has = f"is in {units}" if units else f"has no unit; those that have: {suggestion(name, _UNITS)}"
            raise InvalidInput(f"constraint {name!r} {has}; got {bound!r}")
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


@dataclass(frozen=True)
class Task:
    """What a method may know of the problem at hand.

    Parameters
    ----------
    candidates
        Where pipelines may come from: a `PipelineSpace` (live) or a `Pool` (replay).
    key
        Names the problem in a store: equal for the same table, target, metric, splits and space. A run can be
        resumed only under the same key. A hash of what is known here when omitted.
    metric
        What the loss is made of; for people.
    dataset
        The table, where there is one. A method that needs it raises `NeedsTable` from its ``start`` otherwise.
    metafeatures
        Vectors that describe the dataset, by the name of their extractor.
    constraints
        Bounds that a solution must satisfy; `parse_constraints` reads them from text.
    initial
        Pipelines to try before anything else, whatever the optimizer.
    """

    candidates: Candidates
    key: str = ""
    metric: str = "loss"
    dataset: Any | None = None
    metafeatures: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    constraints: Sequence[Constraint] = ()
    initial: Sequence[Pipeline] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "constraints", tuple(self.constraints))
        # Decoded again, for a user's 1/3 is not a value of the space's grid; raises for one that is not a candidate.
        object.__setattr__(self, "initial", tuple(self.candidates.encode(self.initial)))
        if not self.key:
            object.__setattr__(self, "key", self._hash())

    @property
    def space(self) -> PipelineSpace:
        return self.candidates.space

    def _hash(self) -> str:
        content: dict[str, Any] = self.describe()
        if self.candidates.pool is not None:
            content["pool"] = hashlib.sha256(self.candidates.pool.ids.tobytes()).hexdigest()
        text = json.dumps(content, sort_keys=True)
        return f"task-{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def describe(self) -> dict[str, Any]:
        """What a store keeps of it: JSON."""
        return {
            "metric": self.metric,
            "space": self.space.to_dict(),
            "constraints": {c.name: c.upper for c in self.constraints},
            "metafeatures": {name: np.asarray(v, dtype=float).tolist() for name, v in self.metafeatures.items()},
        }
