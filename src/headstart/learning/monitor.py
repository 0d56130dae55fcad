"""Watching trainings, and going on with one that was cut off.

Whoever calls `meta_fit` and wants to see how it goes, or to be able to stop it, does so inside `monitored`; the methods
in between need not know. What a training has to keep is written at checks of the validation loss: parameters, moments
of Adam, the state of the random numbers, and the best so far. A training that goes on from there does the same
arithmetic as one that was never stopped.
"""

from __future__ import annotations

import glob
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, ModelFileError
from headstart.learning.checkpoints import load_arrays, save_arrays

Array = NDArray[np.float64]
Arrays = dict[str, Array]


@dataclass(frozen=True)
class Check:
    """A look at the validation loss: of which training, after which of how many steps, its value, seconds so far.

    `again` is told of a look that was taken before the training was stopped, when it goes on.
    """

    name: str
    step: int
    steps: int
    loss: float
    best: float
    seconds: float
    again: bool = False


@dataclass
class TrainingState:
    """All that decides how a training goes on.

    Parameters
    ----------
    step
        Steps that were made.
    adam
        What `Adam.state` gives.
    rng
        State of the random numbers; empty for a training that begins them anew at each step.
    checks
        Steps, validation losses and seconds seen so far.
    best
        Loss, step and parameters, if there is a finite loss yet.
    finished
        Whether there is nothing left to do.
    """

    step: int
    adam: Arrays
    rng: Mapping[str, Any]
    checks: list[tuple[int, float, float]]
    best: tuple[float, int, Arrays] | None
    finished: bool = False

    def save(self, path: Path, key: str) -> None:
        arrays = dict(self.adam)
        if self.best is not None:
            arrays |= {f"{_BEST}{name}": value for name, value in self.best[2].items()}
        arrays["checks"] = np.array(self.checks, dtype=np.float64).reshape(-1, 3)
        about = {
            "key": key,
            "step": self.step,
            "rng": dict(self.rng),
            "best": None if self.best is None else list(self.best[:2]),
            "finished": self.finished,
        }
        save_arrays(path, arrays, about)

    @classmethod
    def load(cls, path: Path, key: str) -> TrainingState:
        arrays, about = load_arrays(path)
        if about.get("key") != key:
            raise InvalidInput(
                f"the unfinished training in {path} is of other settings or other tasks; give the same ones, or start "
                "anew without resuming"
            )
        checks = [(int(step), float(loss), float(seconds)) for step, loss, seconds in arrays.pop("checks")]
        held = {name.removeprefix(_BEST): arrays.pop(name) for name in list(arrays) if name.startswith(_BEST)}
        best = about["best"]
        found = None if best is None else (float(best[0]), int(best[1]), held)
        return cls(about["step"], arrays, about["rng"], checks, found, about["finished"])


_BEST = "best/"


def unfinished_key(path: Path) -> str | None:
    """Which settings and tasks the unfinished training in a file is of; ``None`` if the file cannot be read."""
    try:
        return str(load_arrays(path)[1].get("key"))
    except ModelFileError:
        return None


@dataclass
class Monitor:
    """What is told and kept of the trainings inside a `monitored` block, which are numbered from 0.

    Parameters
    ----------
    progress
        Is told each check.
    state
        File for what must be kept; training k has this name with ``.k`` after it.
    key
        Names settings and tasks: only a training with the same key goes on.
    resume
        Whether to go on with what is in the files.
    seconds
        Least time between writes.
    limit
        Seconds that a training may take in this process; it then ends at its next check with the best so far, and its
        file is one to go on from. ``None`` for no limit.
    cut
        Whether a training was ended by the limit.
    """

    progress: Callable[[Check], None] | None = None
    state: Path | None = None
    key: str = ""
    resume: bool = False
    seconds: float = 10.0
    limit: float | None = None
    cut: bool = False
    trainings: int = 0

    def next(self) -> Watch:
        """Of the training that begins now."""
        path = None if self.state is None else self.state.with_name(f"{self.state.name}.{self.trainings}")
        self.trainings += 1
        return Watch(self, path)

    def remove(self) -> None:
        """Delete the files; what they held is no longer needed."""
        if self.state is not None:
            for file in self.state.parent.glob(f"{glob.escape(self.state.name)}.*"):
                if file.suffix[1:].isdigit():
                    file.unlink(missing_ok=True)


class Watch:
    """Of one training: tells and keeps what its monitor asks for."""

    def __init__(self, monitor: Monitor, path: Path | None) -> None:
        self._monitor, self._path, self._saved = monitor, path, 0.0
        self._began = time.monotonic()

    def restored(self) -> TrainingState | None:
        """What an earlier process left."""
        if self._path is None or not self._monitor.resume or not self._path.exists():
            return None
        return TrainingState.load(self._path, self._monitor.key)

    def tell(self, check: Check) -> None:
        if self._monitor.progress is not None:
            self._monitor.progress(check)

    def tell_again(self, name: str, steps: int, checks: Sequence[tuple[int, float, float]]) -> None:
        """Tell what was looked at before the training was stopped: step, loss and seconds of each look."""
        best = math.nan
        for step, loss, seconds in checks:
            best = loss if math.isfinite(loss) and not best <= loss else best
            self.tell(Check(name, step, steps, loss, best, seconds, again=True))

    @property
    def over(self) -> bool:
        """Whether the training has had the time that it may take."""
        limit = self._monitor.limit
        return limit is not None and time.monotonic() - self._began >= limit

    def cut(self, state: TrainingState) -> None:
        """Keep what an unfinished training goes on from another time."""
        self._monitor.cut = True
        self.save(state)

    @property
    def due(self) -> bool:
        """Whether it is time to write what must be kept."""
        return self._path is not None and time.monotonic() - self._saved >= self._monitor.seconds

    def save(self, state: TrainingState) -> None:
        if self._path is not None:
            state.save(self._path, self._monitor.key)
            self._saved = time.monotonic()


_monitor: ContextVar[Monitor | None] = ContextVar("monitor", default=None)


@contextmanager
def monitored(monitor: Monitor) -> Iterator[Monitor]:
    """Trainings inside this block report to the monitor; unless it is to resume, what earlier ones left is deleted."""
    if not monitor.resume:
        monitor.remove()
    token = _monitor.set(monitor)
    try:
        yield monitor
    finally:
        _monitor.reset(token)


def next_watch() -> Watch:
    """Of the training that begins now; without a monitor it does nothing."""
    return (_monitor.get() or Monitor()).next()
