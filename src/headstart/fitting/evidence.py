"""What is known of a fit, gathered for its report within a time limit: `Record` in, `headstart.report.content` out.

What takes long is left out when time is up, and the report says so: first partial dependence, then importance, then
columns of the table.
"""

from __future__ import annotations

import platform
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.data.columns import Kind
from headstart.evaluation.live import is_predicted
from headstart.evaluation.scoring import Metric, label_of, natural
from headstart.fitting import behaviour as looks
from headstart.fitting import reports
from headstart.fitting.saving import UNSATISFIED, versions
from headstart.fitting.settings import PLACE, Settings
from headstart.fitting.summary import resampled
from headstart.report import content as c
from headstart.report.page import render
from headstart.report.tree import TreeView

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.data.splits import Splits
    from headstart.fitting.model import Member, Model
    from headstart.fitting.run import Run
    from headstart.history import History
    from headstart.trials import Trial

Array = NDArray[Any]

REPORT_SECONDS = 60.0
"""For a report that no budget bounds."""
SHOWN_COLUMNS = 60
SHOWN_MEMBERS = 20
SHOWN_IMPORTANCES = 20
SHOWN_DEPENDENCES = 6
SHOWN_FAILURES = 15
SHOWN_FAMILIES = 40
_PROFILED_ROWS = 20_000
"""Rows by which columns are described; of more, so many at random."""
_SPARK_BINS = 12
_PAGE_SECONDS = 0.15
"""About what it takes to write the page."""
_IMPORTANCE_SHARE = 0.6
"""Of the time that is left for importance and dependence."""
_TRIED_ROWS, _TRIED_SHARE = 20, 0.3
"""Rows that are predicted to see whether there is time for importance: at most this share of it."""
_SIMPLE = "the model is a simple one that was not validated"


@dataclass(frozen=True)
class Record:
    """What is known of a fit besides its model; each part may be missing.

    Parameters
    ----------
    dataset
        The training table.
    history
        What was tried.
    splits
        Which rows validated.
    settings
        Those that are not at their defaults, by name.
    space, optimizer
        Their names.
    order
        See `Mosaic`; for the search tree.
    started, ended
        Unix times of when the time budget began and when the fit ended, if known; without an end, it ends now.
    no_table
        Why there is no training table.
    reproduce
        A command or a script.
    """

    dataset: Dataset | None = None
    history: History | None = None
    splits: Splits | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    space: str = ""
    optimizer: str = ""
    order: Sequence[str] = ()
    started: float | None = None
    ended: float | None = None
    no_table: str = "a saved model has no training rows; give the report a table"
    reproduce: str = ""

    @classmethod
    def of(cls, run: Run) -> Record:
        optimizer = run.study.optimizer
        return cls(
            run.dataset,
            run.history,
            run.plan.splits,
            described(run.settings),
            run.settings.seed,
            run.space.name,
            type(optimizer).__name__,
            getattr(optimizer, "order", ()),
            run.started,
        )


def described(settings: Settings) -> dict[str, Any]:
    """Settings that are not at their defaults, but for where it ran and what it wrote."""
    defaults = {f.name: f.default for f in fields(Settings) if f.metadata != PLACE}
    return {name: v for name, default in defaults.items() if not _same(v := getattr(settings, name), default)}


def _same(value: Any, default: Any) -> bool:
    return value is default or (isinstance(value, str | int | float | tuple) and value == default)


def write_report(
    model: Model,
    record: Record,
    metric: Metric,
    test: tuple[Any, Array] | None = None,
    until: float | None = None,
) -> str:
    """The page of a report.

    Parameters
    ----------
    metric
        What was optimised.
    test
        A test table in the form of the training rows, and its target as codes or numbers.
    until
        Moment by `time.monotonic` to be done at.
    """
    until = time.monotonic() + REPORT_SECONDS if until is None else until
    return render(_Gatherer(model, record, metric, test, until - _PAGE_SECONDS).content())


class _Gatherer:
    """Gathers a report; see `write_report`. `until` is when there must be an end to it."""

    def __init__(
        self,
        model: Model,
        record: Record,
        metric: Metric,
        test: tuple[Any, Array] | None,
        until: float,
    ) -> None:
        self.model, self.record, self.metric, self.test, self.until = model, record, metric, test, until
        self.left_out: dict[str, list[str]] = {}
        self.classes = [] if model.classes is None else [str(label) for label in model.classes.tolist()]
        self.label = label_of(model.metric)
        self.higher = not model.metric.startswith("neg_")

    def content(self) -> c.Content:
        """Everything, what takes longest last."""
        model, record = self.model, self.record
        verdict, members, bounds = self._verdict(), self._members(), self._bounds()
        search, table = self._search(), self._table()
        data = record.dataset
        of = f" in {data.name}" if data is not None and data.name != "table" else ""
        return c.Content(
            f"Predicting {model.target}{of}",
            time.strftime("Made on %d %B %Y at %H:%M"),
            verdict,
            table,
            search,
            members,
            self._behaviour(),
            bounds,
            [note[:1].upper() + note[1:] for note in model.notes if "constraint" in note],
            self._tree(),
            self._card(),
            record.reproduce or self._script(),
            self.left_out,
        )

    def _gap(self, section: str, text: str) -> None:
        self.left_out.setdefault(section, []).append(text)

    def _score(self, score: float) -> float:
        return natural(self.model.metric, score)

    # -- verdict ------------------------------------------------------------------------------------------------------

    def _verdict(self) -> c.Verdict:
        model, summary, record = self.model, self.model.summary, self.record
        scores: list[c.Score] = []
        said: list[str] = []
        if summary is None:
            said.append("No pipeline finished in time: this is a simple fallback model, and it was not validated.")
        else:
            scores.append(c.Score("constant", summary.constant))
            if summary.linear is not None:
                scores.append(c.Score("linear model", summary.linear))
            if summary.lightgbm is not None:
                scores.append(c.Score("LightGBM, its defaults", summary.lightgbm))
            else:
                self._gap(
                    "verdict", "LightGBM with its defaults, for it was not done in the time that a fit keeps for it"
                )
            scores.append(c.Score("this model", summary.score, summary.interval, "model"))
            said.append(self._compared(scores))
            said.append(
                "The score is of validation rows, which the models had not seen but by which they were selected: on "
                "new rows expect a little less."
            )
        if self.test is not None:
            scores.append(self._test_score(*self.test))
            said.append(f"The test table has {len(self.test[1]):,} rows.")
        others = {} if summary is None else {label_of(name): value for name, value in summary.others.items()}
        facts = {f"{name} in validation": f"{value:.4g}" for name, value in others.items()}
        if summary is not None:
            facts["rows"] = f"{summary.rows:,}"
            facts["each model fitted to"] = f"{summary.trained_rows:,} rows"
        facts["pipelines in the model"] = str(len(model.members))
        if record.history is not None:
            facts["pipelines tried"] = f"{len(record.history):,}"
        if record.started is not None:
            facts["time"] = f"{self._ended() - record.started:.1f} s"
        warned = ("maps one to one", UNSATISFIED, "the model is a simple one", "single row")
        warnings = [note for note in model.notes if any(text in note for text in warned)]
        return c.Verdict(self.label, self.higher, scores, others, said, warnings, facts)

    def _compared(self, scores: Sequence[c.Score]) -> str:
        """Whether the model is better than the best reference, in a sentence."""
        *references, ours = scores
        best = (max if self.higher else min)(references, key=lambda score: score.value)
        gain = ours.value - best.value if self.higher else best.value - ours.value
        if gain <= 0:
            return f"It is not better than a simple reference: the {best.name} reaches {best.value:.4g}."
        if ours.interval is None:
            return f"It is better than the best reference, the {best.name} ({best.value:.4g})."
        low, high = ours.interval
        clear = best.value < low if self.higher else best.value > high
        return f"It is better than the best reference, the {best.name} ({best.value:.4g}), " + (
            "which lies outside of its interval." if clear else "but that lies inside of its interval."
        )

    def _test_score(self, X: Any, truth: Array) -> c.Score:
        predictions = self.model.predict_ready(X)
        judged = predictions if self.model.classes is None else self.model.decisions.judged(predictions)

        def score(parts: list[Array]) -> float:
            rows = np.concatenate(parts)
            return self._score(self.metric.score(truth[rows], judged[rows]))

        every = np.arange(len(truth))
        left = max(0.2, 0.3 * (self.until - time.monotonic()))
        interval = resampled(score, [every], every, self.record.seed, time.time() + left)
        return c.Score("this model, test table", score([every]), interval, "test")

    # -- table --------------------------------------------------------------------------------------------------------

    def _table(self) -> c.Table | None:
        data = self.record.dataset
        if data is None:
            self._gap("behaviour", f"what needs the training table: {self.record.no_table}")
            return None
        target = c.Column(data.target, str(data.task), 0.0, self._target_in_words(data), self._target_shares(data))
        kinds = Counter(str(kind) for kind in data.kinds.values()) or {"numeric (sparse)": data.n_features}
        why = {Kind.ID: "Left out as ids", Kind.CONSTANT: "Left out as constants"}
        gone = {text: [n for n, held in data.kinds.items() if held is kind] for kind, text in why.items()}
        left_out: dict[str, Sequence[str]] = {text: names[:SHOWN_COLUMNS] for text, names in gone.items() if names}
        if others := [name for name in data.schema.others if name != data.target]:
            left_out["Not features, but weights, groups or times"] = others
        columns: list[c.Column] = []
        if not data.is_sparse:
            columns = self._columns(data)
        return c.Table(data.name, data.n_rows, data.n_features, target, columns, kinds, left_out, data.notes)

    def _columns(self, data: Dataset) -> list[c.Column]:
        names = list(data.X.columns)[:SHOWN_COLUMNS]
        rows = looks.some(np.arange(data.n_rows), _PROFILED_ROWS, self.record.seed)
        found: list[c.Column] = []
        half = time.monotonic() + 0.4 * max(0.0, self.until - time.monotonic())
        for name in names:
            if found and time.monotonic() > half:
                self._gap("table", f"columns after the first {len(found)} of {data.n_features}, for want of time")
                break
            column, kind = data.X[name], data.kinds[name]
            words, shares = _profile(column.iloc[rows], kind)
            found.append(c.Column(str(name), str(kind), float(column.isna().mean()), words, shares))
        if len(rows) < data.n_rows:
            self._gap("table", f"rows: columns are described by {len(rows):,} of {data.n_rows:,}, chosen at random")
        return found

    def _target_in_words(self, data: Dataset) -> str:
        y: Any = data.y
        if data.classes is None:
            return f"{y.min():.4g} to {y.max():.4g}, mean {y.mean():.4g}, median {np.median(y):.4g}"
        counts = np.bincount(y, minlength=len(self.classes))
        order = np.argsort(-counts, kind="stable")
        shown = [f"{self.classes[i]} ({100 * counts[i] / len(y):.3g} %)" for i in order[:6].tolist()]
        more = f" and {len(order) - 6} more" if len(order) > 6 else ""
        return f"{len(order)} classes: {', '.join(shown)}{more}"

    def _target_shares(self, data: Dataset) -> list[float]:
        y: Any = data.y
        if data.classes is None:
            return _shares(np.asarray(y, dtype=np.float64))
        counts = np.sort(np.bincount(y, minlength=len(self.classes)))[::-1][:_SPARK_BINS]
        return (counts / len(y)).tolist()  # type: ignore[no-any-return]

    # -- search -------------------------------------------------------------------------------------------------------

    def _search(self) -> c.Search | None:
        history = self.record.history
        if history is None:
            self._gap(
                "verdict",
                "the search, which a saved model does not keep; 'headstart report' on the directory of "
                "the fit shows it",
            )
            return None
        trials = sorted(history, key=lambda trial: trial.finished)
        ok = [trial for trial in trials if trial.outcome.ok]
        clock = _search_clock(trials)
        seconds = np.array([clock(trial.finished) for trial in ok])
        facts = {"optimizer": self.record.optimizer, "space": self.record.space, "pipelines": f"{len(trials):,}"}
        facts["failed"] = f"{len(trials) - len(ok):,}"
        if self.record.splits is not None:
            facts["validation"] = self.record.splits.kind
        rows = reports.failures(history)
        if len(rows) > SHOWN_FAILURES:
            self._gap("search", f"{len(rows) - SHOWN_FAILURES} rarer reasons of failures")
        return c.Search(
            len(trials),
            seconds,
            np.array([self._score(self.metric.to_score(float(t.outcome.loss or 0.0))) for t in ok]),
            np.array([t.proposal.fidelity.is_full for t in ok], dtype=bool),
            self._families(trials),
            [tuple(row) for row in rows.head(SHOWN_FAILURES).itertuples(index=False)],
            self._phases(trials),
            {name: text for name, text in facts.items() if text},
        )

    def _families(self, trials: Sequence[Trial]) -> list[c.Family]:
        by_name: dict[str, list[Trial]] = {}
        for trial in trials:
            by_name.setdefault(trial.pipeline.algorithms[-1], []).append(trial)
        found = []
        for name, own in by_name.items():
            full = [t for t in own if t.outcome.ok and t.proposal.fidelity.is_full]
            losses = [float(t.outcome.loss or 0.0) for t in full or [t for t in own if t.outcome.ok]]
            best, middle = (
                (self._score(self.metric.to_score(f(losses))) for f in (min, median)) if losses else (None, None)
            )
            failed = sum(not t.outcome.ok for t in own)
            found.append(c.Family(name, len(own), failed, best, middle, sum(t.outcome.seconds for t in own)))
        sign = -1.0 if self.higher else 1.0
        found.sort(key=lambda f: (f.best is None, 0.0 if f.best is None else sign * f.best, f.name))
        return found[:SHOWN_FAMILIES]

    def _phases(self, trials: Sequence[Trial]) -> dict[str, float]:
        """Where the time of the last fit went."""
        started, ended = self.record.started, self._ended()
        now = [] if started is None else [trial for trial in trials if trial.started >= started]
        if started is None or not now:
            return {}
        first, last = min(t.started for t in now), max(t.finished for t in now)
        return {
            "reading the table, starting workers": first - started,
            "searching": last - first,
            "making the model and the report": ended - last,
            "in all": ended - started,
        }

    def _ended(self) -> float:
        return time.time() if self.record.ended is None else self.record.ended

    # -- model --------------------------------------------------------------------------------------------------------

    def _members(self) -> list[c.Member]:
        model, rows = self.model, None if self.model.summary is None else self.model.summary.rows
        stages = None if self.record.history is None else [s.name for s in self.record.history.candidates.space.stages]
        ordered = sorted(model.members, key=lambda member: -member.weight)
        if len(ordered) > SHOWN_MEMBERS:
            self._gap("model", f"{len(ordered) - SHOWN_MEMBERS} pipelines with the smallest weights")
        found = []
        for member in ordered[:SHOWN_MEMBERS]:
            score = None if np.isnan(member.loss) else self._score(self.metric.to_score(member.loss))
            n = len(member.models)
            form = {"bag": f"mean of {n} models", "full": "fitted to all rows", "single": "model of one fold"}
            said = "one model" if rows is None and n == 1 else form[member.form(rows or 0)]
            trial = member.number if member.number >= 0 else None
            found.append(c.Member(member.weight, score, _steps(member, stages), said, trial))
        return found

    # -- behaviour ----------------------------------------------------------------------------------------------------

    def _behaviour(self) -> c.Behaviour:
        shown = self._validated()
        parts, where = self._parts()
        if not parts:
            return shown
        features = [
            name for name, spec in self.model.schema.columns.items() if spec.kind not in (Kind.ID, Kind.CONSTANT)
        ]
        if not features:
            return shown
        both = "importance and partial dependence of columns"
        if not self._has_time(parts[0]):
            later = "'headstart report' and model.report make them later"
            self._gap("importance", f"{both}, for want of time; {later}")
            return shown
        try:
            return self._measured(shown, parts, where)
        except Exception as error:  # a metric or a pipeline of the user's may not like shuffled rows
            self._gap("importance", f"{both}, for it failed with {type(error).__name__}: {error}")
            return shown

    def _has_time(self, part: looks.Part) -> bool:
        """Whether a few predictions fit well into the time that is left."""
        began = time.monotonic()
        if began >= self.until:
            return False
        part.model.predict_ready(part.X.iloc[:_TRIED_ROWS])
        now = time.monotonic()
        return now - began < _TRIED_SHARE * (self.until - now)

    def _measured(self, shown: c.Behaviour, parts: Sequence[looks.Part], where: str) -> c.Behaviour:
        """With importance and dependence."""
        until = time.monotonic() + _IMPORTANCE_SHARE * (self.until - time.monotonic())
        found, said = looks.importance(parts, self.metric, self.record.seed, until)
        for text in said:
            self._gap("importance", text)
        if len(found) > SHOWN_IMPORTANCES:
            self._gap("importance", f"{len(found) - SHOWN_IMPORTANCES} columns that matter less")
        first = [row.feature for row in found[:SHOWN_DEPENDENCES] if row.mean > 0] or [r.feature for r in found[:2]]
        first = [name for name in first if self.model.schema.columns[name].kind is not Kind.TEXT]
        dependences: list[c.Dependence] = []
        if time.monotonic() > self.until or not first:
            if first:
                self._gap("dependence", "partial dependence, for want of time")
        else:
            dependences, done = looks.dependences(parts, first, self.classes, self.record.seed, self.until)
            if done < len(first):
                self._gap("dependence", f"partial dependence of {len(first) - done} more columns, for want of time")
        return replace(shown, importance=found[:SHOWN_IMPORTANCES], importance_where=where, dependences=dependences)

    def _parts(self) -> tuple[list[looks.Part], str]:
        """What importance is measured on, and that in words."""
        data = self.record.dataset
        if self.model.schema.n_sparse is not None:
            self._gap("importance", "importance and partial dependence, which need a table with columns")
            return [], ""
        if self.test is not None:
            X, truth = self.test
            rows = looks.some(np.arange(len(truth)), looks.IMPORTANCE_ROWS, self.record.seed)
            return [looks.Part(self.model, X.iloc[rows].reset_index(drop=True), truth[rows])], (
                f"measured on {len(rows):,} rows of the test table"
            )
        if data is None:
            return [], ""
        parts, unseen = looks.unseen_parts(self.model, data, self.record.splits, self.record.seed)
        n = sum(len(part.truth) for part in parts)
        which = "of the folds, each by models that had not seen it" if unseen else "of the training table"
        seen = "" if unseen else ", which the models have seen: it shows what they rely on"
        return parts, f"measured on {n:,} rows {which}{seen}"

    def _validated(self) -> c.Behaviour:
        """Curves of predictions for validation rows; of the test table where only that is there."""
        data, history = self.record.dataset, self.record.history
        predictions = None if history is None else looks.validation_predictions(self.model, history)
        if data is not None and data.y is not None and predictions is not None and len(predictions) == data.n_rows:
            truth, where = data.y, "validation rows, each predicted by models that had not seen it"
        elif self.test is not None:
            truth, predictions, where = self.test[1], self.model.predict_ready(self.test[0]), "rows of the test table"
        else:
            if self.model.summary is None:
                self._gap("behaviour", f"curves and errors: {_SIMPLE}")
            elif data is not None:
                self._gap("behaviour", "curves and errors, for predictions of the model's pipelines are not there")
            return c.Behaviour()
        known = np.flatnonzero(is_predicted(predictions))
        rows = looks.some(known, looks.CURVE_ROWS, self.record.seed)
        truth, predictions = truth[rows], predictions[rows]
        where = f"On {len(rows):,} {where}." + (" They were chosen at random." if len(rows) < len(known) else "")
        return (
            self._of_numbers(truth, predictions, where)
            if not self.classes
            else self._of_classes(truth, predictions, where)
        )

    def _of_classes(self, truth: Array, predictions: Array, where: str) -> c.Behaviour:
        labels, counts = looks.confusion(truth, self.model.decisions.choose(predictions), self.classes)
        return c.Behaviour(
            where,
            looks.roc_curves(truth, predictions, self.classes),
            looks.precision_recall_curves(truth, predictions, self.classes),
            looks.calibration_curves(truth, predictions, self.classes),
            labels,
            counts,
        )

    def _of_numbers(self, truth: Array, predictions: Array, where: str) -> c.Behaviour:
        residuals = truth - predictions
        chosen = looks.some(np.arange(len(truth)), looks.SCATTER_POINTS, self.record.seed)
        low, high = np.quantile(residuals, [0.005, 0.995])
        inside = residuals[(residuals >= low) & (residuals <= high)]
        counts, edges = np.histogram(inside, bins=30)
        errors = np.abs(residuals)
        return c.Behaviour(
            where,
            actual=truth[chosen],
            predicted=predictions[chosen],
            residual_edges=edges,
            residual_counts=counts,
            error_quantiles={share: float(np.quantile(errors, share)) for share in (0.5, 0.9)},
        )

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _bounds(self) -> list[c.Bound]:
        history = self.record.history
        if history is None:
            return []
        found = []
        chosen = {member.number for member in self.model.members}
        for constraint in history.constraints:
            trials = [t for t in history if t.outcome.ok and constraint.name in t.outcome.constraints]
            amount, _, unit = constraint.shown(constraint.upper).partition(" ")
            factor = float(amount) / constraint.upper if unit and constraint.upper else 1.0
            found.append(
                c.Bound(
                    str(constraint),
                    constraint.name,
                    unit,
                    factor * constraint.upper,
                    factor * np.array([t.outcome.constraints[constraint.name] for t in trials]),
                    np.array([self._score(self.metric.to_score(float(t.outcome.loss or 0.0))) for t in trials]),
                    np.array([t.number in chosen for t in trials], dtype=bool),
                )
            )
        return found

    def _tree(self) -> str:
        history = self.record.history
        if history is None or not any("path" in trial.proposal.origin for trial in history):
            return ""
        return TreeView.of(history, self.record.order, self.metric)._repr_html_()

    def _card(self) -> dict[str, str]:
        model, record, data = self.model, self.record, self.record.dataset
        columns = [name for name, s in model.schema.columns.items() if s.kind not in (Kind.ID, Kind.CONSTANT)]
        card = {
            "Predicts": f"{model.target}, {model.task}" + (f" of {len(self.classes)} classes" if self.classes else ""),
            "From": f"{model.schema.n_features:,} columns"
            + (f": {', '.join(columns[:30])}{' and more' if len(columns) > 30 else ''}" if columns else ""),
            "Optimised for": self.label,
        }
        if data is not None:
            card["Data"] = f"{data.name}, {data.n_rows:,} rows, hash {data.key}"
        if record.splits is not None:
            card["Validation"] = record.splits.kind
        probabilities = "calibrated" if model.decisions.temperature != 1.0 else "as the pipelines give them"
        if self.classes:
            tuned = "tuned for the metric" if model.decisions.factors is not None else "the most likely class"
            card["Probabilities"] = f"{probabilities}; the class chosen is {tuned}"
        card["Seed"] = str(record.seed)
        settings = ", ".join(f"{name}={_short(value)}" for name, value in record.settings.items())
        card["Settings"] = settings or "defaults"
        card["Versions"] = ", ".join(
            [f"{name} {version}" for name, version in versions().items()] + [f"Python {platform.python_version()}"]
        )
        card["Intended use"] = (
            f"Predicting {model.target} for rows that come about as those of the training table did: the same source, "
            "population and columns, known at the time of the prediction."
        )
        card["Limits"] = " ".join(self._limits())
        return card

    def _limits(self) -> list[str]:
        found = [
            "Validation rows selected the pipelines, so the score flatters a little; a test table tells more.",
            "What changes after training is not known to the model: watch its inputs and errors.",
            "Importance and dependence describe the model, not causes.",
        ]
        if not any(
            b.name.startswith("disparity") for b in (self.record.history.constraints if self.record.history else ())
        ):
            found.append("Differences between groups of people were not examined.")
        if self.record.dataset is not None and self.record.dataset.n_rows < 500:
            found.append("With so few rows, scores of other samples may differ much; see the interval.")
        return found

    def _script(self) -> str:
        kind = "HeadstartRegressor" if self.model.classes is None else "HeadstartClassifier"
        settings = ", ".join(f"{name}={_short(value)}" for name, value in self.record.settings.items())
        return (
            f"from headstart import {kind}\n\nmodel = {kind}({settings})\n"
            f"model.fit(table, target={self.model.target!r})\n"
            + (
                ""
                if "time_budget" not in self.record.settings and "evaluations" in self.record.settings
                else "\n# A time budget tries as many pipelines as the machine can; with evaluations=N alone the same\n"
                "# data, seed and n_jobs give the same model.\n"
            )
        )


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _search_clock(trials: Sequence[Trial]) -> Callable[[float], float]:
    """From Unix time to seconds during which an evaluation was under way: pauses between fits do not count."""
    ends: list[tuple[float, float]] = []
    for start, end in sorted((t.started, t.finished) for t in trials):
        if ends and start <= ends[-1][1]:
            ends[-1] = ends[-1][0], max(ends[-1][1], end)
        else:
            ends.append((start, end))

    def clock(moment: float) -> float:
        return sum(max(0.0, min(end, moment) - start) for start, end in ends)

    return clock


def _steps(member: Member, stages: Sequence[str] | None) -> list[c.Step]:
    """The steps of a pipeline that do something, in their order."""
    pipeline = member.pipeline
    names = stages if stages is not None and len(stages) == len(pipeline.algorithms) else None
    found: list[c.Step] = []
    for i in pipeline.order or range(len(pipeline.algorithms)):
        algorithm, params = pipeline.algorithms[i], pipeline.params[i]
        last = i == len(pipeline.algorithms) - 1
        if algorithm in ("none", "native") and not last:
            continue
        stage = names[i] if names is not None else "estimator" if last else f"step {len(found) + 1}"
        shown = {k: f"{v:.4g}" if isinstance(v, float) else str(v) for k, v in params.items()}
        found.append(c.Step(stage, algorithm, shown))
    return found


def _profile(column: Any, kind: Kind) -> tuple[str, list[float]]:
    """A column in words, and the shares of its rows in a few bins."""
    known = column.dropna()
    if not len(known):
        return "no values", []
    if kind in (Kind.NUMERIC, Kind.BOOLEAN):
        values = known.to_numpy(dtype=np.float64)
        if kind is Kind.BOOLEAN:
            return f"{100 * values.mean():.3g} % true", [float(1 - values.mean()), float(values.mean())]
        return f"{values.min():.4g} to {values.max():.4g}, median {np.median(values):.4g}", _shares(values)
    if kind is Kind.DATE:
        moments = known.to_numpy()
        return f"{str(moments.min())[:10]} to {str(moments.max())[:10]}", _shares(moments.astype(np.int64) * 1.0)
    if kind is Kind.TEXT:
        words = known.astype(str).str.split().str.len()
        return f"{known.nunique():,} different texts, {words.median():.0f} words each (median)", []
    if kind is Kind.CATEGORICAL:
        counts = known.astype(object).value_counts(normalize=True)
        shown = ", ".join(f"{value} {100 * share:.3g} %" for value, share in counts.head(4).items())
        return f"{len(counts):,} different: {shown}", counts.head(_SPARK_BINS).tolist()
    return f"{known.nunique():,} different", []


def _shares(values: Array) -> list[float]:
    """Of numbers in a few bins; those far out are in the first and the last."""
    low, high = np.quantile(values, [0.01, 0.99])
    if not high > low:
        low, high = values.min(), values.max()
    counts, _ = np.histogram(np.clip(values, low, high), bins=_SPARK_BINS)
    return (counts / len(values)).tolist()  # type: ignore[no-any-return]
