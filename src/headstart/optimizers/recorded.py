"""What optimizers share that propose pipelines of a meta-dataset: `KnownCandidates` and `RecordedOptimizer`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, SpaceError
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.normalisation import mean_ranks
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried, tried_ids
from headstart.space.candidates import Candidates
from headstart.space.encoded import Encoded, find_ids
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.trials import FULL, Fidelity, Proposal

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


class KnownCandidates:
    """The candidates of a task that are recorded in a meta-dataset.

    In a pool they are those whose ids are in the meta-dataset. In a whole space they are the recorded pipelines that
    belong to it, with algorithms and hyper-parameters of the same names: each is decoded and encoded again, and what
    the space does not have, does not allow or forbids is passed over. Of those that the table makes equal, the one that
    stands for them is taken, if it is recorded, else the first.

    Parameters
    ----------
    recorded
        All pipelines of the meta-dataset, in the order of its columns.
    candidates
        Of the task.
    """

    def __init__(self, recorded: Encoded, candidates: Candidates) -> None:
        pool = candidates.pool
        if pool is None:
            belonging, columns = _embedded(recorded, candidates.space)
            encoded = candidates.encode(belonging)
            first = _first(encoded.ids, encoded.ids == belonging.ids)
            self.encoded, self.columns = encoded.take(first), columns[first]
        else:
            columns = recorded.find(pool)
            self.encoded, self.columns = pool.take(columns >= 0), columns[columns >= 0]
        self._sorted = np.argsort(self.encoded.ids, kind="stable")

    def places(self, ids: Rows) -> Rows:
        """Positions among the known candidates of candidates with these ids; -1 for one that is not known."""
        return find_ids(self.encoded.ids, self._sorted, ids)

    def __len__(self) -> int:
        return len(self.encoded)


def _embedded(recorded: Encoded, space: PipelineSpace) -> tuple[Encoded, Rows]:
    """Recorded pipelines as pipelines of a space, and their columns."""
    if recorded.space == space:
        return space.encode(recorded), np.arange(len(recorded))
    there = {stage.name: stage for stage in space.stages}
    empty = space.encode([])
    if {stage.name for stage in recorded.space.stages} != set(there):
        return empty, np.zeros(0, dtype=np.int64)
    fits = np.ones(len(recorded), dtype=bool)
    for s, stage in enumerate(recorded.space.stages):
        names = np.array([name in there[stage.name].names for name in stage.names])
        fits &= names[recorded.choice[:, s]]
    rows = np.flatnonzero(fits)
    position = [recorded.space.stage_position(stage.name) for stage in space.stages]
    parts: list[tuple[Encoded, Rows]] = []

    def add(pipelines: Sequence[Pipeline], columns: Rows) -> None:
        """Encode what belongs to the space; halves are tried apart where something in them does not."""
        if not len(columns):
            return
        try:
            parts.append((space.encode(pipelines), columns))
        except SpaceError:
            half = len(columns) // 2
            if half:
                add(pipelines[:half], columns[:half])
                add(pipelines[half:], columns[half:])

    moved = position != list(range(len(position)))
    decoded = list(recorded.take(rows))
    if moved:  # the same stages, declared in another order
        decoded = [Pipeline([p.algorithms[i] for i in position], [p.params[i] for i in position]) for p in decoded]
    add(decoded, rows)
    if not parts:
        return empty, np.zeros(0, dtype=np.int64)
    return Encoded.concatenate([part for part, _ in parts]), np.concatenate([columns for _, columns in parts])


def _first(ids: Rows, preferred: Mask) -> Rows:
    """Positions of each id once, in ascending order: the first of the preferred ones, or else of all."""
    order = np.argsort(~preferred, kind="stable")
    return np.sort(order[np.unique(ids[order], return_index=True)[1]])


def best_columns(meta: MetaDataset, depth: int) -> list[Rows]:
    """Columns of the `depth` best pipelines of each task, the best first.

    On many tasks a lot of pipelines are equally good; those that do well on the other tasks too come first.
    """
    ranks = mean_ranks(meta, prior_tasks=1.0)
    best = []
    for task in range(len(meta)):
        losses = np.asarray(meta.loss_row(task), dtype=np.float64)
        seen = np.flatnonzero(np.isfinite(losses))
        if len(seen) > depth:
            seen = seen[losses[seen] <= np.partition(losses[seen], depth - 1)[depth - 1]]
        best.append(seen[np.lexsort((ranks[seen], losses[seen]))[:depth]])
    return best


class RecordedOptimizer(Optimizer):
    """Base of optimizers that choose among the pipelines of the meta-dataset they learned from.

    A subclass writes `learn` and `choose`. Candidates that the meta-dataset does not have are tried last, at random; so
    is the rest of a space.
    """

    keeps: ClassVar[tuple[str, ...]] = ("_recorded",)
    _recorded: Encoded | None = None

    def meta_fit(self, meta: MetaDataset) -> Self:
        if not len(meta):
            raise InvalidInput(f"{type(self).__name__} learns from other tasks, got a meta-dataset without any")
        self._recorded = meta.pipelines
        self.learn(meta)
        self.meta_key = meta.key
        return self

    @abstractmethod
    def learn(self, meta: MetaDataset) -> None:
        """Keep what is needed from the training tasks; columns are those of the meta-dataset."""

    def prepare(self) -> None:
        if self._recorded is None:
            raise self.not_learned()
        self.known = KnownCandidates(self._recorded, self.task.candidates)
        if not len(self.known) and self.task.candidates.pool is None:
            raise SpaceError(
                f"{type(self).__name__} chooses among recorded pipelines of space {self._recorded.space.name!r}, and "
                f"none of them belongs to space {self.task.space.name!r}; search the space that it learned from "
                f"(--space {self._recorded.space.name})"
            )
        self.begin()

    def begin(self) -> None:
        """Set up the state of a run; `known` holds the candidates."""

    @abstractmethod
    def choose(self, left: Mask, rng: np.random.Generator) -> tuple[int, dict[str, Any]]:
        """Place in `known` of the candidate to try among those `left`, at least one, and what to note of it."""

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        left = self.untried()
        if not left.any():
            return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})
        place, origin = self.choose(left, rng)
        return Proposal(number, self.known.encoded[place], origin)

    def untried(self, fidelity: Fidelity = FULL) -> Mask:
        """Which of the known candidates were neither tried nor are under way."""
        places = self.known.places(tried_ids(self.history, fidelity))
        left = np.ones(len(self.known), dtype=bool)
        left[places[places >= 0]] = False
        return left

    def observed(self, *, failures: bool) -> tuple[Rows, NDArray[np.float64]]:
        """Places and targets of the full-fidelity trials of known candidates, in order, with failed ones or without."""
        history = self.history.full()
        if not len(history):
            return np.zeros(0, dtype=np.int64), np.zeros(0)
        places = self.known.places(history.encoded.ids)
        kept = places >= 0
        if not failures:
            kept &= history.ok
        return places[kept], history.targets()[kept]
