"""Covariance functions with vector-Jacobian products.

=========  ==========================  =========================================================================
symbol     name in code                equation
=========  ==========================  =========================================================================
x, z       rows of `left`, `right`
ℓ_k        exp(`log_length_scales`)    one per dimension, or one shared by all
s          exp(`log_output_scale`)     the variance of the stationary kernels
u, v       scaled_left, scaled_right   u_k = x_k / ℓ_k,  v_k = z_k / ℓ_k
q          squared                     q(x, z) = Σ_k (u_k - v_k)²
f          profile                     squared exponential: f(q) = exp(-q/2)
                                       Matérn-5/2: f(q) = (1 + r + r²/3) exp(-r),  r = √(5q)
f'         slope                       squared exponential: -exp(-q/2) / 2
                                       Matérn-5/2: -(5/6) (1 + r) exp(-r), finite at q = 0
K          matrix                      stationary: K_ij = s f(q_ij);  linear: K_ij = s Σ_k u_ik v_jk
G          upstream                    G_ij = ∂L/∂K_ij for a scalar L of the caller's
W          weights                     W_ij = ∂L/∂q_ij = G_ij s f'(q_ij)
∂L/∂ln ℓ                               -2 Σ_ij W_ij (u_ik - v_jk)²;  linear: -2 s Σ_ij G_ij u_ik v_jk
∂L/∂ln s                               Σ_ij G_ij K_ij
∂L/∂x_i                                (2/ℓ_k) Σ_j W_ij (u_ik - v_jk);  linear: (s/ℓ_k) Σ_j G_ij v_jk
=========  ==========================  =========================================================================

Differentiating by q instead of by the distance is what keeps the gradients finite where two points coincide. All sums
over pairs are matrix products: no array of shape ``(n, m, d)`` is ever formed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.errors import UnknownName, suggestion

Array = NDArray[np.float64]
KernelName = Literal["matern52", "squared_exponential", "linear"]

_MATERN52_RATE = 5.0


@dataclass(frozen=True)
class KernelGradient:
    """Derivatives of a scalar by everything a kernel matrix was made of; each has the shape of what it belongs to.

    `points` is ``None`` where it was not asked for.
    """

    log_length_scales: Array
    log_output_scale: float
    points: Array | None = None


class Pullback(Protocol):
    """Maps ∂L/∂K, shape ``(n, n)``, to the derivatives of L."""

    def __call__(self, upstream: Array, *, by_points: bool = True) -> KernelGradient: ...


def kernel_matrix(
    kernel: KernelName,
    left: Array,
    right: Array | None,
    log_length_scales: ArrayLike,
    log_output_scale: ArrayLike,
) -> Array:
    """Covariances between two sets of points.

    Parameters
    ----------
    kernel
        Name of the covariance function.
    left
        Points, shape ``(n, d)``.
    right
        Points, shape ``(m, d)``; ``None`` means `left` itself, whose distances to itself are then exactly 0.
    log_length_scales
        Shape ``(d,)``, or ``(1,)`` for one that all dimensions share.
    log_output_scale
        A number.

    Returns
    -------
    matrix
        Shape ``(n, m)``.
    """
    lengths, scale = _hyperparameters(kernel, log_length_scales, log_output_scale)
    if kernel == "linear":
        matrix = (left / lengths) @ ((left if right is None else right) / lengths).T
    else:
        squared = _scaled_squared_distances(left, right, lengths)[0]
        matrix = _matern52_in_place(squared) if kernel == "matern52" else _squared_exponential_in_place(squared)
    matrix *= scale
    return matrix


class CrossKernel:
    """`kernel_matrix` of many left points with the same right points, block by block in the same memory.

    Fresh arrays for every block cost more than what is computed in them.

    Parameters
    ----------
    kernel, right, log_length_scales, log_output_scale
        As in `kernel_matrix`.
    rows
        Most points in a block.
    """

    def __init__(
        self, kernel: KernelName, right: Array, log_length_scales: ArrayLike, log_output_scale: ArrayLike, rows: int
    ) -> None:
        lengths, scale = _hyperparameters(kernel, log_length_scales, log_output_scale)
        self.kernel = kernel
        self._inverse_lengths, self._scale = 1.0 / lengths, scale
        scaled_right = right * self._inverse_lengths
        center = scaled_right.mean(axis=0) if len(right) and kernel != "linear" else np.zeros(right.shape[1])
        self._center = center
        scaled_right -= center
        self._right_squares = np.einsum("ij,ij->i", scaled_right, scaled_right)
        self._factor = np.ascontiguousarray(scaled_right.T if kernel == "linear" else -2.0 * scaled_right.T)
        self._left, self._matrix, self._root = (np.empty((rows, n)) for n in (right.shape[1], len(right), len(right)))

    def __call__(self, left: Array) -> Array:
        """Covariances, shape ``(n, m)``, for at most `rows` points; overwritten by the next call."""
        scaled, matrix, root = (buffer[: len(left)] for buffer in (self._left, self._matrix, self._root))
        np.multiply(left, self._inverse_lengths, out=scaled)
        scaled -= self._center
        np.matmul(scaled, self._factor, out=matrix)
        if self.kernel != "linear":
            matrix += np.einsum("ij,ij->i", scaled, scaled)[:, None]
            matrix += self._right_squares
            np.maximum(matrix, 0.0, out=matrix)
            if self.kernel == "matern52":
                _matern52_in_place(matrix, root)
            else:
                _squared_exponential_in_place(matrix)
        matrix *= self._scale
        return matrix


def kernel_diagonal(
    kernel: KernelName, points: Array, log_length_scales: ArrayLike, log_output_scale: ArrayLike
) -> Array:
    """Variance of each point, the diagonal of its `kernel_matrix`: shape ``(n,)`` for points ``(n, d)``."""
    lengths, scale = _hyperparameters(kernel, log_length_scales, log_output_scale)
    if kernel != "linear":
        return np.full(len(points), scale)
    scaled = points / lengths
    return np.asarray(np.einsum("ij,ij->i", scaled, scaled) * scale)


def kernel_with_pullback(
    kernel: KernelName, points: Array, log_length_scales: ArrayLike, log_output_scale: ArrayLike
) -> tuple[Array, Pullback]:
    """`kernel_matrix` of points with themselves, and the function that carries derivatives by it to its ingredients.

    The function takes ``upstream``, shape ``(n, n)``, and ``by_points``: whether to differentiate by the points too.
    """
    lengths, scale = _hyperparameters(kernel, log_length_scales, log_output_scale)
    if kernel == "linear":
        scaled = points / lengths
        matrix = scale * (scaled @ scaled.T)
    else:
        squared, scaled, _ = _scaled_squared_distances(points, None, lengths)
        value, slope = _PROFILES[kernel](squared)
        matrix, slope = scale * value, scale * slope

    def pullback(upstream: Array, *, by_points: bool = True) -> KernelGradient:
        by_log_scale = float((upstream * matrix).sum())
        weights = upstream * (scale if kernel == "linear" else slope)
        toward_right = weights @ scaled
        if kernel == "linear":
            per_dimension = np.einsum("ik,ik->k", scaled, toward_right)
        else:
            rows, columns = weights.sum(axis=1)[:, None], weights.sum(axis=0)[:, None]
            # Σ_ij W_ij (u_ik - u_jk)², multiplied out
            per_dimension = np.einsum("ik,ik->k", scaled, rows * scaled - 2.0 * toward_right)
            per_dimension = per_dimension + np.einsum("jk,jk,j->k", scaled, scaled, columns[:, 0])
        by_log_lengths = -2.0 * per_dimension
        if len(lengths) == 1:
            by_log_lengths = by_log_lengths.sum(keepdims=True)
        if not by_points:
            return KernelGradient(by_log_lengths, by_log_scale)

        toward_left = weights.T @ scaled
        if kernel == "linear":
            by_left, by_right = toward_right / lengths, toward_left / lengths
        else:
            by_left = 2.0 * (rows * scaled - toward_right) / lengths
            by_right = 2.0 * (columns * scaled - toward_left) / lengths
        return KernelGradient(by_log_lengths, by_log_scale, by_left + by_right)

    return matrix, pullback


def _hyperparameters(kernel: str, log_length_scales: ArrayLike, log_output_scale: ArrayLike) -> tuple[Array, float]:
    """ℓ, shape ``(d,)`` or ``(1,)``, and s."""
    if kernel not in get_args(KernelName):
        raise UnknownName(f"no kernel is called {kernel!r}; {suggestion(kernel, get_args(KernelName))}")
    return np.exp(np.asarray(log_length_scales, dtype=np.float64)), float(np.exp(log_output_scale))


def _scaled_squared_distances(left: Array, right: Array | None, lengths: Array) -> tuple[Array, Array, Array]:
    """q of every pair, shape ``(n, m)``, with the scaled and centred points it was made from."""
    scaled_right = (left if right is None else right) / lengths
    # The squares cancel to about machine precision times the largest of them, so the common offset goes first.
    center = scaled_right.mean(axis=0) if len(scaled_right) else 0.0
    scaled_right = scaled_right - center
    scaled_left = scaled_right if right is None else left / lengths - center

    left_squares = np.einsum("ij,ij->i", scaled_left, scaled_left)
    right_squares = left_squares if right is None else np.einsum("ij,ij->i", scaled_right, scaled_right)
    squared: Array = scaled_left @ (-2.0 * scaled_right).T
    squared += left_squares[:, None]
    squared += right_squares
    np.maximum(squared, 0.0, out=squared)
    if right is None:
        np.fill_diagonal(squared, 0.0)
    return squared, scaled_left, scaled_right


def _matern52_in_place(squared: Array, scratch: Array | None = None) -> Array:
    """f(q), written over `squared`: for large blocks of candidates memory traffic is most of the cost."""
    squared *= _MATERN52_RATE
    root = np.sqrt(squared, out=scratch)
    squared *= 1.0 / 3.0
    squared += root
    squared += 1.0
    np.negative(root, out=root)
    squared *= np.exp(root, out=root)
    return squared


def _squared_exponential_in_place(squared: Array) -> Array:
    squared *= -0.5
    return np.exp(squared, out=squared)


def _matern52(squared: Array) -> tuple[Array, Array]:
    root = np.sqrt(_MATERN52_RATE * squared)
    decay = np.exp(-root)
    decayed_line = (1.0 + root) * decay
    return decayed_line + (_MATERN52_RATE / 3.0) * squared * decay, (-_MATERN52_RATE / 6.0) * decayed_line


def _squared_exponential(squared: Array) -> tuple[Array, Array]:
    value = np.exp(-0.5 * squared)
    return value, -0.5 * value


_PROFILES: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "matern52": _matern52,
    "squared_exponential": _squared_exponential,
}
