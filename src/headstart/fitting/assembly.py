"""`Assembly`: the model of the trials of a run."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from numpy.typing import NDArray

from headstart.errors import StoreError, warn_user
from headstart.evaluation.constraints import pickled_size, timed
from headstart.evaluation.live import fit_model, is_predicted
from headstart.fitting.decisions import Decisions, fit_factors, fit_temperature
from headstart.fitting.ensemble import select_ensemble
from headstart.fitting.model import Member, Model
from headstart.fitting.refit import RefitObjective, evaluate_all, stopped_at
from headstart.fitting.shelf import Shelf
from headstart.space.pipeline import Pipeline
from headstart.task import total_excess
from headstart.trials import FULL, Limits, Trial

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.fitting.run import Run

Array = NDArray[np.float64]

_NEARLY_ALL = 0.9
SELECTION_ROWS = 20_000
"""Most rows that the ensemble is selected on."""
SIMPLE_ROWS = 2000
"""Most rows that the simple model is fitted to."""
LOADED_BYTES = 1.5
"""Most memory that models take for each byte of their file; forests, boosters and kernel machines were measured."""


class Assembly:
    """Makes the model of the trials of a run: selects members, fetches or fits their models, tunes decisions.

    Attributes
    ----------
    score
        Of the model on the validation rows that its members were selected on, the mean over folds as for a single
        pipeline; None for the simple model.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.score: float | None = None

    def make(self) -> Model:
        """The model, made in the time that is left."""
        candidates = self._with_models(self.run.candidates())
        if not candidates:
            return self._simple()
        if self.run.task.constraints:
            return self._within_bounds(candidates)
        if not self.run.settings.ensemble:
            candidates = candidates[:1]
        self.run.progress.phase(self.run, "choosing the ensemble" if len(candidates) > 1 else "making the model")
        first = predictions_of(candidates[0])
        validated = np.flatnonzero(is_predicted(first))
        candidates = candidates[: self._useful(candidates, validated)]
        predictions = [predictions_of(trial)[validated] for trial in candidates]
        members = self._members(candidates, self._select(predictions, validated))
        by_number = dict(zip([t.number for t in candidates], predictions, strict=True))
        average = np.sum([m.weight * by_number[m.number] for m in members], axis=0)
        decisions = self._decisions(average, validated)
        self.score = self._score(self._judged(decisions, average, validated))
        if self.run.settings.refit == "full":
            members = self._refitted(members)
        elif self.run.settings.refit == "single":
            members = [replace(member, models=member.models[-1:]) for member in members]
        return self._model(members, decisions, self.run.settings.refit)

    def _within_bounds(self, candidates: Sequence[Trial]) -> Model:
        """One pipeline, the best that satisfies the constraints as it is delivered; else what comes nearest.

        Trials are measured with the model of one fold. The mean of several takes several times as long and as much
        room: where that is over a bound, the model of one fold is delivered.
        """
        run = self.run
        run.progress.phase(run, "making a model that satisfies the constraints")
        run.notes.append("under constraints the model is one pipeline, not an ensemble")
        notes, nearest = list(run.notes), None
        for trial in candidates:
            run.notes = list(notes)
            predictions = predictions_of(trial)
            validated = np.flatnonzero(is_predicted(predictions))
            decisions, measured = self._decisions_within_bounds(trial, predictions[validated], validated)
            for form, member in self._forms(self._members([trial], np.ones(1))[0]):
                own = self._measured(member)
                values = measured | own
                excess = total_excess(run.task.constraints, values)
                if nearest is None or excess < nearest[0]:
                    score = self._score(self._judged(decisions, predictions[validated], validated))
                    nearest = excess, member, decisions, form, values, score, list(run.notes)
                if excess == 0:
                    break
                if form == "bag" and (over := self._exceeded(values, own)):
                    run.notes.append(f"the models of all folds together have {over}, so one is used")
            assert nearest is not None
            if nearest[0] == 0 or (run.end is not None and time.time() > run.end):
                break
        assert nearest is not None
        excess, member, decisions, form, values, self.score, run.notes = nearest
        if excess:
            message = f"no pipeline satisfied the constraints; the model is the nearest one: {self._exceeded(values)}"
            warn_user(message)
        else:
            found = [f"{c} ({c.shown(values[c.name])})" for c in run.task.constraints]
            message = f"constraints are satisfied: {', '.join(found)}"
        run.notes.append(message)
        return self._model([member], decisions, form)

    def _exceeded(self, values: Mapping[str, float], names: Container[str] | None = None) -> str:
        """Which values, or which of those named, are above their bounds, in words."""
        over = [c for c in self.run.task.constraints if c.excess(values) and (names is None or c.name in names)]
        said = [f"{c.name} {c.shown(values[c.name])}" if c.name in values else f"{c.name} not measured" for c in over]
        return ", ".join(f"{found} (must be at most {c.shown(c.upper)})" for c, found in zip(over, said, strict=True))

    def _forms(self, member: Member) -> Iterator[tuple[str, Member]]:
        """What a member may predict with: what the user has chosen, then the models of single folds."""
        if self.run.settings.refit == "full":
            yield "full", self._refitted([member])[0]
        elif self.run.settings.refit == "bag" and len(member.models) > 1:
            yield "bag", member
        for model in reversed(member.models):
            yield "single", replace(member, models=[model])

    def _measured(self, member: Member) -> dict[str, float]:
        """Latency and size of a member as it predicts, those that are bounded."""
        wanted = {constraint.name for constraint in self.run.task.constraints}
        found = {}
        if "size" in wanted:
            found["size"] = pickled_size(member.models)
        if "latency" in wanted:
            data = self.run.dataset.take(self.run.plan.splits[-1][1])
            shape = () if data.classes is None else (len(data.classes),)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, seconds = timed(lambda: member.predict(data.X, shape), repeat=True)
            found["latency"] = seconds / data.n_rows
        return found

    def _decisions_within_bounds(
        self, trial: Trial, predictions: Array, rows: NDArray[np.int64]
    ) -> tuple[Decisions, dict[str, float]]:
        """Decisions, and the values of the trial with them; thresholds are not tuned if a bound is exceeded by that."""
        measured = dict(trial.outcome.constraints)
        decisions = self._decisions(predictions, rows)
        if decisions.factors is None:
            return decisions, measured
        tuned = measured | self.run.objective.constraint_values(self._judged(decisions, predictions, rows))
        bounds = self.run.task.constraints
        if total_excess(bounds, tuned) <= total_excess(bounds, measured):
            return decisions, tuned
        self.run.notes.append(f"thresholds are left as they were, tuned ones have {self._exceeded(tuned)}")
        return replace(decisions, factors=None), measured

    def _model(self, members: Sequence[Member], decisions: Decisions, refit: str) -> Model:
        data = self.run.dataset
        self.run.notes.append(f"{self.run.plan.splits.kind}; {_in_words(members, refit)}")
        return Model(
            data.schema,
            str(data.task),
            data.classes,
            tuple(members),
            self.run.metric.name,
            data.target,
            decisions,
            tuple(dict.fromkeys(self.run.notes)),
            data.origin,
            self.score,
            refit,
        )

    def _models(self, trial: Trial) -> list[Any] | None:
        return self.run.shelf.models(self.run.seed_of(trial.number))

    def _loss(self, rows: NDArray[np.int64], predictions: Array) -> float:
        assert self.run.dataset.y is not None
        weights = None if self.run.dataset.weights is None else self.run.dataset.weights[rows]
        return self.run.metric.loss(self.run.dataset.y[rows], predictions, weights)

    def _judged(self, decisions: Decisions, predictions: Array, rows: NDArray[np.int64]) -> Array:
        """What the metric judges: predictions for some rows after decisions, NaN for the others."""
        judged = (
            predictions if self.run.dataset.classes is None else decisions.judged(decisions.calibrated(predictions))
        )
        everything = np.full((self.run.dataset.n_rows, *judged.shape[1:]), np.nan)
        everything[rows] = judged
        return everything

    def _score(self, judged: Array) -> float:
        return self.run.metric.to_score(self.run.objective.loss_of(judged))

    def _useful(self, candidates: Sequence[Trial], rows: NDArray[np.int64]) -> int:
        """How many of the candidates, which are sorted, gain a tenth of what the best one gains over a constant.

        One that hardly tells rows apart does no harm to a metric of ranks, so it could be added again and again, and
        make all probabilities nearly the same.
        """
        assert self.run.dataset.y is not None
        y = self.run.dataset.y[rows]
        classes = self.run.dataset.classes
        shares = y.mean() if classes is None else np.bincount(y, minlength=len(classes)) / len(y)
        constant = self._loss(rows, np.tile(shares, (len(rows), *[1] * np.ndim(shares))))
        losses = np.array([float(t.outcome.loss or 0.0) for t in candidates])
        if not constant > losses[0]:
            return 1
        return int((losses <= losses[0] + 0.9 * (constant - losses[0])).sum())

    def _some(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """At most so many rows that a loss can be computed a thousand times."""
        if len(rows) <= SELECTION_ROWS:
            return rows
        return np.sort(np.random.default_rng(self.run.settings.seed).choice(rows, SELECTION_ROWS, replace=False))

    def _select(self, predictions: Sequence[Array], validated: NDArray[np.int64]) -> Array:
        if len(predictions) == 1:
            return np.ones(1)
        some = self._some(np.arange(len(validated)))
        rows = validated[some]
        deadline = None if self.run.end is None else time.time() + 0.5 * max(0.0, self.run.end - time.time())
        return select_ensemble(
            [p[some] for p in predictions],
            lambda p: self._loss(rows, p),
            max_members=self.run.settings.max_members,
            deadline=deadline,
        )

    def _with_models(self, candidates: list[Trial]) -> list[Trial]:
        """Those whose fitted models are there; if none are, the best one that can be fitted again in time."""
        there = [t for t in candidates if self.run.seed_of(t.number) in self.run.shelf]
        if there or not candidates:
            return there
        self.run.progress.phase(self.run, "fitting the best pipeline again")
        with ExitStack() as stack:
            self.run.shelf.objective = self.run.sandboxed(self.run.objective, stack)
            for trial in candidates[:3]:
                wanted = [(trial.pipeline, self.run.seed_of(trial.number), trial.proposal.fidelity)]
                if evaluate_all(self.run.shelf, wanted, self._last_limits(0.9), 1):
                    return [trial]
        return []

    def _members(self, trials: Sequence[Trial], weights: Array) -> list[Member]:
        """Members with the fitted models of their folds.

        Of windows that grow with time, the models of those count that had nearly all rows.
        """
        sizes = np.array([len(train) for train, _ in self.run.plan.splits])
        chosen = [(trial, weight) for trial, weight in zip(trials, weights.tolist(), strict=True) if weight > 0]
        chosen = self._that_fit(chosen)
        members = []
        for trial, weight in chosen:
            models = self._models(trial) or []
            large = sizes[: len(models)] >= _NEARLY_ALL * sizes[: len(models)].max()
            kept = [model for model, is_large in zip(models, large.tolist(), strict=True) if is_large]
            members.append(Member(trial.number, trial.pipeline, float(trial.outcome.loss or 0.0), weight, kept))
        return members

    def _that_fit(self, chosen: list[tuple[Trial, float]]) -> list[tuple[Trial, float]]:
        """Those whose models fit into the memory that is left, the heaviest first; one at least, the smallest."""
        limit = self.run.settings.memory_limit
        if limit is None:
            return chosen
        left = limit - psutil.Process().memory_info().rss
        sizes = {t.number: LOADED_BYTES * self.run.shelf.size(self.run.seed_of(t.number)) for t, _ in chosen}
        kept = set()
        for trial, _ in sorted(chosen, key=lambda item: -item[1]):
            if sizes[trial.number] <= left:
                kept.add(trial.number)
                left -= sizes[trial.number]
        if not kept:
            kept.add(min(sizes, key=lambda number: sizes[number]))
        if len(kept) < len(chosen):
            self.run.notes.append(
                f"{len(chosen) - len(kept)} of {len(chosen)} members were left out, for their fitted models do not fit "
                f"into the memory_limit of {limit:.3g} bytes"
            )
        total = sum(weight for trial, weight in chosen if trial.number in kept)
        return [(trial, weight / total) for trial, weight in chosen if trial.number in kept]

    def _last_limits(self, share: float) -> Limits:
        """Of work that must end with the budget."""
        deadline = None if self.run.end is None else time.time() + share * max(0.0, self.run.end - time.time())
        return Limits(self.run.plan.limits.seconds if deadline is None else None, self.run.plan.limits.bytes, deadline)

    def _refitted(self, members: Sequence[Member]) -> list[Member]:
        """Members fitted on all rows, as far as time allows; the others keep the models of their folds."""
        self.run.progress.phase(self.run, f"fitting {len(members)} pipelines on all rows")
        seeds = {m.number: self.run.seed_of(m.number) for m in members}
        objective = RefitObjective(
            self.run.space, self.run.dataset, {seeds[m.number]: stopped_at(m.models) for m in members}
        )
        with ExitStack() as stack:
            shelf = Shelf(self.run.sandboxed(objective, stack), len(members))
            wanted = [(m.pipeline, seeds[m.number], FULL) for m in sorted(members, key=lambda m: -m.weight)]
            found = evaluate_all(shelf, wanted, self._last_limits(0.95), self.run.plan.n_jobs)
            fitted = {seed: shelf.models(seed) for seed in found}
        if len(found) < len(members):
            self.run.notes.append(f"{len(members) - len(found)} members were not fitted on all rows for want of time")
        return [replace(m, models=fitted.get(seeds[m.number]) or m.models) for m in members]

    def _decisions(self, predictions: Array, rows: NDArray[np.int64]) -> Decisions:
        """Calibration and thresholds, learned from predictions for validation rows."""
        assert self.run.dataset.y is not None
        if self.run.dataset.classes is None:
            return Decisions()
        weights = None if self.run.dataset.weights is None else self.run.dataset.weights[rows]
        truth = self.run.dataset.y[rows]
        decisions = Decisions()
        if self.run.settings.calibrate:
            decisions = Decisions(fit_temperature(predictions, truth, weights))
            self.run.notes.append(f"probabilities are calibrated with temperature {decisions.temperature:.3g}")
        if self.run.settings.tune_threshold:
            calibrated = decisions.calibrated(predictions)
            some = self._some(np.arange(len(rows)))
            end = None if self.run.end is None else time.time() + 0.5 * max(0.0, self.run.end - time.time())
            factors = fit_factors(calibrated[some], lambda p: self._loss(rows[some], p), deadline=end)
            decisions = replace(decisions, factors=factors)
            said = "no other threshold is better" if factors is None else "thresholds between classes are tuned"
            self.run.notes.append(f"{said} for {self.run.metric.name}")
        return decisions

    def _simple(self) -> Model:
        """What can be had in no time, with a warning that says why."""
        statuses = Counter(t.outcome.status.value for t in self.run.history)
        seconds = self.run.settings.seconds
        if statuses["ok"]:
            why = f"{statuses['ok']} pipelines of an earlier run could not be fitted again in the time that was left"
            advice = "give more time"
        elif not statuses or set(statuses) <= {"timeout"}:
            why = f"time_budget of {seconds:g} s was too short for one full fit" if seconds else "no pipeline was tried"
            advice = "give more time"
        else:
            errors = Counter(t.outcome.error for t in self.run.history if t.outcome.error)
            why = f"none of {len(self.run.history)} pipelines worked, most often: {errors.most_common(1)[0][0]}"
            advice = "see failures_"
        message = f"{why}; the model is a simple one, a small tree: {advice}"
        warn_user(message)
        self.run.notes.append(message)
        if self.run.task.constraints:
            self.run.notes.append("the simple model was not checked against the constraints")
        pipeline, model = simple_model(self.run.dataset, self.run.settings.seed)
        return self._model([Member(-1, pipeline, float("nan"), 1.0, [model])], Decisions(), self.run.settings.refit)


def predictions_of(trial: Trial) -> Array:
    """What a trial predicted for each row, by models that had not seen it; NaN where it was not validated."""
    value = trial.outcome.artefacts["predictions"]
    if not isinstance(value, Path):
        return np.asarray(value)
    try:
        return np.load(value, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]
    except (OSError, EOFError, ValueError) as error:
        raise StoreError(
            f"predictions of trial {trial.number} must be an array of numbers, but {value} is something else or "
            f"damaged ({error}); start a new fit with another store"
        ) from error


def _in_words(members: Sequence[Member], refit: str) -> str:
    what = "one pipeline," if len(members) == 1 else f"an ensemble of {len(members)} pipelines, each"
    models = sum(len(m.models) for m in members)
    if refit == "full":
        return f"{what} fitted on all rows"
    if refit == "single" or models == len(members):
        return f"{what} with the model of one fold"
    return f"{what} the mean of the models of its folds ({models} models)"


def simple_model(dataset: Dataset, seed: int) -> tuple[Pipeline, Any]:
    """A small tree on some of the rows, or, if even that fails, the share of the classes or the median.

    Returns
    -------
    What it is called, and a fitted scikit-learn pipeline for tables in the form of `Dataset.X`.
    """
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.pipeline import Pipeline as SklearnPipeline

    from headstart.space import catalog

    assert dataset.y is not None
    y = dataset.y
    rows = np.sort(np.random.default_rng(seed).permutation(dataset.n_rows)[:SIMPLE_ROWS])
    if dataset.classes is not None:  # all classes must be there
        rows = np.union1d(rows, np.unique(y, return_index=True)[1])
    X = dataset.X[rows] if dataset.is_sparse else dataset.X.iloc[rows]
    weights = None if dataset.weights is None else dataset.weights[rows]
    space = catalog.load("regression" if dataset.classes is None else "classification")
    tree = space.default({"estimator": ["decision_tree"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return tree, fit_model(space.build(tree, seed, dataset.preparation), X, y[rows], weights)
        except Exception:
            plain = DummyRegressor(strategy="median") if dataset.classes is None else DummyClassifier()
            model = SklearnPipeline([("estimator", plain)])
            return Pipeline(["dummy"]), model.fit(np.zeros((len(rows), 1)), y[rows])
