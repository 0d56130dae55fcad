"""One run of a study: what starts evaluations, takes their results and tells them to the optimizer."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headstart.errors import Exhausted, HeadstartError, InvalidInput, warn_user
from headstart.evaluation.objective import Objective, describe
from headstart.optimizers.base import evaluation_seed
from headstart.trials import Outcome, Proposal, Status, Trial

if TYPE_CHECKING:
    from headstart.store import StudyLog
    from headstart.study import Study

logger = logging.getLogger("headstart.study")

_SUSPICIOUS = 10
"""After so many evaluations without one that is ok, the user should know."""
_WHOLE_BUDGET = 0.9
"""An evaluation that had this share of the time budget and was cut off will not fit into another one either."""
_TICK_SECONDS = 0.5


@dataclass(eq=False)
class Loop:
    """One call of `Study.run`; see there for the parameters.

    A proposal is *asked*, its evaluation *finished* (stored at once), its trial *told* to the optimizer. Results are
    told as they come, or, if `in_order`, by their numbers and never earlier than needed.
    """

    study: Study
    objective: Objective
    executor: Executor
    log: StudyLog | None
    seconds: float | None
    evaluations: int | None
    jobs: Callable[[], int]
    patience: int | None
    in_order: bool

    def __post_init__(self) -> None:
        study, pending = self.study, self.study.history.pending
        self.deadline = None if self.seconds is None else time.time() + self.seconds
        self.running: dict[Future[Outcome], tuple[Proposal, float]] = {}
        self.finished = study._untold
        self.queue = [proposal for number, proposal in sorted(pending.items()) if number not in self.finished]
        """Proposals that run first, under their numbers: left pending by an earlier run, or waiting for a job."""
        self.asked = len(study.history) + len(pending)
        self.n_trials = len(study.history) + len(self.finished)
        self.without_improvement = 0

    @property
    def n_jobs(self) -> int:
        """Evaluations at once, now."""
        return self.jobs()

    def run(self) -> str:
        """Run until something says stop; returns what."""
        try:
            reason = self._run()
        except BaseException as error:
            self._abandon()
            if isinstance(error, KeyboardInterrupt):
                self._show_untold()
            raise
        # What has not had its turn is shown to the optimizer, so that the history is complete, but is not among the
        # events: the next run begins from those, as if this one had gone on.
        self._show_untold()
        return reason

    def _show_untold(self) -> None:
        for number in sorted(self.finished):
            self._show(self.finished[number])

    def _run(self) -> str:
        if not self.in_order:
            self._tell_all()
        while True:
            reason = self._why_stop()
            if reason is None:
                reason = self._fill()
            if not self.running:
                if reason is not None:
                    return reason
                raise HeadstartError(f"{self.study.optimizer!r} waits for results, but nothing is under way")
            if reason is None:
                self._think_ahead()
            done = set(self.running)
            if not all(future.done() for future in done):  # those of an inline executor are
                done = wait(done, timeout=_TICK_SECONDS, return_when=FIRST_COMPLETED).done
            # All are stored before any is told: telling runs the user's callbacks. By number, so that results that
            # came at once are taken in the same order each time.
            for future in sorted(done, key=lambda f: self.running[f][0].number):
                self._finish(future)
            if not self.in_order:
                self._tell_all()

    # -- start ----------------------------------------------------------------------------------------------------

    def _why_stop(self) -> str | None:
        """Why nothing more may be started, if so."""
        if self.study._stop_reason is not None:
            return self.study._stop_reason
        if self.deadline is not None and time.time() >= self.deadline:
            return "seconds"
        if self.patience is not None and self.without_improvement >= self.patience:
            return "patience"
        return None

    def _fill(self) -> str | None:
        """Start evaluations until all jobs are busy; returns why that ended for good, if it did."""
        while len(self.running) < self.n_jobs and self._why_stop() is None:
            if self.evaluations is not None and self.n_trials + len(self.running) >= self.evaluations:
                return "evaluations"
            if self.queue:
                self._submit(self.queue.pop(0))
                continue
            if self.in_order and not self._tell_up_to(self.asked - self.n_jobs):
                return None
            try:
                proposals = self._ask()
            except Exhausted as error:
                if self._tell_next():
                    continue  # what is under way may come free again, such as a pipeline tried at low fidelity
                logger.info("%s", error)
                return "exhausted"
            if not proposals:
                if self._tell_next():
                    continue  # it waits for more than it was told
                return None
            self._submit(proposals[0])
        return self._why_stop()

    def _think_ahead(self) -> None:
        """Choose what runs next while evaluations are under way, where nothing but time is counted.

        It then starts without delay as soon as a job is free; that it was chosen without the last result is the price.
        """
        wanted = self.deadline is not None and self.evaluations is None and not self.in_order and not self.queue
        if not wanted or len(self.running) < self.n_jobs or any(future.done() for future in self.running):
            return
        with suppress(Exhausted):  # asked again when a job is free
            self.queue += self._ask()

    def _ask(self) -> list[Proposal]:
        """Ask for the next proposal, if there is one, and log it."""
        study = self.study
        started = time.perf_counter()
        proposals = study.optimizer.ask(1)
        if self.asked >= len(study.optimizer.task.initial):
            study.ask_seconds += time.perf_counter() - started
        for proposal in proposals:
            self.asked += 1
            if self.log is not None:
                self.log.ask(proposal)
            study._events.append(proposal)
        return proposals

    def _submit(self, proposal: Proposal) -> None:
        seed = evaluation_seed(self.study.seed, proposal.number)
        started = time.time()
        limits = replace(self.study.limits, deadline=self.deadline)
        try:
            future = self.executor.submit(self.objective, proposal.pipeline, limits, seed, proposal.fidelity)
        except Exception as error:
            raise HeadstartError(f"the executor takes no more work, what is finished is kept: {error}") from error
        self.running[future] = (proposal, started)

    # -- take -----------------------------------------------------------------------------------------------------

    def _finish(self, future: Future[Outcome]) -> None:
        """Store the result of an evaluation, unless the end of the budget cut it off."""
        proposal, started = self.running.pop(future)
        try:
            outcome = future.result()
        except HeadstartError:
            raise  # a mistake in the set-up, which every evaluation would meet
        except Exception as error:  # an executor's own failure, such as a lost node
            outcome = Outcome.failed(Status.CRASHED, f"the executor failed: {describe(error)}")
        finished = time.time()
        if outcome.status is Status.TIMEOUT and self.deadline is not None and finished >= self.deadline:
            if finished - started < _WHOLE_BUDGET * (self.seconds or 0.0):
                return  # it stays pending
            outcome = replace(outcome, error=f"did not end within the time budget of {self.seconds:g} s")
        if outcome.fidelity != proposal.fidelity:
            outcome = replace(outcome, fidelity=proposal.fidelity)
        trial = Trial(proposal, outcome, started, finished)
        self.finished[proposal.number] = self._stored(trial)
        self.n_trials += 1

    def _stored(self, trial: Trial) -> Trial:
        if self.log is None:
            return trial
        try:
            return self.log.finish(trial, told=not self.in_order)
        except InvalidInput as error:  # an artefact of the objective's that no store takes
            failed = Outcome.failed(Status.INVALID, f"its artefacts cannot be stored: {error}")
            failed = replace(failed, seconds=trial.outcome.seconds, fidelity=trial.outcome.fidelity)
            return self.log.finish(replace(trial, outcome=failed), told=not self.in_order)

    # -- tell -----------------------------------------------------------------------------------------------------

    def _tell_up_to(self, last: int) -> bool:
        """Tell the trials up to number `last`, and no other; returns whether all of them are told.

        A proposal is asked for when exactly those `n_jobs` before it are told, whether or not later ones happen to be
        finished, so what it knows does not depend on how long anything took.
        """
        for number in sorted(self.study.history.pending):
            if number > last:
                break
            if number not in self.finished:
                return False
            self._tell(number)
        return True

    def _tell_next(self) -> bool:
        """Tell the next trial in order, if it is finished."""
        return bool(self.finished) and self._tell_up_to(min(self.study.history.pending))

    def _tell_all(self) -> None:
        for number in sorted(self.finished):
            self._tell(number)

    def _tell(self, number: int) -> None:
        trial = self.finished.pop(number)
        if self.log is not None and self.in_order:
            self.log.tell(number)  # otherwise it was logged with its result
        self.study._events.append(trial)
        self._show(trial)

    def _show(self, trial: Trial) -> None:
        """Tell the optimizer and, the first time, the callbacks."""
        self.study.optimizer.tell(trial)
        if self.patience is not None:
            self.without_improvement = 0 if self.study.history.best is trial else self.without_improvement + 1
        if trial.number in self.study._seen:
            return
        self.study._seen.add(trial.number)
        self._warn_if_all_fail(trial)
        for callback in self.study.callbacks:
            callback(self.study, trial)

    def _warn_if_all_fail(self, trial: Trial) -> None:
        trials = self.study.history.trials
        if len(trials) == _SUSPICIOUS and not any(t.outcome.ok for t in trials):
            warn_user(
                f"none of the first {_SUSPICIOUS} evaluations was ok; the last one: {trial.outcome.status.value}, "
                f"{trial.outcome.error}"
            )

    def _abandon(self) -> None:
        """End what is under way, which stays pending; keep what is finished."""
        done = [future for future in self.running if future.done()]
        for future in self.running:
            future.cancel()
        interrupt = getattr(self.objective, "interrupt", None)
        if interrupt is not None:
            interrupt()
        for future in done:
            try:
                self._finish(future)
            except HeadstartError as error:
                logger.warning("a finished evaluation is not kept: %s", error)
