"""`OptimizerContract`: what every optimizer must do."""

from __future__ import annotations

import json
import os
import signal
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headstart.errors import Exhausted
from headstart.evaluation.synthetic import Synthetic
from headstart.optimizers.base import Optimizer, decision_stream
from headstart.space.candidates import Pool
from headstart.study import Study
from headstart.task import Task
from headstart.testing.examples import bounded, evaluate, failed, feed, live_task, pool_task, random_trials, small_meta
from headstart.trials import Outcome, Proposal, Trial


class OptimizerContract(ABC):
    """Subclass it in a test file, return your optimizer from `make`, and let pytest find the rest.

    ::

        class TestMine(OptimizerContract):
            def make(self, task):
                return MyOptimizer()
    """

    live = True
    """Whether it can propose any pipeline of a space (False for those that need a pool)."""
    pool = True
    """Whether it can propose from a pool of recorded pipelines."""
    endless = True
    """Whether it goes on until all candidates are used up."""
    seeded = True
    """Whether another seed makes another run."""
    waits = False
    """Whether it may hold back proposals until results are in."""

    @abstractmethod
    def make(self, task: Task) -> Optimizer:
        """A new optimizer, before `meta_fit`; `task` is what it will be started on."""

    @pytest.fixture(params=["live", "pool"])
    def task(self, request: pytest.FixtureRequest) -> Task:
        if not getattr(self, request.param):
            pytest.skip(f"does not work on {request.param} candidates")
        return live_task() if request.param == "live" else pool_task()

    def started(self, task: Task, seed: int = 0) -> Optimizer:
        return self.make(task).meta_fit(small_meta().select([1, 2, 3, 4, 5])).start(task, seed)

    def drive(self, optimizer: Optimizer, n: int, failing: float = 0.2) -> list[Trial]:
        """Ask and tell one after another."""
        trials = []
        for _ in range(n):
            (proposal,) = optimizer.ask(1)
            trial = evaluate(proposal, optimizer.task, optimizer.seed, failing)
            optimizer.tell(trial)
            trials.append(trial)
        return trials

    def test_numbers_its_proposals(self, task: Task) -> None:
        trials = self.drive(self.started(task), 12)
        assert [t.number for t in trials] == list(range(12))

    def test_is_deterministic(self, task: Task) -> None:
        first = [t.proposal for t in self.drive(self.started(task, 3), 12)]
        second = [t.proposal for t in self.drive(self.started(task, 3), 12)]
        assert first == second

    def test_another_seed_is_another_run(self, task: Task) -> None:
        if not self.seeded:
            pytest.skip("nothing about it is random")
        first = [t.pipeline for t in self.drive(self.started(task, 3), 12)]
        second = [t.pipeline for t in self.drive(self.started(task, 4), 12)]
        assert first != second

    def test_runs_do_not_disturb_each_other(self, task: Task) -> None:
        optimizer = self.make(task).meta_fit(small_meta().select([1, 2, 3, 4, 5]))
        alone = [t.proposal for t in self.drive(optimizer.start(task, 5), 25)]
        one, other = optimizer.start(task, 5), optimizer.start(task, 6)
        mixed = []
        for _ in range(25):
            mixed += self.drive(one, 1)
            self.drive(other, 1)
        assert [t.proposal for t in mixed] == alone

    def test_suggesting_changes_nothing(self, task: Task) -> None:
        optimizer = self.started(task)
        for n in range(12):
            trials, waiting = list(optimizer.history.trials), dict(optimizer.history.pending)
            first = optimizer.suggest(n, decision_stream(optimizer.seed, n))
            second = optimizer.suggest(n, decision_stream(optimizer.seed, n))
            assert first == second
            assert optimizer.history.trials == trials
            assert optimizer.history.pending == waiting
            self.drive(optimizer, 1)

    @pytest.mark.parametrize("steps", [1, 9, 24])
    def test_is_rebuilt_from_its_log(self, task: Task, steps: int) -> None:
        optimizer = self.started(task, 2)
        log: list[Proposal | Trial] = []
        waiting: list[Proposal] = []
        for step in range(steps):
            asked = optimizer.ask(1 + step % 2)
            log += asked
            waiting += asked
            if waiting and step % 3 != 1:  # results come late, and the latest first
                trial = evaluate(waiting.pop(), task, 2, 0.2)
                optimizer.tell(trial)
                log.append(trial)
        rebuilt = self.started(task, 2)
        for event in log:
            if isinstance(event, Proposal):
                rebuilt.restore(Proposal.from_dict(json.loads(json.dumps(event.to_dict()))))
            else:
                stored = json.loads(json.dumps(event.outcome.to_dict()))
                rebuilt.tell(replace(event, outcome=Outcome.from_dict(stored)))
        for _ in range(3):
            asked = optimizer.ask(1)
            assert rebuilt.ask(1) == asked
            for proposal in asked or [waiting.pop()]:
                for each in (optimizer, rebuilt):
                    each.tell(evaluate(proposal, task, 2, 0.2))

    def test_searches_under_a_bound_that_bites(self, task: Task) -> None:
        """With results that come late; again it is deterministic, and is rebuilt from its log."""
        task = bounded(task)
        optimizer = self.make(task).meta_fit(small_meta().select([1, 2, 3, 4, 5]))
        first, second, rebuilt = (optimizer.start(task, 4) for _ in range(3))
        waiting: list[Proposal] = []
        trials: list[Trial] = []
        for _ in range(8):
            asked = first.ask(2)
            assert second.ask(2) == asked
            for proposal in asked:
                rebuilt.restore(proposal)
            waiting += asked
            while len(waiting) > 2 or (waiting and not asked):
                trials.append(evaluate(waiting.pop(0), task, 4, 0.2))
                for each in (first, second, rebuilt):
                    each.tell(trials[-1])
        assert rebuilt.ask(1) == first.ask(1)
        assert len({(t.pipeline, t.proposal.fidelity) for t in trials}) == len(trials)

    def test_proposes_candidates_only_and_none_twice(self, task: Task) -> None:
        trials = self.drive(self.started(task), 25)
        task.candidates.encode([t.pipeline for t in trials])  # raises for one that is not a candidate
        assert len({(t.pipeline, t.proposal.fidelity) for t in trials}) == len(trials)

    def test_takes_the_initial_pipelines_first(self, task: Task) -> None:
        initial = tuple(task.candidates.sample(np.random.default_rng(8), 3))
        trials = self.drive(self.started(replace(task, initial=initial)), 6)
        assert tuple(t.pipeline for t in trials[:3]) == initial
        assert not set(initial) & {t.pipeline for t in trials[3:] if t.proposal.fidelity.is_full}

    @pytest.mark.parametrize("status", ["crashed", "timeout", "memory", "invalid"])
    def test_goes_on_when_everything_fails(self, task: Task, status: str) -> None:
        optimizer = self.started(task)
        for _ in range(12):
            (proposal,) = optimizer.ask(1)
            optimizer.tell(failed(proposal, status))
        assert len(optimizer.history) == 12

    def test_answers_parallel_asks(self, task: Task) -> None:
        optimizer = self.started(task)
        waiting: list[Proposal] = []
        done = 0
        while done < 16:
            asked = optimizer.ask(4)
            assert len(asked) <= 4
            waiting += asked
            assert waiting, "nothing is under way and nothing is proposed"
            if not self.waits:
                assert len(asked) == 4
            assert len({(p.pipeline, p.fidelity) for p in waiting}) == len(waiting)
            while waiting and (len(waiting) > 4 or not asked or self.waits):
                optimizer.tell(evaluate(waiting.pop(), task))
                done += 1
            if not self.waits:
                optimizer.tell(evaluate(waiting.pop(0), task))
                done += 1

    def test_copes_with_a_thousand_trials(self) -> None:
        if not self.live or not self.endless:
            pytest.skip("has no thousand pipelines to try")
        task = live_task()
        optimizer = self.started(task)
        feed(optimizer, random_trials(task, 1000))
        (proposal,) = optimizer.ask(1)
        assert proposal.number == 1000

    def test_uses_up_a_pool_and_says_so(self) -> None:
        if not self.pool or not self.endless:
            pytest.skip("does not go through a whole pool")
        meta = small_meta()
        task = replace(pool_task(meta), candidates=Pool(meta.pool(0).pool[:12]))
        optimizer = self.started(task)
        found = {t.pipeline.id for t in self.drive(optimizer, 12)}
        assert found == set(task.candidates.pool.ids.tolist())  # type: ignore[union-attr]
        with pytest.raises(Exhausted):
            optimizer.ask(1)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to be killed for real")
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_a_killed_run_resumes_as_if_nothing_had_happened(self, task: Task, n_jobs: int, tmp_path: Path) -> None:
        from headstart.store import Store

        optimizer = self.make(task).meta_fit(small_meta().select([1, 2, 3, 4, 5]))
        objective = Synthetic(task.space, 7, failing=0.2)
        straight = Study(task, objective, optimizer, seed=1).run(evaluations=12, n_jobs=n_jobs)

        def die(study: Study, trial: Trial) -> None:  # noqa: ARG001
            if trial.number == 6:
                os.kill(os.getpid(), signal.SIGKILL)

        child = os.fork()
        if child == 0:
            try:
                with Store.open(tmp_path / "store") as store:
                    study = Study(task, objective, optimizer, seed=1, store=store, callbacks=[die])
                    study.run(evaluations=12, n_jobs=n_jobs)
            finally:
                os._exit(1)  # not reached when the kill works
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL

        with Store.open(tmp_path / "store") as store:
            study = Study(task, objective, optimizer, seed=1, store=store, resume=True)
            assert len(study.history) >= 7
            resumed = study.run(evaluations=12, n_jobs=n_jobs)
        assert [t.proposal for t in resumed] == [t.proposal for t in straight]
        assert [t.outcome.loss for t in resumed] == [t.outcome.loss for t in straight]

    def test_describes_itself_as_json(self, task: Task) -> None:
        described = self.make(task).describe()
        assert json.loads(json.dumps(described)) == described
