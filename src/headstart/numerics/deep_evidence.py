"""Log marginal likelihood of a Gaussian process with derivatives by everything that a network may change.

=======  ================  ==============================================================
symbol   name in code      equation
=======  ================  ==============================================================
z        points            (n, d), what a network made of pipelines
r        residuals         (n,), targets minus their prior mean
ψ        exp(log_noise)    (n,), noise variance of each observation
K        matrix            Matérn-5/2 of z + diag ψ
α        weights           K⁻¹ r
ln p     value             -½ rᵀα - ½ ln|K| - (n/2) ln 2π
∂/∂K     upstream          ½ (α αᵀ - K⁻¹)
∂/∂ln ψ  by_log_noise      ψ_i (∂/∂K)_ii
∂/∂r     by_residuals      -α
=======  ================  ==============================================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.kernels import kernel_with_pullback

Array = NDArray[np.float64]
_LOG_TWO_PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True)
class DeepEvidence:
    """ln p and its derivatives; `by_points` is ``None`` unless asked for."""

    value: float
    by_log_length_scales: Array
    by_log_output_scale: float
    by_log_noise: Array
    by_residuals: Array
    by_points: Array | None


def deep_evidence(
    points: Array,
    residuals: Array,
    log_length_scales: Array,
    log_output_scale: float,
    log_noise: Array,
    *,
    by_points: bool = False,
) -> DeepEvidence:
    """See the notation; `log_length_scales` are (d,) or (1,)."""
    noise = np.exp(log_noise)
    matrix, pullback = kernel_with_pullback("matern52", points, None, log_length_scales, log_output_scale)
    matrix = matrix.copy()  # the pullback still needs its own
    matrix[np.diag_indices(len(matrix))] += noise
    lower = jittered_cholesky(matrix)
    weights, _ = lapack.dpotrs(lower, residuals, lower=1)
    half, _ = lapack.dpotri(lower, lower=1)  # fills the lower triangle; the upper one still holds zeros
    inverse = half + half.T
    inverse[np.diag_indices(len(inverse))] *= 0.5
    upstream = 0.5 * (np.outer(weights, weights) - inverse)
    by_kernel = pullback(upstream, inputs=by_points)
    log_determinant = 2.0 * float(np.log(np.diag(lower)).sum())
    return DeepEvidence(
        -0.5 * (float(residuals @ weights) + log_determinant + len(residuals) * _LOG_TWO_PI),
        by_kernel.log_length_scales,
        float(by_kernel.log_output_scale),
        noise * np.diag(upstream),
        -weights,
        by_kernel.left,
    )
