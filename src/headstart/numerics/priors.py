"""Priors over the hyper-parameters of a Gaussian process, and the box they are searched in.

=========  =================  ============================================================================
symbol     name in code       equation
=========  =================  ============================================================================
θ          value              a positive hyper-parameter; `log_value` is its logarithm
μ, σ       location, spread   ln θ ~ N(μ, σ²)
p(θ)       log_density        ln p(θ) = -ln θ - ln σ - ½ ln 2π - (ln θ - μ)² / (2σ²)
           slope              ∂ ln p / ∂ ln θ = -1 - (ln θ - μ) / σ²
           mode               exp(μ - σ²)
d          dimensions         number of inputs
=========  =================  ============================================================================

Densities are those of θ itself, not of ln θ, so that maximum a posteriori means what it does in BoTorch.

`dimension_scaled_prior` is that of Hvarfner, Hellsten & Nardi (2024), "Vanilla Bayesian optimization performs great in
high dimensions": distances in the unit cube grow with √d, and length scales must grow with them or every pair of points
is independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from headstart.numerics.kernels import Array

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
