"""Errors and warnings of Headstart.

Every error states what must hold, what was found and what to do. Mistakes of the caller are ``ValueError`` or
``TypeError`` subclasses, so that code which never heard of Headstart still catches them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from difflib import get_close_matches
from numbers import Integral, Real
from typing import Any


class HeadstartError(Exception):
    """Base of every error that Headstart raises on purpose."""


class InvalidInput(HeadstartError, ValueError):
    """A value given by the caller does not fit what is asked for."""


class SpaceError(InvalidInput):
    """A search space is badly declared, or a pipeline does not belong to it."""


class UnknownName(InvalidInput, KeyError):
    """A name was looked up that nothing is registered under."""

    def __str__(self) -> str:  # KeyError would show the repr of the message
        return str(self.args[0])


class MissingDependency(HeadstartError, ImportError):
    """An optional package is needed for what was asked."""


class NeedsTable(HeadstartError):
    """A method needs the raw table of a task, or meta-features made of it, and the task has none."""


class UnknownPipeline(HeadstartError, LookupError):
    """A method that knows only a fixed set of pipelines was given another one."""


class Exhausted(HeadstartError):
    """An optimizer has nothing left to propose."""


class NumericalError(HeadstartError, ArithmeticError):
    """A computation could not be carried out to a finite result."""


class StoreError(HeadstartError):
    """A store cannot be opened, read or written."""


class StoreAway(StoreError):
    """The server of a store does not answer, or ended the connection."""


class StoreVersionError(StoreError):
    """A store was written by a version of Headstart that this one cannot read."""


class StudyExists(StoreError, ValueError):
    """A study of that name is in the store already."""


class StudyLocked(StoreError):
    """Another process is running the study."""


class OutOfTime(HeadstartError):
    """The time budget was used up before anything could be tried."""


class SandboxError(HeadstartError):
    """No worker process can be started, for want of memory or processes."""


class ModelFileError(HeadstartError, ValueError):
    """A model cannot be written to a file, or a file contains no readable model."""


class UntrustedModel(ModelFileError):
    """A file holds more than plain data, and reading it could run code that its writer chose."""


class MetaDataError(HeadstartError):
    """A meta-dataset cannot be fetched, written or read."""


class HeadstartWarning(UserWarning):
    """Base of every warning that Headstart gives."""


class SandboxWarning(HeadstartWarning):
    """This system cannot keep one of the sandbox's limits."""


class ConstraintWarning(HeadstartWarning):
    """No pipeline satisfied the constraints; the model is the one that comes nearest."""


def check_positive(name: str, value: object, *, whole: bool = False) -> None:
    """Raise `InvalidInput` unless `value` is ``None`` or a positive number, whole if wanted."""
    if value is None:
        return
    number: Any = value
    fits = isinstance(number, Integral if whole else Real) and not isinstance(number, bool)
    if not (fits and number > 0):
        raise InvalidInput(f"{name} must be a positive {'whole number' if whole else 'number'}, got {value!r}")


def warn_user(message: str, category: type[HeadstartWarning] = HeadstartWarning) -> None:
    """Give a warning that points at the first line outside of this package."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "headstart":
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def printable(text: str) -> str:
    """A text that can be written to any file: half of a surrogate pair, as of a file name, is spelled out.

    >>> printable("caf\\udce9")
    'caf\\\\udce9'
    """
    return text.encode("utf-8", "backslashreplace").decode()


def suggestion(name: str, known: Iterable[str]) -> str:
    """End of an error message: the names that exist, the likeliest one first.

    >>> suggestion("forrest", ["gp", "forest"])
    "did you mean 'forest'? Known: forest, gp"
    """
    names = sorted(known)
    close = get_close_matches(str(name), names, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"{hint}Known: {', '.join(names) if names else 'none'}"
