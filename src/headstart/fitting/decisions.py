"""`Decisions`: calibration of probabilities, and which class they speak for.

Both are learned from predictions for rows that the models had not seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Decisions:
    """How probabilities are calibrated and classes chosen.

    Parameters
    ----------
    temperature
        Logarithms of probabilities are divided by it (Guo et al., 2017): above 1 makes them less sure.
    factors
        Probabilities are multiplied by them before the largest is taken; None to take it as it is.
    folds
        Into how many parts the models of a member are divided, model i belonging to part i modulo `folds`. The
        temperature is learned from predictions of one such part, which is what saw neither of a fold's rows; so parts
        are averaged as logarithms. A mean of calibrated probabilities is less sure than it should be (Ranjan and
        Gneiting, 2010); the normalised geometric mean has at most the mean of the parts' log losses, row by row.
    """

    temperature: float = 1.0
    factors: tuple[float, ...] | None = None
    folds: int = 1

    def calibrated(self, *parts: Array) -> Array:
        """Calibrated probabilities (n, classes) of those of each part."""
        if self.temperature == 1.0 and len(parts) == 1:
            return parts[0]
        logs = np.mean([np.log(np.clip(part, _SMALL, 1.0)) for part in parts], axis=0) / self.temperature
        raised = np.exp(logs - logs.max(axis=1, keepdims=True))
        scaled: Array = raised / raised.sum(axis=1, keepdims=True)
        return scaled

    def judged(self, probabilities: Array) -> Array:
        """Calibrated probabilities, weighted so that the largest one is the class that is chosen; rows sum to 1."""
        if self.factors is None:
            return probabilities
        weighted = probabilities * np.array(self.factors)
        shares: Array = weighted / weighted.sum(axis=1, keepdims=True)
        return shares

    def choose(self, probabilities: Array) -> NDArray[np.int64]:
        """Position of the class of each row."""
        weighted = probabilities if self.factors is None else probabilities * np.array(self.factors)
        chosen: NDArray[np.int64] = weighted.argmax(axis=1)
        return chosen


_SMALL = 1e-15


def fit_temperature(probabilities: Array, loss: Callable[[Array], float]) -> float:
    """The temperature with the lowest loss of the calibrated probabilities, between 1/20 and 20; 1 if none is lower."""

    def at(log_temperature: float) -> float:
        return loss(Decisions(float(np.exp(log_temperature))).calibrated(probabilities))

    best = minimize_scalar(at, bounds=(-3.0, 3.0), method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x)) if best.fun < at(0.0) else 1.0


def fit_factors(
    probabilities: Array, loss: Callable[[Array], float], sweeps: int = 2, deadline: float | None = None
) -> tuple[float, ...] | None:
    """Factors of the classes with the lowest loss of the chosen labels, found one class at a time.

    About 400 sets of factors are tried, or ten for each class and sweep.

    Parameters
    ----------
    loss
        Of predictions that are 1 for the chosen class and 0 for the others.
    sweeps
        How many times each class has its turn.
    deadline
        Unix time at which the search ends with what it has.

    Returns
    -------
    The factors, or None where plain probabilities are as good.
    """
    k = probabilities.shape[1]
    factors = np.ones(k)

    def of(candidate: Array) -> float:
        return loss(np.eye(k)[(probabilities * candidate).argmax(axis=1)])

    plain = best = of(factors)
    for _ in range(sweeps if k > 2 else 1):
        for c in range(1 if k == 2 else 0, k):
            for value in _thresholds(probabilities, factors, c, 100 if k == 2 else max(10, 200 // k)):
                if deadline is not None and time.time() >= deadline:
                    return _normal(factors) if best < plain - 1e-12 else None
                candidate = factors.copy()
                candidate[c] = value
                if (found := of(candidate)) < best - 1e-12:
                    best, factors = found, candidate
    return _normal(factors) if best < plain - 1e-12 else None


def _normal(factors: Array) -> tuple[float, ...]:
    return tuple((factors / factors.sum() * len(factors)).tolist())


def _thresholds(probabilities: Array, factors: Array, c: int, most: int) -> Array:
    """Factors of class `c` at which the choice of some rows changes, at most so many of them."""
    weighted = probabilities * factors
    others = np.delete(weighted, c, axis=1).max(axis=1)
    changes = np.unique(others / np.clip(probabilities[:, c], 1e-12, None))
    changes = changes[(changes > 1e-3) & (changes < 1e3)]
    if len(changes) == 0:
        return changes
    between = np.sqrt(changes[:-1] * changes[1:]) if len(changes) > 1 else changes
    if len(between) > most:
        between = np.quantile(between, np.linspace(0, 1, most))
    found: Array = between
    return found
