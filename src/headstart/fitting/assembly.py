"""`Assembly`: the model of the trials of a run."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil
from numpy.typing import NDArray

from headstart.constraints import Constraint, total_excess
from headstart.errors import ConstraintWarning, SandboxError, printable, warn_user
from headstart.evaluation.constraints import pickled_size, timed
from headstart.evaluation.live import is_predicted
from headstart.evaluation.scoring import Metric, label_of
from headstart.fitting import reports
from headstart.fitting.conformal import Conformity
from headstart.fitting.decisions import Decisions, fit_factors, fit_temperature
from headstart.fitting.enlarged import enlarge
from headstart.fitting.ensemble import select_ensemble
from headstart.fitting.explain import make_reference
from headstart.fitting.model import Member, Model
from headstart.fitting.references import LINEAR
from headstart.fitting.refit import RefitObjective, changes_for_all_rows, evaluate_all
from headstart.fitting.saving import UNSATISFIED, reference_content, saved_size, table_content
from headstart.fitting.shelf import Shelf
from headstart.fitting.simple import QUICK_ROWS, SIMPLE, SIMPLE_ROWS, constant, is_quick, small_tree
from headstart.fitting.summary import constant_loss, linear_trial, scores_of, summarise
from headstart.space.pipeline import Pipeline
from headstart.trials import Fidelity, Limits, Status, Trial

if TYPE_CHECKING:
    import pandas as pd

    from headstart.fitting.run import Run

Array = NDArray[np.float64]

_NEARLY_ALL = 0.9
_FIRST = 5
"""So many of the best pipelines, taken together, say about where thresholds are."""
SELECTION_ROWS = 20_000
"""Most rows that the ensemble is selected on."""
SELECTION_BYTES = 4 * 10**9
"""Most bytes of predictions for all rows that the ensemble is selected from: with a thousand classes they are large."""
FAST_LOSS = 0.01
"""Of what the best model gains over a constant, what a fast one may lose."""
_CALLS, _CALLS_SECONDS = 7, 1.0
"""So many calls of a model are timed, as long as they take less than this."""
_SIMPLE_SHARES = (0.1, 1.0)
"""Of the rows of the simple model, one after the other."""
LOADING_SECONDS = 1.5
"""Seconds that are kept free to load models for each second that it took in their own process."""
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
        self._unusable: set[int] = set()
        """Trials whose models cannot be loaded, or made again."""

    def make(self) -> Model:
        """The model, made in the time that is left."""
        found = [t for t in self.run.candidates() if t.number not in self._unusable and self._is_readable(t)]
        candidates = self._within_reach(found)
        if not candidates:
            return self._simple()
        if self.run.task.constraints:
            return self._within_bounds(candidates)
        if not self.run.settings.ensemble:
            candidates = candidates[:1]
        self.run.progress.phase(self.run, "choosing the ensemble" if len(candidates) > 1 else "making the model")
        first = predictions_of(candidates[0])
        candidates = candidates[: max(1, SELECTION_BYTES // first.nbytes)]
        validated = np.flatnonzero(is_predicted(first))
        if not self._tunes:
            candidates = candidates[: self._useful(candidates)]
        predictions = [predictions_of(trial)[validated] for trial in candidates]
        deadline = self._deadline(0.5)
        decisions = self._first_decisions(predictions, validated)
        weights = self._select(predictions, validated, decisions, deadline)
        if decisions.factors is not None and not self._tunable(predictions, weights, validated):
            decisions = Decisions()
            weights = self._select(predictions, validated, decisions, deadline)
        if self.run.settings.deploy == "fast":
            weights = self._smallest(candidates, predictions, weights, validated, decisions, deadline)
        members = self._members(candidates, weights)
        if not members:
            return self.make()  # of others
        by_number = dict(zip([t.number for t in candidates], predictions, strict=True))
        if self.run.enlarges:
            members = self._enlarged(members, by_number, validated, decisions)
        average = np.sum([m.weight * by_number[m.number] for m in members], axis=0)
        decisions = self._decisions(average, validated)
        self.run.notes += self._said_of(decisions)
        if self.run.refits and not self.run.enlarges:
            members = self._refitted(members)
        if self.run.settings.refit == "single" or self.run.settings.deploy == "fast":
            members = [self._single(m, len(m.models) - 1) if len(m.models) > 1 else m for m in members]
        return self._model(members, decisions, average, validated)

    def _enlarged(
        self,
        members: Sequence[Member],
        predictions: dict[int, Array],
        validated: NDArray[np.int64],
        decisions: Decisions,
    ) -> list[Member]:
        """Members of which some are fitted on more rows, with weights that suit that; `predictions` are changed."""
        run = self.run
        found = enlarge(run, members, self._last_limits(0.9))
        if not found:
            return list(members)
        for number, larger in found.items():
            everything = np.full((run.dataset.n_rows, *larger.predictions.shape[1:]), np.nan)
            everything[run.plan.splits[0][1]] = larger.predictions
            predictions[number] = everything[validated]
        weights = self._select([predictions[m.number] for m in members], validated, decisions, self._deadline(0.5))
        chosen = []
        for member, weight in zip(members, weights.tolist(), strict=True):
            larger_one = found.get(member.number)
            if larger_one is not None:
                member = replace(member, models=larger_one.models, rows=larger_one.rows)
            if weight > 0:
                chosen.append(replace(member, weight=weight))
        sizes = sorted({m.rows or 0 for m in chosen if m.number in found}, reverse=True)
        if sizes:
            shown = " and ".join(f"{rows:,}" for rows in sizes)
            run.notes.append(f"members fitted on more rows than the search had: {shown} rows")
        return chosen

    def _smallest(
        self,
        candidates: Sequence[Trial],
        predictions: Sequence[Array],
        best: Array,
        rows: NDArray[np.int64],
        decisions: Decisions,
        deadline: float | None,
    ) -> Array:
        """Weights of the smallest model that loses at most `FAST_LOSS` of what the best one gains over a constant.

        Single pipelines are tried by the bytes of their fitted models, then ensembles of two, three and so on.
        """
        run = self.run

        def loss(weights: Array) -> float:
            average = np.sum([w * p for w, p in zip(weights, predictions, strict=True) if w], axis=0)
            return run.objective.loss_of(self._judged(decisions, average, rows))

        self._fit_again(candidates)  # what has no models has no size
        reached = loss(best)
        most = reached + FAST_LOSS * max(0.0, constant_loss(run) - reached)
        sizes = [run.shelf.size(run.seed_of(t.number)) or pickled_size(self._models(t) or []) for t in candidates]
        by_size = np.argsort(sizes, kind="stable")
        singles = [np.eye(len(candidates))[i] for i in by_size.tolist()]
        few = (self._select(predictions, rows, decisions, deadline, n) for n in range(2, run.settings.max_members))
        chosen = next((weights for weights in (*singles, *few) if loss(weights) <= most + 1e-12), best)
        names = (run.metric.shown(loss(chosen)), run.metric.shown(reached))
        run.notes.append(f"deploy is fast: {names[0]} instead of {names[1]}")
        return chosen

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
            for member in (form for m in self._members([trial], np.ones(1)) for form in self._forms(m)):
                own = self._measured(member)
                values = measured | own
                excess = total_excess(run.task.constraints, values)
                if nearest is None or excess < nearest[0]:
                    nearest = excess, member, decisions, values, predictions[validated], validated, list(run.notes)
                if excess == 0:
                    break
                if len(member.models) > 1 and (over := self._exceeded(values, own)):
                    run.notes.append(f"the models of all folds together have {over}, so one is used")
            if nearest is not None and (nearest[0] == 0 or (run.end is not None and time.time() > run.end)):
                break
        if nearest is None:
            return self._simple()
        excess, member, decisions, values, found, rows, run.notes = nearest
        if excess:
            message = f"{UNSATISFIED}; {self._best_found(values)}the model is the nearest one: {self._exceeded(values)}"
            warn_user(message, ConstraintWarning)
        else:
            within = [f"{c} ({self._shown(c, values)})" for c in run.task.constraints]
            message = f"constraints are satisfied: {', '.join(within)}"
        run.notes.append(message)
        return self._model([member], decisions, found, rows)

    def _exceeded(self, values: Mapping[str, float], names: Container[str] | None = None) -> str:
        """Which values, or which of those named, are above their bounds, in words."""
        over = [c for c in self.run.task.constraints if c.excess(values) and (names is None or c.name in names)]
        said = [f"{c.name} {self._shown(c, values)}" if c.name in values else f"{c.name} not measured" for c in over]
        return ", ".join(f"{found} (must be at most {c.shown(c.upper)})" for c, found in zip(over, said, strict=True))

    @staticmethod
    def _shown(bound: Constraint, values: Mapping[str, float]) -> str:
        """A measured value; that of a file that is yet to be written is an upper bound."""
        return f"{'at most ' if bound.name == 'size' else ''}{bound.shown(values[bound.name])}"

    def _best_found(self, values: Mapping[str, float]) -> str:
        """The lowest values of what is above its bound, in words; nothing where there are none."""
        trials = [trial.outcome.constraints for trial in self.run.history if trial.outcome.ok]
        found = []
        for bound in self.run.task.constraints:
            known = [measured[bound.name] for measured in [*trials, values] if bound.name in measured]
            if bound.excess(values) and known:
                found.append(f"the lowest {bound.name} found was {bound.shown(min(known))}, bounded by {bound}; ")
        return "".join(found)

    def _forms(self, member: Member) -> Iterator[Member]:
        """What a member may predict with: what the user has chosen, then the models of single folds."""
        whole = self._refitted([member])[0] if self.run.settings.refits == "full" else member
        if whole is not member or (self.run.settings.refits != "single" and len(member.models) > 1):
            yield whole
        for i in reversed(range(len(member.models))):
            yield self._single(member, i)

    def _single(self, member: Member, i: int) -> Member:
        """A member with one of the models of its folds."""
        fold = self._large_folds(member.number)[i]
        return replace(member, models=[member.models[i]], rows=self._rows_of(member.number, [fold]))

    def _measured(self, member: Member) -> dict[str, float]:
        """Latency and size of a member as it predicts, those that are bounded.

        The latency is that of a call with a table, which is brought into its form first: the median of several calls,
        where trials have the fastest.
        """
        wanted = {constraint.name for constraint in self.run.task.constraints}
        found = {}
        if "size" in wanted:
            validated = sum(len(valid) for _, valid in self.run.plan.splits)
            found["size"] = saved_size(member.models, self._header(member), validated)
        if "latency" in wanted:
            data = self.run.dataset.take(self.run.plan.splits[-1][1])
            predict = member.predictor(() if data.classes is None else (len(data.classes),))
            took: list[float] = []
            while not took or (len(took) < _CALLS and sum(took) < _CALLS_SECONDS):
                took.append(timed(lambda: predict(data.schema.apply(data.X)), repeat=False)[1])
            found["latency"] = float(np.median(took)) / data.n_rows
        return found

    def _header(self, member: Member) -> dict[str, Any]:
        """What a file holds besides the fitted pipelines, as far as it may be large."""
        run = self.run
        tables = [reports.leaderboard(run.history, run.metric, [member]), reports.failures(run.history)]
        reference = reference_content(self._reference())
        tables_ = [table_content(table) for table in tables]
        return {"schema": run.dataset.schema.to_dict(), "tables": tables_, "reference": reference}

    def _decisions_within_bounds(
        self, trial: Trial, predictions: Array, rows: NDArray[np.int64]
    ) -> tuple[Decisions, dict[str, float]]:
        """Decisions, and the values of the trial with them; thresholds are not tuned if a bound is exceeded by that."""
        measured = dict(trial.outcome.constraints)
        decisions = self._decisions(predictions, rows)
        self.run.notes += self._said_of(decisions)
        if decisions.factors is None:
            return decisions, measured
        tuned = measured | self.run.objective.constraint_values(self._judged(decisions, predictions, rows))
        bounds = self.run.task.constraints
        if total_excess(bounds, tuned) <= total_excess(bounds, measured):
            return decisions, tuned
        self.run.notes.append(f"thresholds are left as they were, tuned ones have {self._exceeded(tuned)}")
        return replace(decisions, factors=None), measured

    def _model(
        self,
        members: Sequence[Member],
        decisions: Decisions,
        predictions: Array | None = None,
        rows: NDArray[np.int64] | None = None,
    ) -> Model:
        """The model of these members.

        Parameters
        ----------
        predictions, rows
            What the members together predicted, before decisions, for which validation rows; None for the simple model.
        """
        data = self.run.dataset
        rows_in_all = self.run.table.n_rows
        self.run.notes.append(f"{self.run.plan.splits.kind}; {_in_words(members, rows_in_all)}")
        decisions = replace(decisions, folds=min(decisions.folds, max(len(m.models) for m in members)))
        summary, refit, conformity, self.score = None, None, None, None
        if predictions is not None and rows is not None:
            assert data.y is not None
            judged = self._judged(decisions, predictions, rows)
            self.score = self._score(judged)
            trained = self._mean_rows(members)
            summary = summarise(self.run, judged, self._references(), decisions.factors is None, trained)
            pairs = self.run.plan.splits.pairs[: self._trial(members[0].number).proposal.fidelity.folds]
            conformity = Conformity.of(predictions, data.y, rows, pairs, self.run.settings.seed)
            forms = {m.form(rows_in_all) for m in members}
            refit = forms.pop() if len(forms) == 1 else "mixed"
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
            summary,
            conformity,
            self._reference(),
        )

    def _reference(self) -> pd.DataFrame | None:
        data = self.run.dataset
        return make_reference(data.X, data.schema, self.run.settings.seed)

    def _references(self) -> dict[str, Array]:
        """What the metric judges of simple models, by name, calibrated and tuned as the model is.

        The linear one is the best that was tried, or else the one that was fitted to compare with.
        """
        found = dict(self.run.references)
        trial = linear_trial(self.run.history)
        if trial is not None and self._is_readable(trial):
            found[LINEAR] = predictions_of(trial)
        judged = {}
        for name, predictions in found.items():
            validated = np.flatnonzero(is_predicted(predictions))
            known = predictions[validated]
            judged[name] = self._judged(self._decisions(known, validated), known, validated)
        return judged

    def reference_scores(self) -> dict[str, float]:
        """Scores of simple models, as in the summary and by its names."""
        return scores_of(self.run, self._references())

    def _mean_rows(self, members: Sequence[Member]) -> int:
        """How many rows a model of these members was trained on, on average over the models."""
        sizes: list[int] = []
        for member in members:
            if len(member.models) == 1 and member.rows is not None:
                sizes.append(member.rows)
            else:
                sizes += [self._rows_of(member.number, [fold]) for fold in self._large_folds(member.number)]
        return round(float(np.mean(sizes)))

    def _models(self, trial: Trial) -> list[Any] | None:
        """The fitted models of a trial; None, with a note, if a class of the user's does not let itself be loaded."""
        try:
            return self.run.shelf.models(self.run.seed_of(trial.number))
        except (Exception, SystemExit) as error:
            self._unusable.add(trial.number)
            why = printable(f"{type(error).__name__}: {error}")
            self.run.notes.append(f"trial {trial.number} was left out, for its fitted models cannot be loaded: {why}")
            return None

    def _loss(self, rows: NDArray[np.int64], predictions: Array, metric: Metric | None = None) -> float:
        assert self.run.dataset.y is not None
        weights = None if self.run.dataset.weights is None else self.run.dataset.weights[rows]
        return (metric or self.run.metric).loss(self.run.dataset.y[rows], predictions, weights)

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

    def _useful(self, candidates: Sequence[Trial]) -> int:
        """How many of the candidates, which are sorted, gain a tenth of what the best one gains over a constant.

        One that hardly tells rows apart does no harm to a metric of ranks, so it could be added again and again, and
        make all probabilities nearly the same.
        """
        constant = constant_loss(self.run)
        losses = np.array([float(t.outcome.loss or 0.0) for t in candidates])
        if not constant > losses[0]:
            return 1
        return int((losses <= losses[0] + 0.9 * (constant - losses[0])).sum())

    def _some(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """At most so many rows that a loss can be computed a thousand times."""
        if len(rows) <= SELECTION_ROWS:
            return rows
        return np.sort(np.random.default_rng(self.run.settings.seed).choice(rows, SELECTION_ROWS, replace=False))

    def _deadline(self, share: float) -> float | None:
        """When this share of the time that is left will be over; None where there is no end."""
        return None if self.run.end is None else time.time() + share * max(0.0, self.run.end - time.time())

    def _first_decisions(self, predictions: Sequence[Array], validated: NDArray[np.int64]) -> Decisions:
        """With thresholds that suit the first few together: labels are selected as they will be chosen."""
        if len(predictions) == 1 or not self._tunes:
            return Decisions()
        some = self._some(np.arange(len(validated)))
        rows = validated[some]
        first = np.mean([p[some] for p in predictions[:_FIRST]], axis=0)
        return Decisions(factors=fit_factors(first, lambda p: self._loss(rows, p), deadline=self._deadline(0.2)))

    def _tunable(self, predictions: Sequence[Array], weights: Array, validated: NDArray[np.int64]) -> bool:
        """Whether thresholds will be tuned; where they will not, nothing is to be selected for thresholds."""
        average = np.sum([w * p for w, p in zip(weights, predictions, strict=True) if w], axis=0)
        return self._decisions(average, validated).factors is not None

    def _select(
        self,
        predictions: Sequence[Array],
        validated: NDArray[np.int64],
        decisions: Decisions,
        deadline: float | None,
        max_members: int | None = None,
    ) -> Array:
        if len(predictions) == 1:
            return np.ones(1)
        some = self._some(np.arange(len(validated)))
        rows = validated[some]
        return select_ensemble(
            [p[some] for p in predictions],
            lambda p: self._loss(rows, decisions.judged(p)),
            max_members=max_members or self.run.settings.max_members,
            deadline=deadline,
        )

    def _is_readable(self, trial: Trial) -> bool:
        """Whether the predictions of a trial are in the store as they were written; if not, there is a note."""
        data = self.run.dataset
        shape = (data.n_rows,) if data.classes is None else (data.n_rows, len(data.classes))
        try:
            found = predictions_of(trial)
            if found.shape == shape and found.dtype.kind == "f":
                return True
            why = f"they must be numbers of shape {shape}, found {found.dtype} of shape {found.shape}"
        except (OSError, EOFError, KeyError, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
        self.run.notes.append(printable(f"trial {trial.number} was left out, for its predictions are damaged: {why}"))
        return False

    def _within_reach(self, candidates: list[Trial]) -> list[Trial]:
        """Those whose fitted models are there; if none are, the best one that can be fitted again in time.

        Without a time budget all are: `_members` fits again what it needs, so that the model of a search that was
        interrupted and resumed is that of one that was not.
        """
        if self.run.end is None:
            return candidates
        if there := [t for t in candidates if self._is_there(t)]:
            return there
        for trial in candidates[:3]:
            self._fit_again([trial])
            if self._is_there(trial):
                return [trial]
        return []

    def _is_there(self, trial: Trial) -> bool:
        return self.run.seed_of(trial.number) in self.run.shelf

    def _fit_again(self, trials: Sequence[Trial]) -> None:
        """Fit again those whose models are not there: they are of an earlier process, or there was no room for them."""
        run, gone = self.run, [t for t in trials if not self._is_there(t)]
        if not gone:
            return
        run.progress.phase(run, f"fitting {'the best pipeline' if len(gone) == 1 else 'the best pipelines'} again")
        run.shelf.objective = run.evaluator()
        run.shelf.capacity += len(gone)
        wanted = [(t.pipeline, run.seed_of(t.number), t.proposal.fidelity) for t in gone]
        evaluate_all(run.shelf, wanted, self._last_limits(0.9), run.plan.n_jobs)
        failed = [t.number for t in gone if not self._is_there(t)]
        self._unusable.update(failed)
        run.notes += [f"trial {number} was left out, for it could not be fitted again" for number in failed]

    def _members(self, trials: Sequence[Trial], weights: Array) -> list[Member]:
        """Members with the fitted models of their folds, those of `_large_folds`."""
        chosen = [(trial, weight) for trial, weight in zip(trials, weights.tolist(), strict=True) if weight > 0]
        self._fit_again([trial for trial, _ in chosen])
        self.run.release()  # the memory of workers, which are not needed any more
        chosen = self._that_fit(chosen)
        members: list[Member] = []
        for trial, weight in chosen:
            models = self._models(trial)
            if not models:
                continue
            large = self._large_folds(trial.number)
            kept, rows = [models[i] for i in large], self._rows_of(trial.number, large)
            members.append(Member(trial.number, trial.pipeline, float(trial.outcome.loss or 0.0), weight, kept, rows))
        total = sum(member.weight for member in members)
        return [replace(member, weight=member.weight / total) for member in members]

    def _trial(self, number: int) -> Trial:
        return next(trial for trial in self.run.history if trial.number == number)

    def _large_folds(self, number: int) -> list[int]:
        """Folds of a trial whose models count: of windows that grow with time, those with nearly all rows."""
        folds = self.run.plan.splits.pairs[: self._trial(number).proposal.fidelity.folds]
        sizes = np.array([len(train) for train, _ in folds])
        large: list[int] = np.flatnonzero(sizes >= _NEARLY_ALL * sizes.max()).tolist()
        return large

    def _rows_of(self, number: int, folds: Iterable[int]) -> int:
        """How many rows the models of these folds of a trial were trained on, together."""
        splits = self.run.plan.splits.subsample(self._trial(number).proposal.fidelity.rows)
        return len(np.unique(np.concatenate([splits[i][0] for i in folds])))

    def _that_fit(self, chosen: list[tuple[Trial, float]]) -> list[tuple[Trial, float]]:
        """Those whose models can be loaded in the memory and time that are left, the heaviest first; one at least.

        What it takes is known from when the models were made, under the load that the machine had then.
        """
        limit, end, shelf = self.run.settings.memory_limit, self.run.end, self.run.shelf
        memory = math.inf if limit is None else limit - psutil.Process().memory_info().rss
        seconds = math.inf if end is None else end - time.time()
        kept: dict[int, float] = {}
        costs: dict[int, tuple[float, float]] = {}
        over: Counter[str] = Counter()
        for trial, weight in sorted(chosen, key=lambda item: -item[1]):
            seed = self.run.seed_of(trial.number)
            size, duration = LOADED_BYTES * shelf.size(seed), LOADING_SECONDS * shelf.loading_seconds(seed)
            costs[trial.number] = size, duration
            if size > memory:
                over[f"do not fit into the memory_limit of {limit:.3g} bytes"] += 1
            elif duration > seconds:
                over["cannot be loaded in the time that is left"] += 1
            else:
                memory, seconds = memory - size, seconds - duration
                kept[trial.number] = weight
        if not kept:
            kept[min(costs, key=lambda number: costs[number])] = 1.0
        if len(kept) < len(chosen):
            why = over.most_common(1)[0][0]
            self.run.notes.append(
                f"{len(chosen) - len(kept)} of {len(chosen)} members were left out, for their fitted models {why}"
            )
        total = sum(kept.values())
        return [(trial, weight / total) for trial, weight in chosen if trial.number in kept]

    def _last_limits(self, share: float) -> Limits:
        """Of work that must end with the budget."""
        deadline = self._deadline(share)
        return Limits(self.run.plan.limits.seconds if deadline is None else None, self.run.plan.limits.bytes, deadline)

    def _refitted(self, members: Sequence[Member]) -> list[Member]:
        """Members fitted on all rows, as far as time allows; the others keep the models of their folds."""
        run = self.run
        run.progress.phase(run, "refitting the members on all rows")
        seeds = {m.number: run.seed_of(m.number) for m in members}
        trials = {m.number: self._trial(m.number) for m in members}
        changes = {seeds[m.number]: changes_for_all_rows(m.models, run.growth(trials[m.number])) for m in members}
        limits = self._last_limits(0.95)
        seconds = {} if limits.deadline is None else {seeds[n]: run.refit_seconds(t) for n, t in trials.items()}
        objective = RefitObjective(run.space, run.dataset, changes, seconds)

        no_time = "there was no time"

        def fit(member: Member) -> list[Any] | str:
            """Fitted unless it would take longer than there is time, by what its trial took for each row; or why not.

            Whatever goes wrong, the models of the folds are worth more than an error.
            """
            if limits.deadline is not None and time.time() + seconds[seeds[member.number]] > limits.deadline:
                return no_time
            try:
                outcome = shelf(member.pipeline, limits, seeds[member.number])
                if outcome.status is Status.TIMEOUT:
                    return no_time
                return shelf.models(seeds[member.number]) or outcome.error or "it gave no model"
            except SandboxError as error:  # no worker can be started
                return printable(str(error))
            except (Exception, SystemExit) as error:  # a class of the user's does not let itself be loaded
                return printable(f"{type(error).__name__}: {error}")

        with ExitStack() as stack:
            shelf = Shelf(run.sandboxed(objective, stack), len(members))
            pool = stack.enter_context(ThreadPoolExecutor(run.plan.n_jobs))
            by_weight = sorted(members, key=lambda m: -m.weight)
            fitted = dict(zip([m.number for m in by_weight], pool.map(fit, by_weight), strict=True))
        reasons = Counter(found for found in fitted.values() if isinstance(found, str))
        for why, n in reasons.items():
            some = f"{n} of {len(members)} pipelines"
            run.notes.append(
                f"there was no time to fit {some} on all rows"
                if why == no_time
                else f"{some} could not be fitted on all rows and kept what the folds gave: {why}"
            )
        return [
            member
            if isinstance(found := fitted[member.number], str)
            else replace(member, models=found, rows=run.dataset.n_rows)
            for member in members
        ]

    def _decisions(self, predictions: Array, rows: NDArray[np.int64]) -> Decisions:
        """Calibration and thresholds, learned from predictions for validation rows."""
        decisions = Decisions()
        if self.run.dataset.classes is None:
            return decisions
        if self._calibrates:
            decisions = self._calibration(predictions, rows)
        if self._tunes:
            decisions = replace(decisions, factors=self._factors(decisions.calibrated(predictions), rows))
        return decisions

    def _said_of(self, decisions: Decisions) -> list[str]:
        """What is calibrated and tuned, in words."""
        found = []
        if self._calibrates and decisions != Decisions(factors=decisions.factors):
            found.append(f"probabilities are calibrated with temperature {decisions.temperature:.3g}")
        if self._tunes:
            tuned = decisions.factors is not None
            said = "thresholds between classes are tuned" if tuned else "no other threshold is better"
            found.append(f"{said} for {label_of(self.run.metric.name)}")
        return found

    @property
    def _calibrates(self) -> bool:
        given = self.run.settings.calibrate
        return self.run.metric.of_probabilities if given is None else given

    @property
    def _tunes(self) -> bool:
        given = self.run.settings.tune_threshold
        return self.run.dataset.classes is not None and bool(self.run.metric.of_labels if given is None else given)

    def _calibration(self, predictions: Array, rows: NDArray[np.int64]) -> Decisions:
        """The best temperature for the metric, or for log loss if that does not judge probabilities by their values.

        Without one that is better on the validation rows, nothing is calibrated unless the user wants it.
        """
        assert self.run.dataset.task is not None
        metric = self.run.metric
        judge = metric if metric.of_probabilities else Metric("neg_log_loss", self.run.dataset.task)
        some = self._some(np.arange(len(rows)))
        temperature = fit_temperature(predictions[some], lambda p: self._loss(rows[some], p, judge))
        validated = sum(len(valid) for _, valid in self.run.plan.splits)
        repeats = max(1, round(validated / len(rows)))  # so many models predicted each row, on average
        found = Decisions(temperature, folds=max(1, len(self.run.plan.splits) // repeats))
        if self.run.settings.calibrate is None:
            plain, better = (self._score(self._judged(d, predictions, rows)) for d in (Decisions(), found))
            if not better > plain:
                return Decisions()
        return found

    def _factors(self, probabilities: Array, rows: NDArray[np.int64]) -> tuple[float, ...] | None:
        """The best factors of the classes for the metric, None for plain ones.

        The best of many thresholds is often luck on few rows. So, unless the user wants them in any case, factors that
        are tuned on four fifths of the rows must gain on the others at least half of what they seem to gain.
        """
        some = self._some(np.arange(len(rows)))
        rows, probabilities = rows[some], probabilities[some]
        end = self._deadline(0.5)

        def tuned(chosen: NDArray[Any]) -> tuple[float, ...] | None:
            return fit_factors(probabilities[chosen], lambda p: self._loss(rows[chosen], p), deadline=end)

        factors = tuned(np.ones(len(rows), dtype=bool))
        if factors is None or self.run.settings.tune_threshold:
            return factors
        part = np.random.default_rng(self.run.settings.seed).permutation(len(rows)) % 5
        judged = np.empty_like(probabilities)
        for i in range(5):
            judged[part == i] = Decisions(factors=tuned(part != i)).judged(probabilities[part == i])
        plain, seeming, real = (
            self._loss(rows, p) for p in (probabilities, Decisions(factors=factors).judged(probabilities), judged)
        )
        return factors if plain - real >= 0.5 * (plain - seeming) else None

    def _simple(self) -> Model:
        """What can be had in no time, with a warning that says why."""
        statuses = Counter(t.outcome.status.value for t in self.run.history)
        seconds = self.run.settings.seconds
        if statuses["ok"] and self.run.end is None:
            why, advice = f"none of {statuses['ok']} pipelines that worked can be used", "the notes say why"
        elif statuses["ok"]:
            why = f"{statuses['ok']} pipelines of an earlier run could not be fitted again in the time that was left"
            advice = "give more time"
        elif not statuses or set(statuses) <= {"timeout"}:
            why = f"time_budget of {seconds:g} s was too short for one full fit" if seconds else "no pipeline was tried"
            advice = "give more time"
        else:
            errors = Counter(t.outcome.error for t in self.run.history if t.outcome.error)
            why = f"none of {len(self.run.history)} pipelines worked, most often: {errors.most_common(1)[0][0]}"
            advice = "see failures_"
        tree = self._small_tree()
        message = f"{why}; the model is a simple one, {'a constant' if tree is None else 'a small tree'}: {advice}"
        warn_user(message)
        self.run.notes.append(message)
        if self.run.task.constraints:
            self.run.notes.append("the simple model was not checked against the constraints")
        name, model, rows = ("constant", constant(self.run.dataset), self.run.dataset.n_rows) if tree is None else tree
        member = Member(-1, Pipeline([name]), float("nan"), 1.0, [model], rows)
        return self._model([member], Decisions())

    def _small_tree(self) -> tuple[str, Any, int] | None:
        """A small tree, first on few rows and then, if there is time for that, on more: its name, itself, its rows.

        Made by a worker, for on wide tables and texts it takes long. Where it cannot, it is made here if it never does.
        """
        run, seed = self.run, self.run.settings.seed
        found: tuple[str, Any, int] | None = None

        def named(model: Any, rows: int) -> tuple[str, Any, int]:
            return "decision_tree", model, min(rows, run.dataset.n_rows)

        for share in _SIMPLE_SHARES:
            left = None if run.end is None else run.end - time.time()
            if left is not None and left <= 0:
                break
            shelf, started = Shelf(run.evaluator(), 1), time.time()
            if not evaluate_all(shelf, [(SIMPLE, seed, Fidelity(share))], self._last_limits(_NEARLY_ALL), 1):
                break
            found = named((shelf.models(seed) or [None])[0], round(share * SIMPLE_ROWS))
            if left is not None and 2 * (time.time() - started) / share > left:
                break
        if found is None and is_quick(run.dataset):
            return named(small_tree(run.dataset, seed, QUICK_ROWS), QUICK_ROWS)
        return found


def predictions_of(trial: Trial) -> Array:
    """What a trial predicted for each row, by models that had not seen it; NaN where it was not validated."""
    value = trial.outcome.artefacts["predictions"]
    if not isinstance(value, Path):
        return np.asarray(value)
    return np.load(value, mmap_mode="r", allow_pickle=False)  # type: ignore[no-any-return]


def _in_words(members: Sequence[Member], rows: int) -> str:
    """What the members predict with, and what share of the rows of the table that was trained on."""
    folds, whole, bags = ([m for m in members if m.form(rows) == form] for form in ("single", "full", "bag"))
    shares = [f"{100 * share / rows:.3g} %" for share in sorted({m.rows or 0 for m in folds})]
    said = {
        "fitted on all rows": whole,
        f"the mean of the models of its folds ({sum(len(m.models) for m in bags)} models)": bags,
        f"with the model of one fold, trained on {' or '.join(shares)} of the rows": folds,
    }
    parts = [(words, len(found)) for words, found in said.items() if found]
    if members[0].number < 0:  # the simple model
        what = "a constant" if members[0].pipeline.algorithms == ("constant",) else "one small tree"
        return f"{what}, trained on {shares[0] if shares else 'all'} of the rows"
    if len(members) == 1:
        return f"one pipeline, {parts[0][0]}"
    shown = [f"each {words}" if n == len(members) else f"{n} of them {words}" for words, n in parts]
    return f"an ensemble of {len(members)} pipelines, {', '.join(shown)}"
