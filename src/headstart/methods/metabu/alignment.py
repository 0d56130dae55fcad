"""A linear map from meta-features to points, by fused Gromov-Wasserstein transport.

=======  =================  ==================================================================================
symbol   name in code       equation
=======  =================  ==================================================================================
x_i      features           (p, D) meta-features of tables, standardised; bootstraps of a table are rows too
u_j      targets            (n, d) points of the tasks
ψ        weights, bias      ψ(x) = x W + b
γ        plan               (p, n), sums 1/p along rows and 1/n along columns
α        alpha              share of the Gromov-Wasserstein term; 0 is the Wasserstein distance alone
λ        penalty            of the sum of all |W|
FGW      `fused_loss`       (1 - α) Σ γ_ij ‖ψ(x_i) - u_j‖
                            + α Σ γ_ij γ_kl (‖ψ(x_i) - ψ(x_k)‖ - ‖u_j - u_l‖)²       (equation 6.1)
=======  =================  ==================================================================================

Equation 6.1 with q = 1 has an absolute value where there is a square here: the solver that the thesis names (Xu et al.
2019), like POT's, factorises the square, which makes O(n³) of O(n⁴).

The thesis trains in turns: the plan for the map at hand, by ten proximal steps of five Sinkhorn iterations each, then a
step of Adam for the map with the plan held. Nothing in equation 6.2 says which x belongs to which u, and D is larger
than n: from a random start the map fits whatever pairs the first plan happens to have. Hence it starts here where a
ridge regression of the u on the x puts it. ``"matched"`` keeps the plan at the known pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from headstart.learning.adam import Adam

Array = NDArray[np.float64]
Coupling = Literal["matched", "fgw"]
LEARNING_RATE = 0.01
PROXIMAL_STEPS, SINKHORN_STEPS = 10, 5
_PROXIMAL = 0.1
"""Weight of the divergence from the plan before, in a proximal step."""
_TINY = 1e-300


@dataclass(frozen=True)
class Alignment:
    """A trained map, and the plan in the end."""

    weights: Array
    bias: Array
    plan: Array


def align(
    features: Array,
    targets: Array,
    owner: NDArray[np.int64],
    *,
    coupling: Coupling = "matched",
    alpha: float = 0.5,
    penalty: float = 1e-3,
    steps: int = 100,
) -> Alignment:
    """Train a map from features (p, D) to targets (n, d); row i of the features is of target ``owner[i]``."""
    p, n = len(features), len(targets)
    counts = np.bincount(owner, minlength=n)
    plan = np.zeros((p, n))
    plan[np.arange(p), owner] = 1.0 / (n * counts[owner])  # a task counts the same however many rows it has
    rows = plan.sum(axis=1)
    parameters = dict(zip(("weight", "bias"), _ridge(features, targets[owner], rows), strict=True))
    optimiser = Adam(parameters)
    for _ in range(steps):
        points = features @ parameters["weight"] + parameters["bias"]
        if coupling == "fgw":
            plan = transport_plan(points, targets, rows, alpha)
        _, slope = fused_loss(points, targets, plan, alpha)
        weight = features.T @ slope + penalty * np.sign(parameters["weight"])
        optimiser.step({"weight": weight, "bias": slope.sum(axis=0)}, LEARNING_RATE)
    if coupling == "fgw":
        points = features @ parameters["weight"] + parameters["bias"]
        plan = transport_plan(points, targets, rows, alpha)
    return Alignment(parameters["weight"], parameters["bias"], plan)


def _ridge(features: Array, targets: Array, rows: Array) -> tuple[Array, Array]:
    """Weights and bias of a ridge regression; the penalty is one for each unit of variance of a feature."""
    centre, height = rows @ features, rows @ targets
    apart = features - centre
    weighted = apart * rows[:, None]
    if len(features) < features.shape[1]:  # the smaller of two equal systems
        inner = apart @ weighted.T + np.eye(len(features))
        weights = weighted.T @ np.linalg.solve(inner, targets - height)
    else:
        inner = weighted.T @ apart + np.eye(features.shape[1])
        weights = np.linalg.solve(inner, weighted.T @ (targets - height))
    return weights, height - centre @ weights


def fused_loss(points: Array, targets: Array, plan: Array, alpha: float) -> tuple[float, Array]:
    """The loss of a plan, and its derivative by the points (p, d); the plan is held."""
    own, other, across = _distances(points, targets)
    rows, columns = plan.sum(axis=1), plan.sum(axis=0)
    moved = plan @ other @ plan.T
    structure = rows @ own**2 @ rows + columns @ other**2 @ columns - 2.0 * float((own * moved).sum())
    loss = (1.0 - alpha) * float((plan * across).sum()) + alpha * float(structure)
    pull = (1.0 - alpha) * np.divide(plan, across, out=np.zeros_like(plan), where=across > 0)
    slope = pull.sum(axis=1)[:, None] * points - pull @ targets
    spread = 4.0 * alpha * np.divide(np.outer(rows, rows) * own - moved, own, out=np.zeros_like(own), where=own > 0)
    slope += spread.sum(axis=1)[:, None] * points - spread @ points
    return loss, slope


def transport_plan(
    points: Array,
    targets: Array,
    rows: Array,
    alpha: float,
    steps: int = PROXIMAL_STEPS,
    iterations: int = SINKHORN_STEPS,
) -> Array:
    """A plan (p, n) with a low loss: proximal steps from the product of the marginals (Xu et al. 2019, algorithm 2)."""
    own, other, across = _distances(points, targets)
    columns = np.full(len(targets), 1.0 / len(targets))
    plan = np.outer(rows, columns)
    fixed = (1.0 - alpha) * across + 2.0 * alpha * ((own**2 @ rows)[:, None] + other**2 @ columns)
    for _ in range(steps):
        cost = fixed - 4.0 * alpha * own @ plan @ other
        kernel = plan * np.exp((cost.min(axis=1, keepdims=True) - cost) / _PROXIMAL)
        left = np.ones(len(points))
        for _ in range(iterations):
            right = columns / np.maximum(left @ kernel, _TINY)
            left = rows / np.maximum(kernel @ right, _TINY)
        plan = left[:, None] * kernel * right
    return plan


def _distances(points: Array, targets: Array) -> tuple[Array, Array, Array]:
    from scipy.spatial.distance import cdist

    return cdist(points, points), cdist(targets, targets), cdist(points, targets)
