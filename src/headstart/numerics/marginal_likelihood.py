"""Log marginal likelihood of an exact Gaussian process, for one task or a batch of them, with gradients.

Leading dimensions, written ``...``, are tasks. Tasks of unequal size are padded and masked.

========  ==================  ==========================================================================
symbol    name in code        equation
========  ==================  ==========================================================================
X, y      inputs, targets     n observations
K         matrix              kernel matrix + diag(σ² + fixed_noise)
σ²        exp(`log_noise`)
m         mean                m = (1ᵀ K⁻¹ y) / (1ᵀ K⁻¹ 1), its maximum-likelihood value, unless given
α         weights             α = K⁻¹ (y - m 1)
ln p      value               -½ (y - m 1)ᵀ α - ½ ln |K| - (n/2) ln 2π
∂ln p/∂K  upstream            ½ (α αᵀ - K⁻¹)
∂ln p/∂ln σ²                  σ² tr(∂ln p/∂K)
========  ==================  ==========================================================================

The mean is solved for rather than searched for. Because ln p is stationary in it, the gradients by everything else are
those with m held fixed. Padding turns a row of K into the identity's and its target into 0, which adds 0 to every term.

`Evidence` is that of one task over and over, under other hyper-parameters each time: the same numbers as those of
`log_marginal_likelihood`, which is general and the reference in tests, but nothing is allocated between evaluations,
and matrices that are symmetric are worked on by half. A search for hyper-parameters takes a third of the time.

============  ================  ==========================================================================
symbol        name in code      equation
============  ================  ==========================================================================
u             scaled            u_ik = x_ik / ℓ_k
q, f, f'      matrix, slope     see `headstart.numerics.kernels`
D             diagonal          noise of each observation: σ² + fixed_noise
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
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from headstart.errors import InvalidInput
from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.kernels import Array, KernelName, kernel_matrix, kernel_with_pullback, unbroadcast

_LOG_TWO_PI = float(np.log(2.0 * np.pi))


class Evidence:
    """Log marginal likelihood of one task under a stationary kernel.

    Parameters
    ----------
    kernel
        ``"matern52"`` or ``"squared_exponential"``.
    inputs, targets, fixed_noise
        Shapes ``(n, d)``, ``(n,)`` and ``(n,)`` or ``None``; at least one observation.
    """

    def __init__(self, kernel: str, inputs: Array, targets: Array, fixed_noise: Array | None = None) -> None:
        size = len(inputs)
        self.kernel = kernel
        # Only differences count, and they are more exact between small numbers.
        self._inputs = inputs - inputs.mean(axis=0)
        self._right_sides = np.asfortranarray(np.stack([targets, np.ones(size)], axis=1))
        self._fixed_noise = np.zeros(size) if fixed_noise is None else fixed_noise
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
        diagonal = noise + self._fixed_noise
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
class LikelihoodGradient:
    """Derivatives of the sum of the tasks' values; each has the shape of what it belongs to.

    `inputs` is ``None`` unless asked for; it is 0 at masked rows.
    """

    log_length_scales: Array
    log_output_scale: Array
    log_noise: Array
    inputs: Array | None = None


@dataclass(frozen=True)
class MarginalLikelihood:
    """Log marginal likelihood and constant mean of each task, both of shape ``(...)``."""

    value: Array
    mean: Array
    gradient: LikelihoodGradient | None = None


def log_marginal_likelihood(
    kernel: KernelName,
    inputs: Array,
    targets: Array,
    log_length_scales: ArrayLike,
    log_output_scale: ArrayLike,
    log_noise: ArrayLike,
    *,
    mean: ArrayLike | None = None,
    fixed_noise: Array | None = None,
    mask: NDArray[np.bool_] | None = None,
    gradient: bool = False,
    input_gradient: bool = False,
) -> MarginalLikelihood:
    """Evidence of hyper-parameters, batched over tasks.

    Parameters
    ----------
    kernel
        Name of the covariance function.
    inputs
        Shape ``(..., n, d)``.
    targets
        Shape ``(..., n)``, as many leading dimensions as `inputs`.
    log_length_scales
        Shape ``(..., d)`` or ``(..., 1)``; without leading dimensions all tasks share them.
    log_output_scale, log_noise
        Shape ``(...)`` or scalar; noise is a variance.
    mean
        Constant mean, shape ``(...)`` or scalar; ``None`` takes the likeliest one.
    fixed_noise
        Known variances of single observations, on top of the common noise; shape ``(..., n)``.
    mask
        True where an observation is real, shape ``(..., n)``; whatever stands elsewhere, if finite, changes nothing.
    gradient, input_gradient
        What derivatives to compute; the second, by `inputs`, implies the first.
    """
    if targets.shape != inputs.shape[:-1]:
        raise InvalidInput(f"targets must have shape {inputs.shape[:-1]} like the inputs, got {targets.shape}")
    noise = np.exp(np.asarray(log_noise, dtype=np.float64))
    want_gradient = gradient or input_gradient
    if want_gradient:
        matrix, pullback = kernel_with_pullback(kernel, inputs, None, log_length_scales, log_output_scale)
        matrix = matrix.copy()  # the pullback still needs its own
    else:
        matrix = kernel_matrix(kernel, inputs, None, log_length_scales, log_output_scale)

    size = targets.shape[-1]
    diagonal = np.arange(size)
    matrix[..., diagonal, diagonal] += noise[..., None] if fixed_noise is None else noise[..., None] + fixed_noise
    targets = np.broadcast_to(targets, matrix.shape[:-1])
    ones = np.ones_like(targets)
    if mask is not None:
        if mask.shape != inputs.shape[:-1]:
            raise InvalidInput(f"mask must have shape {inputs.shape[:-1]} like the targets, got {mask.shape}")
        both = mask[..., :, None] & mask[..., None, :]
        matrix = np.where(both, matrix, np.eye(size))
        targets, ones = np.where(mask, targets, 0.0), np.where(mask, ones, 0.0)

    lower = jittered_cholesky(matrix)
    solved, inverse = _solve_and_invert(lower, np.stack([targets, ones], axis=-1), invert=want_gradient)
    solved_targets, solved_ones = solved[..., 0], solved[..., 1]
    if mean is None:
        total = np.einsum("...i,...i->...", ones, solved_ones)
        # Without a single observation every mean is equally likely: 0.
        fitted = np.einsum("...i,...i->...", ones, solved_targets) / np.where(total > 0.0, total, 1.0)
    else:
        fitted = np.broadcast_to(np.asarray(mean, dtype=np.float64), targets.shape[:-1])
    weights = solved_targets - fitted[..., None] * solved_ones
    residuals = targets - fitted[..., None] * ones

    log_determinant = 2.0 * np.log(lower[..., diagonal, diagonal]).sum(axis=-1)
    value = -0.5 * (np.einsum("...i,...i->...", residuals, weights) + log_determinant + ones.sum(axis=-1) * _LOG_TWO_PI)
    if not want_gradient:
        return MarginalLikelihood(np.asarray(value), np.asarray(fitted))

    upstream = 0.5 * (weights[..., :, None] * weights[..., None, :] - inverse)
    if mask is not None:
        upstream = np.where(both, upstream, 0.0)
    by_log_noise = unbroadcast(noise * np.trace(upstream, axis1=-2, axis2=-1), noise.shape)
    by_kernel = pullback(upstream, inputs=input_gradient)
    return MarginalLikelihood(
        np.asarray(value),
        np.asarray(fitted),
        LikelihoodGradient(by_kernel.log_length_scales, by_kernel.log_output_scale, by_log_noise, by_kernel.left),
    )


def _solve_and_invert(lower: Array, right_sides: Array, *, invert: bool) -> tuple[Array, Array]:
    """K⁻¹ times `right_sides`, shape ``(..., n, k)``, and K⁻¹ itself (empty unless wanted), from K's factor."""
    size = lower.shape[-1]
    if lower.ndim == 2 and size:
        solved, _ = lapack.dpotrs(lower, right_sides, lower=1)
        if not invert:
            return solved, np.empty((0, 0))
        half, _ = lapack.dpotri(lower, lower=1)  # fills the lower triangle; the upper one still holds zeros
        inverse = half + half.T
        inverse[np.arange(size), np.arange(size)] *= 0.5
        return solved, inverse
    # NumPy has no batched triangular solver; a general inverse of the well-scaled factor is accurate enough here.
    inverse_factor = np.linalg.inv(lower)
    transposed = np.swapaxes(inverse_factor, -1, -2)
    solved = transposed @ (inverse_factor @ right_sides)
    return solved, transposed @ inverse_factor if invert else np.empty((0, 0))
