"""`MetaDataset`: outcomes of many pipelines on many tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.space.candidates import Pool
from headstart.space.encoded import Encoded


@dataclass(frozen=True)
class MetaDataset:
    """What is known from earlier work: T tasks × P recorded pipelines.

    Parameters
    ----------
    pipelines
        P recorded pipelines, encoded once, in the order of the columns of `losses`; their ids are unique.
    losses
        (T, P); NaN where a pipeline was not observed on a task.
    tasks
        Names of the T tasks.
    metafeatures
        (T, k) vectors that describe the tasks, by the name of their extractor.
    """

    pipelines: Encoded
    losses: NDArray[np.floating[Any]]
    tasks: Sequence[str]
    metafeatures: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))
        expected = (len(self.tasks), len(self.pipelines))
        if self.losses.shape != expected:
            raise InvalidInput(f"losses must be tasks × pipelines = {expected}, got {self.losses.shape}")
        if len(np.unique(self.pipelines.ids)) != len(self.pipelines):
            raise InvalidInput("the pipelines of a meta-dataset must have different ids")
        if not self.pipelines.recorded:
            raise InvalidInput("the pipelines of a meta-dataset must be recorded: give Encoded(..., ids=...)")
        for name, vectors in self.metafeatures.items():
            if len(vectors) != len(self.tasks):
                raise InvalidInput(f"meta-features {name!r} must have {len(self.tasks)} rows, got {len(vectors)}")

    def select(self, tasks: Sequence[int] | NDArray[np.int64]) -> MetaDataset:
        """The same pipelines on some of the tasks."""
        rows = np.asarray(tasks, dtype=np.int64)
        return replace(
            self,
            losses=self.losses[rows],
            tasks=tuple(self.tasks[i] for i in rows),
            metafeatures={name: vectors[rows] for name, vectors in self.metafeatures.items()},
        )

    @cached_property
    def everything(self) -> Pool:
        """All pipelines as candidates; ``everything.rows(ids)`` are the columns of pipelines in `losses`."""
        return Pool(self.pipelines)

    def pool(self, task: int) -> Pool:
        """Candidates of one task: the pipelines that were observed on it."""
        return Pool(self.pipelines.take(np.isfinite(self.losses[task])))

    def __repr__(self) -> str:
        missing = float(np.isnan(self.losses).mean()) if self.losses.size else 0.0
        return f"MetaDataset of {len(self.tasks)} tasks × {len(self.pipelines)} pipelines, {missing:.1%} missing"
