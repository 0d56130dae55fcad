"""What experiments found, drawn: curves, errors of predictions over evaluations, and latent points."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.bounds import CONSTRAINED, FILTERED, Bounded
from experiments.cluster import Clustered
from experiments.comparison import Compared
from experiments.dmfbs import Surface
from experiments.draws import Drawn
from experiments.embedding import Points
from experiments.experiment import Findings
from experiments.landscape import Important, Resampled
from experiments.model_error import Errors
from experiments.race import Cost, Raced
from experiments.topology import Ranked
from headstart.errors import InvalidInput
from headstart.replay.results import half_width, numbers, wilcoxon
from headstart.report.curves import colours, figure_in, over_evaluations, plot_results

Array = NDArray[np.float64]
_DOT: dict[str, Any] = {"s": 3, "linewidths": 0, "alpha": 0.7}
_TITLES = {"error": "mean squared error", "variance": "posterior predictive variance"}


def draw(findings: Findings, stem: Path) -> list[Path]:
    """Draw all there is to see of an experiment into files whose names begin with a stem; which they are."""
    svg, png = (stem.with_name(f"{stem.name}.{kind}") for kind in ("svg", "png"))
    if isinstance(findings, Compared):
        plot_results(findings.results, svg)
    elif isinstance(findings, Errors):
        plot_errors(findings, svg)
    elif isinstance(findings, Clustered):
        plot_clusters(findings, png)
    elif isinstance(findings, Points) and findings.flat:
        plot_flat(findings, png)
    elif isinstance(findings, Points):
        plot_points(findings, png)
        plot_pairs(findings, pairs := stem.with_name(f"{stem.name}_estimators.png"))
        return [png, pairs]
    elif isinstance(findings, Ranked):
        plot_ranked(findings, svg)
    elif isinstance(findings, Important):
        plot_importance(findings, svg)
        return [svg]
    elif isinstance(findings, Raced):
        plot_race(findings, svg)
        return [svg]
    elif isinstance(findings, Bounded):
        (plot_feasible if findings.points() else plot_bounds)(findings, svg)
        return [svg]
    elif isinstance(findings, Resampled):
        plot_resampled(findings, png)
    elif isinstance(findings, Surface):
        plot_surface(findings, png)
    elif isinstance(findings, Drawn):
        plot_drawn(findings, svg)
        plot_drawn_tasks(findings, tasks := stem.with_name(f"{stem.name}_tasks.svg"))
        return [svg, tasks]
    else:
        raise InvalidInput(f"there is nothing to draw of {type(findings).__name__}")
    return [svg if isinstance(findings, Compared | Errors | Ranked) else png]


def plot_errors(errors: Errors, path: Path) -> None:
    """Two panels, error and variance over evaluations, with two standard errors around the mean over tasks."""
    with figure_in(path, (9, 3.6)) as figure:
        chosen = dict(zip(errors.methods, colours(len(errors.methods)), strict=True))
        for axes, (name, title) in zip(figure.subplots(1, 2), _TITLES.items(), strict=True):
            for method, entry in errors.methods.items():
                mean, width = numbers(entry[f"{name}_mean"]), numbers(entry[f"{name}_2se"])
                axes.plot(errors.evaluations, mean, color=chosen[method], marker="o", markersize=3, label=method)
                axes.fill_between(
                    errors.evaluations, mean - width, mean + width, color=chosen[method], alpha=0.15, linewidth=0
                )
            axes.set_ylim(bottom=0)
            over_evaluations(axes, title)
            axes.legend(frameon=False)


def plot_ranked(ranked: Ranked, path: Path) -> None:
    """NDCG over the number of neighbours; of a grid of α and λ, how far each is above the first method."""
    cells = {tuple(re.findall(r"[\d.e-]+", name)): ranked.values(name) for name in ranked.methods if name[0] == "α"}
    with figure_in(path, (5.5, 3.6)) as figure:
        axes = figure.subplots()
        if cells:
            own = ranked.values(next(iter(ranked.methods)))[:, 0]
            alphas, penalties = (sorted({key[i] for key in cells}, key=float) for i in range(2))
            grid = np.array([[(cells[a, b][:, 0] - own).mean() for a in alphas] for b in penalties])
            bound = float(np.abs(grid).max())
            drawn = axes.imshow(grid, cmap="RdBu", vmin=-bound, vmax=bound, origin="lower", aspect="auto")
            for (i, j), value in np.ndenumerate(grid):
                shade = "white" if abs(value) > 0.6 * bound else "black"
                axes.text(j, i, f"{value:+.3f}", ha="center", va="center", color=shade)
            axes.set_xticks(range(len(alphas)), alphas)
            axes.set_yticks(range(len(penalties)), penalties)
            axes.set_xlabel("α, weight of distances between tasks")
            axes.set_ylabel("λ, penalty of the map")
            first = next(iter(ranked.methods))
            figure.colorbar(drawn, ax=axes, label=f"NDCG@{ranked.at[0]} of metabu minus {first}")
            return
        for name, colour in zip(ranked.methods, colours(len(ranked.methods)), strict=True):
            found = ranked.values(name)
            mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
            axes.plot(ranked.at, mean, color=colour, marker="o", markersize=3, label=name)
            axes.fill_between(ranked.at, mean - error, mean + error, color=colour, alpha=0.12, linewidth=0)
        axes.set_xlabel("k")
        axes.set_ylabel("NDCG@k, with one standard error")
        axes.set_xticks(ranked.at)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)


def plot_drawn(drawn: Drawn, path: Path) -> None:
    """Two panels over draws: mean ranks, and p of Wilcoxon's test of each against the first sampler."""
    places = {name: np.array(rows, dtype=np.float64) for name, rows in drawn.places.items()}
    own = next(iter(places))
    chosen = dict(zip(places, colours(len(places)), strict=True))
    with figure_in(path, (9, 3.6)) as figure:
        left, right = figure.subplots(1, 2)
        for name, found in places.items():
            steps = np.arange(1, found.shape[1] + 1)
            left.plot(steps, found.mean(axis=0), color=chosen[name], label=name)
            if name != own:
                p = [wilcoxon(places[own][:, t], found[:, t]) for t in range(found.shape[1])]
                right.plot(steps, p, color=chosen[name], label=name)
        right.axhline(0.05, color="black", linewidth=0.8)
        right.set_yscale("log")
        over_evaluations(left, "mean rank")
        over_evaluations(right, f"p against {own}, not corrected")
        left.legend(frameon=False)


def plot_drawn_tasks(drawn: Drawn, path: Path, number: int = 10) -> None:
    """Lowest loss so far on some of the tasks, evenly chosen in the order of their lowest loss."""
    order = np.argsort(np.array(drawn.lowest, dtype=np.float64), kind="stable")
    some = order[np.linspace(0, len(order) - 1, min(number, len(order))).round().astype(int)]
    shades = colours(len(drawn.samplers))
    with figure_in(path, (11, 4.4)) as figure:
        panels = figure.subplots(2, -(-len(some) // 2), squeeze=False).flat
        for axes, task in zip(panels, some, strict=False):
            for (name, rows), colour in zip(drawn.samplers.items(), shades, strict=True):
                axes.plot(np.arange(1, len(rows[task]) + 1), numbers(rows[task]), color=colour, label=name)
            over_evaluations(axes, "lowest loss")
            axes.set_title(drawn.tasks[task])
        figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)


def plot_importance(important: Important, path: Path) -> None:
    """Each meta-feature by its importance for two kinds of pipelines; those that count for either are named."""
    values = np.array(list(important.importance.values()))
    with figure_in(path, (6.5, 5.5)) as figure:
        axes = figure.subplots()
        axes.scatter(*values.T, s=8, color="#1f5fa8", linewidths=0)
        for name, (x, y) in important.importance.items():
            if max(x, y) > 0.6:
                axes.annotate(name, (x, y), xytext=(3, 2), textcoords="offset points", fontsize=6)
        axes.set_xlabel(f"importance for {important.about['names'][0]}")
        axes.set_ylabel(f"importance for {important.about['names'][1]}")
        axes.spines[["top", "right"]].set_visible(False)


def plot_resampled(resampled: Resampled, path: Path) -> None:
    """Tables (stars) and their bootstraps (dots), a colour for each table."""
    flat, owner = np.array(resampled.flat), np.array(resampled.owner)
    with figure_in(path, (5.5, 4.5)) as figure:
        axes = figure.subplots()
        for k, colour in enumerate(colours(len(resampled.tables))):
            first, *others = np.flatnonzero(owner == k)
            axes.scatter(*flat[others].T, s=8, color=colour, linewidths=0)
            axes.scatter(*flat[first], s=60, marker="*", color=colour, edgecolors="black", linewidths=0.4)
        _blank(axes)
        axes.set_title("tables (stars) and their bootstraps, t-SNE of their meta-features", loc="left")


def plot_surface(surface: Surface, path: Path) -> None:
    """A column for each task: losses above, what was predicted of them below."""
    flat = np.array(surface.flat)
    with figure_in(path, (3.2 * len(surface.shown), 5.6)) as figure:
        panels = figure.subplots(2, len(surface.shown), squeeze=False)
        for column, (task, values) in zip(panels.T, surface.shown.items(), strict=True):
            for axes, given, what in zip(column, values, ("loss", "predicted"), strict=True):
                drawn = axes.scatter(*flat.T, c=numbers(given), s=12, linewidths=0, cmap="viridis", vmin=0, vmax=1)
                _blank(axes)
                axes.set_title(f"{task}: {what}")
        figure.colorbar(drawn, ax=panels, label="from the lowest to the highest")


def plot_points(points: Points, path: Path) -> None:
    """Two panels, the first two latent dimensions: coloured by the loss on a task, and by a hyper-parameter."""
    with figure_in(path, (9, 4)) as figure:
        found = np.array(points.points)
        titles = {"losses": f"loss on {points.task}", "values": points.parameter}
        for axes, (name, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            drawn = _by_number(axes, found, getattr(points, name), title, "viridis")
            _bare(axes, 0, 1)
            figure.colorbar(drawn, ax=axes, label=title)


def plot_pairs(points: Points, path: Path) -> None:
    """Pairs of the latent dimensions that were kept, coloured by estimator."""
    found, own = np.array(points.points), np.array(points.estimator)
    q = found.shape[1]
    chosen = colours(len(points.estimators))
    order = np.random.default_rng(0).permutation(len(found))  # or the last estimator would hide the others
    with figure_in(path, (1.8 * max(q - 1, 2), 1.8 * max(q - 1, 2))) as figure:
        panels = figure.subplots(max(q - 1, 1), max(q - 1, 1), squeeze=False)
        for axes in panels.flat:
            axes.set_visible(False)
        for i, j in combinations(range(q), 2):
            axes = panels[j - 1, i]
            axes.set_visible(True)
            axes.scatter(found[order, i], found[order, j], c=[chosen[k] for k in own[order]], **_DOT)
            _bare(axes, i, j, left=i == 0, below=j == q - 1)
        marks = _marks(figure.axes[0], points.estimators, 5)
        figure.legend(handles=marks, loc="upper right", frameon=False)


def plot_flat(points: Points, path: Path) -> None:
    """Panels of the points flattened to two dimensions: coloured by algorithms, and by losses on tasks."""
    flat = np.array(points.flat)
    kinds = {"estimator": (points.estimators, points.estimator), **points.stages}
    losses = {points.task: points.losses, **points.other_losses}
    n = len(kinds) + len(losses)
    with figure_in(path, (9, 4.2 * ((n + 1) // 2))) as figure:
        panels = iter(figure.subplots((n + 1) // 2, 2, squeeze=False).flat)
        for name, (names, chosen) in kinds.items():
            axes = next(panels)
            _by_kind(axes, flat, names, np.array(chosen), legend="below")
            axes.set_title(f"{len(flat):,} pipelines by {name}")
        for task, values in losses.items():
            axes = next(panels)
            drawn = _by_number(axes, flat, values, f"loss on {task}", "viridis_r")
            figure.colorbar(drawn, ax=axes, label="loss", location="bottom", pad=0.02, aspect=40)
        for axes in panels:
            axes.set_visible(False)


def plot_clusters(clustered: Clustered, path: Path) -> None:
    """A panel for each number of encoder layers: pipelines by estimator, with the cluster metric."""
    with figure_in(path, (3.4 * len(clustered.layers), 4.2)) as figure:
        panels = figure.subplots(1, len(clustered.layers), squeeze=False).flat
        for axes, layers, flat, metrics in zip(
            panels, clustered.layers, clustered.flat, clustered.metrics["without"], strict=True
        ):
            legend: Any = "right" if layers == clustered.layers[-1] else None
            _by_kind(axes, np.array(flat), clustered.estimators, np.array(clustered.estimator), legend=legend)
            axes.set_title(f"{layers} encoder layers: {metrics[0]:.3f}")


def _by_number(axes: Any, points: Array, values: list[float | None], title: str, shades: str) -> Any:
    given = numbers(values)
    known = np.isfinite(given)
    # A few extreme ones would take all the colours.
    low, high = np.quantile(given[known], (0.02, 0.98)) if known.any() else (0.0, 1.0)
    drawn = axes.scatter(*points[known, :2].T, c=given[known], vmin=low, vmax=high, cmap=shades, **_DOT)
    _blank(axes)
    axes.set_title(f"{known.sum():,} pipelines by {title}")
    return drawn


def _by_kind(
    axes: Any, flat: Array, names: list[str], chosen: NDArray[np.int64], *, legend: Literal["right", "below"] | None
) -> None:
    shades = colours(len(names))
    order = np.random.default_rng(0).permutation(len(flat))  # or the last kind would hide the others
    axes.scatter(*flat[order].T, c=[shades[k] for k in chosen[order]], **_DOT)
    _blank(axes)
    if legend:
        marks = _marks(axes, names, 4)
        where: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)}
        if legend == "below":
            where = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.0), "ncols": 4}
        axes.legend(handles=marks, frameon=False, fontsize=6, **where)


def _marks(axes: Any, names: list[str], size: int) -> list[Any]:
    """For a legend of kinds by colour."""
    shades = zip(names, colours(len(names)), strict=True)
    return [axes.plot([], [], "o", markersize=size, color=shade, label=name)[0] for name, shade in shades]


def _blank(axes: Any) -> None:
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[["top", "right"]].set_visible(False)


def _bare(axes: Any, i: int, j: int, *, left: bool = True, below: bool = True) -> None:
    _blank(axes)
    axes.set_xlabel(f"dimension {i + 1}" if below else "")
    axes.set_ylabel(f"dimension {j + 1}" if left else "")


def plot_race(raced: Raced, path: Path) -> None:
    """Two panels, lowest loss so far over seconds and over evaluations: median and quartiles over runs."""
    runs = raced.ran()
    costs: tuple[Cost, ...] = ("seconds", "evaluations")
    with figure_in(path, (9, 3.8)) as figure:
        for axes, cost in zip(figure.subplots(1, 2, sharey=True), costs, strict=True):
            for (label, own), colour in zip(runs.items(), colours(len(runs)), strict=True):
                last = max(run["total"][cost] for run in own)
                at = np.geomspace(0.02 if cost == "seconds" else 1, last, 120)
                curves = np.array([_so_far(run, cost, at) for run in own])
                low, middle, high = np.nanquantile(curves, (0.25, 0.5, 0.75), axis=0)
                axes.plot(at, middle, color=colour, label=label)
                axes.fill_between(at, low, high, color=colour, alpha=0.12, linewidth=0)
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.set_xlabel("seconds of the processor" if cost == "seconds" else "evaluations")
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("lowest loss, median and quartiles")
        figure.axes[0].legend(frameon=False, fontsize="small")


def _so_far(run: dict[str, Any], cost: Cost, at: Array) -> Array:
    """Lowest loss of a run at some costs; before the first evaluation that of the first."""
    positions = np.searchsorted(np.array(run[cost]), at, side="right") - 1
    found: Array = np.array(run["losses"])[np.maximum(positions, 0)]
    return found


def plot_bounds(bounded: Bounded, path: Path) -> None:
    """Two panels over bounds: share of pipelines that keep them, and loss of the best of those, both ways."""
    titles = {"shares": "share of pipelines within the bound", "shortfalls": "loss above the best recorded one within"}
    with figure_in(path, (9, 3.6)) as figure:
        for axes, (what, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
            for way, colour, shift in zip((CONSTRAINED, FILTERED), colours(2), (-0.06, 0.06), strict=True):
                found = bounded.values(way, what)
                at = np.arange(found.shape[1]) + shift
                axes.errorbar(at, found.mean(axis=0), half_width(found), color=colour, marker="o", label=way)
            axes.set_xticks(range(len(bounded.labels)), [label.partition(" of")[0] for label in bounded.labels])
            axes.set_xlabel("bound, as share of recorded pipelines that keep it")
            axes.set_ylabel(title)
            axes.set_ylim(bottom=0)
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].legend(frameon=False)


def plot_feasible(bounded: Bounded, path: Path) -> None:
    """A panel for each constraint: loss of pipelines over its value, of the search at its tightest bound and without.

    The region within both bounds of that search is shaded as far as this constraint goes.
    """
    names = list(bounded.bounds[0])
    shades = colours(2)
    with figure_in(path, (9, 3.8)) as figure:
        for column, (axes, name) in enumerate(zip(figure.subplots(1, 2, sharey=True), names, strict=True)):
            tightest = min(range(len(bounded.bounds)), key=lambda i, name=name: bounded.bounds[i][name])  # type: ignore[misc]
            for wanted, label, colour in ((None, FILTERED, shades[1]), (tightest, CONSTRAINED, shades[0])):
                points = np.array([p for bound, found in bounded.points() if bound == wanted for p in found])
                axes.scatter(points[:, column], points[:, -1], s=9, linewidths=0, alpha=0.6, color=colour, label=label)
            axes.axvspan(axes.get_xlim()[0], bounded.bounds[tightest][name], color=shades[0], alpha=0.1, linewidth=0)
            if name == "latency":
                axes.set_xscale("log")
            axes.set_xlabel("latency, seconds for a row" if name == "latency" else name)
            axes.spines[["top", "right"]].set_visible(False)
        figure.axes[0].set_ylabel("loss, 1 − ROC AUC")
        figure.axes[0].legend(frameon=False)
