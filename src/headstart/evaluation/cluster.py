"""`Cluster`: evaluations on the workers of a Dask scheduler, each in a sandbox there.

A sandbox of this machine takes the calls of several threads and gives each to a process of its own. A remote sandbox
takes the same calls and gives each to a thread of a Dask worker, which has a sandbox for it: time and memory are
limited where the evaluation runs, and what an evaluation does harms neither the worker nor the scheduler. The objective
with its table is sent to each worker once; predictions and fitted models come back with the outcome.

============================  ========================================================================================
a worker joins                the next evaluation may run there
a worker leaves or dies       what ran there runs again elsewhere, under the same number
the scheduler dies            calls raise `SandboxError`: a fit ends with what it has, and can be resumed
a deadline passes             the call returns at once; what still runs is ended
============================  ========================================================================================
"""

from __future__ import annotations

import itertools
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import cloudpickle

from headstart.errors import InvalidInput, MissingDependency, SandboxError, warn_user
from headstart.evaluation import _wire
from headstart.evaluation._pool import WorkerPool
from headstart.evaluation.objective import Objective, as_objective
from headstart.evaluation.sandbox import Sandbox
from headstart.numerics.threads import one_blas_thread
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome, SpooledFile, Status

CONNECT_SECONDS = 10.0
WORKERS_SECONDS = 30.0
"""How long to wait for a first worker."""
MEMORY_SHARE = 0.8
"""Of a worker's memory, for its evaluations; the rest is for the table and what is on its way."""
_PING_SECONDS = 4.0
"""A scheduler that does not answer in this time is gone."""
_FRESH_SECONDS = 0.5
_TICK_SECONDS = 1.0
_PAUSE_SECONDS = 0.05
_GRACE_SECONDS = 2.0
"""An outcome may come so much later than its deadline: a sandbox ends evaluations in time, its answer has to travel."""
_LONELY_SECONDS = 15.0
"""Without a worker for so long, the user should know."""


def is_of_dask(executor: object) -> bool:
    """Whether an executor is that of a Dask client."""
    return type(executor).__module__ == "distributed.cfexecutor"


class Cluster:
    """The workers of a Dask scheduler.

    Parameters
    ----------
    scheduler
        Address of a scheduler, such as ``tcp://10.0.0.1:8786``, or a `distributed.Client`. A client that is given stays
        open.

    Raises
    ------
    InvalidInput
        Nobody answers there, there is no worker, or a worker has another version of Headstart or of Python.
    """

    def __init__(self, scheduler: Any) -> None:
        try:
            from distributed import Client

            connect: Any = Client
        except ImportError:
            raise MissingDependency("a cluster needs Dask: pip install 'headstart[dask]'") from None
        self._owned = not isinstance(scheduler, Client)
        if self._owned and not isinstance(scheduler, str):
            raise TypeError(
                f"a cluster must be the address of a Dask scheduler or a distributed.Client, got {scheduler!r}"
            )
        try:
            self.client = (
                connect(scheduler, timeout=CONNECT_SECONDS, set_as_default=False) if self._owned else scheduler
            )
        except (OSError, ValueError) as error:
            raise InvalidInput(
                f"cluster (--cluster) must be the address of a Dask scheduler, such as tcp://10.0.0.1:8786, and nobody "
                f"answers at {scheduler}: {error}; start one with 'dask scheduler'"
            ) from None
        self._lonely_since: float | None = None
        self._lock = threading.Lock()
        self._asked_at = -float("inf")
        self._workers: Mapping[str, Mapping[str, Any]] = {}
        try:
            self._check_workers()
        except BaseException:
            self.close()
            raise

    def _check_workers(self) -> None:
        with suppress(TimeoutError):
            self.client.wait_for_workers(1, timeout=WORKERS_SECONDS)
        if not self.workers():
            raise InvalidInput(
                f"the cluster at {self.address} must have a worker, it has none; start one with "
                f"'dask worker {self.address}'"
            )
        ours = _versions()
        for worker, found in self.client.run(_versions, on_error="return").items():
            if found != ours:
                raise InvalidInput(
                    f"workers must have the versions of this process, {_in_words(ours)}, but {worker} has "
                    f"{_in_words(found)}; install the same on all machines"
                )

    @property
    def address(self) -> str:
        return str(getattr(self.client.scheduler, "address", "an unknown address"))

    def workers(self) -> Mapping[str, Mapping[str, Any]]:
        """What the scheduler knows of each worker, not much longer than `_FRESH_SECONDS` ago.

        Raises
        ------
        SandboxError
            The scheduler does not answer.
        """
        with self._lock:
            if time.monotonic() - self._asked_at > _FRESH_SECONDS:
                self._workers = self._ask_scheduler()
                self._asked_at = time.monotonic()
            return self._workers

    def _ask_scheduler(self) -> Mapping[str, Mapping[str, Any]]:
        try:
            client: Any = self.client
            found = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=_PING_SECONDS)
        except Exception as error:
            raise SandboxError(
                "the Dask scheduler cannot be reached any more; what was finished is kept: start the scheduler again "
                "and resume, or resume without a cluster"
            ) from error
        workers: Mapping[str, Mapping[str, Any]] = found["workers"]
        return workers

    def check(self) -> None:
        """Raise `SandboxError` unless the scheduler answers, now."""
        self._ask_scheduler()

    @property
    def n_jobs(self) -> int:
        """Evaluations at once: the threads of all workers that are there now, at least 1."""
        return max(1, sum(int(worker["nthreads"]) for worker in self.workers().values()))

    @property
    def bytes(self) -> int | None:
        """Memory of one evaluation, by the worker that has the least for each of its threads; None without limits."""
        shares = [w["memory_limit"] / w["nthreads"] for w in self.workers().values() if w["memory_limit"]]
        return int(MEMORY_SHARE * min(shares)) if shares else None

    def sandbox(self, objective: Objective | Callable[..., Any], **options: Any) -> RemoteSandbox:
        """An objective that is evaluated on the workers; options are those of a `Sandbox`."""
        return RemoteSandbox(self, objective, **options)

    def each(
        self, function: Callable[..., Any], shared: Sequence[Any], items: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """``function(*shared, item)`` of every item, with its name, in the order they finish, on threads of workers.

        There is no sandbox: the function is trusted. What is shared goes to each worker once. What a worker that died
        was doing is done by another one.

        Raises
        ------
        SandboxError
            The scheduler does not answer.
        """
        content, left = cloudpickle.dumps((function, tuple(shared))), dict(items)
        sent: Any = None
        names: dict[Any, str] = {}
        try:
            while left:
                try:
                    if sent is None:
                        sent = self.client.scatter(content, hash=False)
                    for name in left.keys() - names.values():
                        names[self.client.submit(_call, sent, left[name], pure=False, key=_key())] = name
                except Exception:
                    self.check()
                    raise
                done = [future for future in names if future.done()]
                if not done:
                    self.note_if_lonely()  # and see whether the scheduler is there
                    time.sleep(_PAUSE_SECONDS)
                for future in done:
                    name = names.pop(future)
                    if future.cancelled():  # what is shared is gone with the workers that had it
                        self.check()
                        sent = None
                    else:
                        found = future.result()
                        del left[name]
                        yield name, found
        finally:
            with suppress(Exception):
                self.client.cancel(list(names), force=True)

    def note_if_lonely(self) -> None:
        """Tell the user, once each time, that no worker has been there for a while."""
        if self.workers():
            self._lonely_since = None
        elif self._lonely_since is None:
            self._lonely_since = time.monotonic()
        elif 0 < self._lonely_since < time.monotonic() - _LONELY_SECONDS:
            self._lonely_since = float("inf")
            warn_user(f"the cluster at {self.address} has no workers; evaluations wait until one joins")

    def close(self) -> None:
        """Close the client, unless it was given."""
        if self._owned:
            with suppress(Exception):
                self.client.close(timeout=CONNECT_SECONDS)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Cluster({self.address!r})"


class RemoteSandbox:
    """An objective that evaluates another one in sandboxes on the workers of a cluster.

    It is called, interrupted and closed as a `Sandbox` is, from any number of threads.

    Parameters
    ----------
    objective
        Any `Objective`, a function of a pipeline, or a `Sandbox`, whose options are then taken.
    spool
        Directory of this machine for artefacts; theirs are moved here from the workers.
    preload, threads, mode
        As for `Sandbox`.
    """

    def __init__(
        self,
        cluster: Cluster,
        objective: Objective | Callable[..., Any],
        *,
        preload: Iterable[str] = (),
        threads: int = 1,
        mode: str | None = None,
        spool: str | os.PathLike[str],
    ) -> None:
        self._cluster = cluster
        self._token = uuid.uuid4().hex
        self._spool = Path(spool)
        self._numbers = itertools.count()
        if isinstance(objective, Sandbox):
            self._payload = objective.payload()
            self._options = {**objective.options, "spool": None}
        else:
            self._payload = _wire.payload_bytes(_wire.pickle_objective(as_objective(objective)))
            self._options = {"preload": tuple(preload), "threads": threads, "mode": mode, "spool": None}
        self._name = repr(objective)
        self._lock = threading.Lock()
        self._sent: Any = None
        self._under_way: set[Any] = set()
        self._interruptions = 0
        self._closed = False

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        """Evaluate `pipeline` on a worker; artefacts of the outcome are files of this machine."""
        interruptions = self._interruptions
        left = limits.left
        call = cloudpickle.dumps((pipeline, replace(limits, deadline=None), seed, fidelity))
        while True:
            future, sent = self._submit(call, left)
            try:
                outcome, files = self._wait(future, limits, interruptions)
            except _Ended as error:
                return Outcome.failed(error.status, str(error), fidelity=fidelity)
            except _DataLost:
                self._send_again(sent)
                continue
            finally:
                with self._lock:
                    self._under_way.discard(future)
            if self._ended(interruptions) and not outcome.ok:
                return Outcome.failed(
                    Status.CRASHED, f"the sandbox was {self._ended(interruptions)}", fidelity=fidelity
                )
            return replace(outcome, artefacts={name: self._received(name, file) for name, file in files.items()})

    def _submit(self, call: bytes, left: float | None) -> tuple[Any, Any]:
        client = self._cluster.client
        try:
            with self._lock:
                if self._closed:
                    raise _Ended(Status.CRASHED, "the sandbox was closed")
                if self._sent is None:
                    self._sent = client.scatter(self._payload, hash=False)
                sent = self._sent
                future = client.submit(
                    _evaluate, sent, self._token, self._options, self._name, call, left, pure=False, key=_key()
                )
                self._under_way.add(future)
        except Exception as error:
            self._cluster.check()
            raise SandboxError(f"the cluster takes no more work: {error}") from error
        return future, sent

    def _send_again(self, sent: Any) -> None:
        """The workers that had the table are gone, all of them."""
        with self._lock:
            if self._sent is sent:
                self._sent = None

    def _wait(
        self, future: Any, limits: Limits, interruptions: int
    ) -> tuple[Outcome, dict[str, tuple[str, bytes] | str]]:
        """What a worker returned; raises `_Ended` if nothing is to be had, `_DataLost` if all is to be sent again."""
        from distributed import KilledWorker

        while True:
            left = limits.left
            try:
                found: tuple[Outcome, dict[str, Any]] = future.result(
                    timeout=_TICK_SECONDS if left is None else min(_TICK_SECONDS, left + _GRACE_SECONDS)
                )
                return found
            except TimeoutError:
                if left == 0:
                    future.cancel()
                    raise _Ended(Status.TIMEOUT, "no worker of the cluster had ended it by its deadline") from None
                self._cluster.note_if_lonely()
            except KilledWorker as error:
                raise _Ended(Status.CRASHED, f"the workers that evaluated it died: {error}") from None
            except SandboxError:
                raise
            except Exception as error:
                if ended := self._ended(interruptions):
                    raise _Ended(Status.CRASHED, f"the sandbox was {ended} during the evaluation") from None
                self._cluster.check()
                if future.cancelled():  # what it needs is gone with the workers that had it
                    raise _DataLost from error
                raise

    def _received(self, name: str, file: tuple[str, bytes] | str) -> Path:
        if isinstance(file, str):
            return Path(file)
        suffix, content = file
        path = self._spool / f"{self._token[:8]}-{next(self._numbers)}-{name}{suffix}"
        path.write_bytes(content)
        return SpooledFile(path)

    def _ended(self, interruptions: int) -> str:
        return "closed" if self._closed else "interrupted" if self._interruptions != interruptions else ""

    def interrupt(self) -> None:
        """End calls under way, which return ``crashed``."""
        with self._lock:
            self._interruptions += 1
            under_way = [*self._under_way]
        self._tell_workers("interrupt", under_way)

    def close(self) -> None:
        """End the sandboxes of all workers, and calls under way with them."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            under_way, self._sent = [*self._under_way], None
        self._tell_workers("close", under_way)

    def _tell_workers(self, what: str, under_way: list[Any]) -> None:
        client = self._cluster.client
        with suppress(Exception):  # of a scheduler that is gone, they end by themselves
            if under_way:
                client.cancel(under_way, force=True)
            if client.status == "running":
                client.run(_tell, self._token, what, on_error="ignore")

    def __enter__(self) -> RemoteSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{self._cluster!r}.sandbox({self._name})"


class _Ended(Exception):
    """There will be no outcome from a worker."""

    def __init__(self, status: Status, text: str) -> None:
        super().__init__(text)
        self.status = status


class _DataLost(Exception):
    """The objective is on no worker any more."""


# -- on a worker -------------------------------------------------------------------------------------------------------


def _evaluate(
    payload: bytes, token: str, options: dict[str, Any], name: str, call: bytes, left: float | None
) -> tuple[Outcome, dict[str, tuple[str, bytes] | str]]:
    """Evaluate in a sandbox of this worker; the outcome, and its artefacts as a suffix and bytes."""
    sandbox = Sandbox.shared(token, payload, options, name)
    pipeline, limits, seed, fidelity = cloudpickle.loads(call)
    limits = replace(limits, deadline=None if left is None else time.time() + left)
    most = _own_bytes()
    if most is not None:
        limits = replace(limits, bytes=min(most, limits.bytes or most))
    outcome = sandbox(pipeline, limits, seed, fidelity)
    files: dict[str, tuple[str, bytes] | str] = {}
    for key, path in outcome.artefacts.items():
        if isinstance(path, SpooledFile):
            files[key] = (path.suffix, path.read_bytes())
            path.unlink(missing_ok=True)
        else:
            files[key] = str(path)
    return replace(outcome, artefacts={}), files


_loads = lru_cache(maxsize=1)(cloudpickle.loads)  # bytes that a worker was sent once are the same object each time


def _call(content: bytes, item: Any) -> Any:
    function, shared = _loads(content)
    with one_blas_thread():
        return function(*shared, item)


def _own_bytes() -> int | None:
    """Memory of this worker for each of its threads."""
    from distributed import get_worker

    worker = get_worker()
    most = worker.memory_manager.memory_limit
    return int(MEMORY_SHARE * most / worker.state.nthreads) if most else None


def _tell(token: str, what: str) -> None:
    getattr(WorkerPool.known(token), what, lambda: None)()


def _versions() -> dict[str, str]:
    import platform

    from headstart import __version__

    return {"headstart": __version__, "python": ".".join(platform.python_version_tuple()[:2])}


def _in_words(versions: Any) -> str:
    if not isinstance(versions, dict):
        return f"none: {versions}"
    return ", ".join(f"{name} {version}" for name, version in versions.items())


def _key() -> str:
    return f"headstart-{uuid.uuid4().hex}"
