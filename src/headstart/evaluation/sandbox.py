"""`Sandbox`: runs every evaluation in a process of its own, within limits of time and memory.

Own work rather than a library: `multiprocessing` imports the user's ``__main__`` again, which breaks scripts without a
guard, and may not be used inside of Dask's workers; libraries that limit a function start a fresh process for each
call, and with it load the libraries and the table each time.

====================  =================================================================================================
``sandbox.py``        what the user sees
``_pool.py``          the workers of one sandbox
``_processes.py``     the main process' side of one worker
``worker.py``         the worker's side
``_fork.py``          an evaluation in a fork, watched by the worker (Linux)
``_trees.py``         trees of processes: who belongs to one, how much memory it holds
``_verdicts.py``      how an evaluation that gave no answer is reported
``_wire.py``          what passes between the two
====================  =================================================================================================
"""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import cloudpickle

from headstart.errors import InvalidInput
from headstart.evaluation import _wire
from headstart.evaluation._pool import WorkerPool
from headstart.evaluation._trees import exact_from_outside, usage
from headstart.evaluation.objective import Objective, as_objective
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome, SpooledFile


class Sandbox:
    """An objective that evaluates another one in worker processes and holds it to its limits.

    Whatever an evaluation does - run for ever, take all memory, crash, exit, start processes - the call returns an
    `Outcome` in time and nothing of it is left. The objective is sent once and its arrays are memory-mapped, so that
    any number of workers share one copy. Calls may come from several threads; each takes an idle worker or starts one.

    Parameters
    ----------
    objective
        Any `Objective`, or a function of a pipeline, which becomes a `FunctionObjective`. It travels by cloudpickle:
        lambdas, closures and functions of a script or a notebook will do. It is taken as it is now; later changes of it
        are not seen.
    preload
        Names of modules that workers import in advance, so that evaluations need not. Those that are not installed are
        left out.
    threads
        Number of threads that numeric libraries may use in an evaluation.
    mode
        ``"fork"`` has a worker fork for each evaluation (Linux only, and there the default); ``"serve"`` has the worker
        evaluate by itself and be replaced after it had to be killed.
    spool
        Directory for the objective's data and for artefacts; it stays when the sandbox is closed. By default a
        temporary one that goes with the sandbox. Give a directory that all machines share when evaluations run on a
        cluster and their artefacts matter.

    Notes
    -----
    A pickled sandbox carries its objective and starts its own workers where it is unpickled. Copies of one sandbox in
    one process share their workers, also with later copies.

    Time to start a worker is not part of a limit in seconds, but of its deadline; `warm` starts them ahead.

    What an evaluation prints is dropped, but for the end of it in the error of one that dies. Memory in files on a
    memory file system (``/dev/shm``, memfd) that are not mapped is not counted.

    Examples
    --------
    >>> with Sandbox(lambda pipeline: 1 / 3) as sandbox:
    ...     sandbox(Pipeline(["knn"]), Limits(seconds=10), seed=0).loss
    0.3333333333333333
    """

    def __init__(
        self,
        objective: Objective | Callable[..., Any],
        *,
        preload: Iterable[str] = (),
        threads: int = 1,
        mode: str | None = None,
        spool: str | os.PathLike[str] | None = None,
    ) -> None:
        objective = as_objective(objective)
        if isinstance(preload, str):
            raise TypeError(f"preload must be a list of module names, got the string {preload!r}; use ({preload!r},)")
        if not isinstance(threads, int) or threads < 1:
            raise InvalidInput(f"threads must be a positive whole number, got {threads!r}")
        if mode not in (None, "fork", "serve"):
            raise InvalidInput(f"mode must be 'fork', 'serve' or None, got {mode!r}")
        if mode == "fork" and sys.platform != "linux":
            raise InvalidInput(f"mode 'fork' needs Linux, found {sys.platform!r}; use mode='serve'")
        self._options: dict[str, Any] = {
            "preload": tuple(preload),
            "threads": threads,
            "mode": mode,
            "spool": None if spool is None else os.path.abspath(spool),
        }
        self._name = repr(objective)
        sections = _wire.pickle_objective(objective)
        self._attach(WorkerPool(uuid.uuid4().hex, lambda path: _wire.write_payload(sections, path), **self._options))

    def _attach(self, pool: WorkerPool) -> None:
        self._pool = pool
        pool.attach(self)

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        """Evaluate `pipeline` in a worker.

        Artefacts of the outcome are paths of files: ``.npy`` for arrays, ``.bin`` for bytes, ``.pkl`` (cloudpickle) for
        anything else. Only an outcome that is ok has them.
        """
        stem = self._pool.new_stem()
        request = {"call": cloudpickle.dumps((pipeline, seed)), "fidelity": fidelity, "stem": stem}
        ok = False
        try:
            outcome, artefacts = self._pool.evaluate(request, limits)
            ok = outcome.ok
        finally:
            if not ok:
                for path in stem.parent.glob(f"{stem.name}-*"):
                    path.unlink(missing_ok=True)
        if not ok:
            return replace(outcome, fidelity=fidelity)
        return replace(outcome, artefacts={name: _handed_over(path, stem) for name, path in artefacts.items()})

    @property
    def mode(self) -> str:
        """``"fork"`` or ``"serve"``."""
        return self._pool.setup.mode

    @property
    def missing_limits(self) -> tuple[str, ...]:
        """What this system or mode cannot hold, in words; empty where everything is held."""
        if self.mode == "fork":
            measurable = usage(os.getpid()) is not None
            return () if measurable else ("memory is not limited, since /proc does not show how much a process uses",)
        missing = [
            "detached processes that an evaluation starts live until the sandbox is closed",
            "memory is measured every 20 ms or more with no hard limit behind it, so one huge allocation may succeed",
            "when the main process is killed, a computation that holds the interpreter lock finishes first",
        ]
        if not exact_from_outside():
            missing.append("memory is counted with an allowance for the size of the objective's data")
        return tuple(missing)

    @property
    def slowdown(self) -> float:
        """How many times slower than alone on a machine a worker was when it started; 1 before any has."""
        return self._pool.slowdown

    def warm(self, n: int = 1) -> None:
        """Start workers until there are `n`, all at once, and return when they are ready."""
        self._pool.warm(n)

    def interrupt(self) -> None:
        """End calls under way, which return ``crashed``; the sandbox stays usable."""
        self._pool.interrupt()

    def close(self) -> None:
        """End all workers, and calls under way with them, and remove temporary files, artefacts among them.

        Calls under way return ``crashed``. The sandbox, and copies of it in this process, cannot be called afterwards.
        """
        self._pool.close()

    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def shared(cls, token: str, payload: bytes, options: Mapping[str, Any], name: str) -> Sandbox:
        """A copy of the sandbox `token`, on the workers that this process has for it already, if any."""
        sandbox = cls.__new__(cls)
        sandbox._options = dict(options)
        sandbox._name = name
        sandbox._attach(WorkerPool.shared(token, payload, options))
        return sandbox

    @property
    def options(self) -> dict[str, Any]:
        """What it was made with, besides the objective."""
        return dict(self._options)

    def payload(self) -> bytes:
        """The objective, as workers read it."""
        return self._pool.read_payload()

    def __reduce__(self) -> tuple[Any, ...]:
        return Sandbox.shared, (self._pool.token, self.payload(), self._options, self._name)

    def __repr__(self) -> str:
        return f"Sandbox({self._name}, mode={self.mode!r})"


def _handed_over(path: str, stem: Path) -> Path:
    """A file that the worker wrote may be moved by who stores it; one that the objective named is the user's."""
    return SpooledFile(path) if path.startswith(f"{stem}-") else Path(path)
