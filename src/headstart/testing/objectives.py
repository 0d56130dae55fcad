"""`ObjectiveContract`: what every objective must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from headstart.evaluation.objective import Objective
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome


class ObjectiveContract(ABC):
    """Subclass it in a test file, return your objective from `make` and some pipelines from `pipelines`."""

    limits = Limits(seconds=60)

    @abstractmethod
    def make(self) -> Objective:
        """A new objective."""

    @abstractmethod
    def pipelines(self) -> Sequence[Pipeline]:
        """A few pipelines it can evaluate, of which at least one is ok."""

    @pytest.fixture
    def objective(self) -> Iterator[Objective]:
        objective = self.make()
        yield objective
        close = getattr(objective, "close", None)
        if close is not None:
            close()

    def test_gives_an_outcome_for_every_pipeline(self, objective: Objective) -> None:
        outcomes = [objective(p, self.limits, 1) for p in self.pipelines()]
        assert all(isinstance(outcome, Outcome) for outcome in outcomes)
        assert any(outcome.ok for outcome in outcomes)
        assert all(outcome.ok or outcome.error for outcome in outcomes)
        assert all(outcome.seconds >= 0 for outcome in outcomes)

    def test_the_same_seed_gives_the_same_loss(self, objective: Objective) -> None:
        for pipeline in self.pipelines():
            first, second = (objective(pipeline, self.limits, 5) for _ in range(2))
            assert (first.status, first.loss, first.fold_losses) == (second.status, second.loss, second.fold_losses)

    @pytest.mark.parametrize("fidelity", [FULL, Fidelity(rows=0.5), Fidelity(folds=1)])
    def test_says_at_what_fidelity_it_was(self, objective: Objective, fidelity: Fidelity) -> None:
        for pipeline in self.pipelines():
            assert objective(pipeline, self.limits, 1, fidelity).fidelity == fidelity

    def test_may_be_called_from_several_threads(self, objective: Objective) -> None:
        pipelines = list(self.pipelines())
        expected = [objective(p, self.limits, 2).loss for p in pipelines]
        with ThreadPoolExecutor(4) as threads:
            for _ in range(3):
                found = [threads.submit(objective, p, self.limits, 2) for p in pipelines]
                assert [f.result().loss for f in found] == expected
