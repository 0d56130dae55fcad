"""What `headstart fit` says at the end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from headstart.cli.display import clock, counted

_REASONS = {
    "interrupted": "stopped by Ctrl-C",
    "exhausted": "every pipeline in the space was tried",
}


def show_summary(report: dict[str, Any], table: Path) -> None:
    """Score, members, notes, where the model is, what to type next."""
    console = Console(highlight=False)

    def line(text: str = "", style: str | None = None) -> None:
        console.print(text, style=style, markup=False, soft_wrap=True)

    line(_headline(report), "bold")
    line(_counts(report))
    line()
    console.print(_members(report))
    if report["notes"]:
        line()
    for note in report["notes"]:
        console.print(_hanging(note))
    out = shlex.quote(report["out"])
    new, test = (shlex.quote(f"{name}{_suffix(table)}") for name in ("new", "test"))
    line()
    line(f"The model is in {report['model']}. Next:", "bold")
    line(f"  headstart predict {out} {new}")
    line(f"  headstart leaderboard {out} {test}")
    line(f"  headstart importance {out} {test}")
    line(f"  headstart fit {shlex.quote(str(table))} --out {out} --resume --time 10m")


def _suffix(table: Path) -> str:
    return "".join(table.suffixes[-2:]) if table.suffix in (".gz", ".bz2", ".xz", ".zip") else table.suffix


def _headline(report: dict[str, Any]) -> str:
    if report["score"] is None:
        return "No pipeline finished in time: this is a simple fallback model."
    return f"{report['metric']} {report['score']:.5g} in validation, predicting {report['target']!r}"


def _counts(report: dict[str, Any]) -> str:
    failed = {status: n for status, n in sorted(report["statuses"].items()) if status != "ok"}
    words = f"{counted(report['pipelines'])} tried"
    if report["new_pipelines"] < report["pipelines"]:
        words += f" ({report['new_pipelines']} in this run)"
    if failed:
        words += f", {sum(failed.values())} failed ({', '.join(f'{n} {s}' for s, n in failed.items())})"
    why = _REASONS.get(report["reason"])
    return f"{words}, in {clock(report['seconds'])}" + (f"; {why}" if why else "")


def _members(report: dict[str, Any]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("weight", justify="right", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("pipeline", overflow="fold")
    for member in report["members"]:
        score = "-" if member["score"] is None else f"{member['score']:.5g}"
        table.add_row(f"{member['weight']:.2f}", score, Text(member["pipeline"] or member["estimator"]))
    return table


def _hanging(note: str) -> Table:
    grid = Table.grid(padding=(0, 1))
    grid.add_row("-", Text(note))
    return grid
