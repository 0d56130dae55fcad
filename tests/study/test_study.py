"""The study: budgets, parallel runs, callbacks, interruption, resuming."""

import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from fakes import MultiStepOptimizer, TreeOptimizer

from headstart.constraints import Constraint
from headstart.errors import HeadstartError, HeadstartWarning, InvalidInput, StudyExists
from headstart.evaluation import FunctionObjective
from headstart.evaluation.recorded import Replay
from headstart.evaluation.synthetic import Synthetic
from headstart.optimizers.bayes import Bayes
from headstart.optimizers.portfolio import Portfolio
from headstart.optimizers.random import RandomSearch, draw_untried
from headstart.space import Algorithm, Float, PipelineSpace, Pool, Stage
from headstart.store import Store
from headstart.study import Study, loop
from headstart.task import Task
from headstart.testing.examples import live_task, pool_task, small_meta, small_space
from headstart.trials import Fidelity, Limits, Outcome, Proposal, Status


def synthetic(**options):
    return Synthetic(small_space(), 7, **options)


def proposals(history):
    return [t.proposal for t in history]


class TestBudget:
    def test_evaluations(self):
        study = Study(live_task(), synthetic())
        assert len(study.run(evaluations=7)) == 7
        assert study.reason == "evaluations"

    def test_evaluations_count_in_all(self):
        study = Study(live_task(), synthetic())
        study.run(evaluations=4)
        assert len(study.run(evaluations=9)) == 9
        assert proposals(study.history) == proposals(Study(live_task(), synthetic()).run(evaluations=9))

    def test_seconds(self):
        study = Study(live_task(), synthetic(seconds=0.02))
        history = study.run(seconds=0.5)
        assert study.reason == "seconds"
        assert 2 <= len(history) <= 25

    def test_whichever_comes_first(self):
        study = Study(live_task(), synthetic())
        assert len(study.run(seconds=60, evaluations=3)) == 3
        assert study.reason == "evaluations"

    def test_patience(self):
        losses = iter([0.5, 0.4, 0.6, 0.4, 0.9, 0.3])
        study = Study(live_task(), FunctionObjective(lambda p: next(losses)))
        assert len(study.run(evaluations=6, patience=3)) == 5
        assert study.reason == "patience"

    def test_exhausted(self):
        pipelines = small_space().sample(np.random.default_rng(0), 3)
        study = Study(live_task(), synthetic(), Portfolio(pipelines))
        assert [t.pipeline for t in study.run(evaluations=10)] == list(pipelines)
        assert study.reason == "exhausted"

    @pytest.mark.parametrize(
        ("budget", "message"),
        [
            ({}, "needs a budget"),
            ({"seconds": 0}, "seconds must be a positive number, got 0"),
            ({"seconds": -3}, "got -3"),
            ({"seconds": float("nan")}, "got nan"),
            ({"seconds": "60"}, "got '60'"),
            ({"evaluations": 0}, "evaluations must be a positive whole number"),
            ({"evaluations": 2.5}, "got 2.5"),
            ({"evaluations": True}, "got True"),
            ({"evaluations": 3, "n_jobs": 0}, "n_jobs must be"),
            ({"evaluations": 3, "patience": -1}, "patience must be"),
        ],
    )
    def test_bad_budgets_are_refused(self, budget, message):
        with pytest.raises(InvalidInput, match=message):
            Study(live_task(), synthetic()).run(**budget)


class TestOptimizer:
    def test_is_started_once_where_there_is_nothing_to_replay(self, tmp_path):
        starts = []

        class Counting(RandomSearch):
            def prepare(self):
                starts.append(self)

        Study(live_task(), synthetic(), Counting()).run(evaluations=3)
        assert len(starts) == 1
        with Store.open(tmp_path / "store") as store:
            study = Study(live_task(), synthetic(), Counting(), store=store)
            study.run(evaluations=3)
            assert len(starts) == 2
            study.run(evaluations=5)
        assert proposals(study.history) == proposals(Study(live_task(), synthetic()).run(evaluations=5))

    def test_one_that_was_told_nothing_but_a_pending_proposal_is_rebuilt(self):
        def objective(pipeline, limits, seed, fidelity):
            raise HeadstartError("not today")

        study = Study(live_task(), objective)
        with pytest.raises(HeadstartError):
            study.run(evaluations=3)
        study.objective = synthetic()
        assert [t.number for t in study.run(evaluations=3)] == [0, 1, 2]

    @pytest.mark.parametrize("n_jobs", [1, 3])
    def test_seconds_of_its_suggestions_are_counted(self, monkeypatch, n_jobs):
        task = replace(live_task(), initial=tuple(small_space().sample(np.random.default_rng(0), 4)))
        slept = []

        class Thinking(RandomSearch):
            def suggest(self, number, rng):
                slept.append(0.01)
                time.sleep(0.01)
                return super().suggest(number, rng)

        study = Study(task, FunctionObjective(lambda p: time.sleep(0.002) or 0.5), Thinking())
        study.run(evaluations=4, n_jobs=n_jobs)
        assert study.ask_seconds == 0
        study.run(evaluations=8, n_jobs=n_jobs)
        assert study.ask_seconds >= sum(slept) == pytest.approx(0.04)


class TestOutcomes:
    def test_failures_are_trials_too(self):
        def objective(pipeline):
            if pipeline.algorithms[1] == "knn":
                raise RuntimeError("no neighbours today")
            return float("nan") if pipeline.algorithms[1] == "svm" else 0.5

        history = Study(live_task(), FunctionObjective(objective)).run(evaluations=30)
        found = {t.pipeline.algorithms[1]: t.outcome for t in history}
        assert found["knn"].status is Status.CRASHED
        assert "no neighbours today" in found["knn"].error
        assert found["svm"].status is Status.INVALID
        assert found["naive_bayes"].loss == 0.5
        assert history.targets().tolist() == [0.5] * 30

    def test_a_run_in_which_everything_fails_says_so(self):
        def objective(pipeline):
            raise ImportError("no module named sklear")

        with pytest.warns(HeadstartWarning, match="none of the first 10 .* no module named sklear"):
            Study(live_task(), objective).run(evaluations=12)

    def test_an_executor_that_fails_does_not_end_the_run(self):
        class Flaky(Executor):
            calls = 0

            def submit(self, fn, /, *args, **kwargs):
                self.calls += 1
                future = Future()
                if self.calls % 2:
                    future.set_exception(OSError("node lost"))
                else:
                    future.set_result(fn(*args, **kwargs))
                return future

        history = Study(live_task(), synthetic()).run(evaluations=6, executor=Flaky())
        assert [t.outcome.status.value for t in history] == ["crashed", "ok"] * 3
        assert "node lost" in history.trials[0].outcome.error

    def test_a_mistake_in_the_set_up_ends_the_run(self):
        def objective(pipeline, limits, seed, fidelity):
            raise HeadstartError("the table is gone")

        with pytest.raises(HeadstartError, match="the table is gone"):
            Study(live_task(), objective).run(evaluations=3)

    def test_seeds_differ_by_proposal_and_follow_from_the_studys(self):
        def run(seed):
            seen = []
            Study(live_task(), FunctionObjective(lambda p, seed: seen.append(seed) or 0.0), seed=seed).run(
                evaluations=5
            )
            return seen

        assert run(1) == run(1)
        assert len({*run(1), *run(2)}) == 10
        assert all(0 <= s < 2**31 for s in run(1))


class Slow:
    """An objective whose evaluations end in another order than they began."""

    def __init__(self, seconds):
        self.seconds, self.inner = seconds, synthetic()

    def __call__(self, pipeline, limits, seed, fidelity):
        time.sleep(self.seconds * (seed % 5))
        return self.inner(pipeline, limits, seed, fidelity)


class TestParallel:
    def test_keeps_all_jobs_busy(self):
        running, most, lock = 0, 0, threading.Lock()

        def objective(pipeline):
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.02)
            with lock:
                running -= 1
            return 0.1

        Study(live_task(), FunctionObjective(objective)).run(evaluations=12, n_jobs=3)
        assert most == 3

    @pytest.mark.parametrize(
        "optimizer",
        ["random", Bayes("gp", n_initial=3, n_samples=50, n_starts=1), MultiStepOptimizer(), TreeOptimizer()],
    )
    def test_ordered_runs_are_the_same_each_time(self, optimizer):
        runs = [Study(live_task(), Slow(0.004 * k), optimizer).run(evaluations=14, n_jobs=3) for k in (0, 1, 2)]
        assert proposals(runs[0]) == proposals(runs[1]) == proposals(runs[2])
        assert [t.number for t in runs[1]] == list(range(14))

    @pytest.mark.parametrize("stored", [True, False])
    def test_runs_in_parts_are_the_same_as_in_one(self, stored, tmp_path):
        optimizer = Bayes("gp", n_initial=3, n_samples=20, n_starts=1)
        straight = Study(live_task(), Slow(0.002), optimizer).run(evaluations=14, n_jobs=3)
        seen = []
        with Store.open(tmp_path / "store") as store:
            options = {"store": store} if stored else {}
            study = Study(
                live_task(), Slow(0.002), optimizer, callbacks=[lambda s, t: seen.append(t.number)], **options
            )
            for n in (5, 6, 11, 14):
                assert len(study.run(evaluations=n, n_jobs=3)) == n
        assert proposals(study.history) == proposals(straight)
        assert sorted(seen) == list(range(14))

    def test_a_pool_is_used_up_although_results_wait_for_their_turn(self):
        class LowThenFull(RandomSearch):
            def suggest(self, number, rng):
                fidelity = Fidelity(rows=0.5) if number < 3 else Fidelity()
                return Proposal(number, draw_untried(self.history, rng, fidelity)[0], fidelity=fidelity)

        task = replace(pool_task(), candidates=Pool(pool_task().candidates.pool[:3]))
        for n_jobs, ordered in ((1, True), (2, True), (4, True), (4, False)):
            study = Study(task, synthetic(), LowThenFull())
            assert len(study.run(evaluations=10, n_jobs=n_jobs, ordered=ordered)) == 6
            assert study.reason == "exhausted"

    def test_an_executor_that_is_shut_down_loses_nothing(self):
        with ThreadPoolExecutor(1) as workers:
            study = Study(live_task(), synthetic(), callbacks=[lambda s, t: t.number == 3 and workers.shutdown()])
            with pytest.raises(HeadstartError, match="takes no more work"):
                study.run(evaluations=9, executor=workers)
        assert len(study.history) == 4
        assert len(study.run(evaluations=9)) == 9

    def test_unordered_runs_tell_at_once(self):
        history = Study(live_task(), Slow(0.01)).run(evaluations=14, n_jobs=3, ordered=False)
        assert sorted(t.number for t in history) == list(range(14))
        assert [t.number for t in history] != list(range(14))

    @pytest.mark.parametrize("executor", [ThreadPoolExecutor, ProcessPoolExecutor])
    def test_any_executor_of_the_standard_library(self, executor):
        expected = Study(live_task(), synthetic()).run(evaluations=6)
        with executor(2) as workers:
            history = Study(live_task(), synthetic()).run(evaluations=6, executor=workers)
        assert [t.outcome.loss for t in history] == [t.outcome.loss for t in expected]

    def test_dask(self):
        distributed = pytest.importorskip("distributed")
        expected = Study(live_task(), synthetic()).run(evaluations=6)
        with distributed.Client(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None) as client:
            history = Study(live_task(), synthetic()).run(evaluations=6, executor=client.get_executor(), n_jobs=2)
        assert [t.outcome.loss for t in history] == [t.outcome.loss for t in expected]


class TestCallbacks:
    def test_see_each_trial_once_and_may_stop(self):
        seen = []

        def callback(study, trial):
            seen.append(trial.number)
            assert study.history.trials[-1] is trial
            if trial.number == 4:
                study.stop("enough")

        study = Study(live_task(), synthetic(), callbacks=[callback])
        study.run(evaluations=50)
        assert seen == [0, 1, 2, 3, 4]
        assert study.reason == "enough"
        study.run(evaluations=7)  # a stop holds for one run
        assert seen == [0, 1, 2, 3, 4, 5, 6]

    def test_may_end_a_run_before_its_time(self):
        study = Study(
            live_task(), synthetic(), callbacks=[lambda s, t: s.end_by(time.time() - 1) if t.number else None]
        )
        assert len(study.run(seconds=600)) <= 3
        assert study.reason == "seconds"
        study.end_by(0.0)  # nothing runs
        assert len(study.run(evaluations=6)) == 6

    def test_may_not_make_a_run_longer(self):
        study = Study(live_task(), synthetic(), callbacks=[lambda s, t: s.end_by(time.time() + 600)])
        study.run(seconds=0.2)
        assert study.reason == "seconds"

    def test_may_change_the_limits_of_evaluations_to_come(self):
        class Noted:
            limits = []  # noqa: RUF012

            def __call__(self, pipeline, limits, seed, fidelity):
                self.limits.append(limits.seconds)
                return Outcome.of(0.5)

        def callback(study, trial):
            study.limits = replace(study.limits, seconds=2 * study.limits.seconds)

        Study(live_task(), Noted(), limits=Limits(seconds=1), callbacks=[callback]).run(evaluations=4)
        assert Noted.limits == [1, 2, 4, 8]

    def test_one_that_raises_loses_nothing(self, tmp_path):
        def callback(study, trial):
            if trial.number == 2:
                raise RuntimeError("full stop")

        with Store.open(tmp_path / "store") as store:
            with pytest.raises(RuntimeError, match="full stop"):
                Study(live_task(), synthetic(), store=store, callbacks=[callback]).run(evaluations=9)
            assert len(Study(live_task(), synthetic(), store=store, resume=True).history) == 3


class TestInterrupt:
    @pytest.mark.parametrize("n_jobs", [1, 2])
    def test_ctrl_c_keeps_what_is_finished(self, n_jobs):
        def callback(study, trial):
            if trial.number == 3:
                signal.raise_signal(signal.SIGINT)

        optimizer = Bayes("gp", n_initial=3, n_samples=20, n_starts=1)
        study = Study(live_task(), Slow(0.001), optimizer, callbacks=[callback])
        with pytest.raises(KeyboardInterrupt):
            study.run(evaluations=14, n_jobs=n_jobs)
        assert study.reason == "interrupted"
        assert 4 <= len(study.history) <= 6
        study.callbacks = []
        resumed = study.run(evaluations=14, n_jobs=n_jobs)
        straight = Study(live_task(), synthetic(), optimizer).run(evaluations=14, n_jobs=n_jobs)
        assert proposals(resumed) == proposals(straight)

    def test_ctrl_c_reaches_an_evaluation_in_this_process(self):
        calls = []

        def objective(pipeline):
            calls.append(pipeline)
            if len(calls) == 3:
                signal.raise_signal(signal.SIGINT)
            return 0.1

        study = Study(live_task(), FunctionObjective(objective))
        with pytest.raises(KeyboardInterrupt):
            study.run(evaluations=5)
        assert len(study.history) == 2
        again = study.run(evaluations=5)
        assert [t.number for t in again] == list(range(5))
        assert calls[2] == calls[3]  # what was under way runs again


class CutOff:
    """Pretends to be a sandbox: takes as long as it may and reports a time-out."""

    def __init__(self, number_that_lasts):
        self.calls, self.last = 0, number_that_lasts

    def __call__(self, pipeline, limits, seed, fidelity):
        self.calls += 1
        if self.calls < self.last:
            time.sleep(0.2)
            return Outcome.of(0.5)
        time.sleep(limits.now().seconds)
        return Outcome.failed(Status.TIMEOUT, "took longer")


class TestDeadline:
    def test_an_evaluation_cut_off_by_the_budget_stays_pending(self):
        study = Study(live_task(), CutOff(3), limits=Limits(seconds=30))
        history = study.run(seconds=0.6)
        assert len(history) == 2
        assert list(history.pending) == [2]
        study.objective = synthetic()
        assert [t.number for t in study.run(evaluations=5)] == list(range(5))

    def test_an_evaluation_that_needs_more_than_the_whole_budget_is_a_failure(self):
        study = Study(live_task(), CutOff(1))
        for n in (1, 2):  # else a run that is resumed again and again would never get beyond it
            history = study.run(seconds=0.2)
            assert len(history) == n
        assert "within the time budget of 0.2 s" in history[0].outcome.error

    def test_a_time_out_that_an_objective_reports_itself_is_a_trial(self):
        def objective(pipeline, limits, seed, fidelity):
            return Outcome.failed("timeout", "as recorded") if seed % 2 else Outcome.of(0.5)

        for n_jobs, ordered in ((1, None), (2, True), (2, False)):
            history = Study(live_task(), objective).run(seconds=60, evaluations=20, n_jobs=n_jobs, ordered=ordered)
            assert len(history) == 20

    def test_an_evaluation_over_its_own_limit_is_a_failure(self):
        history = Study(live_task(), CutOff(1), limits=Limits(seconds=0.01)).run(evaluations=2, seconds=60)
        assert [t.outcome.status for t in history] == [Status.TIMEOUT] * 2


class TestThinkingAhead:
    def pending(self, n_jobs, **budget):
        """Most proposals that were pending at once, each evaluation having waited for one more than there are jobs."""
        most = []

        def objective(pipeline):
            end = time.monotonic() + (20.0 if "evaluations" not in budget else 0.05)
            while len(study.history.pending) <= n_jobs and time.monotonic() < end and study._stop_reason is None:
                time.sleep(0.002)
            most.append(len(study.history.pending))
            return 0.5

        study = Study(live_task(), objective, callbacks=[lambda s, t: s.stop() if t.number >= 2 else None])
        study.run(n_jobs=n_jobs, **budget)
        return max(most)

    @pytest.mark.parametrize("n_jobs", [2, 3])
    def test_with_time_alone_the_next_one_is_chosen_while_all_jobs_are_busy(self, n_jobs):
        assert self.pending(n_jobs, seconds=600) == n_jobs + 1

    def test_a_number_of_evaluations_is_not_exceeded(self):
        assert self.pending(2, seconds=600, evaluations=3) == 2

    def test_what_was_chosen_and_not_started_is_run_first_later(self):
        def objective(pipeline):
            end = time.monotonic() + 20.0
            while len(study.history.pending) < 2 and time.monotonic() < end:
                time.sleep(0.002)
            study.stop()
            return 0.5

        study = Study(live_task(), objective)
        with ThreadPoolExecutor(1) as executor:
            study.run(seconds=600, executor=executor)
        assert list(study.history.pending) == [1]
        study.objective = FunctionObjective(lambda pipeline: 0.5)
        assert [t.number for t in study.run(evaluations=3)] == [0, 1, 2]


class TestConstraints:
    def test_the_best_trial_keeps_them(self):
        def objective(pipeline, seed):
            return Outcome.of(1.0 + seed % 97 * (seed % 3 == 0), constraints={"latency": float(seed % 3 != 0)})

        task = replace(live_task(), constraints=[Constraint("latency", 0.5)])
        history = Study(task, objective).run(evaluations=20)
        kept = [t.outcome.loss for t in history if t.outcome.constraints["latency"] <= 0.5]
        assert history.best.outcome.loss == min(kept) > min(t.outcome.loss for t in history)


class TestMistakes:
    @pytest.mark.parametrize(
        ("make", "message"),
        [
            (lambda: Study(live_task(), synthetic(), Bayes), r"got the class; call it: Bayes\(...\)"),
            (lambda: Study(live_task(), synthetic(), None), "got NoneType"),
            (lambda: Study(small_space(), synthetic()), r"make one with Task\(space\)"),
            (lambda: Study(live_task(), synthetic(), store="runs"), "use Store.open"),
            (lambda: Study(live_task(), synthetic(), limits=10), r"must be Limits\("),
            (lambda: Study(live_task(), 3), "function of a pipeline, got int"),
        ],
    )
    def test_a_wrong_type_is_refused_at_once(self, make, message):
        with pytest.raises(TypeError, match=message):
            make()

    def test_limits_that_cannot_be_kept_are_warned_about(self):
        with pytest.warns(HeadstartWarning, match="Sandbox"):
            Study(live_task(), lambda p: 0.0, limits=Limits(seconds=1))

    def test_numpy_numbers_will_do(self):
        assert len(Study(live_task(), synthetic(), seed=np.int64(3)).run(evaluations=np.int64(2))) == 2

    @pytest.mark.parametrize("limits", [{"seconds": "3"}, {"bytes": 0.5}, {"bytes": "2GB"}, {"seconds": 0}])
    def test_bad_limits(self, limits):
        with pytest.raises(InvalidInput, match="must be a positive"):
            Limits(**limits)
        assert Limits(bytes=2e9).bytes == 2_000_000_000


class TestInitial:
    def test_in_a_replay_a_missing_value_costs_an_evaluation(self):
        meta = small_meta(missing=0.3)
        missing = int(np.flatnonzero(np.isnan(meta.losses[0]))[0])
        task = replace(pool_task(meta), candidates=meta.everything, initial=[meta.pipelines[missing]])
        history = Study(task, Replay(meta, 0)).run(evaluations=3)
        assert history.trials[0].outcome.status is Status.CRASHED
        assert history.trials[1].outcome.loss == meta.losses[0][history.trials[1].pipeline.id - 100] or np.isnan(
            meta.losses[0][history.trials[1].pipeline.id - 100]
        )


class TestStore:
    def test_a_run_can_be_read_back(self, tmp_path):
        with Store.open(tmp_path / "store") as store:
            history = Study(live_task(), synthetic(failing=0.3), store=store, name="a").run(evaluations=8)
        with Store.open(tmp_path / "store") as store:
            stored = store.read_study("a").trials()
            assert [t.proposal for t in stored] == proposals(history)
            assert [t.outcome for t in stored] == [t.outcome for t in history]
            assert store.task("live").info["metric"] == "loss"

    def test_a_second_study_of_that_name_is_refused_unless_resumed(self, tmp_path):
        with Store.open(tmp_path / "store") as store:
            Study(live_task(), synthetic(), store=store).run(evaluations=2)
            with pytest.raises(StudyExists, match="study"):
                Study(live_task(), synthetic(), store=store)
            study = Study(live_task(), synthetic(), store=store, resume=True)
            assert len(study.history) == 2
            assert proposals(study.run(evaluations=6)) == proposals(Study(live_task(), synthetic()).run(evaluations=6))

    def test_resume_starts_anew_when_there_is_nothing(self, tmp_path):
        with Store.open(tmp_path / "store") as store:
            assert len(Study(live_task(), synthetic(), store=store, resume=True).run(evaluations=2)) == 2

    @pytest.mark.parametrize(
        ("change", "part"),
        [({"seed": 5}, "seed"), ({"optimizer": "bayes"}, "optimizer"), ({"task": live_task("another")}, "task")],
    )
    def test_only_the_same_study_is_resumed(self, tmp_path, change, part):
        with Store.open(tmp_path / "store") as store:
            Study(live_task(), synthetic(), store=store).run(evaluations=2)
            options = {"task": live_task(), "objective": synthetic(), "store": store, "resume": True, **change}
            with pytest.raises(InvalidInput, match=f"same {part}"):
                Study(**options)

    def test_a_task_of_another_space_is_not_resumed(self, tmp_path):
        def task(high, key):
            return Task(PipelineSpace("x", [Stage("s", [Algorithm("a", params=[Float("x", 0, high)])])]), key=key)

        with Store.open(tmp_path / "store") as store:
            Study(task(1, "k"), lambda p: 0.0, store=store).run(evaluations=2)
            for options in ({"resume": True}, {"name": "other"}):
                with pytest.raises(InvalidInput, match="another space"):
                    Study(task(100, "k"), lambda p: 0.0, store=store, **options)
        assert task(1, "").key != task(100, "").key
        assert task(1, "").key == task(1, "").key

    def test_artefacts_that_cannot_be_stored_make_a_trial_invalid(self, tmp_path):
        (tmp_path / "mine.bin").write_bytes(b"mine")

        def objective(pipeline, seed):
            bad = {"not a name": b"x"} if seed % 2 else {"mine": tmp_path / "mine.bin"}
            return Outcome.of(0.5, artefacts=bad)

        with Store.open(tmp_path / "store") as store:
            history = Study(live_task(), objective, store=store).run(evaluations=8)
        assert {t.outcome.status.value for t in history} == {"ok", "invalid"}
        assert (tmp_path / "mine.bin").read_bytes() == b"mine"

    def test_all_that_finished_is_stored_before_a_callback_may_fail(self, tmp_path, monkeypatch):
        # The loop looks again when all three have finished, not when the first has.
        monkeypatch.setattr(loop, "wait", lambda running, **_: concurrent.futures.wait(running))

        def callback(study, trial):
            raise RuntimeError("first one")

        with Store.open(tmp_path / "store") as store:
            study = Study(live_task(), lambda pipeline: 0.5, store=store, callbacks=[callback])
            with pytest.raises(RuntimeError):
                study.run(evaluations=3, n_jobs=3, ordered=False)
            assert len(store.read_study("study").trials()) == 3

    def test_artefacts_are_kept(self, tmp_path):
        def objective(pipeline):
            return Outcome.of(0.5, artefacts={"predictions": np.arange(5.0), "model": {"a": 1}})

        with Store.open(tmp_path / "store") as store:
            Study(live_task(), FunctionObjective(objective), store=store).run(evaluations=2)
            log = store.read_study("study")
            np.testing.assert_array_equal(log.artefact(1, "predictions"), np.arange(5.0))
            assert log.artefact(1, "model", trusted=True) == {"a": 1}

    def test_results_that_wait_for_their_turn_survive(self, tmp_path):
        """Trial 1 ends before trial 0; the process dies while 0 is under way."""
        script = f"""
import os, signal, sys, time
sys.path.insert(0, {str(tmp_path)!r})
from headstart import Limits, Store, Study
from headstart.testing.examples import live_task, small_space
from headstart.evaluation.synthetic import Synthetic

inner = Synthetic(small_space(), 7)
calls = []

def objective(pipeline, limits, seed, fidelity):
    calls.append(seed)
    if len(calls) == 1:
        time.sleep(60)
    return inner(pipeline, limits, seed, fidelity)

def watch(store):
    import threading
    def wait():
        while not any(s.n_trials == 1 for s in store.studies()):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Thread(target=wait).start()

store = Store.open({str(tmp_path / "store")!r})
study = Study(live_task(), objective, store=store)
watch(store)
study.run(evaluations=6, n_jobs=2)
"""
        killed = subprocess.run([sys.executable, "-c", script], timeout=60, check=False)
        assert killed.returncode == -signal.SIGKILL
        with Store.open(tmp_path / "store") as store:
            log = store.read_study("study")
            assert [t.number for t in log.untold()] == [1]
            finished = log.untold()[0].finished
            history = Study(live_task(), synthetic(), store=store, resume=True).run(evaluations=6, n_jobs=2)
        assert proposals(history) == proposals(Study(live_task(), synthetic()).run(evaluations=6, n_jobs=2))
        assert history.trials[1].finished == finished  # it was not run again


def test_the_default_is_random_search():
    assert isinstance(Study(live_task(), synthetic()).optimizer, RandomSearch)


def test_settings_are_json(tmp_path):
    with Store.open(tmp_path / "store") as store:
        portfolio = Portfolio([small_space().default()], then=Bayes("gp"))
        Study(live_task(), synthetic(), portfolio, store=store).run(evaluations=2)
        settings = store.read_study("study").settings
        assert json.loads(json.dumps(settings)) == settings
        assert settings["optimizer"]["then"]["surrogate"] == "gp"
        Study(live_task(), synthetic(), portfolio, store=store, resume=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX only")
def test_a_script_interrupted_from_outside_ends_cleanly(tmp_path):
    script = f"""
import signal
import time
from headstart import Store, Study
from headstart.testing.examples import live_task, small_space
from headstart.evaluation.synthetic import Synthetic
store = Store.open({str(tmp_path / "store")!r})
objective = Synthetic(small_space(), 7, seconds=0.05)
study = Study(live_task(), objective, store=store, callbacks=[lambda s, t: print(t.number, flush=True)])
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has its background jobs ignore it
try:
    study.run(seconds=60)
except KeyboardInterrupt:
    print(study.reason, len(store.read_study("study").trials()) == len(study.history))
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    lines = [process.stdout.readline() for _ in range(3)]
    assert lines == ["0\n", "1\n", "2\n"]
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert rest.splitlines()[-1] == "interrupted True"
