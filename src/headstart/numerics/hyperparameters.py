"""Hyper-parameters of a Gaussian process, priors over them, and the search for the likeliest ones.

=========  =========================  ====================================================================
symbol     name in code               equation
=========  =========================  ====================================================================
ℓ, s, σ²   length_scales,             see `headstart.numerics.kernels` and `.marginal_likelihood`
           output_scale, noise
θ          vector                     (ln ℓ_1, …, ln ℓ_p, ln s, ln σ²), p = d or 1
ln p(y|θ)  log_marginal_likelihood
ln p(θ)    prior.log_density          sum over the hyper-parameters; of each, h, below
L(θ)       loss                       -ln p(y|θ) - ln p(θ), minimised by L-BFGS-B inside a box
μ, σ       location, spread           ln h ~ N(μ, σ²) for a positive h; `log_value` is its logarithm
p(h)       log_density                ln p(h) = -ln h - ln σ - ½ ln 2π - (ln h - μ)² / (2σ²)
           slope                      ∂ ln p / ∂ ln h = -1 - (ln h - μ) / σ²
           mode                       exp(μ - σ²)
d          dimensions                 number of inputs
=========  =========================  ====================================================================

Densities are those of h itself, not of ln h, so that maximum a posteriori means what it does in BoTorch.

`dimension_scaled_prior` is that of Hvarfner, Hellsten & Nardi (2024), "Vanilla Bayesian optimization performs great in
high dimensions": distances in the unit cube grow with √d, and length scales must grow with them or every pair of points
is independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from headstart.errors import NumericalError
from headstart.numerics.kernels import Array, KernelName
from headstart.numerics.marginal_likelihood import Evidence, log_marginal_likelihood
from headstart.numerics.threads import one_blas_thread

_SPREAD = ((1.0, 1.0), (0.3, 0.1), (3.0, 0.1), (1.0, 30.0))
"""Where searches may begin: factors of the default length scales and noise."""

_SEARCH_OPTIONS = {"maxiter": 100, "ftol": 1e-6, "gtol": 1e-3}
"""Differences this small in log likelihood change no decision."""

LENGTH_SCALE_RANGE = (5e-3, 1e4)
OUTPUT_SCALE_RANGE = (1e-3, 1e3)
NOISE_RANGE = (1e-6, 1e1)
"""Limits of the search. Inputs are expected to span about the unit interval; targets have unit variance."""


@dataclass(frozen=True)
class LogNormal:
    """A positive quantity whose logarithm is normal."""

    location: float
    spread: float

    @property
    def mode(self) -> float:
        """The likeliest value."""
        return math.exp(self.location - self.spread**2)

    def log_density(self, log_value: Array) -> Array:
        """Log density at exp(`log_value`), elementwise."""
        constant = math.log(self.spread) + 0.5 * math.log(2.0 * math.pi)
        return np.asarray(-log_value - constant - 0.5 * ((log_value - self.location) / self.spread) ** 2)

    def slope(self, log_value: Array) -> Array:
        """Derivative of `log_density` by `log_value`, elementwise."""
        return np.asarray(-1.0 - (log_value - self.location) / self.spread**2)


@dataclass(frozen=True)
class HyperparameterPrior:
    """Independent priors; the one over length scales holds for each of them."""

    length_scale: LogNormal
    output_scale: LogNormal
    noise: LogNormal

    def log_density(self, log_hyperparameters: Array) -> tuple[float, Array]:
        """Log density and its gradient at the vector (ln ℓ_1, …, ln ℓ_p, ln s, ln noise), shape ``(p + 2,)``."""
        lengths = len(log_hyperparameters) - 2
        parts = [self.length_scale] * lengths + [self.output_scale, self.noise]
        locations, spreads = np.array([(prior.location, prior.spread) for prior in parts]).T
        standardised = (log_hyperparameters - locations) / spreads
        constant = float(np.log(spreads).sum()) + 0.5 * len(parts) * math.log(2.0 * math.pi)
        value = -float(log_hyperparameters.sum()) - constant - 0.5 * float(standardised @ standardised)
        return value, -1.0 - standardised / spreads


def dimension_scaled_prior(dimensions: int) -> HyperparameterPrior:
    """The default: length scales near 0.2 √d, an output scale near 1, noise near 0.7 % of the targets' variance.

    The length-scale and noise priors are those of the paper and of BoTorch. Neither learns an output scale; ours is
    learned, under a prior with mode 1, because the constant mean may lie far from the targets' average.
    """
    return HyperparameterPrior(
        length_scale=LogNormal(math.sqrt(2.0) + 0.5 * math.log(max(dimensions, 1)), math.sqrt(3.0)),
        output_scale=LogNormal(1.0, 1.0),
        noise=LogNormal(-4.0, 1.0),
    )


@dataclass(frozen=True)
class Hyperparameters:
    """What a Gaussian process has learned, in units of standardised targets.

    Parameters
    ----------
    length_scales
        Shape ``(d,)``, or ``(1,)`` where all dimensions share one.
    output_scale
        Variance of the function.
    noise
        Variance of an observation around the function.
    mean
        Constant mean; ``None`` takes the likeliest one for the data at hand.
    """

    length_scales: Array
    output_scale: float
    noise: float
    mean: float | None = None


def default_hyperparameters(dimensions: int, prior: HyperparameterPrior | None, *, ard: bool) -> Hyperparameters:
    """The prior's mode; without a prior that of `dimension_scaled_prior`, as good a place as any to start from."""
    prior = prior or dimension_scaled_prior(dimensions)
    return Hyperparameters(
        length_scales=np.full(dimensions if ard else 1, prior.length_scale.mode),
        output_scale=prior.output_scale.mode,
        noise=prior.noise.mode,
    )


def spread_over_ranks(targets: Array, limit: int) -> NDArray[np.intp] | slice:
    """Indices of at most `limit` of the targets ``(n,)``, at evenly spaced ranks, the lowest and highest included.

    Unlike the most recent or the best ones, they are distributed as all of them are; unlike a random choice, the same
    data always give the same.
    """
    if len(targets) <= limit:
        return slice(None)
    ranks = np.linspace(0, len(targets) - 1, limit).round().astype(np.intp)
    return np.asarray(np.argsort(targets, kind="stable")[ranks])


def search_hyperparameters(
    kernel: KernelName,
    inputs: Array,
    targets: Array,
    prior: HyperparameterPrior | None,
    start: Hyperparameters,
    searches: int,
) -> Hyperparameters:
    """Likeliest hyper-parameters of one task; their mean is left ``None``.

    Parameters
    ----------
    kernel
        Name of the covariance function.
    inputs, targets
        Shapes ``(n, d)`` and ``(n,)``; targets standardised.
    prior
        ``None`` for maximum likelihood.
    start
        Says how many length scales there are; searches begin there and at variations of it.
    searches
        How many of all starts, the likeliest first, to search from.
    """
    if kernel != "linear" and len(start.length_scales) > 1 and prior is not None:
        varying = np.ptp(inputs, axis=0) > 0.0
        if 0 < varying.sum() < len(varying):
            # The data say nothing about the length scales of the other columns, and the start is the prior's mode.
            some = replace(start, length_scales=start.length_scales[varying])
            part = np.ascontiguousarray(inputs[:, varying])
            found = search_hyperparameters(kernel, part, targets, prior, some, searches)
            lengths = start.length_scales.copy()
            lengths[varying] = found.length_scales
            return replace(found, length_scales=lengths)
    box = np.log([LENGTH_SCALE_RANGE] * len(start.length_scales) + [OUTPUT_SCALE_RANGE, NOISE_RANGE])
    evidence = _likelihood(kernel, inputs, targets)

    def loss(vector: Array) -> tuple[float, Array]:
        value, gradient = evidence(vector)
        if prior is not None:
            log_density, slope = prior.log_density(vector)
            value, gradient = value + log_density, gradient + slope
        return -value, -gradient

    spread = [
        np.log([*(longer * start.length_scales), start.output_scale, noisier * start.noise])
        for longer, noisier in _SPREAD
    ]
    # Small matrices: a second BLAS thread costs more than it brings, and twenty times more on a busy machine.
    with one_blas_thread():
        vectors = [np.clip(vector, box[:, 0], box[:, 1]) for vector in spread]
        vectors.sort(key=lambda vector: loss(vector)[0])
        results = [
            minimize(loss, vector, jac=True, method="L-BFGS-B", bounds=box, options=_SEARCH_OPTIONS)
            for vector in vectors[:searches]
        ]
    best = min(results, key=lambda result: float(result.fun))
    if not np.isfinite(best.fun):
        raise NumericalError(
            f"the marginal likelihood of {len(targets)} observations must be finite, got {best.fun}; "
            "check the inputs for extreme values"
        )
    return Hyperparameters(np.exp(best.x[:-2]), float(np.exp(best.x[-2])), float(np.exp(best.x[-1])))


def _likelihood(kernel: KernelName, inputs: Array, targets: Array) -> Callable[[Array], tuple[float, Array]]:
    """From θ to ln p(y|θ) and its gradient."""
    if kernel != "linear":
        return Evidence(kernel, inputs, targets)

    def general(vector: Array) -> tuple[float, Array]:
        found = log_marginal_likelihood(kernel, inputs, targets, vector[:-2], vector[-2], vector[-1])
        return found.value, np.array([*found.by_log_length_scales, found.by_log_output_scale, found.by_log_noise])

    return general
