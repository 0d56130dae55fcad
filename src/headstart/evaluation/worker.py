"""The program that a sandbox starts: ``python -m headstart.evaluation.worker``.

It loads libraries and the objective once, then answers requests until the process that started it is gone. How it
evaluates depends on the mode: ``fork`` forks a process for each evaluation and watches over it; ``serve`` evaluates by
itself and is watched, and if need be killed, by the process that started it.
"""

from __future__ import annotations

import faulthandler
import functools
import gc
import importlib
import importlib.util
import json
import os
import pickle
import queue
import select
import signal
import site
import sys
import sysconfig
import threading
import time
import traceback
import types
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import cloudpickle

from headstart.evaluation import _wire
from headstart.evaluation._trees import kill_tree, usage
from headstart.evaluation.objective import Objective, describe, out_of_memory, outcome_of
from headstart.trials import Outcome, Status

_IDLE_SECONDS = 0.5
_END_SECONDS = 5.0
_PARENT_END_SECONDS = 2.0
_MAX_ERROR = 20_000
_LEARN_SECONDS = 2.0


def main() -> None:
    """Set up, report, serve."""
    control, answers = _take_pipes()
    request = _wire.receive(control)
    if request is None:
        return
    setup = pickle.loads(request)
    sys.path[:] = setup["path"]
    os.environ.pop("PYTHONPATH", None)
    os.environ.update(setup["environment"])
    worker = Worker(setup, control, answers)
    try:
        worker.load()
        worker.run()
    except BrokenPipeError:
        pass  # nobody listens any more
    except BaseException:
        traceback.print_exc()  # the sandbox shows it
    finally:
        worker.leave()


def _take_pipes() -> tuple[int, int]:
    """Move the pipes to and from the sandbox away from where user code reads and prints."""
    control, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    faulthandler.enable()
    return control, answers


def _preload(modules: tuple[str, ...]) -> list[str]:
    """Import `modules`; the names of those that cannot be."""
    missing = []
    for name in modules:
        try:
            importlib.import_module(name)
        except Exception:
            missing.append(name)
    return missing


class _TakesLong(BaseException):
    """An import does. No `Exception`, or the module that is imported might go on after it."""


@functools.cache
def _library_folders() -> tuple[str, ...]:
    """Where installed modules are, and this package."""
    names = ("stdlib", "platstdlib", "purelib", "platlib")
    found = [*map(sysconfig.get_path, names), *site.getsitepackages(), site.getusersitepackages()]
    return tuple(os.path.join(os.path.realpath(path), "") for path in [*found, str(Path(__file__).parents[1])])


def _is_installed(name: str) -> bool:
    """Whether a module belongs to Python, to an installed library or to this package; imports nothing."""
    try:
        spec = importlib.util.find_spec(name.partition(".")[0])
    except (ImportError, ValueError):
        return False
    if spec is None or spec.origin in ("built-in", "frozen"):
        return spec is not None
    places = [spec.origin] if spec.origin else [*(spec.submodule_search_locations or ())]
    return bool(places) and all(os.path.realpath(place).startswith(_library_folders()) for place in places)


def _freeze() -> None:
    """Keep the collector of each fork from writing to, and so copying, all that is loaded."""
    gc.collect()
    gc.freeze()


def _answer(fd: int, content: Mapping[str, Any]) -> None:
    _wire.send(fd, json.dumps(content).encode())


class Worker:
    """Loads the objective, then answers requests in one of the two modes.

    Parameters
    ----------
    setup
        The sandbox's first message.
    control, answers
        Pipes from and to the sandbox.
    """

    def __init__(self, setup: Mapping[str, Any], control: int, answers: int) -> None:
        self._setup = setup
        self._parent: int = setup["parent"]
        self._forks = setup["mode"] == "fork"
        self._control = control
        self._answers = answers
        self._objective: Objective
        self._given_up: set[str] = set()

    def load(self) -> None:
        """Load libraries and objective, and report how that went."""
        try:
            missing = _preload(self._setup["preload"])
            self._objective = _wire.load_payload(self._setup["payload"])
        except BaseException as error:
            _answer(self._answers, {"failed": describe(error), "again": out_of_memory(error)})
            self.leave()
        # In the other mode, the sandbox measures memory itself.
        measures = not self._forks or usage(os.getpid()) is not None
        ready = {"ready": True, "missing": missing, "memory": measures, "processor_seconds": time.process_time()}
        _answer(self._answers, ready)

    def run(self) -> None:
        """Answer until the sandbox is gone."""
        if self._forks:
            self._run_forking()
        else:
            self._run_serving()

    def _run_forking(self) -> None:
        from headstart.evaluation import _fork

        _fork.adopt_orphans()
        # Libraries may have started threads. They do not exist in a fork, which these libraries are made to survive.
        warnings.filterwarnings("ignore", message=".*fork", category=DeprecationWarning)
        _freeze()
        mapped = self._setup["payload"].stat().st_size
        pipes = (self._control, self._answers)

        def fork() -> _fork.Fork:
            return _fork.Fork(self._evaluate, mapped, pipes, self._parent)

        try:
            ready, dying = fork(), None
            while (body := self._next_request()) is not None:
                _answer(self._answers, {"started": True})
                if not ready.alive:
                    ready = fork()
                answer = ready.evaluate(body, pickle.loads(body)["limits"], dying)
                modules = answer.pop("modules", [])
                _answer(self._answers, answer)
                dying = ready.pid
                if not _fork.end_descendants(_END_SECONDS, (dying,)):
                    return  # something cannot be killed; the sandbox starts another worker
                if modules:
                    self._learn(modules)
                ready = fork()
        except _fork.ParentGone:
            pass

    def _next_request(self) -> bytes | None:
        """Wait for a request; ``None`` when there will be none."""
        while not select.select([self._control], [], [], _IDLE_SECONDS)[0]:
            if self._parent_gone():
                return None
        return _wire.receive(self._control)

    def _evaluate(self, body: bytes) -> dict[str, Any]:
        return _Evaluation(self._objective, pickle.loads(body))()

    def _learn(self, modules: list[str]) -> None:
        """Import what an evaluation imported, so that the next forks have it.

        Libraries import much of themselves when it is first used: in a fork, that would be in every evaluation. Only
        installed libraries: no limit holds here, and a module of the user's own could do anything. What takes long
        is given up for good.
        """

        def give_up(*_: object) -> NoReturn:
            raise _TakesLong

        deadline = time.monotonic() + _LEARN_SECONDS
        old = signal.signal(signal.SIGALRM, give_up)
        try:
            for name in modules:
                if name in self._given_up or name in sys.modules or not _is_installed(name):
                    continue
                self._given_up.add(name)
                signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 1e-3), 0.1)
                importlib.import_module(name)
                signal.setitimer(signal.ITIMER_REAL, 0)
                self._given_up.discard(name)
        except BaseException:
            pass  # no other module this time
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)
        _freeze()

    def _run_serving(self) -> None:
        requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._listen, args=[requests], daemon=True).start()
        threading.Thread(target=self._look_after_parent, daemon=True).start()
        while True:
            body = requests.get()
            _answer(self._answers, {"started": True})
            _answer(self._answers, self._evaluate(body))

    def _listen(self, requests: queue.SimpleQueue[bytes]) -> None:
        while (body := _wire.receive(self._control)) is not None:
            requests.put(body)
        self.leave()

    def _look_after_parent(self) -> None:
        while not self._parent_gone():
            time.sleep(_IDLE_SECONDS)
        self.leave()

    def leave(self) -> NoReturn:
        """End this process, from any thread, with all that it started; tidy up for a sandbox that cannot any more."""
        try:
            if self._forks:
                from headstart.evaluation import _fork

                _fork.end_descendants(_END_SECONDS)
            else:
                kill_tree(os.getpid())
            # A dying process closes its pipes a little before it is gone.
            deadline = time.monotonic() + _PARENT_END_SECONDS
            while not self._parent_gone() and time.monotonic() < deadline:
                time.sleep(0.01)
            if self._parent_gone() and self._setup["owner"] == self._parent:
                _wire.clean_spool(self._setup["payload"].parent, self._setup["temporary"])
        finally:
            os._exit(0)

    def _parent_gone(self) -> bool:
        if os.name == "posix":
            return os.getppid() != self._parent
        import psutil

        return not psutil.pid_exists(self._parent)


class _Evaluation:
    """One request, evaluated when called; the answer is made of JSON types."""

    def __init__(self, objective: Objective, request: Mapping[str, Any]) -> None:
        self._objective = objective
        self._request = request

    def __call__(self) -> dict[str, Any]:
        process = os.getpid()
        known = {*sys.modules}
        try:
            outcome = _plain(outcome_of(self._evaluate, self._request["fidelity"]))
            artefacts = save_artefacts(outcome.artefacts, self._request["stem"]) if outcome.ok else {}
        except BaseException as error:
            outcome, artefacts = self._failure(error), {}
        if os.getpid() != process:  # the objective forked, and its fork came back from there too
            os._exit(0)
        modules = [name for name in sys.modules if name not in known]
        return {"outcome": outcome.to_dict(), "artefacts": artefacts, "modules": modules}

    def _evaluate(self) -> Outcome:
        pipeline, seed = pickle.loads(self._request["call"])
        return self._objective(pipeline, self._request["limits"], seed, self._request["fidelity"])

    def _failure(self, error: BaseException) -> Outcome:
        status, text = Status.CRASHED, describe(error)
        if isinstance(error, SystemExit):
            text = f"called sys.exit({error.code!r})"
        elif out_of_memory(error):
            status, text = Status.MEMORY, f"out of memory: {text}"
        return Outcome.failed(status, text[:_MAX_ERROR], fidelity=self._request["fidelity"])


def _plain(outcome: Outcome) -> Outcome:
    """The same outcome with Python's own numbers, or an invalid one when its numbers are none."""
    try:
        return replace(
            outcome,
            loss=None if outcome.loss is None else float(outcome.loss),
            fold_losses=tuple(float(loss) for loss in outcome.fold_losses),
            constraints={str(name): float(value) for name, value in outcome.constraints.items()},
            seconds=float(outcome.seconds),
            bytes=int(outcome.bytes),
            error=None if outcome.error is None else str(outcome.error)[:_MAX_ERROR],
        )
    except (TypeError, ValueError) as error:
        text = f"losses, constraint values, seconds and bytes of an outcome must be numbers: {error}"
        return Outcome.failed(Status.INVALID, text, fidelity=outcome.fidelity)


def save_artefacts(artefacts: Mapping[str, Any], stem: Path) -> dict[str, str]:
    """Write each artefact to a file beginning with `stem`; paths by name. An artefact that is a path stays there."""
    paths = {}
    for number, (name, artefact) in enumerate(artefacts.items()):
        if isinstance(artefact, Path):
            paths[str(name)] = str(artefact)
            continue
        suffix, write = _writer(artefact)
        safe = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in str(name))[:60]
        path = stem.with_name(f"{stem.name}-{number}-{safe}{suffix}")
        with path.open("wb") as file:
            write(file)
        paths[str(name)] = str(path)
    return paths


def _writer(artefact: Any) -> tuple[str, Callable[[Any], Any]]:
    """Suffix of the file for an artefact, and what writes it."""
    if isinstance(artefact, bytes | bytearray | memoryview):
        return ".bin", lambda file: file.write(artefact)
    numpy = sys.modules.get("numpy")  # not imported: no array
    if numpy is not None and isinstance(artefact, numpy.ndarray) and not artefact.dtype.hasobject:
        return ".npy", lambda file: numpy.save(file, artefact, allow_pickle=False)
    return ".pkl", lambda file: cloudpickle.dump(artefact, file)


if __name__ == "__main__":
    # User code must neither find this module under the name of the user's own script nor have it imported again by
    # the multiprocessing that it may do.
    sys.modules["__main__"] = types.ModuleType("__main__")
    importlib.import_module("headstart.evaluation.worker").main()
