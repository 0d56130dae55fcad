"""`Settings`: what a user may choose about a fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from numbers import Integral, Real
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from headstart.errors import InvalidInput, check_positive, suggestion
from headstart.task import ConstraintsLike, parse_constraints

if TYPE_CHECKING:
    from headstart.optimizers.base import Optimizer
    from headstart.space.space import PipelineSpace

DEFAULT_SECONDS = 60.0
REFITS = ("bag", "full", "single")


@dataclass(frozen=True)
class Settings:
    """What a user may choose about a fit; `HeadstartClassifier` explains each.

    Raises
    ------
    InvalidInput
        For a value that cannot be meant; the message says what must hold.
    """

    time_budget: float | None = None
    evaluations: int | None = None
    patience: int | None = None
    metric: str | Callable[..., float] | None = None
    optimizer: str | Optimizer = "default"
    knowledge: str | PathLike[str] | None = None
    space: str | PipelineSpace | None = None
    include: Iterable[str] = ()
    exclude: Iterable[str] = ()
    ensemble: bool = True
    max_members: int = 10
    refit: Literal["bag", "full", "single"] = "bag"
    calibrate: bool = False
    tune_threshold: bool = False
    splitter: Any = None
    constraints: ConstraintsLike | None = None
    n_jobs: int | None = None
    memory_limit: int | None = None
    evaluation_seconds: float | None = None
    seed: int = 0
    sandbox: bool = True

    def __post_init__(self) -> None:
        for name in ("time_budget", "evaluation_seconds", "memory_limit"):
            check_finite(name, getattr(self, name))
        for name in ("evaluations", "patience", "max_members"):
            check_positive(name, getattr(self, name), whole=True)
        if self.refit not in REFITS:
            raise InvalidInput(f"refit must be one of {', '.join(REFITS)}, got {self.refit!r}")
        if self.n_jobs is not None and (not _whole(self.n_jobs) or (self.n_jobs < 1 and self.n_jobs != -1)):
            raise InvalidInput(
                f"n_jobs must be a positive whole number, -1 for all cores or None to choose by the table's size, "
                f"got {self.n_jobs!r}"
            )
        if not _whole(self.seed) or self.seed < 0:
            raise InvalidInput(f"the seed must be a whole number of at least 0, got {self.seed!r}")
        parse_constraints(self.constraints)
        if self.memory_limit is not None and self.memory_limit < 10**6:
            raise InvalidInput(f"memory_limit is in bytes, such as 4e9, got {self.memory_limit!r}")

    @property
    def seconds(self) -> float | None:
        """The time budget; 60 s where neither a time nor a number of evaluations is given."""
        if self.time_budget is None and self.evaluations is None and self.patience is None:
            return DEFAULT_SECONDS
        return None if self.time_budget is None else float(self.time_budget)


def check_finite(name: str, value: object) -> None:
    """Raise `InvalidInput` unless `value` is ``None`` or a positive, finite number."""
    check_positive(name, value)
    if isinstance(value, Real) and not math.isfinite(value):
        raise InvalidInput(f"{name} must be a finite number, got {value!r}; leave it out for no limit")


def _whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def choose_space(settings: Settings, task: str) -> PipelineSpace:
    """The search space of a task: the default one, or the user's, with what is included and excluded by name."""
    from headstart.space import catalog
    from headstart.space.space import PipelineSpace

    kind = "regression" if task == "regression" else "classification"
    space = settings.space if settings.space is not None else kind
    if isinstance(space, str):
        name, space = space, catalog.load(space)
        if (name == "regression") != (kind == "regression"):
            other, wanted = ("regressors", "a class") if name == "regression" else ("classifiers", "a number")
            parts = "the space" if settings.knowledge is None else f"the space and knowledge of {other}"
            raise InvalidInput(
                f"space {name!r} has {other}, and the target is taken for {wanted}; leave {parts} out, or say with "
                "task (--task) what the target is"
            )
    if not isinstance(space, PipelineSpace):
        raise InvalidInput(
            f"space must be a PipelineSpace or the name of one, got {type(space).__name__}; "
            f"{suggestion('', catalog.names())}"
        )
    return space.select(settings.include, settings.exclude)
