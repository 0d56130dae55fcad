"""`CombinatorialBandit`: Thompson sampling of an algorithm for each stage.

Algorithm A1 of Liu et al. (2020).

==========  ================  ==============================================================================  ========
symbol      name in code      meaning                                                                         equation
==========  ================  ==============================================================================  ========
f̂           upper             loss from which on there is no reward
r̃           `chances`         1 − clip(f / f̂, 0, 1), the chance of a reward                                  A39
r           –                 the reward: r̃ itself, or 1 with the chance r̃ where rewards are drawn               A1, 10
n           –                 pulls of an arm: an algorithm of a stage, or a stage at a place
α₀, δ₀      prior             of the Beta distribution of an arm's chance; both are the same
ω           –                 a draw from Beta(α₀ + r, δ₀ + n − r); arms with the greatest sum are pulled     A38
==========  ================  ==============================================================================  ========

Where combinations are forbidden, the last stage takes its best arm first, and each stage before it the best one of
those that are still allowed. An order of stages is an assignment of stages to places, solved exactly.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from headstart.errors import check_positive
from headstart.methods.admm.splitting import Structure
from headstart.optimizers.base import Optimizer, observation_stream
from headstart.optimizers.random import draw_untried, tried_ids, untried
from headstart.trials import Proposal

Array = NDArray[np.float64]
_PULLS = 20
_SAMPLES = 64


@lru_cache(maxsize=1 << 16)
def _uniform(seed: int, number: int) -> float:
    """The number that decides on the reward of a trial."""
    return float(observation_stream(seed, number).random())


class CombinatorialBandit(Optimizer):
    """Thompson sampling over algorithms with probabilistic rewards (Algorithm A1 of Liu et al., AAAI 2020).

    Every algorithm of every stage is an arm. The hyper-parameters of what is pulled are drawn at random.

    Parameters
    ----------
    upper
        Loss from which on there is no reward, for losses that are at least 0; the paper has 0.7. By default rewards go
        from 1 for the best loss so far to 0 for one twice as far from it as the median, whatever the unit.
    prior
        Of each arm, as rewards and as failures seen before the first pull; the paper has 10.
    drawn
        Whether a pull is rewarded by 1 or 0, with the chance that it has, as in the paper, instead of by that chance.
    """

    def __init__(self, upper: float | None = None, prior: float = 1.0, drawn: bool = False) -> None:
        check_positive("upper", upper)
        check_positive("prior", prior)
        self.upper = upper
        self.prior = prior
        self.drawn = drawn

    def chances(self) -> Array:
        """r̃ of each trial of the history, 0 for one that failed; (n,)."""
        targets, ok = self.history.targets(), self.history.ok
        if not ok.any():
            return np.zeros(len(targets))
        if self.upper is not None:
            shares = targets / self.upper
        else:
            best = float(targets[ok].min())
            width = 2.0 * (float(np.median(targets[ok])) - best)
            shares = (targets - best) / width if width > 0 else np.where(targets > best, 1.0, 0.0)
        return np.where(ok, 1.0 - np.clip(shares, 0.0, 1.0), 0.0)

    def rewards(self) -> Array:
        """r of each trial of the history; (n,)."""
        chances = self.chances()
        if not self.drawn:
            return chances
        # The same number of a trial decides at each look, so the counts follow from the history alone.
        draws = np.array([_uniform(self.seed, trial.number) for trial in self.history])
        return np.where(draws < chances, 1.0, 0.0)

    def pull(self, rng: np.random.Generator) -> Structure:
        """The arms of the next pull, whether or not they were pulled before."""
        space, candidates = self.task.space, self.task.candidates
        encoded = self.history.encoded
        rewards = self.rewards()
        given: dict[str, str] = {}
        for s in reversed(range(len(space.stages))):
            stage = space.stages[s]
            names = candidates.allowed(given)[stage.name]
            arms = [stage.position(name) for name in names]
            drawn = [self._draw(encoded.choice[:, s] == arm, rewards, rng) for arm in arms]
            given[stage.name] = names[int(np.argmax(drawn))]
        algorithms = tuple(given[stage.name] for stage in space.stages)
        return Structure(algorithms, self._order(encoded.order, rewards, rng) if space.free_order else None)

    def _draw(self, pulled: NDArray[np.bool_], rewards: Array, rng: np.random.Generator) -> float:
        """ω of an arm."""
        won = float(rewards[pulled].sum())
        return float(rng.beta(self.prior + won, self.prior + int(pulled.sum()) - won))

    def _order(self, orders: NDArray[np.int64] | None, rewards: Array, rng: np.random.Generator) -> tuple[int, ...]:
        """Stages at their places: the assignment with the greatest sum of draws among those that the space allows."""
        from scipy.optimize import linear_sum_assignment

        space = self.task.space
        seen = np.zeros((0, len(space.stages)), dtype=np.int64) if orders is None else orders
        usual = np.array(space.orders[0])
        places = np.flatnonzero((np.array(space.orders) != usual).any(axis=0))
        draws = np.array([[self._draw(seen[:, place] == s, rewards, rng) for place in places] for s in places])
        stages, assigned = linear_sum_assignment(draws, maximize=True)
        order = usual.copy()
        order[places[assigned]] = places[stages]
        return tuple(order.tolist())

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        tried = tried_ids(self.history)
        for _ in range(_PULLS):
            structure = self.pull(rng)
            drawn = self.task.candidates.sample(rng, _SAMPLES, structure.given(self.task.space))
            if structure.order is not None and self.task.candidates.pool is None:
                drawn = drawn.with_order(structure.order)
            left = untried(drawn, tried)
            if len(left):
                return Proposal(number, left[0], {"by": "bandit"})
        return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})
