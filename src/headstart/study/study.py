"""`Study`: the loop of optimizer × objective × executor × budget × store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import PurePath
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from headstart.errors import InvalidInput, check_positive, warn_user
from headstart.evaluation.cluster import Cluster, is_of_dask
from headstart.evaluation.objective import FunctionObjective, Objective, as_objective
from headstart.history import History
from headstart.optimizers.base import Optimizer
from headstart.registry import create
from headstart.study.loop import Loop
from headstart.task import Task
from headstart.trials import Limits, Proposal, Trial

if TYPE_CHECKING:
    from headstart.store import Store, StudyView

logger = logging.getLogger(__name__)

MOST_JOBS = 10_000
"""Threads, each of which waits for an evaluation elsewhere; they are started when they are needed."""
_DESCRIBING = ("metafeatures", "table")
"""Parts of a task that describe it, as far as a method asked and by names that may change."""
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
    >>> len(history), history.best.outcome.loss < 0.01, study.reason
    (20, True, 'evaluations')
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
        if not isinstance(task, Task):
            raise TypeError(f"task must be a Task, got {type(task).__name__}; make one with Task(space)")
        self.task = task
        self.objective = as_objective(objective)
        self.limits = limits if limits is not None else Limits()
        if not isinstance(self.limits, Limits):
            raise TypeError(f"limits must be Limits(seconds=..., bytes=...), got {limits!r}")
        if self.limits != Limits() and isinstance(self.objective, FunctionObjective):
            warn_user("limits cannot be kept for a function in this process; give the study Sandbox(function)")
        if isinstance(store, (str, PurePath)):
            raise TypeError(f"store must be an open Store, got {store!r}; use Store.open({str(store)!r})")
        self.store = store
        self.name = name
        self.callbacks = list(callbacks)
        self.reason: str | None = None
        self.ask_seconds = 0.0
        """What the optimizer's own suggestions took; the task's initial pipelines are none."""
        self._stop_reason: str | None = None
        self._loop: Loop | None = None
        self._files: TemporaryDirectory[str] | None = None
        self._events: list[Proposal | Trial] = []
        """Asks and tells in the order that counts: what `optimizer` is rebuilt from."""
        self._untold: dict[int, Trial] = {}
        """Trials that are finished and not among the events yet, because it was not their turn."""
        self._seen: set[int] = set()
        """Numbers of the trials that callbacks have seen."""
        self._template = _checked_optimizer(create("optimizer", optimizer))
        self.optimizer: Optimizer = self._template.start(task, seed)
        self.seed = self.optimizer.seed
        if store is not None:
            self._register(store, resume)

    def __repr__(self) -> str:
        return f"Study({self.name!r}, {type(self.optimizer).__name__}; {self.history!r})"

    @property
    def history(self) -> History:
        """All trials so far, those of a resumed run included."""
        return self.optimizer.history

    @property
    def n_finished(self) -> int:
        """How many trials are finished, those included that the optimizer has not been told yet."""
        return len({trial.number for trial in self.history} | self._untold.keys())

    @property
    def running(self) -> list[tuple[int, Proposal]]:
        """The proposals that are being evaluated, by number."""
        return [(n, p) for n, p in sorted(self.history.pending.items()) if n not in self._untold]

    def stop(self, reason: str = "stopped") -> None:
        """Let the run end after the evaluations under way; for callbacks and other threads."""
        self._stop_reason = reason

    def end_by(self, deadline: float) -> None:
        """Let a run with a time budget end earlier than that, at a Unix time; for callbacks.

        Evaluations under way keep the limits that they began with.
        """
        if self._loop is not None and self._loop.deadline is not None:
            self._loop.deadline = min(self._loop.deadline, deadline)

    # -- what is known --------------------------------------------------------------------------------------------

    def _register(self, store: Store, resume: bool) -> None:
        """Make the study known to the store, or take up the one that is there."""
        if resume and any(study.name == self.name for study in store.studies()):
            log = store.read_study(self.name)
            self._check_same(log, store.task(log.task_key).info)
            self._rebuild(log)
            for number in sorted(self._untold):
                self.optimizer.tell(self._untold[number])
            return
        kept = store.add_task(self.task.key, self.task.describe())
        self._check_task(kept.info)
        store.create_study(self.name, self.task.key, self.seed, {"optimizer": self._template.describe()}).close()

    def _check_same(self, log: StudyView, info: Mapping[str, Any]) -> None:
        found = {"task": log.task_key, "seed": log.seed, **log.settings}
        wanted = {"task": self.task.key, "seed": self.seed, "optimizer": self._template.describe()}
        for part, value in wanted.items():
            if found.get(part) != value:
                raise InvalidInput(
                    f"study {self.name!r} can only be resumed with the same {part}: it was {found.get(part)!r}, "
                    f"got {value!r}; give it another name to start anew"
                )
        self._check_task(info)

    def _check_task(self, info: Mapping[str, Any]) -> None:
        for part, value in self.task.describe().items():
            if part not in _DESCRIBING and info.get(part) != value:
                raise InvalidInput(
                    f"task {self.task.key!r} is in the store already with another {part}; a task of the same key must "
                    f"be the same problem: give Task(key=...) another key"
                )

    def _rebuild(self, log: StudyView | None) -> None:
        """An optimizer that has seen what the log says, in its order, and nothing else."""
        if log is not None:
            self._events = log.events()
            self._untold = {trial.number: trial for trial in log.untold()}
            self._seen |= {trial.number for trial in log.trials()}
        if len(self.history) or self.history.pending:  # else it is as good as new, and to start one may take long
            self.optimizer = self._template.start(self.task, self.seed)
        for event in self._events:
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
        n_jobs: int | Callable[[], int] | None = None,
        executor: Executor | None = None,
        patience: int | None = None,
        ordered: bool | None = None,
    ) -> History:
        """Search until a budget is used up; can be called again to go on.

        Parameters
        ----------
        seconds
            Wall-clock time of this call. In a `Sandbox`, evaluations still under way then are cut off and count as not
            done: they stay pending, and a later run takes them up again. (One that had nearly all of the budget is a
            ``timeout``.) A function in this process cannot be cut off: the run ends when it ends.
        evaluations
            Number of trials of the study in all, those of earlier calls and of a resumed run included.
        n_jobs
            Evaluations at once: a number, or a function that is asked for it again and again. One when omitted, on a
            cluster as many as it has threads.
        executor
            Runs them: anything shaped like `concurrent.futures.Executor`. Threads of this process when omitted, which
            is what a `Sandbox` wants. With that of a Dask client, ``client.get_executor()``, each evaluation runs in a
            sandbox on one of the cluster's workers.
        patience
            Stop when that many trials in a row of this call brought no improvement.
        ordered
            Tell results in the order of their proposals and never ask on the strength of a result that came early, so
            that with `n_jobs` > 1 the run is the same each time. Costs some idle time. By default it is done when only
            the number of evaluations is limited.

        Returns
        -------
        The history; `reason` says why the run ended.

        Notes
        -----
        Ctrl-C ends the evaluations under way and raises `KeyboardInterrupt` here. What was finished is in `history`
        and in the store; call `run` again to go on.
        """
        if seconds is None and evaluations is None and patience is None:
            raise InvalidInput("a run needs a budget: give seconds, evaluations, patience, or several of them")
        check_positive("seconds", seconds)
        check_positive("evaluations", evaluations, whole=True)
        check_positive("patience", patience, whole=True)
        if not callable(n_jobs):
            check_positive("n_jobs", n_jobs, whole=True)
        with ExitStack() as stack:
            objective = self.objective
            if is_of_dask(executor):
                cluster = Cluster(executor._client)  # type: ignore[union-attr]
                n_jobs = n_jobs or (lambda: cluster.n_jobs)
                objective, executor = stack.enter_context(cluster.sandbox(objective, spool=self._spool())), None
            jobs = n_jobs if callable(n_jobs) else partial(int, n_jobs or 1)
            at_first = jobs()
            in_order = at_first > 1 and (ordered if ordered is not None else seconds is None)
            if in_order:
                jobs = partial(int, at_first)  # what a proposal knows depends on it
            if executor is None:
                inline = n_jobs is None or n_jobs == 1
                executor = stack.enter_context(InlineExecutor() if inline else ThreadPoolExecutor(MOST_JOBS))
            if self.store is not None:
                self.store.wait_until = None if seconds is None else time.time() + seconds
            log = None if self.store is None else stack.enter_context(self.store.open_study(self.name))
            self._rebuild(log)
            self._loop = Loop(self, objective, executor, log, seconds, evaluations, jobs, patience, in_order)
            try:
                self.reason = self._loop.run()
            except BaseException as error:
                self.reason = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
                raise
            finally:
                self._stop_reason = self._loop = None
        logger.info("study %r ended: %s; %r", self.name, self.reason, self.history)
        return self.history

    def _spool(self) -> str:
        """A directory for artefacts that come from elsewhere; they last as long as the study does."""
        if self._files is None:
            self._files = TemporaryDirectory(prefix="headstart-study-")
        return self._files.name


def _checked_optimizer(optimizer: Any) -> Optimizer:
    if isinstance(optimizer, Optimizer):
        return optimizer
    if isinstance(optimizer, type):
        raise TypeError(f"optimizer must be an Optimizer, got the class; call it: {optimizer.__name__}(...)")
    raise TypeError(f"optimizer must be an Optimizer or the name of one, got {type(optimizer).__name__}")
