"""`Bayes`: Bayesian optimisation with any surrogate and acquisition."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import Exhausted, InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried, untried
from headstart.registry import create
from headstart.space.encoded import Encoded
from headstart.surrogates.acquisition import Acquisition
from headstart.surrogates.base import Surrogate
from headstart.trials import Proposal


class Bayes(Optimizer):
    """Fit a surrogate to the history, try the candidate with the highest acquisition.

    On a pool every candidate is scored. On a whole space candidates are random samples and the neighbours of the best
    pipelines so far, improved by local search.

    Parameters
    ----------
    surrogate, acquisition
        A name in the registry, or an object.
    n_initial
        Random pipelines before the surrogate is trusted; initial pipelines of the task count.
    n_samples
        Random candidates for each suggestion on a whole space.
    n_starts
        Local searches for each suggestion on a whole space, half from the best candidates, half from the best trials.
    random_share
        Share of suggestions that are random, against a surrogate that misleads.
    """

    def __init__(
        self,
        surrogate: Surrogate | str = "forest",
        acquisition: Acquisition | str = "log_ei",
        n_initial: int = 5,
        n_samples: int = 2000,
        n_starts: int = 10,
        random_share: float = 0.0,
    ) -> None:
        if n_initial < 0 or n_samples < 1 or n_starts < 0 or not 0 <= random_share <= 1:
            raise InvalidInput(
                "n_initial and n_starts must be at least 0, n_samples at least 1 and random_share in [0, 1], got "
                f"{n_initial!r}, {n_starts!r}, {n_samples!r}, {random_share!r}"
            )
        self.surrogate = surrogate
        self.acquisition = acquisition
        self.n_initial = n_initial
        self.n_samples = n_samples
        self.n_starts = n_starts
        self.random_share = random_share

    def meta_fit(self, meta: MetaDataset) -> Self:
        self.surrogate = create("surrogate", self.surrogate).meta_fit(meta)
        return self

    def prepare(self) -> None:
        self._model: Surrogate = create("surrogate", self.surrogate).start(self.task)
        self._acquisition: Acquisition = create("acquisition", self.acquisition)

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        if number < self.n_initial or rng.random() < self.random_share:
            return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})
        history = self.history if self._model.sees_all_fidelities else self.history.full()
        self._model.fit(history)
        if self.task.candidates.pool is not None:
            left = untried(self.history, self.task.candidates.pool)
            if len(left) == 0:
                raise Exhausted(f"all {len(self.task.candidates.pool)} recorded pipelines have been tried")
            return self._proposal(number, left, self._acquisition(self._model, history, left), rng)
        return self._search(number, rng)

    def _proposal(self, number: int, candidates: Encoded, scores: NDArray[Any], rng: np.random.Generator) -> Proposal:
        best = np.flatnonzero(scores == scores.max())
        chosen = int(best[0] if len(best) == 1 else rng.choice(best))
        return Proposal(number, candidates[chosen], {"by": "bayes", "acquisition": float(scores[chosen])})

    def _search(self, number: int, rng: np.random.Generator) -> Proposal:
        """Random candidates and neighbours of the best trials, then hill climbing from the best of them."""
        candidates = self.task.candidates
        history = self.history.full()
        order = np.argsort(history.targets(), kind="stable")
        leaders = [history.trials[i].pipeline for i in order[: max(1, self.n_starts // 2)]]
        parts = [candidates.sample(rng, self.n_samples)]
        parts += [candidates.neighbours(p, rng) for p in leaders]
        pool = untried(self.history, Encoded.concatenate([p for p in parts if len(p)]))
        if len(pool) == 0:
            pool = draw_untried(self.history, rng)
        scores = self._acquisition(self._model, history, pool)
        starts = np.argsort(-scores, kind="stable")[: self.n_starts]
        points = [pool.take([i]) for i in starts]
        values = scores[starts].tolist()
        for _ in range(_CLIMBS):
            if not points:
                break
            around = [untried(self.history, candidates.neighbours(p[0], rng)) for p in points]
            sizes = [len(a) for a in around]
            if sum(sizes) == 0:
                break
            # All climbs take their step in one prediction.
            found = self._acquisition(self._model, history, Encoded.concatenate([a for a in around if len(a)]))
            moving = False
            offset = 0
            for k, size in enumerate(sizes):
                part = found[offset : offset + size]
                offset += size
                if size and part.max() > values[k]:
                    points[k] = around[k].take([int(part.argmax())])
                    values[k] = float(part.max())
                    moving = True
            if not moving:
                break
        if points:
            pool = Encoded.concatenate([pool, *points])
            scores = np.concatenate([scores, values])
        return self._proposal(number, pool, scores, rng)


_CLIMBS = 10
