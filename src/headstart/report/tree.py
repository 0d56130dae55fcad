"""`TreeView`: the tree that a search has grown, for people: as text, as a picture, as a page that folds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from statistics import median

from headstart.errors import InvalidInput
from headstart.evaluation.scoring import Metric, label_of, natural
from headstart.history import History
from headstart.methods.mosaic.tree import DecisionOrder, Node, tree_of

_FORMATS = (".html", ".svg", ".txt")
_HEADS = ("tried", "failed", "median", "best")
_ROW, _NAME, _BAR, _COLUMN = 20, 430, 120, 64
"""Sizes of the picture: height of a row, widths of names, bars and columns of numbers."""


@dataclass(frozen=True)
class TreeView:
    """The tree of partial structures that a search has grown: how often each was tried, its median and best result.

    ``print`` shows it as text, a notebook as a page that folds, `save` writes it to a file. Of a search without a tree
    of its own only the first decision is shown, usually the estimator.

    Parameters
    ----------
    root
        See `headstart.methods.mosaic`.
    decisions
        Names of the decisions, in their order.
    metric
        What results are measured by.
    to_score
        From a loss to what is shown.
    """

    root: Node
    decisions: Sequence[str]
    metric: str = "loss"
    to_score: Callable[[float], float] = float

    @classmethod
    def of(cls, history: History, order: Sequence[str] = (), metric: Metric | None = None) -> TreeView:
        """The tree of a history; `order` as in `Mosaic`, `metric` what the losses are of."""
        decisions = DecisionOrder(history.candidates.space, order)
        finished = history.where(lambda trial: trial.proposal.fidelity.is_full)
        finished.pending = {}
        view = cls(tree_of(finished, decisions), tuple(decisions.names))
        if metric is None:
            return view
        return replace(
            view, metric=label_of(metric.name), to_score=lambda loss: natural(metric.name, metric.to_score(loss))
        )

    def _numbers(self, node: Node) -> tuple[str, str, str, str]:
        """What is shown of a node, under `_HEADS`."""
        failed = str(node.failures or "-")
        if not node.losses:
            return str(node.visits), failed, "-", "-"
        middle, best = self.to_score(median(node.losses)), self.to_score(min(node.losses))
        return str(node.visits), failed, f"{middle:#.4g}", f"{best:#.4g}"

    def _label(self, node: Node) -> str:
        if not node.path:
            return f"all pipelines, by {self.metric}"
        decision = self.decisions[len(node.path) - 1]
        return node.path[-1] if len(node.path) == 1 else f"{decision}: {node.path[-1]}"

    def _rows(self) -> Iterator[tuple[str, Node]]:
        """Every node with the lines that lead to it."""

        def below(node: Node, lines: str) -> Iterator[tuple[str, Node]]:
            children = sorted(node.children.values(), key=lambda child: -child.visits)
            for i, child in enumerate(children):
                last = i == len(children) - 1
                yield lines + ("└─ " if last else "├─ "), child
                yield from below(child, lines + ("   " if last else "│  "))

        yield "", self.root
        yield from below(self.root, "")

    def __str__(self) -> str:
        rows = [(lines + self._label(node), *self._numbers(node)) for lines, node in self._rows()]
        table = [("", *_HEADS), *rows]
        widths = [max(len(row[i]) for row in table) for i in range(5)]
        return "\n".join(
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
            for row in table
        )

    __repr__ = __str__

    def save(self, path: str | Path) -> None:
        """Write it as .html (folds and unfolds), .svg or .txt, by the end of the name."""
        path = check_tree(Path(path))
        text = self.page() if path.suffix == ".html" else self.svg() if path.suffix == ".svg" else f"{self}\n"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    # -- page -----------------------------------------------------------------------------------------------------

    def page(self) -> str:
        """One HTML file that needs nothing else."""
        title = f"Search tree: {self.root.visits} pipelines"
        return (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_PAGE_STYLE}</style></head>\n'
            f"<body>\n<h1>{title}</h1>\n{self._repr_html_()}\n</body></html>\n"
        )

    def _repr_html_(self) -> str:
        heads = "<span class=share></span>" + "".join(f"<span class=number>{head}</span>" for head in _HEADS)
        return (
            f'<div class="headstart-tree"><style>{_STYLE}</style>\n'
            f"<p class=row><span class=name>{_breakable(' › '.join(self.decisions))}</span>{heads}</p>\n"
            f"{self._details(self.root)}</div>"
        )

    def _details(self, node: Node) -> str:
        share = 100 * node.visits / max(1, self.root.visits)
        numbers = "".join(f"<span class=number>{cell}</span>" for cell in self._numbers(node))
        row = (
            f"<span class=name>{_breakable(self._label(node))}</span>"
            f'<span class=share><span class=bar style="width:{share:.1f}%"></span></span>{numbers}'
        )
        if not node.children:
            return f"<p class=row>{row}</p>\n"
        children = sorted(node.children.values(), key=lambda child: -child.visits)
        inside = "".join(self._details(child) for child in children)
        opened = " open" if len(node.path) == 0 else ""
        return f"<details{opened}><summary class=row>{row}</summary>\n<div class=inside>{inside}</div></details>\n"

    # -- picture --------------------------------------------------------------------------------------------------

    def svg(self) -> str:
        """A picture: a row for each node, with a bar for how often it was tried."""
        rows = list(self._rows())
        width, height = _NAME + _BAR + 4 * _COLUMN + 20, _ROW * (len(rows) + 1) + 16
        ends = [_NAME + _BAR + _COLUMN * (i + 1) for i in range(4)]
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        ]
        parts += [
            f'<text x="{x}" y="{_ROW}" text-anchor="end" fill="#666666">{head}</text>'
            for x, head in zip(ends, _HEADS, strict=True)
        ]
        places: dict[tuple[str, ...], float] = {}
        for i, (_, node) in enumerate(rows):
            left, base = 10 + 18 * len(node.path), _ROW * (i + 2)
            places[node.path] = base - 4
            if node.path:
                above = places[node.path[:-1]] + 6
                parts.append(f'<path d="M{left - 12} {above} V{base - 4} H{left - 2}" fill="none" stroke="#bbbbbb"/>')
            length = _BAR * node.visits / max(1, self.root.visits)
            parts.append(f'<text x="{left}" y="{base}" fill="#111111">{escape(self._label(node))}</text>')
            parts.append(f'<rect x="{_NAME}" y="{base - 11}" width="{length:.1f}" height="12" rx="2" fill="#4c78a8"/>')
            parts += [
                f'<text x="{x}" y="{base}" text-anchor="end" fill="#111111">{cell}</text>'
                for x, cell in zip(ends, self._numbers(node), strict=True)
            ]
        return "\n".join([*parts, "</svg>"]) + "\n"


def _breakable(text: str) -> str:
    """For a page, where a long name may go on in the next line after an underscore."""
    return escape(text).replace("_", "_<wbr>")


def check_tree(path: Path) -> Path:
    """The path, if a tree can be written as such a file."""
    if path.suffix not in _FORMATS:
        raise InvalidInput(f"a tree is written as {', '.join(_FORMATS)}, got {path.name!r}")
    return path


_STYLE = """
.headstart-tree { font: 14px/1.5 system-ui, sans-serif; max-width: 52rem; }
.headstart-tree .row { display: flex; gap: .75rem; margin: 0; padding: .1rem 0; align-items: center; }
.headstart-tree summary { cursor: pointer; list-style-position: outside; }
.headstart-tree summary::before { content: "▸"; width: .8rem; }
.headstart-tree details[open] > summary::before { content: "▾"; }
.headstart-tree summary::-webkit-details-marker { display: none; }
.headstart-tree p.row::before { content: ""; width: .8rem; }
.headstart-tree .name { flex: 1; min-width: 9rem; overflow-wrap: anywhere; }
.headstart-tree .number { flex: none; width: 4.2rem; text-align: right; font-variant-numeric: tabular-nums; }
.headstart-tree .share { flex: none; width: 4.2rem; }
.headstart-tree .bar { display: block; height: .7rem; background: #4c78a8; border-radius: 2px; }
.headstart-tree .inside { margin-left: 1.1rem; border-left: 1px solid #8885; padding-left: .3rem; }
@media (max-width: 40rem) {
.headstart-tree { font-size: 12px; }
.headstart-tree .row { gap: .3rem; }
.headstart-tree .name { min-width: 0; }
.headstart-tree .share { display: none; }
.headstart-tree .number { width: 2.9rem; }
.headstart-tree .inside { margin-left: .3rem; padding-left: .1rem; }
}
""".replace("\n", " ")
_PAGE_STYLE = (
    "body { margin: 1.5rem; font-family: system-ui, sans-serif; } h1 { font-size: 1.2rem; } "
    "@media (prefers-color-scheme: dark) { body { background: #16181c; color: #e6e6e6; } }"
)
