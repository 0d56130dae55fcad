"""The papers' experiments: ``python -m experiments`` lists them, ``python -m experiments NAME`` runs one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from experiments.catalogue import EXPERIMENTS, find, run_experiment
from experiments.experiment import Table

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")


@app.command()
def main(
    name: Annotated[
        str | None, typer.Argument(help="An experiment, or 'pages' to write docs/results from the saved results.")
    ] = None,
    meta: Annotated[
        str | None,
        typer.Option(metavar="META", help="Another meta-dataset than the experiment's own.", show_default=False),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Directory with meta-features and raw tables of the tasks.")
    ] = None,
    results: Annotated[Path, typer.Option(metavar="DIR", help="Where pages of results are, with their data.")] = Path(
        "docs/results"
    ),
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Runs at a time; results do not depend on it.")] = 1,
    tasks: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="The first N test tasks or tables only, into a file of their own."),
    ] = None,
    evaluations: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Another number than the experiment's own.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(metavar="S", help="Of one search, where the experiment is on raw tables.")
    ] = None,
) -> None:
    """Run an experiment of a paper; one that was stopped goes on where it was.

    \b
    Example:
      python -m experiments pmf_regret --jobs 2
    """
    if name is None:
        width = max(map(len, EXPERIMENTS))
        for known, entry in EXPERIMENTS.items():
            typer.echo(f"{known:{width}}  {entry.line}")
        return
    if name == "pages":
        from experiments.pages import write_pages

        for path in write_pages(results):
            typer.echo(f"written: {path}")
        return
    from headstart.cli.replay import showing_progress
    from headstart.metadata.sources import load

    recorded = load(meta or find(name).meta, data)
    with showing_progress() as progress:
        found, path = run_experiment(
            name,
            recorded,
            results / "data",
            tasks=tasks,
            evaluations=evaluations,
            jobs=jobs,
            progress=progress,
            data=data,
            seconds=seconds,
        )
    _show(found.table())
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


if __name__ == "__main__":
    app()
