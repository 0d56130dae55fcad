"""Hyper-parameters: `Float`, `Integer`, `Categorical`.

Each knows how to carry its values to columns of numbers in [0, 1] and back, for many values at once:

====================  =====================================================================
parameter             columns
====================  =====================================================================
float, integer        one; linear or logarithmic between the bounds
categorical           one per choice (one-hot); a single one when the choices are ordered
====================  =====================================================================

Values live on a grid (floats: eight digits), so that value → columns → value is the identity to the last bit, equal
pipelines have equal columns, and what a user reads is what was run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import SpaceError
from headstart.space.pipeline import Value

Array = NDArray[np.float64]
Condition = Mapping[str, Sequence[Value]]
"""Active only if each named categorical parameter of the same algorithm is active and has one of the values."""

DIGITS = 8
"""Digits kept of a float."""
NEIGHBOUR_SPREAD = 0.2
"""Standard deviation, in unit columns, of a step to a neighbouring value; the size SMAC uses."""
NEIGHBOURS_PER_NUMBER = 4
_LARGEST_INTEGER = 2**53
_FIRST = "\0first"
"""Stands for the first choice where no default is given; ``None`` may be a choice itself."""


def _round_decimals(values: Array, decimals: NDArray[np.int64]) -> Array:
    """Round each value to its number of decimals (negative: tens, hundreds, …), exactly as printed text would read."""
    places = np.clip(np.abs(decimals), 0, 300)
    scale = np.power(10.0, places)
    # Dividing an integer by an exact power of ten gives the float nearest to the decimal number.
    rounded: Array = np.where(decimals >= 0, np.rint(values * scale) / scale, np.rint(values / scale) * scale)
    return rounded


@dataclass(frozen=True)
class _Parameter(ABC):
    name: str

    def _check_name(self) -> None:
        if not isinstance(self.name, str) or not self.name or "." in self.name:
            raise SpaceError(f"a parameter needs a name without a dot, got {self.name!r}")

    def _check_condition(self, when: Condition) -> None:
        if not isinstance(when, Mapping):
            raise SpaceError(f"{self.name!r}: when must map a parameter's name to its values, got {when!r}")
        for parent, values in when.items():
            if isinstance(values, str) or not isinstance(values, Sequence):
                raise SpaceError(f"{self.name!r}: give several values, as in when={{{parent!r}: [{values!r}]}}")


@dataclass(frozen=True)
class _Number(_Parameter):
    """A number between two bounds; the columns of floats and integers differ only in their grid."""

    low: float
    high: float
    log: bool = False
    default: float | None = None
    when: Condition = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        self._check_name()
        self._check_condition(self.when)
        for bound in (self.low, self.high):
            if not isinstance(bound, (int, float)) or isinstance(bound, bool):
                raise SpaceError(f"{self.name!r}: bounds must be numbers, got {bound!r}")
        if not (self.low < self.high and math.isfinite(float(self.high) - float(self.low))):
            raise SpaceError(
                f"{self.name!r}: bounds must be finite with low < high, got {self.low!r} and {self.high!r}"
            )
        if self.log and self.low <= 0:
            raise SpaceError(f"{self.name!r}: a logarithmic scale needs low > 0, got {self.low!r}")
        if self.default is None:
            object.__setattr__(self, "default", self.from_unit(np.array([[0.5]]))[0])
        if not self.contains(self.default):
            raise SpaceError(f"{self.name!r}: default {self.default!r} is not in [{self.low!r}, {self.high!r}]")
        object.__setattr__(self, "default", self.from_unit(self.to_unit([self.default]))[0])

    @property
    def width(self) -> int:
        return 1

    def _to_line(self, values: Array) -> Array:
        if self.log:
            return (np.log(values) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (values - self.low) / (self.high - self.low)

    def _from_line(self, unit: Array) -> Array:
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return np.exp(low + unit * (high - low))
        return self.low + unit * (self.high - self.low)

    def to_unit(self, values: Sequence[Value]) -> Array:
        """Columns of these values; values (n,) → (n, 1)."""
        return np.clip(self._to_line(np.asarray(values, dtype=np.float64)), 0.0, 1.0)[:, None]

    @abstractmethod
    def _on_grid(self, values: Array) -> Array:
        """The nearest values that are in the space."""

    @abstractmethod
    def contains(self, value: Value) -> bool:
        """Whether a value is between the bounds and of the right type."""

    def from_unit(self, unit: Array) -> list[Value]:
        """Values of these columns, moved to the nearest point of the grid; (n, 1) → list of n."""
        values = self._on_grid(self._from_line(np.clip(unit[:, 0], 0.0, 1.0)))
        result: list[Value] = values.tolist()
        return result

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        return self.to_unit(self.from_unit(rng.random((n, 1))))

    def neighbours(self, unit: Array, rng: np.random.Generator) -> Array:
        """Columns of some other values close to one; (1,) → (m, 1)."""
        steps = np.empty(0)
        for _ in range(20):  # steps that leave the bounds are drawn again
            drawn = unit[0] + NEIGHBOUR_SPREAD * rng.standard_normal(2 * NEIGHBOURS_PER_NUMBER)
            steps = np.concatenate([steps, drawn[(drawn >= 0) & (drawn <= 1)]])
            if len(steps) >= NEIGHBOURS_PER_NUMBER:
                break
        moved = self.to_unit(self.from_unit(steps[:NEIGHBOURS_PER_NUMBER, None]))
        moved = moved[moved[:, 0] != unit[0]]
        return np.unique(moved, axis=0)


@dataclass(frozen=True)
class Float(_Number):
    """A real number.

    >>> Float("C", 1e-3, 1e3, log=True).from_unit(np.array([[0.5]]))
    [1.0]
    """

    def contains(self, value: Value) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and self.low <= value <= self.high

    def _on_grid(self, values: Array) -> Array:
        if self.log:
            decimals = DIGITS - 1 - np.floor(np.log10(values)).astype(np.int64)
        else:
            span = math.floor(math.log10(max(self.high - self.low, abs(self.low) * 1e-8, abs(self.high) * 1e-8)))
            decimals = np.full(values.shape, DIGITS - 1 - span, dtype=np.int64)
        return np.clip(_round_decimals(values, decimals), self.low, self.high)

    @property
    def levels(self) -> int | None:
        """Number of values; ``None`` for a continuum."""
        return None

    def grid(self) -> Array:
        """Columns of all values, (levels, width); there are none for a continuum."""
        return np.zeros((0, 1))


@dataclass(frozen=True)
class Integer(_Number):
    """A whole number, bounds included."""

    def __post_init__(self) -> None:
        whole = all(isinstance(b, int) or (isinstance(b, float) and b.is_integer()) for b in (self.low, self.high))
        if not whole:
            raise SpaceError(f"{self.name!r}: bounds must be whole numbers, got {self.low!r} and {self.high!r}")
        if max(abs(self.low), abs(self.high)) > _LARGEST_INTEGER:
            raise SpaceError(f"{self.name!r}: bounds must be within ±2**53, which floats count exactly")
        super().__post_init__()

    def contains(self, value: Value) -> bool:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        return whole and not isinstance(value, bool) and self.low <= float(value or 0) <= self.high

    def _on_grid(self, values: Array) -> Array:
        return np.clip(np.rint(values), self.low, self.high).astype(np.int64)

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        if not self.log:  # rounding a uniform number would halve the share of the bounds
            return self.to_unit(rng.integers(int(self.low), int(self.high), n, endpoint=True))  # type: ignore[arg-type]
        return super().sample(rng, n)

    def neighbours(self, unit: Array, rng: np.random.Generator) -> Array:
        moved = super().neighbours(unit, rng)
        value = int(self.from_unit(unit[None, :])[0])  # type: ignore[arg-type]
        adjacent = [v for v in (value - 1, value + 1) if self.low <= v <= self.high]
        # Large steps alone may all round back to the same value on a short range.
        return np.unique(np.concatenate([moved, self.to_unit(adjacent)]), axis=0)

    @property
    def levels(self) -> int | None:
        return int(self.high - self.low) + 1

    def grid(self) -> Array:
        return self.to_unit(range(int(self.low), int(self.high) + 1))


@dataclass(frozen=True)
class Categorical(_Parameter):
    """One of several choices, each a JSON scalar.

    Parameters
    ----------
    choices
        At least one; no two alike.
    default
        The first choice when omitted.
    ordered
        The choices are steps on a line, such as 1, 10, 100: one column instead of one per choice.
    """

    choices: Sequence[Value]
    default: Value = _FIRST
    ordered: bool = False
    when: Condition = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        self._check_name()
        self._check_condition(self.when)
        if isinstance(self.choices, str) or not isinstance(self.choices, Iterable):
            raise SpaceError(f"{self.name!r}: choices must be several values, got {self.choices!r}")
        choices = tuple(self.choices)
        for choice in choices:
            scalar = choice is None or isinstance(choice, (str, bool, int, float))
            if not scalar or (isinstance(choice, float) and math.isnan(choice)):
                raise SpaceError(f"{self.name!r}: a choice must be a text, number, boolean or None, got {choice!r}")
        object.__setattr__(self, "choices", choices)
        positions = {self._token(choice): i for i, choice in enumerate(choices)}
        if not choices or len(positions) != len(choices):
            raise SpaceError(f"{self.name!r}: choices must be at least one and all different, got {choices!r}")
        object.__setattr__(self, "_positions", positions)
        if self.default == _FIRST:
            object.__setattr__(self, "default", choices[0])
        if not self.contains(self.default):
            raise SpaceError(f"{self.name!r}: default {self.default!r} is not one of {choices!r}")

    @staticmethod
    def _token(value: Value) -> tuple[str, Value]:
        # True == 1 == 1.0 in Python, but they are different choices; JSON may turn 1.0 into 1, so numbers share one.
        kind = "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__
        return kind, value

    def contains(self, value: Value) -> bool:
        return self._token(value) in self._positions  # type: ignore[attr-defined]

    @property
    def width(self) -> int:
        return 1 if self.ordered else len(self.choices)

    @property
    def levels(self) -> int | None:
        return len(self.choices)

    def grid(self) -> Array:
        return self._columns(np.arange(len(self.choices)))

    def _columns(self, positions: NDArray[np.int64]) -> Array:
        if self.ordered:
            return positions[:, None] / max(1, len(self.choices) - 1)
        columns = np.zeros((len(positions), len(self.choices)))
        columns[np.arange(len(positions)), positions] = 1.0
        return columns

    def positions(self, unit: Array) -> NDArray[np.int64]:
        """Which choice each row stands for; (n, width) → (n,)."""
        if self.ordered:
            return np.rint(np.clip(unit[:, 0], 0, 1) * (len(self.choices) - 1)).astype(np.int64)
        chosen: NDArray[np.int64] = unit.argmax(axis=1)
        return chosen

    def positions_of(self, values: Iterable[Value]) -> list[int]:
        """Which choices these values are."""
        lookup: dict[tuple[str, Value], int] = self._positions  # type: ignore[attr-defined]
        return [lookup[self._token(value)] for value in values]

    def to_unit(self, values: Sequence[Value]) -> Array:
        return self._columns(np.array(self.positions_of(values), dtype=np.int64))

    def from_unit(self, unit: Array) -> list[Value]:
        return [self.choices[i] for i in self.positions(unit)]

    def sample(self, rng: np.random.Generator, n: int) -> Array:
        return self._columns(rng.integers(0, len(self.choices), n))

    def neighbours(self, unit: Array, rng: np.random.Generator) -> Array:  # noqa: ARG002 (all others, so no draw)
        here = self.positions(unit[None, :])[0]
        return self._columns(np.array([i for i in range(len(self.choices)) if i != here], dtype=np.int64))


Parameter = Float | Integer | Categorical

_KINDS: dict[str, type[Float] | type[Integer] | type[Categorical]] = {
    "float": Float,
    "integer": Integer,
    "categorical": Categorical,
}


def parameter_to_dict(parameter: Parameter) -> dict[str, Any]:
    """Content as JSON types; `parameter_from_dict` is its inverse."""
    content: dict[str, Any] = {"type": type(parameter).__name__.lower(), "name": parameter.name}
    if isinstance(parameter, Categorical):
        content["choices"] = list(parameter.choices)
        if parameter.ordered:
            content["ordered"] = True
    else:
        content |= {"low": parameter.low, "high": parameter.high}
        if parameter.log:
            content["log"] = True
    content["default"] = parameter.default
    if parameter.when:
        content["when"] = {name: list(values) for name, values in parameter.when.items()}
    return content


def parameter_from_dict(content: Mapping[str, Any]) -> Parameter:
    fields = dict(content)
    kind = fields.pop("type", None)
    if kind not in _KINDS:
        raise SpaceError(f"a parameter's type must be one of {', '.join(_KINDS)}, got {kind!r}")
    if "choices" in fields:
        fields["choices"] = tuple(fields["choices"])
    fields["when"] = {name: tuple(values) for name, values in fields.get("when", {}).items()}
    try:
        return _KINDS[kind](**fields)
    except TypeError as error:
        raise SpaceError(f"parameter {content.get('name')!r} is not well declared: {error}") from None
