"""The workers that a sandbox and its copies in one process share."""

from __future__ import annotations

import atexit
import itertools
import os
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from headstart.errors import HeadstartError, SandboxError
from headstart.evaluation import _wire
from headstart.evaluation._processes import NotReady, NotStarted, WorkerProcess, WorkerSetup, kill_strays
from headstart.trials import Limits, Outcome, Status

_LINGER_SECONDS = 60.0
_ATTEMPTS = 3
_PAUSE_SECONDS = 0.5

_pools: dict[str, WorkerPool] = {}
_pools_lock = threading.RLock()


class WorkerPool:
    """The workers of one sandbox and of its copies in this process.

    Parameters
    ----------
    token
        Identifies the sandbox in all processes.
    write_payload
        Writes the objective to a path.
    lingers
        Whether the pool stays for a while when no sandbox uses it any more. A copy in another process is made anew
        for each task, so its workers must outlive it.
    preload, threads, mode, spool
        As for `Sandbox`.
    """

    def __init__(
        self,
        token: str,
        write_payload: Callable[[Path], object],
        *,
        preload: tuple[str, ...],
        threads: int,
        mode: str | None,
        spool: str | None,
        lingers: bool = False,
    ) -> None:
        self.token = token
        self._lingers = lingers
        self._closed = False
        self._interruptions = 0
        self._users = 0
        self.slowdown = 1.0
        """Of the worker that became ready last."""
        self._used_at = time.monotonic()
        self._numbers = itertools.count()
        self.forget_workers()
        if spool is not None:
            os.makedirs(spool, exist_ok=True)
        directory = Path(tempfile.mkdtemp(prefix="headstart-sandbox-", dir=spool))
        self.setup = WorkerSetup(
            payload=directory / _wire.PAYLOAD_NAME,
            temporary=spool is None,
            preload=preload,
            threads=threads,
            mode=mode or ("fork" if sys.platform == "linux" else "serve"),
            owner=os.getpid(),
        )
        try:
            write_payload(self.setup.payload)
        except BaseException:
            _wire.clean_spool(directory, self.setup.temporary)
            raise
        with _pools_lock:
            _pools[token] = self

    @classmethod
    def shared(cls, token: str, payload: bytes, options: Mapping[str, Any]) -> WorkerPool:
        """The pool of that token, made if there is none; it is closed when nobody has used it for a while."""
        with _pools_lock:
            known = _pools.get(token)
            if known is None:
                known = cls(token, lambda path: path.write_bytes(payload), lingers=True, **options)
                threading.Thread(target=known._close_when_unused, name="headstart-linger", daemon=True).start()
            known._used_at = time.monotonic()
            return known

    def _close_when_unused(self) -> None:
        """Close the pool when nobody has used it for a while: who made it may be gone without a word."""
        while not self._closed:
            time.sleep(_LINGER_SECONDS / 4)
            with _pools_lock:  # or it may be handed out meanwhile
                if self._users == 0 and time.monotonic() - self._used_at > _LINGER_SECONDS:
                    self.close()

    @staticmethod
    def known(token: str) -> WorkerPool | None:
        """The pool of that token in this process."""
        with _pools_lock:
            return _pools.get(token)

    def attach(self, user: object) -> None:
        """Count `user` until it is garbage; without users, the pool is closed or lingers."""
        with self._lock:
            self._users += 1
        weakref.finalize(user, self._detach).atexit = False

    def _detach(self) -> None:
        with self._lock:
            self._users -= 1
            unused = self._users == 0 and not self._lingers
        if unused:
            self.close()

    def forget_workers(self) -> None:
        """Have no workers. For a fork of this process, too: the workers belong to the process that it came from."""
        self._lock = threading.RLock()  # reentrant, since a finaliser may run at any point of a thread that holds it
        self._workers: set[WorkerProcess] = set()
        self._idle: list[WorkerProcess] = []

    def new_stem(self) -> Path:
        """What the paths of the artefacts of one evaluation begin with."""
        return self.setup.payload.parent / f"{os.getpid()}-{next(self._numbers)}"

    def read_payload(self) -> bytes:
        with self._lock:
            self._check_open()
            return self.setup.payload.read_bytes()

    def evaluate(self, request: Mapping[str, Any], limits: Limits) -> tuple[Outcome, Mapping[str, str]]:
        """Outcome of a request by any worker, and the paths of its artefacts."""
        problem, began = "", False
        interruptions = self._interruptions
        for attempt in range(_ATTEMPTS):
            self._pause(attempt, limits.left)
            try:
                worker = self._take()
            except OSError as error:  # no process, or no memory for one
                problem = str(error)
                continue
            try:
                worker.wait_ready(limits.left)
                began = True
                now = limits.now()
                outcome, artefacts = worker.evaluate({**request, "limits": now}, now, limits.left)
            except NotReady:
                return Outcome.failed(Status.TIMEOUT, "the deadline passed before a worker was ready"), {}
            except NotStarted as error:
                problem = str(error)
            except BaseException as error:
                worker.kill()
                if not (self._ended(interruptions) and isinstance(error, HeadstartError)):
                    raise
            else:
                if outcome.ok or not self._ended(interruptions):
                    return outcome, artefacts
            finally:
                self._give_back([worker])
            ended = self._ended(interruptions)
            if ended:
                return Outcome.failed(Status.CRASHED, f"the sandbox was {ended} during the evaluation"), {}
        if began:
            return Outcome.failed(Status.CRASHED, f"no sandbox worker could run the evaluation: {problem}"), {}
        raise _not_started(problem)

    def warm(self, count: int) -> None:
        """Start workers until there are `count`, and wait until they are ready."""
        problem = ""
        for attempt in range(_ATTEMPTS):
            self._pause(attempt, None)
            new: list[WorkerProcess] = []
            try:
                with self._lock:
                    self._check_open()
                    running = sum(worker.alive for worker in self._workers)
                    for _ in range(count - running):
                        new.append(self._start())
                for worker in new:
                    worker.wait_ready()
            except (NotStarted, OSError) as error:
                problem = str(error)
            except BaseException:
                for worker in new:
                    worker.kill()
                raise
            else:
                return
            finally:
                self._give_back(new)
        raise _not_started(problem)

    @staticmethod
    def _pause(attempt: int, left: float | None) -> None:
        """Let the machine recover before a worker is started again."""
        if attempt:
            time.sleep(min(_PAUSE_SECONDS * attempt, float("inf") if left is None else left))

    def _ended(self, interruptions: int) -> str:
        """What ended the evaluations that began when there had been so many interruptions, if anything did."""
        if self._closed:
            return "closed"
        return "interrupted" if self._interruptions != interruptions else ""

    def interrupt(self) -> None:
        """End the evaluations under way and the workers that have them."""
        with self._lock:
            self._interruptions += 1
            busy = self._workers - {*self._idle}
        for worker in busy:
            worker.kill()

    def close(self) -> None:
        """End all workers, remove files; harmless when repeated."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            workers, self._workers, self._idle = self._workers, set(), []
        for worker in workers:
            worker.kill(strays=False)
        if workers:
            kill_strays(f"{self.token}/")
        if os.getpid() == self.setup.owner:
            _wire.clean_spool(self.setup.payload.parent, self.setup.temporary)
        with _pools_lock:
            if _pools.get(self.token) is self:
                del _pools[self.token]

    def _check_open(self) -> None:
        if self._closed:
            raise HeadstartError("the sandbox must be open, but it was closed; create a new one")

    def _take(self) -> WorkerProcess:
        with self._lock:
            self._check_open()
            self._used_at = time.monotonic()
            while self._idle:
                worker = self._idle.pop()
                if worker.alive:
                    return worker
                self._workers.discard(worker)
                worker.kill()
            return self._start()

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess(self.setup, f"{self.token}/{next(self._numbers)}/")
        self._workers.add(worker)
        return worker

    def _give_back(self, workers: Iterable[WorkerProcess]) -> None:
        with self._lock:
            self._used_at = time.monotonic()
            for worker in workers:
                self.slowdown = max(1.0, worker.slowdown or self.slowdown)
                if worker.alive and not self._closed:
                    self._idle.append(worker)
                else:
                    self._workers.discard(worker)
                    worker.kill()


def _not_started(problem: str) -> SandboxError:
    return SandboxError(
        f"a worker process could not be started in {_ATTEMPTS} attempts; memory may be short: end other programs, or "
        f"run fewer jobs. The last attempt: {problem}"
    )


def _close_all() -> None:
    for pool in [*_pools.values()]:
        pool.close()


def _start_anew_after_fork() -> None:
    global _pools_lock
    _pools_lock = threading.RLock()
    for pool in _pools.values():
        pool.forget_workers()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_anew_after_fork)
