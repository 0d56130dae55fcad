"""`Summary`: how good a model is, in a few numbers that people ask for."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

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
        Score of predicting the same for all rows: the shares of the classes; the mean or the median of the target,
        whichever is better.
    linear
        Score of the best linear model that was tried; None if none was.
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
        others = ", ".join(f"{label_of(metric)} {value:.4g}" for metric, value in self.others.items())
        share = f"{self.trained_rows:,} of {self.rows:,}" if self.trained_rows < self.rows else f"all {self.rows:,}"
        return [
            f"{name} {self.score:.4g}{between} in validation",
            f"a constant has {self.constant:.4g}{linear}",
            *([others] if others else []),
            f"each model was fitted to {share} rows",
        ]


def summarise(run: Run, judged: Array, proper: bool, trained_rows: int) -> Summary:
    """The summary of a model.

    Parameters
    ----------
    judged
        What the metric judges for each row of the table; NaN where it was not validated.
    proper
        Whether these are probabilities, not weighted for thresholds.
    trained_rows
        See `Summary`.
    """
    name = run.metric.name
    parts = [rows for _, valid in run.plan.splits if len(rows := valid[_known(judged)[valid]])]
    others: dict[str, float] = {}
    for other in _USUAL[str(run.dataset.task)]:
        if other != name and len(others) < 2 and (proper or other != "neg_log_loss"):
            value = _score(run, Metric(other, str(run.dataset.task)), judged, parts)
            if np.isfinite(value):
                others[other] = natural(other, value)
    found = linear_trial(run.history)
    return Summary(
        name,
        natural(name, _score(run, run.metric, judged, parts)),
        _interval(run, judged, parts),
        natural(name, max(_score(run, run.metric, c, parts) for c in _constants(run))),
        None if found is None else natural(name, run.metric.to_score(float(found.outcome.loss or 0.0))),
        others,
        run.dataset.n_rows,
        trained_rows,
    )


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


def _known(judged: Array) -> NDArray[np.bool_]:
    return np.asarray(np.isfinite(judged.reshape(len(judged), -1)).all(axis=1), dtype=np.bool_)


def _score(run: Run, metric: Metric, predictions: Array, parts: Sequence[Rows]) -> float:
    """Mean over the parts in which the metric is defined; of all rows together where it is defined in none."""
    y, weights = run.dataset.y, run.dataset.weights
    assert y is not None

    def of(rows: Rows) -> float:
        return metric.score(y[rows], predictions[rows], None if weights is None else weights[rows])

    scores = [score for rows in parts if not np.isnan(score := of(rows))]
    return float(np.mean(scores)) if scores else of(np.concatenate(parts))


def _constants(run: Run) -> list[Array]:
    """What predicts the same for all rows of a validation part, learned from the training part."""
    data = run.dataset
    assert data.y is not None
    if data.classes is not None:
        found = np.full((data.n_rows, len(data.classes)), np.nan)
        for train, valid in run.plan.splits:
            weights = None if data.weights is None else data.weights[train]
            counts = np.bincount(data.y[train], weights, minlength=len(data.classes))
            found[valid] = counts / counts.sum()
        return [found]
    means, medians = np.full(data.n_rows, np.nan), np.full(data.n_rows, np.nan)
    for train, valid in run.plan.splits:
        means[valid] = np.average(data.y[train], weights=None if data.weights is None else data.weights[train])
        medians[valid] = np.median(data.y[train])
    return [means, medians]


def _interval(run: Run, judged: Array, parts: Sequence[Rows]) -> tuple[float, float] | None:
    """Where 95 % of the scores lie when the rows of each part are drawn again, with replacement."""
    rng = np.random.default_rng(run.settings.seed)
    left = np.inf if run.end is None else 0.1 * (run.end - time.time())
    end = time.time() + min(SECONDS, left) if run.settings.seconds is not None else np.inf
    total = sum(len(rows) for rows in parts)
    share = min(1.0, RESAMPLED_ROWS / total)
    scores: list[float] = []
    while len(scores) < RESAMPLES and time.time() < end:
        drawn = [_drawn(rows, run.dataset.groups, share, rng) for rows in parts]
        scores.append(_score(run, run.metric, judged, drawn))
    known = np.array([score for score in scores if np.isfinite(score)])
    if len(known) < LEAST_RESAMPLES:
        return None
    middle = _score(run, run.metric, judged, parts)
    low, high = np.quantile(middle + (known - known.mean()) * np.sqrt(share), [0.025, 0.975])
    ends = sorted(natural(run.metric.name, float(score)) for score in (low, high))
    return ends[0], ends[1]


def _drawn(rows: Rows, groups: Any, share: float, rng: np.random.Generator) -> Rows:
    """As many rows as there are, or a share of them, with replacement; whole groups where there are groups."""
    if groups is None:
        return rng.choice(rows, max(2, round(share * len(rows))))
    _, codes = np.unique(np.asarray(groups)[rows], return_inverse=True)
    order = np.argsort(codes, kind="stable")
    members = np.split(rows[order], np.cumsum(np.bincount(codes))[:-1])
    chosen = rng.integers(len(members), size=max(1, round(share * len(members))))
    return np.concatenate([members[i] for i in chosen])
