"""Arguments and options of the command ``headstart``, in the order of its help."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from headstart.cli import complete


class Task(StrEnum):
    """Kinds of targets."""

    classification = "classification"
    regression = "regression"


class Refit(StrEnum):
    """What the members of a model predict with."""

    bag = "bag"
    full = "full"
    single = "single"


def duration(text: str) -> float:
    """Seconds of a text such as 90, 90s, 10m or 1.5h.

    >>> duration("10m")
    600.0
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:e[0-9]+)?)\s*([smh]?)\s*", str(text))
    try:
        seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise typer.BadParameter(f"must be a time such as 90, 10m or 1.5h, got {text!r}")
    return seconds


Table = Annotated[Path, typer.Argument(help="CSV, TSV, Parquet, Feather, ARFF, JSON lines or Excel.", metavar="TABLE")]
Model = Annotated[Path, typer.Argument(help="Directory that 'fit' made, or a model's file.", metavar="DIR")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Best = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many to show.", show_default=False)]


_DROP: Any = typer.Option(metavar="COLUMN", help="Leave this column out; may be repeated.", show_default=False)
_KIND: Any = typer.Option(
    metavar="COLUMN=KIND",
    help="Take a column for numeric, boolean, categorical, date or text; may be repeated.",
    show_default=False,
)
Target = Annotated[
    str | None, typer.Option("--target", "-t", metavar="COLUMN", help="Column to predict.", show_default=False)
]
TaskKind = Annotated[Task | None, typer.Option(help="Kind of target; by default inferred from it.", show_default=False)]
Time = Annotated[
    float | None,
    typer.Option(
        "--time",
        parser=duration,
        metavar="SECONDS",
        help="Time for everything: 90, 10m, 1.5h. 60 seconds where neither this nor --evaluations is given.",
        rich_help_panel="Budget",
        show_default=False,
    ),
]
Evaluations = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Number of pipelines to try, in all. With this alone, the same command gives the same model.",
        rich_help_panel="Budget",
        show_default=False,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        metavar="N",
        help="Pipelines at once; -1 for all cores. By default as many as cores and memory allow.",
        rich_help_panel="Budget",
        show_default=False,
    ),
]
Memory = Annotated[
    float | None,
    typer.Option(
        metavar="GB",
        help="Memory that the run may use. By default most of what is free.",
        rich_help_panel="Budget",
        show_default=False,
    ),
]
MetricName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="What to optimise, by scikit-learn's name: roc_auc, f1, r2, … By default what suits the target.",
        autocompletion=complete.metrics,
        rich_help_panel="Search",
        show_default=False,
    ),
]
OptimizerName = Annotated[
    str | None,
    typer.Option(
        help="How to search; 'headstart methods' lists them.",
        autocompletion=complete.optimizers,
        rich_help_panel="Search",
        metavar="NAME",
        show_default=False,
    ),
]
Knowledge = Annotated[
    Path | None,
    typer.Option(
        help="What an optimizer learned from other tables: a file that 'headstart metatrain' wrote.",
        rich_help_panel="Search",
        metavar="FILE",
        show_default=False,
    ),
]
SpaceName = Annotated[
    str | None,
    typer.Option(
        help="What to search; 'headstart show-space' lists them. By default the one for the kind of target.",
        autocompletion=complete.spaces,
        rich_help_panel="Search",
        metavar="NAME",
        show_default=False,
    ),
]
Include = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ALGORITHM",
        help="Use only these of their stage; may be repeated.",
        autocompletion=complete.algorithms,
        rich_help_panel="Search",
        show_default=False,
    ),
]
Exclude = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ALGORITHM",
        help="Do not use these; may be repeated.",
        autocompletion=complete.algorithms,
        rich_help_panel="Search",
        show_default=False,
    ),
]
Drop = Annotated[list[str] | None, _DROP]
Kinds = Annotated[list[str] | None, _KIND]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Everything random follows from it; 0 by default.",
        rich_help_panel="Search",
        show_default=False,
    ),
]
Ensemble = Annotated[
    bool | None,
    typer.Option(
        "--ensemble/--no-ensemble",
        help="Combine the best pipelines, as is the default, or take the best one.",
        rich_help_panel="Model",
        show_default=False,
    ),
]
RefitKind = Annotated[
    Refit | None,
    typer.Option(
        help="Predict with the models of all folds (bag, the default), with one fitted on all rows (full), or with "
        "the model of one fold (single).",
        rich_help_panel="Model",
        show_default=False,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        metavar="DIR",
        help="Directory for the model and all about it. By default named after the table, with .headstart.",
        rich_help_panel="Output",
        show_default=False,
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on with the fit in that directory: same settings, new time.",
        rich_help_panel="Output",
    ),
]
FitJson = Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.", rich_help_panel="Output")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show warnings and errors only.", rich_help_panel="Output")]
