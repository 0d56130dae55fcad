"""What `headstart fit` shows: a picture that is redrawn in place, plain lines, or nothing; in the end a summary."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from headstart import cli
from headstart.cli.messages import saying_with, was_warned
from headstart.cli.signals import Signals
from headstart.evaluation.scoring import label_of
from headstart.fitting.progress import Lines, Progress, best_so_far
from headstart.fitting.summary import Summary
from headstart.trials import Trial

if TYPE_CHECKING:
    from headstart.fitting.run import Run
    from headstart.space.pipeline import Pipeline

REFRESHES = 4
"""Per second."""
_IMPROVEMENTS = 5
_NO_STEPS = ("none", "native")
_REASONS = {"interrupted": "stopped by Ctrl-C", "exhausted": "every pipeline in the space was tried"}


def wants_picture(console: Console, environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a picture can be redrawn on this console and is welcome."""
    plain = bool(environment.get("NO_COLOR")) or environment.get("TERM") in ("dumb", "unknown")
    return console.is_terminal and not console.is_dumb_terminal and not plain


def make_display(quiet: bool) -> Display:
    """The one that suits standard error."""
    console = Console(stderr=True, highlight=False)
    if quiet:
        return Display(Progress())
    return Picture(console) if wants_picture(console) else Display(Lines(_write_line))


def _write_line(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


@contextmanager
def moving_bar(text: str) -> Iterator[Callable[[str, float, float | None], None] | None]:
    """A function to move a bar with: what is being done, how much of it, and of how much; None without a terminal."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not wants_picture(console):
        yield None
        return
    from rich.progress import Progress as Bars

    with Bars(console=console, transient=True) as bars:
        bar = bars.add_task(text, total=None)
        yield lambda doing, done, total: bars.update(bar, description=doing, completed=done, total=total)


@contextmanager
def counting(doing: str, unit: str, every: float = 10.0) -> Iterator[Callable[[int, int], None]]:
    """A function to be told how many are done, and of how many: a bar on a terminal, else a line now and then."""
    last = time.time()
    with moving_bar(doing) as move:

        def count(done: int, total: int) -> None:
            nonlocal last
            if move is not None:
                move(doing, done, total)
            elif time.time() - last >= every:
                last = time.time()
                _write_line(f"{doing}: {done} of {total} {unit}")

        yield count


class Display(Progress):
    """Passes on to `inner` what happens, and remembers what the command needs to know.

    Parameters
    ----------
    inner
        Shows it.
    """

    def __init__(self, inner: Progress) -> None:
        self.inner = inner
        self.run: Run | None = None
        self.new = 0
        """Number of pipelines that this run has tried, without those of an earlier one."""
        self.on_begin: Callable[[Run], None] = lambda _: None
        """Called when the search begins."""
        self.signals = Signals(self.close)

    @contextmanager
    def open(self, doing: str) -> Iterator[Display]:  # noqa: ARG002
        """Show progress and handle signals while this is entered."""
        with self.signals:
            yield self

    def close(self) -> None:
        """Give the terminal back."""

    def begin(self, run: Run) -> None:
        self.run = self.signals.run = run
        self.on_begin(run)
        self.inner.begin(run)

    def trial(self, run: Run, trial: Trial) -> None:
        self.new += 1
        self.inner.trial(run, trial)

    def phase(self, run: Run, text: str) -> None:
        self.inner.phase(run, text)

    def making(self, run: Run) -> None:
        self.signals.making = True
        self.inner.making(run)

    def end(self, run: Run) -> None:
        self.inner.end(run)


class Picture(Display):
    """A few lines that are redrawn in place: the budget, counts, the best, what runs, the last improvements."""

    def __init__(self, console: Console) -> None:
        super().__init__(Progress())
        self.console = console
        self.doing = ""
        self.statuses: Counter[str] = Counter()
        self.best: Trial | None = None
        self.improvements: deque[tuple[float, str, str]] = deque(maxlen=_IMPROVEMENTS)
        self._seen: dict[int, float] = {}
        self._live = Live(
            console=console, get_renderable=self.render, refresh_per_second=REFRESHES, transient=True, screen=False
        )

    @contextmanager
    def open(self, doing: str) -> Iterator[Display]:
        self.doing = doing
        with saying_with(self._write), self._live, self.signals:
            yield self

    def _write(self, line: str) -> None:
        self.console.print(line, markup=False, soft_wrap=True)

    def close(self) -> None:
        self._live.stop()

    def begin(self, run: Run) -> None:
        super().begin(run)
        self.doing = ""
        self.statuses.update(str(t.outcome.status) for t in run.history)
        self.best = best_so_far(run)

    def trial(self, run: Run, trial: Trial) -> None:
        super().trial(run, trial)
        self.doing = ""
        self.statuses[str(trial.outcome.status)] += 1
        if trial is best_so_far(run):
            self.best = trial
            self.improvements.append((run.elapsed, _score(run, trial), steps(trial.pipeline)))

    def phase(self, run: Run, text: str) -> None:
        super().phase(run, text)
        self.doing = text

    # -- the picture; drawn by a thread of its own ----------------------------------------------------------------

    def render(self) -> RenderableType:
        run = self.run
        if run is None:
            return Text(f"{self.doing} … {clock(time.time() - cli.began)}")
        rows = Table.grid(padding=(0, 2))
        rows.add_column(style="dim", no_wrap=True)
        rows.add_column(ratio=1, overflow="ellipsis")
        rows.add_row("tried", self._counts())
        rows.add_row("best", self._best(run))
        rows.add_row("now", self._now(run))
        for i, (seconds, score, text) in enumerate(reversed(self.improvements)):
            line = Text.assemble((f"{clock(seconds)}  ", "dim"), f"{score}  ", (text, "dim"))
            line.no_wrap, line.overflow = True, "ellipsis"
            rows.add_row("improved" if i == 0 else "", line)
        data = run.table
        what = f"{data.name}: {data.target!r}, {data.task}, {data.n_rows} rows × {data.n_features} columns"
        title = Text(f"{what}, {label_of(run.metric.name)}", no_wrap=True, overflow="ellipsis", style="bold")
        return Group(title, self._bar(run), rows)

    def _bar(self, run: Run) -> RenderableType:
        """How much of the budget is used: of the time, or of the evaluations, whichever is further."""
        seconds, evaluations, tried = run.settings.seconds, run.settings.evaluations, sum(self.statuses.values())
        used, words = [], []
        if seconds is not None:
            used.append(run.elapsed / seconds)
            words.append(f"{clock(run.elapsed)} of {clock(seconds)}, {clock(max(0.0, seconds - run.elapsed))} left")
        else:
            words.append(clock(run.elapsed))
        if evaluations is not None:
            used.append(tried / evaluations)
            words.append(f"{tried} of {evaluations} pipelines")
        line = Table.grid(expand=False, padding=(0, 2))
        line.add_row(ProgressBar(total=1.0, completed=min(1.0, max(used, default=0.0)), width=30), ", ".join(words))
        return line

    def _counts(self) -> Text:
        counts = dict(self.statuses)
        text = Text(counted(sum(counts.values())), no_wrap=True, overflow="ellipsis")
        for status, count in sorted(counts.items(), key=lambda item: (item[0] != "ok", item[0])):
            text.append("   ").append(f"{count} {status}", style="green" if status == "ok" else "yellow")
        return text

    def _best(self, run: Run) -> Text:
        best = self.best
        if best is None:
            return Text("-")
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(_score(run, best), style="bold green")
        text.append("" if best.proposal.fidelity.is_full else " at first look").append(f"  {steps(best.pipeline)}")
        return text

    def _now(self, run: Run) -> Text:
        """What is done besides searching; the pipelines under way once there are any, as after a phase at the start."""
        if self.doing and (self.signals.making or not run.study.running):
            return Text(self.doing, no_wrap=True, overflow="ellipsis")
        return self._running(run)

    def _running(self, run: Run) -> Text:
        """The pipelines under way, with the seconds since they were first seen here."""
        now, parts = time.time(), []
        for number, proposal in run.study.running[: run.plan.n_jobs]:
            seconds = now - self._seen.setdefault(number, now)
            parts.append(f"{proposal.pipeline.algorithms[-1]} {seconds:.0f} s")
        return Text(", ".join(parts) or "choosing the next pipeline", no_wrap=True, overflow="ellipsis")


def _score(run: Run, trial: Trial) -> str:
    return run.metric.shown(float(trial.outcome.loss or 0.0))


def steps(pipeline: Pipeline) -> str:
    """Names of the steps that do something, the estimator first since a line may be truncated.

    >>> from headstart.space.pipeline import Pipeline
    >>> steps(Pipeline(["median", "none", "pca", "knn"]))
    'knn after median > pca'
    """
    *before, last = [pipeline.algorithms[i] for i in pipeline.order or range(len(pipeline.algorithms))]
    kept = [name for name in before if name not in _NO_STEPS]
    return f"{last} after {' > '.join(kept)}" if kept else last


def counted(pipelines: int) -> str:
    """A number of pipelines.

    >>> counted(1), counted(2)
    ('1 pipeline', '2 pipelines')
    """
    return f"{pipelines} pipeline{'' if pipelines == 1 else 's'}"


def clock(seconds: float) -> str:
    """Minutes and seconds, and hours if any.

    >>> clock(75), clock(3723.4)
    ('1:15', '1:02:03')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def show_summary(report: dict[str, Any], table: Path) -> None:
    """Notes, how good the model is, where it is, what to type next."""
    console = Console(highlight=False)

    def line(text: str = "", style: str | None = None) -> None:
        console.print(text, style=style, markup=False, soft_wrap=True)

    notes = [note for note in report["notes"] if not was_warned(note)]
    for note in notes:
        console.print(_hanging(note))
    if notes:
        line()
    line(_counts(report))
    if report["summary"] is None:
        line("No pipeline finished in time: this is a simple fallback model.", "bold")
    else:
        first, *others = Summary.from_dict(report["summary"]).lines()
        line(f"{first}, predicting {report['target']!r}", "bold")
        for text in others:
            line(text)
    out = shlex.quote(report["out"])
    new, test = (shlex.quote(f"{name}{_suffix(table)}") for name in ("new", "test"))
    if report.get("report"):
        line(f"The report is in {report['report']}: open it in a browser.")
    line(f"The model is in {report['model']}. Next:", "bold")
    line(f"  headstart predict {out} {new}")
    line(f"  headstart leaderboard {out} {test}")
    line(f"  headstart importance {out} {test}")
    line(f"  headstart fit {shlex.quote(str(table))} --out {out} --resume --time 10m")


def _suffix(table: Path) -> str:
    return "".join(table.suffixes[-2:]) if table.suffix in (".gz", ".bz2", ".xz", ".zip") else table.suffix


def _counts(report: dict[str, Any]) -> str:
    failed = {status: n for status, n in sorted(report["statuses"].items()) if status != "ok"}
    words = f"{counted(report['pipelines'])} tried"
    if report["new_pipelines"] < report["pipelines"]:
        words += f" ({report['new_pipelines']} in this run)"
    if failed:
        words += f", {sum(failed.values())} failed ({', '.join(f'{n} {s}' for s, n in failed.items())})"
    why = _REASONS.get(report["reason"])
    return f"{words}, in {clock(report['seconds'])}" + (f"; {why}" if why else "")


def _hanging(note: str) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_row("-", Text(note))
    return grid
