"""What a notebook shows: a fitted estimator, its leaderboard, a fit under way."""

from __future__ import annotations

import sys
import time
from html import escape
from typing import TYPE_CHECKING, Any

import pandas as pd

from headstart.evaluation.scoring import label_of, natural
from headstart.fitting.progress import Progress, best_so_far
from headstart.trials import Trial

if TYPE_CHECKING:
    from headstart.fitting.run import Run

SHOWN = 20
"""Rows of a leaderboard."""
_LAST = 5
"""Improvements that are shown while a fit runs."""
_EVERY = 0.5
"""Seconds between two pictures of a fit."""
_STYLE = (
    "font-family: system-ui, sans-serif; font-size: 13px; line-height: 1.5; max-width: 60rem; "
    "font-variant-numeric: tabular-nums"
)


class Leaderboard(pd.DataFrame):  # type: ignore[misc]
    """A DataFrame that a notebook shows with scores as people write them. What is made of it is plain."""

    def _repr_html_(self) -> str:
        if not {"rank", "score", "metric", "weight", "pipeline", "seconds"} <= {*self.columns} or not len(self):
            return str(super()._repr_html_())
        metric = str(self["metric"].iloc[0])
        heads = ("#", label_of(metric), "weight", "seconds", "pipeline")
        rows = []
        for row in self.head(SHOWN).to_dict("records"):
            weight = f"{row['weight']:.2f}" if row["weight"] else "–"
            cells = (str(row["rank"]), f"{natural(metric, row['score']):.5g}", weight, f"{row['seconds']:.1f}")
            numbers = "".join(f'<td style="text-align: right">{escape(cell)}</td>' for cell in cells)
            steps = f'<td style="text-align: left">{escape(str(row["pipeline"]))}</td>'
            rows.append(f"<tr{_bold(bool(row['weight']))}>{numbers}{steps}</tr>")
        more = f"and {len(self) - SHOWN} more" if len(self) > SHOWN else "in bold those of the model"
        head = "".join(f'<th scope="col" style="text-align: left">{escape(text)}</th>' for text in heads)
        return (
            f'<div style="{_STYLE}"><table><caption style="text-align: left">{len(self)} pipelines, {more}</caption>'
            f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        )


def _bold(wanted: bool) -> str:
    return ' style="font-weight: 600"' if wanted else ""


def estimator_html(estimator: Any) -> str:
    """A fitted estimator: what it predicts, how good it is, what it is made of."""
    model = estimator.model_
    lines = [f"<strong>{escape(type(estimator).__name__)}</strong> of <em>{escape(model.target)}</em>, {model.task}"]
    if model.summary is None:
        lines.append("a simple model, not validated")
    else:
        first, *others = model.summary.lines()
        lines += [f'<span style="font-size: 1.3em">{escape(first)}</span>', *map(escape, others)]
    rows = "".join(
        f'<tr><td style="text-align: right">{m.weight:.2f}</td>'
        f'<td style="text-align: left">{escape(str(m.pipeline))}</td></tr>'
        for m in sorted(model.members, key=lambda member: -member.weight)[:SHOWN]
    )
    return (
        f'<div style="{_STYLE}">{"<br>".join(lines)}<details><summary>{len(model.members)} '
        f"pipeline{'s' if len(model.members) > 1 else ''}</summary><table><thead><tr>"
        f'<th scope="col">weight</th><th scope="col" style="text-align: left">pipeline</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></details></div>"
    )


def in_notebook() -> bool:
    """Whether this runs in a kernel that shows HTML."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


class NotebookProgress(Progress):
    """A picture of a fit that is redrawn in its cell: the budget, counts, the best so far, the last improvements."""

    def __init__(self) -> None:
        from IPython import display

        show: Any = display.display
        self._handle = show({"text/plain": "…"}, raw=True, display_id=True)
        self._improvements: list[str] = []
        self._doing = ""
        self._next = 0.0

    def begin(self, run: Run) -> None:
        self._draw(run)

    def trial(self, run: Run, trial: Trial) -> None:
        self._doing = ""
        if trial is best_so_far(run):
            score = run.metric.shown(float(trial.outcome.loss or 0.0))
            self._improvements.append(f"{run.elapsed:.1f} s: {score}, {trial.pipeline.algorithms[-1]}")
            self._next = 0.0
        if time.monotonic() >= self._next:
            self._draw(run)

    def phase(self, run: Run, text: str) -> None:
        self._doing = text
        self._draw(run)

    def end(self, run: Run) -> None:
        self._doing = "done"
        self._draw(run)

    def _draw(self, run: Run) -> None:
        self._next = time.monotonic() + _EVERY
        lines = self.lines(run)
        page = f'<div style="{_STYLE}">{self._bar(run)}{"<br>".join(map(escape, lines))}</div>'
        self._handle.update({"text/plain": "\n".join(lines), "text/html": page}, raw=True)

    def lines(self, run: Run) -> list[str]:
        """What is shown, as text."""
        tried, failed = len(run.history), sum(not t.outcome.ok for t in run.history)
        budget = "" if run.settings.seconds is None else f" of {run.settings.seconds:g} s"
        counts = f"{run.elapsed:.0f} s{budget}, {tried} pipeline{'' if tried == 1 else 's'} tried, {failed} failed"
        return [repr(run.table), counts, *reversed(self._improvements[-_LAST:]), *([self._doing] * bool(self._doing))]

    def _bar(self, run: Run) -> str:
        """How much of the budget is used: of the time, or of the evaluations."""
        seconds, evaluations = run.settings.seconds, run.settings.evaluations
        used = [run.elapsed / seconds] if seconds is not None else []
        used += [len(run.history) / evaluations] if evaluations is not None else []
        share = 1.0 if self._doing == "done" else min(1.0, max(used, default=0.0))
        return f'<progress value="{share:.3f}" max="1" style="width: 100%; max-width: 30rem"></progress><br>'
