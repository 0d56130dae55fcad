"""`AverageRank`: what did best on other tasks, whatever happens on this one."""

from __future__ import annotations

from typing import Any

import numpy as np

from headstart.errors import InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.normalisation import mean_ranks
from headstart.optimizers.recorded import Mask, RecordedOptimizer


class AverageRank(RecordedOptimizer):
    """Candidates by their mean rank over the training tasks; learns nothing from the new one.

    Ranks are scaled to [0, 1] on each task, among what was observed there, ties averaged. With ranks r_t of a
    pipeline on the n tasks it was observed on, its score is (Σ r_t + c/2) / (n + c): pipelines observed on few tasks
    are drawn to the middle, and those observed on none stand there.

    Parameters
    ----------
    prior_tasks
        c, how many tasks in the middle every pipeline has on top.
    """

    keeps = ("_recorded", "_scores")

    def __init__(self, prior_tasks: float = 5.0) -> None:
        if not prior_tasks > 0:
            raise InvalidInput(f"prior_tasks must be positive, got {prior_tasks!r}")
        self.prior_tasks = prior_tasks

    def learn(self, meta: MetaDataset) -> None:
        self._scores = mean_ranks(meta, self.prior_tasks)

    def begin(self) -> None:
        self._order = np.argsort(self._scores[self.known.columns], kind="stable")

    def choose(self, left: Mask, rng: np.random.Generator) -> tuple[int, dict[str, Any]]:  # noqa: ARG002
        place = int(self._order[left[self._order].argmax()])
        return place, {"by": "average_rank", "score": float(self._scores[self.known.columns[place]])}
