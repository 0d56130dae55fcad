"""The networks of DMFBS, and what they are trained for.

Jomaa, Schmidt-Thieme & Grabocka (2021), "Hyperparameter optimization with differentiable metafeatures".

==========  ====================  ==============================================================================
symbol      name in code          equation
==========  ====================  ==============================================================================
λ           points                (k, L) features of pipelines
ℓ           targets               (k,) losses of one task, standardised
φ(D)        vectors               (K,) of a table: the output of an extractor (10), or fixed meta-features
ℓ̂(λ, D)     `predicted`           regressor of [φ(D), λ] (5, 11)
ŝ           `similarity`          exp(-‖φ(D) - φ(D')‖) (8)
f_SUR       `fit_loss`            mean over λ of (ℓ - ℓ̂(λ, D))² (6)
f_MR        `manifold_loss`       ŝ(D, D') · mean over λ of (ℓ̂(λ, D) - ℓ̂(λ, D'))² (7, 9)
f_DBI       `identity_loss`       -ln ŝ(D_1, D_2) - ln(1 - ŝ(D_1, D')) of batches D_1, D_2 of one table
α_MR        manifold
α_DBI       identification
f           `objective`           f_SUR + α_MR f_MR + α_DBI f_DBI (12)
==========  ====================  ==============================================================================

The regressor has the layers of table 1, with one output after them. Sums over observations are means here, so that
weights do not depend on the size of a batch. The paper prints f_DBI without its minus, and in Algorithm 2 draws the
pipeline of the other table independently, although by equation 9 only equal pipelines count: here both tables get
the same ones. Losses of the other table are not needed, since f_MR compares predictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.learning.backend import require_torch
from headstart.learning.networks import MLP, Parameters
from headstart.metafeatures.base import TableNetwork
from headstart.metafeatures.set_networks import distance, identification_loss

Array = NDArray[np.float64]

UNITS = (128, 64, 32, 16, 16, 16, 16, 16)
"""Of the regressor's hidden layers: ψ_1, then ψ_2 of table 1."""


def regressor(vector: int, features: int) -> MLP:
    """ℓ̂ of K + L numbers."""
    return MLP("regressor", (vector + features, *UNITS, 1))


def predicted(network: MLP, parameters: Mapping[str, Array], vector: Array, points: Array) -> Array:
    """ℓ̂ (n,) of pipelines (n, L) on a table that is described by a vector (K,)."""
    return np.asarray(network(parameters, joined(vector, points))[:, 0])


def joined(vector: Array, points: Array) -> Array:
    """Inputs (n, K + L) of the regressor."""
    return np.concatenate([np.broadcast_to(vector, (len(points), len(vector))), points], axis=1)


def similarity(one: Array, other: Array) -> float:
    """ŝ of two vectors."""
    return float(np.exp(-np.linalg.norm(one - other)))


def regressor_gradient(
    network: MLP, parameters: Parameters, vector: Array, points: Array, targets: Array, other: Array, manifold: float
) -> Parameters:
    """Derivatives of f_SUR + α_MR f_MR by the regressor's parameters; vectors stay as they are. Needs no torch.

    Parameters
    ----------
    network, parameters
        The regressor.
    vector, other
        (K,) of the table at hand and of another one.
    points, targets
        (k, L) and (k,), of the table at hand.
    manifold
        α_MR.
    """
    k = len(points)
    outputs, pullback = network.with_pullback(
        parameters, np.concatenate([joined(vector, points), joined(other, points)])
    )
    here, there = outputs[:k], outputs[k:]
    apart = manifold * similarity(vector, other) * (here - there)
    upstream = np.concatenate([here - targets[:, None] + apart, -apart]) * (2.0 / k)
    return pullback(upstream)[0]


def objective(
    network: MLP,
    tensors: Mapping[str, Any],
    vectors: Any,
    points: Array,
    targets: Array,
    manifold: float,
    identification: float,
) -> Any:
    """f, a scalar tensor.

    Parameters
    ----------
    network, tensors
        The regressor, and its parameters among others.
    vectors
        (3, K): of two batches of the table at hand, and of one of another table.
    points, targets, manifold, identification
        See the notation.
    """
    torch = require_torch("training of DMFBS")
    inputs = torch.from_numpy(np.ascontiguousarray(points))
    pairs = [torch.cat([vectors[i].expand(len(points), -1), inputs], dim=1) for i in (0, 2)]
    outputs = network(tensors, torch.stack(pairs))[..., 0]
    total = fit_loss(outputs[0], torch.from_numpy(targets))
    if manifold:
        total = total + manifold * manifold_loss(vectors[0], vectors[2], outputs[0], outputs[1])
    if identification:
        total = total + identification * identity_loss(vectors)
    return total


def fit_loss(outputs: Any, targets: Any) -> Any:
    """f_SUR of tensors (k,)."""
    return ((outputs - targets) ** 2).mean()


def manifold_loss(one: Any, other: Any, here: Any, there: Any) -> Any:
    """f_MR of vectors (K,) of two tables, and predictions (k,) on them for the same pipelines."""
    return (-distance(one, other)).exp() * ((here - there) ** 2).mean()


def identity_loss(vectors: Any) -> Any:
    """f_DBI of vectors (3, K): two batches of one table, and one of another."""
    torch = require_torch("training of DMFBS")
    apart = distance(vectors[:1].expand(2, -1), vectors[1:])
    return identification_loss(apart, torch.tensor([True, False])).sum()


def full_gradient(
    extractor: TableNetwork,
    network: MLP,
    parameters: Parameters,
    batches: Sequence[Any],
    points: Array,
    targets: Array,
    manifold: float,
    identification: float,
) -> Parameters:
    """Derivatives of f by all parameters: `batches` are two of the table at hand, and one of another table."""
    torch = require_torch("training of DMFBS")
    tensors = {name: torch.from_numpy(value).requires_grad_() for name, value in parameters.items()}
    loss = objective(network, tensors, extractor(tensors, batches), points, targets, manifold, identification)
    found = torch.autograd.grad(loss, list(tensors.values()), allow_unused=True)
    return {name: slope.numpy() for name, slope in zip(tensors, found, strict=True) if slope is not None}
