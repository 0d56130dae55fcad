"""`replay`: many methods on many tasks, in parallel, to be stopped and resumed."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from headstart.errors import HeadstartError, InvalidInput, NeedsTable, check_positive
from headstart.experiments.partition import Partition
from headstart.experiments.replay import Method, TaskRun, run_task
from headstart.experiments.results import Results
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.base import Optimizer
from headstart.store.filelock import FileLock

logger = logging.getLogger(__name__)
_PACKAGES = ("headstart", "numpy", "scipy", "scikit-learn", "torch")


class Progress(Protocol):
    """Is told what a replay does; all methods may be left as they are."""

    def learning(self, method: str) -> None: ...
    def running(self, method: str, done: int, total: int) -> None: ...
    def finished(self, method: str, results: Results, reused: bool) -> None: ...


class Silent:
    """Tells nobody."""

    def learning(self, method: str) -> None:
        pass

    def running(self, method: str, done: int, total: int) -> None:
        pass

    def finished(self, method: str, results: Results, reused: bool) -> None:
        pass


@dataclass(frozen=True)
class _Cell:
    """One run of one method."""

    task: int
    seed: int

    @property
    def stream(self) -> int:
        """The seed of this run: another one for each task, or random numbers would be the same on all of them."""
        return int(np.random.SeedSequence([self.seed, self.task]).generate_state(1)[0])


def replay(
    meta: MetaDataset,
    methods: Sequence[str],
    partition: Partition,
    *,
    evaluations: int = 100,
    seeds: int = 1,
    jobs: int = 1,
    out: Path | None = None,
    progress: Progress | None = None,
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
    """
    for name, value in (("evaluations", evaluations), ("seeds", seeds), ("jobs", jobs)):
        check_positive(name, value, whole=True)
    wanted = [Method.parse(text) for text in dict.fromkeys(methods)]
    for method in wanted:
        method.make()  # a wrong name or setting is found before hours are spent
    progress = progress or Silent()
    tasks = list(partition.test)
    results = Results(meta.name, partition.name, evaluations, seeds, tasks, [meta.tasks[i] for i in tasks])
    if out is not None and out.exists():
        results = _checked(Results.load(out), results, out)
    designs = partition.initial_designs(meta)
    given = _given(meta, partition, designs)
    for method in wanted:
        template = method.make()
        settings = _plain(template.describe())
        known = results.methods.get(method.text)
        if known is not None and (known["settings"], known.get("given")) == (settings, given):
            progress.finished(method.text, results, True)
            continue
        with _Log(out, method.text, settings, given, results) as log, one_blas_thread():
            curves, facts = _run_method(method, template, meta, partition, designs, results, jobs, log, progress)
            with _writing(out):
                if out is not None and out.exists():  # another replay may have added a method in the meantime
                    results = _checked(Results.load(out), results, out)
                results.add(method.text, curves, settings=settings, given=given, versions=_versions(), **facts)
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
    designs: dict[int, tuple[int, ...]],
    results: Results,
    jobs: int,
    log: _Log,
    progress: Progress,
) -> tuple[list[np.ndarray[Any, Any] | None], dict[str, Any]]:
    cells = [_Cell(task, seed) for task in results.tasks for seed in range(results.seeds)]
    found: dict[_Cell, dict[str, Any]] = {cell: run for cell, run in log.runs.items() if cell in set(cells)}
    left = [cell for cell in cells if cell not in found]
    facts: dict[str, Any] = dict(log.facts)
    if left:
        progress.learning(method.text)
        started = time.perf_counter()
        try:
            meta = _described(meta, template, partition)
            optimizer = template.meta_fit(partition.learning(meta))
        except NeedsTable as error:
            facts = {"seconds_per_suggestion": 0.0, "left_out": str(error)}
            return [None] * len(results.tasks), facts
        facts = {
            "meta_seconds": round(time.perf_counter() - started, 2),
            "learned": getattr(optimizer, "meta_key", None),
        }
        log.write(facts)
        progress.running(method.text, len(found), len(cells))
        for cell, run in _runs(optimizer, meta, left, method, results.evaluations, designs, jobs):
            found[cell] = run
            log.write({"task": cell.task, "seed": cell.seed, **run})
            progress.running(method.text, len(found), len(cells))
    curves: list[np.ndarray[Any, Any] | None] = []
    for task in results.tasks:
        runs = [found[_Cell(task, seed)] for seed in range(results.seeds)]
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
    """With the meta-features that a method needs, where they are not there and can be made."""
    needed = template.needs_metafeatures
    if needed is None or needed in meta.metafeatures or not any(meta.tables):
        return meta
    from headstart.metafeatures.tables import with_metafeatures

    return with_metafeatures(meta, needed, partition.train)


def _runs(
    optimizer: Optimizer,
    meta: MetaDataset,
    cells: Sequence[_Cell],
    method: Method,
    evaluations: int,
    designs: dict[int, tuple[int, ...]],
    jobs: int,
) -> Iterator[tuple[_Cell, dict[str, Any]]]:
    """Runs in the order they finish."""
    if jobs == 1 or len(cells) == 1:
        for cell in cells:
            yield cell, _one(optimizer, meta, cell, method, evaluations, designs[cell.task])
        return
    import joblib

    with tempfile.TemporaryDirectory(prefix="headstart-replay-") as folder:
        # Written once and mapped into memory by every process, instead of being sent along with each run.
        path = Path(folder) / "work.joblib"
        joblib.dump((optimizer, meta), path)
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        calls = (joblib.delayed(_one_of)(str(path), cell, method, evaluations, designs[cell.task]) for cell in cells)
        yield from parallel(calls)


@lru_cache(maxsize=1)
def _loaded(path: str) -> tuple[Optimizer, MetaDataset]:
    import joblib

    loaded: tuple[Optimizer, MetaDataset] = joblib.load(path, mmap_mode="r")
    return loaded


def _one_of(path: str, cell: _Cell, *rest: Any) -> tuple[_Cell, dict[str, Any]]:
    optimizer, meta = _loaded(path)
    with one_blas_thread():
        return cell, _one(optimizer, meta, cell, *rest)


def _one(
    optimizer: Optimizer,
    meta: MetaDataset,
    cell: _Cell,
    method: Method,
    evaluations: int,
    initial: tuple[int, ...],
) -> dict[str, Any]:
    try:
        run: TaskRun = run_task(
            optimizer, meta, cell.task, evaluations, cell.stream, per_step=method.per_step, initial=initial
        )
    except NeedsTable as error:
        return {"regrets": None, "seconds": 0.0, "suggestions": 0, "reason": str(error)}
    except HeadstartError as error:
        raise type(error)(f"{method.text} on task {meta.tasks[cell.task]!r}: {error}") from error
    return {"regrets": [float(r) for r in run.regrets], "seconds": run.seconds, "suggestions": run.suggestions}


class _Log:
    """Finished runs of a method, kept in a file until the method is done."""

    def __init__(self, out: Path | None, method: str, settings: dict[str, Any], given: str, results: Results) -> None:
        self.runs: dict[_Cell, dict[str, Any]] = {}
        self.facts: dict[str, Any] = {}
        self._file: Any = None
        self._path: Path | None = None
        if out is None:
            return
        head = {
            "method": method,
            "settings": settings,
            "given": given,
            "evaluations": results.evaluations,
            "tasks": results.tasks,
        }
        safe = "".join(c if c.isalnum() else "_" for c in method)
        self._path = out.with_name(f"{out.name}.{safe}.partial")
        out.parent.mkdir(parents=True, exist_ok=True)
        fresh = not self._take_up(head)
        self._file = self._path.open("w" if fresh else "a", encoding="utf-8")
        if fresh:
            self.runs, self.facts = {}, {}
            self.write(head)

    def _take_up(self, head: dict[str, Any]) -> bool:
        """Read what an earlier replay left; whether it was of the same kind."""
        if self._path is None or not self._path.exists():
            return False
        lines = self._path.read_text(encoding="utf-8").splitlines()
        try:
            if not lines or json.loads(lines[0]) != head:
                return False
        except ValueError:
            return False
        for line in lines[1:]:
            try:
                content = json.loads(line)
            except ValueError:  # the last line of a replay that was killed
                continue
            if "task" in content:
                self.runs[_Cell(content.pop("task"), content.pop("seed"))] = content
            else:
                self.facts = content
        return True

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

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _checked(found: Results, wanted: Results, path: Path) -> Results:
    for part in ("meta", "split", "evaluations", "seeds", "tasks"):
        if getattr(found, part) != getattr(wanted, part):
            raise InvalidInput(
                f"{path} holds results for another {part}: {getattr(found, part)!r:.60}, not "
                f"{getattr(wanted, part)!r:.60}; give another file"
            )
    return found


def _given(meta: MetaDataset, partition: Partition, designs: dict[int, tuple[int, ...]]) -> str:
    """A hash of all that a method is given beside its settings."""
    begin = [[task, *designs[task]] for task in partition.test]
    tables = [i for i, table in enumerate(meta.tables) if table is not None]
    content = json.dumps([meta.key, partition.train, partition.validation, begin, tables])
    return hashlib.sha256(content.encode()).hexdigest()[:16]


@contextmanager
def _writing(out: Path | None) -> Iterator[None]:
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


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(settings))
    return plain


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
