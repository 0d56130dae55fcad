"""Methods on tasks, in parallel, to be stopped and resumed: `replay`, and `run_method`, which other experiments use."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import lru_cache, partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from headstart.errors import HeadstartError, InvalidInput, NeedsTable, check_positive
from headstart.evaluation.cluster import Cluster
from headstart.learning.monitor import Check, Monitor, monitored
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.tables import with_metafeatures
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.base import Optimizer
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method, run_task
from headstart.replay.results import MethodResults, Results
from headstart.replay.variants import Variant
from headstart.store.filelock import FileLock

Found = TypeVar("Found", bound=MethodResults)
_PACKAGES = ("headstart", "numpy", "scipy", "scikit-learn", "torch")


class Reporter:
    """Is told how it goes, and keeps it to itself."""

    def learning(self, method: str, check: Check | None = None) -> None:
        """A method begins to learn, or is at a check of its validation loss."""

    def running(self, method: str, done: int, total: int) -> None:
        """So many runs of a method are finished."""

    def done(self, line: str) -> None:
        """A method is finished; the line says what came of it."""


def seed_of_run(task: int, seed: int) -> int:
    """Another one for each task, or random numbers would be the same on all of them."""
    return int(np.random.SeedSequence([seed, task]).generate_state(1)[0])


Jobs = int | str
"""How many runs at a time, each in a process of its own, or the address of a Dask scheduler whose workers do them."""


def check_jobs(jobs: Jobs) -> None:
    """Raise unless it is a number of at least 1 or an address."""
    if not isinstance(jobs, str):
        check_positive("jobs", jobs, whole=True)


def replay(
    meta: MetaDataset,
    methods: Sequence[str | Method],
    partition: Partition,
    *,
    evaluations: int = 100,
    seeds: int = 1,
    jobs: Jobs = 1,
    out: Path | None = None,
    progress: Reporter | None = None,
    variant: Variant | None = None,
    trained: Mapping[str, Optimizer] | None = None,
) -> Results:
    """Replay methods on the test tasks of a partition, after they have learned from its training tasks.

    What does not depend on `jobs`: every result. With `out`, finished runs are kept beside that file at once; a replay
    that is started again goes on from there, and methods in the file already are used again if their settings and what
    they were given (recorded results, training and validation tasks, initial pipelines) are the same.

    Parameters
    ----------
    meta
        Recorded results.
    methods
        See `Method.parse`.
    partition
        Which tasks are learned from and which replayed.
    evaluations, seeds
        Steps of a run, initial pipelines included, and runs for each task.
    jobs
        Runs at a time, each in a process of its own; 1 runs all in this one. The address of a Dask scheduler runs them
        on its workers.
    out
        JSON file of the results.
    progress
        Is told what is going on.
    variant
        What is learned from instead of the training tasks, or begun with; methods go by its name too.
    trained
        Methods by their text that have learned from the training tasks already. Results of less training are replaced.
    """
    for name, value in (("evaluations", evaluations), ("seeds", seeds)):
        check_positive(name, value, whole=True)
    check_jobs(jobs)
    wanted = list({method.text: method for method in map(Method.of, methods)}.values())
    for method in wanted:
        method.make()  # a wrong name or setting is found before hours are spent
    known = {} if trained is None else trained
    if variant is not None:
        known = {variant.called(method).text: known[method.text] for method in wanted if method.text in known}
        wanted = [variant.called(method) for method in wanted]
    tasks = list(partition.test)
    results = Results(meta.name, partition.name, evaluations, seeds, tasks, [meta.tasks[i] for i in tasks])
    results = results.in_file(out)
    designs = partition.initial_designs(meta) if variant is None else variant.initial_designs(meta, partition)
    given = given_to(meta, partition, designs, variant)
    cells = {f"task {task}, seed {seed}": (task, seed) for task in tasks for seed in range(seeds)}
    for method in wanted:
        ready = known.get(method.text)
        results = run_method(
            results,
            method.text,
            method.make().describe(),
            given,
            cells,
            partial(_learned, method, meta, partition, variant, evaluations, designs, ready),
            _one,
            out=out,
            jobs=jobs,
            progress=progress or Reporter(),
            skipped=NeedsTable,
            beforehand={} if ready is None else _steps(ready),
        )
    return results


def run_method(
    results: Found,
    method: str,
    settings: dict[str, Any],
    given: str,
    items: Mapping[str, Any],
    learn: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]],
    run: Callable[..., Any],
    *,
    out: Path | None,
    jobs: Jobs,
    progress: Reporter,
    skipped: type[Exception] | tuple[type[Exception], ...] = (),
    beforehand: Mapping[str, Any] | None = None,
) -> Found:
    """Results with those of a method, which is run unless they are there already.

    Parameters
    ----------
    results
        Those of other methods, on the same things.
    method, settings, given
        Its name, what it is made of, and a hash of all that it is given.
    items
        What it is run on, by name.
    learn
        Has it learn; returns what all runs share, and facts.
    run
        Function of a module: ``run(*shared, item)`` is JSON.
    out, jobs, progress
        See `replay`.
    skipped
        Errors for which a method is left out.
    beforehand
        Facts that are known before it runs; results with others are of another method.
    """
    settings, beforehand = plain(settings), plain(dict(beforehand or {}))
    if results.is_known(method, settings, given) and beforehand.items() <= results.methods[method].items():
        progress.done(f"{method}: already known")
        return results
    if results.has_runs(method):
        progress.done(f"{method}: known from other settings, data, space or training; it is run anew and replaced")
    head = {"method": method, "settings": settings, "given": given, **beforehand, **results.shared()}
    with closing(Log(out, method, head)) as log, one_blas_thread():
        found = {line["item"]: line["run"] for line in log.found if line.get("item") in items}
        facts: dict[str, Any] = next((line["facts"] for line in log.found if "facts" in line), {})
        try:
            left = {name: item for name, item in items.items() if name not in found}
            if left:
                progress.learning(method)
                started = time.perf_counter()
                with log.learning(partial(progress.learning, method)):
                    shared, learned = learn()
                if not facts:
                    facts = {"meta_seconds": round(time.perf_counter() - started, 2), **learned}
                    log.write({"facts": facts})
                progress.running(method, len(found), len(items))
                for name, value in each(run, shared, left, jobs):
                    found[name] = value
                    log.write({"item": name, "run": value})
                    progress.running(method, len(found), len(items))
        except skipped as error:
            found, facts = {}, {"left_out": str(error)}
        facts = {"settings": settings, "given": given, "versions": versions(), **facts}
        with writing(out):
            results = results.in_file(out)
            results.add_runs(method, [found.get(name) for name in items], **facts)
            if out is not None:
                results.save(out)
        log.close(done=True)
    progress.done(results.line(method))
    return results


def _learned(
    method: Method,
    meta: MetaDataset,
    partition: Partition,
    variant: Variant | None,
    evaluations: int,
    designs: dict[int, tuple[int, ...]],
    ready: Optimizer | None,
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """A method that has learned, with what else its runs need; and facts."""
    optimizer = method.make()
    meta, _ = with_metafeatures(meta, optimizer.needs.metafeatures, partition.train)
    learning = partition.learning(meta) if variant is None else variant.learning(meta, partition)
    if ready is not None and learning.key not in _learned_from(ready):
        raise InvalidInput(
            f"{method.text} must have learned from the training and validation tasks of {meta.name!r}, "
            f"{partition.name}, with the same meta-features; train it on them"
        )
    optimizer = optimizer.meta_fit(learning) if ready is None else ready
    if variant is not None and variant.made_ready is not None:
        optimizer = variant.made_ready(optimizer, meta)
    facts = {} if variant is None else {"learned_from": variant.facts(meta, partition)}
    learned = optimizer.meta_key if ready is None else learning.key
    return (optimizer, meta, method, evaluations, designs), {"learned": learned, **_steps(optimizer), **facts}


def _learned_from(optimizer: Optimizer) -> list[str | None]:
    parts = [optimizer, *map(optimizer.part, optimizer.parts)]
    return [part.meta_key for part in parts if part is not None]


def _steps(optimizer: Optimizer) -> dict[str, Any]:
    return {"steps": steps} if (steps := optimizer.trained_steps) else {}


def _one(
    optimizer: Optimizer,
    meta: MetaDataset,
    method: Method,
    evaluations: int,
    designs: dict[int, tuple[int, ...]],
    cell: tuple[int, int],
) -> dict[str, Any]:
    task, seed = cell[0], seed_of_run(*cell)
    if task not in designs:
        return _not_run("the task lacks the meta-features that the warm start needs")
    try:
        run = run_task(optimizer, meta, task, evaluations, seed, per_step=method.per_step, initial=designs[task])
    except NeedsTable as error:
        return _not_run(str(error))
    except HeadstartError as error:
        raise type(error)(f"{method.text} on task {meta.tasks[task]!r}: {error}") from error
    return {"regrets": [float(r) for r in run.regrets], "seconds": run.seconds, "suggestions": run.suggestions}


def _not_run(reason: str) -> dict[str, Any]:
    return {"regrets": None, "seconds": 0.0, "suggestions": 0, "reason": reason}


def given_to(
    meta: MetaDataset, partition: Partition, designs: dict[int, tuple[int, ...]], variant: Variant | None = None
) -> str:
    """A hash of all that a method is given beside its settings."""
    begin = [[task, *designs.get(task, ())] for task in partition.test]
    tables = [i for i, table in enumerate(meta.tables) if table is not None]
    learned_from = [] if variant is None else [variant.learning(meta, partition).key]
    content = json.dumps([meta.key, partition.train, partition.validation, begin, tables, *learned_from])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


@contextmanager
def writing(out: Path | None) -> Iterator[None]:
    """Nobody else writes this file inside the block."""
    if out is None:
        yield
        return
    lock = FileLock(out.with_name(f".{out.name}.lock"))
    while lock.acquire() is not None:
        time.sleep(0.05)
    try:
        yield
    finally:
        lock.release()


def plain(settings: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


# -- several at a time, and kept at once, so that what was stopped goes on ---------------------------------------------


def each(
    function: Callable[..., Any], shared: Sequence[Any], items: Mapping[str, Any], jobs: Jobs
) -> Iterator[tuple[str, Any]]:
    """``function(*shared, item)`` of every item, with its name, in the order they finish.

    Parameters
    ----------
    function
        Of a module, so that another process finds it.
    shared
        What all need, such as a trained method and the recorded results.
    items
        What differs, by name.
    jobs
        How many at a time, each in a process of its own; 1 does all in this one. The address of a Dask scheduler has
        its workers do them.
    """
    if isinstance(jobs, str):
        with Cluster(jobs) as cluster:
            yield from cluster.each(function, shared, items)
        return
    if jobs == 1 or len(items) == 1:
        for name, item in items.items():
            yield name, function(*shared, item)
        return
    import joblib

    with tempfile.TemporaryDirectory(prefix="headstart-work-") as folder:
        # Written once and mapped into memory by every process, instead of being sent along with each item.
        path = Path(folder) / "shared.joblib"
        joblib.dump(tuple(shared), path)
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(_one_of)(function, str(path), *item) for item in items.items())


@lru_cache(maxsize=1)
def _loaded(path: str) -> tuple[Any, ...]:
    import joblib

    loaded: tuple[Any, ...] = joblib.load(path, mmap_mode="r")
    return loaded


def _one_of(function: Callable[..., Any], path: str, name: str, item: Any) -> tuple[str, Any]:
    with one_blas_thread():
        return name, function(*_loaded(path), item)


class Log:
    """What is finished, line by line in a file beside the results until all of it is.

    Parameters
    ----------
    out
        File of the results; ``None`` keeps nothing.
    name
        Of what is under way; part of the file's name.
    head
        What it is done with. A file with another head is begun anew.
    """

    def __init__(self, out: Path | None, name: str, head: dict[str, Any]) -> None:
        self.found: list[dict[str, Any]] = []
        """What an earlier run wrote."""
        self._file: Any = None
        self._path: Path | None = None
        self._key = hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()[:16]
        if out is None:
            return
        safe = "".join(c if c.isalnum() else "_" for c in name)
        self._path = out.with_name(f"{out.name}.{safe}.partial")
        out.parent.mkdir(parents=True, exist_ok=True)
        written = self._path.read_text(encoding="utf-8") if self._path.exists() else ""
        lines = []
        for line in written.splitlines():
            with suppress(ValueError):  # the last line of a run that was killed
                lines.append(json.loads(line))
        fresh = lines[:1] != [json.loads(json.dumps(head))]
        self._file = self._path.open("w" if fresh else "a", encoding="utf-8")
        if fresh:
            self.write(head)
        else:
            self.found = lines[1:]
            self._file.write("" if written.endswith("\n") else "\n")

    @contextmanager
    def learning(self, told: Callable[[Check], None]) -> Iterator[None]:
        """Trainings inside this block tell how they go, and go on where an earlier run with the same head stopped."""
        state = None if self._path is None else self._path.with_name(f"{self._path.name}.{self._key}")

        def tell(check: Check) -> None:
            if not check.again:
                told(check)

        with monitored(Monitor(tell, state, self._key, resume=True)) as monitor:
            yield
        monitor.remove()

    def write(self, content: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(content) + "\n")
            self._file.flush()

    def close(self, done: bool = False) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
        if done and self._path is not None:
            self._path.unlink(missing_ok=True)
