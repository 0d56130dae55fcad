"""`RandomSearch`: any candidate, none twice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headstart.errors import Exhausted
from headstart.history import History
from headstart.optimizers.base import Optimizer
from headstart.space.encoded import Encoded
from headstart.trials import FULL, Fidelity, Proposal

_ATTEMPTS = 100


def tried_ids(history: History, fidelity: Fidelity = FULL) -> NDArray[np.int64]:
    """Ids of all pipelines that were tried at this fidelity or a higher one, or are under way."""
    under_way = np.array([p.fidelity.covers(fidelity) for p in history.pending.values()], dtype=bool)
    return np.concatenate([history.encoded.ids[history.covers(fidelity)], history.waiting.ids[under_way]])


def untried(encoded: Encoded, tried: NDArray[np.int64]) -> Encoded:
    """Those candidates that are not among the tried ones, each once."""
    return encoded.take(~np.isin(encoded.ids, tried)).unique()


def draw_untried(history: History, rng: np.random.Generator, fidelity: Fidelity = FULL) -> Encoded:
    """One random candidate that was not tried yet; raises `Exhausted` when none is left or can be found."""
    candidates = history.candidates
    tried = tried_ids(history, fidelity)
    for attempt in range(_ATTEMPTS if candidates.pool is None else 0):  # a space by the weights of its algorithms
        # One at first, for speed; many when the space is small and nearly used up.
        left = untried(candidates.sample(rng, 1 if attempt == 0 else 64), tried)
        if len(left):
            return left.take([0])
    if candidates.listed is not None:
        left = untried(candidates.listed, tried)
        if len(left) == 0:
            raise Exhausted(f"all {len(candidates.listed)} candidates have been tried")
        return left.take([int(rng.integers(len(left)))])
    raise Exhausted(f"no pipeline of space {candidates.space.name!r} is left that was not tried")


class RandomSearch(Optimizer):
    """Any candidate with equal chance, none twice (Bergstra & Bengio, JMLR 2012)."""

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})
