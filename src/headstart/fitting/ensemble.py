"""Greedy ensemble selection (Caruana et al., 2004): which predictions to average, and with what weights."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, check_positive

Array = NDArray[np.float64]


def select_ensemble(
    predictions: Sequence[Array],
    loss: Callable[[Array], float],
    *,
    steps: int = 50,
    max_members: int | None = None,
    deadline: float | None = None,
) -> Array:
    """Weights of the candidates in an averaged prediction, found by forward selection with replacement.

    Each step adds the candidate that makes the loss of the average lowest; a candidate may be added again, which raises
    its weight. The average is returned as it was at the step with the lowest loss.

    Parameters
    ----------
    predictions
        What each candidate predicts for the same rows, which none of them was trained on.
    loss
        Of an averaged prediction; lower is better.
    steps
        Most additions.
    max_members
        Most candidates with a weight.
    deadline
        Unix time at which the selection ends with what it has; at worst the first candidate, so have the best come
        first.

    Returns
    -------
    (len(predictions),) weights that sum to 1.

    Examples
    --------
    >>> truth = np.array([0.0, 1.0, 2.0])
    >>> high, low, wild = truth + 0.1, truth - 0.1, truth[::-1]
    >>> select_ensemble([high, wild, low], lambda p: float(np.square(p - truth).mean())).tolist()
    [0.5, 0.0, 0.5]
    """
    if not predictions:
        raise InvalidInput("an ensemble needs at least one candidate, got none")
    check_positive("steps", steps, whole=True)
    check_positive("max_members", max_members, whole=True)
    counts = np.zeros(len(predictions), dtype=np.int64)
    best_counts, best_loss = counts.copy(), np.inf
    total: Array = np.zeros_like(predictions[0])
    for step in range(1, steps + 1):
        losses = np.full(len(predictions), np.inf)
        full = max_members is not None and np.count_nonzero(counts) >= max_members
        for i in np.flatnonzero(counts).tolist() if full else range(len(predictions)):
            if (step > 1 or i > 0) and deadline is not None and time.time() >= deadline:
                break
            losses[i] = loss((total + predictions[i]) / step)
        else:
            chosen = int(np.argmin(np.where(np.isnan(losses), np.inf, losses)))
            counts[chosen] += 1
            total = total + predictions[chosen]
            if losses[chosen] < best_loss - _TINY:
                best_counts, best_loss = counts.copy(), losses[chosen]
            continue
        if step == 1:  # the best of those that were looked at
            best_counts[int(np.argmin(np.where(np.isnan(losses), np.inf, losses)))] = 1
        break
    if not best_counts.any():  # the loss is undefined for every one of them
        best_counts[0] = 1
    shares: Array = best_counts / best_counts.sum()
    return shares


_TINY = 1e-12
