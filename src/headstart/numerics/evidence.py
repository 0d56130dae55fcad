"""The log marginal likelihood of one task over and over, under other hyper-parameters each time.

The same numbers as `headstart.numerics.marginal_likelihood`, which is general and the reference in tests; here nothing
is allocated between evaluations, and matrices that are symmetric are worked on by half. A search for hyper-parameters
takes a third of the time.

============  ================  ==========================================================================
symbol        name in code      equation
============  ================  ==========================================================================
X, y          inputs, targets   n observations in d dimensions
u             scaled            u_ik = x_ik / ℓ_k
q, f, f'      matrix, slope     see `headstart.numerics.kernels`
D             diagonal          noise of each observation: σ² + fixed_noise
A             matrix            A = s f(q) + diag D
m, α          mean, weights     see `headstart.numerics.marginal_likelihood`
ln p          value             -½ (y - m 1)ᵀ α - ½ ln |A| - (n/2) ln 2π
W             halved            W_ij = ½ (α_i α_j - (A⁻¹)_ij) s f'(q_ij) for i > j, else 0
∂ln p/∂ln ℓ                     -4 Σ_i>j W_ij (u_ik - u_jk)²
∂ln p/∂ln s                     ½ ((y - m 1)ᵀα - αᵀDα - n + tr(A⁻¹D)), as s f(q) = A - diag D
∂ln p/∂ln σ²                    ½ σ² (αᵀα - tr A⁻¹)
============  ================  ==========================================================================
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import lapack

from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.kernels import Array

_LOG_TWO_PI = math.log(2.0 * math.pi)


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
