"""``headstart experiment``: experiments of papers, by name."""

from __future__ import annotations

import json as _json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headstart.cli import complete
from headstart.cli.options import AsJson

if TYPE_CHECKING:
    from headstart.experiments.catalogue import Table


def experiment(
    name: Annotated[
        str | None,
        typer.Argument(help="Which one; all are listed when omitted.", autocompletion=complete.experiments),
    ] = None,
    meta: Annotated[
        str | None,
        typer.Option(metavar="META", help="Another meta-dataset than the experiment's own.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory with meta-features and raw tables of the tasks.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="DIR", help="Where the JSON file with the results goes.")
    ] = Path("docs/results/data"),
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs at a time; results do not depend on it.")] = 1,
    tasks: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="The first N test tasks or tables only, into a file of their own: a quick look."
        ),
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Another number than the experiment's own.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(metavar="S", help="Of one search on a raw table, where the experiment is on such tables."),
    ] = None,
    json: AsJson = False,
) -> None:
    """Run an experiment of a paper, or list them all.

    One that is stopped goes on where it was when it is started again.

    \b
    Example:
      headstart experiment pmf_regret --jobs 2
    """
    from headstart.experiments.catalogue import EXPERIMENTS, find, run_experiment

    if name is None:
        if json:
            typer.echo(_json.dumps({name: entry.line for name, entry in EXPERIMENTS.items()}))
            return
        width = max(map(len, EXPERIMENTS))
        for known, entry in EXPERIMENTS.items():
            typer.echo(f"{known:{width}}  {entry.line}")
        return
    from headstart.cli.replay import showing_progress
    from headstart.metadata.sources import load

    recorded = load(meta or find(name).meta, data)
    with showing_progress() as progress:
        found, path = run_experiment(
            name,
            recorded,
            out,
            tasks=tasks,
            evaluations=evaluations,
            jobs=jobs,
            progress=progress,
            data=data,
            seconds=seconds,
        )
    table = found.table()
    if json:
        rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
        typer.echo(_json.dumps({"experiment": name, "title": table.title, "rows": rows, "file": str(path)}))
        return
    _show(table)
    typer.echo(f"written: {path}")


def _show(table: Table) -> None:
    from rich.console import Console
    from rich.table import Table as RichTable

    drawn = RichTable(title=table.title)
    for i, column in enumerate(table.columns):
        drawn.add_column(column, justify="right" if i else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*row)
    Console().print(drawn)
