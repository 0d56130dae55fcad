"""`Table`: what hand-crafted meta-features read of a dataset.

==============================  ====================================================================================
numeric, date, text             numbers; a date in seconds, of a text its length; a constant that is a number
categorical, boolean, constant  levels, numbered in the order of their names; a missing one is a level of its own where
                                columns are made of levels, and no level where levels are counted
id                              left out, and not counted
class                           its number
number to predict               itself; its "classes" are the fifths of its values, and its "class probabilities" the
                                shares of ten bins of equal width between the least and the largest value
==============================  ====================================================================================

Three sizes of a table. Rows, columns, missing values and classes are counted in all of it (`Sizes`). Statistics of
columns are computed of at most five million cells: up to 1,000 columns, and as many rows as that leaves, both drawn at
random. Models and distances see `Table.part`: all rows if there are at most 1,000, else 600, and so many columns that
there are at most 200 when levels have columns of their own, drawn at random too. All draws depend on the seed alone,
rows and columns stay in their order, and a table below these bounds is used whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data import Dataset
from headstart.data.columns import Kind
from headstart.errors import InvalidInput

Array = NDArray[np.float64]
Whole = NDArray[np.int64]

CELLS, COLUMNS = 5_000_000, 1_000
"""Of a table whose columns have their statistics taken."""
PART_ROWS, DRAWN_ROWS, PART_WIDTH = 1_000, 600, 200
"""Of what models and distances see: so many rows of a table are used whole, and so many drawn from a larger one."""
LEVELS = 100
"""Levels of a categorical column that get a column of their own, the most frequent ones."""
TARGET_BINS, TARGET_CLASSES = 10, 5


@dataclass(frozen=True)
class Sizes:
    """Counts of a whole table.

    Parameters
    ----------
    rows, columns, numeric, categorical
        How many there are.
    missing_cells, missing_rows, missing_columns
        Missing values, and rows and columns that have some.
    classes
        Number of classes; of a regression, number of different values of the target.
    class_counts
        Rows of each class that has any; of a regression, of each bin of the target that has any.
    """

    rows: int
    columns: int
    numeric: int
    categorical: int
    missing_cells: int
    missing_rows: int
    missing_columns: int
    classes: int
    class_counts: Whole


@dataclass(eq=False)
class Table:
    """What meta-features read. Everything else is computed of it by functions that are marked `shared`.

    Parameters
    ----------
    numeric
        (n, a) numbers; NaN where missing.
    codes
        (n, c) levels from 0; -1 where missing.
    target
        (n,) class numbers, or the numbers to predict.
    regression
        Which of the two.
    sizes
        Of the table that this one may be a part of.
    seed
        Of everything random.
    """

    numeric: Array
    codes: Whole
    target: Array
    regression: bool
    sizes: Sizes
    seed: int = 0
    computed: dict[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, dataset: Dataset, seed: int = 0) -> Table:
        """Read a dataset."""
        if dataset.y is None:
            raise InvalidInput(f"a table must have a target to be described, {dataset.name!r} has none; name one")
        regression = dataset.classes is None
        target = np.asarray(dataset.y, dtype=np.float64)
        X = dataset.X
        levels: list[int | None] = [None] * X.shape[1]
        if not dataset.is_sparse:
            X = X[[name for name, kind in dataset.kinds.items() if kind is not Kind.ID]]
            levels = [_n_levels(X[name], dataset.kinds[name]) for name in X.columns]
        n_categorical = sum(count is not None for count in levels)
        missing = np.zeros((1, 1), dtype=bool) if dataset.is_sparse else X.isna().to_numpy()
        sizes = Sizes(
            X.shape[0],
            X.shape[1],
            X.shape[1] - n_categorical,
            n_categorical,
            int(missing.sum()),
            int(missing.any(axis=1).sum()),
            int(missing.any(axis=0).sum()),
            len(np.unique(target)),
            _target_shape(target) if regression else np.unique(target, return_counts=True)[1],
        )
        rng = np.random.default_rng(seed)
        chosen = _draw(rng, X.shape[1], COLUMNS)
        width = sum(min(levels[c] or 1, LEVELS) for c in chosen)
        rows = _draw(rng, X.shape[0], max(PART_ROWS, CELLS // max(width, 1)))
        if dataset.is_sparse:
            numbers = list(np.asarray(X[rows][:, chosen].toarray(), dtype=np.float64).T)
            codes: list[Whole] = []
        else:
            X = X if len(rows) == len(X) else X.iloc[rows]
            numbers = [_numbers(X.iloc[:, int(c)]) for c in chosen if levels[c] is None]
            codes = [_codes(X.iloc[:, int(c)]) for c in chosen if levels[c] is not None]
        return cls(
            _columns(numbers, len(rows), np.float64),
            _columns(codes, len(rows), np.int64),
            target[rows],
            regression,
            sizes,
            seed,
        )

    @property
    def n(self) -> int:
        """Rows."""
        return len(self.target)

    @cached_property
    def labels(self) -> Whole:
        """(n,) classes from 0, all of which occur; of a regression, fifths of the target."""
        if not self.regression:
            return np.asarray(np.unique(self.target, return_inverse=True)[1], dtype=np.int64).ravel()
        inner = np.quantile(self.target, np.linspace(0, 1, TARGET_CLASSES + 1)[1:-1])
        binned = np.searchsorted(inner, self.target, side="left")
        return np.asarray(np.unique(binned, return_inverse=True)[1], dtype=np.int64).ravel()

    @cached_property
    def label_counts(self) -> Whole:
        """Rows of each label."""
        return np.bincount(self.labels)

    @cached_property
    def part(self) -> Table:
        """What models and distances see: this table, or some of its rows and columns."""
        rng = np.random.default_rng([self.seed, 1])
        a, c = self.numeric.shape[1], self.codes.shape[1]
        widths = np.r_[np.ones(a, dtype=np.int64), [min(len(np.unique(self.codes[:, i])), LEVELS) for i in range(c)]]
        rows, columns = np.arange(self.n), np.arange(a + c)
        if widths.sum() > PART_WIDTH:
            order = rng.permutation(a + c)
            fitting = max(1, int((np.cumsum(widths[order]) <= PART_WIDTH).sum()))
            columns = np.sort(order[:fitting])
        if self.n > PART_ROWS:
            rows = _draw(rng, self.n, DRAWN_ROWS)
        if len(rows) == self.n and len(columns) == a + c:
            return self
        return replace(
            self,
            numeric=np.asfortranarray(self.numeric[rows][:, columns[columns < a]]),
            codes=np.asfortranarray(self.codes[rows][:, columns[columns >= a] - a]),
            target=self.target[rows],
            computed={},
        )


def _draw(rng: np.random.Generator, n: int, most: int) -> Whole:
    """Positions below `n`, at most so many, in their order."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))


def _columns(columns: list[Any], n: int, dtype: Any) -> Any:
    """Side by side, each in one piece of memory."""
    return np.array(columns, dtype=dtype).reshape(len(columns), n).T


def _n_levels(column: pd.Series[Any], kind: Kind) -> int | None:
    """Number of levels that a column may have; None if it is read as numbers."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return len(column.cat.categories)
    if kind is Kind.BOOLEAN:
        return 2
    if kind is Kind.CONSTANT and column.dtype.kind not in "biufM":
        return 1
    return None


def _codes(column: pd.Series[Any]) -> Whole:
    if isinstance(column.dtype, pd.CategoricalDtype):
        return np.asarray(column.cat.codes.to_numpy(dtype=np.int64))
    return np.asarray(pd.factorize(column, sort=True)[0], dtype=np.int64)


def _numbers(column: pd.Series[Any]) -> Array:
    missing = column.isna().to_numpy()
    if column.dtype.kind == "M":
        return np.where(missing, np.nan, column.to_numpy().astype("datetime64[s]").astype(np.float64))
    if column.dtype.kind in "biuf":
        return np.asarray(column.to_numpy(dtype=np.float64))
    return np.where(missing, np.nan, column.astype(str).str.len().to_numpy(dtype=np.float64))


def _target_shape(target: Array) -> Whole:
    """Rows in each bin of equal width between the least and the largest value, without empty bins."""
    low, high = float(target.min()), float(target.max())
    if not low < high:
        return np.array([len(target)])
    share = (target / 2 - low / 2) / (high / 2 - low / 2)  # halves, so that a difference does not overflow
    counts = np.bincount(np.minimum((share * TARGET_BINS).astype(np.int64), TARGET_BINS - 1))
    return counts[counts > 0]
