"""`LearnerContract`: what surrogates and optimizers have in common under test."""

from __future__ import annotations

import copy
import json
import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from headstart.errors import HeadstartError, NeedsTable
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.tables import with_metafeatures
from headstart.optimizers.base import Optimizer
from headstart.space import Algorithm, Float, Integer, PipelineSpace, Stage
from headstart.task import Task
from headstart.testing.examples import evaluate
from headstart.testing.tables import meta_with_tables
from headstart.trials import Proposal, Trial


class LearnerContract(ABC):
    """Base of `SurrogateContract` and `OptimizerContract`.

    The tasks of all tests have a table and meta-features, those included that the part says it needs. It learns from
    other tasks once; the tests share what it learned.
    """

    live = True
    """Whether it works on a whole space (False for those that know recorded pipelines only)."""
    pool = True
    """Whether it works on a pool of recorded pipelines."""

    def meta(self) -> MetaDataset:
        """Tasks of which the first is the one at hand; it learns from the others. Has what it needs of them."""
        return meta_with_tables()

    @abstractmethod
    def new(self, task: Task) -> Any:
        """What `make` gives."""

    @abstractmethod
    def answers(self, learner: Any, task: Task) -> Any:
        """Something that shows, when compared, what a part that has learned does on a task."""

    _shared: ClassVar[dict[tuple[type, str, str], Any]] = {}

    depends_on_candidates: ClassVar[bool] = False
    """Whether `make` may look at the candidates."""

    def _once(self, what: str, kind: str, make: Callable[[], Any]) -> Any:
        """Made once for all tests of a class (and candidates of one kind)."""
        key = type(self), what, kind if self.depends_on_candidates else ""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def at_hand(self, kind: str) -> Task:
        """A new task with a table and meta-features, on a space (``"live"``) or recorded pipelines (``"pool"``)."""
        if not getattr(self, kind):
            pytest.skip(f"does not work on {kind} candidates")
        meta = self._described(kind)
        vectors = {name: rows[0] for name, rows in meta.metafeatures.items()}
        return replace(_first(meta, kind), dataset=copy.deepcopy(meta.dataset(0)), metafeatures=vectors)

    @pytest.fixture(params=["live", "pool"])
    def task(self, request: pytest.FixtureRequest) -> Task:
        return self.at_hand(request.param)

    def _described(self, kind: str) -> MetaDataset:
        """What it learns from, with the meta-features that it needs."""

        def described() -> MetaDataset:
            meta = self.meta()
            needed = self.new(_first(meta, kind)).needs.metafeatures
            return with_metafeatures(meta, needed, range(1, len(meta)))[0]

        return self._once("meta", kind, described)  # type: ignore[no-any-return]

    def learned_anew(self, task: Task) -> Any:
        """A new one, meta-trained on tasks other than the one at hand."""
        meta = self._described(_kind(task))
        learner = self.new(task).meta_fit(meta.select(range(1, len(meta))))
        assert learner is not None, "meta_fit must return the part itself: return self"
        return learner

    def learned(self, task: Task) -> Any:
        """One that is meta-trained, the same for all tests."""
        return self._once("learner", _kind(task), lambda: self.learned_anew(task))

    def test_reads_of_a_task_what_it_says_and_no_more(self, task: Task) -> None:
        learner = self.learned(task)
        needs = learner.needs
        before = pickle.dumps(copy.deepcopy(task.dataset))
        answers = self.answers(learner, task)
        assert pickle.dumps(copy.deepcopy(task.dataset)) == before, "the table of a task must stay as it is"
        told = replace(
            task,
            dataset=task.dataset if needs.table else None,
            metafeatures={name: task.metafeatures[name] for name in needs.metafeatures},
        )
        try:
            same = self.answers(learner, told) == answers
        except Exception as error:
            raise AssertionError(f"it fails on a task with what its needs ask for and no more: {needs}") from error
        assert same, f"it reads something of a task that its needs do not name: {needs}"
        lacking = [replace(told, dataset=None)] if needs.table else []
        for name in needs.metafeatures:
            others = {other: vector for other, vector in told.metafeatures.items() if other != name}
            lacking.append(replace(told, metafeatures=others))
        for task in lacking:
            with pytest.raises(NeedsTable):
                learner.start(task)

    def test_says_so_where_it_has_not_learned(self, task: Task) -> None:
        self._answers_or_says_why(self.new(task), task, "without meta_fit, as in a fit without --knowledge")

    def test_says_so_in_a_space_that_it_did_not_learn(self, task: Task) -> None:
        other = replace(task, candidates=_other_space(), key="other")
        self._answers_or_says_why(self.learned(task), other, "in another space than that of what it learned from")

    def _answers_or_says_why(self, learner: Any, task: Task, where: str) -> None:
        try:
            self.answers(learner, task)
        except HeadstartError:
            pass
        except Exception as error:
            raise AssertionError(
                f"{where} it must work, or start must raise a HeadstartError that says what to do: {error!r}"
            ) from error

    def test_describes_itself_as_json(self, task: Task) -> None:
        described = self.new(task).describe()
        assert json.loads(json.dumps(described)) == described
        assert described["name"]


def _first(meta: MetaDataset, kind: str) -> Task:
    return Task(meta.pipelines.space if kind == "live" else meta.pool(0), key=kind)


def _other_space() -> PipelineSpace:
    """One that shares a stage, and nothing in it, with the space of the other tests."""
    algorithms = [Algorithm("near", params=[Integer("k", 1, 50)]), Algorithm("far", params=[Float("a", 0.0, 1.0)])]
    return PipelineSpace("other", [Stage("estimator", algorithms)])


def _kind(task: Task) -> str:
    return "live" if task.candidates.pool is None else "pool"


def search_with_late_results(runs: Sequence[Optimizer], rebuilt: Optimizer, asks: int, failing: float) -> list[Trial]:
    """Trials of equal runs that are asked for two proposals at a time and told results late.

    All must propose the same, none twice, and so must one that is rebuilt from the log in the end.
    """
    first, task = runs[0], runs[0].task
    waiting: list[Proposal] = []
    trials: list[Trial] = []
    for _ in range(asks):
        asked = first.ask(2)
        assert all(other.ask(2) == asked for other in runs[1:])
        for proposal in asked:
            rebuilt.restore(proposal)
        waiting += asked
        while len(waiting) > 2 or (waiting and not asked):
            trials.append(evaluate(waiting.pop(0), task, first.seed, failing))
            for each in (*runs, rebuilt):
                each.tell(trials[-1])
    assert rebuilt.ask(1) == first.ask(1)
    assert len({(t.pipeline, t.proposal.fidelity) for t in trials}) == len(trials)
    return trials
