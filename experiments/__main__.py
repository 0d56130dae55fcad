"""The papers' experiments: ``python -m experiments`` lists them, ``python -m experiments NAME`` runs one."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table

from experiments.catalogue import EXPERIMENTS, find, run_experiment
from experiments.experiment import Findings
from experiments.pages import write_pages
from headstart.cli.replay import showing_progress
from headstart.errors import HeadstartError
from headstart.metadata.sources import load


def main() -> None:
    """Run an experiment of a paper; one that was stopped goes on where it was."""
    parser = ArgumentParser("python -m experiments", description=main.__doc__)
    parser.add_argument("name", nargs="?", help="an experiment, or 'pages' to write the pages; without it, a list")
    parser.add_argument("--meta", help="another meta-dataset than the experiment's own")
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder with meta-features and raw tables")
    parser.add_argument("--results", type=Path, metavar="DIR", default=Path("docs/results"), help="where the pages are")
    parser.add_argument("--jobs", type=int, metavar="N", default=1, help="runs at a time; results do not depend on it")
    parser.add_argument("--cluster", metavar="ADDRESS", help="run on the workers of a Dask scheduler")
    parser.add_argument("--tasks", type=int, metavar="N", help="the first N test tasks or tables, into another file")
    parser.add_argument("--evaluations", type=int, metavar="N", help="another number than the experiment's own")
    parser.add_argument("--seconds", type=float, metavar="S", help="of one search, where it is on raw tables")
    options = vars(parser.parse_args())
    options["jobs"] = options.pop("cluster") or options["jobs"]
    name, meta, results = (options.pop(option) for option in ("name", "meta", "results"))
    try:
        if name is None:
            width = max(map(len, EXPERIMENTS))
            typer.echo("\n".join(f"{known:{width}}  {experiment.line}" for known, experiment in EXPERIMENTS.items()))
        elif name == "pages":
            typer.echo("\n".join(f"written: {path}" for path in write_pages(results)))
        else:
            recorded = load(meta or find(name).meta, options["data"])
            with showing_progress() as progress:
                found, path = run_experiment(name, recorded, results / "data", progress=progress, **options)
            show(found)
            typer.echo(f"written: {path}")
    except HeadstartError as error:
        parser.exit(2, f"{error}\n")


def show(findings: Findings) -> None:
    """Print the table of what was found."""
    found = findings.table()
    drawn = Table(title=found.title)
    for i, column in enumerate(found.columns):
        drawn.add_column(column, justify="right" if i else "left", overflow="fold")
    for row in found.rows:
        drawn.add_row(*row)
    Console().print(drawn)


if __name__ == "__main__":
    main()
