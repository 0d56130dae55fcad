"""``headstart tree``: the tree that a search has grown."""

from __future__ import annotations

from pathlib import Path

import typer

from headstart.cli.report import read_search
from headstart.files import replace_file


def show_tree(directory: Path, out: Path | None) -> None:
    """Print the tree of the newest search of a fit, or write it to a file."""
    from headstart.report.tree import TreeView, check_tree

    if out is not None:
        check_tree(out)
    found = read_search(directory)
    view = TreeView.of(found.history, found.optimizer.get("order", ()), found.metric)
    if out is None:
        typer.echo(str(view))
    else:
        replace_file(out, view.save)
        typer.echo(f"written: {out}")
