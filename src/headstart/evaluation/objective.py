"""`Objective`: from a pipeline to an `Outcome`; `FunctionObjective` makes one of a plain function."""

from __future__ import annotations

import errno
import inspect
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome, Status

_MEMORY_SIGNS = ("bad_alloc", "failed to map segment", "Cannot allocate memory")


@runtime_checkable
class Objective(Protocol):
    """Evaluates a pipeline. Never raises for a pipeline's own failure: that is an outcome too.

    It must be safe to call from several threads at once. It may have

    - ``interrupt()``, which ends the calls under way;
    - ``close()``, which frees what it holds.
    """

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        """Evaluate `pipeline` within `limits`, everything random drawn from `seed`."""
        ...


def outcome_of(call: Callable[[], Any], fidelity: Fidelity = FULL) -> Outcome:
    """Run `call` and turn whatever comes of it into an `Outcome`.

    A number is a loss, an `Outcome` is taken as it is (with the time, where it has none), an exception becomes
    ``memory`` or ``crashed``, anything else ``invalid``.
    """
    started = time.perf_counter()
    try:
        result = call()
    except Exception as error:
        if out_of_memory(error):
            outcome = Outcome.failed(Status.MEMORY, f"out of memory: {error or 'MemoryError'}", fidelity=fidelity)
        else:
            outcome = Outcome.failed(Status.CRASHED, describe(error), fidelity=fidelity)
    else:
        if isinstance(result, Outcome):
            outcome = result
        else:
            try:
                if isinstance(result, (str, bytes)):
                    raise TypeError
                outcome = Outcome.of(float(result), fidelity=fidelity)
            except (TypeError, ValueError):
                message = f"an objective must return a number or an Outcome, got {type(result).__name__}"
                outcome = Outcome.failed(Status.INVALID, message, fidelity=fidelity)
    if not outcome.seconds:
        outcome = replace(outcome, seconds=time.perf_counter() - started)
    return outcome


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory was not to be had: in Python, in a C++ library, to load a library."""
    lacks = isinstance(error, OSError) and error.errno == errno.ENOMEM
    return lacks or isinstance(error, MemoryError) or any(sign in str(error) for sign in _MEMORY_SIGNS)


def describe(error: BaseException, frames: int = 4) -> str:
    """An exception in a few lines: its type and message, then where it came from, innermost last."""
    message = str(error).strip()
    lines = [f"{type(error).__name__}: {message}" if message else type(error).__name__]
    outside = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    for frame in outside[-frames:]:
        lines.append(f"  at {frame.name} ({frame.filename.rsplit('/', 1)[-1]}:{frame.lineno})")
    return "\n".join(lines)


class FunctionObjective:
    """An objective made of ``function(pipeline) -> loss``, run in this process.

    It cannot be stopped when a limit is passed; wrap it in a `headstart.evaluation.sandbox.Sandbox` for that.

    Parameters
    ----------
    function
        Anything that can be called with the pipeline and, where its signature has the names, `seed` and `fidelity`.
        Returns a loss to be minimised or an `Outcome`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable, got {type(function).__name__}")
        self.function = function
        self._extras = [name for name in ("seed", "fidelity") if name in _parameters(function)]

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        del limits  # nothing in this process can enforce them
        extras = {"seed": seed, "fidelity": fidelity}
        return outcome_of(lambda: self.function(pipeline, **{n: extras[n] for n in self._extras}), fidelity)

    def __repr__(self) -> str:
        return f"FunctionObjective({getattr(self.function, '__qualname__', self.function)!s})"


def as_objective(given: Objective | Callable[..., Any]) -> Objective:
    """An objective as it is; anything else that can be called, as a `FunctionObjective`.

    What takes `limits` is an objective.
    """
    if not callable(given):
        raise TypeError(f"an objective must be an Objective or a function of a pipeline, got {type(given).__name__}")
    return given if "limits" in _parameters(given) else FunctionObjective(given)


def _parameters(function: Callable[..., Any]) -> Mapping[str, Any]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have none
        return {}
