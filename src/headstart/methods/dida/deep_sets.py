"""The networks over sets that Dida is compared with (appendix B.4.2 of the thesis).

================  ===================  ===============================================================================
symbol            name in code         equation
================  ===================  ===============================================================================
x_j, y_j                               row j: d features, and the one-hot class
L^H               `DSSNetwork.inner`   ρ(Σ_k φ(x[k])), of numbers in any order (B.4); one for features, one for classes
L_inv             pooled               mean over rows j of L^H(x_j) (B.3)
L_eq              `equivariant`        x_j[k] ↦ L¹(x_j)[k] + L²(Σ_{i≠j} x_i)[k], each λ x[k] + γ Σ_l x[l] (B.5)
g                 "….row"              R^15 → R^32, of a row with its features in their order (B.6)
ȳ                                      mean of the class numbers of rows (B.7)
================  ===================  ===============================================================================

DSS is due to Maron, Litany, Chechik & Fetaya (2020), deep sets to Zaheer et al. (2017). For linear φ and ρ it makes no
difference whether rows are added before or inside L^H; of columns that are standardised their sum would say nothing, so
that the non-linear network has it inside. Sums over rows are means, to be of one scale for all sizes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headstart.learning.backend import require_torch
from headstart.learning.networks import MLP, Parameters
from headstart.metafeatures.set_networks import TableArrays, segment_means
from headstart.methods.dida.network import PATCH_FEATURES, PATCH_ROWS, patches_of

Variant = Literal["linear", "nonlinear", "equivariant"]


class _OfPatches:
    """What networks share whose batches are tables as they are."""

    def batches(self, tables: Sequence[TableArrays], rng: np.random.Generator) -> list[TableArrays]:
        """A patch of each table, all of one random size."""
        return patches_of(tables, rng)

    def whole(self, table: TableArrays) -> TableArrays:
        """A table as large as a patch, or a part of a larger one."""
        return table.most(PATCH_ROWS[1], PATCH_FEATURES[1])


@dataclass(frozen=True)
class DSSNetwork(_OfPatches):
    """Deep sets for symmetric elements, a `headstart.metafeatures.TableNetwork`.

    Parameters
    ----------
    variant
        ``"linear"`` and ``"nonlinear"`` φ and ρ; ``"equivariant"`` has the layer of equation B.5 before the latter.
    units, outputs
        Width of φ, ρ and of the fully connected layers; length of the vector.
    name
        What the names of its parameters begin with.
    """

    variant: Variant = "nonlinear"
    units: int = 64
    outputs: int = 32
    name: str = "dss"

    def inner(self, of: str) -> tuple[MLP, MLP]:
        """φ and ρ of ``"features"`` or ``"classes"``."""
        layers, active = (1, False) if self.variant == "linear" else (2, True)
        return (
            MLP(f"{self.name}.{of}.each", (1, *[self.units] * layers), end_active=active),
            MLP(f"{self.name}.{of}.sum", (self.units,) * (layers + 1), end_active=active),
        )

    @cached_property
    def last(self) -> MLP:
        return MLP(f"{self.name}.last", (2 * self.units, self.units, self.units, self.outputs))

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters; those of equation B.5 begin at the identity."""
        found = self.last.initial(rng)
        for of in ("features", "classes"):
            each, total = self.inner(of)
            found |= each.initial(rng) | total.initial(rng)
            if self.variant != "linear":  # bends of relu at other places than 0
                found[f"{each.name}.0.bias"] = rng.uniform(-1.0, 1.0, self.units)
            if self.variant == "equivariant":
                found[f"{self.name}.{of}.equivariant"] = np.array([[1.0, 0.0], [0.0, 0.0]])
        return found

    def __call__(self, parameters: Mapping[str, Any], batches: Sequence[TableArrays]) -> Any:
        """Vectors (N, outputs) of N tables."""
        weight = parameters[f"{self.last.name}.0.weight"]
        rows = np.array([len(table.features) for table in batches])
        pooled = []
        for of, arrays in (
            ("features", [table.features for table in batches]),
            ("classes", [table.targets for table in batches]),
        ):
            each, total = self.inner(of)
            widths = np.array([array.shape[1] for array in arrays])
            if self.variant == "equivariant":
                mixing = parameters[f"{self.name}.{of}.equivariant"]
                values = _joined([self.equivariant(mixing, _as(weight, array)).reshape(-1, 1) for array in arrays])
            else:
                values = _as(weight, np.concatenate([array.reshape(-1, 1) for array in arrays]))
            sums = segment_means(each(parameters, values), np.repeat(widths, rows))
            sums = sums * _as(weight, np.repeat(widths, rows)[:, None])
            pooled.append(segment_means(total(parameters, sums), rows))
        return self.last(parameters, _joined(pooled, 1))

    @staticmethod
    def equivariant(mixing: Any, table: Any) -> Any:
        """Equation B.5 of a table (n, d), with λ and γ of L¹ and of L² in the rows of `mixing` (2, 2)."""
        others = (table.sum(0) - table) / max(1, len(table) - 1)
        first, second = (
            m[0] * part + m[1] * part.mean(-1)[:, None] for m, part in zip(mixing, (table, others), strict=True)
        )
        return first + second


@dataclass(frozen=True)
class OrderedFeaturesNetwork(_OfPatches):
    """No-FInv-DSS: a deep set of rows that minds the order of their features; at most 15 of them.

    Parameters
    ----------
    units, outputs
        Width of the fully connected layers, 1024 and 700 in the thesis, and length of the vector.
    name
        What the names of its parameters begin with.
    """

    units: int = 64
    outputs: int = 32
    name: str = "ordered"

    @cached_property
    def row(self) -> MLP:
        return MLP(f"{self.name}.row", (PATCH_FEATURES[1], 128, 64, 32), end_active=True)

    @cached_property
    def last(self) -> MLP:
        return MLP(f"{self.name}.last", (33, self.units, self.units, self.outputs))

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters."""
        return self.row.initial(rng) | self.last.initial(rng)

    def __call__(self, parameters: Mapping[str, Any], batches: Sequence[TableArrays]) -> Any:
        """Vectors (N, outputs) of N tables of at most 15 features; zeros stand for those that a table does not have."""
        weight = parameters[f"{self.last.name}.0.weight"]
        rows = np.concatenate(
            [np.pad(t.features, ((0, 0), (0, PATCH_FEATURES[1] - t.features.shape[1]))) for t in batches]
        )
        classes = np.array([[(t.targets @ np.arange(t.targets.shape[1])).mean()] for t in batches])
        means = segment_means(self.row(parameters, _as(weight, rows)), np.array([len(t.features) for t in batches]))
        return self.last(parameters, _joined([means, _as(weight, classes)], 1))


def _as(like: Any, values: NDArray[Any]) -> Any:
    """An array as it is, or as a tensor of the type of another."""
    return values if isinstance(like, np.ndarray) else require_torch("DSS").as_tensor(values).to(like.dtype)


def _joined(parts: Sequence[Any], axis: int = 0) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts, axis)
    return require_torch("DSS").cat(list(parts), axis)
