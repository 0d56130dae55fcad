"""Expected improvement and its companions, in logarithms.

Losses are minimised. Expected improvement itself underflows to 0 some 38 standard deviations from the best loss, which
leaves an optimiser nothing to compare; its logarithm does not.

=======  ===================  ==================================================================================
symbol   name in code         equation
=======  ===================  ==================================================================================
μ, σ     mean, std            the surrogate's prediction
f*       best                 lowest loss so far, or what is to be beaten
Δ        gain                 Δ = f* - μ
z        standardised         z = Δ / σ
φ, Φ                          density and distribution function of the standard normal
h        log_h                h(z) = φ(z) + z Φ(z)
EI       expected_...         EI = E max(0, f* - f) = σ h(z);  for σ = 0: max(0, Δ)
M        erfcx                Mills ratio, M(t) = Φ(-t) / φ(t) = √(π/2) erfcx(t/√2)
c        fraction             M(t) = 1 / (t + c(t)),  c(t) = 1/(t + 2/(t + 3/(t + …)))
PF       log_probability_...  Φ((limit - μ) / σ)
=======  ===================  ==================================================================================

For z = -t < 0: h = φ(t) (1 - t M(t)). The bracket loses all its digits as t grows, since it falls like 1/t². In terms
of the continued fraction it is c / (t + c), where nothing cancels.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import erfcx, log_ndtr, ndtr

from headstart.errors import InvalidInput

Array = NDArray[np.float64]

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_INVERSE_ROOT_TWO_PI = 1.0 / math.sqrt(2.0 * math.pi)
_ROOT_HALF_PI = math.sqrt(0.5 * math.pi)

_DIRECT_ABOVE = -1.0
_FRACTION_BELOW = -6.0
_FRACTION_TERMS = 24
"""Enough for full precision from `_FRACTION_BELOW` on."""

_CERTAIN_ABOVE = 40.0
"""Beyond this h(z) = z in double precision, and EI = Δ whatever σ is."""


def log_h(z: ArrayLike) -> Array:
    """log(φ(z) + z Φ(z)), to about machine precision relative to max(1, |result|), any shape.

    It is -∞ only where z²/2 is not representable, below about -1.3e154.
    """
    z = np.asarray(z, dtype=np.float64)
    flat = z.ravel()
    result = np.full(flat.shape, np.nan)

    direct = flat > _DIRECT_ABOVE
    at = flat[direct]
    result[direct] = np.log(_INVERSE_ROOT_TWO_PI * np.exp(-0.5 * np.minimum(at, _CERTAIN_ABOVE) ** 2) + at * ndtr(at))

    middle = (flat <= _DIRECT_ABOVE) & (flat > _FRACTION_BELOW)
    distance = -flat[middle]
    mills = _ROOT_HALF_PI * erfcx(distance / math.sqrt(2.0))
    result[middle] = np.log1p(-distance * mills) - 0.5 * distance**2 - _HALF_LOG_TWO_PI

    far = flat <= _FRACTION_BELOW
    distance = -flat[far]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        tail = distance.copy()
        for term in range(_FRACTION_TERMS, 1, -1):
            tail = distance + term / tail
        # c/(t + c) with c = 1/tail
        result[far] = -np.log(distance * tail + 1.0) - 0.5 * distance**2 - _HALF_LOG_TWO_PI
    return result.reshape(z.shape)


def log_expected_improvement(mean: ArrayLike, std: ArrayLike, best: ArrayLike) -> Array:
    """Logarithm of the expected improvement below `best`.

    Parameters
    ----------
    mean, std, best
        Prediction and lowest loss so far; shapes broadcast, usually ``(m,)``, ``(m,)`` and scalar. A `std` of 0 is
        exact: the result is log max(0, best - mean).

    Returns
    -------
    log_improvement
        The broadcast shape; -∞ where no improvement is possible, that is for ``std == 0`` only.
    """
    mean, std, best = np.broadcast_arrays(
        np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64), np.asarray(best, dtype=np.float64)
    )
    _require_not_negative(std)
    gain = best - mean
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        certain = gain > _CERTAIN_ABOVE * std
        log_gain = np.log(np.maximum(gain, 0.0))
        uncertain = log_h(np.where(std > 0.0, gain / std, -np.inf)) + np.log(std)
    result = np.where(certain | (std == 0.0), log_gain, uncertain)
    return np.asarray(np.where(np.isnan(mean) | np.isnan(std), np.nan, result))


def log_probability_of_feasibility(mean: ArrayLike, std: ArrayLike, limit: ArrayLike) -> Array:
    """Logarithm of the probability that a constraint's value stays at or below `limit`; shapes broadcast.

    With ``std == 0`` it is 0 where the mean is at or below the limit, else -∞.
    """
    mean, std, limit = np.broadcast_arrays(
        np.asarray(mean, dtype=np.float64), np.asarray(std, dtype=np.float64), np.asarray(limit, dtype=np.float64)
    )
    _require_not_negative(std)
    slack = limit - mean
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        standardised = np.where(std == 0.0, np.where(slack >= 0.0, np.inf, -np.inf), slack / std)
    return np.asarray(np.where(np.isnan(slack), np.nan, log_ndtr(standardised)))


def _require_not_negative(std: Array) -> None:
    if (std < 0.0).any():
        raise InvalidInput(f"std must be at least 0, its smallest value is {std.min()}")
