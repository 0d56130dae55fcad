"""Tables as arrays of numbers, and batches of their rows and columns, for extractors that learn.

==============================  ==================================================================================
numeric, boolean, date          the number; a date in seconds
categorical, up to 10 levels    a column for each level, 1 where a row has it
categorical, more levels        the rank of the level by frequency, the most frequent 0
text                            its length
id, constant                    left out, unless nothing else is there
class                           a target for each class, 1 where a row has it
number to predict               one target, standardised
==============================  ==================================================================================

Every feature is standardised over the rows where it is known, and cut off eight standard deviations from the mean;
where it is missing it is 0, the mean. As a set, the columns depend neither on the names of columns, levels and classes
nor on the order of rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data import Dataset
from headstart.data.columns import Kind
from headstart.errors import InvalidInput

Array = NDArray[np.float64]
Single = NDArray[np.float32]

_LEVELS = 10
_CUT = 8.0
_SPARSE_COLUMNS = 512


@dataclass(frozen=True)
class TableArrays:
    """A table as numbers.

    Parameters
    ----------
    features
        (rows, F), standardised, nothing missing.
    targets
        (rows, C).
    """

    features: Single
    targets: Single

    @classmethod
    def of(cls, table: Dataset, max_rows: int | None = None, seed: int = 0) -> Self:
        """From a dataset; of more than `max_rows` rows a random part."""
        if table.y is None:
            raise InvalidInput(f"a table must have a target to be described by pairs with it, {table.name!r} has none")
        if max_rows is not None and table.n_rows > max_rows:
            table = table.take(np.sort(np.random.default_rng(seed).permutation(table.n_rows)[:max_rows]))
        if table.is_sparse:
            dense = np.asarray(table.X[:, :_SPARSE_COLUMNS].toarray(), dtype=np.float64)
            columns = list(dense.T)
        else:
            usable = [n for n, kind in table.kinds.items() if kind not in (Kind.ID, Kind.CONSTANT)]
            columns = [c for name in usable or list(table.kinds) for c in _numbers(table.X[name], table.kinds[name])]
        y = np.asarray(table.y)
        if table.classes is None:
            targets = _standardised(y.astype(np.float64))[:, None]
        else:
            present = np.unique(y)
            targets = (y[:, None] == present).astype(np.float64)
        features = np.stack([_standardised(c) for c in columns], axis=1)
        return cls(features.astype(np.float32), targets.astype(np.float32))

    def batch(self, rng: np.random.Generator, max_rows: int, max_features: int, max_targets: int) -> TableArrays:
        """Some rows, features and targets; how many is random too, up to these bounds.

        The number of rows is a power of two of at least 16, where there are as many, so that it says little of the
        table's size.
        """
        largest = int(np.log2(max(min(max_rows, len(self.features)), 1)))
        n = min(2 ** int(rng.integers(min(4, largest), largest + 1)), len(self.features))
        rows = rng.choice(len(self.features), n, replace=False)
        chosen = [
            rng.permutation(array.shape[1])[: int(rng.integers(1, min(most, array.shape[1]) + 1))]
            for array, most in ((self.features, max_features), (self.targets, max_targets))
        ]
        return TableArrays(self.features[np.ix_(rows, chosen[0])], self.targets[np.ix_(rows, chosen[1])])

    def most_pairs(self, limit: int, seed: int = 0) -> TableArrays:
        """The same rows with so few features, and if need be targets, that there are at most `limit` pairs of them."""
        n_features, n_targets = self.features.shape[1], self.targets.shape[1]
        if n_features * n_targets <= limit:
            return self
        rng = np.random.default_rng(seed)
        targets = np.sort(rng.permutation(n_targets)[: max(1, int(np.sqrt(limit)))])
        features = np.sort(rng.permutation(n_features)[: max(1, limit // len(targets))])
        return TableArrays(self.features[:, features], self.targets[:, targets])


def _numbers(column: pd.Series[Any], kind: Kind) -> list[Array]:
    """A column as one or several columns of numbers; NaN where missing."""
    missing = column.isna().to_numpy()
    if isinstance(column.dtype, pd.CategoricalDtype) or kind is Kind.CATEGORICAL:
        codes = pd.factorize(column)[0]
        counts = np.bincount(codes[codes >= 0])
        if len(counts) <= _LEVELS:
            return [(codes == level).astype(np.float64) for level in range(len(counts))]
        ranks = pd.Series(-counts).rank(method="average").to_numpy() - 1.0
        return [np.where(missing, np.nan, ranks[np.maximum(codes, 0)])]
    if kind is Kind.TEXT or column.dtype.kind not in "biufM":
        return [np.where(missing, np.nan, column.astype(str).str.len().to_numpy(dtype=np.float64))]
    if column.dtype.kind == "M":
        seconds = column.to_numpy().astype("datetime64[s]").astype(np.float64)
        return [np.where(missing, np.nan, seconds)]
    return [column.to_numpy(dtype=np.float64)]


def _standardised(values: Array) -> Array:
    known = np.isfinite(values)
    if not known.any():
        return np.zeros(len(values))
    peak = float(np.abs(values[known]).max()) or 1.0
    relative = np.where(known, values, 0.0) / peak  # so that squares do not overflow
    center, spread = relative[known].mean(), relative[known].std()
    if spread <= 8.0 * np.finfo(np.float64).eps:
        return np.zeros(len(values))
    return np.where(known, np.clip((relative - center) / spread, -_CUT, _CUT), 0.0)
