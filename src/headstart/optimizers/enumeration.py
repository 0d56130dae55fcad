"""`Enumeration`: every structure once, in the order of the space."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from headstart.errors import SpaceError
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried, tried_ids, untried
from headstart.space.encoded import Encoded
from headstart.trials import Proposal


class Enumeration(Optimizer):
    """Every structure with its default hyper-parameters, one after another; recorded pipelines in their order.

    On a space that has structures only, as an exact solver; after the last structure candidates are random.
    """

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        tried = tried_ids(self.history)
        pool = self.task.candidates.pool
        for found in [pool] if pool is not None else self._defaults():
            left = untried(found, tried)
            if len(left):
                return Proposal(number, left[0], {"by": "enumeration"})
        return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})

    def _defaults(self) -> Iterator[Encoded]:
        space, candidates = self.task.space, self.task.candidates

        def structures(given: dict[str, str]) -> Iterator[dict[str, str]]:
            if len(given) == len(space.stages):
                yield given
                return
            stage = space.stages[-1 - len(given)].name  # the last stage first: it forbids most
            for name in candidates.allowed(given)[stage]:
                yield from structures({**given, stage: name})

        for given in structures({}):
            try:
                found = candidates.encode([space.default(given)])
            except SpaceError:  # forbidden with any hyper-parameters
                continue
            yield from [found] if found.order is None else [found.with_order(order) for order in space.orders]
