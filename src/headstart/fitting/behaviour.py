"""What a model does with rows that its models had not seen: curves, confusion, residuals, importance, dependence."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data.columns import Kind
from headstart.errors import HeadstartWarning
from headstart.evaluation.live import is_predicted
from headstart.fitting.assembly import predictions_of
from headstart.fitting.reports import permutation_importance
from headstart.report.content import Curve, Dependence, Importance

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.data.splits import Splits
    from headstart.evaluation.scoring import Metric
    from headstart.fitting.model import Model
    from headstart.history import History

Array = NDArray[Any]

CURVE_ROWS = 20_000
"""Most rows that a curve is made of."""
CURVE_POINTS = 200
"""Most points of a curve."""
SCATTER_POINTS = 1_000
MOST_CLASSES = 6
"""Classes with a curve of their own; those with the most rows."""
CONFUSED_CLASSES = 12
"""Classes in a confusion matrix; the others are one."""
IMPORTANCE_ROWS = 2_000
GRID = 20
"""Values of a column that the mean prediction is computed for."""
DEPENDENCE_ROWS = 200
SHOWN_CATEGORIES = 8
BINS = 10
"""Of probabilities, in a calibration curve."""


def validation_predictions(model: Model, history: History) -> Array | None:
    """What the model's pipelines predict for each row, by models that had not seen it, calibrated as the model is.

    None where a pipeline is not in the history, or its predictions cannot be read. Rows that were never validated are
    NaN.
    """
    trials = {trial.number: trial for trial in history}
    total: Any = 0.0
    for member in model.members:
        trial = trials.get(member.number)
        if trial is None or trial.pipeline != member.pipeline or "predictions" not in trial.outcome.artefacts:
            return None
        try:
            total = total + member.weight * np.asarray(predictions_of(trial))
        except (OSError, EOFError, ValueError):
            return None
    if model.classes is None:
        return np.asarray(total)
    found: Array = np.full_like(total, np.nan)
    known = is_predicted(total)
    found[known] = model.decisions.calibrated(total[known])
    return found


def some(rows: Array, most: int, seed: int) -> Array:
    """At most so many of the rows, in their order."""
    if len(rows) <= most:
        return rows
    return np.sort(np.random.default_rng(seed).choice(rows, most, replace=False))


# -- classes ----------------------------------------------------------------------------------------------------------


def shown_classes(truth: Array, n_classes: int) -> list[int]:
    """Classes that have curves: the second of two, or those with the most rows; only such that are there."""
    counts = np.bincount(truth, minlength=n_classes)
    if n_classes == 2:
        return [1] if counts.min() else []
    most = np.argsort(-counts, kind="stable")[:MOST_CLASSES]
    return [int(c) for c in sorted(most.tolist()) if 0 < counts[c] < len(truth)]


def roc_curves(truth: Array, probabilities: Array, names: Sequence[str]) -> list[Curve]:
    """True-positive by false-positive rate, each class against the rest."""
    from sklearn.metrics import roc_auc_score, roc_curve

    found = []
    for c in shown_classes(truth, len(names)):
        x, y, _ = roc_curve(truth == c, probabilities[:, c])
        area = roc_auc_score(truth == c, probabilities[:, c])
        found.append(Curve(names[c], *_thinned(x, y), f"AUC {area:.3f}"))
    return found


def precision_recall_curves(truth: Array, probabilities: Array, names: Sequence[str]) -> list[Curve]:
    """Precision by recall, each class against the rest."""
    from sklearn.metrics import average_precision_score, precision_recall_curve

    found = []
    for c in shown_classes(truth, len(names)):
        precision, recall, _ = precision_recall_curve(truth == c, probabilities[:, c])
        mean = average_precision_score(truth == c, probabilities[:, c])
        found.append(Curve(names[c], *_thinned(recall[::-1], precision[::-1]), f"average precision {mean:.3f}"))
    return found


def calibration_curves(truth: Array, probabilities: Array, names: Sequence[str]) -> list[Curve]:
    """Observed share by predicted probability, in bins with as many rows each.

    Of the second of two classes, or of the class that is most likely by the model.
    """
    if len(names) == 2:
        predicted, happened, name = probabilities[:, 1], truth == 1, names[1]
    else:
        predicted, happened, name = (
            probabilities.max(axis=1),
            probabilities.argmax(axis=1) == truth,
            "most likely class",
        )
    if len(predicted) < 2 * BINS:
        return []
    parts = [part for part in np.array_split(np.argsort(predicted, kind="stable"), BINS) if len(part)]
    x = np.array([predicted[part].mean() for part in parts])
    y = np.array([happened[part].mean() for part in parts])
    return [Curve(name, x, y, f"{BINS} bins")]


def confusion(truth: Array, chosen: Array, names: Sequence[str]) -> tuple[list[str], Array]:
    """Labels and counts, true classes down; with many classes the rarer ones are one."""
    n = len(names)
    labels = list(names)
    if n > CONFUSED_CLASSES:
        kept = np.sort(np.argsort(-np.bincount(truth, minlength=n), kind="stable")[: CONFUSED_CLASSES - 1])
        place = np.full(n, len(kept))
        place[kept] = np.arange(len(kept))
        truth, chosen = place[truth], place[chosen]
        labels = [*(names[c] for c in kept.tolist()), "others"]
    counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
    np.add.at(counts, (truth, chosen), 1)
    return labels, counts


def _thinned(x: Array, y: Array) -> tuple[Array, Array]:
    """Points of a curve that can be told apart, its ends among them."""
    if len(x) <= CURVE_POINTS:
        return x, y
    length = np.concatenate([[0.0], np.cumsum(np.abs(np.diff(x)) + np.abs(np.diff(y)))])
    kept = np.unique(np.searchsorted(length, np.linspace(0, length[-1], CURVE_POINTS - 1)))
    kept = np.unique(np.concatenate([kept, [0, len(x) - 1]]))
    return x[kept], y[kept]


# -- importance and dependence ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """A model and rows to look at it with, in the form of `Dataset.X`, with their target."""

    model: Model
    X: Any
    truth: Array


def unseen_parts(model: Model, dataset: Dataset, splits: Splits | None, seed: int) -> tuple[list[Part], bool]:
    """Rows of the training table with models that had not seen them, and whether that is so.

    It is where each pipeline has a model for every fold. Otherwise the models were fitted to all rows, or it is not
    known to which, and the rows are any.
    """
    assert dataset.y is not None
    pairs = () if splits is None else splits.pairs
    if len(pairs) > 1 and all(len(member.models) == len(pairs) for member in model.members):
        first = pairs[: max(1, len(pairs) // (splits.repeats if splits is not None else 1))]
        parts = []
        for i, (_, valid) in enumerate(first):
            rows = some(valid, max(50, IMPORTANCE_ROWS // len(first)), seed)
            members = tuple(replace(member, models=[member.models[i]]) for member in model.members)
            alone = replace(model, members=members, decisions=replace(model.decisions, folds=1))
            parts.append(Part(alone, dataset.X.iloc[rows].reset_index(drop=True), dataset.y[rows]))
        return parts, True
    rows = some(np.arange(dataset.n_rows), IMPORTANCE_ROWS, seed)
    return [Part(model, dataset.X.iloc[rows].reset_index(drop=True), dataset.y[rows])], False


def importance(parts: Sequence[Part], metric: Metric, seed: int, until: float) -> tuple[list[Importance], list[str]]:
    """Mean fall of the score by column, over parts and repeats, largest first; and what there was no time for.

    The spread is over repeats; with several parts, over the parts.
    """
    tables: list[pd.DataFrame] = []
    said: list[str] = []
    for i, part in enumerate(parts):
        left = until - time.monotonic()
        if left <= 0 and tables:
            said.append(f"importance was measured on {i} of {len(parts)} folds only, for want of time")
            break
        share = time.monotonic() + max(0.0, left) / (len(parts) - i)
        repeats = 5 if len(parts) == 1 else 2
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", HeadstartWarning)
            tables.append(
                permutation_importance(part.model, part.X, part.truth, metric, repeats, seed + i, None, share)
            )
        said += [str(w.message) for w in caught if issubclass(w.category, HeadstartWarning)]
    every = pd.concat(tables)
    every = every[np.isfinite(every["importance"])]
    grouped = every.groupby("feature", sort=False)
    means = grouped["importance"].mean()
    spreads = grouped["std"].mean() if len(tables) == 1 else grouped["importance"].std(ddof=0)
    order = means.sort_values(ascending=False, kind="stable").index
    return [Importance(str(f), float(means[f]), float(spreads[f])) for f in order], list(dict.fromkeys(said))


def dependences(
    parts: Sequence[Part], features: Sequence[str], names: Sequence[str], seed: int, until: float
) -> tuple[list[Dependence], int]:
    """The mean prediction by the value of each of these columns (Friedman, 2001), and for how many there was time."""
    rows = max(20, DEPENDENCE_ROWS // len(parts))
    few = [replace(part, X=part.X.iloc[some(np.arange(len(part.X)), rows, seed)]) for part in parts]
    whole = pd.concat([part.X for part in parts], ignore_index=True)
    model, found = parts[0].model, []
    for done, feature in enumerate(features):
        started = time.monotonic()
        grid, labels = _grid(whole[feature], model.schema.columns[feature].kind)
        if len(grid) > 1:
            found.append(_dependence(few, feature, grid, labels, names))
        took = time.monotonic() - started
        if done + 1 < len(features) and time.monotonic() + took > until:
            return found, done + 1
    return found, len(features)


def _dependence(
    parts: Sequence[Part], feature: str, grid: Array, labels: list[str] | None, names: Sequence[str]
) -> Dependence:
    means = []
    for part in parts:
        n = len(part.X)
        every = pd.concat([part.X] * len(grid), ignore_index=True)
        values: Any = np.repeat(grid, n)
        every[feature] = pd.Series(values).astype(part.X[feature].dtype)
        predicted = part.model.predict_ready(every)
        means.append(predicted.reshape(len(grid), n, -1).mean(axis=1))
    mean, dates = np.mean(means, axis=0), grid.dtype.kind == "M"
    if labels is None:
        x = (grid.astype("datetime64[s]") if dates else grid).astype(np.float64)
    else:
        x = np.arange(len(grid), dtype=np.float64)
    if not names:
        return Dependence(feature, labels, [Curve("", x, mean[:, 0])], "prediction", dates)
    if len(names) == 2:
        return Dependence(feature, labels, [Curve("", x, mean[:, 1])], f"probability of {names[1]}", dates)
    widest = np.sort(np.argsort(-np.ptp(mean, axis=0), kind="stable")[:MOST_CLASSES])
    curves = [Curve(names[c], x, mean[:, c]) for c in widest.tolist()]
    return Dependence(feature, labels, curves, "probability", dates)


def _grid(column: Any, kind: Kind) -> tuple[Array, list[str] | None]:
    """Values of a column to predict for, and what they are called if they are no numbers; none for a text."""
    known = column.dropna()
    if kind is Kind.TEXT or not len(known):
        return np.zeros(0), None
    if kind is Kind.CATEGORICAL:
        counts = known.astype(object).value_counts()
        chosen = [value for value, n in counts.head(SHOWN_CATEGORIES).items() if n]
        return np.array(chosen, dtype=object), [str(value) for value in chosen]
    values = np.unique(known.to_numpy())
    if len(values) > GRID:
        values = np.unique(known.quantile(np.linspace(0.02, 0.98, GRID)).to_numpy())
    if kind is Kind.DATE:
        return values, [str(value)[:10] for value in values.astype("datetime64[D]")] if len(values) <= 5 else None
    if kind is Kind.BOOLEAN:
        return values, [{0.0: "false", 1.0: "true"}.get(value, f"{value:g}") for value in values.tolist()]
    return values, None
