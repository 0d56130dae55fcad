"""`within`: a time limit for work in this process that is all ours, such as reading a file."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headstart.errors import OutOfTime

LEAST_SECONDS = 10.0
"""What any work gets, however short the budget is: a busy machine may need that to load libraries."""
_AGAIN_SECONDS = 0.1


class _Late(BaseException):
    """No `Exception`, which a library might take for one of its own."""


@contextmanager
def within(seconds: float | None, what: str) -> Iterator[None]:
    """Raise `OutOfTime` once the block has taken a whole time budget, and `LEAST_SECONDS` at least.

    Parameters
    ----------
    seconds
        The budget; None for no limit.
    what
        What the block does, as the message calls it.

    Notes
    -----
    By an alarm of the system, which Python has in the main thread and not on Windows; elsewhere, and where the program
    has alarms of its own, there is no limit. A library that is busy outside of Python ends its step first.
    """
    alarms = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    if seconds is None or not alarms or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return

    over = False

    def late(*_: object) -> None:
        if not over:
            raise _Late

    limit = max(seconds, LEAST_SECONDS)
    signal.signal(signal.SIGALRM, late)
    try:
        signal.setitimer(signal.ITIMER_REAL, limit, _AGAIN_SECONDS)
        yield
    except _Late:
        over = True
        raise OutOfTime(
            f"{what} took longer than {limit:g} s, with a time budget of {seconds:g} s; give more time"
        ) from None
    finally:
        over = True  # first: an alarm comes again and again, and may come while it is being turned off
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
