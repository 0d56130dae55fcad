"""``headstart report``: a page about a fit, from what is in its directory."""

from __future__ import annotations

import shlex
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headstart.cli.folder import Folder, find_model, load_model, read_json, using
from headstart.errors import HeadstartError, InvalidInput
from headstart.files import writable_file

if TYPE_CHECKING:
    from headstart.cli.fit import FitRequest
    from headstart.evaluation.scoring import Metric
    from headstart.fitting.evidence import Record
    from headstart.history import History


def report(model: Path, test: Path | None, out: Path | None, train: Path | None, seconds: float | None) -> None:
    """Write the report of a fit, with a test table if there is one."""
    file = find_model(model)
    if out is None:
        out = Folder(model if model.is_dir() else model.parent).page
    if out.suffix not in (".html", ".htm"):
        raise InvalidInput(f"a report is written as .html, got {out.name!r}; choose another name with --out")
    writable_file(out)
    used = [path.resolve() for path in (file, test, train) if path is not None]
    if out.resolve() in used:
        raise InvalidInput(f"--out {out} is also read; choose another name")
    estimator = load_model(model)
    record = _record(Folder(model), train) if model.is_dir() else None
    if record is None and train is not None:
        raise InvalidInput("--train needs the directory of a fit, got a model file; leave it out")
    with using(model):
        estimator.report(out, test, time_budget=seconds, record=record)
    typer.echo(f"written: {out}")


@dataclass(frozen=True)
class Search:
    """The newest search in the directory of a fit."""

    history: History
    task_key: str
    metric: Metric | None
    optimizer: dict[str, Any]
    seed: int


def read_search(directory: Path, constraints: Any = None) -> Search:
    """What was tried, from the store in the directory of a fit; `constraints` as they were given."""
    from headstart.constraints import parse_constraints
    from headstart.evaluation.scoring import Metric
    from headstart.history import History
    from headstart.space.space import PipelineSpace
    from headstart.store import Store

    folder = Folder(directory)
    asked = read_json(folder.request).get("settings") if folder.request.exists() else None
    shared = asked.get("store") if isinstance(asked, dict) else None
    location = shared if isinstance(shared, str) else folder.store
    if isinstance(location, Path) and not location.exists():
        raise InvalidInput(f"{directory} must be a directory that 'headstart fit' made; it has no {location.name}")
    with Store.open(location, create=False) as store:
        studies = store.studies()
        if not studies:
            raise InvalidInput(f"nothing was tried in {directory} yet; continue it with 'headstart fit --resume'")
        (newest,) = [study for study in studies if study.name == folder.study] or studies[-1:]
        study = store.read_study(newest.name)
        info = store.task(study.task_key).info
        history = History(PipelineSpace.from_dict(info["space"]), constraints=parse_constraints(constraints))
        for trial in study.trials():
            history.add(trial)
    metric = None
    for kind in ("binary", "multiclass", "regression"):
        with suppress(InvalidInput):  # a function of the user's, or a metric of another task
            metric = metric or Metric(info["metric"], kind)
    return Search(history, study.task_key, metric, study.settings.get("optimizer", {}), newest.seed)


def _record(folder: Folder, train: Path | None) -> Record:
    """What the directory of a fit has besides the model."""
    from headstart.cli.fit import restored
    from headstart.fitting.evidence import Record, described

    content = folder.read_request()
    request = restored(content, folder)
    found = read_search(folder.path, request.constraints)
    started, ended = _times(folder)
    record = Record(
        None,
        found.history,
        None,
        described(request),
        found.seed,
        found.history.candidates.space.name,
        found.optimizer.get("name", ""),
        found.optimizer.get("order", ()),
        started,
        ended,
        reproduce=command_of(Path(Path(str(content.get("table", "table.csv"))).name), request),
    )
    return _with_table(record, content, request, found.task_key, train)


def _times(folder: Folder) -> tuple[float | None, float | None]:
    """When the last fit began and ended, as Unix times; None where that is not known."""
    with suppress(OSError, InvalidInput):
        written = read_json(folder.report)
        started, seconds = written.get("started"), written.get("seconds")
        if isinstance(started, float) and isinstance(seconds, float):
            return started, started + seconds
    return None, None


def _with_table(record: Record, content: dict[str, Any], request: FitRequest, key: str, train: Path | None) -> Record:
    """The record with the training table, if that is still what it was; `train` says where it is now."""
    from headstart.cli.fit import read_dataset
    from headstart.data.target import default_metric
    from headstart.evaluation.scoring import Metric
    from headstart.fitting.plan import possible_splits
    from headstart.fitting.run import task_key
    from headstart.fitting.settings import choose_space

    path = train or Path(str(content.get("table", "")))
    advice = "give it with --train"
    if train is None and not path.is_file():
        return replace(record, no_table=f"the training table is not at {path} any more; {advice}")
    try:
        dataset = read_dataset(path, request)
    except (HeadstartError, OSError) as error:
        if train is not None:
            raise
        return replace(record, no_table=f"the training table at {path} cannot be read ({error}); {advice}")
    if dataset.key != content.get("key"):
        if train is not None:
            raise InvalidInput(f"--train must be the table of the fit, but the content of {train} is another one")
        return replace(record, no_table=f"the content of {path} has changed since the fit; {advice}")
    metric = Metric(request.metric or default_metric(str(dataset.task)), str(dataset.task))
    space = choose_space(request, str(dataset.task))
    known = {task_key(dataset, s, metric, space, request.bounds): s for s in possible_splits(dataset, request)}
    return replace(record, dataset=dataset, splits=known.get(key))


def command_of(table: Path, request: FitRequest) -> str:
    """The command that makes such a fit again, with comments."""
    from headstart.cli.main import app

    given = request.describe()
    words = ["headstart", "fit", str(table)]
    for param in typer.main.get_command(app).commands["fit"].params:  # type: ignore[attr-defined]
        value = given.get(param.name)
        if value is None or param.name in ("kinds", "report"):
            continue
        if isinstance(value, bool):
            words.append((param.opts if value else param.secondary_opts)[0])
        else:
            for one in value if isinstance(value, list | tuple) else [value]:
                words += [param.opts[0], str(one)]
    for column, kind in (given.get("kinds") or {}).items():
        words += ["--kind", f"{column}={kind}"]
    line = " ".join(shlex.quote(word) for word in words)
    if request.seconds is None:
        return line
    return (
        f"{line}\n\n# A time budget tries as many pipelines as the machine can; with --evaluations N and without\n"
        "# --time, the same command gives the same model.\n"
    )
