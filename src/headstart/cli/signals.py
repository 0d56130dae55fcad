"""Ctrl-C and SIGTERM during a fit.

While the search runs, Ctrl-C stops it and the model is made from what was found. A second one, or one while nothing
can be lost, quits immediately. SIGTERM and SIGHUP stop the search cleanly, without a model: what was finished is in the
store.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

from headstart.cli.messages import say

if TYPE_CHECKING:
    from headstart.fitting.run import Run

_NAMES = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


class Terminated(BaseException):
    """SIGTERM or SIGHUP came."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


class Signals:
    """Takes the signals for as long as it is entered; those that are ignored, as under nohup, stay so.

    Parameters
    ----------
    close_display
        Called before leaving at once, to give the terminal back.
    """

    def __init__(self, close_display: Callable[[], None]) -> None:
        self.close_display = close_display
        self.run: Run | None = None
        """What is under way, once it is."""
        self.making = False
        """Whether the search is over and the model is being made."""
        self.saved = False
        """Whether the model is written."""
        self._interrupts = 0
        self._ending = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        for name in _NAMES:
            number = getattr(signal, name)
            try:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._take)
            except ValueError:  # not in the main thread
                return self
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _take(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if number != signal.SIGINT:
            if self._ending or self.making:
                self.leave(number)
            self._ending = True
            raise Terminated(number)
        self._interrupts += 1
        if self._interrupts > 1:
            self.leave(number)
        if self.saved:
            raise KeyboardInterrupt
        if self.making:
            say("the search is over and the model is being made; press Ctrl-C again to quit immediately")
            return
        raise KeyboardInterrupt

    def leave(self, number: int) -> NoReturn:
        """End this process now; its workers end with it, and what was finished is in the store."""
        self.close_display()
        if self.saved:
            say("quit without a report; the model is written")
        else:
            say("quit without a new model; finished pipelines are kept, continue with --resume")
        if self.run is not None:
            shutil.rmtree(self.run.directory, ignore_errors=True)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(128 + number)
