"""A sandbox's side of its workers: to start one, talk to it, hold it to its limits and end it."""

from __future__ import annotations

import functools
import json
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from headstart.errors import HeadstartError, SandboxError, SandboxWarning
from headstart.evaluation import _verdicts, _wire
from headstart.evaluation._trees import ServedMemory, kill, kill_tree
from headstart.trials import Limits, Outcome, Status

logger = logging.getLogger("headstart.sandbox")

_GRACE_SECONDS = 0.2
_READY_SECONDS = 300.0
_STARTED_SECONDS = 30.0
_TICK_SECONDS = 0.2
_SAMPLE_SECONDS = 0.02
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "LOKY_MAX_CPU_COUNT",
)


class NotReady(Exception):
    """The worker did not become ready in the time there was; it may still."""


class NotStarted(Exception):
    """The worker was lost before it took the request, so that another one can take it."""


class _Late(Exception):
    """No message came in time."""


class _Lost(Exception):
    """The worker will not send any more messages."""


class _TooBig(Exception):
    """The worker takes more memory than it may."""


@dataclass(frozen=True)
class WorkerSetup:
    """What workers of one sandbox have in common.

    Parameters
    ----------
    payload
        File that holds the objective.
    temporary
        Whether the directory of that file goes when the sandbox does.
    preload
        Modules to import in advance.
    threads
        Number of threads that numeric libraries may use.
    mode
        "fork" or "serve".
    owner
        Id of the process that made the directory. A fork of it may start workers too, which must leave it alone.
    """

    payload: Path
    temporary: bool
    preload: tuple[str, ...]
    threads: int
    mode: str
    owner: int


class WorkerProcess:
    """A worker, started by the constructor; `wait_ready` must follow.

    Parameters
    ----------
    setup
        What to start.
    mark
        Put into the environment of the worker and so of all its descendants.
    """

    def __init__(self, setup: WorkerSetup, mark: str) -> None:
        if not sys.executable:
            raise HeadstartError("sys.executable must name the Python interpreter, got none; set it to start workers")
        self._setup = setup
        self._mark = mark
        self._messages: queue.SimpleQueue[bytes | Exception] = queue.SimpleQueue()
        self._tail = _verdicts.Tail()
        self._kill_lock = threading.Lock()
        self._killed = False
        self._ready = False
        self._measures = True
        self._started = self._answered = time.monotonic()
        self.slowdown: float | None = None
        """How many times as long its start took as it had a processor, once it is ready; 1 if nothing else ran."""
        package_root = str(Path(__file__).parents[2])
        environment = os.environ | dict.fromkeys(_THREAD_VARIABLES, str(setup.threads)) | {_wire.MARK: mark}
        # An own session, or on Windows an own group: a Ctrl-C in the terminal is for the main process alone.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "headstart.evaluation.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment | {"PYTHONPATH": package_root},
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
        for target in (self._listen, self._drain):
            threading.Thread(target=target, daemon=True, name=f"headstart-worker-{self._process.pid}").start()
        logger.debug("started worker %d", self._process.pid)
        message = {
            "payload": setup.payload,
            "temporary": setup.temporary,
            "preload": setup.preload,
            "mode": setup.mode,
            "parent": os.getpid(),
            "owner": setup.owner,
            "path": sys.path,
            "environment": {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ},
        }
        try:
            self._send(message)
        except OSError:
            pass  # it is dead already, which wait_ready tells

    @property
    def alive(self) -> bool:
        return not self._killed and self._process.poll() is None

    def wait_ready(self, seconds: float | None = None) -> None:
        """Return when the objective is loaded.

        Raises
        ------
        HeadstartError
            It cannot be loaded.
        NotReady
            It is late.
        NotStarted
            The worker died, as it does when memory runs out.
        """
        if self._ready:
            return
        try:
            message = self._receive(_READY_SECONDS if seconds is None else min(seconds, _READY_SECONDS))
        except _Late:
            if seconds is not None and seconds < _READY_SECONDS:
                raise NotReady from None
            raise SandboxError(f"a sandbox worker was not ready within {_READY_SECONDS:.0f} s") from None
        except (_Lost, _wire.BrokenFrame):
            problem = f"it died while it started: {self._last_words()}"
            self.kill()
            raise NotStarted(problem) from None
        if message.get("again"):
            self.kill()
            raise NotStarted(f"it had not enough memory: {message['failed']}")
        if "failed" in message:
            raise HeadstartError(
                "the objective must be loadable in another process; modules that it uses must be importable there. "
                f"Error: {message['failed']}"
            )
        self._ready = True
        # To load libraries is work of ours alone; an evaluation may wait for something else.
        self.slowdown = (self._answered - self._started) / max(float(message["processor_seconds"]), 1e-3)
        self._measures = bool(message["memory"])
        for name in message["missing"]:
            logger.debug("module %s cannot be preloaded and is skipped", name)

    def evaluate(
        self, request: Mapping[str, Any], limits: Limits, left: float | None = None
    ) -> tuple[Outcome, dict[str, str]]:
        """Outcome of a request, and the paths of its artefacts. The worker may be dead afterwards.

        Parameters
        ----------
        left
            Seconds within which it must begin.

        Raises
        ------
        NotStarted
            The worker was lost before it began.
        NotReady
            It did not begin in time.
        """
        self._tail.clear()
        if limits.bytes is not None and not self._measures:
            _warn_once("the memory limit is not enforced: /proc does not show how much memory a process uses")
        try:
            watch = _MemoryWatch(self._process.pid, self._setup, limits) if self._setup.mode == "serve" else None
            self._send(request)
            self._receive(_STARTED_SECONDS if left is None else min(left, _STARTED_SECONDS))
        except (OSError, psutil.Error, _Late, _Lost, _wire.BrokenFrame) as error:
            self.kill()
            if isinstance(error, _Late) and left is not None and left < _STARTED_SECONDS:
                raise NotReady from None
            raise NotStarted(f"{type(error).__name__}: {self._last_words()}") from None
        started = time.monotonic()
        try:
            outcome, artefacts = self._await_outcome(limits, watch)
        except BaseException as error:
            seconds = time.monotonic() - started
            # What killed the worker can only be asked before we do it ourselves.
            code = self._wait(0.5) if isinstance(error, _Lost) else None
            self.kill()
            return self._failure(error, limits, seconds, code, watch.peak if watch else 0), {}
        if watch is not None:
            watch.end()
            outcome = replace(outcome, bytes=outcome.bytes or watch.peak)
        return outcome, artefacts

    def _await_outcome(self, limits: Limits, watch: _MemoryWatch | None) -> tuple[Outcome, dict[str, str]]:
        if watch is not None:
            message = self._receive(limits.seconds, watch)
        else:
            # The worker holds the limit; this is for a worker that cannot.
            message = self._receive(None if limits.seconds is None else limits.seconds + _GRACE_SECONDS)
        try:
            artefacts = {str(name): str(path) for name, path in message["artefacts"].items()}
            return Outcome.from_dict(message["outcome"]), artefacts
        except Exception as error:
            raise _wire.BrokenFrame(f"the result cannot be read: {type(error).__name__}: {error}") from None

    def _failure(self, error: BaseException, limits: Limits, seconds: float, code: int | None, peak: int) -> Outcome:
        """What is to be said of an evaluation that this process, not the worker, saw fail."""
        if isinstance(error, _Late):
            return _verdicts.late(limits, seconds, peak)
        if isinstance(error, _TooBig):
            return _verdicts.too_big(limits, seconds, peak)
        if isinstance(error, _wire.BrokenFrame):
            status = Status.INVALID if isinstance(error, _wire.FrameTooLong) else Status.CRASHED
            return Outcome.failed(status, str(error), seconds=seconds, bytes=peak)
        if not isinstance(error, _Lost):
            raise error
        if code is None:
            text = "the worker closed its pipe; this happens when an evaluation closes all open files"
            return Outcome.failed(Status.CRASHED, text, seconds=seconds, bytes=peak)
        if self._setup.mode == "serve":
            return _verdicts.ended(code, self._tail, limits, seconds, peak)
        text = f"the process that supervised the evaluation died: {_verdicts.describe_exit(code)}"
        return Outcome.failed(Status.CRASHED, f"{text}\n{self._tail.text()}".strip(), seconds=seconds)

    def kill(self, *, strays: bool = True) -> None:
        """End the worker and all that it started; calls that wait for it return. `strays` looks for the hidden too."""
        with self._kill_lock:
            if self._killed:
                return
            self._killed = True
        logger.debug("killing worker %d", self._process.pid)
        # Descendants first: once the worker is dead, they are only found by the mark in their environment. And only
        # of a worker that was not reaped, whose number may belong to others by now.
        if self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.kill()
        self._messages.put(_Lost())
        self._wait(5.0)
        if self._process.stdin is not None:
            self._process.stdin.close()
        if strays:
            kill_strays(self._mark)

    def _send(self, content: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        _wire.send(self._process.stdin.fileno(), pickle.dumps(content))

    def _receive(self, seconds: float | None, watch: Callable[[], None] | None = None) -> dict[str, Any]:
        """Next message of the worker within `seconds`; `watch` is called every few milliseconds meanwhile."""
        deadline = float("inf") if seconds is None else time.monotonic() + seconds
        tick = _SAMPLE_SECONDS if watch else _TICK_SECONDS  # also how long Windows may hold back a Ctrl-C
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise _Late
            try:
                message = self._messages.get(timeout=min(left, tick))
            except queue.Empty:
                if watch:
                    watch()
                continue
            if isinstance(message, Exception):
                raise message
            try:
                return dict(json.loads(message))
            except ValueError as error:
                raise _wire.BrokenFrame(f"the result cannot be read: {error}") from None

    def _listen(self) -> None:
        """Pass on messages until there are no more. A thread, since Windows cannot wait for a pipe and a time limit."""
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            try:
                while (body := _wire.receive(pipe.fileno())) is not None:
                    self._answered = time.monotonic()
                    self._messages.put(body)
                self._messages.put(_Lost())
            except _wire.BrokenFrame as error:
                self._messages.put(error)
            except OSError:
                self._messages.put(_Lost())

    def _drain(self) -> None:
        """Keep the end of what the worker prints, and let it never wait for a reader."""
        assert self._process.stderr is not None
        with self._process.stderr as pipe:
            while data := pipe.read(1 << 16):
                self._tail.add(data)

    def _wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def _last_words(self) -> str:
        code = self._wait(0.5)
        end = "it closed its pipe" if code is None else _verdicts.describe_exit(code)
        return f"{end}\n{self._tail.text()}".strip()


class _MemoryWatch:
    """Samples the memory of a worker that evaluates by itself."""

    def __init__(self, pid: int, setup: WorkerSetup, limits: Limits) -> None:
        self.peak = 0
        self._limit = limits.bytes
        self._next = 0.0
        self._process = psutil.Process(pid)
        self._memory: ServedMemory | None = None
        try:
            self._memory = ServedMemory(pid, setup.payload.stat().st_size)
        except psutil.AccessDenied:
            self._warn()

    def __call__(self) -> None:
        now = time.monotonic()
        if self._memory is None or now < self._next:
            return
        try:
            taken = self._memory.measure()
        except psutil.AccessDenied:
            self._memory = None
            self._warn()
            return
        except psutil.Error:
            return  # it is ending, which shows elsewhere
        self.peak = max(self.peak, taken)
        if self._limit is not None and taken > self._limit:
            raise _TooBig
        # To list all processes takes long on a busy machine; never spend more than a tenth of the time on it.
        self._next = now + 10 * (time.monotonic() - now)

    def end(self) -> None:
        """The evaluation is over: a last look at the memory, and no process that it started stays."""
        try:
            self._limit, self._next = None, 0.0
            self()
            kill_tree(self._process.pid)
        except psutil.Error:
            pass

    def _warn(self) -> None:
        if self._limit is not None:
            _warn_once("the memory limit is not enforced: this system does not show how much memory a process uses")


@functools.cache
def _warn_once(text: str) -> None:
    warnings.warn(text, SandboxWarning, stacklevel=5)


def kill_strays(mark: str) -> None:
    """Kill every process in whose environment the mark starts with `mark`, whoever its parent is by now."""
    for process in psutil.process_iter():
        try:
            if process.environ().get(_wire.MARK, "").startswith(mark):
                kill(process)
        except (psutil.Error, OSError):
            continue
