"""`Assembly`: the model of the trials of a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.ensemble import select_ensemble
from headstart.errors import warn_user
from headstart.fitting.decisions import Decisions, fit_factors, fit_temperature
from headstart.fitting.model import Member, Model
from headstart.fitting.refit import RefitObjective, evaluate_all, stopped_at
from headstart.fitting.shelf import Shelf
from headstart.fitting.simple import simple_model
from headstart.trials import FULL, Limits, Trial

if TYPE_CHECKING:
    from headstart.fitting.run import Run

Array = NDArray[np.float64]

SELECTION_ROWS = 20_000
"""Most rows that the ensemble is selected on."""


class Assembly:
    """Makes the model of the trials of a run: selects members, fetches or fits their models, tunes decisions.

    Attributes
    ----------
    score
        Of the model on validation rows, by which its members were selected; None for the simple model.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.score: float | None = None

    def make(self) -> Model:
        """The model, made in the time that is left."""
        candidates = self.run.candidates()
        if not candidates:
            return self._simple()
        single = not self.run.settings.ensemble or bool(self.run.settings.constraints)
        if self.run.settings.ensemble and self.run.settings.constraints:
            self.run.notes.append("constraints are kept by one pipeline, so there is no ensemble")
        if single:
            candidates = candidates[:1]
        self.run.progress.phase(self.run, "choosing the ensemble" if len(candidates) > 1 else "making the model")
        predictions = [predictions_of(trial) for trial in candidates]
        validated = np.flatnonzero(np.isfinite(predictions[0].reshape(len(predictions[0]), -1)).all(axis=1))
        useful = self._useful(candidates, validated)
        candidates, predictions = candidates[:useful], predictions[:useful]
        weights = self._select(predictions, validated)
        members = self._members(candidates, weights)
        while not members:  # the models of the chosen are gone and there was no time to fit them again
            kept = [
                i for i, t in enumerate(candidates) if self.run.shelf.models(self.run.seed_of(t.number)) is not None
            ]
            if not kept:
                return self._simple()
            candidates, predictions = [candidates[i] for i in kept], [predictions[i] for i in kept]
            members = self._members(candidates, self._select(predictions, validated))
        by_number = dict(zip([t.number for t in candidates], predictions, strict=True))
        average = np.sum([m.weight * by_number[m.number][validated] for m in members], axis=0)
        decisions = self._decisions(average, validated)
        judged = decisions.calibrated(average) * (decisions.factors or 1.0)
        self.score = self.run.metric.to_score(self._loss(validated, judged))
        if self.run.settings.refit == "full":
            members = self._refitted(members)
        elif self.run.settings.refit == "single":
            members = [replace(member, models=member.models[:1]) for member in members]
        return self._model(members, decisions)

    def _model(self, members: Sequence[Member], decisions: Decisions) -> Model:
        data = self.run.dataset
        self.run.notes.append(f"{self.run.plan.splits.kind}; {_in_words(members, self.run.settings.refit)}")
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
        )

    def _models(self, trial: Trial) -> list[Any] | None:
        return self.run.shelf.models(self.run.seed_of(trial.number))

    def _loss(self, rows: NDArray[np.int64], predictions: Array) -> float:
        assert self.run.dataset.y is not None
        weights = None if self.run.dataset.weights is None else self.run.dataset.weights[rows]
        return self.run.metric.loss(self.run.dataset.y[rows], predictions, weights)

    def _useful(self, candidates: Sequence[Trial], rows: NDArray[np.int64]) -> int:
        """How many of the candidates, which are sorted, gain a tenth of what the best one gains over a constant.

        One that hardly tells rows apart does no harm to a metric of ranks, so it could be added again and again, and
        make all probabilities nearly the same.
        """
        assert self.run.dataset.y is not None
        y = self.run.dataset.y[rows]
        shares = (
            y.mean()
            if self.run.dataset.classes is None
            else np.bincount(y, minlength=len(self.run.dataset.classes)) / len(y)
        )
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
        rows = self._some(validated)
        deadline = None if self.run.end is None else time.time() + 0.5 * max(0.0, self.run.end - time.time())
        return select_ensemble(
            [p[rows] for p in predictions],
            lambda p: self._loss(rows, p),
            max_members=self.run.settings.max_members,
            deadline=deadline,
        )

    def _members(self, trials: Sequence[Trial], weights: Array) -> list[Member]:
        """Members with their fitted models; those of an earlier process are fitted again if time allows."""
        chosen = [(t, float(w)) for t, w in zip(trials, weights, strict=True) if w > 0]
        models = {t.number: self._models(t) for t, _ in chosen}
        missing = [t for t, _ in chosen if models[t.number] is None]
        if missing:
            self.run.progress.phase(self.run, f"fitting {len(missing)} pipelines again, whose models were not kept")
            with ExitStack() as stack:
                self.run.shelf.objective = self.run.sandboxed(self.run.objective, stack)
                wanted = [(t.pipeline, self.run.seed_of(t.number), t.proposal.fidelity) for t in missing]
                again = evaluate_all(self.run.shelf, wanted, self._last_limits(0.9), self.run.plan.n_jobs)
            models |= {t.number: again.get(self.run.seed_of(t.number)) for t in missing}
        there = [(t, w, list(found)) for t, w in chosen if (found := models[t.number]) is not None]
        total = sum(w for _, w, _ in there)
        return [Member(t.number, t.pipeline, float(t.outcome.loss or 0.0), w / total, found) for t, w, found in there]

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
        if len(found) < len(members):
            self.run.notes.append(f"{len(members) - len(found)} members were not fitted on all rows for want of time")
        return [replace(m, models=found.get(seeds[m.number], m.models)) for m in members]

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
            factors = fit_factors(calibrated[some], lambda p: self._loss(rows[some], p))
            decisions = replace(decisions, factors=factors)
            said = "no other threshold is better" if factors is None else "thresholds between classes are tuned"
            self.run.notes.append(f"{said} for {self.run.metric.name}")
        return decisions

    def _simple(self) -> Model:
        """What can be had in no time, with a warning that says why."""
        statuses = Counter(t.outcome.status.value for t in self.run.history)
        seconds = self.run.settings.seconds
        if not statuses or set(statuses) <= {"timeout"}:
            why = f"time_budget of {seconds:g} s was too short for one full fit" if seconds else "no pipeline was tried"
            advice = "give more time"
        else:
            errors = Counter(t.outcome.error for t in self.run.history if t.outcome.error)
            why = f"none of {len(self.run.history)} pipelines worked, most often: {errors.most_common(1)[0][0]}"
            advice = "see failures_"
        message = f"{why}; the model is a simple one that is hardly better than a guess: {advice}"
        warn_user(message)
        self.run.notes.append(message)
        pipeline, model = simple_model(self.run.dataset, self.run.settings.seed)
        return self._model([Member(-1, pipeline, float("nan"), 1.0, [model])], Decisions())


def predictions_of(trial: Trial) -> Array:
    """What a trial predicted for each row, by models that had not seen it; NaN where it was not validated."""
    value = trial.outcome.artefacts["predictions"]
    return np.load(value, allow_pickle=False) if isinstance(value, Path) else np.asarray(value)


def _in_words(members: Sequence[Member], refit: str) -> str:
    what = "one pipeline" if len(members) == 1 else f"an ensemble of {len(members)} pipelines, each"
    models = sum(len(m.models) for m in members)
    if refit == "full":
        return f"{what} fitted on all rows"
    if refit == "single" or models == len(members):
        return f"{what} with the model of one fold"
    return f"{what} the mean of the models of its folds ({models} models)"
