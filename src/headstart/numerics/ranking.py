"""How well the predictions of many models rank what was observed.

==========  ================  ============================================================================
symbol      name in code      equation
==========  ================  ============================================================================
y_j         targets           n observations
f_tj        predicted         what model t of T predicts for them
D_tjk       discordant        for y_j < y_k: 1 if f_tj > f_tk, ½ if they are equal, else 0; 0 unless y_j < y_k
N           pairs             number of pairs with y_j < y_k
δ_t         share             Σ_jk D_tjk / N, 0 for the same order, 1 for the opposite one
c_sj        counts            how often observation j is drawn in bootstrap sample s
ℓ_ts        loss              Σ_jk c_sj c_sk D_tjk
==========  ================  ============================================================================

A pair of equal targets says nothing about an order and does not count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headstart.numerics.kernels import Array

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
        # Whole and half numbers far below 2²⁴: single precision is exact.
        reached = np.matmul(drawn, _discordant(predicted[block], ordered))
        reached *= drawn
        losses[block] = reached.sum(axis=2)
    return losses


def _discordant(predicted: Array, ordered: NDArray[np.bool_]) -> NDArray[np.float32]:
    """D of a block of models, shape ``(b, n, n)``."""
    left, right = predicted[:, :, None], predicted[:, None, :]
    discordant = (left > right).astype(np.float32)
    discordant += 0.5 * (left == right).astype(np.float32)
    discordant *= ordered
    return discordant


def _blocks(models: int, elements: int) -> list[slice]:
    rows = max(1, _MOST_ELEMENTS // max(1, elements))
    return [slice(start, start + rows) for start in range(0, models, rows)]
