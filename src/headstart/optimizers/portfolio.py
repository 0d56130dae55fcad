"""`Portfolio`: a fixed order of pipelines, given or learned. `Default`: that of the space, then `Bayes`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import Exhausted, InvalidInput, check_positive
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.normalisation import Normalisation, check_normalisation, normalised_losses
from headstart.numerics.greedy_cover import greedy_cover
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.base import Optimizer
from headstart.optimizers.bayes import Bayes
from headstart.optimizers.random import tried_ids
from headstart.optimizers.recorded import KnownCandidates
from headstart.registry import Kind
from headstart.space.encoded import Encoded
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Proposal, Trial

Rows = NDArray[np.int64]


def greedy_portfolio(meta: MetaDataset, size: int, normalise: Normalisation = "rank", *, fill: bool = False) -> Rows:
    """Ids of up to `size` pipelines of which, on every task of a meta-dataset, one is good.

    As DeepPipe describes its initial configurations: the pipeline with the best mean over the tasks first, then always
    the one that most lowers the sum over tasks of the best normalised loss so far. It ends early where nothing lowers
    that sum any more.

    Parameters
    ----------
    meta
        The tasks to be good on: training tasks.
    size
        How many.
    normalise
        ``"rank"`` (the paper's) or ``"regret"``; see `headstart.metadata.normalisation`. A pipeline that was not
        observed on a task counts as the worst there, which means that it does not help.
    fill
        Go on with the best by their mean where nothing lowers the sum any more.
    """
    check_positive("size", size, whole=True)
    greedy, others = _greedy_order(meta, size, normalise)
    return meta.pipelines.ids[np.concatenate([greedy, others])[:size] if fill else greedy]


def _greedy_order(meta: MetaDataset, size: int, normalise: Normalisation) -> tuple[Rows, Rows]:
    """The columns of a meta-dataset: up to `size` greedy ones, and the others by their mean."""
    if normalise == "none":
        raise InvalidInput("losses of different tasks must be normalised to be summed: use 'rank' or 'regret'")
    losses = normalised_losses(meta, normalise)
    losses[np.isnan(losses)] = 1.0
    others = np.argsort(losses.mean(axis=0, dtype=np.float64), kind="stable")
    with one_blas_thread():
        greedy = greedy_cover(np.ascontiguousarray(losses.T), size)
    return greedy, others[~np.isin(others, greedy)]


class Portfolio(Optimizer):
    """Pipelines in a fixed order, then whatever another optimizer suggests.

    Without given pipelines `meta_fit` learns them (see `greedy_portfolio`). Learned pipelines that are not candidates
    of a task, such as those without a value in a replay, are passed over.

    Parameters
    ----------
    pipelines
        In the order they are tried. Those that are tried already, as a task's initial ones, are passed over.
    then
        An optimizer, or its name, that goes on when the list is used up. Without one the run ends there, or, if the
        list was learned, goes on with the other recorded pipelines by their mean loss on the training tasks.
    screen
        A fidelity at which all are tried first; only the best of them, those that satisfy the constraints before the
        others, are tried in full. That happens all along the list, so that a search which ends early has tried some.
    promote
        How many.
    size
        How many are learned, at most; fewer where that many are best on all training tasks.
    normalise
        How losses of different tasks are put on one scale, ``"rank"`` or ``"regret"``.
    """

    def __init__(
        self,
        pipelines: Iterable[Pipeline] = (),
        then: Optimizer | str | None = None,
        screen: Fidelity | None = None,
        promote: int = 5,
        size: int = 200,
        normalise: Normalisation = "rank",
    ) -> None:
        check_positive("promote", promote, whole=True)
        check_positive("size", size, whole=True)
        check_normalisation(normalise)
        self.pipelines = tuple(pipelines)
        self.then = then
        self.screen = screen
        self.promote = promote
        self.size = size
        self.normalise: Normalisation = normalise

    parts: ClassVar[Mapping[str, Kind]] = {"then": "optimizer"}
    keeps: ClassVar[tuple[str, ...]] = ("_learned",)
    adjustable = frozenset({"screen", "promote"})
    _learned: Encoded | None = None

    def meta_fit(self, meta: MetaDataset) -> Self:
        super().meta_fit(meta)
        if not self.pipelines:
            greedy, others = _greedy_order(meta, self.size, self.normalise)
            order = greedy if self.then is not None else np.concatenate([greedy, others])
            self._learned = meta.pipelines.take(order)
            self.meta_key = meta.key
        return self

    def prepare(self) -> None:
        if self._learned is not None:
            known = KnownCandidates(self._learned, self.task.candidates)
            self._list = known.encoded.take(np.argsort(known.columns))
        elif self.pipelines or self.then is not None:
            self._list = self.task.candidates.encode(self.pipelines)  # raises for one that is not a candidate
        else:
            raise InvalidInput("a portfolio needs pipelines: give them, or learn them by meta_fit")
        self._rest: Optimizer | None = None
        if self.then is not None:
            # One history for both: what either did, the other sees.
            self._rest = self.part("then").start(self.task, self.seed, self.history)

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        fidelity = self.screen or FULL
        left = np.flatnonzero(~np.isin(self._list.ids, tried_ids(self.history, fidelity)))
        promotes = self.screen is not None and self._promoted() < self._due(bool(len(left)))
        best = self._best_screened() if promotes else None
        if best is not None:
            return Proposal(number, best.pipeline, {"by": "promotion", "of": best.number})
        if len(left):
            place = int(left[0])
            return Proposal(number, self._list[place], {"by": "portfolio", "place": place}, fidelity)
        if promotes and self.history.pending:
            return None
        if self._rest is None:
            raise Exhausted(f"all {len(self._list)} pipelines of the portfolio have been tried")
        return self._rest.suggest(number, rng)

    def _due(self, is_screening: bool) -> int:
        """How many should have been promoted by now: in proportion to what was screened, in the end all."""
        if not is_screening:
            return self.promote
        screened = sum(trial.proposal.fidelity == self.screen for trial in self.history)
        return self.promote * screened // len(self._list)

    def _promoted(self) -> int:
        made = [*(t.proposal for t in self.history), *self.history.pending.values()]
        return sum(proposal.origin.get("by") == "promotion" for proposal in made)

    def _best_screened(self) -> Trial | None:
        """The best of the trials at the lower fidelity whose pipeline was not tried in full yet."""
        again = np.isin(self.history.encoded.ids, tried_ids(self.history))
        found = [t for t, done in zip(self.history, again, strict=True) if t.outcome.ok and not done]
        return min(found, key=self.history.rank) if found else None

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

    keeps = ()  # its list is that of the space, not learned

    def __init__(self, screen: Fidelity | None = None, promote: int = 5, per_second: bool = False) -> None:
        then = Bayes(acquisition="log_ei_per_second" if per_second else "log_ei")
        super().__init__((), then, screen, promote)
        self.per_second = per_second

    def meta_fit(self, meta: MetaDataset) -> Self:
        return Optimizer.meta_fit(self, meta)

    def prepare(self) -> None:
        from headstart.space.catalog.portfolios import portfolio

        table = self.task.dataset
        size = (0, 0) if table is None else (table.n_rows, 0 if table.classes is None else len(table.classes))
        self.pipelines = tuple(portfolio(self.task.space, *size)) if self.task.candidates.pool is None else ()
        super().prepare()
