"""Search spaces as tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from headstart.space.parameters import Categorical, Parameter

if TYPE_CHECKING:
    from headstart.space.space import PipelineSpace


def show_space(space: PipelineSpace, as_json: bool) -> None:
    """One row per algorithm, with its hyper-parameters and their ranges."""
    if as_json:
        typer.echo(json.dumps(space.to_dict(), indent=2))
        return
    console = Console()
    table = Table(title=f"Search space {space.name}", show_lines=True)
    for column in ("stage", "algorithm", "hyper-parameters"):
        table.add_column(column, overflow="fold")
    for stage in space.stages:
        label = stage.name if stage.columns == "all" else f"{stage.name}\n({stage.columns} columns)"
        if stage.kind == "fit_option":
            label += "\n(fit option)"
        for i, algorithm in enumerate(stage.algorithms):
            params = "\n".join(f"{p.name}: {_range(p)}" for p in algorithm.params)
            table.add_row(label if i == 0 else "", algorithm.name, params or "-")
    console.print(table)
    columns = f"{space.width} columns when encoded"
    console.print(f"{len(space.stages)} stages, {len(space.forbidden)} forbidden combinations, {columns}")


def _range(parameter: Parameter) -> str:
    if isinstance(parameter, Categorical):
        text = ", ".join(map(str, parameter.choices)) + (" (ordered)" if parameter.ordered else "")
    else:
        text = f"{parameter.low:g} to {parameter.high:g}" + (", logarithmic" if parameter.log else "")
    conditions = [f"{name} is {' or '.join(map(str, values))}" for name, values in parameter.when.items()]
    return text + (f", if {' and '.join(conditions)}" if conditions else "")
