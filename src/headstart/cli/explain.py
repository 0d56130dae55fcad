"""``headstart explain``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headstart.cli.folder import load_model, using

_SHOWN = 10
"""Columns of a row that are shown, the largest contributions first."""


def explain(model: Path, table: Path, rows: int, label: str | None, as_json: bool) -> None:
    """What each column contributes to the predictions for the first rows of a table."""
    estimator = load_model(model)
    from headstart.data.read import read_table

    frame = read_table(table).head(rows)
    with using(model):
        found = estimator.explain(frame)
        shown = found.frame(label)
    if as_json:
        typer.echo(json.dumps({"method": found.method, "rows": json.loads(shown.to_json(orient="records"))}))
        return
    console = Console(highlight=False)
    for i, row in enumerate(shown.to_dict("records")):
        what = f"probability of {row['(class)']}" if "(class)" in row else estimator.model_.target
        title = f"Row {i + 1}: {what} {row['(prediction)']:.4g}, without any column {row['(base)']:.4g}"
        console.print(_bars(title, {name: row[name] for name in found.columns}, found.data.iloc[i]))
    console.print(found.method)


def _bars(title: str, values: dict[str, float], data: Any) -> Table:
    """A line per column: name, value, contribution, and a bar to the left or right of the middle."""
    largest = sorted(values, key=lambda name: -abs(values[name]))
    most = abs(values[largest[0]]) if largest and values[largest[0]] else 1.0
    rows = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), show_header=False)
    for justify in ("left", "left", "right", "right", "left"):
        rows.add_column(justify=justify, no_wrap=True, overflow="ellipsis", max_width=24)
    for name in largest[:_SHOWN]:
        value = values[name]
        bar = "█" * round(12 * abs(value) / most)
        left, right = (bar, "") if value < 0 else ("", bar)
        rows.add_row(Text(str(name)), Text(_short(data[name])), f"{value:+.3g}", Text(left), Text(right, "cyan"))
    if len(largest) > _SHOWN:
        rest = sum(values[name] for name in largest[_SHOWN:])
        rows.add_row(f"{len(largest) - _SHOWN} others", "", f"{rest:+.3g}", "", "")
    return rows


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) and value == value else "-" if value != value else str(value)
