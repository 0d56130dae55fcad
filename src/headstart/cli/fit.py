"""`headstart fit`: a table in, a directory with a model out."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headstart.cli.display import Display, make_display
from headstart.cli.folder import Folder, replace_file, write_json
from headstart.cli.messages import say
from headstart.cli.signals import Terminated
from headstart.errors import HeadstartError, InvalidInput

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.fitting.run import Run

_PROBLEM = ("target", "task", "metric", "optimizer", "knowledge", "space", "include", "exclude", "drop", "kind", "seed")
"""Settings that tell which problem it is; a fit goes on only with the same."""
_DEFAULTS: dict[str, Any] = {"optimizer": "default", "seed": 0, "include": [], "exclude": [], "drop": [], "kind": []}
_BUDGET = ("time", "evaluations")


@dataclass
class Request:
    """What was typed; None, or nothing in a list, is what was not.

    Parameters
    ----------
    table
        The file.
    out
        Directory of the fit.
    resume
        Go on with the fit in that directory.
    settings
        By the names of the options.
    """

    table: Path
    out: Path | None
    resume: bool
    settings: dict[str, Any] = field(default_factory=dict)


def fit(request: Request, *, quiet: bool, as_json: bool) -> int:
    """Search, make the model and write everything; returns the exit code."""
    folder = Folder.for_table(request.table) if request.out is None else Folder(request.out)
    before = folder.read_request() if request.resume else None
    if before is None:
        folder.check_new()
    settings = _settings(request.settings, before)
    if settings["jobs"] is not None and (settings["jobs"] < -1 or settings["jobs"] == 0):
        raise InvalidInput(f"--jobs must be at least 1, or -1 for all cores, got {settings['jobs']}")
    if settings["memory"] is not None and settings["memory"] <= 0:
        raise InvalidInput(f"--memory must be a positive number of gigabytes, got {settings['memory']:g}")
    display = make_display(quiet)
    try:
        with display.open(f"reading {request.table.name}"):
            return _fit(request, settings, before, folder, display, quiet, as_json)
    except KeyboardInterrupt:
        _say_what_is_kept("stopped before a pipeline was finished", folder, display)
        return 130
    except Terminated as error:
        _say_what_is_kept(f"ended by {error}", folder, display)
        return error.exit_code


def _say_what_is_kept(what: str, folder: Folder, display: Display) -> None:
    if folder.request.exists():
        done = 0 if display.run is None else len(display.run.history)
        say(f"{what}; no new model was made; {done} pipelines are kept in {folder.path}, go on with --resume")
    else:
        say(f"{what}; nothing was kept")


def _settings(given: dict[str, Any], before: dict[str, Any] | None) -> dict[str, Any]:
    """The settings that count: those given, those of before, the defaults; raises where they do not agree."""
    known = {name: value for name, value in given.items() if value is not None and value != []}
    if before is None:
        return {name: known.get(name, _DEFAULTS.get(name)) for name in given}
    earlier = before.get("settings", {})
    for name in _PROBLEM:
        if name in known and known[name] != earlier.get(name):
            raise InvalidInput(
                f"a fit goes on only with the same {name}: it was {earlier.get(name)!r}, got {known[name]!r}; leave "
                f"--{name} out, or start anew with another --out"
            )
    if any(name in known for name in _BUDGET):
        earlier = {name: value for name, value in earlier.items() if name not in _BUDGET}
    return {name: known.get(name, earlier.get(name, _DEFAULTS.get(name))) for name in given}


def _named(settings: dict[str, Any], task: str) -> dict[str, Any]:
    """The settings with the names of what is the default for a task, so that a resume may name it or not."""
    from headstart.data.target import default_metric

    kind = "regression" if task == "regression" else "classification"
    metric, space = settings["metric"], settings["space"]
    return {
        **settings,
        "task": kind,
        "metric": default_metric(task) if metric is None else metric,
        "space": kind if space is None else space,
    }


def _fit(
    request: Request,
    settings: dict[str, Any],
    before: dict[str, Any] | None,
    folder: Folder,
    display: Display,
    quiet: bool,
    as_json: bool,
) -> int:
    dataset = _read(request.table, settings)
    settings = _named(settings, str(dataset.task))
    content: dict[str, Any] = {"table": str(request.table.resolve()), "key": dataset.key, "settings": settings}
    if before is not None and before.get("key") != dataset.key:
        raise InvalidInput(
            f"a fit goes on only with the same table: {request.table} does not have the content of "
            f"{before.get('table')} as it was; start anew with another --out"
        )
    folder.begin(content)
    try:
        estimator, reason = _search(dataset, settings, before is not None, folder, display)
    except BaseException:
        if before is None and (display.run is None or not len(display.run.history)):
            folder.undo()
        raise
    assert display.run is not None
    display.signals.making = True
    _write(estimator, folder)
    report = _report(request, settings, folder, display, estimator, reason)
    write_json(folder.report, report)
    display.close()
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    elif not quiet:
        from headstart.cli.summary import show_summary

        show_summary(report, request.table)
    return 0


def _read(table: Path, settings: dict[str, Any]) -> Dataset:
    from headstart.data.dataset import Dataset

    if settings["target"] is None:
        from headstart.data.errors import column_hint
        from headstart.data.read import read_table

        raise InvalidInput(f"name the column to predict with --target; {column_hint('', read_table(table).columns)}")
    kinds = kinds_of(settings["drop"], settings["kind"])
    return Dataset.from_table(table, settings["target"], task=settings["task"], kinds=kinds)


def kinds_of(drop: list[str], kind: list[str]) -> dict[str, str]:
    """Kinds of columns as they were typed; a column to leave out is taken for an id."""
    kinds = dict.fromkeys(drop, "id")
    for text in kind:
        name, mark, value = text.rpartition("=")
        if not mark:
            raise InvalidInput(f"--kind must read COLUMN=KIND, such as zip=categorical, got {text!r}")
        kinds[name] = value
    return kinds


def _search(
    dataset: Dataset, settings: dict[str, Any], resume: bool, folder: Folder, display: Display
) -> tuple[Any, str]:
    """A fitted estimator, and why the search ended."""
    memory = settings["memory"]
    estimator = _estimator(dataset, folder if resume else None)
    estimator.set_params(
        time_budget=settings["time"],
        evaluations=settings["evaluations"],
        metric=settings["metric"],
        optimizer=settings["optimizer"],
        knowledge=settings["knowledge"],
        space=settings["space"],
        include=settings["include"],
        exclude=settings["exclude"],
        ensemble=settings["ensemble"] is not False,
        refit=settings["refit"] or "bag",
        n_jobs=settings["jobs"],
        memory_limit=None if memory is None else int(memory * 1e9),
        random_state=settings["seed"],
        store=folder.store,
    )
    try:
        estimator.fit(dataset, resume=resume, progress=display)
    except KeyboardInterrupt:
        run = display.run
        found = 0 if run is None else len(run.candidates())
        if run is None or not found:
            raise
        pipelines = "1 pipeline" if found == 1 else f"{len([t for t in run.history if t.outcome.ok])} pipelines"
        say(f"stopped; making the model of {pipelines}; press Ctrl-C again to leave at once")
        display.signals.making = True
        estimator.finish()
        return estimator, "interrupted"
    assert display.run is not None
    return estimator, str(display.run.study.reason or "seconds")


def _estimator(dataset: Dataset, earlier: Folder | None) -> Any:
    """A new one, or the one in the folder of an earlier fit, whose fitted models need not be fitted again."""
    from headstart.estimators import HeadstartClassifier, HeadstartRegressor

    kind: Any = HeadstartRegressor if dataset.task == "regression" else HeadstartClassifier
    if earlier is not None and earlier.model.exists():
        try:
            return kind.load(earlier.model)
        except (HeadstartError, OSError):
            pass  # damaged, or of another version: all that it needs is in the store
    return kind()


def _write(estimator: Any, folder: Folder) -> None:
    if estimator.model_.best.number < 0 and folder.model.exists():
        say("warning: the model of before is kept, since nothing could be made of this run but a simple one")
        return
    estimator.save(folder.model)
    replace_file(folder.leaderboard, lambda new: estimator.leaderboard_.to_csv(new, index=False))


def _report(
    request: Request, settings: dict[str, Any], folder: Folder, display: Display, estimator: Any, reason: str
) -> dict[str, Any]:
    """All about a fit, as JSON types."""
    from headstart import __version__

    run = display.run
    assert run is not None
    data = run.dataset
    return {
        "headstart": __version__,
        "table": str(request.table.resolve()),
        "target": data.target,
        "task": data.task,
        "rows": data.n_rows,
        "columns": data.n_features,
        "settings": settings,
        "metric": run.metric.name,
        "score": run.score,
        "best": _best(run),
        "members": _members(run, estimator),
        "pipelines": len(run.history),
        "new_pipelines": display.new,
        "statuses": dict(Counter(str(t.outcome.status) for t in run.history)),
        "reason": reason,
        "seconds": round(time.time() - display.started, 3),
        "notes": list(estimator.notes_),
        "out": str(folder.path),
        "model": str(folder.model),
    }


def _best(run: Run) -> dict[str, Any] | None:
    found = run.candidates()[:1]
    return _row(run, found[0]) if found else None


def _members(run: Run, estimator: Any) -> list[dict[str, Any]]:
    trials = {trial.number: trial for trial in run.history}
    return [
        {"weight": round(member.weight, 6), **_row(run, trials[member.number])}
        if member.number in trials
        else {"weight": member.weight, "score": None, "estimator": str(member.pipeline), "pipeline": "", "trial": None}
        for member in sorted(estimator.model_.members, key=lambda m: -m.weight)
    ]


def _row(run: Run, trial: Any) -> dict[str, Any]:
    from headstart.fitting.reports import in_words

    return {
        "score": run.metric.to_score(float(trial.outcome.loss)),
        "estimator": trial.pipeline.algorithms[-1],
        "pipeline": in_words(trial, [stage.name for stage in run.space.stages]),
        "trial": trial.number,
    }
