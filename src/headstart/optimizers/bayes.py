"""`Bayes`: Bayesian optimisation with any surrogate and acquisition."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from headstart.errors import Exhausted, InvalidInput
from headstart.history import History
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried, tried_ids, untried
from headstart.registry import Kind, create
from headstart.space.encoded import Encoded
from headstart.surrogates.acquisition import Acquisition
from headstart.surrogates.base import Surrogate
from headstart.surrogates.feasibility import Feasibility
from headstart.trials import Proposal, Trial

Ids = NDArray[np.int64]
Scores = NDArray[np.float64]
Score = Callable[[Encoded], Scores]


class Bayes(Optimizer):
    """Fit a surrogate to the history, try the candidate with the highest acquisition (Jones, Schonlau & Welch, Journal
    of Global Optimization 1998).

    Where the candidates can be listed, every one is scored. In a larger space candidates are random samples and the
    neighbours of the best pipelines so far, improved by local search.

    Constraints of the history are a part of the search: to the acquisition's score, which is a logarithm, is added the
    logarithm of the probability that all of them hold (see `headstart.surrogates.feasibility`). Improvement is then
    over the best target that satisfies them; as long as there is none, that probability alone decides.

    Parameters
    ----------
    surrogate, acquisition
        A name in the registry, or an object.
    n_initial
        Random pipelines before the surrogate is trusted; initial pipelines of the task count. One that has learned from
        other tasks is trusted at once.
    n_samples
        Random candidates for each suggestion in a space that cannot be listed.
    n_starts
        Local searches for each suggestion in such a space, half from the best candidates, half from the best trials.
    n_polished
        How many of its best candidates L-BFGS-B moves on in their real-valued hyper-parameters.
    random_share
        Share of suggestions that are random, against a surrogate that misleads.
    """

    parts: ClassVar[Mapping[str, Kind]] = {"surrogate": "surrogate"}
    adjustable = frozenset({"acquisition", "n_initial", "n_samples", "n_starts", "n_polished", "random_share"})

    def __init__(
        self,
        surrogate: Surrogate | str = "forest",
        acquisition: Acquisition | str = "log_ei",
        n_initial: int = 5,
        n_samples: int = 2000,
        n_starts: int = 10,
        n_polished: int = 0,
        random_share: float = 0.0,
    ) -> None:
        if min(n_initial, n_starts, n_polished) < 0 or n_samples < 1 or not 0 <= random_share <= 1:
            raise InvalidInput(
                "n_initial, n_starts and n_polished must be at least 0, n_samples at least 1 and random_share in "
                f"[0, 1], got {n_initial!r}, {n_starts!r}, {n_polished!r}, {n_samples!r}, {random_share!r}"
            )
        if isinstance(acquisition, str):
            create("acquisition", acquisition)  # a wrong name is told now, not after meta-training
        self.surrogate = surrogate
        self.acquisition = acquisition
        self.n_initial = n_initial
        self.n_samples = n_samples
        self.n_starts = n_starts
        self.n_polished = n_polished
        self.random_share = random_share

    def describe(self) -> dict[str, Any]:
        """Without `n_polished` where nothing is, so that results on record are known by their settings."""
        found = super().describe()
        return found if self.n_polished else {name: value for name, value in found.items() if name != "n_polished"}

    def prepare(self) -> None:
        self._model: Surrogate = create("surrogate", self.surrogate).start(self.task)
        self._acquisition: Acquisition = create("acquisition", self.acquisition)

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        begun = len(self.history) + len(self.history.pending) >= self.n_initial or self._model.meta_key is not None
        if not begun or rng.random() < self.random_share:
            return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})
        history = self.history if self._model.sees_all_fidelities else self.history.full()
        self._model.fit(history)
        score = scores_of(self._model, self._acquisition, history)
        tried = tried_ids(self.history)
        everything = self.task.candidates.listed
        if everything is not None:
            found = everything  # all of it, so that what is computed once for all candidates serves again
            left = ~np.isin(found.ids, tried)
            if not left.any():
                raise Exhausted(f"all {len(found)} candidates have been tried")
            scores = score(found)
        else:
            found, scores = self._search(history, score, tried, rng)
            left = np.ones(len(found), dtype=bool)
        best = np.flatnonzero(left & (scores == scores[left].max()))
        chosen = int(best[0] if len(best) == 1 else rng.choice(best))
        return Proposal(number, found[chosen], {"by": "bayes", "acquisition": float(scores[chosen])})

    def _search(self, history: History, score: Score, tried: Ids, rng: np.random.Generator) -> tuple[Encoded, Scores]:
        """Random candidates, neighbours of the best trials, and where hill climbing from the best of them leads."""
        candidates = self.task.candidates
        leaders = history.encoded.take(history.order()[: max(1, self.n_starts // 2)])
        parts = [candidates.sample(rng, self.n_samples), *(candidates.neighbours(p, rng) for p in leaders)]
        found = untried(Encoded.concatenate([p for p in parts if len(p)]), tried)
        if len(found) == 0:
            found = draw_untried(self.history, rng)
        scores = score(found)
        starts = np.argsort(-scores, kind="stable")[: self.n_starts]
        points = [found.take([i]) for i in starts]
        values = scores[starts]
        moving = list(range(len(points)))
        for _ in range(_CLIMBS):
            around = [candidates.neighbours(points[k][0], rng) for k in moving]
            if not any(len(a) for a in around):
                break
            # All climbs take their step in one prediction.
            together = Encoded.concatenate([a for a in around if len(a)])
            reached = score(together)
            reached = np.where(np.isin(together.ids, tried), -np.inf, reached)
            ends = np.cumsum([len(a) for a in around])
            still = []
            for k, near, part in zip(moving, around, np.split(reached, ends[:-1]), strict=True):
                if len(part) and part.max() > values[k]:
                    points[k], values[k] = near.take([int(part.argmax())]), part.max()
                    still.append(k)
            moving = still
            if not moving:
                break
        found, scores = Encoded.concatenate([found, *points]), np.concatenate([scores, values])
        if self.n_polished:
            best = np.argsort(-scores, kind="stable")[: self.n_polished]
            polished = untried(polish(found.take(best), score), tried)
            if len(polished):
                found = Encoded.concatenate([found, polished])
                scores = np.concatenate([scores, score(polished)])
        return found, scores


def scores_of(model: Surrogate, acquisition: Acquisition, history: History) -> Score:
    """What is maximised: the acquisition, weighed by the probability that the constraints of the history hold."""
    if not history.constraints:
        return lambda encoded: acquisition(model, history, encoded)
    feasibility = Feasibility(history)
    if not any(trial.outcome.ok and history.is_feasible(trial) for trial in history):
        return feasibility.log_probability
    worst = float(history.targets().max())

    def target(trial: Trial) -> float:
        """As a failure, a trial that exceeds a bound is nothing to improve on."""
        if not history.is_feasible(trial):
            return worst
        return float(trial.outcome.loss or 0.0) if history.scalarize is None else history.scalarize(trial)

    seen = history.view(scalarize=target)
    return lambda encoded: acquisition(model, seen, encoded) + feasibility.log_probability(encoded)


def polish(encoded: Encoded, score: Score) -> Encoded:
    """Pipelines with their active real-valued hyper-parameters where L-BFGS-B finds the score highest.

    All of them in one search: the sum of their scores, whose gradient is by finite differences in one prediction.
    """
    from scipy.optimize import minimize

    space, n = encoded.space, len(encoded)
    box = space.relaxed()
    moved = np.zeros(space.width, dtype=bool)
    moved[box.columns[box.levels == 0]] = True
    rows, columns = np.nonzero(encoded.active & moved)
    if not len(rows):
        return encoded

    def at(values: NDArray[np.float64], which: NDArray[np.int64]) -> Scores:
        return score(Encoded(space, values, encoded.active[which], encoded.choice[which], _rows(encoded.order, which)))

    def loss(point: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        values = encoded.values.copy()
        values[rows, columns] = point
        step = np.where(point < 0.5, _STEP, -_STEP)
        shifted = values[rows]
        shifted[np.arange(len(rows)), columns] += step
        scores = at(np.concatenate([values, shifted]), np.concatenate([np.arange(n), rows]))
        return -float(scores[:n].sum()), -(scores[n:] - scores[rows]) / step

    start, bounds = encoded.values[rows, columns], [(0.0, 1.0)] * len(rows)
    with one_blas_thread():  # many steps on a few numbers: threads would wait for each other
        found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _POLISHING_STEPS})
    values = encoded.values.copy()
    values[rows, columns] = found.x
    ends = Encoded(space, values, encoded.active, encoded.choice, encoded.order)
    return space.encode(list(ends))  # on the grid of values


def _rows(order: NDArray[np.int64] | None, which: NDArray[np.int64]) -> NDArray[np.int64] | None:
    return None if order is None else order[which]


_CLIMBS = 10
_POLISHING_STEPS = 30
_STEP = 1e-5
"""Of finite differences, on the unit interval."""
