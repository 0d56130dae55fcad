"""`headstart fit`: a table in, a directory with a model out."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import typer

from headstart import cli
from headstart.cli.display import Display, counted, make_display, show_summary
from headstart.cli.folder import Folder, write_json
from headstart.cli.messages import say, warn
from headstart.cli.signals import Terminated
from headstart.errors import HeadstartError, InvalidInput
from headstart.evaluation.scoring import full_name, label_of, natural
from headstart.files import replace_file
from headstart.fitting.settings import PLACE, PROBLEM, Settings
from headstart.store.location import shown_location

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.fitting.run import Run


@dataclass(eq=False, kw_only=True)
class FitRequest(Settings):
    """The settings of a fit, and what to predict.

    Parameters
    ----------
    target
        Column to predict.
    task
        Kind of target; inferred if None.
    weights, groups, times
        Columns that say how much a row counts, what it belongs to and when it was.
    report
        Whether to write a page about the fit.
    """

    target: str | None = field(default=None, metadata=PROBLEM)
    task: str | None = field(default=None, metadata=PROBLEM)
    weights: str | None = field(default=None, metadata=PROBLEM)
    groups: str | None = field(default=None, metadata=PROBLEM)
    times: str | None = field(default=None, metadata=PROBLEM)
    report: bool = True

    def describe(self) -> dict[str, Any]:
        """What is not at its default, as JSON types, but for where it runs."""
        chosen = (f for f in fields(self) if f.metadata != PLACE and getattr(self, f.name) != f.default)
        found = {f.name: getattr(self, f.name) for f in chosen}
        return {**found, "store": shown_location(self.store)} if isinstance(self.store, str) else found


def fit(
    ctx: typer.Context,
    *,
    table: Path,
    out: Path | None,
    resume: bool,
    as_json: bool,
    quiet: bool,
    drop: list[str] | None,
    kinds: list[str] | None,
    **options: Any,
) -> int:
    """Search, make the model and write everything; returns the exit code.

    Parameters
    ----------
    options
        Fields of a `FitRequest`; None if not given.
    """
    folder = Folder.for_table(table) if out is None else Folder(out)
    options["kinds"] = kinds_of(drop or [], kinds or [])
    given = {name: _plain(value) for name, value in options.items() if value not in (None, [], {})}
    if len(given.get("knowledge", ())) == 1:
        (given["knowledge"],) = given["knowledge"]  # as one is given in Python
    if "metric" in given:
        given["metric"] = full_name(given["metric"])
    earlier = folder.read_request() if resume else None
    if earlier is None:
        folder.check_new()
        request = FitRequest(**given)
    else:
        names = {param.name: param.opts[0] for param in ctx.command.params}
        request = restored(earlier, folder).resumed(given, lambda name: str(names.get(name, name)))
    if request.cluster is not None:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is said in our words
    display = make_display(quiet)
    try:
        with display.open(f"reading {table.name}"):
            report = _fit(table, request, earlier, folder, display)
    except KeyboardInterrupt:
        _say_what_is_kept("stopped before a pipeline was finished", folder, display)
        return 130
    except Terminated as error:
        _say_what_is_kept(f"stopped by {error}", folder, display)
        return error.exit_code
    finally:
        folder.end()
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    elif not quiet:
        show_summary(report, table)
    return 0


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, Path | StrEnum) else value


def restored(content: dict[str, Any], folder: Folder) -> FitRequest:
    """What an earlier fit was asked for, from its `fit.json`."""
    try:
        request: FitRequest | None = FitRequest(**content["settings"])
    except (KeyError, TypeError):
        request = None
    if request is None or not isinstance(request.metric, str | None):
        raise InvalidInput(
            f"{folder.request} was written by another version of Headstart; start a new fit with another --out"
        )
    return request


def _say_what_is_kept(what: str, folder: Folder, display: Display) -> None:
    if folder.request.exists():
        done = 0 if display.run is None else display.run.study.n_finished
        say(f"{what}; no new model was made; {counted(done)} in {folder.path}, continue with --resume")
    else:
        say(f"{what}; nothing was kept")


def _fit(
    table: Path, request: FitRequest, earlier: dict[str, Any] | None, folder: Folder, display: Display
) -> dict[str, Any]:
    """Fit and write everything; returns the report."""
    from headstart.fitting.clock import within

    with within(request.seconds, f"reading {table}"):
        dataset = read_dataset(table, request)
    request = _with_defaults(request, str(dataset.task))
    if earlier is not None and earlier.get("key") != dataset.key:
        raise InvalidInput(
            f"a fit can only be resumed with the same table: the content of {table} is not what "
            f"{earlier.get('table')} had; start a new fit with another --out"
        )
    about = {"table": str(table.resolve()), "key": dataset.key, "settings": request.describe()}
    if earlier is not None and "study" in earlier:
        about["study"] = earlier["study"]
    folder.begin(about, resume=earlier is not None)
    ready = Thread(target=_prepare_saving, daemon=True)  # while workers start and search
    try:
        ready.start()
        estimator = _estimator(dataset, folder if earlier is not None else None)
        before = _About.of(estimator)
        reason = _search(estimator, dataset, request, earlier is not None, folder, display)
    except BaseException:
        if earlier is None and (display.run is None or not display.run.study.n_finished):
            folder.undo()
        raise
    ready.join()
    estimator = _write(estimator, folder, before)
    display.signals.saved = True
    if request.report:
        _write_page(estimator, table, request, folder, display)
    report = _report(table, request, folder, display, estimator, reason)
    write_json(folder.report, report)
    return report


def _prepare_saving() -> None:
    from headstart.fitting.trusted import prepare_saving

    prepare_saving()


def _with_defaults(request: FitRequest, task: str) -> FitRequest:
    """The request with the names of the defaults for a task, so that a resume may name them or not."""
    from headstart.data.target import default_metric

    kind = "regression" if task == "regression" else "classification"
    return replace(request, task=kind, metric=request.metric or default_metric(task), space=request.space or kind)


def read_dataset(table: Path, request: FitRequest) -> Dataset:
    """The table as a fit learns from it."""
    from headstart.data.dataset import Dataset

    if request.target is None:
        from headstart.data.errors import column_hint
        from headstart.data.read import read_table

        raise InvalidInput(f"name the column to predict with --target; {column_hint('', read_table(table).columns)}")
    roles = {role: getattr(request, role) for role in ("weights", "groups", "times", "missing")}
    return Dataset.from_table(table, request.target, task=request.task, kinds=dict(request.kinds or {}), **roles)


def kinds_of(drop: list[str], kind: list[str]) -> dict[str, str]:
    """Kinds of columns as they were typed; a column to leave out is declared an id."""
    kinds = dict.fromkeys(drop, "id")
    for text in kind:
        name, mark, value = text.rpartition("=")
        if not mark:
            raise InvalidInput(f"--kind must read COLUMN=KIND, such as zip=categorical, got {text!r}")
        kinds[name] = value
    return kinds


def _search(
    estimator: Any, dataset: Dataset, request: FitRequest, resume: bool, folder: Folder, display: Display
) -> str:
    """Fit the estimator; returns why the search ended."""
    for name in ("calibrate", "tune_threshold"):
        if getattr(request, name) is not None and dataset.task == "regression":
            option = name.replace("_", "-")
            raise InvalidInput(
                f"--{option} and --no-{option} are for classes, but {request.target!r} is a number; leave them out"
            )
    own = {"store": request.store or folder.store, "report_file": folder.page if request.report else None}
    names = estimator.get_params(deep=False).keys() - {"kinds", "missing", *own}  # the dataset has the first two
    estimator.set_params(**{name: getattr(request, name) for name in names}, **own)
    display.on_begin = lambda run: folder.note_study(run.study.name)
    reserve = 0.0 if request.seconds is None else _writing_seconds(request.seconds)
    try:
        estimator.fit(
            dataset,
            resume=resume and (folder.study or True),
            progress=display,
            started=cli.began,
            reserve=reserve,
            report=False,
        )
    except KeyboardInterrupt:
        run = display.run
        if run is None or not run.candidates():
            raise
        worked = sum(trial.outcome.ok for trial in run.history)
        say(f"stopped; making the model from {counted(worked)}; press Ctrl-C again to quit immediately")
        estimator.finish(report=False)
        return "interrupted"
    assert display.run is not None
    return str(display.run.study.reason or "seconds")


_WRITING_SECONDS = 0.5
"""Of a processor, to write a usual model."""


def _writing_seconds(budget: float) -> float:
    """What to leave of a budget to write the model: more on a machine that is busy, as our own start tells."""
    slowdown = (time.time() - cli.began) / max(time.process_time(), 1e-3)
    return min(max(min(0.05 * budget, 2.0), slowdown * _WRITING_SECONDS), 0.3 * budget)


def _estimator(dataset: Dataset, earlier: Folder | None) -> Any:
    """A new one, or the one in the folder of an earlier fit, whose models need not be refitted."""
    from headstart.estimators import HeadstartClassifier, HeadstartRegressor

    kind: Any = HeadstartRegressor if dataset.task == "regression" else HeadstartClassifier
    found = None if earlier is None else _loaded(kind, earlier)
    return kind() if found is None else found


def _loaded(kind: Any, folder: Folder) -> Any | None:
    """The estimator in a folder; None if there is none, or it is damaged or of another version."""
    try:
        return kind.load(folder.model) if folder.model.exists() else None
    except (HeadstartError, OSError):
        return None  # everything needed to make it anew is in the store


@dataclass(frozen=True)
class _About:
    """What there is to know of the model of an estimator to compare it with another one of the same trials.

    Parameters
    ----------
    score
        In validation; None where there is no model, or a simple one.
    wanted
        Settings with which another model is wanted.
    """

    score: float | None
    wanted: tuple[Any, ...]

    @classmethod
    def of(cls, estimator: Any) -> _About:
        names = ("ensemble", "max_members", "refit", "deploy", "calibrate", "tune_threshold")
        wanted = tuple(getattr(estimator, name, None) for name in names)
        return cls(estimator.score_ if hasattr(estimator, "model_") else None, wanted)


def _write(estimator: Any, folder: Folder, before: _About) -> Any:
    """Write the model, unless an earlier one is better; returns what is there now."""
    kept = _why_keep(before, estimator)
    earlier = None if kept is None else _loaded(type(estimator), folder)
    if kept is not None and earlier is not None:
        warn(kept)
        earlier.notes_ = [*earlier.notes_, kept]
        return earlier
    estimator.save(folder.model)
    replace_file(folder.leaderboard, lambda new: estimator.leaderboard_.to_csv(new, index=False))
    return estimator


def _why_keep(before: _About, estimator: Any) -> str | None:
    """Why an earlier model stays in the place of the new one; None if it does not.

    In little time only some of its members can be refitted. Without a time budget all that are wanted are, so that the
    model is the one that the trials give.
    """
    now = _About.of(estimator)
    if now.score is None:
        return "this run only gave a simple model, so the earlier model was kept"
    if Settings.of(estimator).seconds is None or estimator.constraints or now.wanted != before.wanted:
        return None
    if before.score is None or not before.score > now.score:
        return None
    was, found = (_shown(estimator, score) for score in (before.score, now.score))
    return f"this run gave a model with {found} in validation, so the earlier one with {was} was kept; give more time"


def _shown(estimator: Any, score: float) -> str:
    metric = estimator.model_.metric
    return f"{label_of(metric)} {natural(metric, score):.5g}"


def _write_page(estimator: Any, table: Path, request: FitRequest, folder: Folder, display: Display) -> None:
    """Write the report in the time that is left; the model is there whatever happens."""
    from headstart.cli.report import command_of
    from headstart.fitting.evidence import Record

    assert display.run is not None
    folder.page.unlink(missing_ok=True)  # that of an earlier model
    record = replace(Record.of(display.run), settings=request.describe(), reproduce=command_of(table, request))
    seconds = request.seconds
    end = None if seconds is None else cli.began + seconds
    try:
        estimator.set_params(report_file=folder.page).write_report(end, record)
    except KeyboardInterrupt:
        warn(f"the report was not finished; 'headstart report {folder.path}' writes it")


def _report(
    table: Path, request: FitRequest, folder: Folder, display: Display, estimator: Any, reason: str
) -> dict[str, Any]:
    """All about a fit, as JSON types."""
    from headstart import __version__

    run = display.run
    assert run is not None
    data = run.table
    return {
        "headstart": __version__,
        "table": str(table.resolve()),
        "target": data.target,
        "task": data.task,
        "rows": data.n_rows,
        "columns": data.n_features,
        "settings": request.describe(),
        "metric": run.metric.name,
        "score": estimator.score_,
        "summary": None if (summary := estimator.summary_) is None else summary.to_dict(),
        "best": _best(run),
        "members": _members(run, estimator),
        "pipelines": len(run.history),
        "new_pipelines": display.new,
        "statuses": dict(Counter(str(t.outcome.status) for t in run.history)),
        "reason": reason,
        "started": round(run.started, 3),
        "seconds": round(time.time() - cli.began, 3),
        "notes": list(estimator.notes_),
        "out": str(folder.path),
        "model": str(folder.model),
        "report": str(folder.page) if folder.page.exists() else None,
    }


def _best(run: Run) -> dict[str, Any] | None:
    found = run.candidates()[:1]
    return _row(run, found[0]) if found else None


def _members(run: Run, estimator: Any) -> list[dict[str, Any]]:
    trials = {trial.number: trial for trial in run.history}
    return [
        {"weight": round(member.weight, 6), **_row(run, trials[member.number]), "rows": member.rows}
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
