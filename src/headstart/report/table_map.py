"""A map of tables: near are those that are alike by their meta-features."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.report.curves import figure_in

Array = NDArray[np.float64]
_GREY, _NEAR, _NEW = "#b5b5b5", "#1f5fa8", "#c8321e"


def plot_map(vectors: Array, names: Sequence[str], new: Array, name: str, path: Path, neighbours: int = 5) -> None:
    """Draw tables by their meta-features, with one new table and its nearest, into an .svg, .png or .pdf file.

    The map has the two principal axes of the vectors, and says how much of their variance these keep. Lines join each
    table to the nearest one in all dimensions, and the new table to its nearest.

    Parameters
    ----------
    vectors, names
        (n, d) meta-features of the tables, and what they are called.
    new, name
        (d,) meta-features of the new table, and what it is called.
    path
        The file.
    neighbours
        How many of the nearest tables are joined to the new one, and named.
    """
    from scipy.spatial.distance import cdist

    centre = vectors.mean(axis=0)
    axes = np.linalg.svd(vectors - centre, full_matrices=False)[2][:2]
    flat = np.zeros((len(vectors), 2))
    flat[:, : len(axes)] = (vectors - centre) @ axes.T
    place = np.zeros(2)
    place[: len(axes)] = axes @ (new - centre)
    total = float(((vectors - centre) ** 2).sum())
    kept = float((flat**2).sum()) / total if total > 0 else 1.0
    apart = cdist(vectors, vectors)
    np.fill_diagonal(apart, np.inf)
    near = np.argsort(np.linalg.norm(vectors - new, axis=1), kind="stable")[:neighbours]
    with figure_in(path, (7.5, 6.0)) as figure:
        panel = figure.subplots()
        for i, j in enumerate(apart.argmin(axis=1)) if len(vectors) > 1 else ():
            panel.plot(*flat[[i, j]].T, color=_GREY, linewidth=0.6, zorder=1)
        for i in near:
            panel.plot(*np.array([place, flat[i]]).T, color=_NEW, linewidth=0.9, zorder=2)
        others = np.setdiff1d(np.arange(len(vectors)), near)
        panel.scatter(*flat[others].T, s=14, color=_GREY, linewidths=0, zorder=3, label="tables learned from")
        panel.scatter(*flat[near].T, s=26, color=_NEAR, linewidths=0, zorder=4, label=f"the {len(near)} nearest")
        panel.scatter(*place, s=130, marker="*", color=_NEW, linewidths=0, zorder=5, label=name)
        _named(panel, flat[near], [names[i] for i in near])
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_aspect("equal", adjustable="datalim")
        panel.set_xlabel(f"first two principal axes: {100 * kept:.0f} % of the variance")
        panel.set_title(f"{name} among {len(vectors)} tables", loc="left")
        panel.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        panel.spines[:].set_color("#dddddd")


def _named(panel: Any, places: Array, names: Sequence[str]) -> None:
    """Names beside their points, on the side where there is more room."""
    low, high = panel.get_xlim()
    for (x, y), name in zip(places, names, strict=True):
        right = x < low + 0.7 * (high - low)
        panel.annotate(
            name,
            (x, y),
            xytext=(6 if right else -6, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize=7,
            color=_NEAR,
            zorder=6,
        )
