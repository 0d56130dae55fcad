"""The sandbox against evaluations that do everything an evaluation should not do."""

from __future__ import annotations

import ctypes
import functools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cloudpickle
import numpy as np
import psutil
import pytest

from headstart.errors import HeadstartError, InvalidInput, SandboxError
from headstart.evaluation import _pool, _processes, _wire
from headstart.evaluation.objective import FunctionObjective
from headstart.evaluation.sandbox import Sandbox
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome, SpooledFile, Status

# The test module cannot be imported by a worker, as little as a user's script can.
cloudpickle.register_pickle_by_value(sys.modules[__name__])

MB = 1 << 20
LONG = Limits(seconds=30)
PIPELINE = Pipeline(["knn"], [{"n_neighbors": 3}])

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
both_modes = pytest.mark.parametrize("mode", [pytest.param("fork", marks=linux), "serve"])


ACTIONS = {}
"""What the objective `dispatch` can do, by name."""


def action(function):
    ACTIONS[function.__name__] = function
    return function


def dispatch(pipeline):
    return ACTIONS[pipeline.algorithms[0]](**pipeline.params[0])


def call(name, argument=None):
    """A pipeline that has `dispatch` do something."""
    return Pipeline([name], [{} if argument is None else {"argument": argument}])


@action
def answers():
    return 0.25


@action
def returns_nan():
    return float("nan")


@action
def returns_text():
    return "good"


@action
def raises():
    raise ZeroDivisionError("one over nothing")


@action
def raises_memory_error():
    raise MemoryError


@action
def raises_interrupt():
    raise KeyboardInterrupt


@action
def exits():
    sys.exit(3)


@action
def exits_at_once():
    os._exit(5)


@action
def aborts():
    os.abort()


@action
def segfaults():
    ctypes.string_at(0)


@action
def stops():
    os.kill(os.getpid(), signal.SIGSTOP)


@action
def sleeps():
    time.sleep(60)


@action
def computes():
    while True:
        pass


@action
def ignores_signals():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    time.sleep(60)


@action
def allocates_bit_by_bit():
    kept = []
    while True:
        kept.append(np.ones(2 * MB // 8))
        time.sleep(0.001)


@action
def allocates_at_once():
    return float(np.ones(64 << 30, dtype=np.uint8)[0])


@action
def aborts_like_native_code():
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


@action
def prints(argument):
    chunk = b"x" * MB
    for _ in range(argument):
        os.write(1, chunk)
        os.write(2, chunk)
    return 1.0


@action
def forks(argument):
    """Fifty processes that sleep, half of them each in a session of their own; their ids go to a file."""
    for number in range(50):
        pid = os.fork()
        if pid == 0:
            if number % 2:
                os.setsid()
            time.sleep(100)
            os._exit(0)
        with open(argument, "a") as file:
            file.write(f"{pid}\n")
    return 1.0


@action
def daemonises(argument):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        Path(argument).write_text(str(os.getpid()))
        time.sleep(100)
        os._exit(0)
    while not (os.path.exists(argument) and Path(argument).read_text()):
        time.sleep(0.01)
    return 1.0


@action
def forks_and_returns_twice():
    os.fork()
    return 1.0


@action
def children_allocate(argument):
    for _ in range(4):
        if os.fork() == 0:
            kept = np.ones(argument, dtype=np.uint8)
            time.sleep(100)
            os._exit(int(kept[0]))
    time.sleep(100)


@action
def children_share(argument):
    """Four forks of a process that holds `argument` bytes take no more than the process alone."""
    kept = np.ones(argument, dtype=np.uint8)
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            time.sleep(0.5)
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)
    return float(kept[0])


@action
def writes_everywhere():
    for fd in range(3, 256):
        try:
            os.write(fd, b"\xff" * 1000)
        except OSError:
            continue
    return 1.0


@action
def floods_everything():
    for fd in range(3, 256):
        try:
            for _ in range(2000):
                os.write(fd, b"\x00" * MB)
        except OSError:
            continue
    return 1.0


@action
def answers_too_much():
    return Outcome.of(1.0, constraints={"x" * 70 * MB: 1.0})


@action
def fails_at_length():
    raise ValueError("very " * 4 * MB)


@action
def closes_everything():
    os.closerange(0, 4096)
    return 1.0


@action
def kills_parent(argument):
    if os.fork() == 0:
        os.setsid()
        Path(argument).write_text(str(os.getpid()))
        time.sleep(100)
        os._exit(0)
    while not (os.path.exists(argument) and Path(argument).read_text()):
        time.sleep(0.01)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(60)


@action
def stops_parent():
    os.kill(os.getppid(), signal.SIGSTOP)
    time.sleep(60)


@action
def thread_settings():
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    values = {os.environ[name] for name in (*variables, "NUMEXPR_NUM_THREADS")}
    return float(values.pop()) if len(values) == 1 else -1.0


@action
def makes_artefacts():
    artefacts = {
        "predictions": np.arange(6.0).reshape(2, 3),
        "blob/../x": b"abc",
        "model": {"a": [1, 2]},
        "names": np.array(["a", None], dtype=object),
        "file": Path("somewhere.txt"),
    }
    return Outcome.of(
        np.float32(0.5),
        artefacts=artefacts,
        constraints={"latency": np.float64(0.25), "worst": np.float32("inf")},
        fold_losses=np.array([0.25, 0.75]),
    )


@action
def fails_with_artefacts():
    return Outcome.of(float("nan"), artefacts={"predictions": np.zeros(3)})


@action
def strange_outcome():
    return Outcome.of(1.0, constraints={"latency": "fast"})


def gone(pid):
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def eventually(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


@pytest.fixture(scope="module")
def sandboxes():
    """One sandbox for each mode, for all tests that leave it usable."""
    made = {}

    def get(mode):
        if mode not in made:
            made[mode] = Sandbox(dispatch, mode=mode, preload=("numpy", "no_such_module"))
        return made[mode]

    yield get
    for sandbox in made.values():
        sandbox.close()


@pytest.fixture
def sandbox(sandboxes):
    return sandboxes("fork")


# Every status


@both_modes
@pytest.mark.parametrize(
    ("name", "status", "text"),
    [
        ("answers", Status.OK, None),
        ("returns_nan", Status.INVALID, "finite"),
        ("returns_text", Status.INVALID, "must return a number"),
        ("strange_outcome", Status.INVALID, "must be numbers"),
        ("raises", Status.CRASHED, "ZeroDivisionError: one over nothing\n  at "),
        ("raises_memory_error", Status.MEMORY, "out of memory"),
        ("raises_interrupt", Status.CRASHED, "KeyboardInterrupt"),
        ("exits", Status.CRASHED, "sys.exit(3)"),
        ("exits_at_once", Status.CRASHED, "exited with code 5"),
        ("aborts", Status.CRASHED, "SIGABRT"),
        ("segfaults", Status.CRASHED, "killed by signal 11 (SIGSEGV)"),
        ("aborts_like_native_code", Status.MEMORY, "bad_alloc"),
        ("fails_at_length", Status.CRASHED, "very very"),
        ("answers_too_much", Status.INVALID, "return large results as artefacts"),
        ("writes_everywhere", Status.CRASHED, "something other than a result"),
        ("closes_everything", Status.CRASHED, None),
    ],
)
def test_status(sandboxes, mode, name, status, text):
    outcome = sandboxes(mode)(call(name), LONG, 0, Fidelity(rows=0.5))
    assert outcome.status is status, outcome
    assert outcome.fidelity == Fidelity(rows=0.5)
    if text is not None:
        assert text in outcome.error
        assert len(outcome.error) < 100_000
    assert sandboxes(mode)(call("answers"), LONG, 0).loss == 0.25


@both_modes
@pytest.mark.parametrize("name", ["sleeps", "computes", "stops", "ignores_signals"])
def test_time_limit(sandboxes, mode, name):
    started = time.monotonic()
    outcome = sandboxes(mode)(call(name), Limits(seconds=0.5), 0)
    assert outcome.status is Status.TIMEOUT
    assert outcome.error == "took longer than 0.5 s"
    assert 0.5 <= outcome.seconds < 3
    assert time.monotonic() - started < 10  # with the time to replace a worker


@both_modes
def test_memory_limit(sandboxes, mode):
    outcome = sandboxes(mode)(call("allocates_bit_by_bit"), Limits(20, 100 * MB), 0)
    assert outcome.status is Status.MEMORY
    assert outcome.error == "used more than 100 MiB"
    assert 100 * MB < outcome.bytes < 400 * MB


@linux
def test_huge_allocation_fails_at_once(sandbox):
    outcome = sandbox(call("allocates_at_once"), Limits(20, 100 * MB), 0)
    assert outcome.status is Status.MEMORY
    assert outcome.bytes < 100 * MB


@linux
def test_neighbours_are_unharmed_by_endless_allocation(sandbox):
    names = ["allocates_bit_by_bit", "answers", "allocates_at_once", "answers"]
    with ThreadPoolExecutor(2) as executor:
        outcomes = list(executor.map(lambda name: sandbox(call(name), Limits(20, 100 * MB), 0), names))
    assert [outcome.status.value for outcome in outcomes] == ["memory", "ok", "memory", "ok"]


@linux
def test_memory_of_a_tree_is_counted(sandbox):
    outcome = sandbox(call("children_allocate", 50 * MB), Limits(20, 150 * MB), 0)
    assert outcome.status is Status.MEMORY


@linux
def test_pages_shared_within_a_tree_are_counted_once(sandbox):
    outcome = sandbox(call("children_share", 100 * MB), Limits(20, 220 * MB), 0)
    assert outcome.ok, outcome


# Processes and pipes


@linux
@pytest.mark.parametrize("name", ["forks", "daemonises"])
def test_no_descendant_is_left(sandbox, tmp_path, name):
    pids = tmp_path / "pids"
    assert sandbox(call(name, str(pids)), LONG, 0).ok
    numbers = [int(line) for line in pids.read_text().split()]
    assert len(numbers) == (50 if name == "forks" else 1)
    assert eventually(lambda: all(gone(pid) for pid in numbers), 2.0)


@both_modes
def test_fork_that_returns_too(sandboxes, mode):
    for _ in range(3):
        assert sandboxes(mode)(call("forks_and_returns_twice"), LONG, 0).loss == 1.0


@both_modes
def test_output_is_drained(sandboxes, mode):
    assert sandboxes(mode)(call("prints", 512), LONG, 0).loss == 1.0


@linux
def test_flooded_result_pipe(sandbox):
    outcome = sandbox(call("floods_everything"), LONG, 0)
    assert outcome.status in (Status.CRASHED, Status.INVALID)


@linux
def test_evaluation_that_kills_its_worker(sandbox, tmp_path):
    pids = tmp_path / "pids"
    outcome = sandbox(call("kills_parent", str(pids)), LONG, 0)
    assert outcome.status is Status.CRASHED
    assert eventually(lambda: gone(int(pids.read_text())), 2.0)
    assert "killed by signal 9" in outcome.error
    assert sandbox(call("answers"), LONG, 0).ok


@linux
def test_evaluation_that_stops_its_worker(sandbox):
    started = time.monotonic()
    outcome = sandbox(call("stops_parent"), Limits(seconds=1), 0)
    assert outcome.status is Status.TIMEOUT
    assert time.monotonic() - started < 5
    assert sandbox(call("answers"), LONG, 0).ok


def test_worker_that_dies_while_idle_is_replaced():
    with Sandbox(dispatch) as sandbox:
        assert sandbox(call("answers"), LONG, 0).ok
        (worker,) = sandbox._pool._idle
        worker._process.kill()
        assert sandbox(call("answers"), LONG, 0).ok


# What goes in


def test_plain_functions_are_wrapped():
    offset = 3

    class Local:
        value = 0.5

    def closure(pipeline, seed, fidelity):
        return Local.value + offset + seed + fidelity.rows

    with Sandbox(closure) as sandbox:
        assert sandbox(PIPELINE, LONG, 2, Fidelity(rows=0.5)).loss == 6.0
    with Sandbox(functools.partial(lambda pipeline, by: by * pipeline.params[0]["n_neighbors"], by=2)) as sandbox:
        assert sandbox(PIPELINE, LONG, 0).loss == 6.0
    assert "closure" in repr(Sandbox(closure))


def test_objective_gets_all_arguments():
    class Recorder:
        def __call__(self, pipeline, limits, seed, fidelity=FULL):
            assert pipeline == PIPELINE
            return Outcome.of(seed, constraints={"seconds": limits.seconds, "rows": fidelity.rows}, seconds=7, bytes=9)

    with Sandbox(Recorder()) as sandbox:
        outcome = sandbox(PIPELINE, Limits(20), 11, Fidelity(rows=0.25))
    assert (outcome.loss, outcome.seconds, outcome.bytes) == (11.0, 7.0, 9)
    assert outcome.constraints == {"seconds": 20.0, "rows": 0.25}


def test_arguments_are_checked(tmp_path):
    with pytest.raises(TypeError, match="must be an Objective or a function of a pipeline, got int"):
        Sandbox(3)
    with pytest.raises(InvalidInput, match="threads must be"):
        Sandbox(dispatch, threads=0)
    with pytest.raises(InvalidInput, match="mode must be"):
        Sandbox(dispatch, mode="thread")
    with pytest.raises(TypeError, match="preload must be a list"):
        Sandbox(dispatch, preload="numpy")
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"objective must be picklable.*inside the call"):
        Sandbox(lambda pipeline: lock.locked(), spool=tmp_path)
    assert not list(tmp_path.iterdir())


def test_objective_that_cannot_be_loaded(tmp_path, monkeypatch):
    (tmp_path / "only_here.py").write_text("def objective(pipeline):\n    return 1.5\n")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with Sandbox(only_here.objective) as sandbox:  # a module that is importable here is importable there
        assert sandbox(PIPELINE, LONG, 0).loss == 1.5
    monkeypatch.undo()
    with Sandbox(only_here.objective) as sandbox, pytest.raises(HeadstartError, match="No module named 'only_here'"):
        sandbox(PIPELINE, LONG, 0)
    with Sandbox(only_here.objective) as sandbox, pytest.raises(HeadstartError, match="only_here"):
        sandbox.warm(2)


class DiesAtStart:
    """An objective whose first workers die while they load it."""

    def __init__(self, folder, times, how):
        self.folder, self.times, self.how = folder, times, how

    def __setstate__(self, state):
        self.__dict__.update(state)
        starts = len([*self.folder.iterdir()])
        (self.folder / str(starts)).touch()
        if starts < self.times:
            self.how()

    def __call__(self, pipeline, limits, seed, fidelity):
        return Outcome.of(0.5)


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def lacks_memory():
    raise MemoryError


def cannot_load_a_library():
    raise ImportError("libopenblas.so: failed to map segment from shared object")


@both_modes
@pytest.mark.parametrize("how", [killed, lacks_memory, cannot_load_a_library])
def test_a_worker_that_dies_at_its_start_is_started_again(tmp_path, monkeypatch, mode, how):
    monkeypatch.setattr(_pool, "_PAUSE_SECONDS", 0.01)
    with Sandbox(DiesAtStart(tmp_path, 2, how), mode=mode) as sandbox:
        assert sandbox(PIPELINE, LONG, 0).ok
    assert len([*tmp_path.iterdir()]) == 3


@pytest.mark.parametrize("warm", [False, True])
def test_a_worker_that_always_dies_at_its_start_is_an_error(tmp_path, monkeypatch, warm):
    monkeypatch.setattr(_pool, "_PAUSE_SECONDS", 0.01)
    with Sandbox(DiesAtStart(tmp_path, 99, killed)) as sandbox:
        with pytest.raises(SandboxError, match=r"in 3 attempts; memory may be short.*SIGKILL"):
            sandbox.warm() if warm else sandbox(PIPELINE, LONG, 0)
        assert len([*tmp_path.iterdir()]) == 3
        assert sandbox._pool._workers == set()


def test_no_process_to_be_had_is_an_error(monkeypatch):
    def no(*_, **__):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(_pool, "_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(subprocess, "Popen", no)
    with Sandbox(dispatch) as sandbox, pytest.raises(SandboxError, match="temporarily unavailable"):
        sandbox(PIPELINE, LONG, 0)


def test_slowdown_is_wall_time_by_processor_time_of_the_start():
    class SlowStart:
        def __getstate__(self):
            return {"some": 1}

        def __setstate__(self, state):
            time.sleep(3)

        def __call__(self, pipeline, limits, seed, fidelity):
            return Outcome.of(0.5)

    with Sandbox(SlowStart()) as sandbox:
        assert sandbox.slowdown == 1
        sandbox.warm()
        (worker,) = sandbox._pool._workers
        spent = sum(psutil.Process(worker._process.pid).cpu_times()[:2])
        assert sandbox.slowdown > 1 + 2 / (spent + 0.5)


@linux
def test_modules_of_the_user_are_imported_in_evaluations_only(tmp_path):
    (tmp_path / "own_module.py").write_text(
        "import os, pathlib\n"
        f"with pathlib.Path({str(tmp_path / 'pids')!r}).open('a') as file:\n    file.write(f'{{os.getpid()}}\\n')\n"
    )

    def imports(pipeline):
        import sys

        sys.path.insert(0, str(tmp_path))
        import own_module  # noqa: F401

        return os.getppid()

    with Sandbox(imports, mode="fork") as sandbox:
        (worker,) = {sandbox(PIPELINE, LONG, 0).loss for _ in range(3)}
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    assert worker not in pids


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(threads):
    with Sandbox(dispatch, threads=threads) as sandbox:
        assert sandbox(call("thread_settings"), LONG, 0).loss == threads


def test_arrays_are_mapped_and_writable(tmp_path):
    table = np.arange(1000.0)

    def objective(pipeline):
        table[0] += 1
        assert table.ctypes.data % 64 == 0
        return table.sum()

    with Sandbox(objective) as sandbox:
        expected = table.sum() + 1
        table[:] = 0  # the sandbox has what it was given
        assert sandbox(PIPELINE, LONG, 0).loss == expected
        assert sandbox(PIPELINE, LONG, 0).loss == expected  # what an evaluation wrote was its own


@linux
def test_workers_share_one_copy_of_the_data():
    table = np.ones(200 * MB // 8)

    def objective(pipeline):
        total = table.sum()
        status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
        return Outcome.of(total, constraints={"private": int(status["RssAnon"].split()[0]) << 10})

    with Sandbox(objective) as sandbox:
        sandbox.warm(2)
        with ThreadPoolExecutor(2) as executor:
            outcomes = list(executor.map(lambda _: sandbox(PIPELINE, Limits(30, 50 * MB), 0), range(2)))
    assert all(outcome.loss == table.sum() for outcome in outcomes), outcomes
    assert all(outcome.constraints["private"] < 150 * MB for outcome in outcomes)


# What comes out


@both_modes
def test_artefacts(sandboxes, mode):
    outcome = sandboxes(mode)(call("makes_artefacts"), LONG, 0)
    assert outcome.ok, outcome
    assert outcome.fold_losses == (0.25, 0.75)
    assert outcome.constraints == {"latency": 0.25, "worst": float("inf")}
    paths = outcome.artefacts
    assert all(isinstance(path, Path) for path in paths.values())
    assert len({path.parent for name, path in paths.items() if name != "file"}) == 1
    np.testing.assert_array_equal(np.load(paths["predictions"]), np.arange(6.0).reshape(2, 3))
    assert paths["blob/../x"].suffix == ".bin"
    assert paths["blob/../x"].read_bytes() == b"abc"
    assert pickle.loads(paths["model"].read_bytes()) == {"a": [1, 2]}
    assert pickle.loads(paths["names"].read_bytes()).tolist() == ["a", None]
    assert paths["file"] == Path("somewhere.txt")


def test_spool_keeps_artefacts_and_nothing_else(tmp_path):
    with Sandbox(dispatch, spool=tmp_path / "spool") as sandbox:
        path = sandbox(call("makes_artefacts"), LONG, 0).artefacts["predictions"]
        assert not sandbox(call("fails_with_artefacts"), LONG, 0).artefacts
    assert path.exists()
    assert {found.parent for found in (tmp_path / "spool").rglob("*") if found.is_file()} == {path.parent}
    with Sandbox(dispatch, spool=tmp_path / "other") as sandbox:
        sandbox(call("fails_with_artefacts"), LONG, 0)
    assert not list((tmp_path / "other").iterdir())


# Life of a sandbox


def test_concurrency_and_warm():
    with Sandbox(lambda pipeline: time.sleep(0.3) or os.getppid()) as sandbox:
        sandbox.warm(3)
        assert len(sandbox._pool._idle) == 3
        with ThreadPoolExecutor(4) as executor:
            parents = {o.loss for o in executor.map(lambda _: sandbox(PIPELINE, LONG, 0), range(8))}
        assert len(parents) == len(sandbox._pool._workers) == 4


@both_modes
def test_close_ends_calls_under_way(mode):
    sandbox = Sandbox(dispatch, mode=mode)
    sandbox.warm(1)
    directory = sandbox._pool.setup.payload.parent
    with ThreadPoolExecutor(1) as executor:
        future = executor.submit(sandbox, call("sleeps"), Limits(), 0)
        time.sleep(0.3)
        sandbox.close()
        outcome = future.result(10)
    assert outcome.status is Status.CRASHED
    assert "closed" in outcome.error
    assert not directory.exists()
    sandbox.close()
    with pytest.raises(HeadstartError, match="was closed"):
        sandbox(PIPELINE, LONG, 0)
    with pytest.raises(HeadstartError, match="was closed"):
        sandbox.warm()
    with pytest.raises(HeadstartError, match="was closed"):
        pickle.dumps(sandbox)


@both_modes
def test_interrupt_ends_calls_under_way_and_leaves_the_sandbox_usable(mode):
    with Sandbox(dispatch, mode=mode) as sandbox, ThreadPoolExecutor(2) as executor:
        sandbox.warm(2)
        futures = [executor.submit(sandbox, call("sleeps"), Limits(), 0) for _ in range(2)]
        time.sleep(0.3)
        sandbox.interrupt()
        outcomes = [future.result(10) for future in futures]
        assert [o.status for o in outcomes] == [Status.CRASHED] * 2
        assert all("interrupted" in o.error for o in outcomes)
        assert sandbox(call("answers"), LONG, 0).ok


@linux
def test_what_an_evaluation_imports_is_there_for_the_next():
    def imports(pipeline):
        import sys

        known = "wave" in sys.modules
        import wave  # noqa: F401

        return float(known)

    with Sandbox(imports, mode="fork") as sandbox:
        assert [sandbox(PIPELINE, LONG, 0).loss for _ in range(3)] == [0.0, 1.0, 1.0]


@linux
def test_evaluations_see_the_data_as_they_were_sent():
    class Spoils:
        def __init__(self):
            self.table = np.zeros(1000)

        def __call__(self, pipeline, limits, seed, fidelity):
            self.table += 1
            return Outcome.of(self.table.sum())

    with Sandbox(Spoils(), mode="fork") as sandbox:
        assert [sandbox(PIPELINE, LONG, 0).loss for _ in range(3)] == [1000.0] * 3


def test_garbage_collection_ends_workers():
    sandbox = Sandbox(dispatch)
    sandbox.warm(1)
    (worker,) = sandbox._pool._workers
    directory = sandbox._pool.setup.payload.parent
    del sandbox
    assert eventually(lambda: gone(worker._process.pid))
    assert not directory.exists()


def test_keyboard_interrupt():
    with Sandbox(dispatch) as sandbox:
        sandbox.warm(1)
        (worker,) = sandbox._pool._workers
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        started = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            sandbox(call("sleeps"), Limits(), 0)
        assert time.monotonic() - started < 10
        assert gone(worker._process.pid)
        assert sandbox(call("answers"), LONG, 0).ok


def test_copies_share_workers():
    with Sandbox(dispatch) as sandbox:
        sandbox.warm(1)
        copy = pickle.loads(pickle.dumps(sandbox))
        assert copy(call("answers"), LONG, 0).ok
        assert len(sandbox._pool._workers) == 1
        del copy
        assert sandbox(call("answers"), LONG, 0).ok


def test_copies_in_another_process(tmp_path):
    """Tasks that each unpickle a copy use one worker, and it ends with their process."""
    with Sandbox(lambda pipeline: os.getppid()) as sandbox:
        (tmp_path / "sandbox.pkl").write_bytes(pickle.dumps(sandbox))
    script = """
        import pickle, sys
        from headstart.space.pipeline import Pipeline
        from headstart.trials import Limits

        def task():
            sandbox = pickle.load(open(sys.argv[1], "rb"))
            return sandbox(Pipeline(["knn"]), Limits(20), 0).loss

        print(task(), task(), task())
    """
    result = run_script(tmp_path, script, str(tmp_path / "sandbox.pkl"))
    (parent,) = {int(float(value)) for value in result.split()}
    assert eventually(lambda: gone(parent))


def test_unused_pools_are_closed_in_time(monkeypatch):
    monkeypatch.setattr(_pool, "_LINGER_SECONDS", 0.2)
    options = {"preload": (), "threads": 1, "mode": None, "spool": None}
    used = Sandbox.shared("used", b"", options, "used")
    unused = _pool.WorkerPool.shared("unused", b"", options)
    assert eventually(lambda: not unused.setup.payload.parent.exists())
    assert _pool.WorkerPool.shared("unused", b"", options) is not unused
    assert _pool.WorkerPool.known("used") is used._pool
    used.close()


@linux
def test_fork_of_the_main_process_has_its_own_workers():
    with Sandbox(dispatch) as sandbox:
        sandbox.warm(1)
        pid = os.fork()
        if pid == 0:
            ok = sandbox(call("answers"), LONG, 0).ok
            sandbox.close()
            os._exit(0 if ok else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert sandbox(call("answers"), LONG, 0).ok


# Scripts and notebooks


def run_script(directory, text, *arguments):
    path = directory / "script.py"
    path.write_text(textwrap.dedent(text))
    command = [sys.executable, str(path), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=directory, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


USER_CODE = """
import helper
from headstart.evaluation.sandbox import Sandbox
from headstart.space.pipeline import Pipeline
from headstart.trials import Limits

class Scale:
    factor = 2.0

def loss(pipeline):
    return helper.base() * Scale().factor

sandbox = Sandbox(loss)
print("loss", sandbox(Pipeline(["knn"]), Limits(20), 0).loss)
"""


def test_script_without_guard(tmp_path):
    (tmp_path / "helper.py").write_text("def base():\n    return 21.0\n")
    assert run_script(tmp_path, USER_CODE) == "loss 42.0"


def test_notebook(tmp_path):
    pytest.importorskip("ipykernel")
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class ThisPython(AsyncKernelManager):
        @property
        def kernel_spec(self):
            command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            return KernelSpec(argv=command, display_name="this Python", language="python")

    (tmp_path / "helper.py").write_text("def base():\n    return 21.0\n")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(USER_CODE)])
    client = nbclient.NotebookClient(
        notebook, timeout=60, kernel_manager_class=ThisPython, resources={"metadata": {"path": str(tmp_path)}}
    )
    client.execute()
    assert notebook.cells[0].outputs[0]["text"].strip() == "loss 42.0"


@both_modes
def test_nothing_is_left_when_the_main_process_is_killed(tmp_path, mode):
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(f"""
        import os, subprocess, sys, threading, time
        from headstart.evaluation.sandbox import Sandbox
        from headstart.space.pipeline import Pipeline
        from headstart.trials import Limits

        def loss(pipeline):
            subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
            open(os.path.join({str(tmp_path)!r}, pipeline.algorithms[0]), "w").close()
            time.sleep(100)

        sandbox = Sandbox(loss, mode={mode!r})
        sandbox.warm(3)
        for name in ("first", "second"):
            threading.Thread(target=sandbox, args=[Pipeline([name]), Limits(), 0]).start()
        print(sandbox._pool.setup.payload, sandbox._pool.token, flush=True)
        """)
    )
    main = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    payload, token = main.stdout.readline().split()
    assert eventually(lambda: (tmp_path / "first").exists() and (tmp_path / "second").exists(), 30)

    def ours():
        return [process for process in psutil.process_iter() if token in environment(process)]

    # Three workers and two children of evaluations, and in the one mode three forks.
    assert len(ours()) == (8 if mode == "fork" else 5)
    assert Path(payload).exists()
    main.kill()
    main.communicate()
    assert eventually(lambda: not ours())
    assert eventually(lambda: not Path(payload).parent.exists())


def environment(process):
    try:
        return process.environ().get(_wire.MARK, "")
    except psutil.Error:
        return ""


# Modes and parts


def test_missing_limits(sandboxes):
    assert sandboxes("serve").mode == "serve"
    assert any("memory" in text for text in sandboxes("serve").missing_limits)
    if sys.platform == "linux":
        assert Sandbox(dispatch).mode == "fork"
        assert sandboxes("fork").missing_limits == ()


def test_serving_worker_is_kept_between_evaluations_and_replaced_after_a_kill():
    with Sandbox(lambda pipeline: os.getpid(), mode="serve") as sandbox:
        assert len({sandbox(PIPELINE, LONG, 0).loss for _ in range(3)}) == 1
    with Sandbox(dispatch, mode="serve") as sandbox:
        sandbox.warm(1)
        before = set(sandbox._pool._workers)
        assert sandbox(call("sleeps"), Limits(seconds=0.2), 0).status is Status.TIMEOUT
        assert sandbox(call("answers"), LONG, 0).ok
        assert not before & sandbox._pool._workers


@linux
def test_processes_that_hid_from_a_serving_worker_end_with_the_sandbox(tmp_path):
    pids = tmp_path / "pids"
    with Sandbox(dispatch, mode="serve") as sandbox:
        assert sandbox(call("daemonises", str(pids)), LONG, 0).ok
    assert eventually(lambda: gone(int(pids.read_text())), 2.0)


def test_warning_when_memory_cannot_be_read(monkeypatch):
    def denied(*arguments):
        raise psutil.AccessDenied

    monkeypatch.setattr(_processes, "ServedMemory", denied)
    _processes._warn_once.cache_clear()
    with Sandbox(dispatch, mode="serve") as sandbox:
        assert sandbox(call("answers"), LONG, 0).ok
        with pytest.warns(match="memory limit is not enforced"):
            assert sandbox(call("answers"), Limits(30, 100 * MB), 0).ok
        assert sandbox(call("answers"), Limits(30, 100 * MB), 0).ok


def test_frames():
    reader, writer = os.pipe()
    _wire.send(writer, b"hello")
    os.write(writer, b"something else altogether")
    assert _wire.receive(reader) == b"hello"
    with pytest.raises(_wire.BrokenFrame):
        _wire.receive(reader)
    os.close(writer)
    os.close(reader)


def test_payload_round_trip(tmp_path):
    content = {"empty": np.zeros(0), "matrix": np.asfortranarray(np.eye(3)), "text": "x", "strided": np.arange(9)[::2]}
    _wire.write_payload(_wire.pickle_objective(content), tmp_path / "payload")
    loaded = _wire.load_payload(tmp_path / "payload")
    assert loaded.keys() == content.keys()
    for name, value in content.items():
        np.testing.assert_array_equal(loaded[name], value)


def test_function_objective_is_taken_as_it_is():
    with Sandbox(FunctionObjective(lambda pipeline: 2.0)) as sandbox:
        assert sandbox(PIPELINE, LONG, 0).loss == 2.0


@linux
def test_a_module_that_blocks_on_import_harms_one_call_at_most(tmp_path):
    (tmp_path / "blocks_twice.py").write_text(
        "import os, pathlib, time\n"
        f"seen = pathlib.Path({str(tmp_path / 'seen')!r})\n"
        "if seen.exists():\n    time.sleep(600)\n"
        "seen.touch()\n"
    )

    def imports(pipeline):
        import sys

        sys.path.insert(0, str(tmp_path))
        if pipeline.algorithms[0] == "imports":
            import blocks_twice  # noqa: F401
        return 0.5

    with Sandbox(imports, mode="fork") as sandbox:
        assert sandbox(Pipeline(["imports"]), LONG, 0).ok
        started = time.monotonic()
        assert sandbox(Pipeline(["other"]), LONG, 0).ok
        assert time.monotonic() - started < 15


@linux
def test_a_fork_of_the_main_process_leaves_the_data_alone():
    with Sandbox(dispatch, mode="fork") as sandbox:
        assert sandbox(call("answers"), LONG, 0).ok
        child = os.fork()
        if child == 0:
            code = 0 if sandbox(call("answers"), LONG, 0).ok else 1
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        time.sleep(3)  # the fork's worker finds its parent gone and tidies up
        assert sandbox._pool.setup.payload.exists()
        sandbox.warm(2)


@both_modes
def test_a_deadline_counts_the_start_of_a_worker(mode):
    class SlowStart:
        def __setstate__(self, state):
            time.sleep(3)

        def __getstate__(self):
            return {"some": 1}

        def __call__(self, pipeline, limits, seed, fidelity):
            return Outcome.of(0.5)

    with Sandbox(SlowStart(), mode=mode) as sandbox:
        started = time.time()
        outcome = sandbox(PIPELINE, Limits(deadline=started + 0.5), 0)
        assert time.time() - started < 2.5
        assert outcome.status is Status.TIMEOUT
        assert sandbox(PIPELINE, LONG, 0).ok


def test_files_of_the_user_are_left_where_they_are(tmp_path):
    (tmp_path / "mine.txt").write_text("mine")

    def names_a_file(pipeline):
        return Outcome.of(0.5, artefacts={"mine": tmp_path / "mine.txt", "made": b"made"})

    with Sandbox(names_a_file) as sandbox:
        artefacts = sandbox(PIPELINE, LONG, 0).artefacts
        assert isinstance(artefacts["made"], SpooledFile)
        assert not isinstance(artefacts["mine"], SpooledFile)
        assert artefacts["mine"].read_text() == "mine"
