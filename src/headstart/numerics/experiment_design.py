"""Which rows of a factor matrix to observe so that the least-squares solution is known best: D-optimal designs.

=========  ============  ============================================================================
symbol     name in code  equation
=========  ============  ============================================================================
y_j        factors       rows of a C × k matrix
I          information   k × k, Σ y_j y_jᵀ over what is observed already
c_j        costs         of observing row j
B          budget        Σ c_j over the chosen rows is at most B
h_j        leverage      y_jᵀ I⁻¹ y_j; log det(I + y_j y_jᵀ) - log det I = log(1 + h_j)
v_j        shares        relaxed choice in [0, 1]: max log det(I + Σ v_j y_j y_jᵀ), Σ c_j v_j ≤ B
ε                        added to the diagonal, relative to the trace of Σ y_j y_jᵀ / C, so that
                         fewer observations than factors can be compared
=========  ============  ============================================================================
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

_RIDGE = 1e-6
_RELAXED_ROWS = 1000
_RELAXED_STEPS = 100
_LEAST_SHARE = 1e-3


def information(factors: Array, observed: Rows) -> Array:
    """I of the observed rows, with ε on its diagonal."""
    rows = factors[observed]
    k = factors.shape[1]
    ridge = _RIDGE * float(np.einsum("ij,ij->", factors, factors)) / max(1, len(factors) * k)
    return np.asarray(rows.T @ rows + max(ridge, np.finfo(float).tiny) * np.eye(k))


def leverages(factors: Array, known: Array) -> Array:
    """h_j of all rows under the information `known`."""
    solved = cho_solve(cho_factor(known), np.eye(len(known)))
    return np.asarray(np.einsum("ij,ij->i", factors @ solved, factors))


def greedy_design(factors: Array, known: Array, costs: Array, budget: float, allowed: NDArray[np.bool_]) -> list[int]:
    """Rows in the order a greedy design takes them: always the largest log(1 + h_j) / c_j that the budget allows."""
    inverse = cho_solve(cho_factor(known), np.eye(len(known)))
    leverage = np.einsum("ij,ij->i", factors @ inverse, factors)
    open_ = allowed.copy()
    chosen: list[int] = []
    while True:
        open_ &= costs <= budget + 1e-9
        if not open_.any():
            return chosen
        score = np.where(open_, np.log1p(np.maximum(leverage, 0.0)) / costs, -np.inf)
        j = int(score.argmax())
        chosen.append(j)
        open_[j] = False
        budget -= float(costs[j])
        direction = inverse @ factors[j]
        scale = 1.0 + float(factors[j] @ direction)
        leverage = leverage - (factors @ direction) ** 2 / scale
        inverse = inverse - np.outer(direction, direction) / scale


def relaxed_shares(factors: Array, known: Array, costs: Array, budget: float, steps: int = _RELAXED_STEPS) -> Array:
    """v of the relaxed problem, by conditional gradients: each step moves toward the best vertex of the polytope.

    The gradient with respect to v_j is h_j; the vertex that it favours most holds the rows of the largest h_j / c_j
    until the budget is full, the last of them in part. The step is found on a grid that is finer near 0.
    """
    shares = np.zeros(len(factors))
    sizes = np.concatenate([np.geomspace(1e-3, 0.5, 12), [0.75, 1.0]])
    for _ in range(steps):
        current = known + (factors * shares[:, None]).T @ factors
        gradient = leverages(factors, current)
        vertex = _fill(gradient / costs, costs, budget)
        toward = (factors * (vertex - shares)[:, None]).T @ factors
        if float(gradient @ (vertex - shares)) <= 1e-6 * len(known):
            break
        values = [np.linalg.slogdet(current + size * toward)[1] for size in sizes]
        best = int(np.argmax(values))
        if values[best] <= np.linalg.slogdet(current)[1]:
            break
        shares += sizes[best] * (vertex - shares)
    return shares


def relaxed_design(factors: Array, known: Array, costs: Array, budget: float, allowed: NDArray[np.bool_]) -> list[int]:
    """Rows of the relaxed design, rounded: greedily from those that have a share in it, then from the others.

    The largest shares themselves would not do: rows that are nearly equal divide what one of them would have. Of many
    rows only those of the largest leverage for their cost take part.
    """
    open_ = np.flatnonzero(allowed & (costs <= budget + 1e-9))
    if not len(open_):
        return []
    leverage = leverages(factors[open_], known) / costs[open_]
    part = open_[np.argsort(-leverage, kind="stable")[:_RELAXED_ROWS]]
    shares = relaxed_shares(factors[part], known, costs[part], budget)
    support = np.zeros(len(factors), dtype=bool)
    support[part[shares > _LEAST_SHARE]] = True
    chosen = greedy_design(factors, known, costs, budget, support)
    rest = allowed & ~support
    grown = known + factors[chosen].T @ factors[chosen]
    return chosen + greedy_design(factors, grown, costs, budget - float(costs[chosen].sum()), rest)


def _fill(value: Array, costs: Array, budget: float) -> Array:
    """Shares that fill the budget in the order of `value`, the last one in part."""
    order = np.argsort(-value, kind="stable")
    spent = np.cumsum(costs[order])
    shares = np.zeros(len(value))
    shares[order] = np.clip((budget - (spent - costs[order])) / costs[order], 0.0, 1.0)
    return shares
