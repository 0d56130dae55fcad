"""``headstart replay``."""

from __future__ import annotations

import json as _json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from headstart.cli.messages import say, saying_with
from headstart.errors import InvalidInput
from headstart.learning.monitor import Check
from headstart.optimizers.warm_start import N_INITIAL
from headstart.replay.results import Results, shown
from headstart.replay.runner import Jobs, Reporter, replay

_SHOWN = (10, 25, 50, 100, 200)


def run(
    meta_name: str,
    methods: Sequence[str],
    split: str,
    split_file: Path | None,
    evaluations: int,
    seeds: int,
    warm_start: str | None,
    n_initial: int | None,
    jobs: Jobs,
    out: Path | None,
    plot: Path | None,
    data: Path | None,
    as_json: bool,
    knowledge: Path | None,
) -> None:
    """Replay methods on a meta-dataset, show and save what was found."""
    from headstart.metadata.sources import load
    from headstart.replay.partition import Partition
    from headstart.replay.variants import warm_started

    if not methods:
        raise InvalidInput("give at least one method: --method gp; 'headstart methods' lists them")
    if plot is not None:
        from headstart.report.curves import check_plot

        check_plot(plot)
    if warm_start is None and n_initial is not None:
        raise InvalidInput("--initial says how many pipelines a warm start gives: name one with --warm-start")
    variant = None if warm_start is None else warm_started(warm_start, n_initial or N_INITIAL)
    trained = {}
    if knowledge is not None:
        from headstart.knowledge.files import Knowledge

        trained = {method: Knowledge.load(knowledge).optimizer(method) for method in methods}
    meta = load(meta_name, data)
    partition = Partition.of(meta, split) if split_file is None else Partition.read(split_file, meta)
    with showing_progress(kept=out is not None) as progress:
        results = replay(
            meta,
            methods,
            partition,
            evaluations=evaluations,
            seeds=seeds,
            jobs=jobs,
            out=out,
            progress=progress,
            variant=variant,
            trained=trained,
        )
    if plot is not None:
        from headstart.report.curves import plot_results

        plot_results(results, plot)
    if as_json:
        content = {name: entry for name, entry in vars(results).items() if name != "methods"}
        entries = {m: {k: v for k, v in e.items() if k != "curves"} for m, e in results.methods.items()}
        typer.echo(_json.dumps({**content, "methods": entries}, allow_nan=False))
        return
    show(results, Console())
    for path in (out, plot):
        if path is not None:
            typer.echo(f"written: {path}")


def show(results: Results, console: Console) -> None:
    """Mean regrets with intervals, ranks, and a paired test against the best method."""
    evaluations = [e for e in _SHOWN if e < results.evaluations] + [results.evaluations]
    last, best = results.evaluations, results.best()
    table = Table(
        title=f"{results.meta}, {results.split}: mean regret over {len(results.tasks)} tasks by number of evaluations",
        caption=f"±: half width of the 95 % interval after {last}; p: Wilcoxon signed-rank test against {best} after "
        f"{last}; ms: for a suggestion",
    )
    table.add_column("method", overflow="fold")
    for column in (*map(str, evaluations), "±", "rank", "p", "ms"):
        table.add_column(column, justify="right", no_wrap=True)
    for method in results.by_regret():
        entry = results.methods[method]
        if not entry["n_tasks"]:
            continue  # said above why
        cells = [shown(entry["regret_mean"][e - 1]) for e in evaluations] + [shown(entry["regret_ci"][last - 1])]
        rank = "" if entry["rank_mean"] is None else shown(entry["rank_mean"][last - 1], ".2f")
        p = "" if method == best else shown(entry["versus"]["p"], ".1g")
        name = method if results.complete(method) else f"{method} ({entry['n_tasks']} tasks)"
        table.add_row(name, *cells, rank, p, f"{1000 * entry['seconds_per_suggestion']:.0f}")
    console.print(table)


class _Lines(Reporter):
    """Progress as lines, for when nobody looks at a terminal."""

    def __init__(self) -> None:
        self._last = 0.0

    def learning(self, method: str, check: Check | None = None) -> None:
        if check is None:
            say(f"{method}: learning")
            self._last = time.monotonic()
        elif time.monotonic() - self._last > 30:
            self._last = time.monotonic()
            say(f"{method}: learning, {check.name}: step {check.step} of {check.steps}")

    def running(self, method: str, done: int, total: int) -> None:
        if done == total or time.monotonic() - self._last > 30:
            self._last = time.monotonic()
            say(f"{method}: {done} of {total} runs")

    def done(self, line: str) -> None:
        say(line)


class _Bars(_Lines):
    """Progress as a bar for the method at hand."""

    def __init__(self, bars: Progress) -> None:
        super().__init__()
        self._bars = bars
        self._task: Any = None

    def learning(self, method: str, check: Check | None = None) -> None:
        if self._task is None:
            self._task = self._bars.add_task(f"{method}: learning", total=None)
        if check is not None:
            self._bars.update(self._task, completed=check.step, total=check.steps)

    def running(self, method: str, done: int, total: int) -> None:
        if self._task is None:
            self._task = self._bars.add_task(method, total=total)
        self._bars.update(self._task, description=method, completed=done, total=total)

    def done(self, line: str) -> None:
        if self._task is not None:
            self._bars.remove_task(self._task)
            self._task = None
        super().done(line)


@contextmanager
def showing_progress(kept: bool = True) -> Iterator[_Lines]:
    """Progress of a long run; after Ctrl-C it says how to continue, if results were kept."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        if not console.is_terminal:
            yield _Lines()
        else:
            with Progress(*columns, console=console, transient=True) as bars, saying_with(bars.print):
                yield _Bars(bars)
    except KeyboardInterrupt:
        say(f"stopped; the same command continues from here{'' if kept else ' if it has --out FILE'}")
        raise
