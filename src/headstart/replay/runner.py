"""`replay`: many methods on many tasks, in parallel, to be stopped and resumed."""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from headstart.errors import HeadstartError, InvalidInput, NeedsTable, check_positive
from headstart.learning.monitor import Check
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.base import Optimizer
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method, TaskRun, run_task
from headstart.replay.results import RUNS, Results
from headstart.replay.variants import Variant
from headstart.replay.work import Log, each
from headstart.store.filelock import FileLock

logger = logging.getLogger(__name__)
_PACKAGES = ("headstart", "numpy", "scipy", "scikit-learn", "torch")


class Progress(Protocol):
    """Is told what a replay does; all methods may be left as they are."""

    def learning(self, method: str, check: Check | None = None) -> None: ...
    def running(self, method: str, done: int, total: int) -> None: ...
    def finished(self, method: str, results: Results, reused: bool) -> None: ...
    def done(self, line: str) -> None: ...


class Silent:
    """Tells nobody."""

    def learning(self, method: str, check: Check | None = None) -> None:
        pass

    def running(self, method: str, done: int, total: int) -> None:
        pass

    def finished(self, method: str, results: Results, reused: bool) -> None:
        pass

    def done(self, line: str) -> None:
        pass


@dataclass(frozen=True)
class Cell:
    """One run of one method."""

    task: int
    seed: int

    @property
    def stream(self) -> int:
        """The seed of this run: another one for each task, or random numbers would be the same on all of them."""
        return int(np.random.SeedSequence([self.seed, self.task]).generate_state(1)[0])


def replay(
    meta: MetaDataset,
    methods: Sequence[str | Method],
    partition: Partition,
    *,
    evaluations: int = 100,
    seeds: int = 1,
    jobs: int = 1,
    out: Path | None = None,
    progress: Progress | None = None,
    variant: Variant | None = None,
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
        Runs at a time, each in a process of its own; 1 runs all in this one.
    out
        JSON file of the results.
    progress
        Is told what is going on.
    variant
        What is learned from instead of the training tasks; methods go by its name too.
    """
    for name, value in (("evaluations", evaluations), ("seeds", seeds), ("jobs", jobs)):
        check_positive(name, value, whole=True)
    wanted = list({method.text: method for method in map(Method.of, methods)}.values())
    for method in wanted:
        method.make()  # a wrong name or setting is found before hours are spent
    if variant is not None:
        wanted = [variant.called(method) for method in wanted]
    progress = progress or Silent()
    tasks = list(partition.test)
    results = Results(meta.name, partition.name, evaluations, seeds, tasks, [meta.tasks[i] for i in tasks])
    if out is not None and out.exists():
        results = _checked(Results.load(out), results, out)
    designs = partition.initial_designs(meta)
    given = given_to(meta, partition, designs, variant)
    for method in wanted:
        template = method.make()
        settings = plain(template.describe())
        known = results.methods.get(method.text)
        if known is not None and (known["settings"], known.get("given")) == (settings, given):
            progress.finished(method.text, results, True)
            continue
        with _log(out, method.text, settings, given, results) as log, one_blas_thread():
            curves, facts = _run_method(
                method, template, meta, partition, variant, designs, results, jobs, log, progress
            )
            with writing(out):
                if out is not None and out.exists():  # another replay may have added a method in the meantime
                    results = _checked(Results.load(out), results, out)
                results.add(method.text, curves, settings=settings, given=given, versions=versions(), **facts)
                if out is not None:
                    results.save(out)
            log.close(done=True)
        progress.finished(method.text, results, False)
    return results


def _run_method(
    method: Method,
    template: Optimizer,
    meta: MetaDataset,
    partition: Partition,
    variant: Variant | None,
    designs: dict[int, tuple[int, ...]],
    results: Results,
    jobs: int,
    log: Log,
    progress: Progress,
) -> tuple[list[np.ndarray[Any, Any] | None], dict[str, Any]]:
    cells = [Cell(task, seed) for task in results.tasks for seed in range(results.seeds)]
    kept, facts = _taken_up(log)
    found = {cell: run for cell, run in kept.items() if cell in set(cells)}
    left = [cell for cell in cells if cell not in found]
    if left:
        progress.learning(method.text)
        started = time.perf_counter()
        try:
            meta = _described(meta, template, partition)
            learning = partition.learning(meta) if variant is None else variant.learning(meta, partition)
            with log.learning(partial(progress.learning, method.text)):
                optimizer = template.meta_fit(learning)
            if variant is not None and variant.made_ready is not None:
                optimizer = variant.made_ready(optimizer, meta)
        except NeedsTable as error:
            facts = {"seconds_per_suggestion": 0.0, "left_out": str(error)}
            return [None] * len(results.tasks), facts
        facts = {
            "meta_seconds": round(time.perf_counter() - started, 2),
            "learned": getattr(optimizer, "meta_key", None),
        }
        if variant is not None:
            facts["learned_from"] = variant.facts(meta, partition)
        log.write(facts)
        progress.running(method.text, len(found), len(cells))
        for cell, run in each(_one, (optimizer, meta, method, results.evaluations, designs), left, jobs):
            found[cell] = run
            log.write({"task": cell.task, "seed": cell.seed, **run})
            progress.running(method.text, len(found), len(cells))
    curves: list[np.ndarray[Any, Any] | None] = []
    for task in results.tasks:
        runs = [found[Cell(task, seed)] for seed in range(results.seeds)]
        complete = all(run["regrets"] is not None for run in runs)
        curves.append(np.mean([run["regrets"] for run in runs], axis=0) if complete else None)
    suggestions = sum(run["suggestions"] for run in found.values())
    seconds = sum(run["seconds"] for run in found.values())
    facts["seconds_per_suggestion"] = float(f"{seconds / max(1, suggestions):.3g}")
    reasons = sorted({str(run["reason"]) for run in found.values() if run["regrets"] is None})
    if reasons:
        facts["left_out"] = reasons[0]
    return curves, facts


def _described(meta: MetaDataset, template: Optimizer, partition: Partition) -> MetaDataset:
    """With the meta-features that a method needs."""
    from headstart.metafeatures.tables import with_metafeatures

    return with_metafeatures(meta, template.needs.metafeatures, partition.train)[0]


def _one(
    optimizer: Optimizer,
    meta: MetaDataset,
    method: Method,
    evaluations: int,
    designs: dict[int, tuple[int, ...]],
    cell: Cell,
) -> dict[str, Any]:
    try:
        run: TaskRun = run_task(
            optimizer, meta, cell.task, evaluations, cell.stream, per_step=method.per_step, initial=designs[cell.task]
        )
    except NeedsTable as error:
        return {"regrets": None, "seconds": 0.0, "suggestions": 0, "reason": str(error)}
    except HeadstartError as error:
        raise type(error)(f"{method.text} on task {meta.tasks[cell.task]!r}: {error}") from error
    return {"regrets": [float(r) for r in run.regrets], "seconds": run.seconds, "suggestions": run.suggestions}


def _log(out: Path | None, method: str, settings: dict[str, Any], given: str, results: Results) -> Log:
    head = {
        "method": method,
        "settings": settings,
        "given": given,
        "evaluations": results.evaluations,
        "tasks": results.tasks,
    }
    return Log(out, method, head)


def _taken_up(log: Log) -> tuple[dict[Cell, dict[str, Any]], dict[str, Any]]:
    """Runs and facts that an earlier replay left."""
    runs: dict[Cell, dict[str, Any]] = {}
    facts: dict[str, Any] = {}
    for content in log.found:
        if "task" in content:
            rest = {key: value for key, value in content.items() if key not in ("task", "seed")}
            runs[Cell(content["task"], content["seed"])] = rest
        else:
            facts = content
    return runs, facts


def _checked(found: Results, wanted: Results, path: Path) -> Results:
    for part in RUNS:
        if getattr(found, part) != getattr(wanted, part):
            raise InvalidInput(
                f"{path} holds results with other {part}: {getattr(found, part)!r:.60}, not "
                f"{getattr(wanted, part)!r:.60}; give another file with --out"
            )
    return found


def given_to(
    meta: MetaDataset, partition: Partition, designs: dict[int, tuple[int, ...]], variant: Variant | None = None
) -> str:
    """A hash of all that a method is given beside its settings."""
    begin = [[task, *designs[task]] for task in partition.test]
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
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
