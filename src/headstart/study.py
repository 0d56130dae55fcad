"""`Study`: the loop of optimizer × objective × executor × budget × store."""

from __future__ import annotations

import logging
import math
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from headstart.errors import Exhausted, HeadstartError, HeadstartWarning, InvalidInput
from headstart.evaluation.objective import Objective, as_objective, describe
from headstart.history import History
from headstart.optimizers.base import Optimizer, evaluation_seed
from headstart.registry import create
from headstart.task import Task
from headstart.trials import Limits, Outcome, Proposal, Status, Trial

if TYPE_CHECKING:
    from headstart.store import Store, StudyLog, StudyView

logger = logging.getLogger(__name__)

_SUSPICIOUS = 10
"""After so many evaluations without one that is ok, the user should know."""

Callback = Callable[["Study", Trial], None]


class InlineExecutor(Executor):
    """Runs each call at once, in the calling thread: no hand-over, and Ctrl-C reaches the call itself."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class Study:
    """Searches for a good pipeline for one task: ask → evaluate → tell, until a budget is used up.

    Parameters
    ----------
    task
        What is known of the problem.
    objective
        Evaluates a pipeline: an `Objective`, or a function from a pipeline to a loss. Wrap it in a `Sandbox` to have
        its limits kept.
    optimizer
        A name in the registry, or an object. It is not changed: the study starts its own from it.
    seed
        Everything random follows from it.
    limits
        For each evaluation.
    store, name
        Where the run is kept, and what it is called there. Without a store it lives in memory only.
    resume
        Go on with the study of that name if there is one. Without it, one that exists is an error.
    callbacks
        Each is called with the study and the trial after a trial was told; may call `stop`.

    Examples
    --------
    >>> from headstart.space import Algorithm, Float, PipelineSpace, Stage
    >>> space = PipelineSpace("line", [Stage("s", [Algorithm("a", params=[Float("x", -1, 1)])])])
    >>> study = Study(Task(space), lambda pipeline: pipeline.params[0]["x"] ** 2, seed=1)
    >>> history = study.run(evaluations=20)
    >>> len(history), round(history.best.outcome.loss, 4), study.reason
    (20, 0.0025, 'evaluations')
    """

    def __init__(
        self,
        task: Task,
        objective: Objective | Callable[..., Any],
        optimizer: Optimizer | str = "random",
        *,
        seed: int = 0,
        limits: Limits | None = None,
        store: Store | None = None,
        name: str = "study",
        resume: bool = False,
        callbacks: Iterable[Callback] = (),
    ) -> None:
        self.task = task
        self.objective = as_objective(objective)
        self.seed = seed
        self.limits = limits if limits is not None else Limits()
        self.store = store
        self.name = name
        self.callbacks = list(callbacks)
        self.reason: str | None = None
        self._template: Optimizer = create("optimizer", optimizer)
        self.optimizer: Optimizer = self._template.start(task, seed)
        if store is not None:
            self._register(store, resume)

    @property
    def history(self) -> History:
        """All trials so far, those of a resumed run included."""
        return self.optimizer.history

    def stop(self, reason: str = "stopped") -> None:
        """Let the run end after the evaluations under way; for callbacks and other threads."""
        self._stop_reason = reason

    _stop_reason: str | None = None

    # -- store --------------------------------------------------------------------------------------------------

    def _settings(self) -> dict[str, Any]:
        return {"optimizer": self._template.describe()}

    def _register(self, store: Store, resume: bool) -> None:
        """Make the study known to the store, or take up the one that is there."""
        if resume and any(study.name == self.name for study in store.studies()):
            log = store.read_study(self.name)
            self._check_same(log)
            self._replay(log)
            return
        store.add_task(self.task.key, self.task.describe())
        store.create_study(self.name, self.task.key, self.seed, self._settings()).close()

    def _check_same(self, log: StudyView) -> None:
        found = {"task": log.task_key, "seed": log.seed, **log.settings}
        wanted = {"task": self.task.key, "seed": self.seed, **self._settings()}
        for part, value in wanted.items():
            if found.get(part) != value:
                raise InvalidInput(
                    f"study {self.name!r} can only be resumed with the same {part}: it was {found.get(part)!r}, "
                    f"got {value!r}; give it another name to start anew"
                )

    def _replay(self, log: StudyView) -> None:
        """Rebuild the optimizer from the log."""
        self.optimizer = self._template.start(self.task, self.seed)
        for event in log.events():
            if isinstance(event, Proposal):
                self.optimizer.restore(event)
            else:
                self.optimizer.tell(event)

    # -- the loop -----------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        seconds: float | None = None,
        evaluations: int | None = None,
        n_jobs: int = 1,
        executor: Executor | None = None,
        patience: int | None = None,
        ordered: bool | None = None,
    ) -> History:
        """Search until a budget is used up; can be called again to go on.

        Parameters
        ----------
        seconds
            Wall-clock time of this call. Evaluations still under way then are cut off by their limit and count as not
            done: they stay pending, and a later run takes them up again.
        evaluations
            Number of trials of the study in all, those of earlier calls and of a resumed run included.
        n_jobs
            Evaluations at once.
        executor
            Runs them: anything shaped like `concurrent.futures.Executor`, such as a Dask client's. Threads of this
            process when omitted, which is what a `Sandbox` wants.
        patience
            Stop when that many trials in a row brought no improvement.
        ordered
            Tell results in the order of their proposals and never ask on the strength of a result that came early, so
            that with `n_jobs` > 1 the run is the same each time. Costs some idle time. By default it is done when only
            the number of evaluations is limited.

        Returns
        -------
        The history; `reason` says why the run ended.
        """
        if seconds is None and evaluations is None and patience is None:
            raise InvalidInput("a run needs a budget: give seconds, evaluations, patience, or several of them")
        _check_positive("seconds", seconds)
        _check_positive("evaluations", evaluations)
        _check_positive("patience", patience)
        _check_positive("n_jobs", n_jobs)
        with ExitStack() as stack:
            if executor is None:
                executor = stack.enter_context(InlineExecutor() if n_jobs == 1 else ThreadPoolExecutor(n_jobs))
            log = None
            if self.store is not None:
                log = stack.enter_context(self.store.open_study(self.name))
                self._replay(log)
            loop = _Loop(self, executor, log, seconds, evaluations, n_jobs, patience)
            loop.ordered = n_jobs > 1 and (ordered if ordered is not None else seconds is None)
            self._stop_reason = None
            self.reason = loop.run()
        logger.info("study %r ended: %s; %r", self.name, self.reason, self.history)
        return self.history


def _check_positive(name: str, value: float | None) -> None:
    if value is None:
        return
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    whole = name == "seconds" or isinstance(value, int)
    if not (number and whole and value > 0 and not math.isnan(value)):
        raise InvalidInput(
            f"{name} must be a positive {'number' if name == 'seconds' else 'whole number'}, got {value!r}"
        )


class _Loop:
    """One call of `Study.run`."""

    ordered = False

    def __init__(
        self,
        study: Study,
        executor: Executor,
        log: StudyLog | None,
        seconds: float | None,
        evaluations: int | None,
        n_jobs: int,
        patience: int | None,
    ) -> None:
        self.study = study
        self.executor = executor
        self.log = log
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.evaluations = evaluations
        self.n_jobs = n_jobs
        self.patience = patience
        self.running: dict[Future[Outcome], tuple[Proposal, Limits, float]] = {}
        finished = {} if log is None else {t.number: t for t in log.untold()}
        pending = study.history.pending
        self.finished: dict[int, Trial] = finished
        """Trials that are done and not told yet, because it is not their turn."""
        self.queue = [p for number, p in sorted(pending.items()) if number not in finished]
        """Proposals that an earlier run left pending; they run first, under their numbers."""
        self.asked = len(study.history) + len(pending)

    def run(self) -> str:
        try:
            reason = self._run()
        except KeyboardInterrupt:
            self._abandon()
            logger.warning("interrupted; what was finished is kept")
            reason = "interrupted"
        except BaseException:
            self._abandon()
            raise
        self._tell_finished()
        return reason

    def _run(self) -> str:
        if not self.ordered:
            self._tell_finished()
        while True:
            reason = self._why_stop()
            if reason is None:
                reason = self._fill()
            if not self.running:
                if reason is not None:
                    return reason
                raise HeadstartError(f"{self.study.optimizer!r} waits for results, but nothing is under way")
            done, _ = wait(self.running, timeout=0.5, return_when=FIRST_COMPLETED)
            # By number, so that results that came at once are taken in the same order each time.
            for future in sorted(done, key=lambda f: self.running[f][0].number):
                self._take(future)

    def _left(self) -> float | None:
        return None if self.deadline is None else self.deadline - time.monotonic()

    def _why_stop(self) -> str | None:
        """Why nothing more may be started, if so."""
        left = self._left()
        if self.study._stop_reason is not None:
            return self.study._stop_reason
        if left is not None and left <= 0:
            return "seconds"
        if self.patience is not None and self._without_improvement() >= self.patience:
            return "patience"
        return None

    def _without_improvement(self) -> int:
        trials = self.study.history.trials
        best = self.study.history.best
        since = (i for i, trial in enumerate(reversed(trials)) if trial is best)
        return next(since, len(trials))

    def _fill(self) -> str | None:
        """Start evaluations until all jobs are busy; returns why that ended for good, if it did."""
        while len(self.running) < self.n_jobs and self._why_stop() is None:
            if self.queue:
                self._submit(self.queue.pop(0))
                continue
            if self.evaluations is not None and self.asked >= self.evaluations:
                return "evaluations"
            if self.ordered and not self._tell_in_order(self.asked - self.n_jobs):
                return None
            try:
                proposals = self.study.optimizer.ask(1)
            except Exhausted as error:
                logger.info("%s", error)
                return "exhausted"
            if not proposals:
                if self.finished and self._tell_in_order(min(self.study.history.pending)):
                    continue  # it waits for more than it was told; the next result in order is there
                return None
            self.asked += 1
            if self.log is not None:
                self.log.ask(proposals[0])
            self._submit(proposals[0])
        return self._why_stop()

    def _submit(self, proposal: Proposal) -> None:
        left = self._left()
        limits = self.study.limits.within(None if left is None else max(left, 1e-3))
        seed = evaluation_seed(self.study.seed, proposal.number)
        started = time.time()
        future = self.executor.submit(self.study.objective, proposal.pipeline, limits, seed, proposal.fidelity)
        self.running[future] = (proposal, limits, started)

    def _take(self, future: Future[Outcome]) -> None:
        proposal, limits, started = self.running.pop(future)
        try:
            outcome = future.result()
        except HeadstartError:
            raise  # a mistake in the set-up, which every evaluation would meet
        except Exception as error:  # an executor's own failure, such as a lost node
            outcome = Outcome.failed(
                Status.CRASHED, f"the executor failed: {describe(error)}", fidelity=proposal.fidelity
            )
        if outcome.status is Status.TIMEOUT and limits != self.study.limits:
            return  # cut off by the end of the budget, not by its own limit: it stays pending
        trial = Trial(proposal, outcome, started, time.time())
        if self.log is not None:
            trial = self.log.finish(trial, told=not self.ordered)
        self.finished[proposal.number] = trial
        if not self.ordered:
            self._tell(proposal.number)

    def _tell_in_order(self, last: int) -> bool:
        """Tell the trials up to number `last`, and no other; returns whether all of them are told.

        A proposal is asked for when exactly those `n_jobs` before it are told, whether or not later ones happen to be
        finished, so what it knows does not depend on how long anything took.
        """
        for number in sorted(self.study.history.pending):
            if number > last:
                break
            if number not in self.finished:
                return False
            self._tell_logged(number)
        return True

    def _tell_finished(self) -> None:
        """Tell all that waited for its turn."""
        for number in sorted(self.finished):
            self._tell_logged(number)

    def _tell_logged(self, number: int) -> None:
        if self.log is not None:
            self.log.tell(number)
        self._tell(number)

    def _tell(self, number: int) -> None:
        trial = self.finished.pop(number)
        self.study.optimizer.tell(trial)
        self._warn_if_all_fail(trial)
        for callback in self.study.callbacks:
            callback(self.study, trial)

    def _warn_if_all_fail(self, trial: Trial) -> None:
        trials = self.study.history.trials
        if len(trials) == _SUSPICIOUS and not any(t.outcome.ok for t in trials):
            warnings.warn(
                f"none of the first {_SUSPICIOUS} evaluations was ok; the last one: {trial.outcome.status.value}, "
                f"{trial.outcome.error}",
                HeadstartWarning,
                stacklevel=2,
            )

    def _abandon(self) -> None:
        """End what is under way; it stays pending."""
        interrupt = getattr(self.study.objective, "interrupt", None)
        for future in self.running:
            future.cancel()
        if interrupt is not None:
            interrupt()
