"""`Run`: one fit, from a dataset to a model within a budget."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.ensemble import select_ensemble
from headstart.errors import InvalidInput, warn_user
from headstart.evaluation.live import LiveObjective
from headstart.evaluation.objective import Objective
from headstart.evaluation.sandbox import Sandbox
from headstart.evaluation.scoring import Metric
from headstart.fitting.decisions import Decisions, fit_factors, fit_temperature
from headstart.fitting.model import Member, Model
from headstart.fitting.plan import make_plan, possible_splits
from headstart.fitting.progress import Progress
from headstart.fitting.refit import RefitObjective, evaluate_all, stopped_at
from headstart.fitting.settings import Settings, choose_space
from headstart.fitting.shelf import CAPACITY, CAPACITY_BYTES, Shelf
from headstart.fitting.simple import simple_model
from headstart.history import History
from headstart.optimizers.base import Optimizer, evaluation_seed
from headstart.optimizers.portfolio import Default
from headstart.store import Store
from headstart.study import Study
from headstart.task import Constraint, Task
from headstart.trials import FULL, Limits, Trial

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.data.splits import Splits

Array = NDArray[np.float64]

SELECTION_ROWS = 20_000
"""Most rows that the ensemble is selected on."""
REFIT_SHARE = 0.25
"""Of the time budget, for fitting the members on all rows where that is wanted."""
_LEAST_SECONDS = 0.1
_SAME = ("metric", "optimizer", "space", "include", "exclude", "splitter", "constraints", "seed")
"""Settings that tell which problem it is."""


class Run:
    """One fit: search for pipelines, then make a model of the best.

    Parameters
    ----------
    dataset, settings
        What to learn from, and how.
    location
        Directory or URL of a store that keeps the trials; by default a temporary one that goes with the run.
    resume
        Go on with the newest run of the same task in that store.
    started
        Unix time when the budget began; now by default.
    progress
        Is told what happens.

    Notes
    -----
    `search` may be called again, with more time; `finish` makes a model of all there is. Both keep to the budget that
    began with `started`, or with the last `restart`.
    """

    def __init__(
        self,
        dataset: Dataset,
        settings: Settings,
        *,
        location: str | Path | None = None,
        resume: bool = False,
        started: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        if dataset.y is None or dataset.task is None:
            raise InvalidInput("a fit needs a target, this dataset has none; name its column")
        self.started = time.time() if started is None else started
        self.dataset = dataset
        self.settings = settings
        self.progress = progress or Progress()
        self.reserve = 0.0
        """Seconds of the budget for what comes after the model, such as writing it."""
        self.space = choose_space(settings, dataset.task)
        self.metric = Metric(settings.metric if settings.metric is not None else _default_metric(dataset), dataset.task)
        self.directory = Path(tempfile.mkdtemp(prefix="headstart-"))
        weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True)
        self.store = Store.open(location if location is not None else self.directory / "store")
        weakref.finalize(self, self.store.close)
        self.plan = make_plan(dataset, settings, self._earlier_splits() if resume else None)
        bounds = [Constraint(name, float(upper)) for name, upper in (settings.constraints or {}).items()]
        self.task = Task(
            self.space, key=self._key(self.plan.splits), metric=self.metric.name, dataset=dataset, constraints=bounds
        )
        self.objective = LiveObjective(
            self.space, dataset, self.plan.splits, self.metric.given, [c.name for c in bounds], keep_models=True
        )
        room = min(CAPACITY_BYTES, shutil.disk_usage(self.directory).free / 4)
        self._shelf = Shelf(self.objective, max(CAPACITY, settings.max_members), room)
        self.study = self._new_study(resume)
        self.notes: list[str] = []
        self.score: float | None = None
        """Of the model that `finish` made, on the validation rows that its members were chosen by."""

    def _key(self, splits: Splits) -> str:
        parts = [self.dataset.key, splits.key, self.metric.name, self.space.key]
        return f"table-{hashlib.sha256(' '.join(parts).encode()).hexdigest()[:16]}"

    def _stem(self, key: str) -> str:
        """How the names of a task's studies begin."""
        return f"{self.dataset.name[:100]}-{key[-8:]}-seed{self.settings.seed}"

    def _earlier_splits(self) -> Splits | None:
        """Those of a run in the store, which may have had another budget; None if there is no run of this task."""
        there = {s.name for s in self.store.studies()}
        for splits in possible_splits(self.dataset, self.settings):
            if f"{self._stem(self._key(splits))}-1" in there:
                return splits
        return None

    def _new_study(self, resume: bool) -> Study:
        stem = self._stem(self.task.key)
        there = {s.name: s for s in self.store.studies()}
        number = 1
        while f"{stem}-{number}" in there:
            number += 1
        name = f"{stem}-{number - 1 if resume and number > 1 else number}"
        return Study(
            self.task,
            self._shelf,
            self._optimizer(there[name].settings if name in there else {}),
            seed=self.settings.seed,
            limits=self.plan.limits,
            store=self.store,
            name=name,
            resume=resume,
            callbacks=[lambda _, trial: self.progress.trial(self, trial)],
        )

    def _optimizer(self, earlier: Mapping[str, Any]) -> Optimizer | str:
        """The optimizer; the default one minds time where that is what is short, or as it did in the earlier run."""
        if self.settings.optimizer != "default":
            return self.settings.optimizer
        before = earlier.get("optimizer", {}).get("per_second")
        return Default(self.plan.screen, per_second=self.settings.seconds is not None if before is None else before)

    # -- time -----------------------------------------------------------------------------------------------------

    @property
    def elapsed(self) -> float:
        """Seconds since the budget began."""
        return time.time() - self.started

    @property
    def end(self) -> float | None:
        """Unix time at which the budget ends."""
        return None if self.settings.seconds is None else self.started + self.settings.seconds - self.reserve

    @property
    def search_end(self) -> float | None:
        """Unix time at which the search ends: the rest of the budget is for the model."""
        seconds = self.settings.seconds
        if seconds is None or self.end is None:
            return None
        for_model = min(0.1 * seconds, 1 + 0.03 * seconds, 15.0)
        if self.settings.refit == "full":
            for_model += REFIT_SHARE * seconds
        return self.end - for_model

    def restart(self, settings: Settings, progress: Progress | None = None) -> None:
        """Begin a new budget for going on; all that tells which problem it is must stay the same."""
        for name in _SAME:
            if getattr(settings, name) != getattr(self.settings, name):
                raise InvalidInput(f"a fit can only be resumed with the same {name}; leave resume out to start anew")
        self.settings = settings
        self.started = time.time()
        self.progress = progress or self.progress

    # -- search ---------------------------------------------------------------------------------------------------

    @property
    def history(self) -> History:
        return self.study.history

    def search(self) -> str:
        """Try pipelines until the budget, but for what the model needs, is used up; returns why it ended."""
        self.progress.begin(self)
        with ExitStack() as stack:
            self._shelf.objective = self._sandboxed(self.objective, stack)
            left = None if self.search_end is None else self.search_end - time.time()
            if left is not None and left < _LEAST_SECONDS:
                return "seconds"
            self.study.run(
                seconds=left,
                evaluations=self.settings.evaluations,
                patience=self.settings.patience,
                n_jobs=self.plan.n_jobs,
            )
        return str(self.study.reason)

    def _sandboxed(self, objective: Any, stack: ExitStack) -> Objective:
        if not self.settings.sandbox:
            return objective  # type: ignore[no-any-return]
        spool = self.directory / f"spool-{time.time_ns()}"
        spool.mkdir()
        return stack.enter_context(Sandbox(objective, spool=spool))

    # -- model ----------------------------------------------------------------------------------------------------

    def finish(self) -> Model:
        """The model of what was found, made in the time that is left."""
        self.notes = [*self.dataset.notes]
        self.score = None
        candidates = self.candidates()
        if not candidates:
            return self._simple()
        single = not self.settings.ensemble or bool(self.settings.constraints)
        if self.settings.ensemble and self.settings.constraints:
            self.notes.append("constraints are kept by one pipeline, so there is no ensemble")
        if single:
            candidates = candidates[:1]
        self.progress.phase(self, "choosing the ensemble" if len(candidates) > 1 else "making the model")
        predictions = [self._predictions(trial) for trial in candidates]
        validated = np.flatnonzero(np.isfinite(predictions[0].reshape(len(predictions[0]), -1)).all(axis=1))
        useful = self._useful(candidates, validated)
        candidates, predictions = candidates[:useful], predictions[:useful]
        weights = self._select(predictions, validated)
        members = self._members(candidates, weights)
        while not members:  # the models of the chosen are gone and there was no time to fit them again
            kept = [i for i, t in enumerate(candidates) if self._shelf.models(self.seed_of(t.number)) is not None]
            if not kept:
                return self._simple()
            candidates, predictions = [candidates[i] for i in kept], [predictions[i] for i in kept]
            members = self._members(candidates, self._select(predictions, validated))
        by_number = dict(zip([t.number for t in candidates], predictions, strict=True))
        average = np.sum([m.weight * by_number[m.number][validated] for m in members], axis=0)
        decisions = self._decisions(average, validated)
        judged = decisions.calibrated(average) * (decisions.factors or 1.0)
        self.score = self.metric.to_score(self._loss(validated, judged))
        if self.settings.refit == "full":
            members = self._refitted(members)
        elif self.settings.refit == "single":
            members = [replace(member, models=member.models[:1]) for member in members]
        return self._model(members, decisions)

    def _model(self, members: Sequence[Member], decisions: Decisions) -> Model:
        data = self.dataset
        self.notes.append(f"{self.plan.splits.kind}; {_in_words(members, self.settings.refit)}")
        return Model(
            data.schema,
            str(data.task),
            data.classes,
            tuple(members),
            self.metric.name,
            data.target,
            decisions,
            tuple(dict.fromkeys(self.notes)),
            data.origin,
        )

    def seed_of(self, number: int) -> int:
        """The seed that a trial was evaluated with."""
        return evaluation_seed(self.study.seed, number)

    def candidates(self) -> list[Trial]:
        """Trials that a model may be made of, best first: in full, or on fewer rows if all rows were validated."""
        folds = len(self.plan.splits)
        whole = [t for t in self.history if t.outcome.ok and (t.proposal.fidelity.folds or folds) >= folds]
        found = [t for t in whole if self.history.is_feasible(t)]
        found.sort(key=lambda t: (float(t.outcome.loss or 0.0), t.number))
        if whole and not found:
            nearest = min(whole, key=lambda t: (self._excess(t), t.number))
            measured = ", ".join(f"{name} {value:.3g}" for name, value in nearest.outcome.constraints.items())
            message = f"none of {len(whole)} pipelines keeps the constraints; the model is the nearest one: {measured}"
            warn_user(message)
            self.notes.append(message)
            return [nearest]
        return found[:CAPACITY]

    def _excess(self, trial: Trial) -> float:
        """By how much a trial breaks the constraints, in units of their bounds."""
        measured = trial.outcome.constraints
        over = [max(0.0, measured.get(c.name, np.inf) - c.upper) / (abs(c.upper) or 1.0) for c in self.task.constraints]
        return float(sum(over))

    def _predictions(self, trial: Trial) -> Array:
        value = trial.outcome.artefacts["predictions"]
        return np.load(value, allow_pickle=False) if isinstance(value, Path) else np.asarray(value)

    def _loss(self, rows: NDArray[np.int64], predictions: Array) -> float:
        assert self.dataset.y is not None
        weights = None if self.dataset.weights is None else self.dataset.weights[rows]
        return self.metric.loss(self.dataset.y[rows], predictions, weights)

    def _useful(self, candidates: Sequence[Trial], rows: NDArray[np.int64]) -> int:
        """How many of the candidates, which are sorted, gain a tenth of what the best one gains over a constant.

        One that hardly tells rows apart does no harm to a metric of ranks, so it could be added again and again, and
        make all probabilities nearly the same.
        """
        assert self.dataset.y is not None
        y = self.dataset.y[rows]
        shares = (
            y.mean() if self.dataset.classes is None else np.bincount(y, minlength=len(self.dataset.classes)) / len(y)
        )
        constant = self._loss(rows, np.tile(shares, (len(rows), *[1] * np.ndim(shares))))
        losses = np.array([float(t.outcome.loss or 0.0) for t in candidates])
        if not constant > losses[0]:
            return 1
        return int((losses <= losses[0] + 0.9 * (constant - losses[0])).sum())

    def _select(self, predictions: Sequence[Array], validated: NDArray[np.int64]) -> Array:
        if len(predictions) == 1:
            return np.ones(1)
        rows = validated
        if len(rows) > SELECTION_ROWS:
            rows = np.sort(np.random.default_rng(self.settings.seed).choice(rows, SELECTION_ROWS, replace=False))
        deadline = None if self.end is None else time.time() + 0.5 * max(0.0, self.end - time.time())
        return select_ensemble(
            [p[rows] for p in predictions],
            lambda p: self._loss(rows, p),
            max_members=self.settings.max_members,
            deadline=deadline,
        )

    def _members(self, trials: Sequence[Trial], weights: Array) -> list[Member]:
        """Members with their fitted models; those of an earlier process are fitted again if time allows."""
        chosen = [(t, float(w)) for t, w in zip(trials, weights, strict=True) if w > 0]
        models = {t.number: self._shelf.models(self.seed_of(t.number)) for t, _ in chosen}
        missing = [t for t, _ in chosen if models[t.number] is None]
        if missing:
            self.progress.phase(self, f"fitting {len(missing)} pipelines of an earlier run again")
            with ExitStack() as stack:
                self._shelf.objective = self._sandboxed(self.objective, stack)
                wanted = [(t.pipeline, self.seed_of(t.number), t.proposal.fidelity) for t in missing]
                again = evaluate_all(self._shelf, wanted, self._last_limits(0.9), self.plan.n_jobs)
            models |= {t.number: again.get(self.seed_of(t.number)) for t in missing}
        there = [(t, w, list(found)) for t, w in chosen if (found := models[t.number]) is not None]
        total = sum(w for _, w, _ in there)
        return [Member(t.number, t.pipeline, float(t.outcome.loss or 0.0), w / total, found) for t, w, found in there]

    def _last_limits(self, share: float) -> Limits:
        """Of work that must end with the budget."""
        deadline = None if self.end is None else time.time() + share * max(0.0, self.end - time.time())
        return Limits(self.plan.limits.seconds if deadline is None else None, self.plan.limits.bytes, deadline)

    def _refitted(self, members: Sequence[Member]) -> list[Member]:
        """Members fitted on all rows, as far as time allows; the others keep the models of their folds."""
        self.progress.phase(self, f"fitting {len(members)} pipelines on all rows")
        seeds = {m.number: self.seed_of(m.number) for m in members}
        objective = RefitObjective(self.space, self.dataset, {seeds[m.number]: stopped_at(m.models) for m in members})
        with ExitStack() as stack:
            shelf = Shelf(self._sandboxed(objective, stack), len(members))
            wanted = [(m.pipeline, seeds[m.number], FULL) for m in sorted(members, key=lambda m: -m.weight)]
            found = evaluate_all(shelf, wanted, self._last_limits(0.95), self.plan.n_jobs)
        if len(found) < len(members):
            self.notes.append(f"{len(members) - len(found)} members were not fitted on all rows for want of time")
        return [replace(m, models=found.get(seeds[m.number], m.models)) for m in members]

    def _decisions(self, predictions: Array, rows: NDArray[np.int64]) -> Decisions:
        """Calibration and thresholds, learned from predictions for validation rows."""
        assert self.dataset.y is not None
        if self.dataset.classes is None:
            return Decisions()
        weights = None if self.dataset.weights is None else self.dataset.weights[rows]
        truth = self.dataset.y[rows]
        decisions = Decisions()
        if self.settings.calibrate:
            decisions = Decisions(fit_temperature(predictions, truth, weights))
            self.notes.append(f"probabilities are calibrated with temperature {decisions.temperature:.3g}")
        if self.settings.tune_threshold:
            calibrated = decisions.calibrated(predictions)
            factors = fit_factors(calibrated, lambda p: self._loss(rows, p))
            decisions = replace(decisions, factors=factors)
            said = "no other threshold is better" if factors is None else "thresholds between classes are tuned"
            self.notes.append(f"{said} for {self.metric.name}")
        return decisions

    def _simple(self) -> Model:
        """What can be had in no time, with a warning that says why."""
        statuses = Counter(t.outcome.status.value for t in self.history)
        seconds = self.settings.seconds
        if not statuses or set(statuses) <= {"timeout"}:
            why = f"time_budget of {seconds:g} s was too short for one full fit" if seconds else "no pipeline was tried"
            advice = "give more time"
        else:
            errors = Counter(t.outcome.error for t in self.history if t.outcome.error)
            why = f"none of {len(self.history)} pipelines worked, most often: {errors.most_common(1)[0][0]}"
            advice = "see failures_"
        message = f"{why}; the model is a simple one that is hardly better than a guess: {advice}"
        warn_user(message)
        self.notes.append(message)
        pipeline, model = simple_model(self.dataset, self.settings.seed)
        return self._model([Member(-1, pipeline, float("nan"), 1.0, [model])], Decisions())


def _default_metric(dataset: Dataset) -> str:
    from headstart.data.target import default_metric

    return default_metric(str(dataset.task))


def _in_words(members: Sequence[Member], refit: str) -> str:
    what = "one pipeline" if len(members) == 1 else f"an ensemble of {len(members)} pipelines, each"
    models = sum(len(m.models) for m in members)
    if refit == "full":
        return f"{what} fitted on all rows"
    if refit == "single" or models == len(members):
        return f"{what} with the model of one fold"
    return f"{what} the mean of the models of its folds ({models} models)"
