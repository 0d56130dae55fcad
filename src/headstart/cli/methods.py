"""`headstart methods`: what is installed, in a line each."""

from __future__ import annotations

import inspect

import typer

from headstart.errors import HeadstartError
from headstart.registry import KINDS, Kind, find, names


def show_methods() -> None:
    """All parts by kind, a line each: name, what it is, where it is published."""
    for kind in KINDS:
        typer.echo(kind)
        for name in names(kind):
            typer.echo(f"  {name:17} {what_it_is(kind, name)}")


def what_it_is(kind: Kind, name: str) -> str:
    """The first paragraph of its documentation, which ends with where it is published."""
    try:
        text = inspect.getdoc(find(kind, name)) or ""
    except HeadstartError as error:  # a plug-in that cannot be loaded
        return str(error)
    return " ".join(text.split("\n\n")[0].split()).replace("`", "")
