"""`Summary`: how good a model is, in a few numbers that people ask for."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.evaluation.live import defined, is_predicted
from headstart.evaluation.scoring import Metric, label_of, natural

if TYPE_CHECKING:
    from headstart.fitting.run import Run
    from headstart.history import History
    from headstart.trials import Trial

Array = NDArray[np.float64]
Rows = NDArray[np.int64]

RESAMPLES, LEAST_RESAMPLES = 200, 40
RESAMPLED_ROWS = 10_000
"""Most rows that are drawn for the interval; with more, it is made narrower by the square root of the ratio."""
SECONDS = 1.0
"""Most time for the interval."""
_USUAL = {
    "regression": ("neg_root_mean_squared_error", "r2", "neg_mean_absolute_error"),
    "binary": ("roc_auc", "accuracy", "neg_log_loss"),
    "multiclass": ("accuracy", "neg_log_loss", "roc_auc"),
}
_LINEAR = ("logistic_regression", "ridge", "elastic_net", "lda", "linear_svm", "sgd")
_PLAIN_STEPS = ("none", "native")


@dataclass(frozen=True)
class Summary:
    """How good a model is on the validation rows, which its models had not seen but by which it was selected.

    All scores are as people write them, "RMSE 53.6": errors are positive.

    Parameters
    ----------
    metric
        What was optimised, by scikit-learn's name.
    score
        Of the model: the mean over the folds.
    interval
        95 % of the scores of samples of the validation rows, drawn with replacement, lie in it (of whole groups, where
        rows have groups); None where there was no time for it. The search has chosen by these rows, which flatters a
        little.
    constant
        Score of predicting the same for all rows: the shares of the classes (the commonest class where the metric is
        of labels, or with two classes the rarer one if that is better); the mean or the median of the target,
        whichever is better.
    linear
        Score of the best linear model that was tried, with thresholds and calibration of its own where the model has
        them; None if none was.
    lightgbm
        Score of LightGBM with its defaults on the same folds, likewise; None unless there was a report to write, and
        time for it.
    others
        Scores in other usual metrics, by name.
    rows
        Of the table.
    trained_rows
        How many of them a model was fitted to, on average over the models.
    """

    metric: str
    score: float
    interval: tuple[float, float] | None
    constant: float
    linear: float | None
    others: Mapping[str, float] = field(default_factory=dict)
    rows: int = 0
    trained_rows: int = 0
    lightgbm: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """As JSON types; `from_dict` is its inverse."""
        return asdict(self) | {"others": dict(self.others), "interval": self.interval and list(self.interval)}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Summary:
        return cls(**{**content, "interval": content["interval"] and tuple(content["interval"])})

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> list[str]:
        """In words."""
        name = label_of(self.metric)
        between = "" if self.interval is None else f" (95 %: {self.interval[0]:.4g} to {self.interval[1]:.4g})"
        linear = "" if self.linear is None else f", the best linear model {self.linear:.4g}"
        lightgbm = "" if self.lightgbm is None else f", LightGBM with its defaults {self.lightgbm:.4g}"
        others = ", ".join(f"{label_of(metric)} {value:.4g}" for metric, value in self.others.items())
        share = f"{self.trained_rows:,} of {self.rows:,}" if self.trained_rows < self.rows else f"all {self.rows:,}"
        return [
            f"{name} {self.score:.4g}{between} in validation",
            f"a constant has {self.constant:.4g}{linear}{lightgbm}",
            *([others] if others else []),
            f"each model was fitted to {share} rows",
        ]


def summarise(run: Run, judged: Array, references: Mapping[str, Array], proper: bool, trained_rows: int) -> Summary:
    """The summary of a model.

    Parameters
    ----------
    judged
        What the metric judges for each row of the table; NaN where it was not validated.
    references
        The same of simple models, by the names of the fields.
    proper
        Whether these are probabilities, not weighted for thresholds.
    trained_rows
        See `Summary`.
    """
    name = run.metric.name
    others: dict[str, float] = {}
    for other in _USUAL[str(run.dataset.task)]:
        if other != name and len(others) < 2 and (proper or other != "neg_log_loss"):
            value = _score(run, Metric(other, str(run.dataset.task)), judged)
            if np.isfinite(value):
                others[other] = natural(other, value)
    scores = scores_of(run, references)
    return Summary(
        name,
        natural(name, _score(run, run.metric, judged)),
        _interval(run, judged),
        natural(name, run.metric.to_score(constant_loss(run))),
        scores.get("linear"),
        others,
        run.table.n_rows,
        trained_rows,
        scores.get("lightgbm"),
    )


def scores_of(run: Run, judged: Mapping[str, Array]) -> dict[str, float]:
    """What the metric says of several predictions, as people write it."""
    return {name: natural(run.metric.name, _score(run, run.metric, found)) for name, found in judged.items()}


def linear_trial(history: History) -> Trial | None:
    """The best trial of a linear model on columns as they are, of those with the most rows; None if there is none."""
    stages = [stage.name for stage in history.candidates.space.stages]
    found = []
    for trial in history:
        steps = dict(zip(stages, trial.pipeline.algorithms, strict=True))
        plain = steps.get("preprocessing", "none") in _PLAIN_STEPS
        if trial.outcome.ok and trial.pipeline.algorithms[-1] in _LINEAR and plain:
            found.append(trial)
    return min(found, key=lambda t: (-t.proposal.fidelity.rows, float(t.outcome.loss or 0.0)), default=None)


def _score(run: Run, metric: Metric, predictions: Array, parts: Sequence[Rows] | None = None) -> float:
    return metric.to_score(run.objective.loss_of(predictions, metric, parts))


def constant_loss(run: Run) -> float:
    """Of predicting the same for all rows of a validation part, learned from the training part; NaN if undefined.

    Counted as that of a pipeline. Where the metric is defined in no part, of all validated rows, learned from them.
    """
    data, metric = run.dataset, run.metric
    assert data.y is not None
    y = data.y

    def own(rows: Rows) -> Array | None:
        return None if data.weights is None else data.weights[rows]

    def shares(rows: Rows) -> Array:
        counts = np.bincount(y[rows], own(rows), minlength=0 if data.classes is None else len(data.classes))
        found: Array = counts / counts.sum()
        return found

    def mean(rows: Rows) -> Any:
        return np.average(y[rows], weights=own(rows))

    def median(rows: Rows) -> Any:
        return np.median(y[rows])

    def loss(learn: Callable[[Rows], Any], train: Rows, valid: Rows) -> float:
        value = learn(train)
        return metric.loss(y[valid], np.tile(value, (len(valid), *[1] * np.ndim(value))), own(valid))

    def mean_loss(learn: Callable[[Rows], Any]) -> float:
        losses = [loss(learn, train, valid) for train, valid in run.plan.splits]
        return float(np.mean(defined(losses, lambda: loss(learn, every, every))))

    def rarer(rows: Rows) -> Array:
        return 1.0 - shares(rows)

    every = np.unique(np.concatenate([valid for _, valid in run.plan.splits]))
    learners = (mean, median) if data.classes is None else (shares,)
    if metric.of_labels and data.task == "binary":
        learners = (shares, rarer)
    losses = [mean_loss(learn) for learn in learners]
    return min((found for found in losses if not np.isnan(found)), default=np.nan)


def _interval(run: Run, judged: Array) -> tuple[float, float] | None:
    """Where 95 % of the scores lie when the validated rows are drawn again, with replacement."""
    known_rows = is_predicted(judged)
    parts = [valid[known_rows[valid]] for _, valid in run.plan.splits]
    left = np.inf if run.end is None else 0.1 * (run.end - time.time())
    end = time.time() + min(SECONDS, left) if run.settings.seconds is not None else np.inf
    units = _units(run.dataset.groups, np.unique(np.concatenate(parts)), run.dataset.n_rows)
    return resampled(
        lambda drawn: natural(run.metric.name, _score(run, run.metric, judged, drawn)),
        parts,
        units,
        run.settings.seed,
        end,
    )


def resampled(
    score: Callable[[list[Rows]], float], parts: Sequence[Rows], units: Rows, seed: int, end: float = np.inf
) -> tuple[float, float] | None:
    """Where 95 % of the scores lie when rows are drawn again, with replacement; None if there was no time for enough.

    Parameters
    ----------
    score
        Of parts with rows that may be in them several times.
    parts
        Rows that are scored together.
    units
        What is drawn together with each row, see `_units`.
    end
        Unix time.
    """
    rng, n, rows = np.random.default_rng(seed), int(units.max()) + 1, len(np.unique(np.concatenate(parts)))
    share = min(1.0, RESAMPLED_ROWS / rows)
    scores: list[float] = []
    while len(scores) < RESAMPLES and time.time() < end:
        counts = np.bincount(rng.integers(n, size=max(2, round(share * n))), minlength=n)
        drawn = [np.repeat(part, counts[units[part]]) for part in parts]
        if any(len(part) for part in drawn):
            scores.append(score([part for part in drawn if len(part)]))
    known = np.array([found for found in scores if np.isfinite(found)])
    if len(known) < LEAST_RESAMPLES:
        return None
    low, high = np.quantile(known.mean() + (known - known.mean()) * np.sqrt(share), [0.025, 0.975])
    return float(low), float(high)


def _units(groups: Any, rows: Rows, n_rows: int) -> Rows:
    """What is drawn together with each row of the table, from 0 on: itself, or its group; -1 if it is not validated."""
    found = np.full(n_rows, -1, dtype=np.int64)
    found[rows] = np.arange(len(rows)) if groups is None else np.unique(groups[rows], return_inverse=True)[1]
    return found
