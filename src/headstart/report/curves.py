"""Mean rank and mean regret over evaluations, as the papers plot them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, MissingDependency
from headstart.replay.results import numbers

if TYPE_CHECKING:
    from headstart.replay.results import Results

Array = NDArray[np.float64]
_FORMATS = (".svg", ".png", ".pdf")
_GREY = "#9a9a9a"
_LABEL_HEIGHT = 0.24
"""Of a figure for each of its labels, in inches."""
_COLOURS, _OF_MANY = 10, 8
"""So many methods all have a colour; of more than that, so many."""
_LEAST_GAP = 0.045
"""Between labels, as a share of the height."""


def check_plot(path: Path) -> None:
    """Raise where a plot cannot be drawn or not be written as such a file."""
    if path.suffix not in _FORMATS:
        raise InvalidInput(f"a plot is written as {', '.join(_FORMATS)}, got {path.name!r}")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingDependency("plots need matplotlib: pip install 'headstart[report]'") from error


@contextmanager
def figure_in(path: Path, size: tuple[float, float]) -> Iterator[Any]:
    """A figure to draw on inside the block; after it the figure is in the file. The same figure gives the same file."""
    check_plot(path)
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    style: Any = {"font.size": 8, "svg.fonttype": "none", "svg.hashsalt": "headstart"}
    with rc_context(style):
        figure = Figure(figsize=size, layout="constrained")
        yield figure
        path.parent.mkdir(parents=True, exist_ok=True)
        changing: dict[str, Any] = {".svg": {"Date": None}, ".png": {"Software": None}, ".pdf": {"CreationDate": None}}
        figure.savefig(path, dpi=150, metadata=changing[path.suffix])


def plot_results(results: Results, path: Path) -> None:
    """Draw two panels, mean rank (ranked methods) and mean regret, into an .svg, .png or .pdf file.

    Of many methods those with the lowest regret in the end have a colour, and the others are grey.
    """
    ordered = results.by_regret()
    best = ordered if len(ordered) <= _COLOURS else ordered[:_OF_MANY]
    with figure_in(path, (11, max(4.6, _LABEL_HEIGHT * len(ordered)))) as figure:
        left, right = figure.subplots(1, 2)
        chosen = dict(zip(best, colours(len(best)), strict=True))
        ranked = [name for name in ordered if results.methods[name]["rank_mean"] is not None]
        complete = [name for name in ordered if results.complete(name)]
        _panel(left, results, ranked, "rank", chosen)
        _panel(right, results, complete, "regret", chosen)
        right.set_yscale("log")
        _label(left, ranked, results, "rank", chosen)
        _label(right, complete, results, "regret", chosen)
        figure.suptitle(f"{results.meta}, {results.split}: {len(results.tasks)} tasks, {results.seeds} run(s) for each")


def _panel(axes: Any, results: Results, names: Sequence[str], what: str, colours: dict[str, Any]) -> None:
    steps = np.arange(1, results.evaluations + 1)
    for name in names:
        mean, width = (numbers(results.methods[name][f"{what}_{part}"]) for part in ("mean", "ci"))
        coloured = name in colours
        colour = colours.get(name, _GREY)
        axes.plot(steps, mean, color=colour, linewidth=1.4 if coloured else 0.6, zorder=2 if coloured else 1)
        if coloured and len(names) <= 8:
            axes.fill_between(steps, mean - width, mean + width, color=colour, alpha=0.12, linewidth=0)
    axes.set_xlim(1, results.evaluations)
    over_evaluations(axes, f"mean {what}")


def over_evaluations(axes: Any, quantity: str) -> None:
    """Label the axes of a panel that shows a quantity over evaluations."""
    axes.set_xlabel("evaluations")
    axes.set_ylabel(quantity)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.5)


def _label(axes: Any, names: Sequence[str], results: Results, what: str, colours: dict[str, Any]) -> None:
    """Names at the ends of the lines, moved apart where they would overlap."""
    ends = {n: y for n in names if (y := results.methods[n][f"{what}_mean"][-1]) is not None}
    if not ends:
        return
    positive = [y for y in ends.values() if y > 0]
    low = min(positive) if positive else 1e-6
    to_axes = axes.transData + axes.transAxes.inverted()
    axes.figure.canvas.draw()
    wanted = {n: float(np.clip(to_axes.transform((1, max(y, low)))[1], 0.0, 1.0)) for n, y in ends.items()}
    ordered = sorted(wanted, key=lambda n: wanted[n])
    gap = min(_LEAST_GAP, 1.0 / max(1, len(ordered)))
    places = spread(np.array([wanted[n] for n in ordered]), gap)
    places += max(0.0, -places[0]) - max(0.0, places[-1] - 1.0)  # inside the panel
    for name, place in zip(ordered, places, strict=True):
        axes.annotate(
            name,
            xy=(1.0, wanted[name]),
            xytext=(1.03, place),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            color=colours.get(name, _GREY),
            fontsize=7,
            arrowprops={
                "arrowstyle": "-",
                "color": colours.get(name, _GREY),
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0, 0.5),
            },
        )


def spread(wanted: Array, gap: float) -> Array:
    """Ascending places near the wanted ones, ascending too, at least `gap` apart.

    >>> spread(np.array([0.1, 0.1, 0.9]), 0.1).round(2).tolist()
    [0.05, 0.15, 0.9]
    """
    blocks: list[list[float]] = []  # mean place, number of labels
    for place in wanted:
        blocks.append([float(place), 1])
        while len(blocks) > 1:
            (low, n), (high, m) = blocks[-2], blocks[-1]
            if high - low >= gap * (n + m) / 2 - 1e-12:
                break
            blocks[-2:] = [[(low * n + high * m) / (n + m), n + m]]
    places = [centre + gap * (i - (n - 1) / 2) for centre, n in blocks for i in range(int(n))]
    return np.array(places)


def colours(n: int) -> list[Any]:
    """So many colours, apart from each other."""
    from matplotlib import colormaps

    if n <= _COLOURS:
        distinct = list(colormaps["tab10"].colors)  # type: ignore[attr-defined]
        distinct[7] = (0.13, 0.13, 0.13)  # a grey, which is for what has no colour
        return distinct[:n]
    return [colormaps["turbo"](0.05 + 0.9 * i / (n - 1)) for i in range(n)]
