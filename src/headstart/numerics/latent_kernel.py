"""Covariances of pipelines from latent points, with gradients for the points themselves.

====================  ===============  =======================================================================
symbol                name in code     equation
====================  ===============  =======================================================================
x_p (Q,)              points           latent point of pipeline p
ℓ_q                   length_scales    one for each latent dimension (ARD)
s                     output_scale     variance of the stationary part
c_q                   linear           weights of the linear part; all 0 leaves it out
r²                    squared          Σ_q (x_pq − x_p'q)² / ℓ_q²
k                     matrix           s ρ(r) + Σ_q c_q x_pq x_p'q
ρ                     shape            exp(−r²/2), or (1 + √5 r + 5r²/3) exp(−√5 r); 0 for ``"linear"`` alone
ρ'                    slope            dρ / d(r²), finite at r = 0: −ρ/2, or −(5/6)(1 + √5 r) exp(−√5 r)
G                     by_matrix        derivative of a loss by k, (n, n), symmetric
M                     weighted         s G ∘ ρ'
∂/∂x_p                                 Σ_p' 4 M_pp' (x_p − x_p') / ℓ² + 2 G x c
∂/∂ln ℓ_q                              −2 Σ_pp' M_pp' (x_pq − x_p'q)² / ℓ_q²
∂/∂ln s                                s Σ G ∘ ρ
∂/∂ln c_q                              c_q x_·qᵀ G x_·q
====================  ===============  =======================================================================

Equation 3 of the PMF paper is the squared exponential without the linear part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.errors import UnknownName, suggestion

Array = NDArray[np.float64]
Stationary = Literal["squared_exponential", "matern52", "linear"]
_ROOT5 = float(np.sqrt(5.0))


def check_stationary(name: str) -> None:
    """Raise `UnknownName` unless there is such a kernel."""
    if name not in get_args(Stationary):
        raise UnknownName(f"no kernel over latent points is named {name!r}; {suggestion(name, get_args(Stationary))}")


class Gradient(NamedTuple):
    """Derivatives by the points (n, Q) and by the logarithms of the kernel's parameters."""

    points: Array
    log_length_scales: Array
    log_output_scale: float
    log_linear: Array


@dataclass
class LatentKernel:
    """A covariance over latent points; see the notation.

    Parameters
    ----------
    kind
        Of the stationary part; ``"linear"`` for none.
    length_scales, linear
        (Q,); `linear` of zeros for none.
    output_scale
        Of the stationary part.
    """

    kind: Stationary
    length_scales: Array
    output_scale: float
    linear: Array

    def _squared(self, left: Array, right: Array) -> Array:
        left, right = left / self.length_scales, right / self.length_scales
        squared = (left**2).sum(axis=-1)[:, None] + (right**2).sum(axis=-1)[None] - 2.0 * (left @ right.T)
        return np.asarray(np.maximum(squared, 0.0, out=squared))

    def _shape(self, squared: Array) -> Array:
        if self.kind == "squared_exponential":
            return np.exp(-0.5 * squared)
        root = squared.dtype.type(_ROOT5) * np.sqrt(squared)
        return np.asarray((1.0 + root + root**2 / 3.0) * np.exp(-root))

    def _slope(self, squared: Array) -> Array:
        if self.kind == "squared_exponential":
            return np.asarray(-0.5 * np.exp(-0.5 * squared))
        root = _ROOT5 * np.sqrt(squared)
        return np.asarray(-(5.0 / 6.0) * (1.0 + root) * np.exp(-root))

    def linear_matrix(self, left: Array, right: Array) -> Array:
        """The linear part of the covariances (n, m) of points (n, Q) and (m, Q)."""
        return np.asarray((left * self.linear) @ right.T)

    def stationary_matrix(self, left: Array, right: Array) -> Array:
        """The stationary part."""
        if self.kind == "linear":
            return np.zeros((len(left), len(right)), dtype=left.dtype)
        return self.stationary(self._squared(left, right))

    def stationary(self, squared: Array) -> Array:
        """The stationary part at squared distances r², in their precision."""
        return np.asarray(squared.dtype.type(self.output_scale) * self._shape(squared))

    def matrix(self, left: Array, right: Array | None = None) -> Array:
        """Covariances (n, m) of points (n, Q) and (m, Q)."""
        other = left if right is None else right
        return self.linear_matrix(left, other) + self.stationary_matrix(left, other)

    def gradient(self, points: Array, by_matrix: Array, by_stationary: Array | None = None) -> Gradient:
        """Of a loss whose derivative by ``matrix(points)`` is `by_matrix`, which must be symmetric.

        Where the parts are used apart, `by_matrix` is the derivative by the linear one, `by_stationary` by the other.
        """
        product = by_matrix @ points
        log_linear = self.linear * (points * product).sum(axis=0)
        by_points = 2.0 * product * self.linear
        zeros = np.zeros(points.shape[1])
        if self.kind == "linear":
            return Gradient(by_points, zeros, 0.0, log_linear)
        by_other = by_matrix if by_stationary is None else by_stationary
        squared = self._squared(points, points)
        weighted = self.output_scale * by_other * self._slope(squared)
        inverse = self.length_scales**-2
        sums, mixed = weighted.sum(axis=1), weighted @ points
        by_points += 4.0 * inverse * (sums[:, None] * points - mixed)
        spread = 2.0 * ((sums[:, None] * points**2).sum(axis=0) - (points * mixed).sum(axis=0))
        return Gradient(
            by_points,
            -2.0 * inverse * spread,
            float(self.output_scale * (by_other * self._shape(squared)).sum()),
            log_linear,
        )
