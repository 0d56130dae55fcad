"""`SuccessiveHalving`: many candidates on few rows, the best of them on more."""

from __future__ import annotations

import numpy as np

from headstart.errors import InvalidInput, check_positive
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried
from headstart.trials import Fidelity, Proposal, Trial


class SuccessiveHalving(Optimizer):
    """Asynchronous successive halving over rows (Jamieson & Talwalkar, AISTATS 2016; Li et al., MLSys 2020).

    A random candidate is tried on few rows. Whenever one is among the best ``1 / factor`` of its rung and was not
    promoted yet, it is tried on `factor` times as many rows, up to all of them.

    Parameters
    ----------
    factor
        How many of a rung there are for each that is promoted.
    rungs
        Fidelities, the last with all rows.
    """

    def __init__(self, factor: int = 3, rungs: int = 3) -> None:
        check_positive("rungs", rungs, whole=True)
        if not factor >= 2:
            raise InvalidInput(f"factor must be at least 2, got {factor!r}")
        self.factor = factor
        self.rungs = rungs

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        fidelities = [Fidelity(float(self.factor) ** (k + 1 - self.rungs)) for k in range(self.rungs)]
        for k in reversed(range(self.rungs - 1)):
            promoted = {t.pipeline for t in self.history if t.proposal.fidelity.covers(fidelities[k + 1])}
            promoted |= {p.pipeline for p in self.history.pending.values() if p.fidelity.covers(fidelities[k + 1])}
            rung = self._rung(fidelities[k])
            best = [t for t in rung[: len(rung) // self.factor] if t.outcome.ok and t.pipeline not in promoted]
            if best:
                return Proposal(number, best[0].pipeline, {"by": "promotion", "rung": k + 1}, fidelities[k + 1])
        pipeline = draw_untried(self.history, rng, fidelities[0])[0]
        return Proposal(number, pipeline, {"by": "random", "rung": 0}, fidelities[0])

    def _rung(self, fidelity: Fidelity) -> list[Trial]:
        """Trials at a fidelity, best first."""
        history = self.history.where(lambda trial: trial.proposal.fidelity == fidelity)
        return [history[i] for i in history.order().tolist()]
