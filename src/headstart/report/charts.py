"""The charts of a report, from its `headstart.report.content`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from markupsafe import Markup

from headstart.report.content import Behaviour, Bound, Curve, Dependence, Importance, Search, Verdict
from headstart.report.svg import Axis, Chart, short, style_of

_ROW = 26
"""Height of a line of a chart with names on the left."""
_WIDE, _NAMES = 500, 170
"""Width of such a chart and of these names."""


@dataclass(frozen=True)
class Figure:
    """A chart with what stands below it.

    Parameters
    ----------
    caption
        What it shows and how to read it.
    legend
        Names of lines with their style.
    """

    chart: Markup
    caption: str
    legend: Sequence[tuple[str, str]] = ()


def verdict_chart(verdict: Verdict) -> Figure:
    """The model between its references."""
    scores = verdict.scores
    ends = [end for score in scores for end in (score.value, *(score.interval or ()))]
    rows = np.arange(len(scores))[::-1]
    chart = Chart(
        f"{verdict.metric} of " + ", ".join(f"{s.name} {s.value:.4g}" for s in scores),
        Axis.around(verdict.metric, ends, margin=0.08),
        Axis("", -0.5, len(scores) - 0.5, rows.tolist(), [s.name for s in scores]),
        width=_WIDE,
        height=60 + 30 * len(scores),
        left=_NAMES,
    )
    for row, score in zip(rows.tolist(), scores, strict=True):
        style = {"model": "s1", "test": "s3"}.get(score.role, "muted")
        if score.interval is not None:
            chart.whiskers([row], [score.interval[0]], [score.interval[1]], style)
        chart.points([score.value], [row], style, radius=6 if score.role != "reference" else 5)
    better = "right" if verdict.higher_is_better else "left"
    return Figure(chart.svg(), f"{verdict.metric}: further {better} is better. Lines are 95 % intervals.")


def search_chart(search: Search, metric: str, higher_is_better: bool) -> Figure:
    """Every pipeline over time, and the best so far."""
    times, scores, full = search.seconds, search.scores, search.full
    best = np.maximum.accumulate if higher_is_better else np.minimum.accumulate
    counted = full if full.any() else np.ones(len(full), dtype=bool)
    reached = best(scores[counted])
    behind = np.abs(scores - reached[-1])
    shown = behind <= max(4 * float(np.median(behind)), float(np.abs(reached - reached[-1]).max()))
    x = Axis.around("seconds of search", times, zero=True)
    chart = Chart(
        f"{metric} of {len(scores)} pipelines over time; the best has {reached[-1]:.4g}",
        x,
        Axis.around(metric, np.concatenate([scores[shown], reached])),
    )
    chart.points(times[shown & ~full], scores[shown & ~full], "muted", radius=2.5, hollow=True)
    chart.points(times[shown & full], scores[shown & full], "muted", radius=2.5)
    chart.steps([*times[counted], x.high], [*reached, reached[-1]], "s1")
    hidden = int((~shown).sum())
    caption = "Each dot is a pipeline."
    if not full.all():
        caption += " Rings were a first look, on some of the rows."
    if hidden:
        caption += f" {hidden} much worse {'one is' if hidden == 1 else 'ones are'} outside of the picture."
    return Figure(chart.svg(), caption, [("s1", "best so far"), ("muted", "a pipeline")])


def curves_chart(
    curves: Sequence[Curve], title: str, x: str, y: str, caption: str, diagonal: bool = False, dots: bool = False
) -> Figure:
    """Lines in the unit square; `diagonal` is drawn behind them, `dots` on them."""
    chart = Chart(f"{title}: " + ", ".join(f"{c.name} {c.note}".strip() for c in curves), _unit(x), _unit(y))
    if diagonal:
        chart.line([0, 1], [0, 1], "muted", dashed=True)
    for i, curve in enumerate(curves):
        chart.line(curve.x, curve.y, style_of(i))
        if dots:
            chart.points(curve.x, curve.y, style_of(i))
    return Figure(chart.svg(), caption, _legend(curves))


def _unit(label: str) -> Axis:
    return Axis(label, 0.0, 1.0)


def _legend(curves: Sequence[Curve]) -> list[tuple[str, str]]:
    return [
        (style_of(i), f"{c.name} {f'({c.note})' if c.note else ''}".strip()) for i, c in enumerate(curves) if c.name
    ]


def behaviour_charts(behaviour: Behaviour) -> dict[str, Figure]:
    """Those that there is data for, by their headings."""
    found: dict[str, Figure] = {}
    if behaviour.roc:
        found["ROC curve"] = curves_chart(
            behaviour.roc,
            "ROC curve",
            "false-positive rate",
            "true-positive rate",
            "How many positives are found, at the price of how many false alarms; the dashed line is chance.",
            diagonal=True,
        )
    if behaviour.precision_recall:
        found["Precision and recall"] = curves_chart(
            behaviour.precision_recall,
            "Precision by recall",
            "recall",
            "precision",
            "How many of the rows called positive are, for each share of the positives that is found.",
        )
    if behaviour.calibration:
        found["Calibration"] = curves_chart(
            behaviour.calibration,
            "Calibration",
            "predicted probability",
            "observed share",
            "On the dashed line, what is predicted with 70 % happens in 70 % of the rows.",
            diagonal=True,
            dots=True,
        )
    if len(behaviour.actual):
        found["Predicted and actual"] = _actual_chart(behaviour)
        found["Residuals by prediction"] = _residuals_by_prediction(behaviour)
    if len(behaviour.residual_counts):
        found["Residuals"] = _residual_histogram(behaviour)
    return found


def _actual_chart(behaviour: Behaviour) -> Figure:
    both = np.concatenate([behaviour.actual, behaviour.predicted])
    axis = Axis.around("actual", both)
    chart = Chart("Predicted by actual values", axis, Axis("predicted", axis.low, axis.high))
    chart.points(behaviour.actual, behaviour.predicted, "s1", radius=2)
    chart.line([axis.low, axis.high], [axis.low, axis.high], "muted", dashed=True)
    return Figure(chart.svg(), f"{len(behaviour.actual):,} rows; on the dashed line a prediction is exact.")


def _residuals_by_prediction(behaviour: Behaviour) -> Figure:
    residuals = behaviour.actual - behaviour.predicted
    chart = Chart(
        "Residuals by predicted value",
        Axis.around("predicted", behaviour.predicted),
        Axis.around("actual − predicted", residuals),
    )
    chart.points(behaviour.predicted, residuals, "s1", radius=2)
    chart.rule(y=0.0)
    return Figure(chart.svg(), "A trend, or a spread that grows, says where the model errs.")


def _residual_histogram(behaviour: Behaviour) -> Figure:
    edges, counts = behaviour.residual_edges, behaviour.residual_counts
    chart = Chart(
        "Histogram of residuals",
        Axis("actual − predicted", float(edges[0]), float(edges[-1])),
        Axis("rows", 0.0, 1.05 * float(counts.max() or 1)),
    )
    chart.bars(edges[:-1], edges[1:], counts)
    if edges[0] < 0 < edges[-1]:
        chart.rule(x=0.0)
    said = ", ".join(
        f"{100 * share:.0f} % of the errors are below {short(value)}"
        for share, value in behaviour.error_quantiles.items()
    )
    return Figure(chart.svg(), f"In absolute value, {said}." if said else "How far predictions are off.")


def importance_chart(importance: Sequence[Importance], metric: str, higher_is_better: bool) -> Figure:
    """A bar for each column, with its spread."""
    rows = np.arange(len(importance))[::-1]
    means = np.array([row.mean for row in importance])
    spreads = np.array([row.spread for row in importance])
    change = "drop" if higher_is_better else "rise"
    chart = Chart(
        "Importance: " + ", ".join(f"{row.feature} {row.mean:.2g}" for row in importance[:10]),
        Axis.around(f"{change} in {metric}", np.concatenate([means - spreads, means + spreads]), zero=True),
        Axis("", -0.6, len(importance) - 0.4, rows.tolist(), [row.feature for row in importance]),
        width=_WIDE,
        height=60 + _ROW * len(importance),
        left=_NAMES,
    )
    chart.lying_bars(rows, means, "s1")
    chart.whiskers(rows, means - spreads, means + spreads, "ink")
    return Figure(chart.svg(), "Bars are means, lines one standard deviation to each side.")


def dependence_chart(dependence: Dependence) -> Figure:
    """The mean prediction by the value of a column."""
    curves = dependence.curves
    y = Axis.around(dependence.predicted, np.concatenate([curve.y for curve in curves]), margin=0.1)
    names = dependence.values
    if names is None:
        x = Axis.around("", curves[0].x, margin=0.02)
        if dependence.is_date:
            places = np.linspace(curves[0].x[0], curves[0].x[-1], 5)[1:-1]
            x = replace(x, ticks=places.tolist(), names=[str(t)[:10] for t in places.astype("datetime64[s]")])
    else:
        x = Axis("", -0.5, len(names) - 0.5, list(range(len(names))), [_cut(n, len(names)) for n in names])
    chart = Chart(f"Mean of {dependence.predicted} by {dependence.feature}", x, y, height=230)
    for i, curve in enumerate(curves):
        if names is None:
            chart.line(curve.x, curve.y, style_of(i))
        else:
            chart.points(curve.x, curve.y, style_of(i), radius=4.5)
    return Figure(chart.svg(), "", _legend(curves) if len(curves) > 1 else ())


def _cut(name: str, n: int) -> str:
    most = max(3, 58 // n)
    return name if len(name) <= most else name[: most - 1] + "…"


def bound_chart(bound: Bound, metric: str) -> Figure:
    """What was measured of each pipeline, with the bound."""
    ok = bound.values <= bound.upper
    label = f"{bound.name} in {bound.unit}" if bound.unit else bound.name
    most = np.quantile(bound.values, 0.95) if len(bound.values) > 20 else bound.values.max()
    shown = bound.values <= max(2 * bound.upper, most)
    chart = Chart(
        f"{metric} by {label}, with the bound {short(bound.upper)}",
        Axis.around(label, [*bound.values[shown], bound.upper], zero=True),
        Axis.around(metric, bound.scores),
    )
    chart.rule(x=bound.upper, style="s2")
    plain = shown & ~bound.chosen
    chart.points(bound.values[plain & ~ok], bound.scores[plain & ~ok], "muted", hollow=True)
    chart.points(bound.values[plain & ok], bound.scores[plain & ok], "muted")
    chart.points(bound.values[shown & bound.chosen], bound.scores[shown & bound.chosen], "s1", radius=6)
    legend = [
        ("s1", "the model's pipeline"),
        ("muted", "others; rings exceed the bound"),
        ("s2", f"bound: {bound.text}"),
    ]
    return Figure(chart.svg(), "As measured in the search.", legend)
