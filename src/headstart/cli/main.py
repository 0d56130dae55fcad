"""The command ``headstart``."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import Annotated

import typer

app = typer.Typer(
    name="headstart",
    help="AutoML with a head start: finds a good pipeline fast because it has learned from other tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from headstart import __version__

        typer.echo(f"headstart {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


@app.command()
def methods() -> None:
    """List the optimizers, surrogates, acquisitions and extractors that are installed."""
    from headstart.registry import KINDS, names

    for kind in KINDS:
        found = names(kind)
        typer.echo(f"{kind:13} {', '.join(found) if found else '-'}")


@app.command("show-space")
def show_space(
    name: Annotated[str | None, typer.Argument(help="Name of a space; all names when omitted.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the space as JSON.")] = False,
) -> None:
    """Show the stages, algorithms and hyper-parameters of a search space."""
    from headstart.space import catalog

    if name is None:
        typer.echo("\n".join(catalog.names()))
        return
    from headstart.cli.spaces import show_space as show

    show(catalog.load(name), json)


@app.command()
def studies(
    store: Annotated[str, typer.Argument(help="Directory or database URL of a store.")],
    name: Annotated[
        str | None, typer.Argument(help="Show the best trials of this study instead of all studies.")
    ] = None,
    best: Annotated[int, typer.Option(help="How many trials to show.", min=1)] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the studies of a store, or the best trials of one."""
    from headstart.cli.studies import show_studies, show_trials
    from headstart.store import Store

    with Store.open(store, create=False) as opened:
        if name is None:
            show_studies(opened, json)
        else:
            show_trials(opened, name, best, json)


def main() -> None:
    """Run the command; a mistake of the user is one line on standard error and exit code 2, never a traceback."""
    from headstart.errors import HeadstartError

    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character still gets the rest
    try:
        app()
    except HeadstartError as error:
        typer.echo(f"headstart: {error}", err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader, such as head, has seen enough
        sys.stderr.close()
        sys.exit(0)


if __name__ == "__main__":
    main()
