"""The network of Dida: invariant layers, which map a table to a distribution of points, and fully connected ones.

De Bie, Rakotoarison, Peyré & Sebag (2020), "Distribution-based invariant deep networks for learning meta-features";
chapter 5 of Rakotoarison's thesis.

============  ====================  ================================================================================
symbol        name in code          equation
============  ====================  ================================================================================
z = (x, y)                          a row with d features, and its target
N(i)          neighbours            (n, K) rows that row i is compared with, itself among them; all of them if K = n
1[y ≠ y']     differences           (n, K), whether row and neighbour have different classes
u             "….pairs"             ρ(A_u (x[k], x'[k]) + b_u), R² → R^t, and the indicator beside it (5.5)
v             "….joint"             ρ(A_v · + b_v), R^{t+1} → R^r (5.6)
φ_1           `first_layer`         v(mean over k of u(x[k], x'[k], y, y')) (5.4)
φ_2           "….second"            ρ(A [z; z'] + b), R^{2r} → R^r
f_φ(z)_i      hidden                mean over j in N(i) of φ(z_i, z_j) (5.1)
φ_3           "….point"             ρ(A z + b) of each point; the mean over points is a vector (5.3)
F_ζ           vectors               two more layers, relu between them: the meta-features
ρ                                   relu
============  ====================  ================================================================================

The indicator stands beside ρ and is averaged over features with the rest. What the thesis calls the penultimate layer
is the last of its three fully connected ones: behind it comes the layer of the task, a distance or a ranking.

Decided here. (1) Neighbours are the K rows at the least distance, duplicates and the row itself included. Values on
either side of a number are often equally far from it, and which of them is taken must not depend on the order of rows.
So what is compared is Σ_k (x[k] - x'[k])² (1 + ε sin(x[k] + 1) + ε cos(x'[k] + 1)) + ε 1[y ≠ y']: but for accidents it
is the same for two rows only where φ_1 is too. The second layer looks for neighbours among its own inputs.
(2) 1[y ≠ y'] is computed as ½‖y - y'‖² of one-hot classes, and the same of a standardised number to predict, up to 1.
(3) Equation 5.4 has a sum over features; here it is their mean, or all that follows would depend on their number, which
is another one in each patch. (4) The thesis does not give K, t, r and the widths.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from headstart.learning.backend import require_torch
from headstart.learning.networks import MLP, Array, Parameters, activate, initial_dense
from headstart.metafeatures.set_networks import TableArrays

Rows = NDArray[np.int64]

_ASYMMETRY = 1e-3
_BLOCK = 1 << 20
"""Numbers that NumPy makes at a time in the first layer."""
PATCH_ROWS, PATCH_FEATURES = (200, 500), (2, 15)
"""Least and most of a patch, as in the paper."""


class Patch(NamedTuple):
    """A table, or a part of it, as the network reads it: features (n, d), neighbours (n, K), differences (n, K)."""

    features: NDArray[np.float32]
    neighbours: Rows
    differences: NDArray[np.float32]


def patches_of(
    tables: Sequence[TableArrays],
    rng: np.random.Generator,
    rows: tuple[int, int] = PATCH_ROWS,
    features: tuple[int, int] = PATCH_FEATURES,
) -> list[TableArrays]:
    """A patch of each table, all of one random size between these bounds (Algorithm 3)."""
    size = [int(rng.integers(least, most + 1)) for least, most in (rows, features)]
    return [table.patch(rng, size[0], size[1]) for table in tables]


def differences_of(targets: NDArray[Any]) -> Array:
    """½‖y - y'‖² of all rows (n, n), at most 1: whether they are of different classes."""
    squares = (targets * targets).sum(axis=1)
    apart: Array = np.clip(0.5 * (squares[:, None] + squares) - targets @ targets.T, 0.0, 1.0)
    return apart


def near_rows(features: NDArray[Any], differences: NDArray[Any], number: int | None) -> Rows:
    """Neighbours (n, K) of the rows of a table (n, d), in no order; all rows if there are no more, or for ``None``."""
    n = len(features)
    if number is None or number >= n:
        return np.broadcast_to(np.arange(n), (n, n))
    x = features.astype(np.float64)
    square, own, other = x * x, _ASYMMETRY * np.sin(x + 1.0), 1.0 + _ASYMMETRY * np.cos(x + 1.0)
    apart = square @ other.T - 2.0 * (x @ (x * other).T) + (square * other).sum(axis=1)
    apart += own @ square.T - 2.0 * (x * own) @ x.T  # and a part that is the same for all neighbours of a row
    apart += _ASYMMETRY * differences
    return np.argpartition(apart, number - 1, axis=1)[:, :number]


@dataclass(frozen=True)
class DidaNetwork:
    """The architecture of Dida, a `headstart.metafeatures.TableNetwork`; its parameters are entries of a mapping.

    Parameters
    ----------
    layers
        Invariant layers, 1 or 2.
    pair_units, units, outputs
        t; r and the width of fully connected layers; length of the vector.
    neighbours
        K; ``None`` for all rows.
    name
        What the names of its parameters begin with.
    """

    layers: int = 2
    pair_units: int = 32
    units: int = 64
    outputs: int = 32
    neighbours: int | None = 10
    name: str = "dida"

    @cached_property
    def point(self) -> MLP:
        return MLP(f"{self.name}.point", (self.units, self.units), end_active=True)

    @cached_property
    def last(self) -> MLP:
        return MLP(f"{self.name}.last", (self.units, self.units, self.outputs))

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters."""
        gain = np.sqrt(2.0)
        found = initial_dense(rng, f"{self.name}.pairs", 2, self.pair_units, gain)
        found[f"{self.name}.pairs.bias"] = rng.uniform(-1.0, 1.0, self.pair_units)
        found |= initial_dense(rng, f"{self.name}.joint", self.pair_units + 1, self.units, gain)
        if self.layers == 2:
            found |= initial_dense(rng, f"{self.name}.second", 2 * self.units, self.units, gain)
        return found | self.point.initial(rng) | self.last.initial(rng)

    def patch(self, table: TableArrays) -> Patch:
        """A table with its neighbours and differences."""
        differences = differences_of(table.targets)
        near = near_rows(table.features, differences, self.neighbours)
        return Patch(table.features, near, np.take_along_axis(differences, near, axis=1).astype(np.float32))

    def batches(self, tables: Sequence[TableArrays], rng: np.random.Generator) -> list[Patch]:
        """A patch of each table, all of one random size, so that size tells nothing of the table."""
        return [self.patch(patch) for patch in patches_of(tables, rng)]

    def part(self, table: TableArrays, draw: int = 0) -> TableArrays:
        """The table itself, or of one larger than a patch one of several random parts."""
        return table.most(PATCH_ROWS[1], PATCH_FEATURES[1], draw)

    def whole(self, table: TableArrays) -> Patch:
        """A table as large as a patch, or a part of a larger one."""
        return self.patch(self.part(table))

    def __call__(self, parameters: Mapping[str, Any], batches: Sequence[Patch]) -> Any:
        """Vectors (N, outputs) of N patches; those of one size are computed together."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, patch in enumerate(batches):
            groups.setdefault((*patch.features.shape, patch.neighbours.shape[1]), []).append(i)
        means = [self._means(parameters, [batches[i] for i in group]) for group in groups.values()]
        order = np.argsort(np.concatenate([np.array(group) for group in groups.values()]))
        if isinstance(means[0], np.ndarray):
            return self.last(parameters, np.concatenate(means)[order])
        torch = require_torch("Dida")
        return self.last(parameters, torch.cat(means)[torch.as_tensor(order)])

    def _means(self, parameters: Mapping[str, Any], patches: Sequence[Patch]) -> Any:
        """Means (B, units) over the points of B patches of one size."""
        features, differences = (np.stack([patch[i] for patch in patches]) for i in (0, 2))
        hidden = self.first_layer(parameters, features, np.stack([patch[1] for patch in patches]), differences)
        if self.layers == 2:
            hidden = self.second_layer(parameters, hidden)
        return self.point(parameters, hidden).mean(1)

    def first_layer(
        self, parameters: Mapping[str, Any], features: NDArray[Any], neighbours: Rows, differences: NDArray[Any]
    ) -> Any:
        """f_φ1: points (B, n, units) of B tables with features (B, n, d); neighbours and differences (B, n, K)."""
        b, n, d = features.shape
        weight, bias = (parameters[f"{self.name}.pairs.{kind}"] for kind in ("weight", "bias"))
        joint, shift = (parameters[f"{self.name}.joint.{kind}"] for kind in ("weight", "bias"))
        near = _rows_of_all(neighbours).reshape(b * n, -1)
        rows = features.reshape(b * n, d)
        apart = differences.reshape(b * n, -1, 1)

        def points(some: slice) -> Any:
            others = rows[near[some]]
            pairs: Any = np.stack([np.broadcast_to(rows[some, None], others.shape), others], axis=-1)
            indicator: Any = apart[some]
            if not isinstance(weight, np.ndarray):
                torch = require_torch("Dida")
                pairs, indicator = (torch.as_tensor(values).to(weight.dtype) for values in (pairs, indicator))
            means = activate("relu", pairs @ weight + bias).mean(2)
            return activate("relu", means @ joint[:-1] + indicator * joint[-1] + shift).mean(1)

        step = max(1, _BLOCK // (near.shape[1] * d * self.pair_units))
        blocks = [points(slice(i, i + step)) for i in range(0, b * n, step)]
        joined = np.concatenate(blocks) if isinstance(weight, np.ndarray) else require_torch("Dida").cat(blocks)
        return joined.reshape(b, n, -1)

    def second_layer(self, parameters: Mapping[str, Any], hidden: Any) -> Any:
        """f_φ2: points (B, n, units) of points (B, n, units)."""
        b, n, r = hidden.shape
        weight, bias = (parameters[f"{self.name}.second.{kind}"] for kind in ("weight", "bias"))
        own, other = (hidden @ weight[:r] + bias).reshape(b * n, r), (hidden @ weight[r:]).reshape(b * n, r)
        if self.neighbours is None or self.neighbours >= n:
            grid = own.reshape(b, n, 1, r) + other.reshape(b, 1, n, r)
            return activate("relu", grid).mean(2)
        if isinstance(hidden, np.ndarray):
            near = _nearest_points(hidden, self.neighbours)
        else:
            torch = require_torch("Dida")
            with torch.no_grad():
                near = torch.as_tensor(_nearest_tensors(torch, hidden, self.neighbours))
        return activate("relu", own[:, None] + other[near.reshape(b * n, -1)]).mean(1).reshape(b, n, r)


def _rows_of_all(neighbours: Any) -> Any:
    """Neighbours (B, n, K) within tables as positions among the rows of all tables."""
    b, n, _ = neighbours.shape
    return neighbours + n * np.arange(b)[:, None, None]


def _nearest_points(points: Array, number: int) -> Rows:
    """The nearest points (B, n, K) of each, among the points of all tables (B n)."""
    squares = (points * points).sum(-1)
    apart = squares[:, :, None] + squares[:, None] - 2.0 * points @ points.swapaxes(1, 2)
    found: Rows = _rows_of_all(np.argpartition(apart, number - 1, axis=2)[..., :number])
    return found


def _nearest_tensors(torch: Any, points: Any, number: int) -> Any:
    """`_nearest_points` of tensors."""
    squares = (points * points).sum(-1)
    apart = torch.baddbmm(squares[:, None], points, points.transpose(1, 2), alpha=-2.0)
    near = torch.topk(apart, number, dim=2, largest=False, sorted=False).indices
    return near + points.shape[1] * torch.arange(len(points))[:, None, None]
