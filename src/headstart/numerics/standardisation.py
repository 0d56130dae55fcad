"""Checks of observations, and shift and scale of regression targets.

=======  ============  ==================================
symbol   name in code  equation
=======  ============  ==================================
y        targets       what the caller observes
b        shift         mean of y
a        scale         standard deviation of y
ỹ                      (y - b) / a
=======  ============  ==================================
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from headstart.errors import InvalidInput
from headstart.numerics.kernels import Array


@dataclass(frozen=True)
class Standardisation:
    """An affine map between targets and standardised targets.

    Parameters
    ----------
    shift, scale
        See the notation; for targets that are all equal, and for none, `scale` is 1.
    constant
        Whether the targets it was made from do not differ beyond rounding.
    """

    shift: float = 0.0
    scale: float = 1.0
    constant: bool = True

    @classmethod
    def of(cls, targets: Array) -> Self:
        """The one that gives `targets`, shape ``(n,)``, mean 0 and standard deviation 1."""
        if not len(targets):
            return cls()
        peak = float(np.abs(targets).max())
        if peak == 0.0:
            return cls()
        # Relative to the largest one, so that neither sums nor squares overflow or vanish.
        relative = targets / peak
        center = float(relative.mean())
        spread = float(relative.std())
        if spread <= 8.0 * np.finfo(np.float64).eps:
            return cls(shift=center * peak)
        return cls(shift=center * peak, scale=spread * peak, constant=False)

    def apply(self, targets: Array) -> Array:
        """Standardised targets, any shape."""
        return np.asarray((targets - self.shift) / self.scale)

    def undo(self, standardised: Array) -> Array:
        """Targets, any shape."""
        return np.asarray(standardised * self.scale + self.shift)


def checked_points(points: ArrayLike, columns: int | None = None) -> Array:
    """Finite float64 inputs of shape ``(n, d)`` in C order, with `columns` columns if that is given."""
    array = np.ascontiguousarray(points, dtype=np.float64)
    if array.ndim != 2:
        raise InvalidInput(f"inputs must have shape (n, d), got {array.shape}")
    if columns is not None and array.shape[1] != columns:
        raise InvalidInput(f"inputs must have {columns} columns like those of the fit, got {array.shape[1]}")
    if not np.isfinite(array).all():
        raise InvalidInput("inputs must be finite, found NaN or infinity; impute them first")
    return array


def checked_observations(inputs: ArrayLike, targets: ArrayLike, columns: int | None = None) -> tuple[Array, Array]:
    """Finite float64 inputs ``(n, d)`` and targets ``(n,)``; copies, so that a model may keep them."""
    points = checked_points(np.array(inputs, dtype=np.float64), columns)
    values = np.array(targets, dtype=np.float64)
    if values.shape != (len(points),):
        raise InvalidInput(f"targets must have shape ({len(points)},), one per row of the inputs, got {values.shape}")
    if not np.isfinite(values).all():
        raise InvalidInput("targets must be finite, found NaN or infinity; decide first what failures count as")
    return points, values
