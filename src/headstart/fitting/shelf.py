"""`Shelf`: the fitted models of the best evaluations, for as long as a run lives."""

from __future__ import annotations

import io
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

from headstart.constraints import Constraint, total_excess
from headstart.evaluation.kept_models import loading_seconds, restore
from headstart.evaluation.objective import Objective
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome

CAPACITY = 30
CAPACITY_BYTES = 4 * 10**9
"""Most room on the disk for models; forests on large tables have hundreds of megabytes each."""


class Shelf:
    """An objective that keeps the models of the best evaluations of another one; the outcomes it returns have none.

    Models are pickles of our own worker processes, in a directory of the run. They are never put into a store: whoever
    reads a store need not trust who wrote it.

    Parameters
    ----------
    objective
        Its outcomes have the artefact ``models``: what `headstart.evaluation.kept_models` made, or the path of it.
    capacity, capacity_bytes
        How many evaluations' models are kept, and how large their files may be; those of the worst go first.
    constraints
        What satisfies them is better than what does not.
    """

    def __init__(
        self,
        objective: Objective,
        capacity: int = CAPACITY,
        capacity_bytes: float = CAPACITY_BYTES,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self.objective = objective
        self.capacity = capacity
        self.capacity_bytes = capacity_bytes
        self.constraints = constraints
        self._kept: dict[int, _Kept] = {}
        self._mutex = threading.Lock()

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        outcome = self.objective(pipeline, limits, seed, fidelity)
        others = dict(outcome.artefacts)
        models = others.pop("models", None)
        if models is not None:
            self.put(seed, outcome, models)
        return replace(outcome, artefacts=others)

    def put(self, seed: int, outcome: Outcome, models: Any) -> None:
        """Keep the models of an evaluation that is ok, as long as there are not many better ones."""
        if outcome.loss is None:
            return
        kept = _Kept((total_excess(self.constraints, outcome.constraints), outcome.loss), models)
        with self._mutex:
            self._remove(seed)
            self._kept[seed] = kept
            while len(self._kept) > 1 and (len(self._kept) > self.capacity or self._bytes() > self.capacity_bytes):
                self._remove(max(self._kept, key=lambda key: self._kept[key].rank))

    def _bytes(self) -> int:
        return sum(kept.size for kept in self._kept.values())

    def _remove(self, seed: int) -> None:
        kept = self._kept.pop(seed, None)
        if kept is not None and isinstance(kept.models, Path):
            kept.models.unlink(missing_ok=True)

    def __contains__(self, seed: int) -> bool:
        """Whether the models of the evaluation with this seed are there; does not load them."""
        with self._mutex:
            return seed in self._kept

    def _get(self, seed: int) -> _Kept | None:
        with self._mutex:
            return self._kept.get(seed)

    def size(self, seed: int) -> int:
        """Bytes of the file of the models of the evaluation with this seed; 0 where they are in memory already."""
        kept = self._get(seed)
        return 0 if kept is None else kept.size

    def loading_seconds(self, seed: int) -> float:
        """What it took to load the models of the evaluation with this seed in its own process; 0 for those at hand."""
        kept = self._get(seed)
        return 0.0 if kept is None else kept.seconds

    def best_loading_seconds(self, n: int) -> float:
        """What it took to load the models of the `n` best evaluations."""
        with self._mutex:
            best = sorted(self._kept.values(), key=lambda kept: kept.rank)[:n]
        return sum(kept.seconds for kept in best)

    def models(self, seed: int) -> list[Any] | None:
        """The models of the evaluation with this seed, or None if they are not there (any more).

        They could be loaded in the process of their evaluation. Whatever their classes raise here is passed on.
        """
        kept = self._get(seed)
        if kept is None or isinstance(kept.models, list):
            return None if kept is None else kept.models
        with _opened(kept.models) as file:
            return restore(file)

    def interrupt(self) -> None:
        getattr(self.objective, "interrupt", lambda: None)()

    def __repr__(self) -> str:
        return f"Shelf({self.objective!r}, {len(self._kept)} models)"


class _Kept:
    """The models of one evaluation, and what is to be known of them without loading them."""

    def __init__(self, rank: tuple[float, float], models: Any) -> None:
        self.rank = rank
        self.models = models
        self.size = models.stat().st_size if isinstance(models, Path) else 0
        self.seconds = 0.0
        if not isinstance(models, list):
            with _opened(models) as file:
                self.seconds = loading_seconds(file)


def _opened(models: Any) -> BinaryIO:
    return open(models, "rb") if isinstance(models, Path) else io.BytesIO(models)
