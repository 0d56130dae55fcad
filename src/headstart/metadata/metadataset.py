"""`MetaDataset`: outcomes of many pipelines on many tasks."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, UnknownName, suggestion, warn_user
from headstart.metadata.tables import Table
from headstart.space.candidates import Pool
from headstart.space.encoded import Encoded
from headstart.trials import Status

if TYPE_CHECKING:
    from headstart.data import Dataset

Matrix = NDArray[np.floating[Any]]
Rows = NDArray[np.int64]
SPLITS = ("train", "validation", "test")
STATUSES = tuple(Status)
"""What the numbers in `MetaDataset.statuses` stand for."""
NOT_TRIED = 255
"""In `MetaDataset.statuses`: the pipeline was not evaluated on the task."""
_CONSTRAINT = "constraint "


class MetaDataset:
    """What is known from earlier work: T tasks × P recorded pipelines.

    A selection of tasks shares the matrices of what it was selected from. `losses` and `seconds` of a selection are
    copied when they are first looked at; `loss_row` never copies.

    Parameters
    ----------
    pipelines
        P recorded pipelines, encoded once, in the order of the columns of `losses`; their ids are unique.
    losses
        (T, P); NaN where a pipeline was not observed on a task.
    tasks
        Names of the T tasks.
    metafeatures
        (T, k) vectors that describe the tasks, by the name of their extractor.
    seconds
        (T, P), how long the evaluations took; NaN where that is not known.
    constraints
        (T, P) values that a constraint may bound, by name; NaN where they were not measured.
    statuses
        (T, P) places in `STATUSES`, or `NOT_TRIED`; without them what has a loss is ok and what has none was not tried.
    initial
        Ids of the pipelines that each task is begun with, in their order; empty where nothing is prescribed. They need
        not be observed on the task.
    splits
        Positions of tasks by ``"train"``, ``"validation"`` and ``"test"``.
    name
        For people and for the names of files.
    ids
        What the tasks are called elsewhere, such as at OpenML; their names when omitted.
    tables
        What reads the raw table of each task, see `headstart.metadata.tables`; ``None`` where it is not known.
    about
        Source, licence, what a loss is, and the like: text.
    """

    def __init__(
        self,
        pipelines: Encoded,
        losses: Matrix,
        tasks: Sequence[str],
        metafeatures: Mapping[str, NDArray[np.float64]] | None = None,
        *,
        seconds: Matrix | None = None,
        constraints: Mapping[str, Matrix] | None = None,
        statuses: NDArray[np.uint8] | None = None,
        initial: Sequence[Sequence[int]] | None = None,
        splits: Mapping[str, Sequence[int]] | None = None,
        name: str = "meta",
        ids: Sequence[str] | None = None,
        tables: Sequence[Table | None] | None = None,
        about: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.pipelines = pipelines
        self.tasks = tuple(tasks)
        self.ids = self.tasks if ids is None else tuple(ids)
        self.metafeatures = MappingProxyType(dict(metafeatures or {}))
        none: tuple[tuple[int, ...], ...] = ((),) * len(self.tasks)
        self.initial = none if initial is None else tuple(tuple(int(i) for i in row) for row in initial)
        self.splits = MappingProxyType({k: np.asarray(v, dtype=np.int64) for k, v in (splits or {}).items()})
        self.tables = (None,) * len(self.tasks) if tables is None else tuple(tables)
        self.about = MappingProxyType(dict(about or {}))
        self.validation: MetaDataset | None = None
        """Tasks beside these that a method may use to decide when to stop learning, and for nothing else."""
        self._matrices = {"losses": losses, "seconds": seconds, "statuses": statuses}
        self._matrices |= {f"{_CONSTRAINT}{measured}": matrix for measured, matrix in (constraints or {}).items()}
        self._rows: Rows | None = None
        self._datasets: dict[Table, Dataset | None] = {}
        """Tables that were read, for all that was selected from the same meta-dataset; they are not pickled."""
        self._check()

    def _check(self) -> None:
        expected = (len(self.tasks), len(self.pipelines))
        for name, matrix in self._matrices.items():
            if matrix is not None and matrix.shape != expected:
                raise InvalidInput(f"{name} must be tasks × pipelines = {expected}, got {matrix.shape}")
        if not self.pipelines.recorded:
            raise InvalidInput("the pipelines of a meta-dataset must be recorded: give Encoded(..., ids=...)")
        known = Pool(self.pipelines) if len(self.pipelines) else None  # raises for ids that are not unique
        for name, rows in {
            "ids": self.ids,
            "initial": self.initial,
            "tables": self.tables,
            **self.metafeatures,
        }.items():
            if len(rows) != len(self.tasks):
                raise InvalidInput(f"{name!r} must have {len(self.tasks)} rows, one for each task, got {len(rows)}")
        if known is not None:
            known.rows(sorted({i for row in self.initial for i in row}))  # raises for one that is not there
        for name, positions in self.splits.items():
            if name not in SPLITS:
                raise InvalidInput(f"splits are named {', '.join(SPLITS)}, got {name!r}")
            if len(positions) and not 0 <= positions.min() <= positions.max() < len(self.tasks):
                raise InvalidInput(f"split {name!r} must hold positions of the {len(self.tasks)} tasks, from 0 on")
        together = np.concatenate([*self.splits.values(), np.zeros(0, dtype=np.int64)])
        if len(np.unique(together)) != len(together):
            raise InvalidInput("a task must be in one split only, once; what is tested on must not be learned from")

    def _matrix(self, name: str) -> Any:
        matrix = self._matrices[name]
        return matrix if matrix is None or self._rows is None else matrix[self._rows]

    @cached_property
    def losses(self) -> Matrix:
        return self._matrix("losses")  # type: ignore[no-any-return]

    @cached_property
    def seconds(self) -> Matrix | None:
        return self._matrix("seconds")  # type: ignore[no-any-return]

    @cached_property
    def statuses(self) -> NDArray[np.uint8] | None:
        return self._matrix("statuses")  # type: ignore[no-any-return]

    @cached_property
    def constraints(self) -> Mapping[str, Matrix]:
        return MappingProxyType({name: self._matrix(f"{_CONSTRAINT}{name}") for name in self.constraint_names})

    @property
    def constraint_names(self) -> list[str]:
        """Names of the values in `constraints`."""
        return [name.removeprefix(_CONSTRAINT) for name in self._matrices if name.startswith(_CONSTRAINT)]

    def _row(self, name: str, task: int) -> Any:
        matrix = self._matrices[name]
        return None if matrix is None else matrix[task if self._rows is None else self._rows[task]]

    def loss_row(self, task: int) -> NDArray[np.floating[Any]]:
        """Losses (P,) of one task, as a view."""
        return self._row("losses", task)  # type: ignore[no-any-return]

    def seconds_row(self, task: int) -> Matrix | None:
        """Seconds (P,) of one task, as a view; ``None`` where they are not recorded."""
        return self._row("seconds", task)  # type: ignore[no-any-return]

    def dataset(self, task: int) -> Dataset | None:
        """The raw table of one task, read when it is first asked for; ``None`` where there is none to be read."""
        table = self.tables[task]
        if table is None:
            return None
        if table not in self._datasets:
            self._datasets[table] = None
            try:
                with warnings.catch_warnings():  # of what a fit would do with it
                    warnings.simplefilter("ignore")
                    self._datasets[table] = table()
            except Exception as error:  # loaders are anyone's
                warn_user(f"the table of task {self.tasks[task]!r} cannot be read, so it goes without: {error}")
        return self._datasets[table]

    def constraint_rows(self, task: int) -> dict[str, Matrix]:
        """Values (P,) of one task that a constraint may bound, as views, by name."""
        return {name: self._row(f"{_CONSTRAINT}{name}", task) for name in self.constraint_names}

    def select(self, tasks: Sequence[int] | NDArray[np.int64]) -> MetaDataset:
        """The same pipelines on some of the tasks; what it shares is not copied. It has no splits of its own."""
        rows = np.asarray(tasks, dtype=np.int64)
        part = object.__new__(MetaDataset)
        part.name, part.pipelines, part.about = self.name, self.pipelines, self.about
        part.tasks, part.ids = tuple(self.tasks[i] for i in rows), tuple(self.ids[i] for i in rows)
        part.initial, part.tables = tuple(self.initial[i] for i in rows), tuple(self.tables[i] for i in rows)
        part.metafeatures = MappingProxyType({name: vectors[rows] for name, vectors in self.metafeatures.items()})
        part.splits, part.validation = MappingProxyType({}), None
        part._matrices, part._datasets = self._matrices, self._datasets
        part._rows = rows if self._rows is None else self._rows[rows]
        if "everything" in self.__dict__:
            part.__dict__["everything"] = self.everything
        return part

    def split(self, name: str) -> MetaDataset:
        """The tasks of one split."""
        if name not in self.splits:
            raise UnknownName(f"meta-dataset {self.name!r} has no split {name!r}; {suggestion(name, self.splits)}")
        return self.select(self.splits[name])

    def learning(self, train: Sequence[int], validation: Sequence[int] = ()) -> MetaDataset:
        """The tasks to learn from, with those to validate on beside them as `validation`."""
        part = self.select(train)
        part.validation = self.select(validation) if len(validation) else None
        return part

    def changed(self, **fields: Any) -> MetaDataset:
        """The same with other values of some arguments, such as more `metafeatures`; shares the matrices."""
        changed = _rebuilt({**self._arguments(), **fields}, self.validation)
        changed._datasets = self._datasets
        return changed

    def mapped(self, function: Callable[[Matrix], Matrix]) -> MetaDataset:
        """The same with a function of each loss in its place, in `validation` too; the rest is shared."""
        mapped = self.select(range(len(self)))
        mapped.splits = self.splits
        losses: Any = self._matrices["losses"]
        mapped._matrices = {**self._matrices, "losses": function(losses)}
        if self.validation is not None and self.validation._matrices is self._matrices:
            mapped.validation = self.validation.select(range(len(self.validation)))
            mapped.validation._matrices = mapped._matrices
        elif self.validation is not None:
            mapped.validation = self.validation.mapped(function)
        return mapped

    def held_out(self, rng: np.random.Generator, share: float = 0.1) -> tuple[MetaDataset, MetaDataset]:
        """Tasks to learn from, and tasks to decide by when to stop.

        Tasks with fewer than two different losses say nothing and are in neither. The second are the `validation` tasks
        where there are useful ones, else a random share of the others, at least one; a single task serves for both.
        """
        useful = _useful(self)
        if not len(useful):
            raise InvalidInput(
                f"there must be a task with two different losses to learn from, got none among the {len(self)} tasks "
                f"of meta-dataset {self.name!r}"
            )
        if self.validation is not None:
            checked = _useful(self.validation)
            if len(checked):
                return self.select(useful), self.validation.select(checked)
        if len(useful) == 1:
            return self.select(useful), self.select(useful)
        order = rng.permutation(useful)
        held = max(1, round(share * len(order)))
        return self.select(np.sort(order[held:])), self.select(np.sort(order[:held]))

    @cached_property
    def everything(self) -> Pool:
        """All pipelines as candidates; ``everything.rows(ids)`` are the columns of pipelines in `losses`."""
        return Pool(self.pipelines)

    def pool(self, task: int) -> Pool:
        """Candidates of one task: the pipelines that were observed on it."""
        return Pool(self.pipelines.take(np.isfinite(self.loss_row(task))))

    @cached_property
    def key(self) -> str:
        """A hash of all that can be learned from: pipelines and what was measured, meta-features, validation tasks."""
        digest = hashlib.sha256(self.pipelines.space.key.encode())
        arrays = [self.pipelines.ids, self.pipelines.values, self.pipelines.choice]
        for array in (*arrays, *(vectors for _, vectors in sorted(self.metafeatures.items()))):
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update((self.validation.key if self.validation is not None else "").encode())
        for task in range(len(self.tasks)):
            digest.update(self.loss_row(task).astype(np.float64).tobytes())  # however they are kept
            seconds = self.seconds_row(task)
            digest.update(b"" if seconds is None else seconds.astype(np.float64).tobytes())
            for name, row in sorted(self.constraint_rows(task).items()):
                digest.update(name.encode() + row.astype(np.float64).tobytes())
        return f"{self.name}-{digest.hexdigest()[:16]}"

    def _arguments(self) -> dict[str, Any]:
        arrays = ("pipelines", "losses", "tasks", "seconds", "statuses", "initial", "name", "ids", "tables")
        mappings = ("metafeatures", "constraints", "splits", "about")
        return {n: getattr(self, n) for n in arrays} | {n: dict(getattr(self, n)) for n in mappings}

    def __reduce__(self) -> tuple[Any, ...]:  # what a part was selected from stays behind
        return _rebuilt, (self._arguments(), self.validation)

    @property
    def missing(self) -> float:
        """Share of the losses that are missing."""
        return float(np.mean([np.isnan(self.loss_row(t)).mean() for t in range(len(self))])) if len(self) else 0.0

    def __len__(self) -> int:
        return len(self.tasks)

    def __repr__(self) -> str:
        return f"MetaDataset of {len(self.tasks)} tasks × {len(self.pipelines)} pipelines, {self.missing:.1%} missing"


def _useful(meta: MetaDataset) -> Rows:
    """Positions of the tasks with at least two different losses."""
    rows = (meta.loss_row(task) for task in range(len(meta)))
    observed = (row[np.isfinite(row)] for row in rows)
    return np.flatnonzero([len(losses) > 0 and losses.max() > losses.min() for losses in observed])


def _rebuilt(arguments: Mapping[str, Any], validation: MetaDataset | None) -> MetaDataset:
    meta = MetaDataset(**arguments)
    meta.validation = validation
    return meta
