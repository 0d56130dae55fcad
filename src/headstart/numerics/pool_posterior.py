"""Exact Gaussian-process posterior over a fixed set of points, one observation after another.

================  ============  ==========================================================================
symbol            name in code  equation
================  ============  ==========================================================================
k(p, ·) (P,)      row           prior covariance of point p with all P points
ψ_p               noise         variance of an observation of point p around the function
L                 lower         Cholesky factor of K_oo + diag ψ_o, o the points observed, in their order
V                 rows          L⁻¹ K_o·, (n, P)
σ²_p              variance      k(p, p) − Σ_i V_ip²
================  ============  ==========================================================================

Observing point p adds one row to L and V: ``l = V[:, p]``, ``d = √(σ²_p + ψ_p)``, new row ``(k(p, ·) − lᵀV) / d``. That
is O(nP) instead of O(n²P) for starting anew, and it is the same arithmetic in the same order whether all observations
come at once or one by one: the result does not depend on it, to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Row = NDArray[np.floating[Any]]
_LEAST_VARIANCE = 1e-12


class PoolPosterior:
    """The posterior over P points.

    Parameters
    ----------
    row
        From the place of a point to its prior covariances with all, (P,).
    variance, noise
        (P,), prior variance of the function and variance of an observation around it.
    single
        Whether rows are kept in single precision, at half the time and memory.
    """

    def __init__(self, row: Callable[[int], Row], variance: Array, noise: Array, *, single: bool = False) -> None:
        self._row = row
        self._prior = variance
        self.noise = noise
        self.variance = variance.copy()
        self.observed: list[int] = []
        self._rows: Row = np.empty((16, len(variance)), dtype=np.float32 if single else np.float64)
        self._lower = np.zeros((16, 16))

    @property
    def rows(self) -> Row:
        return self._rows[: len(self.observed)]

    @property
    def lower(self) -> Array:
        n = len(self.observed)
        return self._lower[:n, :n]

    def observe(self, points: list[int]) -> None:
        """Make these the points that are observed, in this order; what is the same from the start on is kept."""
        same = 0
        while same < min(len(points), len(self.observed)) and points[same] == self.observed[same]:
            same += 1
        if same < len(self.observed):
            self.observed = self.observed[:same]
            self.variance = self._prior.copy()
            for row in self.rows:
                self.variance -= row**2
        for point in points[same:]:
            self._add(point)

    def _add(self, point: int) -> None:
        n = len(self.observed)
        if n == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
            self._lower = np.pad(self._lower, (0, n))
        before = self._rows[:n, point].copy()
        row = self._row(point) - before @ self._rows[:n]
        spread = np.sqrt(max(float(self.variance[point]), 0.0) + max(float(self.noise[point]), _LEAST_VARIANCE))
        row /= spread
        self._rows[n] = row
        self._lower[n, :n] = before
        self._lower[n, n] = spread
        self.variance -= row**2
        self.observed.append(point)

    def spread(self, whitened: Array) -> Array:
        """K_·o (K_oo + ψ)⁻¹ B over all points, (k, P), of whitened values (n, k)."""
        return np.asarray(whitened.T.astype(self._rows.dtype) @ self.rows, dtype=np.float64)
