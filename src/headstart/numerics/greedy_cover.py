"""A few columns of which, on every row, at least one is low: greedy, lazy, exact.

=========  ============  ======================================================================
symbol     name in code  equation
=========  ============  ======================================================================
z          losses        z_pt in [0, 1], loss of item p on task t; missing ones count as 1
b          best          b_t = min over the items taken so far of z_pt, 1 before the first
g          gains         g_p = Σ_t w_t max(0, b_t - z_pt)
=========  ============  ======================================================================

Each step takes the item with the largest gain. A gain never grows while items are taken (b only falls), so the one
computed last is an upper bound, and only items whose bound exceeds the best gain found are looked at again: a few
hundred of tens of thousands for each step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Single = NDArray[np.float32]
Float = NDArray[np.floating[Any]]

_BLOCK = 128
_LEAST_GAIN = 1e-6
"""Summed over tasks; losses in single precision differ by rounding below it."""


def gains(losses: Single, best: Float, weights: Float) -> Array:
    """Weighted lowering of `best` (T,) by each item of `losses` (P, T); (P,).

    Works in blocks that stay in cache, in the precision of `best` and `weights`.
    """
    result = np.empty(len(losses))
    rows = max(1, (1 << 16) // max(1, losses.shape[1]))
    buffer = np.empty((rows, losses.shape[1]), dtype=best.dtype)
    for start in range(0, len(losses), rows):
        block = losses[start : start + rows]
        lowering = np.subtract(best, block, out=buffer[: len(block)])
        np.maximum(lowering, 0.0, out=lowering)
        result[start : start + rows] = lowering @ weights
    return result


def greedy_cover(losses: Single, size: int) -> NDArray[np.int64]:
    """Items (at most `size`) in the order a greedy cover takes them; ends early when none lowers anything any more.

    Parameters
    ----------
    losses
        (P, T) in [0, 1], no NaN.
    size
        Most items to take.

    Of equal gains the item with the lower mean loss is taken, then the one that comes first.
    """
    n_items, n_tasks = losses.shape
    weights = np.ones(n_tasks, dtype=np.float64)
    best = np.ones(n_tasks, dtype=np.float64)
    bounds = gains(losses, best, weights)
    first = np.argsort(-bounds, kind="stable")  # the gains of the first step are the means, and break ties later
    losses, bounds = losses[first], bounds[first]
    taken: list[int] = []
    while len(taken) < min(size, n_items):
        order = np.argsort(-bounds, kind="stable")
        leader, gain = -1, _LEAST_GAIN
        for start in range(0, n_items, _BLOCK):
            block = order[start : start + _BLOCK]
            block = block[bounds[block] >= gain]
            if not len(block):
                break
            bounds[block] = gains(losses[block], best, weights)
            top = bounds[block].max()
            if top >= gain:
                place = int(block[bounds[block] == top].min())
                leader, gain = (min(place, leader) if top == gain and leader >= 0 else place), top
        if leader < 0:
            break
        taken.append(leader)
        best = np.minimum(best, losses[leader])
        bounds[leader] = -np.inf
    return first[np.array(taken, dtype=np.int64)]


class CoverGains:
    """Weighted gains on top of what is taken already, for weights that change from step to step.

    Cells above the best of their task gain nothing whatever the weights, and the more is taken the fewer are left.
    They are kept as a list, which shrinks; each sum is taken in the order of the tasks, so that cells which are no
    longer there make no difference to the last bit.

    Parameters
    ----------
    losses
        (P, T) in [0, 1], no NaN; not copied.
    """

    def __init__(self, losses: Single) -> None:
        self._losses = losses
        self._best: Array | None = None
        self._items = self._tasks = np.zeros(0, dtype=np.int32)
        self._cells = np.zeros(0, dtype=np.float32)

    def __call__(self, taken: NDArray[np.int64], weights: Array) -> Array:
        """g_p of all items with the items `taken`; (P,)."""
        best = self._losses[taken].min(axis=0, initial=1.0).astype(np.float64)
        if self._best is None or (best > self._best).any():
            self._list(best)
        elif (best < self._best).any():
            below = self._cells < best[self._tasks]
            self._items, self._tasks, self._cells = self._items[below], self._tasks[below], self._cells[below]
        self._best = best
        lowering = weights[self._tasks] * (best[self._tasks] - self._cells)
        # Without a single cell left it would count in whole numbers.
        return np.bincount(self._items, weights=lowering, minlength=len(self._losses)).astype(np.float64)

    def totals(self, weights: Array) -> Array:
        """Σ_t w_t z_pt of all items; (P,)."""
        return np.asarray(self._losses @ weights.astype(np.float32), dtype=np.float64)

    def _list(self, best: Array) -> None:
        """List the cells below the best of their task, item by item."""
        parts = []
        rows = max(1, (1 << 18) // max(1, self._losses.shape[1]))
        for start in range(0, len(self._losses), rows):
            block = self._losses[start : start + rows]
            items, tasks = np.nonzero(block < best)
            parts.append(((items + start).astype(np.int32), tasks.astype(np.int32), block[items, tasks]))
        self._items = np.concatenate([items for items, _, _ in parts]) if parts else self._items[:0]
        self._tasks = np.concatenate([tasks for _, tasks, _ in parts]) if parts else self._tasks[:0]
        self._cells = np.concatenate([cells for _, _, cells in parts]) if parts else self._cells[:0]
