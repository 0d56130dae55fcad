"""``headstart tree``: the tree that a search has grown."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import typer

from headstart.cli.folder import Folder
from headstart.errors import InvalidInput
from headstart.files import replace_file


def show_tree(directory: Path, out: Path | None) -> None:
    """Print the tree of the newest search of a fit, or write it to a file."""
    from headstart.evaluation.scoring import Metric
    from headstart.history import History
    from headstart.report.tree import TreeView, check_tree
    from headstart.space.space import PipelineSpace
    from headstart.store import Store

    if out is not None:
        check_tree(out)
    location = Folder(directory).store
    if not location.exists():
        raise InvalidInput(f"{directory} must be a directory that 'headstart fit' made; it has no {location.name}")
    with Store.open(location, create=False) as store:
        studies = store.studies()
        if not studies:
            raise InvalidInput(f"nothing was tried in {directory} yet; continue it with 'headstart fit --resume'")
        study = store.read_study(studies[-1].name)
        info = store.task(study.task_key).info
        history = History(PipelineSpace.from_dict(info["space"]))
        for trial in study.trials():
            history.add(trial)
    order = study.settings.get("optimizer", {}).get("order", ())
    metric = None
    for kind in ("binary", "multiclass", "regression"):
        with suppress(InvalidInput):  # a function of the user's, or a metric of another task
            metric = metric or Metric(info["metric"], kind)
    view = TreeView.of(history, order, metric)
    if out is None:
        typer.echo(str(view))
    else:
        replace_file(out, view.save)
        typer.echo(f"written: {out}")
