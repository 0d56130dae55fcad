"""Loaders of the raw tables of a meta-dataset's tasks: callables that give a `Dataset`, small enough to be pickled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.errors import InvalidInput

if TYPE_CHECKING:
    from headstart.data import Dataset

Table = Callable[[], "Dataset"]
"""Reads a table; hashable, so that two tasks with the same one read it once."""


@dataclass(frozen=True)
class TableFile:
    """A table in a file.

    Parameters
    ----------
    path
        Anything that `headstart.data.Dataset.from_table` reads.
    target
        Name of the column to predict.
    task
        ``"classification"``, ``"regression"`` and the like; inferred from the target when omitted.
    """

    path: Path
    target: str = "target"
    task: str | None = None

    def __call__(self) -> Dataset:
        from headstart.data import Dataset

        return Dataset.from_table(self.path, self.target, task=self.task)


@dataclass(frozen=True)
class ArraysFile:
    """A table in an ``.npz`` file with the arrays ``X`` and ``y``.

    Parameters
    ----------
    path
        The file.
    task
        See `TableFile`.
    """

    path: Path
    task: str | None = None

    def __call__(self) -> Dataset:
        import numpy as np

        from headstart.data import Dataset

        with np.load(self.path, allow_pickle=False) as file:
            missing = {"X", "y"} - set(file.files)
            if missing:
                raise InvalidInput(f"{self.path} must hold arrays X and y, it holds {', '.join(file.files) or 'none'}")
            return Dataset.from_arrays(file["X"], file["y"], task=self.task, name=self.path.stem)


@dataclass(frozen=True, eq=False)
class InMemory:
    """A table that is in memory already, such as a part of another one."""

    dataset: Dataset

    def __call__(self) -> Dataset:
        return self.dataset


def as_json(table: Table | None) -> dict[str, Any] | None:
    """A loader as JSON; ``None`` for one that reads no file."""
    if not isinstance(table, TableFile | ArraysFile):
        return None
    return {"kind": type(table).__name__, **asdict(table), "path": str(table.path)}


def from_json(content: dict[str, Any] | None) -> Table | None:
    """What `as_json` gave."""
    if content is None:
        return None
    kinds = {kind.__name__: kind for kind in (TableFile, ArraysFile)}
    settings = {name: value for name, value in content.items() if name != "kind"}
    table: Table = kinds[content["kind"]](**{**settings, "path": Path(content["path"])})
    return table
