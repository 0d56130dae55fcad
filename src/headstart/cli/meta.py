"""``headstart meta``: meta-datasets to fetch, to look at and to make."""

from __future__ import annotations

import json as _json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headstart.cli.options import AsJson
from headstart.errors import InvalidInput

if TYPE_CHECKING:
    from rich.table import Table

app = typer.Typer(
    help="Fetch, show and make meta-datasets: results of many pipelines on many tables.", no_args_is_help=True
)


def _sources() -> list[str]:
    from headstart.metadata.sources import SOURCES

    return list(SOURCES)


Meta = Annotated[
    str, typer.Argument(metavar="NAME|DIR", help="A fetched meta-dataset, or a directory.", autocompletion=_sources)
]


@app.command()
def fetch(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="'headstart meta list' shows them.", autocompletion=_sources),
    ],
    again: Annotated[bool, typer.Option("--again", help="Fetch it even if it is already there.")] = False,
) -> None:
    """Download published meta-datasets and keep them in the cache.

    They come from PyPI, with pip. What is downloaded is checked and read,
    never installed or run.

    \b
    Example:
      headstart meta fetch pmf tensor_oboe zap
    """
    from headstart.metadata import sources

    for name in names:
        sources.source(name)  # a wrong one is named before anything is downloaded
    for name in names:
        if sources.is_fetched(name) and not again:
            typer.echo(f"{name} is already in {sources.place(name)}; --again fetches it again")
            continue
        with _progress(name) as progress:
            place = sources.fetch(name, progress)
        typer.echo(f"{name}: {_megabytes(place)} in {place}; licence {sources.SOURCES[name].licence}")


@app.command("list")
def list_(json: AsJson = False) -> None:
    """List the meta-datasets that can be fetched, and which of them are here."""
    from headstart.metadata import sources

    rows: list[dict[str, Any]] = [
        {
            "name": source.name,
            "title": source.title,
            "licence": source.licence,
            "download": sum(wheel.size for wheel in source.wheels),
            "place": str(sources.place(source.name)) if sources.is_fetched(source.name) else None,
            "size": _size(sources.place(source.name)) if sources.is_fetched(source.name) else None,
        }
        for source in sources.SOURCES.values()
    ]
    if json:
        typer.echo(_json.dumps(rows, indent=2))
        return
    table = _table("name", "what", "licence", "here")
    for row in rows:
        here = "-" if row["size"] is None else f"{row['size'] / 1e6:.0f} MB"
        table.add_row(row["name"], row["title"], row["licence"], here)
    _show(table, f"Meta-datasets, in {sources.cache_directory() / 'meta'}")


@app.command()
def info(
    meta: Meta,
    json: AsJson = False,
) -> None:
    """Show what is in a meta-dataset.

    \b
    Example:
      headstart meta info pmf
    """
    from headstart.metadata.files import read_header
    from headstart.metadata.sources import located
    from headstart.space.space import PipelineSpace

    place = located(meta)
    header = read_header(place)
    space = PipelineSpace.from_dict(header["space"])
    found: dict[str, Any] = {
        "name": header["name"],
        "place": str(place),
        "size": _size(place),
        "tasks": len(header["tasks"]),
        "pipelines": header["pipelines"],
        "missing": header["missing"],
        "seconds": "seconds.parquet" in header["files"],
        "statuses": "statuses.parquet" in header["files"],
        "splits": {split: len(positions) for split, positions in header["splits"].items()},
        "initial": sum(bool(begin) for begin in header["initial"]),
        "metafeatures": header["metafeatures"],
        "space": {"name": space.name, "key": space.key, "stages": [s.name for s in space.stages], "width": space.width},
        "about": header["about"],
    }
    if json:
        typer.echo(_json.dumps(found, indent=2))
        return
    splits = ", ".join(f"{split} {n}" for split, n in found["splits"].items()) or "no splits"
    lines = {
        "tasks": f"{found['tasks']:,} ({splits}; {found['initial']:,} with an initial design)",
        "pipelines": f"{found['pipelines']:,}; {found['missing']:.1%} of the losses are missing",
        "recorded": ", ".join(["losses", *(k for k in ("seconds", "statuses") if found[k]), *found["metafeatures"]]),
        "space": f"{space.name}: {', '.join(f'{s.name} ({len(s.algorithms)})' for s in space.stages)}; "
        f"{space.width} columns",
        "on disk": f"{_megabytes(place)} in {place}",
    }
    table = _table("", "")
    table.show_header = False
    about = {k: v for k, v in found["about"].items() if k not in ("title", "revision")}
    for label, text in {**lines, **{k if k not in lines else f"{k}, more": v for k, v in about.items()}}.items():
        table.add_row(label, text)
    _show(table, found["about"].get("title", found["name"]))


@app.command("from-store")
def from_store(
    stores: Annotated[
        list[str],
        typer.Argument(metavar="STORE...", help="Directories or database URLs of stores, or directories of fits."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where to write it.")],
    space: Annotated[
        str | None,
        typer.Option(metavar="SPACE", help="Name or key of a space, if there are several.", show_default=False),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAME", help="Use only tasks with this metric.", show_default=False)
    ] = None,
) -> None:
    """Make a meta-dataset of all that stores hold about one search space.

    A task that several of them have is one task.

    \b
    Example:
      headstart meta from-store monday tuesday --out ours.meta
      headstart metatrain ours.meta --method deeppipe --out ours.npz
    """
    from contextlib import ExitStack

    from headstart.metadata.files import check_target, is_meta, save_meta
    from headstart.metadata.from_store import meta_from_store
    from headstart.store import Store

    check_target(out)
    if is_meta(out):
        raise InvalidInput(f"{out} already exists; choose another directory with --out, or remove it")
    with ExitStack() as stack:
        opened = [stack.enter_context(Store.open(_of_fit(store), create=False)) for store in dict.fromkeys(stores)]
        meta = meta_from_store(*opened, space=space, metric=metric, name=out.stem)
    place = save_meta(meta, out)
    typer.echo(f"{meta!r}; {_megabytes(place)} in {place}")


def _of_fit(place: str) -> str:
    """The store in the directory of a fit; any other place as it is."""
    from headstart.cli.folder import Folder

    if "://" in place:
        return place
    if not Path(place).exists():
        raise InvalidInput(f"there is no store at {place}; check the path")
    if Path(place).is_file():
        raise InvalidInput(f"{place} must be a directory, but is a file; give the directory of a store or of a fit")
    inside = Folder(Path(place)).store
    return str(inside) if inside.is_dir() else place


@app.command()
def split(
    meta: Meta,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FILE", help="Where to write it, as JSON.")],
    seed: Annotated[int, typer.Option(min=0, help="Seed of the draw.")] = 0,
    test: Annotated[int, typer.Option(min=1, metavar="N", help="Tasks to test on.")] = 60,
    validation: Annotated[int, typer.Option(min=0, metavar="N", help="Tasks for early stopping.")] = 30,
    hard: Annotated[
        bool, typer.Option("--hard", help="Prefer test tasks on which random search has a high regret.")
    ] = False,
    group: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Regular expression: tasks whose names give the same match stay together; counts are then minimums.",
        ),
    ] = None,
) -> None:
    """Draw other test and validation tasks at random, for 'headstart replay --split-file'.

    \b
    Examples:
      headstart meta split pmf --seed 1 --hard --out other.json
      headstart meta split zap --seed 1 --group '-.*' --out other.json
    """
    import re

    from headstart.metadata.sources import load
    from headstart.replay.partition import Partition

    found = load(meta)
    groups = None
    if group is not None:
        try:
            matches = [re.search(group, name) for name in found.tasks]
        except re.error as error:
            raise InvalidInput(f"--group must be a regular expression, got {group!r}: {error}") from error
        if not any(matches):
            raise InvalidInput(f"--group must match names of tasks, such as {found.tasks[0]!r}, got {group!r}")
        groups = [match.group() if match else name for match, name in zip(matches, found.tasks, strict=True)]
    drawn = Partition.draw(found, seed, test, validation, hard=hard, groups=groups, name=out.stem)
    chances = "proportional to the mean regret of random search after 300 evaluations" if hard else "the same for all"
    about: dict[str, Any] = {"meta": found.name, "seed": seed, "chances of test tasks": chances}
    if group is not None:
        about["whole groups of tasks"] = group
    # What was validation or test task before, settings may have been chosen by.
    about["test tasks by own split"] = {
        name: [task for task in drawn.test if task in tasks]
        for name, tasks in ((name, set(map(int, tasks))) for name, tasks in found.splits.items())
    }
    drawn.write(out, about)
    counts = f"train {len(drawn.train)}, validation {len(drawn.validation)}, test {len(drawn.test)}"
    whole = "" if groups is None else f", of {len(set(groups))} groups"
    typer.echo(f"{found.name}: {counts}{whole}, in {out}")


def _size(place: Path) -> int:
    return sum(file.stat().st_size for file in place.iterdir() if file.is_file())


def _megabytes(place: Path) -> str:
    return f"{_size(place) / 1e6:.1f} MB"


def _table(*columns: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _show(table: Table, title: str) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    console.print(title, soft_wrap=True)
    console.print(table)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[str, float], None]]:
    """A function to be told what is being done and how much of it: a bar on a terminal, else a line for each step."""
    from headstart.cli.display import moving_bar

    step = ""
    with moving_bar(name) as move:

        def told(doing: str, share: float) -> None:
            nonlocal step
            if move is not None:
                move(f"{name}: {doing}", share, 1.0 if share else None)
            elif doing != step:
                step = doing
                typer.echo(f"{name}: {doing}", err=True)

        yield told
