"""The ellipsoid of least volume around points: Khachiyan's algorithm.

=========  ============  =====================================================================================
symbol     name in code  equation
=========  ============  =====================================================================================
x_i        points        n points in d dimensions
q_i        lifted        (x_i, 1)
u          weights       maximise log det Σ u_i q_i q_iᵀ over u_i ≥ 0, Σ u_i = 1
κ_i        distances     q_iᵀ (Σ u_j q_j q_jᵀ)⁻¹ q_i; at the optimum at most d + 1, with equality where u_i > 0
c          center        Σ u_i x_i
A          shape         (Σ u_i x_i x_iᵀ - c cᵀ)⁻¹ / d; inside is (x - c)ᵀ A (x - c) ≤ 1
=========  ============  =====================================================================================

It is the dual of a D-optimal design on the lifted points. Each step moves weight to the point farthest out or, which
makes it converge fast (Todd and Yıldırım), away from the one that lies deepest inside of those that carry weight.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from headstart.errors import InvalidInput

Array = NDArray[np.float64]


@dataclass(frozen=True)
class EnclosingEllipsoid:
    """(x - center)ᵀ shape (x - center) ≤ 1.

    Parameters
    ----------
    center
        (d,)
    shape
        (d, d)
    """

    center: Array
    shape: Array

    def distance(self, points: ArrayLike) -> Array:
        """(x - center)ᵀ shape (x - center) of points (n, d): at most 1 inside; (n,)."""
        moved = np.asarray(points, dtype=np.float64) - self.center
        return np.asarray(np.einsum("ij,ij->i", moved @ self.shape, moved))


def enclosing_ellipsoid(points: ArrayLike, *, tolerance: float = 1e-4, iterations: int = 10_000) -> EnclosingEllipsoid:
    """The ellipsoid of least volume around points (n, d), which must not all lie on a plane of lower dimension.

    Parameters
    ----------
    points
        The points.
    tolerance
        The farthest point may stick out by this much (squared radius) before the result is blown up to hold all of
        them.
    iterations
        Most steps.
    """
    given = np.asarray(points, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] < 1:
        raise InvalidInput(f"points must be (n, d) with d at least 1, got shape {given.shape}")
    given = np.unique(given, axis=0)
    n, d = given.shape
    if np.linalg.matrix_rank(given - given.mean(axis=0)) < d:
        raise InvalidInput(f"an ellipsoid of {d} dimensions needs {d + 1} points that span them, got {n} that do not")
    lifted = np.column_stack([given, np.ones(n)])
    weights = np.full(n, 1.0 / n)
    size = d + 1
    for _ in range(iterations):
        distances = _distances(lifted, weights)
        out = int(distances.argmax())
        carrying = np.flatnonzero(weights > 0)
        deep = int(carrying[distances[carrying].argmin()])
        if distances[out] / size - 1 <= tolerance:
            break
        if distances[out] - size >= size - distances[deep] or weights[deep] >= 1.0:
            step = (distances[out] - size) / (size * (distances[out] - 1))
            weights *= 1 - step
            weights[out] += step
        else:
            step = weights[deep] / (1 - weights[deep])  # all that it carries
            if distances[deep] > 1:
                step = min(step, (size - distances[deep]) / (size * (distances[deep] - 1)))
            weights *= 1 + step
            weights[deep] = max(0.0, weights[deep] - step)
    center = weights @ given
    spread = (given * weights[:, None]).T @ given - np.outer(center, center)
    shape = np.linalg.inv(spread) / d
    found = EnclosingEllipsoid(center, (shape + shape.T) / 2)
    largest = float(found.distance(given).max())
    return EnclosingEllipsoid(center, found.shape / largest) if largest > 1 else found


def _distances(lifted: Array, weights: Array) -> Array:
    moment = (lifted * weights[:, None]).T @ lifted
    return np.asarray(np.einsum("ij,ij->i", cho_solve(cho_factor(moment), lifted.T).T, lifted))
