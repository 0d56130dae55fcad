"""The posterior on a new task: at any pipelines, and over a fixed set of them one observation after another.

================  =====================  ==================================================================
symbol            name in code           equation
================  =====================  ==================================================================
x_p               Located.points         where pipeline p is
m_p, ψ_p          means, noise           prior mean of its loss, and noise variance, in standardised units
k                 Process                covariance of the process g over pipelines
L                 lower                  L Lᵀ = K_oo + diag ψ_o of what was observed
W                 _whitened              L⁻¹ [y, 1, m], (n, 3)
S, σ²             at, over               K_*o (K_oo + ψ_o)⁻¹ [y, 1, m], (3, P), and the posterior variance of g
================  =====================  ==================================================================

What follows from S and σ² for losses of unknown offset and scale is in `headstart.numerics.affine_mixture`; how a fixed
set grows by a row is in `headstart.numerics.pool_posterior`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from headstart.numerics.affine_mixture import LevelMixture, Levels
from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.pool_posterior import PoolPosterior

Array = NDArray[np.float64]
Places = NDArray[np.int64]
_BLOCK_ROWS = 1024
"""Candidates at a time, so that what is computed of them stays in the processor's cache."""


@dataclass
class Located:
    """Where some pipelines are; see the notation.

    Parameters
    ----------
    points, means, noise
        (n, Q), (n,) and (n,).
    descriptions
        (n, F), their encodings, for a process that looks at them too.
    extra
        (n,), further noise variance of pipelines whose place is a guess.
    """

    points: Array
    means: Array
    noise: Array
    descriptions: Array | None = None
    extra: Array | float = 0.0

    def take(self, rows: Places | slice) -> Located:
        described = None if self.descriptions is None else self.descriptions[rows]
        return Located(self.points[rows], self.means[rows], self.noise[rows], described)

    @property
    def total_noise(self) -> Array:
        return np.asarray(self.noise + self.extra)

    def __len__(self) -> int:
        return len(self.means)


class Process(Protocol):
    """A Gaussian process over located pipelines."""

    def covariance(self, left: Located, right: Located) -> Array:
        """k, (n, m)."""
        ...

    def variance(self, at: Located) -> Array:
        """k(p, p), (n,)."""
        ...

    def cross(self, seen: Located, rows: int) -> Callable[[Located], Array]:
        """k of at most so many pipelines with those seen; may overwrite what it gave before."""
        ...


@dataclass
class Fixed:
    """Pipelines that stay where they are, with what is observed of them."""

    located: Located
    posterior: PoolPosterior


class Posterior:
    """What was observed, and what follows from it.

    Parameters
    ----------
    process
        See there.
    seen, targets
        Where the observed pipelines are, and their targets.
    known
        What was known of offset, scale and level before.
    """

    def __init__(self, process: Process, seen: Located, targets: Array, known: Levels) -> None:
        self._process, self._seen = process, seen
        covariance = process.covariance(seen, seen)
        covariance[np.diag_indices(len(seen))] += seen.total_noise
        self._lower = jittered_cholesky(covariance)
        values = np.stack([targets, np.ones(len(seen)), seen.means], axis=1)
        self._whitened: Array = solve_triangular(self._lower, values, lower=True, check_finite=False)
        self.mixture = LevelMixture.of(self._whitened, known)
        self._over: Array | None = None

    @cached_property
    def _inverse(self) -> Array:
        """L⁻ᵀ; computed once, for a search on a whole space asks for many small sets of pipelines."""
        eye = np.eye(len(self._seen))
        return np.ascontiguousarray(solve_triangular(self._lower, eye, lower=True, check_finite=False).T)

    def at(self, located: Located) -> tuple[Array, Array]:
        """S (3, P) and σ² (P,) of any pipelines."""
        variance, spread = self._process.variance(located), np.zeros((3, len(located)))
        if not len(self._seen) or not len(located):
            return spread, variance
        cross = self._process.cross(self._seen, min(_BLOCK_ROWS, len(located)))
        for start in range(0, len(located), _BLOCK_ROWS):
            block = slice(start, start + _BLOCK_ROWS)
            rows = cross(located.take(block)) @ self._inverse
            spread[:, block] = (rows @ self._whitened).T
            variance[block] -= np.einsum("ij,ij->i", rows, rows)
        return spread, variance

    def over(self, fixed: Fixed, places: Places) -> tuple[Array, Array]:
        """S and σ² of a fixed set, of which those at these places were seen; most was done for earlier observations."""
        if self._over is None:
            fixed.posterior.observe(places.tolist())
            self._over = fixed.posterior.spread(self._whitened)
        return self._over, fixed.posterior.variance
