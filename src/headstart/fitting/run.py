"""`Run`: one fit, from a dataset to a model within a budget."""

from __future__ import annotations

import hashlib
import shutil
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.data.target import IMBALANCE, default_metric
from headstart.errors import InvalidInput, SandboxError, StoreAway, StudyExists, warn_user
from headstart.evaluation.cluster import Cluster
from headstart.evaluation.live import LiveObjective
from headstart.evaluation.objective import Objective
from headstart.evaluation.sandbox import Sandbox
from headstart.evaluation.scoring import Metric, label_of
from headstart.fitting.assembly import LOADING_SECONDS, Assembly
from headstart.fitting.clock import within
from headstart.fitting.model import Model
from headstart.fitting.plan import make_plan, possible_parts, possible_splits
from headstart.fitting.progress import Progress
from headstart.fitting.references import LIGHTGBM, LINEAR, WithReferences, evaluate_references
from headstart.fitting.refit import evaluate_all
from headstart.fitting.saving import saved_size_of_fold
from headstart.fitting.scratch import scratch_directory
from headstart.fitting.settings import Settings, choose_space
from headstart.fitting.shelf import CAPACITY, CAPACITY_BYTES, Shelf
from headstart.fitting.simple import WithSimple
from headstart.fitting.summary import linear_trial
from headstart.history import History
from headstart.knowledge.files import Knowledge, optimizer_in
from headstart.metafeatures.tables import table_metafeatures
from headstart.optimizers.base import Optimizer, evaluation_seed
from headstart.optimizers.portfolio import Default
from headstart.optimizers.warm_start import N_INITIAL, with_warm_start
from headstart.registry import create
from headstart.space.distinct import distinct
from headstart.store import Store
from headstart.study import Study
from headstart.task import Task
from headstart.trials import Status, Trial

if TYPE_CHECKING:
    from headstart.constraints import Constraint
    from headstart.data.dataset import Dataset
    from headstart.data.splits import Splits
    from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]

RESTOCK_SHARE = 0.4
"""Most of a resumed budget that goes into models of an earlier process."""
REFIT_SHARE = 0.25
"""Of the time budget, at most, for fitting the members on all rows, as far as they are."""
ENLARGE_SHARE = 0.4
"""Of the time budget, for fitting the best members on more rows, where the search had a part of a large table."""
_READING_SHARE = 0.25
"""A table that takes more of the budget to be read is worth a note."""
_REFITTED = 8
"""So many of the best pipelines may become members."""
_REFIT_START = 1.0
"""Seconds that the worker for refits takes to start on a machine with nothing else to do."""
_LEAST_SECONDS = 0.1
_MODEL_SECONDS = 0.5
"""Of a processor, to choose an ensemble and its decisions."""
_MOST_FOR_MODEL = 0.4
"""Of the time budget, for the model, however slow the machine is."""
_REPORT_SHARE, _REPORT_LEAST, _REPORT_MOST = 0.06, 0.3, 6.0
"""Of the time budget, for a report if one is wanted; seconds that are added to that, and most of them in all."""
_REFERENCES_SHARE = 0.4
"""Of the time for a report, for the models that it compares with."""
_REFERENCES_SECONDS = 30.0
"""For them without a time budget."""


class Run:
    """One fit: search for pipelines, then make a model of the best.

    Parameters
    ----------
    dataset, settings
        What to learn from, and how.
    resume
        Continue the newest run of the same task in the store, or the study of this name.
    started
        Unix time when the budget began; now by default.
    reserve
        Seconds of the budget for what the caller does with the model, such as writing it.
    progress
        Is told what happens.

    Attributes
    ----------
    table
        What was given to learn from.
    rows, dataset
        Positions of the rows of it that are searched on, None for all of them, and these as a dataset.

    Notes
    -----
    Without ``settings.store`` the trials are kept in a temporary store that is removed with the run. `search` may be
    called again, with more time; `finish` makes a model of all that was found. Both stay within the budget that began
    with `started`, or with the last `restart`.
    """

    def __init__(
        self,
        dataset: Dataset,
        settings: Settings,
        *,
        resume: bool | str = False,
        started: float | None = None,
        reserve: float = 0.0,
        progress: Progress | None = None,
    ) -> None:
        if dataset.y is None or dataset.task is None:
            raise InvalidInput("the dataset must have a target, it has none; name the column to predict")
        self.started = time.time() if started is None else started
        self.table = dataset
        self.dataset = dataset
        self.progress = progress or Progress()
        self.reserve = reserve
        self.space = choose_space(settings, dataset.task)
        self.metric = Metric(
            settings.metric if settings.metric is not None else default_metric(dataset.task), dataset.task
        )
        self.settings = self._checked(settings)
        self.directory = scratch_directory(self)
        location = settings.store if settings.store is not None else self.directory / "store"
        self.store = Store.open(location if isinstance(location, str) else Path(location))
        weakref.finalize(self, self.store.close)
        self._stack = ExitStack()
        self._cluster: Cluster | None = None
        self.rows = next(possible_parts(dataset, settings))
        splits = self._earlier_splits() if resume else None
        if splits is None and self.rows is not None:
            self.dataset = dataset.take(self.rows)
        self.plan = make_plan(self.dataset, settings, splits, self.cluster)
        self.task = Task(
            distinct(self.space, self.dataset),
            key=self._key(self.plan.splits),
            metric=self.metric.name,
            dataset=self.dataset,
            constraints=settings.bounds,
        )
        self.objective = LiveObjective(
            self.space,
            self.dataset,
            self.plan.splits,
            self.metric.given,
            {c.name: saved_size_of_fold if c.name == "size" else None for c in settings.bounds},
            keep_models=True,
        )
        room = min(CAPACITY_BYTES, shutil.disk_usage(self.directory).free / 4)
        self.shelf = Shelf(self.objective, max(CAPACITY, settings.max_members), room, settings.bounds)
        self._evaluator: Objective | None = None
        self._slowdown = 1.0
        """How many times slower than alone on a machine our processes run, as far as that is known."""
        self.study = self._new_study(resume)
        self._considered: frozenset[int] = frozenset()
        """Trials that a model of an earlier process was made of, or could have been."""
        self.notes: list[str] = []
        self.references: dict[str, Array] = {}
        """What simple models predict, by name; see `headstart.fitting.references`."""
        self._on_metric = self._about_metric()
        self.about_size = self._about_size()
        """What of a large table is searched on, in words."""

    def _about_size(self) -> list[str]:
        """What of a large table is searched on, and whether reading it took much of the time."""
        notes = []
        seconds = self.settings.seconds
        if seconds is not None and self.elapsed > max(1.0, _READING_SHARE * seconds):
            notes.append(f"starting and reading took {self.elapsed:.0f} s of the {seconds:g} s; give more time")
        if self.rows is not None:
            notes.append(
                f"pipelines were tried on a stratified part of {self.dataset.n_rows:,} of the {self.table.n_rows:,} "
                f"rows, {sum(len(valid) for _, valid in self.plan.splits):,} of them to validate"
            )
        return notes

    def _checked(self, settings: Settings) -> Settings:
        """The settings, if they are possible with the metric."""
        if settings.tune_threshold and self.metric.of_labels is False:
            raise InvalidInput(
                f"tune_threshold needs a metric of labels, such as f1 or balanced_accuracy, got {self.metric.name!r}"
            )
        return settings

    def _about_metric(self) -> list[str]:
        """Which class the metric is about; a warning where that is hardly the one that is looked for."""
        classes, y = self.dataset.classes, self.dataset.y
        if not self.metric.of_one_class or classes is None or y is None:
            return []
        other, positive = (repr(label) for label in classes.tolist())
        share = float(np.mean(y))
        note = f"{label_of(self.metric.name)} is that of {positive}, the last of the labels in order"
        if 1 - share > IMBALANCE * share:
            return [] if classes.dtype.kind in "biuf" else [note]
        note += f", as {100 * share:.3g} % of the rows are; if you look for {other}, rename it so that it comes last"
        warn_user(note)
        return [note]

    def _key(self, splits: Splits) -> str:
        return task_key(self.dataset, splits, self.metric, self.space, self.settings.bounds)

    def _stem(self, key: str) -> str:
        """Prefix of the names of a task's studies."""
        return f"{self.dataset.name[:100]}-{key[-8:]}-seed{self.settings.seed}"

    def _earlier_splits(self) -> Splits | None:
        """The splits of a run in the store, which may have had another budget; None if there is no run of this task."""
        there = {s.name for s in self.store.studies()}
        wanted = self.rows
        for rows in possible_parts(self.table, self.settings):
            self.rows, self.dataset = rows, self.table if rows is None else self.table.take(rows)
            for splits in possible_splits(self.dataset, self.settings, self.cluster):
                if f"{self._stem(self._key(splits))}-1" in there:
                    return splits
        self.rows, self.dataset = wanted, self.table
        return None

    def _new_study(self, resume: bool | str) -> Study:
        stem = self._stem(self.task.key)
        there = {s.name: s for s in self.store.studies()}
        number = 1
        while f"{stem}-{number}" in there:
            number += 1
        name = f"{stem}-{number - 1 if resume and number > 1 else number}"
        if isinstance(resume, str) and resume in there:
            name = resume
        files = []
        for path in self.settings.knowledge_files:
            with within(self.settings.seconds, f"reading {path}"):
                files.append(Knowledge.load(path))
        start, used = self._warm_start(files)
        left = [known for known in files if known is not used]
        if len(left) > 1:
            raise InvalidInput(
                f"knowledge is one file for the optimizer and one for a warm start, got {len(left)} files for the "
                "optimizer; leave others out"
            )
        knowledge = left[0] if left else None
        optimizer = self._optimizer(knowledge, there[name].settings if name in there else {})
        if start is not None:
            begun = with_warm_start(self._described(start, used), start, self.settings.n_initial, self.settings.seed)
            self.task = replace(self.task, initial=begun.initial)
        self.task = self._described(optimizer, knowledge)
        try:
            return Study(
                self.task,
                self.shelf,
                optimizer,
                seed=self.settings.seed,
                limits=self.plan.limits,
                store=self.store,
                name=name,
                resume=bool(resume),
                callbacks=[_Callback(self)],
            )
        except StudyExists:
            if name in there:
                raise
            return self._new_study(resume)  # another fit of the same table took the name since we looked

    def _warm_start(self, files: Sequence[Knowledge]) -> tuple[Optimizer | None, Knowledge | None]:
        """The optimizer whose first pipelines are tried first, and what it learned, if it did."""
        asked = self.settings.warm_start
        if not asked and self.settings.n_initial != N_INITIAL:
            raise InvalidInput(
                "n_initial (--initial) says how many pipelines a warm start gives: name one with warm_start "
                "(--warm-start)"
            )
        if not asked:  # scikit-learn's own tools set it to False
            return None, None
        if not isinstance(asked, str):
            return asked, None
        made: Optimizer = create("optimizer", asked)
        if not made.learns:
            return made, None
        return optimizer_in(files, asked)

    def _described(self, optimizer: Optimizer, knowledge: Knowledge | None) -> Task:
        """The task with the meta-features that an optimizer needs."""
        if not isinstance(optimizer, Optimizer) or not optimizer.needs.metafeatures:
            return self.task
        extractors = {} if knowledge is None else knowledge.extractors
        with within(self.settings.seconds, "computing the meta-features of the table"):
            vectors = table_metafeatures(self.dataset, optimizer.needs.metafeatures, extractors)
        return replace(self.task, metafeatures=vectors)

    def _optimizer(self, knowledge: Knowledge | None, earlier: Mapping[str, Any]) -> Optimizer:
        """The optimizer; our own choices mind time where that is what is short, or as they did in the earlier run."""
        before = earlier.get("optimizer", {})
        acquisition = before.get("acquisition", "log_ei_per_second" if self.settings.seconds is not None else "log_ei")
        per_second = before.get("per_second", acquisition == "log_ei_per_second")
        if knowledge is not None:
            return knowledge.optimizer(self.settings.optimizer, per_second=per_second)
        if self.settings.optimizer != "default":
            return create("optimizer", self.settings.optimizer)  # type: ignore[no-any-return]
        return Default(self.plan.screen, per_second=per_second)

    # -- time -----------------------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds since the budget began."""
        return time.time() - self.started

    @property
    def end(self) -> float | None:
        """Unix time at which the model must be there: the rest is for a report and for what the caller does with it."""
        end = self.report_end
        return None if end is None else end - (1 - _REFERENCES_SHARE) * self.report_seconds

    @property
    def report_end(self) -> float | None:
        """Unix time at which the budget ends, but for what the caller does with the model."""
        return None if self.settings.seconds is None else self.started + self.settings.seconds - self.reserve

    @property
    def report_seconds(self) -> float:
        """What is kept of the time budget for a report and the references in it; more on a machine that is busy."""
        seconds = self.settings.seconds
        if self.settings.report_file is None or seconds is None:
            return 0.0
        usual = min(_REPORT_SHARE * seconds + _REPORT_LEAST, _REPORT_MOST)
        return min(max(usual, 2 * _REPORT_LEAST * self._slowdown), 0.15 * seconds)

    @property
    def search_end(self) -> float | None:
        """Unix time at which the search ends: the rest of the budget is for the model.

        That is a share of the budget, or more: what a usual model takes, times how much slower this machine is now, and
        what it took to load the models that would be its members if the search ended here.
        Time for refits is kept as far as what was found can be refitted in it.
        """
        seconds = self.settings.seconds
        if seconds is None or self.end is None:
            return None
        loading = LOADING_SECONDS * self.shelf.best_loading_seconds(self.settings.max_members)
        for_model = max(min(0.05 * seconds, 1 + 0.03 * seconds, 15.0), self._slowdown * _MODEL_SECONDS + loading)
        end = self.end - min(for_model, _MOST_FOR_MODEL * seconds) - _REFERENCES_SHARE * self.report_seconds
        if self.enlarges:
            return end - ENLARGE_SHARE * seconds
        return end - self._for_refits(REFIT_SHARE * seconds) if self.refits else end

    def _for_refits(self, most: float) -> float:
        """Seconds for fitting on all rows as many pipelines, the best first, as can be in `most` seconds."""
        start = self._slowdown * _REFIT_START
        works = np.cumsum([self.refit_seconds(trial) for trial in self.candidates()[:_REFITTED]]) / self.plan.n_jobs
        possible = works[start + works <= most]
        return start + float(possible[-1]) if len(possible) else 0.0

    def growth(self, trial: Trial) -> float:
        """How many times as many rows as a model of the trial had there are in all."""
        fidelity, splits = trial.proposal.fidelity, self.plan.splits.pairs
        trained = fidelity.rows * float(np.mean([len(train) for train, _ in splits[: fidelity.folds]]))
        return float(self.dataset.n_rows / max(1.0, trained))

    def refit_seconds(self, trial: Trial) -> float:
        """About how long it takes to fit a pipeline on all rows, if time grows with rows and rounds (`more_rounds`)."""
        return float(trial.outcome.seconds / self._folds(trial) * self.growth(trial) ** 1.5)

    @property
    def refits(self) -> bool:
        """Whether the members are fitted on all rows at the end: if that is wanted, or a hold-out of ours keeps some.

        The models of several folds have seen all rows together. Under constraints what was measured is delivered.
        """
        if self.settings.refits != "bag":
            return self.settings.refits == "full"
        ours = self.settings.splitter is None or isinstance(self.settings.splitter, float)
        return ours and len(self.plan.splits) == 1 and not self.settings.bounds

    @property
    def enlarges(self) -> bool:
        """Whether members are fitted on more rows than the search had, see `headstart.fitting.enlarged`."""
        return self.rows is not None and self.refits

    def restart(
        self, settings: Settings, started: float | None = None, reserve: float = 0.0, progress: Progress | None = None
    ) -> None:
        """Begin a new budget to continue with; whatever tells which problem it is must stay the same."""
        self.settings = self._checked(self.settings.resumed(vars(settings)))
        self.started = time.time() if started is None else started
        self.reserve = reserve
        self.progress = progress or self.progress
        self.plan = make_plan(self.dataset, settings, self.plan.splits, self.cluster)
        self.study.limits = self.plan.limits

    # -- search ---------------------------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        return self.study.history

    def search(self) -> str:
        """Try pipelines until the budget, but for what the model needs, is used up; returns why it ended."""
        self.progress.begin(self)
        try:
            self._restock()
            reason = "seconds"
            with ExitStack() as stack:
                executor = self._executor(stack)
                while reason == "seconds":  # ends later than it was to at first if nothing was found
                    left = None if self.search_end is None else self.search_end - time.time()
                    if left is not None and left < _LEAST_SECONDS:
                        break
                    self.shelf.objective = self.evaluator()
                    self.study.run(
                        seconds=left,
                        evaluations=self.settings.evaluations,
                        patience=self.settings.patience,
                        n_jobs=self._jobs(),
                        executor=executor,
                    )
                    reason = str(self.study.reason)
            return reason
        except BaseException as error:
            self.release()
            if not isinstance(error, SandboxError | StoreAway) or not self.candidates():
                raise
            warn_user(f"the search ended early: {error}")
            if self.settings.cluster is not None:  # what is left to do is done here
                self.settings = replace(self.settings, cluster=None, n_jobs=None)
                self.plan = make_plan(self.dataset, self.settings, self.plan.splits)
            return "failed"

    @property
    def cluster(self) -> Cluster | None:
        """The cluster that pipelines are evaluated on, if there is one; connected until `release`."""
        if self.settings.cluster is not None and self._cluster is None:
            self._cluster = self._stack.enter_context(Cluster(self.settings.cluster))
            self._stack.callback(setattr, self, "_cluster", None)
        return self._cluster

    def _jobs(self) -> int | Callable[[], int]:
        """Evaluations at once; on a cluster they follow its workers, unless a number was asked for."""
        cluster = self.cluster
        if cluster is None or self.settings.n_jobs not in (None, -1):
            return self.plan.n_jobs
        return lambda: cluster.n_jobs

    def evaluator(self) -> Objective:
        """The objective, in a sandbox that stays until `release`, for its workers take seconds to start."""
        if self._evaluator is None:
            usual = WithSimple(self.objective, self.dataset)
            self._evaluator = self.sandboxed(WithReferences(usual, self.objective), self._stack)
        return self._evaluator

    def replan(self) -> None:
        """Have the search end so that what follows ends in time, by what is known of the machine and the models now."""
        self._slowdown = getattr(self._evaluator, "slowdown", self._slowdown)
        if self.search_end is not None:
            self.study.end_by(self.search_end)

    def release(self) -> None:
        """End the workers of `evaluator`, if there are any, and leave the cluster."""
        self._evaluator = None
        self._stack.close()

    def _executor(self, stack: ExitStack) -> Executor | None:
        """A thread for a single job in a sandbox too, so that the next pipeline is chosen while it runs."""
        if not self.settings.sandbox or self.cluster or self.plan.n_jobs > 1 or self.search_end is None:
            return None
        return stack.enter_context(ThreadPoolExecutor(1))

    def take(self, model: Model, considered: Iterable[int]) -> None:
        """Continue with the fitted models of an earlier model of this run, which then need not be refitted.

        Parameters
        ----------
        considered
            Numbers of the trials that it was chosen from.
        """
        trials = {trial.number: trial for trial in self.history}
        taken = []
        for member in model.members:
            trial = trials.get(member.number)
            if trial is None or trial.pipeline != member.pipeline or trial.outcome.loss != member.loss:
                return  # of another run
            # A model that was refitted on all rows is not that of the trial: its rounds were changed.
            of_folds = member.form(self.dataset.n_rows) != "full" and len(member.models) == self._folds(trial)
            if of_folds and not self.refits:
                taken.append(member)
        for member in taken:
            self.shelf.put(self.seed_of(member.number), trials[member.number].outcome, list(member.models))
        if len(taken) == len(model.members):
            self._considered = frozenset(considered)

    def relax(self, trial: Trial) -> None:
        """Double the seconds of an evaluation as long as nothing but timeouts came of them."""
        limits = self.study.limits
        hopeless = self.settings.evaluation_seconds is None and not any(t.outcome.ok for t in self.history)
        if self.end is not None and limits.seconds is not None and hopeless and trial.outcome.status is Status.TIMEOUT:
            self.study.limits = replace(limits, seconds=2 * limits.seconds)

    def _restock(self) -> None:
        """Refit the best pipelines of an earlier process, the best first: their models are not in the store.

        They are what the model would be made of without further search. It takes at most `RESTOCK_SHARE` of the budget.
        Without a time budget, those of them that become members are refitted at the end.
        """
        if self.settings.seconds is None:
            return
        before = [t for t in self.candidates() if t.number not in self._considered]
        if not before or any(self.seed_of(t.number) in self.shelf for t in before):
            return  # nothing to continue with, or its models are at hand
        self.progress.phase(self, "refitting the best earlier pipelines")
        limits = replace(self.plan.limits, deadline=self.started + RESTOCK_SHARE * self.settings.seconds)
        wanted = [(t.pipeline, self.seed_of(t.number), t.proposal.fidelity) for t in before]
        self.shelf.objective = self.evaluator()
        evaluate_all(self.shelf, wanted[: self.settings.max_members], limits, self.plan.n_jobs)

    def sandboxed(self, objective: Any, stack: ExitStack) -> Objective:
        if not self.settings.sandbox:
            return objective  # type: ignore[no-any-return]
        spool = self.directory / f"spool-{time.time_ns()}"
        spool.mkdir()
        if self.cluster is not None:
            return stack.enter_context(self.cluster.sandbox(objective, spool=spool))
        return stack.enter_context(Sandbox(objective, spool=spool))

    # -- model ----------------------------------------------------------------------------------------------------

    def finish(self) -> Model:
        """The model of what was found, made in the time that is left."""
        self.progress.making(self)
        self.notes = [*self.dataset.notes, *self._on_metric, *self.about_size]
        try:
            if self.settings.report_file is not None and self.candidates():
                self.compare()
            return Assembly(self).make()
        finally:
            self.release()

    def compare(self, seconds: float | None = None) -> None:
        """Evaluate the references that the search has not: LightGBM with its defaults, perhaps a linear model.

        `seconds` is their limit; by default what the budget keeps for them.
        """
        self.progress.phase(self, "fitting simple models to compare with")
        if seconds is None:
            budget = self.settings.seconds is not None
            seconds = _REFERENCES_SHARE * self.report_seconds if budget else _REFERENCES_SECONDS
        wanted = [LIGHTGBM] if linear_trial(self.history) is not None else [LIGHTGBM, LINEAR]
        self.references = evaluate_references(self, wanted, seconds)

    def seed_of(self, number: int) -> int:
        """The seed that a trial was evaluated with."""
        return evaluation_seed(self.study.seed, number)

    def candidates(self) -> list[Trial]:
        """Trials that a model may be made of, best first: those with the most folds, on all rows or fewer.

        If none satisfies the constraints, only the one that comes nearest.
        """
        ok = [t for t in self.history if t.outcome.ok]
        most = max((self._folds(t) for t in ok), default=0)
        whole = sorted((t for t in ok if self._folds(t) == most), key=self.history.rank)
        return [t for t in whole if self.history.is_feasible(t)][:CAPACITY] or whole[:1]

    def _folds(self, trial: Trial) -> int:
        return min(trial.proposal.fidelity.folds or len(self.plan.splits), len(self.plan.splits))


def task_key(
    dataset: Dataset, splits: Splits, metric: Metric, space: PipelineSpace, constraints: Sequence[Constraint]
) -> str:
    """What the task of a fit is called in a store: a hash of all that its results depend on."""
    bounds = sorted((c.name, c.upper) for c in constraints)
    parts = [dataset.key, splits.key, metric.key, space.key, *([repr(bounds)] if bounds else [])]
    return f"table-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:16]}"


class _Callback:
    """Tells a run of its trials without keeping it, and its table and files, alive."""

    def __init__(self, run: Run) -> None:
        self._run = weakref.ref(run)

    def __call__(self, study: Study, trial: Trial) -> None:  # noqa: ARG002
        run = self._run()
        if run is not None:
            run.relax(trial)
            run.replan()
            run.progress.trial(run, trial)
