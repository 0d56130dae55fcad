"""`OptimizerContract`: what every optimizer must do."""

from __future__ import annotations

import itertools
import json
import os
import signal
from abc import abstractmethod
from collections.abc import Sequence
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
from headstart.testing.examples import bounded, evaluate, failed, feed, random_trials
from headstart.testing.learners import LearnerContract, search_with_late_results
from headstart.trials import Outcome, Proposal, Trial


class OptimizerContract(LearnerContract):
    """Subclass it in a test file, return your optimizer from `make`, and let pytest find the rest.

    ::

        class TestMine(OptimizerContract):
            def make(self, task):
                return MyOptimizer()
    """

    depends_on_candidates = True
    endless = True
    """Whether it goes on until all candidates are used up."""
    seeded = True
    """Whether another seed makes another run."""
    waits = False
    """Whether it may hold back proposals until results are in."""

    @abstractmethod
    def make(self, task: Task) -> Optimizer:
        """A new optimizer, before `meta_fit`; `task` is what it will be started on."""

    def new(self, task: Task) -> Optimizer:
        return self.make(task)

    def started(self, task: Task, seed: int = 0) -> Optimizer:
        return self.learned(task).start(task, seed)  # type: ignore[no-any-return]

    def answers(self, learner: Optimizer, task: Task) -> list[Proposal]:
        return [trial.proposal for trial in self.drive(learner.start(task, 7), 8)]

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
        anew = self.learned_anew(task).start(task, 3)
        assert [t.proposal for t in self.drive(anew, 12)] == first

    def test_another_seed_is_another_run(self, task: Task) -> None:
        if not self.seeded:
            pytest.skip("nothing about it is random")
        first = [t.pipeline for t in self.drive(self.started(task, 3), 12)]
        second = [t.pipeline for t in self.drive(self.started(task, 4), 12)]
        assert first != second

    def test_runs_do_not_disturb_each_other(self, task: Task) -> None:
        alone = [t.proposal for t in self.drive(self.started(task, 5), 15)]
        one, other = self.started(task, 5), self.started(task, 6)
        mixed = []
        for _ in range(15):
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

    def test_is_rebuilt_from_its_log(self, task: Task) -> None:
        optimizer = self.started(task, 2)
        log: list[Proposal | Trial] = []
        waiting: list[Proposal] = []
        followers: list[Optimizer] = []
        for step in range(27):
            if step in (1, 9, 24):
                followers = [self._rebuilt(task, 2, log)]
            asked = optimizer.ask(1 + step % 2)
            for rebuilt in followers:  # for three steps each
                assert rebuilt.ask(1 + step % 2) == asked
            log += asked
            waiting += asked
            if waiting and step % 3 != 1:  # results come late, and the latest first
                log.append(trial := evaluate(waiting.pop(), task, 2, 0.2))
                for each in (optimizer, *followers):
                    each.tell(trial)
            if step in (3, 11):
                followers = []

    def _rebuilt(self, task: Task, seed: int, log: Sequence[Proposal | Trial]) -> Optimizer:
        """A new run that is given what was written down of another one."""
        rebuilt = self.started(task, seed)
        for event in log:
            if isinstance(event, Proposal):
                rebuilt.restore(Proposal.from_dict(json.loads(json.dumps(event.to_dict()))))
            else:
                stored = json.loads(json.dumps(event.outcome.to_dict()))
                rebuilt.tell(replace(event, outcome=Outcome.from_dict(stored)))
        return rebuilt

    def test_searches_under_a_bound_that_bites(self, task: Task) -> None:
        """With results that come late; again it is deterministic, and is rebuilt from its log."""
        task = bounded(task, infeasible=2)
        first, second, rebuilt = (self.started(task, 4) for _ in range(3))
        search_with_late_results((first, second), rebuilt, asks=6, failing=0.2)

    def test_proposes_candidates_only_and_none_twice(self, task: Task) -> None:
        trials = self.drive(self.started(task), 25)
        task.candidates.encode([t.pipeline for t in trials])  # raises for one that is not a candidate
        assert len({(t.pipeline, t.proposal.fidelity) for t in trials}) == len(trials)

    def test_takes_the_initial_pipelines_first(self, task: Task) -> None:
        initial = tuple(task.candidates.sample(np.random.default_rng(8), 3))
        trials = self.drive(self.started(replace(task, initial=initial)), 6)
        assert tuple(t.pipeline for t in trials[:3]) == initial
        assert not set(initial) & {t.pipeline for t in trials[3:] if t.proposal.fidelity.is_full}

    def test_goes_on_when_everything_fails(self, task: Task) -> None:
        optimizer = self.started(task)
        for status in itertools.islice(itertools.cycle(["crashed", "timeout", "memory", "invalid"]), 12):
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
        task = self.at_hand("live")
        optimizer = self.started(task)
        feed(optimizer, random_trials(task, 1000))
        (proposal,) = optimizer.ask(1)
        assert proposal.number == 1000

    def test_uses_up_a_pool_and_says_so(self) -> None:
        if not self.pool or not self.endless:
            pytest.skip("does not go through a whole pool")
        task = self.at_hand("pool")
        task = replace(task, candidates=Pool(task.candidates.pool[:12]))  # type: ignore[index]
        optimizer = self.learned_anew(task).start(task)
        found = {t.pipeline.id for t in self.drive(optimizer, 12)}
        assert found == set(task.candidates.pool.ids.tolist())  # type: ignore[union-attr]
        with pytest.raises(Exhausted):
            optimizer.ask(1)

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork to be killed for real")
    def test_a_killed_run_resumes_as_if_nothing_had_happened(self, task: Task, tmp_path: Path) -> None:
        from headstart.store import Store

        optimizer, n_jobs = self.learned(task), 2
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
