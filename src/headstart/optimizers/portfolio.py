"""`Portfolio`: a fixed order of pipelines. `Default`: that of the space, then Bayesian optimisation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np

from headstart.errors import Exhausted, InvalidInput, check_positive
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.base import Optimizer
from headstart.optimizers.bayes import Bayes
from headstart.optimizers.random import tried_ids
from headstart.registry import create
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Proposal, Trial


class Portfolio(Optimizer):
    """Pipelines in a fixed order, then whatever another optimizer suggests.

    Parameters
    ----------
    pipelines
        In the order they are tried. Those that are tried already, as a task's initial ones, are passed over.
    then
        An optimizer, or its name, that goes on when the list is used up; without one the run ends there.
    screen
        A fidelity at which all are tried first; only the best of them are then tried in full.
    promote
        How many.
    """

    def __init__(
        self,
        pipelines: Iterable[Pipeline] = (),
        then: Optimizer | str | None = None,
        screen: Fidelity | None = None,
        promote: int = 5,
    ) -> None:
        check_positive("promote", promote, whole=True)
        self.pipelines = tuple(pipelines)
        self.then = then
        self.screen = screen
        self.promote = promote
        if not self.pipelines and then is None:
            raise InvalidInput("a portfolio needs at least one pipeline, or an optimizer that goes on without")

    def meta_fit(self, meta: MetaDataset) -> Self:
        if self.then is not None:
            self.then = create("optimizer", self.then).meta_fit(meta)
        return self

    def prepare(self) -> None:
        self._list = self.task.candidates.encode(self.pipelines)  # raises for one that is not a candidate
        self._rest: Optimizer | None = None
        if self.then is not None:
            self._rest = create("optimizer", self.then).start(self.task, self.seed)
            self._rest.history = self.history  # one history for both; what either did, the other sees

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        fidelity = self.screen or FULL
        left = np.flatnonzero(~np.isin(self._list.ids, tried_ids(self.history, fidelity)))
        if len(left):
            place = int(left[0])
            return Proposal(number, self._list[place], {"by": "portfolio", "place": place}, fidelity)
        if self.screen is not None and self._promoted() < self.promote:
            best = self._best_screened()
            if best is not None:
                return Proposal(number, best.pipeline, {"by": "promotion", "of": best.number})
            if self.history.pending:
                return None
        if self._rest is None:
            raise Exhausted(f"all {len(self.pipelines)} pipelines of the portfolio have been tried")
        return self._rest.suggest(number, rng)

    def _promoted(self) -> int:
        made = [*(t.proposal for t in self.history), *self.history.pending.values()]
        return sum(proposal.origin.get("by") == "promotion" for proposal in made)

    def _best_screened(self) -> Trial | None:
        """The best of the trials at the lower fidelity whose pipeline was not tried in full yet."""
        again = np.isin(self.history.encoded.ids, tried_ids(self.history))
        found = [t for t, done in zip(self.history, again, strict=True) if t.outcome.ok and not done]
        return min(found, key=lambda t: (float(t.outcome.loss or 0.0), t.number)) if found else None

    def proposed(self, proposal: Proposal) -> None:
        if self._rest is not None:
            self._rest.proposed(proposal)

    def observe(self, trial: Trial) -> None:
        if self._rest is not None:
            self._rest.observe(trial)


class Default(Portfolio):
    """What a fit uses unless told otherwise: pipelines that are worth a try on any table, then `Bayes`.

    Parameters
    ----------
    screen, promote
        See `Portfolio`.
    per_second
        Prefer pipelines that are fast, which is worth it when time is what is short.
    """

    def __init__(self, screen: Fidelity | None = None, promote: int = 5, per_second: bool = False) -> None:
        then = Bayes(acquisition="log_ei_per_second" if per_second else "log_ei")
        super().__init__((), then, screen, promote)
        self.per_second = per_second

    def prepare(self) -> None:
        from headstart.space.catalog.portfolios import portfolio

        self.pipelines = tuple(portfolio(self.task.space)) if self.task.candidates.pool is None else ()
        super().prepare()
