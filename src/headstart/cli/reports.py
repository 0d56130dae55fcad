"""What there is to know about models, tables, search spaces and stores, as tables or as JSON."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.bar import Bar
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from headstart.cli.display import counting
from headstart.cli.folder import find_model, load_model, using

if TYPE_CHECKING:
    import pandas as pd

    from headstart.constraints import Constraint
    from headstart.space.parameters import Parameter
    from headstart.space.space import PipelineSpace
    from headstart.store import Store, StudySummary
    from headstart.trials import Trial

_HEADS = {"test_score": "test score", "seconds": "seconds", "rank": "#"}


def leaderboard(model: Path, table: Path | None, best: int | None, as_json: bool) -> None:
    """The pipelines, best first; on a test table the members and the model."""
    from headstart.constraints import parse_constraints
    from headstart.evaluation.scoring import label_of, natural

    estimator = load_model(model)
    with using(model):
        found = estimator.leaderboard() if table is None else estimator.leaderboard(table)
    shown = found.head(best) if best is not None else found if as_json else found.head(20)
    if as_json:
        _print_json(shown)
        return
    metric = label_of(estimator.model_.metric)
    title = f"{len(found)} pipelines by {metric}" if table is None else f"The model and its members on {table.name}"
    bounds = {c.name: c for c in parse_constraints(estimator.constraints) if c.name in found.columns}
    names = [n for n in ("rank", "score", "test_score", "weight", "seconds", *bounds) if n in found.columns]
    if "rows" in found.columns and (found["rows"] < 1).any():
        names.append("rows")
    rows = Table(title=f"{title}, {metric}" if table is not None else title, title_justify="left")
    for name in names:
        rows.add_column(_HEADS.get(name, name), justify="right", no_wrap=True)
    rows.add_column("pipeline", overflow="fold")
    for row in shown.to_dict("records"):
        row |= {name: natural(estimator.model_.metric, row[name]) for name in ("score", "test_score") if name in row}
        cells = [_cell(name, row[name], bounds.get(name)) for name in names]
        rows.add_row(*cells, Text(str(row["pipeline"] or row["estimator"])))
    console = Console(highlight=False)
    console.print(rows)
    if len(shown) < len(found):
        console.print(f"and {len(found) - len(shown)} more; --best {len(found)} shows all")
    measured = [name for name in ("latency", "size") if name in bounds]
    if measured:
        size = bounds["size"].shown(find_model(model).stat().st_size) if "size" in bounds else None
        console.print(
            f"{' and '.join(measured)} as measured in the search, for the model of one fold"
            f"{'' if size is None else f'; the file of the model has {size}'}"
        )


def _cell(name: str, value: Any, bound: Constraint | None = None) -> str:
    if isinstance(value, float) and math.isnan(value):
        return "-"
    if bound is not None:
        return bound.shown(value)
    if name == "weight":
        return f"{value:.2f}" if value else "-"
    if name == "rows":
        return f"{100 * value:.3g} %"
    return f"{value:.1f}" if name == "seconds" else f"{value:.5g}" if isinstance(value, float) else str(value)


def importance(model: Path, table: Path, best: int | None, as_json: bool, time_budget: float | None = None) -> None:
    """How much each column matters to the model: a bar each."""
    estimator = load_model(model)
    with using(model), counting(f"shuffling the columns of {table.name}", "columns") as count:
        found = estimator.feature_importance(table, progress=count, time_budget=time_budget)
    shown = found.head(best) if best is not None else found
    if as_json:
        _print_json(shown)
        return
    from headstart.evaluation.scoring import label_of

    name, better = estimator.model_.metric, "Rise" if estimator.model_.metric.startswith("neg_") else "Drop"
    show_bars(shown.to_dict("records"), f"{better} in {label_of(name)} when a column of {table.name} is shuffled")


def show_bars(rows: Sequence[Mapping[str, Any]], title: str, console: Console | None = None) -> None:
    """A line per column: name, bar, value, standard deviation."""
    console = console or Console(highlight=False)
    most = max([row["importance"] for row in rows if row["importance"] > 0], default=1.0)
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0), show_header=False, expand=True)
    table.add_column(overflow="ellipsis", no_wrap=True, max_width=max(12, console.width // 3))
    table.add_column(ratio=1)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    for row in rows:
        value = float(row["importance"])
        bar = Bar(most, 0, max(0.0, value), color="cyan")
        table.add_row(Text(str(row["feature"])), bar, _short(value), f"± {_short(row['std'])}")
    console.print(table)


def _short(value: float) -> str:
    return "0" if value == 0 else f"{value:.2g}"


def inspect(table: Path, target: str | None, task: str | None, drop: list[str], kind: list[str], **roles: Any) -> None:
    """What is inferred from a table."""
    from headstart.cli.fit import kinds_of
    from headstart.data.dataset import Dataset

    typer.echo(Dataset.from_table(table, target, task=task, kinds=kinds_of(drop, kind), **roles).describe())


def _print_json(frame: pd.DataFrame) -> None:
    rows = [{k: _plain(v) for k, v in row.items()} for row in frame.to_dict("records")]
    typer.echo(json.dumps(rows, indent=2))


def _plain(value: Any) -> Any:
    """As JSON has it: no NaN, no NumPy."""
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


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
    from headstart.space.parameters import Categorical

    if isinstance(parameter, Categorical):
        text = ", ".join(map(str, parameter.choices)) + (" (ordered)" if parameter.ordered else "")
    else:
        text = f"{parameter.low:g} to {parameter.high:g}" + (", logarithmic" if parameter.log else "")
    conditions = [f"{name} is {' or '.join(map(str, values))}" for name, values in parameter.when.items()]
    return text + (f", if {' and '.join(conditions)}" if conditions else "")


def show_studies(store: Store, as_json: bool) -> None:
    """One row per study."""
    infos = {task.key: task.info for task in store.tasks()}
    rows = [_study(study, infos.get(study.task_key, {})) for study in store.studies()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(title=f"Studies in {store.location}")
    for column in (
        "study",
        "table",
        "target",
        "metric",
        "space",
        "optimizer",
        "trials",
        "failed",
        "best",
        "by",
        "last",
    ):
        number = column in ("trials", "failed", "best")
        table.add_column(column, justify="right" if number else "left", overflow="fold")
    for row in rows:
        best = row["best_score"] if row["best_score"] is not None else row["best_loss"]
        last = f"running: {row['running']}" if row["running"] else row["last"] or row["created"]
        cells = [row[name] for name in ("name", "table", "target", "metric", "space", "optimizer", "trials", "failed")]
        table.add_row(
            *["-" if value is None else escape(_text(value)) for value in (*cells, best, row["author"], last)]
        )
    Console().print(table)


def _study(study: StudySummary, info: Mapping[str, Any]) -> dict[str, Any]:
    """What a store knows of a study, as JSON types."""
    about = info.get("table")
    about = about if isinstance(about, Mapping) else {}
    space = info.get("space")
    score = None if study.best_loss is None else _score(info.get("metric"), study.best_loss)
    return {
        "name": study.name,
        "task": study.task_key,
        "table": about.get("name"),
        "target": about.get("target"),
        "metric": info.get("metric"),
        "space": space.get("name") if isinstance(space, Mapping) else None,
        "optimizer": _name_of(study.settings.get("optimizer")),
        "seed": study.seed,
        "trials": study.n_trials,
        "ok": study.n_ok,
        "failed": study.n_trials - study.n_ok,
        "best_loss": study.best_loss,
        "best_score": score,
        "author": study.author,
        "created": _when(study.created),
        "last": None if study.last is None else _when(study.last),
        "running": study.running,
    }


def _score(metric: Any, loss: float) -> float | None:
    """A loss in the direction of its metric, where that is a metric of ours."""
    from headstart.errors import InvalidInput
    from headstart.evaluation.scoring import Metric, natural

    for kind in ("binary", "multiclass", "regression"):
        try:
            found = Metric(metric, kind)
            return natural(found.name, found.to_score(loss))
        except (InvalidInput, TypeError):  # of another kind of target, or of no table at all
            continue
    return None


def _when(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(sep=" ", timespec="seconds")


def _name_of(described: Any) -> str | None:
    return described.get("name") if isinstance(described, Mapping) else None


def show_trials(store: Store, name: str, best: int, as_json: bool) -> None:
    """The best trials of a study, and how many failed."""
    trials = store.read_study(name).trials()
    ok = sorted((t for t in trials if t.outcome.ok), key=lambda t: (not t.proposal.fidelity.is_full, t.outcome.loss))
    if as_json:
        rows = [
            {"number": t.number, "loss": t.outcome.loss, "seconds": t.outcome.seconds, "pipeline": t.pipeline.to_dict()}
            for t in ok[:best]
        ]
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(title=f"Study {name}: best of {len(trials)} trials, {len(trials) - len(ok)} failed")
    for column in ("trial", "loss", "seconds"):
        table.add_column(column, justify="right")
    table.add_column("pipeline", overflow="fold")
    for trial in ok[:best]:
        table.add_row(
            str(trial.number), _text(trial.outcome.loss), f"{trial.outcome.seconds:.2f}", repr(trial.pipeline)
        )
    console = Console()
    console.print(table)
    reasons = Counter(_reason(t) for t in trials if not t.outcome.ok)
    for reason, count in reasons.most_common(5):
        console.print(f"{count} × {reason}", markup=False, highlight=False)


def _reason(trial: Trial) -> str:
    lines = (trial.outcome.error or "").splitlines()
    return f"{trial.outcome.status.value}: {lines[0] if lines else '-'}"


def _text(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
