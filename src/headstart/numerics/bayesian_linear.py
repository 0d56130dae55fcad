"""Bayesian linear regression with the likeliest precisions, in closed form up to one number.

Leading dimensions, written ``...``, are tasks.

=======  ============  ==================================================================================
symbol   name in code  equation
=======  ============  ==================================================================================
Φ, y     features,     (..., n, D) and (..., n)
         targets
w                      w ~ N(0, I/α), y ~ N(Φ w, I/β)
α, β     alpha, beta   precisions of weights and of noise
r        ratio         β / α
λ_i, V   eigenvalues,  ΦᵀΦ = V diag(λ) Vᵀ
         vectors
u        projected     u = Vᵀ Φᵀ y
q(r)     quadratic     yᵀ (I + r ΦΦᵀ)⁻¹ y = yᵀy - r Σ_i u_i² / (1 + r λ_i)
β̂(r)                   n / q(r), the likeliest β for a ratio
p(y)     profile       ln p(y | r, β̂) = ½ n ln β̂ - ½ Σ_i ln(1 + r λ_i) - ½ n (1 + ln 2π)
S        root rootᵀ    covariance of w given y: (α I + β ΦᵀΦ)⁻¹ = V diag(1 / (α + β λ_i)) Vᵀ
μ        weights       β S Φᵀ y
=======  ============  ==================================================================================

One eigendecomposition gives the likelihood for every ratio, so the two precisions are found by looking along a grid of
ratios and refining between its points.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from headstart.errors import NumericalError
from headstart.numerics.kernels import Array

LOG_RATIOS = np.linspace(math.log(1e-6), math.log(1e8), 57)
"""Where to look for the logarithm of the ratio of noise precision to weight precision."""

_REFINEMENTS = 3
_LEAST_QUADRATIC = 1e-12
"""For targets that are all 0; others are expected to be standardised."""


@dataclass(frozen=True)
class _Reduced:
    """All that the marginal likelihood needs of the observations; see the notation."""

    eigenvalues: Array  # (..., D)
    vectors: Array  # (..., D, D)
    projected: Array  # (..., D)
    total: Array  # (...), yᵀy
    counts: Array  # (...), n

    @classmethod
    def of(cls, features: Array, targets: Array, counts: Array | None) -> Self:
        transposed = np.swapaxes(features, -1, -2)
        gram = transposed @ features
        if not np.isfinite(np.sum(gram)):
            raise NumericalError("features of a linear regression must be finite and must not overflow when squared")
        eigenvalues, vectors = np.linalg.eigh(gram)
        projected = (np.swapaxes(vectors, -1, -2) @ (transposed @ targets[..., None]))[..., 0]
        total = np.einsum("...n,...n->...", targets, targets)
        n = np.full(total.shape, float(features.shape[-2])) if counts is None else np.asarray(counts, dtype=np.float64)
        return cls(np.maximum(eigenvalues, 0.0), vectors, projected, total, n)

    def profile(self, log_ratios: Array) -> tuple[Array, Array]:
        """Log likelihood and likeliest β, ``(..., g)``, along ratios ``(..., g)``."""
        ratios = np.exp(log_ratios)[..., None]
        shrunk = 1.0 + ratios * self.eigenvalues[..., None, :]
        explained = (ratios * self.projected[..., None, :] ** 2 / shrunk).sum(axis=-1)
        total, n = self.total[..., None], self.counts[..., None]
        # At least rounding's share of yᵀy is left, or a perfect fit would be infinitely likely.
        quadratic = np.maximum(total - explained, 1e-10 * total + _LEAST_QUADRATIC)
        beta = n / quadratic
        value = 0.5 * n * (np.log(beta) - 1.0 - math.log(2.0 * math.pi)) - 0.5 * np.log(shrunk).sum(axis=-1)
        return value, beta

    def likeliest(self, prior: tuple[float, float] | None) -> tuple[Array, Array]:
        """α and β."""
        grid = np.broadcast_to(LOG_RATIOS, (*self.total.shape, len(LOG_RATIOS)))
        for _ in range(_REFINEMENTS):
            value, beta = self.profile(grid)
            if prior is not None:
                value = value - 0.5 * ((grid - prior[0]) / prior[1]) ** 2
            best = value.argmax(axis=-1)[..., None]
            center = np.take_along_axis(grid, best, axis=-1)
            found = np.take_along_axis(beta, best, axis=-1)[..., 0]
            step = grid[..., 1:2] - grid[..., :1]
            grid = np.clip(center + step * np.linspace(-1.0, 1.0, 9), LOG_RATIOS[0], LOG_RATIOS[-1])
        return np.asarray(found / np.exp(center[..., 0])), np.asarray(found)


def likeliest_precisions(
    features: Array, targets: Array, counts: Array | None = None, prior: tuple[float, float] | None = None
) -> tuple[Array, Array]:
    """α and β, ``(...)`` each, that maximise the marginal likelihood of each task.

    Parameters
    ----------
    features, targets
        ``(..., n, D)`` and ``(..., n)``; rows of zeros count as absent.
    counts
        ``(...)``, how many rows are real; all of them when omitted.
    prior
        Mean and standard deviation of ln r, normal; ``None`` for none.
    """
    return _Reduced.of(features, targets, counts).likeliest(prior)


@dataclass(frozen=True)
class BayesianLinearRegression:
    """The posterior of the weights of a linear function.

    Parameters
    ----------
    weights
        (D,) mean.
    root
        (D, D), a square root of the covariance.
    alpha, beta
        Precisions of weights and noise.
    """

    weights: Array
    root: Array
    alpha: float
    beta: float

    @classmethod
    def fit(
        cls,
        features: Array,
        targets: Array,
        precisions: tuple[float, float] | None = None,
        prior: tuple[float, float] | None = None,
    ) -> Self:
        """Condition on features (n, D) and targets (n,); without precisions (α, β) the likeliest are taken.

        `prior` is that of `likeliest_precisions`. Without any observation what remains is the prior of the weights.

        >>> points = np.linspace(-1, 1, 50)
        >>> features = np.stack([np.ones(50), points], axis=1)
        >>> BayesianLinearRegression.fit(features, 3 + 2 * points).weights.round(3).tolist()
        [3.0, 2.0]
        """
        reduced = _Reduced.of(features, targets, None)
        alpha, beta = (float(a) for a in (reduced.likeliest(prior) if precisions is None else precisions))
        precision = alpha + beta * reduced.eigenvalues
        weights = reduced.vectors @ (beta * reduced.projected / precision)
        return cls(weights, reduced.vectors / np.sqrt(precision), alpha, beta)

    def posterior(self, features: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the function, (m,) each, at features (m, D); without noise."""
        spread = features @ self.root
        return features @ self.weights, np.sqrt(np.einsum("ij,ij->i", spread, spread))
