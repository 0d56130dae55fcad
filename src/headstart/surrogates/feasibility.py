"""`Feasibility`: how probable it is that a pipeline satisfies the constraints of a task.

=========  ================  ==========================================================================================
symbol     name in code      meaning
=========  ================  ==========================================================================================
c_j(x)     values            measured value of constraint j, as a logarithm where all values and the bound are positive
b_j        bound             its bound, in the same unit
μ_j, σ_j   –                 prediction of a forest that has learned c_j from the trials
P(x)       log_probability   Π_j Φ((b_j - μ_j(x)) / σ_j(x)), in logarithms; constraints count as independent
=========  ================  ==========================================================================================

After Gardner et al. (2014), with forests, since what a pipeline costs depends first of all on its algorithms.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headstart.history import History
from headstart.numerics.expected_improvement import log_probability_of_feasibility
from headstart.numerics.forest import Forest
from headstart.space.encoded import Encoded

Array = NDArray[np.float64]

_INACTIVE = -1.0
_STD_FLOOR = 0.05
"""Least standard deviation, relative to that of all values: a few leaves that agree are not yet certain."""


class Feasibility:
    """How probable it is that pipelines satisfy the constraints of a history, learned from its trials.

    A value that is missing, because the trial failed or it was not measured, counts as the worst that was measured, and
    at least as much as the bound. Pending proposals count as the median.

    Parameters
    ----------
    history
        Trials with measured values, and its `constraints`, at least one.
    """

    def __init__(self, history: History) -> None:
        encoded = history.encoded
        waiting = len(history.pending)
        if waiting:
            encoded = Encoded.concatenate([encoded, history.waiting])
        features = encoded.features(_INACTIVE)
        self._models: list[tuple[Forest, float]] = []
        for constraint in history.constraints:
            if not np.isfinite(constraint.upper):
                continue  # always or never satisfied, whatever the pipeline
            measured = np.array([trial.outcome.constraints.get(constraint.name, np.nan) for trial in history])
            known = history.ok & np.isfinite(measured)
            values, bound = _in_log_units(measured[known], constraint.upper)
            filled = np.full(len(history) + waiting, np.max(values, initial=bound))
            filled[: len(history)][known] = values
            if waiting:
                filled[len(history) :] = np.median(filled[: len(history)]) if len(history) else bound
            self._models.append((Forest(min_samples_leaf=2, std_floor=_STD_FLOOR).fit(features, filled), bound))

    def log_probability(self, encoded: Encoded) -> Array:
        """Logarithm (n,) of the probability that all constraints hold."""
        features = encoded.features(_INACTIVE)
        total = np.zeros(len(encoded))
        for forest, bound in self._models:
            total += log_probability_of_feasibility(*forest.posterior(features), bound)
        return total


def _in_log_units(values: Array, bound: float) -> tuple[Array, float]:
    """Values (n,) and their bound, as logarithms if all are positive."""
    if bound > 0 and (values > 0).all():
        return np.log(values), float(np.log(bound))
    return values, bound
