"""What experiments found, drawn: curves, errors of predictions over evaluations, and latent points."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from experiments.cluster import Clustered
from experiments.comparison import Compared
from experiments.embedding import Points
from experiments.experiment import Findings
from experiments.model_error import Errors
from headstart.errors import InvalidInput
from headstart.replay.results import numbers
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
    else:
        raise InvalidInput(f"there is nothing to draw of {type(findings).__name__}")
    return [svg if isinstance(findings, Compared | Errors) else png]


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
