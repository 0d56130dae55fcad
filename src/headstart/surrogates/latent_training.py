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
====================  ==================  =====================================================================

A step takes some tasks and some pipelines, the same pipelines for all of these tasks, so that one covariance matrix and
one pass back through it serve them all; cells that are missing are dropped for each task. What is minimised is the mean
over such draws of the negative log-likelihood of a cell: the gradient of a step is an unbiased estimate of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from headstart.errors import InvalidInput, NumericalError
from headstart.numerics.latent_kernel import LatentKernel
from headstart.numerics.threads import one_blas_thread

logger = logging.getLogger(__name__)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
_HALF_LOG_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))
_JITTER = 1e-8


@dataclass
class Latent:
    """Latent points of P pipelines with all that makes a prior of them; see `headstart.surrogates.recorded_gp.Prior`.

    Parameters
    ----------
    points
        (P, Q)
    kernel
        Over the points.
    means, noise
        (P,), mean and noise variance of each pipeline, in units of standardised losses.
    offset_mean, offset_std, scales
        How tasks differ.
    """

    points: Array
    kernel: LatentKernel
    means: Array
    noise: Array
    offset_mean: float
    offset_std: float
    scales: Array

    def __post_init__(self) -> None:
        self.variance: Array = self.kernel.variance(self.points)

    def row(self, place: int) -> Array:
        """Covariances (P,) of one pipeline with all."""
        return self.kernel.matrix(self.points, self.points[place : place + 1])[:, 0]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Parameters
    ----------
    steps
        Most steps of Adam; 0 leaves everything as it starts.
    tasks, pipelines
        How many of each make a step.
    learning_rate
        At the start; it falls to a hundredth along a cosine over `steps`.
    check_every, patience
        Steps between looks at the validation tasks, and looks without improvement before training ends.
    """

    steps: int = 2000
    tasks: int = 32
    pipelines: int = 192
    learning_rate: float = 0.02
    check_every: int = 100
    patience: int = 5

    def __post_init__(self) -> None:
        whole = (self.tasks, self.pipelines, self.check_every, self.patience)
        if self.steps < 0 or min(whole) < 1 or not self.learning_rate > 0:
            raise InvalidInput(
                "steps must be at least 0, tasks, pipelines, check_every and patience at least 1 and learning_rate "
                f"positive, got {self.steps!r}, {whole!r} and {self.learning_rate!r}"
            )


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


class _Adam:
    """Adam for an array of which each step touches some rows; rows count their own steps."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.first, self.second, self.steps = np.zeros(shape), np.zeros(shape), np.zeros(shape[0])

    def step(self, values: Array, rows: Places | slice, gradient: Array, rate: float) -> None:
        self.steps[rows] += 1
        self.first[rows] = 0.9 * self.first[rows] + 0.1 * gradient
        self.second[rows] = 0.99 * self.second[rows] + 0.01 * gradient**2
        count = self.steps[rows].reshape(-1, *[1] * (values.ndim - 1))
        size = np.sqrt(self.second[rows] / (1.0 - 0.99**count)) + 1e-8
        values[rows] -= rate * (self.first[rows] / (1.0 - 0.9**count)) / size


@dataclass
class Held:
    """Tasks that training is checked on: residuals without means taken off, and what is known."""

    losses: Array
    known: Mask


@dataclass
class Trained:
    """The best parameters seen, and (k, 3) checks: step, seconds, validation loss of a cell."""

    latent: Latent
    checks: Array


def train(
    start: Latent,
    losses: Array,
    known: Mask,
    held: Held,
    schedule: Schedule,
    rng: np.random.Generator,
    *,
    learn_means: bool = True,
    learn_noise: bool = True,
    on_check: Callable[[int, float, float], Any] | None = None,
) -> Trained:
    """Improve latent points and covariance; the same arguments give the same result.

    Parameters
    ----------
    start
        Where to begin; it is not changed.
    losses, known
        (T, P), standardised, of the training tasks.
    held
        Of the validation tasks.
    schedule
        See there.
    rng
        Draws tasks and pipelines.
    learn_means, learn_noise
        Whether each pipeline's mean and noise are learned too; without, one noise for all is.
    on_check
        Is told step, seconds and validation loss.
    """
    points, means, log_noise = start.points.copy(), start.means.copy(), np.log(start.noise)
    kernel = start.kernel
    logs = [
        np.log(kernel.length_scales),
        np.array([np.log(kernel.output_scale)]),
        np.log(np.maximum(kernel.linear, 1e-12)),
    ]
    shared = np.concatenate([*logs, [0.0]])  # the last one moves all noises together
    adams = {"points": _Adam(points.shape), "means": _Adam(means.shape), "noise": _Adam(means.shape)}
    adam_shared = _Adam(shared.shape)
    q = points.shape[1]
    uses_linear = bool((kernel.linear > 0).any())

    def kernel_now() -> LatentKernel:
        values = np.exp(shared)
        linear = values[q + 1 : 2 * q + 1] if uses_linear else np.zeros(q)
        return LatentKernel(kernel.kind, values[:q], float(values[q]), linear)

    def noise_now(rows: Places) -> Array:
        return np.asarray(np.exp(log_noise[rows] + shared[-1]))

    draws = [
        np.random.default_rng(number).permutation(len(points))[: schedule.pipelines]
        for number in range(_VALIDATION_DRAWS)
    ]

    def validate() -> float:
        total, cells, now = 0.0, 0, kernel_now()
        for rows in draws:
            there = held.known[:, rows]
            residuals = np.where(there, held.losses[:, rows] - means[rows], 0.0)
            total += likelihood(now.matrix(points[rows]), noise_now(rows), residuals, there)[0]
            cells += int(there.sum())
        return total / max(1, cells)

    def snapshot() -> Latent:
        noise = np.exp(log_noise + shared[-1])
        return replace(start, points=points.copy(), kernel=kernel_now(), means=means.copy(), noise=noise)

    began, checks = time.perf_counter(), []
    best: tuple[float, int, Latent] | None = None
    with one_blas_thread():
        for step in range(schedule.steps + 1):
            if step % schedule.check_every == 0 or step == schedule.steps:
                value, seconds = validate(), time.perf_counter() - began
                checks.append((step, seconds, value))
                logger.info("latent points: step %d, validation %.5f, %.0f s", step, value, seconds)
                if on_check is not None:
                    on_check(step, seconds, value)
                if best is None or value < best[0]:
                    best = (value, step, snapshot())
                elif step - best[1] >= schedule.patience * schedule.check_every:
                    break
            if step == schedule.steps:
                break
            rate = schedule.learning_rate * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * step / schedule.steps)))
            tasks = rng.permutation(len(losses))[: schedule.tasks]
            rows = rng.permutation(len(points))[: schedule.pipelines]
            there = known[np.ix_(tasks, rows)]
            residuals = np.where(there, losses[np.ix_(tasks, rows)] - means[rows], 0.0)
            now, noise = kernel_now(), noise_now(rows)
            try:
                _, by_covariance, by_residuals = likelihood(now.matrix(points[rows]), noise, residuals, there)
            except NumericalError as error:
                logger.warning("training ends after %d steps with the best found so far: %s", step, error)
                break
            slope = now.gradient(points[rows], by_covariance)
            by_noise = np.diag(by_covariance) * noise
            by_shared = np.concatenate(
                [slope.log_length_scales, [slope.log_output_scale], slope.log_linear, [by_noise.sum()]]
            )
            adam_shared.step(shared, slice(None), by_shared, rate)
            adams["points"].step(points, rows, slope.points, rate)
            if learn_noise:
                adams["noise"].step(log_noise, rows, by_noise, rate)
                np.maximum(log_noise, _LEAST_LOG_NOISE, out=log_noise)
            if learn_means:
                adams["means"].step(means, rows, -by_residuals.sum(axis=0), 0.5 * rate)
    assert best is not None
    return Trained(best[2], np.array(checks))


_VALIDATION_DRAWS = 8
_LEAST_LOG_NOISE = float(np.log(1e-5))
"""Relative to the variance of a task's losses."""
