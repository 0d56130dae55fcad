"""Messages about mistakes, failures and warnings, and the exit codes.

====  ==========================================================================================
0     done; also a fit that Ctrl-C stopped and that has a model
1     the system failed: a full disk, a damaged store, no network, too little memory or time
2     a mistake in what was typed or in the table
129   stopped by SIGHUP
130   stopped by Ctrl-C without a model
143   stopped by SIGTERM
====  ==========================================================================================
"""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from headstart.errors import (
    HeadstartError,
    HeadstartWarning,
    InvalidInput,
    MissingDependency,
    NeedsTable,
    StudyExists,
    StudyLocked,
)

FAILURE = 1
MISTAKE = 2

_writers: list[Callable[[str], None]] = []
_warned: set[str] = set()
"""Warnings that this command has said."""


def say(text: str) -> None:
    """One line on standard error, above whatever moves there."""
    line = f"headstart: {' '.join(text.split())}"
    if _writers:
        _writers[-1](line)
    else:
        typer.echo(line, err=True)


def warn(text: str) -> None:
    """A warning in one line, once."""
    if text not in _warned:
        _warned.add(text)
        say(f"warning: {text}")


def was_warned(text: str) -> bool:
    """Whether this command has said that already."""
    return text in _warned


@contextmanager
def saying_with(write: Callable[[str], None]) -> Iterator[None]:
    """Have `write` take the lines, for as long as something else is drawn on the terminal."""
    _writers.append(write)
    try:
        yield
    finally:
        _writers.remove(write)


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Headstart's warnings as one line each, once; those of other packages are not shown."""
    _warned.clear()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        warn(str(message))

    with warnings.catch_warnings():
        if not debugging():
            warnings.simplefilter("ignore")
        warnings.simplefilter("always", HeadstartWarning)
        warnings.showwarning = show
        yield


def debugging() -> bool:
    """Whether tracebacks are wanted."""
    return os.environ.get("HEADSTART_DEBUG", "") not in ("", "0")


def report(error: BaseException) -> int:
    """Say what went wrong in one line; returns the exit code."""
    if debugging():
        traceback.print_exception(error)
    if isinstance(error, BrokenPipeError):  # the reader, such as head, has seen enough
        # Python flushes standard output once more at the end; that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if isinstance(error, HeadstartError):
        say(str(error))
        mistake = isinstance(error, InvalidInput | MissingDependency | NeedsTable | StudyExists | StudyLocked)
        return MISTAKE if mistake else FAILURE
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename is not None else ""
        say(f"{where}{error.strerror or error}")
    elif isinstance(error, MemoryError):
        say("not enough memory for this table")
    else:
        say(f"unexpected {type(error).__name__}: {error}; please report it with the output of HEADSTART_DEBUG=1")
    return FAILURE
