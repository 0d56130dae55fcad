"""How many dimensions the tasks have, and points with their distances.

=======  =====================  ==============================================================================
symbol   name in code           equation
=======  =====================  ==============================================================================
C        distances              (n, n)
μ_i      ratio                  distance of the second nearest neighbour of i by that of the nearest
F(μ)                            i / n for the i-th smallest ratio
d        `intrinsic_dimension`  slope of -log(1 - F) over log μ, a line through the origin (Facco et al. 2017)
u_i      points                 (n, d), ‖u_i - u_j‖ ≈ C_ij, by least squares (metric scaling)
=======  =====================  ==============================================================================

Algorithm 6 of the thesis prints μ as a ratio of squared distances, whose slope is d / 2, and includes the largest
ratio, where 1 - F is 0. Here distances are not squared and the largest ratio is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput

Array = NDArray[np.float64]
_LEAST = 4
"""Points that a dimension can be estimated of."""


def intrinsic_dimension(distances: Array) -> float:
    """Dimension of the space that points lie in, from their distances (n, n); its standard error is about d / √n.

    Points at the same place count once.
    """
    apart = _distinct(distances)
    n = len(apart)
    if n < _LEAST:
        raise InvalidInput(f"an intrinsic dimension needs at least {_LEAST} points at different places, got {n}")
    nearest = np.sort(apart + np.diag(np.full(n, np.inf)), axis=1)[:, :2]
    ratio = np.sort(np.log(nearest[:, 1] / nearest[:, 0]))[:-1]
    share = -np.log1p(-np.arange(1, n) / n)
    total = float(ratio @ ratio)
    return float(ratio @ share) / total if total > 0.0 else float("inf")


def _distinct(distances: Array) -> Array:
    """Rows and columns of points without those at the place of an earlier one."""
    same = distances <= 1e-9 * distances.max(initial=0.0)
    first = same.argmax(axis=1) == np.arange(len(distances))
    return distances[np.ix_(first, first)]


class Stability(NamedTuple):
    """Intrinsic dimensions of random parts of the points: mean and standard deviation over draws."""

    share: float
    points: int
    mean: float
    deviation: float


def dimension_stability(distances: Array, shares: tuple[float, ...], draws: int, seed: int = 0) -> list[Stability]:
    """How the intrinsic dimension depends on how many points there are (the thesis' table C.5)."""
    rng, n, found = np.random.default_rng(seed), len(distances), []
    for share in shares:
        size = max(_LEAST, round(share * n))
        values = []
        for _ in range(draws if size < n else 1):
            rows = rng.choice(n, size, replace=False)
            values.append(intrinsic_dimension(distances[np.ix_(rows, rows)]))
        found.append(Stability(share, size, float(np.mean(values)), float(np.std(values))))
    return found


def scaling(distances: Array, dimensions: int, iterations: int = 300, tolerance: float = 1e-6) -> Array:
    """Points (n, dimensions) whose distances are close to these, along their principal axes.

    Classical scaling, which is exact where the distances are those of points in so many dimensions, then majorisation
    of the squared differences of distances (SMACOF).
    """
    from scipy.spatial.distance import cdist

    n = len(distances)
    centred = np.eye(n) - 1.0 / n
    values, vectors = np.linalg.eigh(-0.5 * centred @ distances**2 @ centred)
    kept = np.argsort(values)[::-1][:dimensions]
    points = np.zeros((n, dimensions))
    points[:, : len(kept)] = vectors[:, kept] * np.sqrt(np.maximum(values[kept], 0.0))
    before = float("inf")
    for _ in range(iterations):
        own = cdist(points, points)
        stress = float(((own - distances) ** 2).sum())
        if stress >= (1.0 - tolerance) * before:
            break
        before = stress
        weight = np.divide(distances, own, out=np.zeros_like(own), where=own > 0)
        points = (weight.sum(axis=1)[:, None] * points - weight @ points) / n
    points = points - points.mean(axis=0)
    axes = np.linalg.svd(points, full_matrices=False)[2]
    axes *= np.where(axes.sum(axis=1) < 0, -1.0, 1.0)[:, None]  # the direction of an axis is free, so it is fixed
    found = np.zeros((n, dimensions))
    found[:, : len(axes)] = points @ axes.T
    return found
