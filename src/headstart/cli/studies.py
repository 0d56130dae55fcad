"""Tables of what a store holds."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from headstart.store import Store
    from headstart.trials import Trial


def show_studies(store: Store, as_json: bool) -> None:
    """One row per study."""
    rows = [
        {
            "name": study.name,
            "task": study.task_key,
            "optimizer": study.settings.get("optimizer", {}).get("name"),
            "seed": study.seed,
            "created": datetime.fromtimestamp(study.created).isoformat(sep=" ", timespec="seconds"),
            "trials": study.n_trials,
            "ok": study.n_ok,
            "best_loss": study.best_loss,
        }
        for study in store.studies()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    table = Table(title=f"Studies in {store.location}")
    for column in ("study", "task", "optimizer", "seed", "created", "trials", "ok", "best loss"):
        table.add_column(column, justify="right" if column in ("seed", "trials", "ok", "best loss") else "left")
    for row in rows:
        table.add_row(*["-" if value is None else _text(value) for value in row.values()])
    Console().print(table)


def show_trials(store: Store, name: str, best: int, as_json: bool) -> None:
    """The best trials of a study, and how many failed."""
    trials = store.read_study(name).trials()
    ok = sorted((t for t in trials if t.outcome.ok), key=lambda t: (not t.proposal.fidelity.is_full, t.outcome.loss))
    if as_json:
        rows = [{"number": t.number, "loss": t.outcome.loss, "seconds": t.outcome.seconds} for t in ok[:best]]
        pipelines = [t.pipeline.to_dict() for t in ok[:best]]
        typer.echo(json.dumps([{**r, "pipeline": p} for r, p in zip(rows, pipelines, strict=True)], indent=2))
        return
    table = Table(title=f"Study {name}: best of {len(trials)} trials, {len(trials) - len(ok)} failed")
    table.add_column("trial", justify="right")
    table.add_column("loss", justify="right")
    table.add_column("seconds", justify="right")
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
