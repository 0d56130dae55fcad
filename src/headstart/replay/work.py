"""Runs of experiments: several at a time, and kept at once, so that what was stopped goes on."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeVar

from headstart.learning.monitor import Check, Monitor, monitored
from headstart.numerics.threads import one_blas_thread

Item = TypeVar("Item")


def each(
    function: Callable[..., Any], shared: Sequence[Any], items: Sequence[Item], jobs: int
) -> Iterator[tuple[Item, Any]]:
    """``function(*shared, item)`` of every item, with the item, in the order they finish.

    Parameters
    ----------
    function
        Of a module, so that another process finds it.
    shared
        What all need, such as a trained method and the recorded results.
    items
        What differs.
    jobs
        How many at a time, each in a process of its own; 1 does all in this one.
    """
    if jobs == 1 or len(items) == 1:
        for item in items:
            yield item, function(*shared, item)
        return
    import joblib

    with tempfile.TemporaryDirectory(prefix="headstart-work-") as folder:
        # Written once and mapped into memory by every process, instead of being sent along with each item.
        path = Path(folder) / "shared.joblib"
        joblib.dump(tuple(shared), path)
        parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
        yield from parallel(joblib.delayed(_one_of)(function, str(path), item) for item in items)


@lru_cache(maxsize=1)
def _loaded(path: str) -> tuple[Any, ...]:
    import joblib

    loaded: tuple[Any, ...] = joblib.load(path, mmap_mode="r")
    return loaded


def _one_of(function: Callable[..., Any], path: str, item: Item) -> tuple[Item, Any]:
    with one_blas_thread():
        return item, function(*_loaded(path), item)


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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
