"""The numbers of operator splitting: projection, augmented Lagrangian, multipliers.

After Liu et al. (2020), *An ADMM based framework for AutoML pipeline configuration*, Algorithms 1 and 2.

========  ======================  =======================================================================  ========
symbol    name in code            meaning                                                                  equation
========  ======================  =======================================================================  ========
θ̃         `Split.theta`           hyper-parameters of all algorithms, integers relaxed, in the unit cube   4
δ         `Split.rounded`         the nearest values that are in the space                                 5, 11
λ         `Split.multipliers`     of θ̃ᵈ = δ                                                               7
z         `Split.structure`       algorithm of each stage, and the order of stages where it is free        1
ρ         rho                     weight of the quadratic penalties                                        7
b, a      `Split.target`, –       δ − λ/ρ and θ̃ᵈ + λ/ρ                                                    8, 11
g, ε      `in_bounds`, `BOUND`    values of constraints in tenths of their bounds, and those bounds        2
u         `best_slacks`           in [0, ε]                                                                13
μ         `Split.prices`          multipliers of g − ε + u = 0                                             A25
========  ======================  =======================================================================  ========

λ and δ belong to numeric hyper-parameters with a finite number of values. A categorical one without an order has no
values in between; it is one-hot in the box of θ-min, is always decoded to a choice, and needs no multiplier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headstart.constraints import Constraint
from headstart.space.parameters import Categorical, Integer, Parameter
from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]
BOUND = 10.0
"""Values of constraints are in tenths of their bounds: one that exceeds it by a tenth counts as much as a loss that is
worse by ρ/2 of the scale of losses. In whole bounds that would be a hundredth of it, and violated for a better loss."""
FAR, FARTHEST = 3.0, 1e9
"""An excess of more than the first counts by its logarithm, up to the second. Squared as it is, a latency a thousand
times too high would leave a surrogate nothing to tell the others apart by."""


def nearest_value(parameter: Parameter, points: Array) -> Array:
    """The values of a parameter on the unit interval that are nearest to some points; (n,) → (n,)."""
    inside = np.clip(points, 0.0, 1.0)
    near = parameter.from_unit(inside[:, None])
    if isinstance(parameter, Categorical):
        return parameter.to_unit(near)[:, 0]
    # On a logarithmic scale the nearest on the line need not be the nearest number.
    around = np.array(near, dtype=np.float64)[:, None] + np.array([0, -1, 1])
    around = np.clip(around, parameter.low, parameter.high)
    units = parameter.to_unit(around.ravel().tolist())[:, 0].reshape(around.shape)
    chosen = np.abs(units - inside[:, None]).argmin(axis=1)
    nearest: Array = units[np.arange(len(units)), chosen]
    return nearest


class Rounding:
    """δ-min: which columns of a space are relaxed, and their nearest values (equation 11).

    Attributes
    ----------
    relaxed
        (D,) bool: columns of numeric hyper-parameters with a finite number of values.
    """

    def __init__(self, space: PipelineSpace) -> None:
        self._parameters: list[tuple[int, Parameter]] = []
        self.relaxed = np.zeros(space.width, dtype=bool)
        for stage in space.stages:
            for algorithm in stage.algorithms:
                for parameter in algorithm.params:
                    if isinstance(parameter, Integer) or (isinstance(parameter, Categorical) and parameter.ordered):
                        column = space.columns(stage.name, algorithm.name, parameter.name).start
                        self._parameters.append((column, parameter))
                        self.relaxed[column] = True

    def __call__(self, values: Array) -> Array:
        """The nearest values in the space of the relaxed columns, the others as they are; (D,) → (D,)."""
        rounded = values.copy()
        for column, parameter in self._parameters:
            rounded[column] = nearest_value(parameter, values[column : column + 1])[0]
        return rounded


def in_bounds(constraints: Sequence[Constraint], measured: Mapping[str, float]) -> Array:
    """Measured values in tenths of their bounds, so that `BOUND` is the bound; (M,).

    Counted from one bound's length below it, where 0 is. What exceeds it by more than `FAR` counts by the logarithm,
    and what was not measured as `FARTHEST`.
    """
    excess = np.full(len(constraints), FARTHEST)
    for i, constraint in enumerate(constraints):
        over = (measured.get(constraint.name, np.inf) - constraint.upper) / (abs(constraint.upper) or 1.0)
        if not np.isnan(over):
            excess[i] = np.clip(BOUND * over, -BOUND, FARTHEST)
    near: Array = BOUND + np.minimum(excess, FAR) + np.log(np.maximum(excess, FAR) / FAR)
    return near


def best_slacks(values: Array, prices: Array, rho: float) -> Array:
    """u that minimises (g − ε + u + μ/ρ)² in [0, ε], in closed form."""
    slacks: Array = np.clip(BOUND - values - prices / rho, 0.0, BOUND)
    return slacks


def constraint_penalty(values: Array, slacks: Array, prices: Array, rho: float) -> float:
    """ρ/2 Σ (g − ε + u + μ/ρ)²."""
    return float(rho / 2 * ((values - BOUND + slacks + prices / rho) ** 2).sum())


@dataclass(frozen=True)
class Structure:
    """Algorithm of each stage, in their order of declaration, and the order of stages where a space leaves it free."""

    algorithms: tuple[str, ...]
    order: tuple[int, ...] | None = None

    def given(self, space: PipelineSpace) -> dict[str, str]:
        """As a partial structure of a space, by the names of its stages."""
        return dict(zip((stage.name for stage in space.stages), self.algorithms, strict=True))


@dataclass(frozen=True)
class Split:
    """The variables of the splitting between two sub-problems. Shapes: D columns of the space, M constraints."""

    structure: Structure
    theta: Array  # (D,)
    rounded: Array  # (D,)
    multipliers: Array  # (D,), 0 where nothing is relaxed
    prices: Array  # (M,)

    @classmethod
    def at(cls, structure: Structure, theta: Array, rounding: Rounding, constraints: int) -> Split:
        """Where the iterations begin: λ = 0, μ = 0."""
        return cls(structure, theta, rounding(theta), np.zeros(len(theta)), np.zeros(constraints))

    def target(self, rho: float) -> Array:
        """b, what θ-min is drawn to; (D,)."""
        target: Array = self.rounded - self.multipliers / rho
        return target

    def distance_penalty(self, theta: Array, columns: NDArray[np.int64], rounding: Rounding, rho: float) -> float:
        """ρ/2 ‖θ̃ᵈ − b‖² over these columns; `theta` (k,) has the values of the k columns."""
        apart = (theta - self.target(rho)[columns])[rounding.relaxed[columns]]
        return float(rho / 2 * apart @ apart)

    def after_theta(self, theta: Array, columns: NDArray[np.int64], rounding: Rounding, rho: float) -> Split:
        """After θ-min: new active values, inactive ones projected (equation 9), then δ-min and the update of λ."""
        relaxed = rounding.relaxed
        new = np.where(relaxed, np.clip(self.target(rho), 0.0, 1.0), self.theta)
        new[columns] = theta
        rounded = np.where(relaxed, rounding(new + self.multipliers / rho), new)
        multipliers = np.where(relaxed, self.multipliers + rho * (new - rounded), 0.0)
        return replace(self, theta=new, rounded=rounded, multipliers=multipliers)

    def after_z(self, structure: Structure, values: Array, rho: float) -> Split:
        """After z-min: the new structure, and the update of μ by the constraints measured there (equation A29).

        An excess counts as at most `FAR`, so that prices can fall again within some iterations.
        """
        excess = np.minimum(values, BOUND + FAR) - BOUND
        return replace(
            self, structure=structure, prices=self.prices + rho * (excess + best_slacks(values, self.prices, rho))
        )
