"""Log marginal likelihood of an exact Gaussian process, with gradients.

============  ==================  ======================================================================
symbol        name in code        equation
============  ==================  ======================================================================
X, y          inputs, targets     n observations
K             matrix              kernel matrix + diag σ²
σ²            exp(`log_noise`)    variance of an observation around the function: one for all, or one each
m             mean                m = (1ᵀ K⁻¹ y) / (1ᵀ K⁻¹ 1), its maximum-likelihood value, unless given
α             weights             α = K⁻¹ (y - m 1)
ln p          value               -½ (y - m 1)ᵀ α - ½ ln |K| - (n/2) ln 2π
∂ln p/∂K      upstream            ½ (α αᵀ - K⁻¹)
∂ln p/∂ln σ²  by_log_noise        σ_i² (∂ln p/∂K)_ii, or the sum of it
∂ln p/∂y      by_targets          -α
============  ==================  ======================================================================

The mean is solved for rather than searched for. Because ln p is stationary in it, the gradients by everything else are
those with m held fixed.

`Evidence` is that of one task over and over, under other hyper-parameters each time: the same numbers as those of
`log_marginal_likelihood`, which is general and the reference in tests, but nothing is allocated between evaluations,
and matrices that are symmetric are worked on by half. A search for hyper-parameters takes a third of the time.

============  ================  ==========================================================================
symbol        name in code      equation
============  ================  ==========================================================================
u             scaled            u_ik = x_ik / ℓ_k
q, f, f'      matrix, slope     see `headstart.numerics.kernels`
D             diagonal          σ² for each observation
A             matrix            A = s f(q) + diag D, K above
W             halved            W_ij = ½ (α_i α_j - (A⁻¹)_ij) s f'(q_ij) for i > j, else 0
∂ln p/∂ln ℓ                     -4 Σ_i>j W_ij (u_ik - u_jk)²
∂ln p/∂ln s                     ½ ((y - m 1)ᵀα - αᵀDα - n + tr(A⁻¹D)), as s f(q) = A - diag D
∂ln p/∂ln σ²                    ½ σ² (αᵀα - tr A⁻¹)
============  ================  ==========================================================================
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from headstart.errors import InvalidInput
from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.kernels import Array, KernelName, kernel_with_pullback

_LOG_TWO_PI = float(np.log(2.0 * np.pi))


class Evidence:
    """Log marginal likelihood of one task under a stationary kernel.

    Parameters
    ----------
    kernel
        ``"matern52"`` or ``"squared_exponential"``.
    inputs, targets
        Shapes ``(n, d)`` and ``(n,)``; at least one observation.
    """

    def __init__(self, kernel: str, inputs: Array, targets: Array) -> None:
        size = len(inputs)
        self.kernel = kernel
        # Only differences count, and they are more exact between small numbers.
        self._inputs = inputs - inputs.mean(axis=0)
        self._right_sides = np.asfortranarray(np.stack([targets, np.ones(size)], axis=1))
        self._scaled = np.empty(inputs.shape)
        self._product = np.empty(inputs.shape)
        self._matrix, self._slope, self._scratch = (np.empty((size, size)) for _ in range(3))
        self._below = np.tril(np.ones((size, size)), -1)

    def __call__(self, vector: Array) -> tuple[float, Array]:
        """Value and gradient at (ln ℓ_1, …, ln ℓ_p, ln s, ln σ²), shape ``(p + 2,)``, p = d or 1."""
        scale, noise = math.exp(vector[-2]), math.exp(vector[-1])
        scaled, matrix = self._scaled, self._matrix
        size = len(matrix)
        np.multiply(self._inputs, np.exp(-vector[:-2]), out=scaled)
        np.matmul(scaled, scaled.T, out=matrix)
        squares = np.einsum("ii->i", matrix).copy()
        matrix *= -2.0
        matrix += squares[:, None]
        matrix += squares
        np.maximum(matrix, 0.0, out=matrix)
        np.einsum("ii->i", matrix)[:] = 0.0
        self._profile(scale)
        diagonal = np.full(size, noise)
        np.einsum("ii->i", matrix)[:] += diagonal

        lower, failed_at = lapack.dpotrf(np.array(matrix, order="F"), lower=1, clean=1, overwrite_a=1)
        if failed_at:
            lower = jittered_cholesky(matrix)
        solved, _ = lapack.dpotrs(lower, self._right_sides, lower=1)
        total = float(solved[:, 1].sum())
        mean = float(solved[:, 0].sum()) / total if total > 0.0 else 0.0
        weights = solved[:, 0] - mean * solved[:, 1]
        fit = float((self._right_sides[:, 0] - mean) @ weights)
        value = -0.5 * fit - float(np.log(np.einsum("ii->i", lower)).sum()) - 0.5 * size * _LOG_TWO_PI

        inverse, _ = lapack.dpotri(lower, lower=1, overwrite_c=1)
        inverse_diagonal = np.einsum("ii->i", inverse)
        weighted = weights * weights
        by_scale = 0.5 * (fit - float(weighted @ diagonal) - size + float(inverse_diagonal @ diagonal))
        by_noise = 0.5 * noise * float(weighted.sum() - inverse_diagonal.sum())

        halved = np.multiply(weights[:, None], weights, out=self._scratch)
        halved -= inverse
        halved *= self._slope
        np.matmul(halved, scaled, out=self._product)
        outward = halved.sum(axis=0) + halved.sum(axis=1)
        # Σ_i>j W_ij (u_ik - u_jk)², multiplied out
        per_dimension = np.einsum("ij,ij,i->j", scaled, scaled, outward) - 2.0 * np.einsum(
            "ij,ij->j", scaled, self._product
        )
        by_lengths = -4.0 * per_dimension
        if len(vector) == 3:
            by_lengths = by_lengths.sum(keepdims=True)
        return value, np.concatenate([by_lengths, [by_scale, by_noise]])

    def _profile(self, scale: float) -> None:
        """From q in `_matrix` to s f(q) there, and ½ s f'(q) below the diagonal of `_slope`."""
        matrix, slope, root = self._matrix, self._slope, self._scratch
        if self.kernel == "squared_exponential":
            matrix *= -0.5
            np.exp(matrix, out=matrix)
            matrix *= scale
            np.multiply(matrix, self._below, out=slope)
            slope *= -0.25
            return
        matrix *= 5.0
        np.sqrt(matrix, out=root)
        np.negative(root, out=slope)
        np.exp(slope, out=slope)
        slope *= scale
        root += 1.0
        matrix *= 1.0 / 3.0
        matrix += root
        matrix *= slope
        slope *= root
        slope *= self._below
        slope *= -5.0 / 12.0


@dataclass(frozen=True)
class MarginalLikelihood:
    """Log marginal likelihood, the constant mean, and derivatives, each with the shape of what it belongs to.

    `by_inputs` is ``None`` unless asked for.
    """

    value: float
    mean: float
    by_log_length_scales: Array
    by_log_output_scale: float
    by_log_noise: Array
    by_targets: Array
    by_inputs: Array | None


def log_marginal_likelihood(
    kernel: KernelName,
    inputs: Array,
    targets: Array,
    log_length_scales: ArrayLike,
    log_output_scale: ArrayLike,
    log_noise: ArrayLike,
    *,
    mean: float | None = None,
    by_inputs: bool = False,
) -> MarginalLikelihood:
    """Evidence of hyper-parameters; see the notation.

    Parameters
    ----------
    kernel
        Name of the covariance function.
    inputs, targets
        Shapes ``(n, d)`` and ``(n,)``, at least one observation.
    log_length_scales, log_output_scale
        As in `headstart.numerics.kernels.kernel_matrix`.
    log_noise
        Logarithm of a variance, a number or shape ``(n,)``.
    mean
        Constant mean; ``None`` takes the likeliest one.
    by_inputs
        Whether to differentiate by `inputs` too.
    """
    if targets.shape != inputs.shape[:-1]:
        raise InvalidInput(f"targets must have shape {inputs.shape[:-1]} like the inputs, got {targets.shape}")
    noise = np.exp(np.asarray(log_noise, dtype=np.float64))
    matrix, pullback = kernel_with_pullback(kernel, inputs, log_length_scales, log_output_scale)
    matrix = matrix.copy()  # the pullback still needs its own
    matrix[np.diag_indices_from(matrix)] += noise
    lower = jittered_cholesky(matrix)
    if mean is None:
        solved, _ = lapack.dpotrs(lower, np.stack([targets, np.ones(len(targets))], axis=1), lower=1)
        mean = float(solved[:, 0].sum() / solved[:, 1].sum())
        residuals, weights = targets - mean, solved[:, 0] - mean * solved[:, 1]
    else:
        residuals = targets - mean
        weights, _ = lapack.dpotrs(lower, residuals, lower=1)
    log_determinant = 2.0 * float(np.log(np.diag(lower)).sum())
    half, _ = lapack.dpotri(lower, lower=1)  # fills the lower triangle; the upper one still holds zeros
    inverse = half + half.T
    inverse[np.diag_indices_from(inverse)] *= 0.5
    upstream = 0.5 * (np.outer(weights, weights) - inverse)
    by_kernel = pullback(upstream, by_points=by_inputs)
    return MarginalLikelihood(
        -0.5 * (float(residuals @ weights) + log_determinant + len(targets) * _LOG_TWO_PI),
        mean,
        by_kernel.log_length_scales,
        by_kernel.log_output_scale,
        np.asarray(noise * (np.trace(upstream) if noise.ndim == 0 else np.diag(upstream))),
        -weights,
        by_kernel.points,
    )
