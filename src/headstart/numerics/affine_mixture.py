"""Gaussian processes for losses whose offset and scale are unknown.

====================  ===================  ===================================================================
symbol                name in code         equation
====================  ===================  ===================================================================
y                     targets              y = a + b (m + g + ε), at n observed points
m                     means                what is expected of a point, known
g, ε                  –                    Gaussian process and noise with covariances τ K and τ diag ψ
a                     offset               N(a₀, s_a²), integrated out; u = a / b
b                     scale                one of `Levels.scales`, weighted by its evidence
τ                     level                one of `Levels.levels`, likewise: how much a task differs from m
L                     –                    L Lᵀ = K_oo + diag ψ_o of the observed points o
W                     whitened             L⁻¹ [y, 1, m], (n, 3)
r                     residual             W_y / b - W_m - u₀ W_1: mean 0, covariance τ I + t² W_1 W_1ᵀ, t = s_a / b
v                     variance             t² / (1 + t² W_1ᵀW_1 / τ), posterior variance of u
û                     offset               u₀ + v W_1ᵀr / τ, its mean
ln p(y | b, τ)        evidence             -½ [rᵀr/τ - v (W_1ᵀr)²/τ² + n ln τ + ln(1 + t² W_1ᵀW_1/τ)] - n ln b
S                     spread               K_*o (K_oo + ψ_o)⁻¹ [y, 1, m], (3, P) at other points *
f_*                   –                    mean  b (û (1 - S_1) + m_* - S_m) + S_y
                                           variance  b² (τ σ_*² + v (1 - S_1)²)
====================  ===================  ===================================================================

The determinant of K_oo + ψ_o is the same for all b and τ, so one factorisation serves them all; the prediction is the
mixture over them, by its moments. With s_a = 0 and one scale it is the ordinary process on standardised targets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.numerics.standardisation import Standardisation

Array = NDArray[np.float64]
_FOREIGN = 6.0
"""Targets this many times as far from the usual ones as those are from one another are in another unit."""
_FAR = 3.0
"""A target this many times as far above the usual ones is out of all proportion; recorded losses reach 2.4."""
_NEGLIGIBLE = 1e-3
"""Weight of a part that is left out, relative to the heaviest."""

_N_SCALES = 9
"""Quantiles of the scales of other tasks that are considered."""


@dataclass(frozen=True)
class Levels:
    """What is known of offset, scale and level before anything is observed; see the notation.

    Scales and levels are equally likely beforehand.
    """

    offset_mean: float
    offset_std: float
    scales: Array
    levels: Array

    def unless_foreign(self, targets: Array) -> Levels:
        """These, unless targets are far outside of them, as those in another unit are: then the targets decide."""
        if not len(targets) or float(np.abs(targets - self.offset_mean).max()) <= _FOREIGN * self._usual:
            return self
        observed = Standardisation.of(targets)
        scales = observed.scale * self.scales / np.median(self.scales)
        return Levels(observed.shift, 2.0 * observed.scale, scales, self.levels)

    def highest(self, targets: Array) -> float:
        """What a target may count as at most, so that a few that are out of all proportion do not decide the scale.

        That is the highest of the usual ones; where most are far above them, all are in another unit, and may be.
        """
        usual = targets[targets - self.offset_mean <= _FAR * self._usual]
        return float(usual.max()) if 2 * len(usual) > len(targets) else np.inf

    @property
    def _usual(self) -> float:
        """How far from the usual offset targets may well be."""
        return self.offset_std + float(self.scales.max())

    @classmethod
    def usual(cls, offsets: Array, scales: Array) -> Levels:
        """What other tasks tell: offsets and scales (T,) of their losses; a level of 1."""
        scales = np.maximum(scales, 1e-3 * float(np.median(scales)))
        grid = np.unique(np.quantile(scales, (np.arange(_N_SCALES) + 0.5) / _N_SCALES))
        spread = max(float(offsets.std()), float(np.median(scales)))
        return cls(float(offsets.mean()), spread, grid, np.ones(1))

    @classmethod
    def known(cls, offset: float, scale: float) -> Levels:
        """Offset and scale that are not in doubt."""
        return cls(offset, 0.0, np.array([scale]), np.ones(1))


@dataclass(frozen=True)
class Part:
    """One scale and level: its weight, and mean and variance of u under it."""

    weight: float
    scale: float
    level: float
    offset: float
    variance: float


@dataclass(frozen=True)
class LevelMixture:
    """What the observations say of offset, scale and level."""

    parts: tuple[Part, ...]

    @classmethod
    def of(cls, whitened: Array, known: Levels) -> LevelMixture:
        """From W (n, 3) and what was known before."""
        y, one, m = whitened.T
        n, ones = len(y), float(one @ one)
        found: list[tuple[float, float, float, float]] = []
        evidence: list[float] = []
        for scale in known.scales:
            wide, start = (known.offset_std / scale) ** 2, known.offset_mean / scale
            residual = y / scale - m - start * one
            along, square = float(one @ residual), float(residual @ residual)
            for level in known.levels:
                grown = 1.0 + wide * ones / level
                variance = wide / grown
                misfit = square / level - variance * (along / level) ** 2 + n * np.log(level) + np.log(grown)
                evidence.append(-0.5 * float(misfit) - n * float(np.log(scale)))
                found.append((float(scale), float(level), float(start + variance * along / level), float(variance)))
        weights = np.exp(np.array(evidence) - max(evidence))
        weights = np.where(weights < _NEGLIGIBLE, 0.0, weights)
        weights /= weights.sum()
        return cls(tuple(Part(float(w), *part) for w, part in zip(weights, found, strict=True) if w > 0.0))

    @property
    def likeliest(self) -> Part:
        return max(self.parts, key=lambda part: part.weight)

    def moments(self, spread: Array, means: Array, variances: Array) -> tuple[Array, Array]:
        """Mean and standard deviation (P,) of targets.

        Parameters
        ----------
        spread
            S, (3, P).
        means, variances
            m_* and σ_*², (P,); the noise is among the variances if it is to count.
        """
        y, one, m = spread
        rest, gap = 1.0 - one, means - m
        at = [part.scale * (part.offset * rest + gap) + y for part in self.parts]
        mean = np.zeros(len(means))
        for part, here in zip(self.parts, at, strict=True):
            mean += part.weight * here
        square = np.zeros(len(means))
        for part, here in zip(self.parts, at, strict=True):
            own = part.scale**2 * (part.level * variances + part.variance * rest**2)
            square += part.weight * (own + (here - mean) ** 2)
        return mean, np.sqrt(square)
