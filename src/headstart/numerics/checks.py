"""Checks of arrays that callers give."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from headstart.errors import InvalidInput
from headstart.numerics.kernels import Array


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
