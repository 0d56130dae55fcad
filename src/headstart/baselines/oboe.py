"""`Oboe`: low-rank factors of the errors of earlier tasks, and a design of what to observe on the new one.

=========  ==================  ==========================================================================
symbol     name in code        equation
=========  ==================  ==========================================================================
E          losses              tasks × pipelines, missing cells completed; E ≈ X Yᵀ
Y          _factors            (P, K), y_p = √T⁻¹ s ∘ v_p from the singular factors of E, so that the
                               rows of X have the identity as their second moment
k          rank                leading factors in use, max(1, n // observations_per_factor)
x          latent              argmin Σ_i (loss_i - xᵀ y_i)² over the n pipelines observed
                               predicted loss of p: xᵀ y_p
=========  ==================  ==========================================================================

A D-optimal design says which rows of a factor matrix to observe so that the least-squares solution is known best:

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

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from headstart.errors import InvalidInput, UnknownName, check_positive, suggestion
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.low_rank import LowRank, complete
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.recorded import Mask, RecordedOptimizer
from headstart.surrogates.recorded_gp import relative_to_tasks

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Design = Literal["relaxed", "greedy"]

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
    leverage = leverages(factors, known)
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


class Oboe(RecordedOptimizer):
    """Factorise the error matrix of earlier tasks, observe what tells most about the new one, try the predicted best
    (Yang et al., KDD 2019).

    After Yang et al. (2019). What was decided:

    - The losses are factorised as they are. Missing cells are completed by repeated truncated singular value
      decompositions (`headstart.numerics.low_rank`).
    - A run goes in rounds, each twice as long as the one before. The first `design_share` of a round is spent on an
      experiment design: the pipelines of which the observation would make the latent vector of the task known best
      (D-optimality, given everything observed or under way when the round began). For the rest of it the pipeline with
      the lowest prediction is tried, with the latent vector fitted anew each time.
    - The rank grows with the number of observations: one factor for every `observations_per_factor` of them, instead of
      being raised when a validation loss has improved.
    - The latent vector is that of ordinary least squares on the trials that did not fail: factors of losses know
      nothing of failures, and a worst value in the place of one would bend all of them. Before there is an
      observation it is the mean of the training tasks, which makes the prediction the mean loss.

    **Time-constrained.** The length of a round, and what a design may cost, are then counted in time rather than in
    evaluations, with the time a pipeline took on the training tasks: the mean of its log seconds relative to the
    other pipelines on the same task, in units of the median pipeline. (Published is a polynomial in the size of the
    table; a replay has none, and what is compared here are pipelines on one table.) Designs prefer what tells much
    for its time, and predictions are tried that fit into what is left of the round.

    Parameters
    ----------
    max_rank
        K, how many factors are kept.
    observations_per_factor
        See above.
    first_round
        Length of the first round, in evaluations, or in the time that the median pipeline takes.
    design_share
        Share of each round for the design.
    design
        ``"relaxed"``: the convex relaxation, rounded, as published; ``"greedy"``: one pipeline after another.
    time_constrained
        See above. Needs a meta-dataset with seconds.
    """

    keeps = ("_recorded", "_factors", "_mean", "_costs")
    adjustable = frozenset({"observations_per_factor", "first_round", "design_share", "design"})

    def __init__(
        self,
        max_rank: int = 40,
        observations_per_factor: float = 3.0,
        first_round: int = 4,
        design_share: float = 0.25,
        design: Design = "relaxed",
        time_constrained: bool = False,
    ) -> None:
        check_positive("max_rank", max_rank, whole=True)
        check_positive("observations_per_factor", observations_per_factor)
        check_positive("first_round", first_round)
        if not 0 <= design_share <= 1:
            raise InvalidInput(f"design_share must be in [0, 1], got {design_share!r}")
        if design not in get_args(Design):
            raise UnknownName(f"no design is named {design!r}; {suggestion(design, get_args(Design))}")
        self.max_rank = max_rank
        self.observations_per_factor = observations_per_factor
        self.first_round = first_round
        self.design_share = design_share
        self.design: Design = design
        self.time_constrained = time_constrained

    def learn(self, meta: MetaDataset) -> None:
        found = self.factorise(meta)
        scale = np.sqrt(len(meta))
        self._factors: Array = np.ascontiguousarray((found.right * (found.values / scale)[:, None]).T)
        self._mean: Array = found.left.mean(axis=0) * scale
        self._costs = relative_seconds(meta) if self.time_constrained else np.ones(len(meta.pipelines))

    def factorise(self, meta: MetaDataset) -> LowRank:
        """Factors of the (tasks, pipelines) matrix of losses."""
        return complete(meta.losses, self.max_rank)

    def begin(self) -> None:
        self._known_factors = self._factors[self.known.columns]
        self._known_costs = self._costs[self.known.columns]
        if self.time_constrained and len(self.known):
            self._known_costs = self._known_costs / np.median(self._known_costs)
        self._designs: dict[tuple[int, ...], list[int]] = {}

    def choose(self, left: Mask, rng: np.random.Generator) -> tuple[int, dict[str, Any]]:  # noqa: ARG002
        before, length, spent = self._round()
        with one_blas_thread():
            if spent < self.design_share * length:
                for place in self._design(before, self.design_share * length):
                    if left[place]:
                        return place, {"by": "design"}
            predicted, rank = self.predict()
        open_ = left
        if self.time_constrained:
            fits = left & (self._known_costs <= length - spent)
            open_ = fits if fits.any() else left
        place = int(np.where(open_, predicted, np.inf).argmin())
        return place, {"by": "prediction", "predicted": float(predicted[place]), "rank": rank}

    def _round(self) -> tuple[list[int], float, float]:
        """Places of what was proposed before this round, the length of the round, and how much of it is spent."""
        made = [*(t.proposal for t in self.history), *self.history.pending.values()]
        made.sort(key=lambda proposal: proposal.number)
        encoded = self.task.candidates.encode([proposal.pipeline for proposal in made])
        before: list[int] = []
        current: list[int] = []
        length, spent = float(self.first_round), 0.0
        for proposal, place in zip(made, self.known.places(encoded.ids), strict=True):
            current.append(int(place))
            if proposal.origin.get("by") != "initial":
                spent += float(self._known_costs[place]) if place >= 0 else 1.0
            if spent >= length - 1e-9:
                before, current = before + current, []
                length, spent = 2 * length, 0.0
            elif spent == 0.0:  # still what the task is begun with
                before, current = before + current, []
        return [place for place in before if place >= 0], length, spent

    def _rank(self, observations: int) -> int:
        return int(np.clip(observations / self.observations_per_factor, 1, self._factors.shape[1]))

    def _design(self, before: list[int], budget: float) -> list[int]:
        """Places to observe in this round. It follows from what was proposed before, so it is worked out once."""
        key = tuple(before)
        if key not in self._designs:
            planned = len(before) + budget / float(np.median(self._known_costs))
            factors = self._known_factors[:, : self._rank(int(planned))]
            allowed = np.ones(len(factors), dtype=bool)
            allowed[before] = False
            known = information(factors, np.array(before, dtype=np.int64))
            search = relaxed_design if self.design == "relaxed" else greedy_design
            self._designs[key] = search(factors, known, self._known_costs, budget, allowed)
        return self._designs[key]

    def predict(self) -> tuple[Array, int]:
        """Predicted losses of the known candidates, and how many factors they are made of."""
        places, targets = self.observed(failures=False)
        if not len(places):
            return self._known_factors @ self._mean, len(self._mean)
        rank = self._rank(len(places))
        latent, *_ = np.linalg.lstsq(self._known_factors[places, :rank], targets, rcond=None)
        return np.asarray(self._known_factors[:, :rank] @ latent), rank


def relative_seconds(meta: MetaDataset) -> Array:
    """How long each pipeline takes compared to others on the same task (P,); 1 for one that was never timed."""
    if meta.seconds is None:
        raise InvalidInput(f"meta-dataset {meta.name!r} has no seconds, and time_constrained=True needs them")
    seconds = np.asarray(meta.seconds, dtype=np.float64)
    return np.exp(relative_to_tasks(np.log(np.maximum(np.where(seconds >= 0, seconds, np.nan), _LEAST_SECONDS))))


_LEAST_SECONDS = 1e-3
