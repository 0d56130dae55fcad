"""`headstart metafeatures`: what a table is like, in numbers, and which tables are like it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from headstart.data import Dataset
    from headstart.metafeatures.base import MetaFeatures
    from headstart.methods.metabu import Metabu

_NEIGHBOURS, _IMPORTANT = 10, 10


def show(
    table: Path,
    target: str | None,
    set_name: str,
    task: str | None,
    drop: list[str],
    kind: list[str],
    missing: list[str],
    as_json: bool,
    knowledge: Path | None = None,
    map_file: Path | None = None,
) -> None:
    """The values of a set, ``null`` or a dash for what cannot be computed; with knowledge, the nearest tables."""
    from headstart.cli.fit import kinds_of
    from headstart.data.dataset import Dataset
    from headstart.data.errors import column_hint
    from headstart.data.read import read_table
    from headstart.errors import InvalidInput
    from headstart.metafeatures.handcrafted import HandCrafted
    from headstart.metafeatures.handcrafted.sets import FEATURES, SETS
    from headstart.report.curves import check_plot

    extractor = HandCrafted(set_name)
    if map_file is not None:
        if knowledge is None:
            raise InvalidInput("--map needs --knowledge FILE: a map shows the table among those that were learned from")
        check_plot(map_file)
    if target is None:
        raise InvalidInput(f"name the column to predict with --target; {column_hint('', read_table(table).columns)}")
    dataset = Dataset.from_table(table, target, task=task, kinds=kinds_of(drop, kind), missing=missing)
    if knowledge is not None:
        compare(dataset, *learned(knowledge), map_file, as_json)
        return
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


def learned(file: Path) -> tuple[Metabu, dict[str, MetaFeatures]]:
    """Metabu and the other extractors in a file of `Metabu.save` or of ``headstart metatrain``."""
    from headstart.errors import InvalidInput
    from headstart.knowledge.files import Knowledge
    from headstart.methods.metabu import Metabu

    held = Knowledge.load(file)
    for found in (held.learner, *held.extractors.values()):
        if isinstance(found, Metabu):
            return found, dict(held.extractors)
    raise InvalidInput(
        f"{file} must hold Metabu; make one with: headstart metatrain META --method 'nearest(metafeatures=metabu)' "
        "--data DIR --out FILE"
    )


def compare(
    dataset: Dataset, metabu: Metabu, extractors: dict[str, MetaFeatures], map_file: Path | None, as_json: bool
) -> None:
    """Print Metabu's meta-features of a table and the nearest tables; draw the map."""
    from headstart.metafeatures.tables import table_metafeatures
    from headstart.report.table_map import plot_map

    read = table_metafeatures(dataset, metabu.needs.metafeatures, extractors)
    vector = metabu.transform(dataset, read)
    near = metabu.neighbours(vector, _NEIGHBOURS)
    if map_file is not None:
        plot_map(metabu.vectors, metabu.tasks, vector, dataset.name, map_file)
    if as_json:
        content = {"metafeatures": vector.tolist(), "neighbours": dict(near), "importance": metabu.importance()}
        typer.echo(json.dumps(content, indent=2))
        return
    title = f"{dataset.name}: nearest of {len(metabu.tasks)} tables, by {len(vector)} meta-features of Metabu"
    rows = Table(title=title, title_justify="left")
    rows.add_column("table", no_wrap=True)
    rows.add_column("distance", justify="right")
    rows.add_column("what counts most")
    rows.add_column("weight", justify="right")
    counts = list(metabu.importance().items())[:_IMPORTANT]
    for (name, distance), (feature, weight) in zip(near, counts, strict=False):
        rows.add_row(name, f"{distance:.3f}", feature, f"{weight:.3f}")
    Console(highlight=False).print(rows)
    if map_file is not None:
        typer.echo(f"written: {map_file}")
