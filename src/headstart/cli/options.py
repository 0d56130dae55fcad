"""Arguments and options that several commands share, and values as they are typed."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer


class Task(StrEnum):
    """Kinds of targets."""

    classification = "classification"
    regression = "regression"


class Refit(StrEnum):
    """What the members of a model predict with."""

    bag = "bag"
    full = "full"
    single = "single"


class Deploy(StrEnum):
    """Which model is made of what was found."""

    best = "best"
    fast = "fast"


def duration(text: str) -> float:
    """Seconds of a text such as 90, 90s, 10m or 1.5h.

    >>> duration("10m")
    600.0
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([smh]?)\s*", str(text))
    return _positive(found[1] if found else "", {"": 1, "s": 1, "m": 60, "h": 3600}[found[2] if found else ""], text)


def gigabytes(text: str) -> int:
    """Bytes of a number of gigabytes.

    >>> gigabytes("1.5")
    1500000000
    """
    return int(_positive(text, 1e9, text, "a number of gigabytes such as 4 or 0.5"))


def _positive(number: str, unit: float, text: str, wanted: str = "a time such as 90, 10m or 1.5h") -> float:
    try:
        value = float(number) * unit
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise typer.BadParameter(f"must be {wanted}, got {text!r}")
    return value


def jobs(text: str) -> int:
    """A positive whole number, or -1.

    >>> jobs("2"), jobs("-1")
    (2, -1)
    """
    if re.fullmatch(r"-1|0*[1-9][0-9]*", str(text)) is None:
        raise typer.BadParameter(f"must be at least 1, or -1 for all cores, got {text!r}")
    return int(text)


def folds_or_share(text: str) -> int | float:
    """A number of folds, or a share of the rows.

    >>> folds_or_share("5"), folds_or_share("0.2")
    (5, 0.2)
    """
    if re.fullmatch(r"0*[1-9][0-9]{0,5}", str(text)) and int(text) > 1:
        return int(text)
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise typer.BadParameter(f"must be a number of folds, such as 5, or a share of the rows, 0.2, got {text!r}")
    return share


option: Any = partial(typer.Option, show_default=False)
budget_option: Any = partial(option, rich_help_panel="Budget")
search_option: Any = partial(option, rich_help_panel="Search")
model_option: Any = partial(option, rich_help_panel="Model")
output_option: Any = partial(option, rich_help_panel="Output")

Table = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, Feather, ARFF, JSON lines or Excel.", metavar="TABLE")]
Model = Annotated[Path, typer.Argument(help="Directory that 'fit' made, or a model file.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Meta = Annotated[str, typer.Argument(metavar="META", help="Name of a meta-dataset, or the directory of one.")]
Data = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Directory with meta-features and raw tables of the tasks.")
]
SplitFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JSON lists train, validation, test of task positions, instead of META's own."),
]
Best = Annotated[int | None, option(min=1, metavar="N", help="How many to show.")]
Target = Annotated[str | None, option("--target", "-t", metavar="COLUMN", help="Column to predict.")]
TaskKind = Annotated[Task | None, option(help="Kind of target; inferred by default.")]
Weights = Annotated[str | None, option(metavar="COLUMN", help="Column that says how much each row counts.")]
Groups = Annotated[
    str | None, option(metavar="COLUMN", help="Rows with one value here are not split between training and validation.")
]
Times = Annotated[
    str | None, option(metavar="COLUMN", help="When each row was: training rows are then before validation rows.")
]
Missing = Annotated[
    list[str] | None,
    option(metavar="TEXT", help="Cells with this text are missing values, such as 'k.A.'; may be repeated."),
]
Drop = Annotated[list[str] | None, option(metavar="COLUMN", help="Leave this column out; may be repeated.")]
Kinds = Annotated[
    list[str] | None,
    option(
        "--kind",
        metavar="COLUMN=KIND",
        help="Treat a column as numeric, boolean, categorical, date or text; may be repeated.",
    ),
]
