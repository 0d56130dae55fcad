"""`headstart metafeatures`: what a table is like, in numbers."""

from __future__ import annotations

import json
from pathlib import Path

import typer
from rich.console import Console
from rich.table import Table


def show(
    table: Path,
    target: str | None,
    set_name: str,
    task: str | None,
    drop: list[str],
    kind: list[str],
    missing: list[str],
    as_json: bool,
) -> None:
    """The values of a set by name; ``null`` or a dash for what cannot be computed."""
    from headstart.cli.fit import kinds_of
    from headstart.data.dataset import Dataset
    from headstart.data.errors import column_hint
    from headstart.data.read import read_table
    from headstart.errors import InvalidInput
    from headstart.metafeatures.handcrafted import HandCrafted
    from headstart.metafeatures.handcrafted.sets import FEATURES, SETS

    extractor = HandCrafted(set_name)
    if target is None:
        raise InvalidInput(f"name the column to predict with --target; {column_hint('', read_table(table).columns)}")
    dataset = Dataset.from_table(table, target, task=task, kinds=kinds_of(drop, kind), missing=missing)
    found = extractor.measure(dataset)
    values = dict(zip(found.names, found.values.tolist(), strict=True))
    known = dict(zip(found.names, found.known.tolist(), strict=True))
    if as_json:
        typer.echo(json.dumps({name: value if known[name] else None for name, value in values.items()}, indent=2))
        return
    unknown = len(values) - sum(known.values())
    title = f"{dataset.name}: {len(values)} meta-features {set_name!r}"
    rows = Table(title=f"{title}, {unknown} cannot be computed" if unknown else title, title_justify="left")
    rows.add_column("meta-feature", no_wrap=True)
    rows.add_column("value", justify="right", no_wrap=True)
    rows.add_column("what it is")
    for name in SETS[set_name]:
        feature = FEATURES[name]
        for column in feature.columns:
            rows.add_row(column, f"{values[column]:.6g}" if known[column] else "-", feature.meaning)
    Console(highlight=False).print(rows)
