"""Raw tables for live experiments: which ones, and what of them is searched on and what tests the result.

A folder of tables has a file ``<id>.csv.gz`` for each of them, with the target in the column ``__target__``, and an
``index.csv`` with the columns ``openml_id``, ``name``, ``n`` (rows) and ``p`` (columns without the target).
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.data.folds import stratified_folds, stratified_share
from headstart.errors import InvalidInput
from headstart.metadata.metadataset import MetaDataset

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.data.splits import Splits

Rows = NDArray[np.int64]
TARGET = "__target__"


@dataclass(frozen=True)
class RawTable:
    """A raw table: its id (a number) and name, its size without the target, where it is, and the target's column."""

    id: str
    name: str
    rows: int
    columns: int
    path: Path
    target: str = TARGET


@dataclass(frozen=True)
class TableRule:
    """Which tables of a folder an experiment is on: the first ones by id of those that have all of it.

    Parameters
    ----------
    number
        How many.
    rows
        Fewest and most rows.
    left_out
        Ids that are not taken, with the reason.

    Notes
    -----
    None of them is a task of the meta-dataset: not by its id, and not as a table of the same rows and columns in the
    folder whose id is a task's, which is nearly always the same table under another id or with another target.
    """

    number: int = 10
    rows: tuple[int, int] = (500, 20_000)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def choose(self, folder: Path, meta: MetaDataset, number: int | None = None) -> list[RawTable]:
        """The tables; with `number`, so many of them."""
        tables = read_index(folder)
        known = set(meta.ids)
        learned = {(table.rows, table.columns) for table in tables if table.id in known}
        least, most = self.rows
        found = [
            table
            for table in tables
            if table.id not in known
            and table.id not in self.left_out
            and (table.rows, table.columns) not in learned
            and least <= table.rows <= most
        ]
        if not found:
            raise InvalidInput(f"{folder} has no table of {least} to {most} rows that is no task of {meta.name!r}")
        return found[: min(number or self.number, self.number)]


def read_index(folder: Path) -> list[RawTable]:
    """The tables of a folder that are there, by their ids in ascending order."""
    index = folder / "index.csv"
    if not index.is_file():
        raise InvalidInput(f"raw tables must lie in a folder with an index.csv, and {folder} has none; see --data")
    try:
        with index.open(encoding="utf-8", newline="") as file:
            rows = [(row["openml_id"], row["name"], int(row["n"]), int(row["p"])) for row in csv.DictReader(file)]
        found = [RawTable(*row, folder / f"{row[0]}.csv.gz") for row in rows]
        return sorted((table for table in found if table.path.is_file()), key=lambda table: int(table.id))
    except (KeyError, ValueError) as error:
        raise InvalidInput(f"{index} must have columns openml_id, name, n and p: {error}") from error


def check_unknown(tables: Iterable[RawTable], learning: MetaDataset) -> None:
    """Refuse tables that were learned from, by their ids."""
    seen = {*learning.ids, *(() if learning.validation is None else learning.validation.ids)}
    for table in tables:
        if table.id in seen:
            raise InvalidInput(f"table {table.id} ({table.name}) is among the tasks learned from; leave it out")


@dataclass(frozen=True)
class ReadTable:
    """A table with its parts.

    Parameters
    ----------
    dataset
        All rows in use; kinds of columns are those of all of them.
    train, test
        Positions of the rows that are searched on, and of those that test what was found.
    splits
        Folds of the rows in `train`, the same for every pipeline.
    """

    dataset: Dataset
    train: Rows
    test: Rows
    splits: Splits


def read_table(
    table: RawTable, *, max_rows: int, test: float, seed: int, folds: int = 1, holdout: float | None = None
) -> ReadTable:
    """Read a table and divide it; all methods get the same parts.

    Parameters
    ----------
    table
        Which one.
    max_rows
        Of a larger one so many rows are drawn.
    test
        Share of the rows that test what was found.
    folds, holdout
        That a pipeline is judged by while searching: so many folds, or one share of the rows.
    seed
        Of what is drawn. Everything is stratified by class.
    """
    import pandas as pd

    from headstart.data.dataset import Dataset
    from headstart.data.errors import DataWarning
    from headstart.data.read import read_table as read
    from headstart.data.splits import make_splits

    frame: Any = read(table.path)
    target = table.target
    if target not in frame.columns:
        raise InvalidInput(f"{table.path} must have its target in a column {target!r}")
    frame = frame[frame[target].notna()].reset_index(drop=True)
    rng = np.random.default_rng(np.random.SeedSequence([seed, int(table.id)]))
    if len(frame) > max_rows:
        codes = pd.factorize(frame[target], sort=True)[0].astype(np.int64)
        frame = frame[stratified_share(codes, max_rows / len(frame), rng) == 0].reset_index(drop=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # such as of classes with a single row, which are trained on only
        dataset = Dataset.from_table(frame, target, task="classification", name=table.name)
    assert dataset.y is not None
    classes = dataset.y.astype(np.int64)
    tested = stratified_share(classes, test, rng) == 0
    rows = np.flatnonzero(~tested)
    if holdout is None:
        fold_of = stratified_folds(classes[rows], folds, rng)
    else:
        fold_of, folds = stratified_share(classes[rows], holdout, rng), 1
    pairs = [(rows[fold_of != k], rows[fold_of == k]) for k in range(folds)]
    return ReadTable(dataset, rows, np.flatnonzero(tested), make_splits(dataset, splitter=pairs))
