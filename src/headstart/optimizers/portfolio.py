"""`Portfolio`: a fixed order of pipelines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import numpy as np

from headstart.errors import Exhausted, InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import tried_ids
from headstart.registry import create
from headstart.space.pipeline import Pipeline
from headstart.trials import Proposal, Trial


class Portfolio(Optimizer):
    """Pipelines in a fixed order, then whatever another optimizer suggests.

    Parameters
    ----------
    pipelines
        In the order they are tried. Those that are tried already, as a task's initial ones, are passed over.
    then
        An optimizer, or its name, that goes on when the list is used up; without one the run ends there.
    """

    def __init__(self, pipelines: Iterable[Pipeline] = (), then: Optimizer | str | None = None) -> None:
        self.pipelines = tuple(pipelines)
        self.then = then
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
        left = np.flatnonzero(~np.isin(self._list.ids, tried_ids(self.history)))
        if len(left):
            place = int(left[0])
            return Proposal(number, self._list[place], {"by": "portfolio", "place": place})
        if self._rest is None:
            raise Exhausted(f"all {len(self.pipelines)} pipelines of the portfolio have been tried")
        return self._rest.suggest(number, rng)

    def proposed(self, proposal: Proposal) -> None:
        if self._rest is not None:
            self._rest.proposed(proposal)

    def observe(self, trial: Trial) -> None:
        if self._rest is not None:
            self._rest.observe(trial)
