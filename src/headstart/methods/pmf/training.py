"""Training of latent points and their covariance by the likelihood of many tasks (PMF).

====================  ==================  =====================================================================
symbol                name in code        equation (of the PMF paper where it has one)
====================  ==================  =====================================================================
Y (T, P)              residuals           losses minus means; rows are tasks here, columns in the paper
X (P, Q)              points              latent points of the pipelines
C_d                   covariance          k(X, X) + diag ψ over the pipelines observed on task d (5)
−ln p(y_d)            likelihood          ½ ln |C_d| + ½ y_dᵀ C_d⁻¹ y_d + ½ N_d ln 2π (6; its signs are those of
                                          the log-likelihood, and its N_d/2 before ln |C_d| is ½)
G                     by_covariance       Σ_d ½ (C_d⁻¹ − α_d α_dᵀ), α_d = C_d⁻¹ y_d (7, 8)
ψ_p                   noise               one for all pipelines (the paper), or one for each
∂/∂ln ψ_p             by_noise            G_pp ψ_p, plus Σ_q G_pq own(p, q) where own covariances are in units of ψ
====================  ==================  =====================================================================

Every step has a gradient for the kernels' parameters and the level of the noise, and one for a latent point only if its
pipeline is drawn. So where points are learned, what all pipelines share takes a tenth of the learning rate: otherwise
it would have adapted to the training tasks, and validation would have stopped the training, before points moved.

A step takes some tasks and some pipelines, the same pipelines for all of these tasks, so that one covariance matrix and
one pass back through it serve them all; cells that are missing are dropped for each task. What is minimised is the mean
over such draws of the negative log-likelihood of a cell: the gradient of a step is an unbiased estimate of it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from headstart.errors import NumericalError
from headstart.learning.adam import Adam
from headstart.learning.training import Trained, Training, train
from headstart.numerics.latent_kernel import LatentKernel
from headstart.numerics.threads import one_blas_thread
from headstart.surrogates.latent_prior import LatentPrior
from headstart.surrogates.posterior import Located

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
_HALF_LOG_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))
_JITTER = 1e-8


def likelihood(covariance: Array, noise: Array, residuals: Array, known: Mask) -> tuple[float, Array, Array]:
    """Negative log-likelihood of the cells of some tasks, and its derivatives.

    Parameters
    ----------
    covariance, noise
        (n, n) and (n,), of the pipelines.
    residuals, known
        (B, n), of the tasks; cells that are not known are dropped.

    Returns
    -------
    the sum over tasks, its derivative by the covariance (n, n) summed over tasks, and by the residuals (B, n).
    """
    n = len(covariance)
    total, by_covariance, by_residuals = 0.0, np.zeros((n, n)), np.zeros(residuals.shape)
    full = covariance + np.diag(noise + _JITTER)
    for task, (values, there) in enumerate(zip(residuals, known, strict=True)):
        rows = np.flatnonzero(there)
        if not len(rows):
            continue
        everything = len(rows) == n
        lower, info = lapack.dpotrf(full if everything else full[np.ix_(rows, rows)], lower=1)
        if info != 0:
            raise NumericalError("the covariance of the latent points must be positive definite; lower learning_rate")
        alpha, _ = lapack.dpotrs(lower, values[rows], lower=1)
        total += float(np.log(np.diag(lower)).sum() + 0.5 * values[rows] @ alpha + len(rows) * _HALF_LOG_TWO_PI)
        inverse, _ = lapack.dpotri(lower, lower=1)
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        inverse -= np.outer(alpha, alpha)
        if everything:
            by_covariance += 0.5 * inverse
        else:
            by_covariance[np.ix_(rows, rows)] += 0.5 * inverse
        by_residuals[task, rows] = alpha
    return total, by_covariance, by_residuals


@dataclass
class Held:
    """Tasks that training is checked on: standardised losses (T, P), and what of them is known."""

    losses: Array
    known: Mask


def loss_and_gradient(prior: LatentPrior, residuals: Array, known: Mask) -> tuple[float, dict[str, Array]]:
    """Negative log-likelihood of some tasks, and its gradient by all that is learned.

    Parameters
    ----------
    prior
        Of the n pipelines of a step.
    residuals, known
        (B, n), losses minus means, and which of them are there.
    """
    at = prior.recorded
    own = prior.own(at, at)
    covariance = prior.kernel.linear_matrix(at.points, at.points) + own
    total, by_covariance, by_residuals = likelihood(covariance, at.noise, residuals, known)
    size = np.sqrt(at.noise) if prior.scaled else np.ones(len(at))
    by_stationary = by_covariance * size[:, None] * size
    slope = prior.kernel.gradient(at.points, by_covariance, by_stationary)
    by_noise = np.diag(by_covariance) * at.noise
    if prior.scaled:
        by_noise = by_noise + (by_covariance * own).sum(axis=1)
    gradient = {
        "points": slope.points,
        "means": -by_residuals.sum(axis=0),
        "log_noise": by_noise,
        "log_length_scales": slope.log_length_scales,
        "log_output_scale": np.array([slope.log_output_scale]),
        "log_linear": slope.log_linear,
        "log_level": np.array([by_noise.sum()]),
    }
    if prior.describe is not None:
        assert at.descriptions is not None
        described = prior.describe.gradient(at.descriptions, np.zeros_like(by_covariance), by_stationary)
        gradient["log_describe"] = np.array([described.log_length_scales.sum(), described.log_output_scale])
    return total, gradient


def train_prior(
    start: LatentPrior,
    losses: Array,
    known: Mask,
    held: Held,
    steps: int,
    training: Training,
    *,
    seed: int = 0,
    fixed: Collection[str] = (),
) -> tuple[LatentPrior, Trained]:
    """Improve latent points and covariance: the best prior, and how training went; the same arguments give the same.

    Parameters
    ----------
    start
        Where to begin; it is not changed.
    losses, known
        (T, P), standardised, of the training tasks.
    held
        Of the validation tasks.
    steps, training
        See `headstart.learning.training.train`.
    seed
        Draws tasks and pipelines, anew for each step, so that training goes on as if it had never been stopped.
    fixed
        What is not learned: names of `loss_and_gradient`'s gradient.
    """
    model = _PriorTraining(start, losses, known, held, training, seed, fixed)
    with one_blas_thread():
        trained = train(model, steps, training, name="latent points", start_counts=True)
    return prior_of(start, trained.parameters), trained


class _PriorTraining:
    """The prior with all that is learned of it as arrays."""

    def __init__(
        self,
        start: LatentPrior,
        losses: Array,
        known: Mask,
        held: Held,
        training: Training,
        seed: int,
        fixed: Collection[str],
    ) -> None:
        self._start, self._losses, self._known, self._held = start, losses, known, held
        self._training, self._seed, self._fixed = training, seed, fixed
        at, kernel = start.recorded, start.kernel
        arrays = {
            "points": at.points.copy(),
            "means": at.means.copy(),
            "log_noise": np.log(at.noise),
            "log_length_scales": np.log(kernel.length_scales),
            "log_output_scale": np.log([max(kernel.output_scale, _TINY)]),
            "log_linear": np.log(np.maximum(kernel.linear, _TINY)),
            "log_level": np.zeros(1),  # moves all noises together
        }
        if start.describe is not None:
            arrays["log_describe"] = np.log([start.describe.length_scales[0], start.describe.output_scale])
        self.adam = Adam(arrays, betas=(0.9, 0.99))
        self._draws = [
            np.random.default_rng(number).permutation(len(at))[: training.n_pipelines]
            for number in range(_VALIDATION_DRAWS)
        ]

    def step(self, number: int, rate: float) -> None:
        rng = np.random.default_rng([self._seed, number])
        tasks = rng.permutation(len(self._losses))[: self._training.n_tasks]
        rows = rng.permutation(len(self._start.recorded))[: self._training.n_pipelines]
        there = self._known[np.ix_(tasks, rows)]
        now = prior_of(self._start, self.adam.parameters, rows)
        residuals = np.where(there, self._losses[np.ix_(tasks, rows)] - now.recorded.means, 0.0)
        _, gradient = loss_and_gradient(now, residuals, there)
        learned = {name: by for name, by in gradient.items() if name not in self._fixed}
        for name, by in learned.items():
            if name in ("points", "means", "log_noise"):
                self.adam.step({name: by}, 0.5 * rate if name == "means" else rate, rows=rows)
            else:
                self.adam.step({name: by}, _SHARED * rate if "points" in learned else rate)
        noise, level = self.adam.parameters["log_noise"], self.adam.parameters["log_level"]
        np.maximum(noise, _LEAST_LOG_NOISE, out=noise)
        np.maximum(level, _LEAST_LOG_NOISE - noise.min(), out=level)

    def validate(self) -> float:
        total, cells = 0.0, 0
        for rows in self._draws:
            now, there = prior_of(self._start, self.adam.parameters, rows), self._held.known[:, rows]
            at = now.recorded
            residuals = np.where(there, self._held.losses[:, rows] - at.means, 0.0)
            total += likelihood(now.covariance(at, at), at.noise, residuals, there)[0]
            cells += int(there.sum())
        return total / max(1, cells)


def prior_of(start: LatentPrior, parameters: Mapping[str, Array], rows: Places | slice = slice(None)) -> LatentPrior:
    """The prior with these parameters, of all pipelines or of some."""
    described = None if start.recorded.descriptions is None else start.recorded.descriptions[rows]
    noise = np.exp(parameters["log_noise"][rows] + parameters["log_level"])
    located = Located(parameters["points"][rows].copy(), parameters["means"][rows].copy(), noise, described)
    linear = np.exp(parameters["log_linear"]) if start.kernel.linear.any() else np.zeros(len(start.kernel.linear))
    scale = float(np.exp(parameters["log_output_scale"][0]))
    kernel = LatentKernel(start.kernel.kind, np.exp(parameters["log_length_scales"]), scale, linear)
    describe = start.describe
    if describe is not None:
        length, scale = np.exp(parameters["log_describe"])
        describe = replace(describe, length_scales=np.full(len(describe.length_scales), length), output_scale=scale)
    return replace(start, recorded=located, kernel=kernel, describe=describe)


_TINY = 1e-12
_VALIDATION_DRAWS = 8
_SHARED = 0.1
"""Of the learning rate, for what all pipelines share, where points are learned too."""
_LEAST_LOG_NOISE = float(np.log(1e-5))
"""Relative to the variance of a task's losses."""
