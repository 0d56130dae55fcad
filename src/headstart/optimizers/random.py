"""`RandomSearch`: any candidate, none twice."""

from __future__ import annotations

import numpy as np

from headstart.errors import Exhausted
from headstart.history import History
from headstart.optimizers.base import Optimizer
from headstart.space.encoded import Encoded
from headstart.trials import FULL, Fidelity, Proposal

_ATTEMPTS = 100


def tried_ids(history: History, fidelity: Fidelity = FULL) -> set[int]:
    """Ids of all pipelines that were tried at this fidelity or a higher one, or are under way."""
    done = {int(i) for i, t in zip(history.encoded.ids, history, strict=True) if t.proposal.fidelity.covers(fidelity)}
    waiting = history.candidates.encode([p.pipeline for p in history.pending.values()])
    return done | {int(i) for i in waiting.ids}


def untried(history: History, encoded: Encoded, fidelity: Fidelity = FULL) -> Encoded:
    """Those candidates that were not tried yet, each once."""
    tried = tried_ids(history, fidelity)
    if not tried:
        return encoded.unique()
    fresh = ~np.isin(encoded.ids, np.fromiter(tried, dtype=np.int64, count=len(tried)))
    return encoded.take(fresh).unique()


def draw_untried(history: History, rng: np.random.Generator, fidelity: Fidelity = FULL) -> Encoded:
    """One random candidate that was not tried yet; raises `Exhausted` when none is left or can be found."""
    candidates = history.candidates
    if candidates.pool is not None:
        left = untried(history, candidates.pool, fidelity)
        if len(left) == 0:
            raise Exhausted(f"all {len(candidates.pool)} recorded pipelines have been tried")
        return left.take([int(rng.integers(len(left)))])
    for attempt in range(_ATTEMPTS):
        # One at first, for speed; many when the space is small and nearly used up.
        left = untried(history, candidates.sample(rng, 1 if attempt == 0 else 64), fidelity)
        if len(left):
            return left.take([0])
    raise Exhausted(f"no pipeline of space {candidates.space.name!r} is left that was not tried")


class RandomSearch(Optimizer):
    """Any candidate with equal chance, none twice."""

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})
