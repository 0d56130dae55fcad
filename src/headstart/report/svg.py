"""Small charts as SVG text: axes, lines, points, bars.

Written by hand rather than drawn with matplotlib: a report ends every fit, so its charts must be in the default install
and take milliseconds (matplotlib needs a second to be imported), and as elements of the page they take its colours,
also in the dark and in print. Colours are classes of the page's style sheet: ``s1`` to ``s6`` and ``muted``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from markupsafe import Markup, escape
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

WIDTH, HEIGHT = 440, 280
"""In units that are about pixels; a page scales them to the room that there is."""
N_STYLES = 6
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 12, 44
_LETTER = 6.4
"""Mean width of a letter."""


def style_of(i: int) -> str:
    """The class of the i-th line."""
    return f"s{i % N_STYLES + 1}"


def nice_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most so many; both ends if there is nothing in between.

    >>> nice_ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> nice_ticks(13.0, 94.0)
    [20.0, 40.0, 60.0, 80.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / max(1, most - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1.0, 2.0, 5.0, 10.0) if power * m >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    ticks = [float(f"{i * step:.12g}") for i in range(first, last + 1)]
    return ticks if len(ticks) > 1 else [low, high]


def short(value: float) -> str:
    """A number for a label.

    >>> short(0.25), short(1500.0), short(12000.0), short(3.4e6), short(0.0)
    ('0.25', '1500', '12k', '3.4M', '0')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.3g}{letter}"
    if abs(value) >= 1e3:
        return f"{value:.4g}"
    return f"{value:.3g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.1e}"


@dataclass(frozen=True)
class Axis:
    """A direction of a chart.

    Parameters
    ----------
    label
        What is measured.
    low, high
        The ends.
    ticks
        Where it has marks; round numbers by default.
    names
        What stands at the marks instead of numbers.
    """

    label: str
    low: float
    high: float
    ticks: Sequence[float] = ()
    names: Sequence[str] = ()

    @classmethod
    def around(cls, label: str, values: ArrayLike, *, margin: float = 0.05, zero: bool = False) -> Axis:
        """One with room for finite values; `zero` lets it begin or end there."""
        found = np.asarray(values, dtype=np.float64).ravel()
        found = found[np.isfinite(found)]
        low, high = (float(found.min()), float(found.max())) if len(found) else (0.0, 1.0)
        if zero:
            low, high = min(0.0, low), max(0.0, high)
        room = margin * (high - low) or abs(high) * 0.1 or 1.0
        return cls(label, low - (0.0 if zero and low == 0 else room), high + (0.0 if zero and high == 0 else room))

    def marks(self, most: int) -> list[tuple[float, str]]:
        ticks = list(self.ticks) or nice_ticks(self.low, self.high, most)
        names = list(self.names) or _labels(ticks)
        return list(zip(ticks, names, strict=True))


def _labels(ticks: Sequence[float]) -> list[str]:
    """Short ones that differ from each other."""
    found = [short(tick) for tick in ticks]
    return found if len(set(found)) == len(found) else [f"{tick:.6g}" for tick in ticks]


@dataclass
class Chart:
    """A chart that is drawn piece by piece.

    Parameters
    ----------
    title
        What it shows, for who does not see it.
    x, y
        The axes.
    width, height, left
        Sizes; `left` is the room for labels of the vertical axis.
    """

    title: str
    x: Axis
    y: Axis
    width: int = WIDTH
    height: int = HEIGHT
    left: int = _LEFT
    grid: bool = True
    _parts: list[str] = field(default_factory=list, init=False)

    def _px(self, value: Any) -> Array:
        share = (np.asarray(value, dtype=np.float64) - self.x.low) / (self.x.high - self.x.low or 1.0)
        return self.left + share * (self.width - self.left - _RIGHT)

    def _py(self, value: Any) -> Array:
        share = (np.asarray(value, dtype=np.float64) - self.y.low) / (self.y.high - self.y.low or 1.0)
        return self.height - _BOTTOM - share * (self.height - _TOP - _BOTTOM)

    def line(self, x: ArrayLike, y: ArrayLike, style: str = "s1", *, dashed: bool = False) -> None:
        """Through the points, in their order."""
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(self._px(x), self._py(y), strict=True))
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(f'<polyline class="line {style}" points="{points}"{dash}/>')

    def steps(self, x: ArrayLike, y: ArrayLike, style: str = "s1") -> None:
        """A line that keeps each value until the next."""
        xs, ys = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self.line(np.repeat(xs, 2)[1:], np.repeat(ys, 2)[:-1], style)

    def points(
        self, x: ArrayLike, y: ArrayLike, style: str = "s1", *, radius: float = 3.0, hollow: bool = False
    ) -> None:
        """A dot at each."""
        kind = "ring" if hollow else "dot"
        dots = "".join(
            f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{radius:g}"/>' for a, b in zip(self._px(x), self._py(y), strict=True)
        )
        self._parts.append(f'<g class="{kind} {style}">{dots}</g>')

    def bars(self, low: ArrayLike, high: ArrayLike, heights: ArrayLike, style: str = "s1") -> None:
        """Standing on the lower end of the vertical axis, from `low` to `high`."""
        base = float(self._py(self.y.low))
        boxes = "".join(
            f'<rect x="{a:.1f}" y="{top:.1f}" width="{max(b - a - 1, 0.5):.1f}" height="{max(base - top, 0):.1f}"/>'
            for a, b, top in zip(self._px(low), self._px(high), self._py(heights), strict=True)
        )
        self._parts.append(f'<g class="bar {style}">{boxes}</g>')

    def lying_bars(self, y: ArrayLike, lengths: ArrayLike, style: str = "s1", *, thickness: float = 12) -> None:
        """From zero of the horizontal axis."""
        zero = float(self._px(min(max(0.0, self.x.low), self.x.high)))
        boxes = "".join(
            f'<rect x="{min(zero, end):.1f}" y="{at - thickness / 2:.1f}" width="{abs(end - zero):.1f}" '
            f'height="{thickness:g}" rx="2"/>'
            for at, end in zip(self._py(y), self._px(lengths), strict=True)
        )
        self._parts.append(f'<g class="bar {style}">{boxes}</g>')

    def whiskers(self, y: ArrayLike, low: ArrayLike, high: ArrayLike, style: str = "s1") -> None:
        """Horizontal lines with ends."""
        for at, a, b in zip(self._py(y), self._px(low), self._px(high), strict=True):
            self._parts.append(
                f'<path class="line {style}" d="M{a:.1f} {at - 4:.1f}V{at + 4:.1f}M{a:.1f} {at:.1f}H{b:.1f}'
                f'M{b:.1f} {at - 4:.1f}V{at + 4:.1f}"/>'
            )

    def rule(self, *, x: float | None = None, y: float | None = None, style: str = "muted") -> None:
        """A dashed line across the chart."""
        if x is not None:
            self.line([x, x], [self.y.low, self.y.high], style, dashed=True)
        if y is not None:
            self.line([self.x.low, self.x.high], [y, y], style, dashed=True)

    def text(self, x: float, y: float, words: str, *, anchor: str = "start", dx: float = 0, dy: float = 0) -> None:
        """Words at a point."""
        self._parts.append(
            f'<text x="{float(self._px(x)) + dx:.1f}" y="{float(self._py(y)) + dy:.1f}" '
            f'text-anchor="{anchor}">{escape(words)}</text>'
        )

    def svg(self) -> Markup:
        """The chart; it may stand in any page."""
        label = escape(self.title)
        head = (
            f'<svg class="chart" viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{label}">'
            f"<title>{label}</title>"
        )
        return Markup("".join([head, *self._frame(), *self._parts, "</svg>"]))

    def _frame(self) -> Iterable[str]:
        bottom, right = self.height - _BOTTOM, self.width - _RIGHT
        marks = self.x.marks(6)
        for place, name in marks:
            at = float(self._px(place))
            if self.grid:
                yield f'<path class="grid" d="M{at:.1f} {_TOP}V{bottom}"/>'
            end = "end" if at > right - 6 and len(name) > 3 else "middle"
            yield f'<text class="tick" x="{at:.1f}" y="{bottom + 16}" text-anchor="{end}">{escape(name)}</text>'
        for place, name in self.y.marks(6):
            at = float(self._py(place))
            if self.grid:
                yield f'<path class="grid" d="M{self.left} {at:.1f}H{right}"/>'
            shown = fitted(name, self.left - 10)
            yield (
                f'<text class="tick" x="{self.left - 7}" y="{at + 4:.1f}" text-anchor="end">{escape(shown)}'
                + (f"<title>{escape(name)}</title>" if shown != name else "")
                + "</text>"
            )
        if self.x.label:
            middle = (self.left + right) / 2
            yield (
                f'<text class="label" x="{middle:.1f}" y="{self.height - 8}" '
                f'text-anchor="middle">{escape(self.x.label)}</text>'
            )
        if self.y.label:
            middle = (_TOP + bottom) / 2
            yield (
                f'<text class="label" transform="translate(12 {middle:.1f}) rotate(-90)" '
                f'text-anchor="middle">{escape(self.y.label)}</text>'
            )


def fitted(text: str, width: float) -> str:
    """A text that is cut where it is wider.

    >>> fitted("monthly charges in euros", 80)
    'monthly cha…'
    """
    most = max(3, int(width / _LETTER))
    return text if len(text) <= most else text[: most - 1] + "…"


def spark(shares: Sequence[float], title: str, width: int = 96, height: int = 22) -> Markup:
    """A histogram without axes, for a line of a table."""
    if not len(shares):
        return Markup("")
    top, step = max(max(shares), 1e-12), width / len(shares)
    boxes = "".join(
        f'<rect x="{i * step:.1f}" y="{height * (1 - share / top):.1f}" width="{max(step - 1, 0.5):.1f}" '
        f'height="{height * share / top:.1f}"/>'
        for i, share in enumerate(shares)
    )
    label = escape(title)
    return Markup(
        f'<svg class="spark" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{label}"><g class="bar s1">{boxes}</g></svg>'
    )
