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

A step takes some tasks and some pipelines, the same pipelines for all of these tasks, so that one covariance matrix and
one pass back through it serve them all; cells that are missing are dropped for each task. What is minimised is the mean
over such draws of the negative log-likelihood of a cell: the gradient of a step is an unbiased estimate of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from headstart.errors import InvalidInput, NumericalError
from headstart.learning.monitor import Check, TrainingState, next_watch
from headstart.numerics.latent_kernel import LatentKernel
from headstart.numerics.threads import one_blas_thread
from headstart.surrogates.latent_prior import LatentPrior, Located

logger = logging.getLogger(__name__)

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
_HALF_LOG_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))
_JITTER = 1e-8


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

    def rate(self, step: int) -> float:
        """Adam's learning rate at a step."""
        return self.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + float(np.cos(np.pi * step / max(1, self.steps)))))


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


@dataclass
class Trained:
    """The best parameters seen, and (k, 3) checks: step, seconds, validation loss of a cell."""

    prior: LatentPrior
    checks: Array


class _Parameters:
    """All that is learned, as arrays by name, with the moments of Adam beside them.

    Rows of what belongs to a pipeline are touched by some steps only and count their own.
    """

    def __init__(self, start: LatentPrior) -> None:
        at, kernel = start.recorded, start.kernel
        self._start = start
        self.arrays: dict[str, Array] = {
            "points": at.points.copy(),
            "means": at.means.copy(),
            "log_noise": np.log(at.noise),
            "log_length_scales": np.log(kernel.length_scales),
            "log_output_scale": np.log([max(kernel.output_scale, _TINY)]),
            "log_linear": np.log(np.maximum(kernel.linear, _TINY)),
            "log_level": np.zeros(1),  # moves all noises together
        }
        if start.describe is not None:
            self.arrays["log_describe"] = np.log([start.describe.length_scales[0], start.describe.output_scale])
        self.names = tuple(self.arrays)
        for name in self.names:
            shape = self.arrays[name].shape
            self.arrays[f"first.{name}"], self.arrays[f"second.{name}"] = np.zeros(shape), np.zeros(shape)
            self.arrays[f"steps.{name}"] = np.zeros(shape[0])

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def step(self, name: str, gradient: Array, rate: float, rows: Places | slice = slice(None)) -> None:
        """One of Adam's."""
        first, second, steps = (self.arrays[f"{part}.{name}"] for part in ("first", "second", "steps"))
        values = self.arrays[name]
        steps[rows] += 1
        first[rows] = 0.9 * first[rows] + 0.1 * gradient
        second[rows] = 0.99 * second[rows] + 0.01 * gradient**2
        count = steps[rows].reshape(-1, *[1] * (values.ndim - 1))
        size = np.sqrt(second[rows] / (1.0 - 0.99**count)) + 1e-8
        values[rows] -= rate * (first[rows] / (1.0 - 0.9**count)) / size

    def state(
        self,
        step: int,
        checks: list[tuple[int, float, float]],
        best: tuple[float, int, dict[str, Array]] | None,
        *,
        finished: bool,
    ) -> TrainingState:
        """All that decides how training goes on; random numbers begin anew at each step."""
        groups = {kind: {n: self[f"{kind}.{n}"] for n in self.names} for kind in ("first", "second")}
        now = {n: self[n] for n in self.arrays if not n.startswith(("first.", "second."))}
        return TrainingState(step, now, groups["first"], groups["second"], step, {}, checks, best, finished)

    def restore(self, state: TrainingState) -> None:
        """Go on from there."""
        self.arrays.update(state.parameters)
        for kind, values in (("first", state.first), ("second", state.second)):
            self.arrays.update({f"{kind}.{name}": value for name, value in values.items()})

    def prior(self, rows: Places | None = None) -> LatentPrior:
        """As it is now, of all pipelines or of some."""
        start, at = self._start, self._start.recorded
        chosen = slice(None) if rows is None else rows
        described = None if at.descriptions is None else at.descriptions[chosen]
        noise = np.exp(self["log_noise"][chosen] + self["log_level"])
        located = Located(self["points"][chosen].copy(), self["means"][chosen].copy(), noise, described)
        linear = np.exp(self["log_linear"]) if start.kernel.linear.any() else np.zeros(len(start.kernel.linear))
        kernel = LatentKernel(
            start.kernel.kind, np.exp(self["log_length_scales"]), float(np.exp(self["log_output_scale"][0])), linear
        )
        describe = start.describe
        if describe is not None:
            length, scale = np.exp(self["log_describe"])
            describe = replace(describe, length_scales=np.full(len(describe.length_scales), length), output_scale=scale)
        return replace(start, recorded=located, kernel=kernel, describe=describe)


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


def train(
    start: LatentPrior,
    losses: Array,
    known: Mask,
    held: Held,
    schedule: Schedule,
    *,
    seed: int = 0,
    fixed: Collection[str] = (),
    name: str = "latent points",
) -> Trained:
    """Improve latent points and covariance; the same arguments give the same result.

    Inside `headstart.learning.monitor.monitored` it reports how it goes, and goes on where an earlier process stopped.

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
    seed
        Draws tasks and pipelines, anew for each step, so that training goes on as if it had never been stopped.
    fixed
        What is not learned: names of `loss_and_gradient`'s gradient.
    name
        For the log.
    """
    parameters = _Parameters(start)
    watch = next_watch()
    before = watch.restored()
    checks: list[tuple[int, float, float]] = []
    best: tuple[float, int, dict[str, Array]] | None = None
    first, finished = 0, False
    if before is not None:
        parameters.restore(before)
        first, checks, best, finished = before.step, before.checks, before.best, before.finished
        watch.tell_again(name, schedule.steps, checks)
    draws = [
        np.random.default_rng(number).permutation(len(start.recorded))[: schedule.pipelines]
        for number in range(_VALIDATION_DRAWS)
    ]

    def validate() -> float:
        total, cells = 0.0, 0
        for rows in draws:
            now, there = parameters.prior(rows), held.known[:, rows]
            at = now.recorded
            residuals = np.where(there, held.losses[:, rows] - at.means, 0.0)
            total += likelihood(now.covariance(at, at), at.noise, residuals, there)[0]
            cells += int(there.sum())
        return total / max(1, cells)

    began = time.perf_counter() - (checks[-1][2] if checks else 0.0)
    with one_blas_thread():
        for step in range(first, first if finished else schedule.steps + 1):
            looked = before is not None and step == first
            if not looked and (step % schedule.check_every == 0 or step == schedule.steps):
                try:
                    value = validate()
                except NumericalError:
                    value = np.inf
                seconds = time.perf_counter() - began
                if not np.isfinite(value):
                    logger.warning(
                        "%s: nothing can be told of validation tasks after %d steps; training ends", name, step
                    )
                    break
                if best is None or value < best[0]:
                    best = (value, step, {part: parameters[part].copy() for part in parameters.names})
                checks.append((step, value, seconds))
                logger.info("%s: step %d of %d, validation %.5f, %.0f s", name, step, schedule.steps, value, seconds)
                watch.tell(Check(name, step, schedule.steps, value, best[0], seconds))
                if step - best[1] >= schedule.patience * schedule.check_every:
                    break
                if watch.due and step < schedule.steps:
                    watch.save(parameters.state(step, checks, best, finished=False))
            if step == schedule.steps:
                break
            rng = np.random.default_rng([seed, step])
            tasks = rng.permutation(len(losses))[: schedule.tasks]
            rows = rng.permutation(len(start.recorded))[: schedule.pipelines]
            there = known[np.ix_(tasks, rows)]
            now = parameters.prior(rows)
            residuals = np.where(there, losses[np.ix_(tasks, rows)] - now.recorded.means, 0.0)
            try:
                _, gradient = loss_and_gradient(now, residuals, there)
            except NumericalError as error:
                logger.warning("training ends after %d steps with the best found so far: %s", step, error)
                break
            rate = schedule.rate(step)
            for part, by in gradient.items():
                if part not in fixed:
                    of_pipelines = part in ("points", "means", "log_noise")
                    parameters.step(part, by, 0.5 * rate if part == "means" else rate, rows if of_pipelines else _ALL)
            np.maximum(parameters["log_noise"], _LEAST_LOG_NOISE, out=parameters["log_noise"])
            least = _LEAST_LOG_NOISE - parameters["log_noise"].min()
            np.maximum(parameters["log_level"], least, out=parameters["log_level"])
        if not finished:
            watch.save(parameters.state(step, checks, best, finished=True))
    if best is None:
        raise NumericalError(f"training of {name} must have a finite validation loss; lower learning_rate may help")
    parameters.arrays.update(best[2])
    seen = np.array(checks, dtype=np.float64)
    return Trained(parameters.prior(), seen[:, [0, 2, 1]])


_ALL = slice(None)
_TINY = 1e-12
_VALIDATION_DRAWS = 8
_LEAST_LOG_NOISE = float(np.log(1e-5))
"""Relative to the variance of a task's losses."""
