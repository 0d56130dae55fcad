"""Assigning rows to folds: stratified, grouped, by time. Arrays in, arrays out.

`fold_of` arrays hold for each row the number of the fold that validates it, or -1 for a row that is always trained on.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int64]
Pair = tuple[Rows, Rows]


def stratified_folds(strata: Rows, folds: int, rng: np.random.Generator) -> Rows:
    """Folds with nearly equal numbers of rows of each stratum and in total.

    Each stratum is dealt out in random order, one after another without starting anew, so the rows of a stratum that
    is smaller than the number of folds go to different folds. A stratum of one row is always trained on.
    """
    shuffled = rng.permutation(len(strata))
    order = shuffled[np.argsort(strata[shuffled], kind="stable")]
    single = (np.bincount(strata) == 1)[strata[order]]
    fold_of = np.full(len(strata), -1, dtype=np.int64)
    dealt = order[~single]
    fold_of[dealt] = np.arange(len(dealt)) % folds
    return fold_of


def stratified_share(strata: Rows, share: float, rng: np.random.Generator) -> Rows:
    """Fold 0 holds about `share` of each stratum, -1 the rest; a stratum of one row is never in fold 0."""
    fold_of = np.full(len(strata), -1, dtype=np.int64)
    counts = np.bincount(strata)
    position = _position_in_stratum(strata, rng.permutation(len(strata)))
    wanted = np.clip(np.rint(share * counts), 1, np.maximum(counts - 1, 0))
    fold_of[position < wanted[strata]] = 0
    return fold_of


def grouped_folds(strata: Rows, group_of: Rows, sizes: NDArray[np.float64], rng: np.random.Generator) -> Rows:
    """Folds made of whole groups, whose mix of strata resembles the whole.

    Groups go, the largest first, to the fold where they raise the sum of squared (relative) stratum counts least.

    Parameters
    ----------
    strata
        Stratum of each row, from 0.
    group_of
        Group of each row, from 0.
    sizes
        Relative size of each fold.
    rng
        Decides among groups of equal size.
    """
    n_groups, n_strata = int(group_of.max()) + 1, int(strata.max()) + 1
    counts = np.bincount(group_of * n_strata + strata, minlength=n_groups * n_strata).reshape(n_groups, n_strata)
    relative = counts / np.maximum(counts.sum(axis=0), 1)
    shuffled = rng.permutation(n_groups)
    order = shuffled[np.argsort(-counts[shuffled].sum(axis=1), kind="stable")]
    filled = np.zeros((len(sizes), n_strata))
    fold_of_group = np.empty(n_groups, dtype=np.int64)
    for group in order:
        # Squares are of counts relative to a fold's size, so that a large fold fills faster.
        rise = (2 * filled @ relative[group] + relative[group] @ relative[group]) / sizes
        fold = int(np.argmin(rise))
        fold_of_group[group] = fold
        filled[fold] += relative[group]
    return fold_of_group[group_of]


def time_pairs(times: NDArray[Any], cuts: list[float]) -> list[Pair]:
    """Training rows strictly before validation rows, for each pair of neighbouring cuts.

    Parameters
    ----------
    times
        When each row was.
    cuts
        Rising shares of the rows: pair i trains on what is before cut i and validates what is between cuts i and i+1.
        A cut moves to the nearest change of time, so that rows of one moment stay on one side.
    """
    moments, of_row = np.unique(times, return_inverse=True)
    before = np.concatenate([[0], np.cumsum(np.bincount(of_row, minlength=len(moments)))])  # rows before each moment
    nearest = [int(np.argmin(np.abs(before - cut * len(times)))) for cut in cuts]
    # The latest moment may hold so many rows that the nearest change is the end: it still validates.
    edges = [min(max(edge, 1), len(moments) - 1) for edge in nearest[:-1]] + nearest[-1:]
    pairs = []
    for start, end in pairwise(edges):
        train, valid = np.flatnonzero(of_row < start), np.flatnonzero((of_row >= start) & (of_row < end))
        if len(train) and len(valid):
            pairs.append((train.astype(np.int64), valid.astype(np.int64)))
    return pairs


def nested_subset(rows: Rows, strata: Rows, share: float, priority: Rows, least: int = 2) -> Rows:
    """Part of `rows`: the first ones of each stratum by `priority`.

    The number taken of a stratum grows with `share` alone, so a smaller share is a subset of a larger one.

    Parameters
    ----------
    rows
        Sorted positions.
    strata, priority
        Stratum and rank of every row of the table.
    share
        Above 0, at most 1.
    least
        Rows of a stratum that are taken in any case, where it has them.
    """
    own = strata[rows]
    counts = np.bincount(own)
    wanted = np.maximum(np.ceil(share * counts - 1e-9), np.minimum(counts, least))
    taken: Rows = rows[_position_in_stratum(own, priority[rows]) < wanted[own]]
    return taken


def stratified_part(strata: Rows, size: int, rng: np.random.Generator, least: int = 2) -> Rows:
    """About `size` rows, sorted, with the same share of each stratum, and `least` rows of it where it has them."""
    shuffled = rng.permutation(len(strata))
    kind = np.int16 if strata.max() < 2**15 else np.int64  # the former is sorted much faster
    order = shuffled[np.argsort(strata[shuffled].astype(kind), kind="stable")]
    counts = np.bincount(strata)
    wanted = np.maximum(np.rint(counts * (size / len(strata))), np.minimum(counts, least)).astype(np.int64)
    starts = np.cumsum(counts) - counts
    return np.sort(np.concatenate([order[s : s + n] for s, n in zip(starts, wanted, strict=True)]))


def _position_in_stratum(strata: Rows, priority: Rows) -> Rows:
    """For each row, how many of its stratum come before it by priority."""
    order = np.lexsort((priority, strata))
    ordered = strata[order]
    starts = np.concatenate([[0], np.cumsum(np.bincount(strata))])[ordered]
    position = np.empty(len(strata), dtype=np.int64)
    position[order] = np.arange(len(strata)) - starts
    return position
