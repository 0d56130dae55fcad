"""Networks over sets: Dataset2Vec, which describes a table by a vector.

Jomaa, Schmidt-Thieme & Grabocka (2021), "Dataset2Vec: learning dataset meta-features", as described and used in
"Hyperparameter optimization with differentiable metafeatures" (equations 8 and 10).

=========  =====================  ===========================================================================
symbol     name in code           equation
=========  =====================  ===========================================================================
x, y                              table: I rows of F features and C targets (one-hot classes, or one number)
           pairs                  (F C, I, 2): for each feature and each target the column of (x_if, y_ic)
e_1        within                 R² → R^K, a `ResidualMLP`
e_2        between                R^K → R^K, an MLP of four layers
e_3        last                   R^K → R^V, a `ResidualMLP`
φ(D)       vectors                e_3( mean over f, c of e_2( mean over i of e_1(x_if, y_ic) ) )
d          distance               ‖φ - φ'‖, as √(Σ (φ_k - φ'_k)² + ε²)
ŝ          similarity             exp(-d), the probability that two batches are of one table
f_DBI      identification_loss    -s ln ŝ - (1 - s) ln(1 - ŝ), s = 1 for batches of one table
=========  =====================  ===========================================================================

The paper prints f_DBI without its minus. A norm has no derivative at 0, where batches of one table begin: hence ε.
"ResidualBlock(4, 32)" is read as four layers of 32 units around which the input is added. The thesis on Dida (appendix
B.4.2) has another architecture: there e_2 is a `ResidualMLP` like e_1, and e_3 an MLP of two layers, relu after both.

Before that a table becomes arrays of numbers (`TableArrays`):

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data import Dataset
from headstart.data.columns import Kind
from headstart.errors import InvalidInput
from headstart.learning.backend import require_torch
from headstart.learning.networks import MLP, Parameters, activate, dense, initial_dense

Array = NDArray[np.float64]
Single = NDArray[np.float32]

_LEVELS, _CUT, _SPARSE_COLUMNS = 10, 8.0, 512
_EPSILON = 1e-6
_BLOCK_ROWS = 1 << 15
"""Rows that NumPy carries through the first network at a time."""
_BATCH_ROWS, _BATCH_FEATURES, _BATCH_TARGETS = 256, 8, 3
Architecture = Literal["dmfbs", "dida"]
"""Which paper's Dataset2Vec."""


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

    def patch(self, rng: np.random.Generator, rows: int, features: int) -> TableArrays:
        """So many rows and features, drawn with replacement."""
        chosen = rng.integers(0, len(self.features), rows)
        columns = rng.integers(0, self.features.shape[1], features)
        return TableArrays(self.features[np.ix_(chosen, columns)], self.targets[chosen])

    def most(self, rows: int, features: int, seed: int = 0) -> TableArrays:
        """At most so many rows and features, those of a larger table drawn without replacement."""
        if len(self.features) <= rows and self.features.shape[1] <= features:
            return self
        rng = np.random.default_rng(seed)
        chosen, columns = (
            np.sort(rng.permutation(n)[:most]) for n, most in zip(self.features.shape, (rows, features), strict=True)
        )
        return TableArrays(self.features[np.ix_(chosen, columns)], self.targets[chosen])

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


@dataclass(frozen=True)
class ResidualMLP:
    """One layer, then blocks of layers around which their input is added, then one layer; relu throughout.

    Parameters
    ----------
    name
        What the names of its parameters begin with.
    inputs, units, outputs
        Sizes.
    blocks, depth
        Number of residual blocks, and of layers in each.
    end_active
        Whether the last layer has the activation too.
    """

    name: str
    inputs: int
    units: int
    outputs: int
    blocks: int
    depth: int
    end_active: bool = False

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters; the last layers of blocks are small, so that a deep network begins as a shallow one.

        Biases of the first layer are random too: with two inputs the bends of relu would all pass through 0 otherwise.
        """
        gain = np.sqrt(2.0)
        parameters = initial_dense(rng, f"{self.name}.first", self.inputs, self.units, gain)
        parameters[f"{self.name}.first.bias"] = rng.uniform(-1.0, 1.0, self.units)
        for b in range(self.blocks):
            for i in range(self.depth):
                small = gain / (self.blocks if i == self.depth - 1 else 1.0)
                parameters |= initial_dense(rng, f"{self.name}.{b}.{i}", self.units, self.units, small)
        return parameters | initial_dense(
            rng, f"{self.name}.last", self.units, self.outputs, gain if self.end_active else 1.0
        )

    def __call__(self, parameters: Mapping[str, Any], inputs: Any) -> Any:
        """Outputs ``(..., outputs)`` for inputs ``(..., inputs)``; arrays with arrays, tensors with tensors."""
        hidden = activate("relu", dense(parameters, f"{self.name}.first", inputs))
        for b in range(self.blocks):
            inner = hidden
            for i in range(self.depth):
                inner = activate("relu", dense(parameters, f"{self.name}.{b}.{i}", inner))
            hidden = hidden + inner
        outputs = dense(parameters, f"{self.name}.last", hidden)
        return activate("relu", outputs) if self.end_active else outputs


@dataclass(frozen=True)
class Dataset2VecNetwork:
    """The architecture of Dataset2Vec, a `TableNetwork`; its parameters are entries of a mapping.

    Parameters
    ----------
    units, outputs
        K and V.
    blocks, depth
        Of the first and the last network.
    max_pairs
        Most (feature, target) pairs of a whole table.
    name
        What the names of its parameters begin with.
    architecture
        Which paper's e_2 and e_3.
    """

    units: int = 32
    outputs: int = 32
    blocks: int = 2
    depth: int = 2
    max_pairs: int = 100
    name: str = "dataset2vec"
    architecture: Architecture = "dmfbs"

    @cached_property
    def within(self) -> ResidualMLP:
        return ResidualMLP(f"{self.name}.within", 2, self.units, self.units, self.blocks, self.depth, end_active=True)

    @cached_property
    def between(self) -> MLP | ResidualMLP:
        name = f"{self.name}.between"
        if self.architecture == "dida":
            return ResidualMLP(name, self.units, self.units, self.units, self.blocks, self.depth, end_active=True)
        return MLP(name, (self.units,) * 5, end_active=True)

    @cached_property
    def last(self) -> MLP | ResidualMLP:
        name = f"{self.name}.last"
        if self.architecture == "dida":
            return MLP(name, (self.units, self.units, self.outputs), end_active=True)
        return ResidualMLP(name, self.units, self.units, self.outputs, self.blocks, self.depth)

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters."""
        return self.within.initial(rng) | self.between.initial(rng) | self.last.initial(rng)

    def batches(self, tables: Sequence[TableArrays], rng: np.random.Generator) -> list[Array]:
        """Pairs (q, I, 2) of some rows, features and targets of each table."""
        drawn = [table.batch(rng, _BATCH_ROWS, _BATCH_FEATURES, _BATCH_TARGETS) for table in tables]
        return [table_pairs(batch.features, batch.targets) for batch in drawn]

    def part(self, table: TableArrays, draw: int = 0) -> TableArrays:
        """The table itself, or of one with many pairs one of several random parts."""
        return table.most_pairs(self.max_pairs, draw)

    def whole(self, table: TableArrays) -> Array:
        """Pairs (q, I, 2) of a whole table."""
        part = self.part(table)
        return table_pairs(part.features, part.targets)

    def __call__(self, parameters: Mapping[str, Any], batches: Sequence[Any]) -> Any:
        """Vectors (N, V) of N tables, each given by its pairs (q, I, 2)."""
        rows = np.repeat([pairs.shape[1] for pairs in batches], [pairs.shape[0] for pairs in batches])
        if isinstance(parameters[f"{self.within.name}.first.bias"], np.ndarray):
            flat = np.concatenate([pairs.reshape(-1, 2) for pairs in batches])
            ends, blocks = np.cumsum(rows), []
            for some in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(ends // _BLOCK_ROWS)) + 1):
                inputs = flat[ends[some[0]] - rows[some[0]] : ends[some[-1]]]
                blocks.append(segment_means(self.within(parameters, inputs), rows[some]))
            pooled = np.concatenate(blocks)
        else:
            torch = require_torch("Dataset2Vec")
            dtype = parameters[f"{self.within.name}.first.bias"].dtype
            flat = torch.cat([torch.as_tensor(pairs).reshape(-1, 2) for pairs in batches]).to(dtype)
            pooled = segment_means(self.within(parameters, flat), rows)
        means = segment_means(self.between(parameters, pooled), np.array([len(pairs) for pairs in batches]))
        return self.last(parameters, means)


def segment_means(values: Any, lengths: NDArray[np.int64]) -> Any:
    """Means (S, K) of S segments of the rows (Σ lengths, K) of an array or a tensor.

    >>> segment_means(np.array([[1.0], [3.0], [5.0]]), np.array([2, 1]))
    array([[2.],
           [5.]])
    """
    if isinstance(values, np.ndarray):
        sums = np.add.reduceat(values, np.cumsum(lengths) - lengths, axis=0)
        return sums / lengths[:, None]
    torch = require_torch("a network over sets")
    return torch.segment_reduce(values, "mean", lengths=torch.as_tensor(lengths), axis=0)


def table_pairs(features: NDArray[Any], targets: NDArray[Any]) -> Array:
    """Pairs (F C, I, 2) of a table with features (I, F) and targets (I, C)."""
    shape = (features.shape[1], targets.shape[1], len(features))
    pairs = np.empty((*shape, 2))
    pairs[..., 0] = features.T[:, None, :]
    pairs[..., 1] = targets.T[None, :, :]
    return pairs.reshape(-1, shape[2], 2)


def distance(left: Any, right: Any) -> Any:
    """d between vectors (..., V), tensors; its derivative is finite also where they are equal."""
    difference = left - right
    return ((difference * difference).sum(-1) + _EPSILON**2).sqrt()


def identification_loss(distances: Any, same: Any) -> Any:
    """f_DBI of pairs of batches by their distances (...); `same` says which are of one table. Tensors."""
    torch = require_torch("Dataset2Vec")
    return torch.where(same, distances, -torch.log(-torch.expm1(-distances)))
