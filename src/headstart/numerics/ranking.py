"""How well the predictions of many models rank what was observed.

==========  ================  ============================================================================
symbol      name in code      equation
==========  ================  ============================================================================
y_j         targets           n observations
f_tj        predicted         what model t of T predicts for them
D_tjk       discordant        for y_j < y_k: 1 if f_tj > f_tk, ½ if they are equal, else 0; 0 unless y_j < y_k
N           pairs             number of pairs with y_j < y_k
δ_t         share             Σ_jk D_tjk / N, 0 for the same order, 1 for the opposite one
m_ij        left_out          what a model that saw all observations but i predicts for observation j
D'_jk                         for y_j < y_k: mean of [m_jj against m_jk] and [m_kj against m_kk], as f in D_tjk
c_sj        counts            how often observation j is drawn in bootstrap sample s
ℓ_ts        loss              Σ_jk c_sj c_sk D_tjk
==========  ================  ============================================================================

A pair of equal targets says nothing about an order and does not count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headstart.numerics.kernels import Array
from headstart.numerics.threads import one_blas_thread

_MOST_ELEMENTS = 1 << 21
"""Of one block of pairs: memory stays bounded however many models there are."""


def discordant_share(predicted: Array, targets: Array) -> Array:
    """δ, shape ``(T,)``, of predictions ``(T, n)`` for targets ``(n,)``; ½ where no pair of targets differs."""
    ordered = targets[:, None] < targets
    pairs = int(ordered.sum())
    share = np.full(len(predicted), 0.5)
    if pairs:
        for block in _blocks(len(predicted), ordered.size):
            share[block] = _discordant(predicted[block], ordered).sum(axis=(1, 2), dtype=np.float64) / pairs
    return share


def bootstrap_losses(predicted: Array, targets: Array, counts: NDArray[np.integer]) -> Array:
    """ℓ, shape ``(T, S)``, of predictions ``(T, n)`` for targets ``(n,)`` under samples with counts ``(S, n)``."""
    ordered = targets[:, None] < targets
    drawn = counts.astype(np.float32)
    losses = np.zeros((len(predicted), len(counts)))
    for block in _blocks(len(predicted), max(ordered.size, drawn.size)):
        losses[block] = _drawn_losses(_discordant(predicted[block], ordered), drawn)
    return losses


def left_out_losses(left_out: Array, targets: Array, counts: NDArray[np.integer]) -> Array:
    """The same, ``(S,)``, for a model that learned from these targets, by its leave-one-out predictions ``(n, n)``.

    Comparing the predictions for observations that were left out with each other, m_jj with m_kk, would call a model
    without any skill the worst of all: the mean of all others is the lower the higher an observation is.
    """
    ordered = targets[:, None] < targets
    own = np.diagonal(left_out)
    discordant = _compared(own[:, None], left_out) + _compared(left_out.T, own)
    discordant *= np.float32(0.5) * ordered
    return np.asarray(_drawn_losses(discordant[None], counts.astype(np.float32))[0])


def _drawn_losses(discordant: NDArray[np.float32], drawn: NDArray[np.float32]) -> Array:
    """Shape ``(b, S)``. Multiples of ¼ far below 2²²: single precision is exact."""
    with one_blas_thread():
        reached = np.matmul(drawn, discordant)
    reached *= drawn
    return np.asarray(reached.sum(axis=2), dtype=np.float64)


def _discordant(predicted: Array, ordered: NDArray[np.bool_]) -> NDArray[np.float32]:
    """D of a block of models, shape ``(b, n, n)``."""
    discordant = _compared(predicted[:, :, None], predicted[:, None, :])
    discordant *= ordered
    return discordant


def _compared(left: Array, right: Array) -> NDArray[np.float32]:
    """1 where left is above right, ½ where they are equal, else 0."""
    discordant = (left > right).astype(np.float32)
    discordant += np.float32(0.5) * (left == right)
    return discordant


def _blocks(models: int, elements: int) -> list[slice]:
    rows = max(1, _MOST_ELEMENTS // max(1, elements))
    return [slice(start, start + rows) for start in range(0, models, rows)]
