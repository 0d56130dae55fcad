"""Marginal likelihoods of many tasks at once, in torch: what surrogates are meta-trained by.

B tasks of up to n observations each; where a task has fewer, `mask` says which are real.

=========  =========================  ==========================================================================
symbol     name in code               equation
=========  =========================  ==========================================================================
z          points                     (B, n, d), what a network made of the pipelines
y, 1       targets, ones              (B, n), standardised per task; 0 where masked
ℓ, s       exp of log_length_scales,  as in `headstart.numerics.kernels`
           log_output_scale
q, f       squared                    q_ij = Σ_k ((z_ik - z_jk)/ℓ_k)²;  Matérn-5/2 or squared exponential f(q)
K          covariance                 s f(q) + noise, rows and columns of masked observations those of I
L          lower                      L Lᵀ = K
m          mean                       0, or the likeliest constant, (1ᵀ K⁻¹ y) / (1ᵀ K⁻¹ 1)
a          weights                    K⁻¹ (y - m)
           log_likelihood             -½ (y - m)ᵀ a - Σ_i ln L_ii - ½ n ln 2π
G          by_covariance              ∂ log_likelihood / ∂K = ½ (a aᵀ - K⁻¹)
Φ          features                   (B, n, D) of Bayesian linear regression, rows 0 where masked
α, β       alpha, beta                precisions of weights and noise: w ~ N(0, I/α), y ~ N(Φ w, I/β)
r          ratio                      β / α
A          inner                      I + r ΦᵀΦ, (B, D, D)
=========  =========================  ==========================================================================

The derivative of Matérn-5/2 is taken by q, where it is finite also for coinciding points; through the distance √q it
would be NaN there.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal, get_args

from headstart.errors import NumericalError, UnknownName, suggestion
from headstart.learning.backend import require_torch

LOG_TWO_PI = math.log(2.0 * math.pi)
DeepKernelName = Literal["matern52", "squared_exponential"]
_JITTERS = (0.0, 1e-8, 1e-6, 1e-4)


def kernel_matrix(kernel: DeepKernelName, points: Any, log_length_scales: Any, log_output_scale: Any) -> Any:
    """Covariances (B, n, n) of points (B, n, d) with themselves; length scales (d,) or (1,), for all tasks alike."""
    torch = require_torch("a deep kernel")
    if kernel not in get_args(DeepKernelName):
        raise UnknownName(f"no deep kernel is called {kernel!r}; {suggestion(kernel, get_args(DeepKernelName))}")
    scaled = points / log_length_scales.exp()
    scaled = scaled - scaled.mean(dim=1, keepdim=True).detach()
    # Squared for rows and for columns apart: the derivative then adds up in the order of trainings on record.
    rows, columns = (scaled * scaled).sum(dim=-1), (scaled * scaled).sum(dim=-1)
    squared = torch.baddbmm(rows[:, :, None] + columns[:, None, :], scaled, scaled.transpose(1, 2), alpha=-2.0)
    squared = squared.clamp_min(0.0) * (1.0 - torch.eye(points.shape[1], dtype=points.dtype))
    value = _matern52().apply(squared) if kernel == "matern52" else (-0.5 * squared).exp()
    return log_output_scale.exp() * value


def gp_log_likelihood(covariance: Any, targets: Any, mask: Any = None, *, likeliest_mean: bool = False) -> Any:
    """Log marginal likelihoods (B,) of Gaussian processes over tensors.

    Where tasks share their points and so their covariance, one factorisation serves all of which nothing is missing.

    Parameters
    ----------
    covariance
        ``(n, n)`` or ``(B, n, n)``, noise included.
    targets
        ``(B, n)``
    mask
        ``(B, n)`` booleans, True where there is a target; ``None`` if everywhere. What stands elsewhere, if finite,
        changes nothing.
    likeliest_mean
        Whether each task has the constant mean that is likeliest for it instead of 0.
    """
    torch = require_torch("a deep kernel")
    shared = covariance.dim() == 2 and not likeliest_mean
    if mask is None:
        if shared:
            return _shared_evidence().apply(covariance, targets)
        return _evidence().apply(covariance, targets, torch.ones_like(targets), likeliest_mean)
    whole = mask.all(dim=1)
    if shared and bool(whole.any()) and not bool(whole.all()):
        value = targets.new_zeros(len(targets))
        value[whole] = gp_log_likelihood(covariance, targets[whole])
        value[~whole] = gp_log_likelihood(covariance, targets[~whole], mask[~whole])
        return value
    both = mask[:, :, None] & mask[:, None, :]
    spread = torch.where(both, covariance, torch.eye(covariance.shape[-1], dtype=covariance.dtype))
    targets = torch.where(mask, targets, torch.zeros_like(targets))
    return _evidence().apply(spread, targets, mask.to(targets.dtype), likeliest_mean)


def linear_log_likelihood(features: Any, targets: Any, alpha: Any, beta: Any, counts: Any) -> Any:
    """Log marginal likelihoods (B,) of Bayesian linear regressions over tensors.

    Parameters
    ----------
    features, targets
        ``(B, n, D)`` and ``(B, n)``; 0 in rows that are masked.
    alpha, beta
        ``(B,)``.
    counts
        ``(B,)``, how many rows are real.
    """
    torch = require_torch("Bayesian linear regression on learned features")
    ratio = beta / alpha
    inner = torch.eye(features.shape[-1], dtype=features.dtype) + ratio[:, None, None] * (
        features.transpose(1, 2) @ features
    )
    lower = cholesky(inner)
    projected = torch.linalg.solve_triangular(lower, features.transpose(1, 2) @ targets[..., None], upper=False)
    quadratic = (targets * targets).sum(dim=-1) - ratio * (projected[..., 0] ** 2).sum(dim=-1)
    log_determinant = torch.diagonal(lower, dim1=-2, dim2=-1).log().sum(dim=-1)
    return 0.5 * counts * (beta.log() - LOG_TWO_PI) - log_determinant - 0.5 * beta * quadratic


def cholesky(matrix: Any) -> Any:
    """Lower factors of a batch; where one does not exist, all get a little on the diagonal, then a clear error."""
    torch = require_torch("a deep kernel")
    for jitter in _JITTERS:
        typical = jitter * torch.diagonal(matrix, dim1=-2, dim2=-1).mean(dim=-1).detach()
        grown = matrix if jitter == 0.0 else matrix + typical[:, None, None] * torch.eye(matrix.shape[-1]).to(matrix)
        lower, failed = torch.linalg.cholesky_ex(grown)
        if not bool(failed.any()):
            return lower
    raise NumericalError(
        f"a covariance matrix of training tasks stays indefinite with jitter {_JITTERS[-1]:g}; "
        "check the parameters for values that are not finite, or train at a lower learning_rate"
    )


@cache
def _evidence() -> Any:
    torch = require_torch("a deep kernel")

    class Evidence(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """ln p(y) from K, with G instead of derivatives through the factorisation: a third of the time.

        Where the mean is the likeliest one, the derivative by it is 0, so it counts as a constant.
        """

        @staticmethod
        def forward(ctx: Any, covariance: Any, targets: Any, ones: Any, likeliest_mean: bool) -> Any:
            lower = cholesky(covariance)
            weights, solved_ones = torch.cholesky_solve(torch.stack([targets, ones], dim=-1), lower).unbind(dim=-1)
            if likeliest_mean:
                total = (ones * solved_ones).sum(dim=-1)
                # Without a single observation every mean is equally likely: 0.
                mean = (ones * weights).sum(dim=-1) / torch.where(total > 0, total, torch.ones_like(total))
                targets = targets - mean[:, None] * ones
                weights = weights - mean[:, None] * solved_ones
            ctx.save_for_backward(lower, weights)
            log_determinant = torch.diagonal(lower, dim1=-2, dim2=-1).log().sum(dim=-1)
            return -0.5 * ((targets * weights).sum(dim=-1) + LOG_TWO_PI * ones.sum(dim=-1)) - log_determinant

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            lower, weights = ctx.saved_tensors
            by_covariance = torch.cholesky_inverse(lower)
            by_covariance = torch.baddbmm(by_covariance, weights[:, :, None], weights[:, None, :], beta=-1.0)
            by_covariance *= 0.5 * upstream[:, None, None]
            return by_covariance, -upstream[:, None] * weights, None, None

    return Evidence


@cache
def _shared_evidence() -> Any:
    torch = require_torch("a deep kernel")

    class SharedEvidence(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """ln p of many residuals under one K."""

        @staticmethod
        def forward(ctx: Any, covariance: Any, residuals: Any) -> Any:
            lower = cholesky(covariance[None])[0]
            weights = torch.cholesky_solve(residuals.T, lower).T
            ctx.save_for_backward(lower, weights)
            log_determinant = torch.diagonal(lower).log().sum()
            return -0.5 * ((residuals * weights).sum(dim=-1) + LOG_TWO_PI * residuals.shape[1]) - log_determinant

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            lower, weights = ctx.saved_tensors
            outer = (weights * upstream[:, None]).T @ weights
            by_covariance = 0.5 * (outer - upstream.sum() * torch.cholesky_inverse(lower))
            return by_covariance, -upstream[:, None] * weights

    return SharedEvidence


@cache
def _matern52() -> Any:
    torch = require_torch("a deep kernel")

    class Matern52(torch.autograd.Function):  # type: ignore[misc, name-defined]
        """f(q) with its derivative by q."""

        @staticmethod
        def forward(ctx: Any, squared: Any) -> Any:
            root = (5.0 * squared).sqrt()
            decayed_line = (1.0 + root) * (-root).exp()
            ctx.save_for_backward(decayed_line)
            return decayed_line + (5.0 / 3.0) * squared * (-root).exp()

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (decayed_line,) = ctx.saved_tensors
            return (-5.0 / 6.0) * decayed_line * upstream

    return Matern52
