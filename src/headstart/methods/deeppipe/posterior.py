"""The posterior of a deep kernel on a new task: at any pipelines, and over a pool one observation after another.

Points are those of `Located`, at length scale 1; the kernel is Matérn-5/2 times an output scale. Notation:
`headstart.numerics.affine_mixture` and `headstart.numerics.pool_posterior`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from headstart.methods.deeppipe.tuning import Located
from headstart.numerics.affine_mixture import Levels, Mixture
from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.kernels import CrossKernel, kernel_matrix
from headstart.numerics.pool_posterior import PoolPosterior

Array = NDArray[np.float64]
Places = NDArray[np.int64]
_BLOCK_ROWS = 1024
"""Candidates at a time, so that what is computed of them stays in the processor's cache."""
_UNIT = np.zeros(1)


class Observed:
    """What was observed, and what follows from it at any pipelines.

    Parameters
    ----------
    seen, targets
        Where the observed pipelines are, and their targets.
    log_output_scale
        Of the kernel.
    known
        What was known of offset, scale and level before.
    lower
        Factor of their covariance, where it is known already.
    """

    def __init__(
        self, seen: Located, targets: Array, log_output_scale: float, known: Levels, lower: Array | None = None
    ) -> None:
        self.seen, self._log_scale = seen, log_output_scale
        if lower is None:
            covariance = kernel_matrix("matern52", seen.points, None, _UNIT, log_output_scale)
            covariance[np.diag_indices(len(seen))] += seen.noise
            lower = jittered_cholesky(covariance)
        self._lower = lower
        values = np.stack([targets, np.ones(len(seen)), seen.means], axis=1)
        self.whitened: Array = (
            solve_triangular(lower, values, lower=True, check_finite=False) if len(seen) else values.reshape(0, 3)
        )
        self.mixture = Mixture.of(self.whitened, known)

    @cached_property
    def _inverse(self) -> Array:
        """L⁻ᵀ; computed once, for a search on a whole space asks for many small sets of pipelines."""
        eye = np.eye(len(self.seen))
        return np.ascontiguousarray(solve_triangular(self._lower, eye, lower=True, check_finite=False).T)

    def spread(self, points: Array) -> tuple[Array, Array]:
        """S (3, P) and the variance (P,) of the process at points (P, Z)."""
        n, variance = len(self.seen), np.full(len(points), np.exp(self._log_scale))
        spread = np.zeros((3, len(points)))
        if not n or not len(points):
            return spread, variance
        cross = CrossKernel("matern52", self.seen.points, _UNIT, self._log_scale, min(_BLOCK_ROWS, len(points)))
        for start in range(0, len(points), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            rows = cross(points[block]) @ self._inverse
            spread[:, block] = (rows @ self.whitened).T
            variance[block] -= np.einsum("ij,ij->i", rows, rows)
        return spread, np.maximum(variance, 0.0)

    def moments(self, at: Located, *, noisy: bool) -> tuple[Array, Array]:
        """Mean and standard deviation of targets; with or without what belongs to a pipeline alone."""
        return self._moments(at, *self.spread(at.points), noisy=noisy)

    def _moments(self, at: Located, spread: Array, variance: Array, *, noisy: bool) -> tuple[Array, Array]:
        return self.mixture.moments(spread, at.means, variance + at.noise if noisy else variance)


class PoolObserved(Observed):
    """The same with all candidates of a pool at hand, where most of the work was done for earlier observations."""

    def __init__(self, pool: PoolProcess, places: Places, targets: Array, known: Levels) -> None:
        pool.posterior.observe(places.tolist())
        super().__init__(pool.located.take(places), targets, pool.log_output_scale, known, pool.posterior.lower)
        self._pool = pool

    def pool_moments(self, *, noisy: bool) -> tuple[Array, Array]:
        """`moments` of the whole pool."""
        posterior = self._pool.posterior
        spread = posterior.spread(self.whitened)
        return self._moments(self._pool.located, spread, np.maximum(posterior.variance, 0.0), noisy=noisy)


class PoolProcess:
    """A pool under parameters that stay as they are.

    Parameters
    ----------
    located
        Where its pipelines are.
    log_output_scale
        Of the kernel.
    """

    def __init__(self, located: Located, log_output_scale: float) -> None:
        self.located, self.log_output_scale = located, log_output_scale
        variance = np.full(len(located), np.exp(log_output_scale))
        self.posterior = PoolPosterior(self._row, variance, located.noise)

    def _row(self, place: int) -> Array:
        points = self.located.points
        here = kernel_matrix("matern52", points, points[place : place + 1], _UNIT, self.log_output_scale)
        return np.asarray(here[:, 0])
