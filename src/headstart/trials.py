"""What is tried and what came of it: `Limits`, `Fidelity`, `Outcome`, `Proposal`, `Trial`."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from headstart.errors import InvalidInput, check_positive, printable
from headstart.space.pipeline import Pipeline


class SpooledFile(type(Path())):  # type: ignore[misc]
    """A file whose maker hands it over: who stores it may move it. Any other path is the user's and is copied."""


class Status(StrEnum):
    """How an evaluation ended."""

    OK = "ok"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASHED = "crashed"
    INVALID = "invalid"
    """It ended by itself but gave no usable result: a loss that is not finite, a pipeline that cannot be built."""


@dataclass(frozen=True)
class Limits:
    """What one evaluation may use; ``None`` is no limit.

    Parameters
    ----------
    seconds
        Wall-clock time.
    bytes
        Memory on top of what the libraries and the table take.
    deadline
        Unix time after which nobody wants the result. Unlike `seconds` it counts what comes before the evaluation
        itself, such as the start of a worker process.
    """

    seconds: float | None = None
    bytes: int | None = None
    deadline: float | None = None

    def __post_init__(self) -> None:
        given: Any = self.bytes
        if isinstance(given, float) and given.is_integer():
            object.__setattr__(self, "bytes", int(given))  # 2e9 reads well
        check_positive("limit 'seconds'", self.seconds)
        check_positive("limit 'bytes'", self.bytes, whole=True)

    @property
    def left(self) -> float | None:
        """Seconds until the deadline, at least 0; ``None`` without one."""
        return None if self.deadline is None else max(0.0, self.deadline - time.time())

    def now(self) -> Limits:
        """The limits of an evaluation that begins now: the deadline has become a part of `seconds`."""
        left = self.left
        if left is None:
            return self
        seconds = max(left, 1e-3) if self.seconds is None else min(self.seconds, max(left, 1e-3))
        return Limits(seconds, self.bytes)


@dataclass(frozen=True)
class Fidelity:
    """How thoroughly a pipeline is evaluated.

    Parameters
    ----------
    rows
        Share of the training rows, in (0, 1].
    folds
        Number of cross-validation folds; ``None`` for all that the run has.
    """

    rows: float = 1.0
    folds: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.rows <= 1:
            raise InvalidInput(f"fidelity rows must be in (0, 1], got {self.rows!r}")
        if self.folds is not None and self.folds < 1:
            raise InvalidInput(f"fidelity folds must be at least 1 or None for all, got {self.folds!r}")

    @property
    def is_full(self) -> bool:
        return self.rows == 1.0 and self.folds is None

    def covers(self, other: Fidelity) -> bool:
        """Whether an evaluation at this fidelity makes one at `other` needless."""
        folds = self.folds is None or (other.folds is not None and self.folds >= other.folds)
        return self.rows >= other.rows and folds


FULL = Fidelity()
"""All rows, all folds."""


@dataclass(frozen=True)
class Outcome:
    """What came of an evaluation.

    Parameters
    ----------
    status
        How it ended. ``ok`` if and only if `loss` is a finite number.
    loss
        To be minimised.
    fold_losses
        Loss of each cross-validation fold.
    constraints
        Measured values by constraint name, such as prediction latency.
    seconds, bytes
        Wall-clock time and peak memory that it took.
    fidelity
        How thoroughly it was evaluated.
    artefacts
        Predictions, fitted models and the like by name: an array, bytes, any object, or the `pathlib.Path` of a file
        that holds it, which a store copies. An outcome that comes from a sandbox or a store has paths.
    error
        Why it is not ok, in words a user can act on.
    """

    status: Status
    loss: float | None = None
    fold_losses: tuple[float, ...] = ()
    constraints: Mapping[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    bytes: int = 0
    fidelity: Fidelity = FULL
    artefacts: Mapping[str, Any] = field(default_factory=dict, compare=False)
    error: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", Status(self.status))
        if isinstance(self.error, str):
            object.__setattr__(self, "error", printable(self.error))
        finite = self.loss is not None and math.isfinite(self.loss)
        if (self.status is Status.OK) != finite:
            raise InvalidInput(
                f"an outcome is ok if and only if its loss is finite, got status {self.status.value!r} and "
                f"loss {self.loss!r}; use Outcome.of(loss) to have a loss that is not finite become 'invalid'"
            )

    @classmethod
    def of(cls, loss: float, **others: Any) -> Outcome:
        """An outcome with this loss: ok when it is finite, else invalid."""
        value = float(loss)
        if math.isfinite(value):
            return cls(Status.OK, value, **others)
        return cls(Status.INVALID, error=f"the loss must be a finite number, got {value}", **others)

    @classmethod
    def failed(cls, status: Status | str, error: str, **others: Any) -> Outcome:
        return cls(Status(status), error=error, **others)

    @property
    def ok(self) -> bool:
        return self.status is Status.OK

    def to_dict(self) -> dict[str, Any]:
        """Content as JSON types, artefacts left out; `from_dict` is its inverse."""
        return {
            "status": self.status.value,
            "loss": self.loss,
            "fold_losses": list(self.fold_losses),
            "constraints": dict(self.constraints),
            "seconds": self.seconds,
            "bytes": self.bytes,
            "fidelity": asdict(self.fidelity),
            "error": self.error,
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any], artefacts: Mapping[str, Any] | None = None) -> Outcome:
        fields = dict(content)
        fields["fold_losses"] = tuple(fields["fold_losses"])
        fields["fidelity"] = Fidelity(**fields["fidelity"])
        return cls(**fields, artefacts=artefacts or {})


@dataclass(frozen=True)
class Proposal:
    """A pipeline that an optimizer wants evaluated.

    Parameters
    ----------
    number
        Counts the proposals of a run from 0. Everything random about a proposal and its evaluation comes from the
        run's seed and this number.
    pipeline
        What to evaluate.
    origin
        Why: JSON with all that the decision used and the optimizer needs to know of it later (a tree path, relaxed
        values, multipliers, …). It is stored, so an optimizer can be rebuilt from its proposals and trials alone.
    fidelity
        How thoroughly to evaluate it.
    """

    number: int
    pipeline: Pipeline
    origin: Mapping[str, Any] = field(default_factory=dict)
    fidelity: Fidelity = FULL

    def to_dict(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "pipeline": self.pipeline.to_dict(),
            "origin": dict(self.origin),
            "fidelity": asdict(self.fidelity),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Proposal:
        return cls(
            content["number"],
            Pipeline.from_dict(content["pipeline"]),
            content["origin"],
            Fidelity(**content["fidelity"]),
        )


@dataclass(frozen=True)
class Trial:
    """A proposal with its outcome; `started` and `finished` are Unix times."""

    proposal: Proposal
    outcome: Outcome
    started: float
    finished: float

    @property
    def number(self) -> int:
        return self.proposal.number

    @property
    def pipeline(self) -> Pipeline:
        return self.proposal.pipeline
