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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import lapack

from headstart.errors import InvalidInput
from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.kernels import Array, KernelName, kernel_matrix, kernel_with_pullback, unbroadcast

_LOG_TWO_PI = float(np.log(2.0 * np.pi))


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
