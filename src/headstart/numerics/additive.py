"""Gaussian processes whose function is a sum over groups of columns.

==============  ====================  ========================================================================
symbol          name in code          equation
==============  ====================  ========================================================================
X, y            inputs, targets       n observations; y standardised
B_u             distances (U, n, n)   squared distances over the columns of block u, each divided by its ℓ²
g               groups                a partition of the blocks 0 … U-1
c_g, s_g        stretches, scales     how much longer the length scales of a group are, and its variance
q_g             squared               q_g = Σ_{u in g} B_u / c_g²
f, f'                                 Matérn-5/2, see `headstart.numerics.kernels`
A               matrix                A = Σ_g s_g f(q_g) + σ² I
m, α, ln p      mean, weights, value  see `headstart.numerics.marginal_likelihood`
W               upstream              ½ (α αᵀ - A⁻¹)
∂ln p/∂ln s_g                         Σ_ij W_ij s_g f(q_g,ij)
∂ln p/∂ln c_g                         -2 Σ_ij W_ij s_g f'(q_g,ij) q_g,ij
∂ln p/∂ln σ²                          σ² tr W
θ               vector                (ln c_1, …, ln c_G, ln s_1, …, ln s_G, ln σ²)
==============  ====================  ========================================================================

A group that holds all columns is an ordinary Gaussian process. The functions of several groups add up, so what is
learned of one group holds whatever the columns of the others are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.kernels import Array, CrossKernel, kernel_matrix
from headstart.numerics.priors import LogNormal
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread

Columns = NDArray[np.intp]
_LOG_TWO_PI = math.log(2.0 * math.pi)
_BLOCK_ELEMENTS = 1 << 15
_STRETCH = LogNormal(0.25, 0.5)  # mode 1
_NOISE = LogNormal(-4.0, 1.0)
_BOX = {"stretch": (0.05, 50.0), "scale": (1e-4, 1e2), "noise": (1e-6, 1e1)}


def block_distances(inputs: Array, blocks: Sequence[Columns], length_scales: Array) -> Array:
    """B, shape ``(U, n, n)``, of inputs ``(n, d)`` for the columns of each block and length scales ``(d,)``."""
    distances = np.empty((len(blocks), len(inputs), len(inputs)))
    for block, columns in enumerate(blocks):
        scaled = (inputs[:, columns] - inputs[:, columns].mean(axis=0)) / length_scales[columns]
        squares = np.einsum("ij,ij->i", scaled, scaled)
        distances[block] = np.maximum(squares[:, None] + squares - 2.0 * (scaled @ scaled.T), 0.0)
        np.fill_diagonal(distances[block], 0.0)
    return distances


def additive_evidence(distances: Array, targets: Array, vector: Array) -> tuple[float, Array]:
    """Log marginal likelihood and its gradient by θ, for squared distances ``(G, n, n)`` of the groups."""
    groups, size = len(distances), len(targets)
    stretches, scales, noise = np.exp(vector[:groups]), np.exp(vector[groups:-1]), math.exp(vector[-1])
    matrix = np.zeros((size, size))
    parts, slopes = [], []
    for squared, stretch, scale in zip(distances, stretches, scales, strict=True):
        scaled = squared * (5.0 / stretch**2)
        root = np.sqrt(scaled)
        decay = scale * np.exp(-root)
        parts.append((1.0 + root + scaled / 3.0) * decay)
        slopes.append((-1.0 / 6.0) * (1.0 + root) * decay * scaled)  # s f'(q) q
        matrix += parts[-1]
    diagonal = np.einsum("ii->i", matrix)
    diagonal += noise
    lower = jittered_cholesky(matrix)
    inverse_factor = lapack.dtrtri(lower, lower=1)[0]
    inverse = inverse_factor.T @ inverse_factor
    solved_ones = inverse.sum(axis=0)
    mean = float(solved_ones @ targets) / float(solved_ones.sum())
    weights = inverse @ (targets - mean)
    value = -0.5 * float((targets - mean) @ weights) - float(np.log(np.einsum("ii->i", lower)).sum())
    value -= 0.5 * size * _LOG_TWO_PI
    upstream = 0.5 * (np.outer(weights, weights) - inverse)
    by_scales = [float(np.vdot(upstream, part)) for part in parts]
    by_stretches = [-2.0 * float(np.vdot(upstream, slope)) for slope in slopes]
    return value, np.array([*by_stretches, *by_scales, noise * float(np.trace(upstream))])


@dataclass(frozen=True)
class Additive:
    """A structure with its likeliest hyper-parameters.

    Parameters
    ----------
    vector
        θ.
    log_evidence
        ln p(y|θ) + ln p(θ) - ½ (2G + 1) ln n: the Bayesian information criterion with priors, for comparing structures.
    """

    vector: Array
    log_evidence: float


def search_additive(
    distances: Array, groups: Sequence[Sequence[int]], targets: Array, noise: float, iterations: int
) -> Additive:
    """Likeliest stretches, variances and noise of a partition into `groups` of the blocks of `distances`.

    Parameters
    ----------
    distances, targets
        Shapes ``(U, n, n)`` and ``(n,)``, standardised.
    groups
        The blocks of each group.
    noise
        Where the search begins.
    iterations
        Of L-BFGS.
    """
    count = len(groups)
    together = np.stack([distances[list(group)].sum(axis=0) for group in groups])
    scale = LogNormal(1.0 - math.log(count), 1.0)  # mode 1/G, so that they add up to 1
    priors = [_STRETCH] * count + [scale] * count + [_NOISE]
    limits = [_BOX["stretch"]] * count + [_BOX["scale"]] * count + [_BOX["noise"]]
    begin = np.log([1.0] * count + [1.0 / count] * count + [min(max(noise, 1e-5), 1.0)])

    def loss(vector: Array) -> tuple[float, Array]:
        value, gradient = additive_evidence(together, targets, vector)
        for k, prior in enumerate(priors):
            value += float(prior.log_density(vector[k]))
            gradient[k] += float(prior.slope(vector[k]))
        return -value, -gradient

    with one_blas_thread():
        options = {"maxiter": iterations, "ftol": 1e-5, "gtol": 1e-2}
        found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=np.log(limits), options=options)
    penalty = 0.5 * len(begin) * math.log(len(targets))
    return Additive(np.asarray(found.x, dtype=np.float64), -float(found.fun) - penalty)


class AdditiveProcess:
    """The posterior of an additive Gaussian process.

    Parameters
    ----------
    inputs, targets
        Shapes ``(n, d)`` and ``(n,)``.
    columns
        Of each group.
    length_scales
        Shape ``(d,)``, before they are stretched.
    vector
        θ, in units of standardised targets.
    standardisation
        Of the targets.
    mean
        Constant mean of the standardised targets; ``None`` takes the likeliest one.
    """

    def __init__(
        self,
        inputs: Array,
        targets: Array,
        columns: Sequence[Columns],
        length_scales: Array,
        vector: Array,
        standardisation: Standardisation,
        mean: float | None = None,
    ) -> None:
        count = len(columns)
        self._inputs, self._targets, self._columns = inputs, targets, columns
        self._length_scales, self._vector = length_scales, vector
        self.standardisation = standardisation
        self._lengths = [np.log(length_scales[c]) + vector[g] for g, c in enumerate(columns)]
        self._scales = vector[count:-1]
        standardised = standardisation.apply(targets)
        with one_blas_thread():
            matrix = np.zeros((len(inputs), len(inputs)))
            for c, lengths, scale in zip(columns, self._lengths, self._scales, strict=True):
                matrix += kernel_matrix("matern52", np.ascontiguousarray(inputs[:, c]), None, lengths, scale)
            matrix[np.diag_indices_from(matrix)] += math.exp(vector[-1])
            self._inverse_factor = np.asarray(lapack.dtrtri(jittered_cholesky(matrix), lower=1)[0])
            solved = self._inverse_factor.T @ (self._inverse_factor @ np.stack([standardised, np.ones(len(inputs))], 1))
        self.mean = float(solved[:, 0].sum() / solved[:, 1].sum()) if mean is None else mean
        self._weights = solved[:, 0] - self.mean * solved[:, 1]

    def add(self, inputs: Array, targets: Array) -> AdditiveProcess:
        """A new process with further observations and the same hyper-parameters; this one is left as it is."""
        return AdditiveProcess(
            np.concatenate([self._inputs, inputs]),
            np.concatenate([self._targets, targets]),
            self._columns,
            self._length_scales,
            self._vector,
            self.standardisation,
            self.mean,
        )

    def posterior(self, candidates: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the function at candidates ``(m, d)``: two arrays of shape ``(m,)``."""
        rows = max(64, _BLOCK_ELEMENTS // max(1, *self._inputs.shape))
        rows = max(1, min(rows, len(candidates)))
        mean = np.full(len(candidates), self.mean)
        variance = np.full(len(candidates), float(np.exp(self._scales).sum()))
        with one_blas_thread():
            kernels = [
                CrossKernel("matern52", np.ascontiguousarray(self._inputs[:, c]), lengths, scale, rows)
                for c, lengths, scale in zip(self._columns, self._lengths, self._scales, strict=True)
            ]
            for start in range(0, len(candidates), rows):
                block = slice(start, start + rows)
                cross = kernels[0](candidates[block][:, self._columns[0]])
                for kernel, columns in zip(kernels[1:], self._columns[1:], strict=True):
                    cross += kernel(candidates[block][:, columns])
                mean[block] += cross @ self._weights
                projected = blas.dtrmm(1.0, self._inverse_factor, cross.T, lower=1, overwrite_b=1).T
                variance[block] -= np.einsum("ij,ij->i", projected, projected)
        std = np.sqrt(np.maximum(variance, 0.0))
        return self.standardisation.undo(mean), std * self.standardisation.scale
