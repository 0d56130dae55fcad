"""``headstart metatrain``: a method that learned from recorded results, in a file."""

from __future__ import annotations

import glob
import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from headstart.cli.display import moving_bar
from headstart.cli.messages import say
from headstart.errors import InvalidInput
from headstart.learning.monitor import Check, Monitor, monitored, unfinished_key
from headstart.metadata.metadataset import MetaDataset

if TYPE_CHECKING:
    from headstart.knowledge.files import Knowledge

_SECONDS_BETWEEN_LINES = 10.0


def run(
    meta_name: str,
    method: str,
    out: Path,
    split_file: Path | None,
    data: Path | None,
    resume: bool,
    seconds: float | None,
) -> None:
    """Meta-train and write the file; as long as a training is unfinished it is kept next to it."""
    from headstart.knowledge.files import Knowledge, learner
    from headstart.metadata.sources import load

    state = out.with_name(f"{out.name}.part")
    _check(out, bool(_left(state)))
    model = learner(method)
    meta = load(meta_name, data)
    train, validation = _tasks(meta, split_file)
    learned_from = [model.describe(), meta.learning(train, validation).key]
    key = hashlib.sha256(json.dumps(learned_from, sort_keys=True).encode()).hexdigest()
    checks: list[Check] = []
    resume = _goes_on(state, key, resume)
    _check(out, resume)
    missing = sorted(model.needs.metafeatures - set(meta.metafeatures))
    if missing:
        tables = sum(meta.tables[task] is not None for task in (*train, *validation))
        say(f"meta-features {', '.join(missing)} come first; tables are known for {tables} tasks")
    began = time.monotonic()
    try:
        with _progress(method) as show:

            def told(check: Check) -> None:
                checks.append(check)
                if not check.again:
                    show(check)

            with monitored(Monitor(told, state, key, resume, limit=seconds)) as monitor:
                knowledge = Knowledge.learn(model, meta, train, validation)
        knowledge.save(out)
    except KeyboardInterrupt:
        if _left(state):
            say("stopped; continue with --resume")
        raise
    if monitor.cut:
        say("the time is over; the same command continues the training")
    else:
        monitor.remove()
    tasks = f"{len(train)} tasks" + (f", {len(validation)} for early stopping" if validation else "")
    typer.echo(f"{method}: learned from {tasks} in {time.monotonic() - began:.0f} s{_reached(checks)}")
    typer.echo(f"written: {out} ({out.stat().st_size / 1e3:.0f} kB)")
    for note in _notes(knowledge):
        typer.echo(note)
    for name in _learned_nothing(checks):
        say(
            f"warning: {name} did not improve on held-out tasks, so it has learned nothing: "
            f"{len(train)} tasks may be too few to learn from"
        )


def _notes(knowledge: Knowledge) -> Iterator[str]:
    """Why a fit may not be able to use what was learned."""
    learner: Any = knowledge.learner
    for part in (learner, *map(learner.part, learner.parts)):
        if not getattr(part, "locates_new", True):
            unseen = ", and needs one trained with unseen=True elsewhere" if hasattr(part, "unseen") else ""
            yield (
                "It knows only the recorded pipelines: 'headstart fit' can use it where every pipeline of the space "
                f"is on record{unseen}."
            )
    recorded = sorted(learner.needs.metafeatures - set(knowledge.extractors))
    if recorded:
        yield (
            f"It reads meta-features {', '.join(recorded)} that are recorded with the meta-dataset: 'headstart fit' "
            "can use it only where an extractor of that name makes them for a table."
        )


def _goes_on(state: Path, key: str, resume: bool) -> bool:
    """Whether to continue an unfinished training: one with the same settings is continued without being asked to."""
    left = _left(state)
    if resume and not left:
        say(f"there is no unfinished training of {state.with_suffix('')}, so training starts from the beginning")
    if not resume and left:
        resume = all(unfinished_key(path) == key for path in left)
        say("an unfinished training " + ("is continued" if resume else "with other settings or tasks is discarded"))
    return resume


def _left(state: Path) -> list[Path]:
    """Files of unfinished trainings."""
    return sorted(state.parent.glob(f"{glob.escape(state.name)}.*"))


def _check(out: Path, goes_on: bool) -> None:
    if out.exists() and not goes_on:
        raise InvalidInput(f"{out} already exists; choose another file with --out, or remove it")
    if not out.absolute().parent.is_dir():
        raise InvalidInput(f"the directory of {out} must exist; create it, or choose another file with --out")


def _tasks(meta: MetaDataset, split_file: Path | None) -> tuple[list[int], list[int]]:
    """Positions of the tasks to learn from, and of those to stop by."""
    if split_file is not None:
        from headstart.replay.partition import Partition

        partition = Partition.read(split_file, meta)
        return list(partition.train), list(partition.validation)
    if not meta.splits:
        return list(range(len(meta))), []
    if "train" not in meta.splits:
        raise InvalidInput(
            f"meta-dataset {meta.name!r} has splits {', '.join(sorted(meta.splits))} and no training tasks; give "
            "them with --split-file"
        )
    return meta.splits["train"].tolist(), meta.splits["validation"].tolist() if "validation" in meta.splits else []


def _learned_nothing(checks: list[Check]) -> Iterator[str]:
    """Names of trainings that were never better on validation tasks than at their start."""
    for name in dict.fromkeys(check.name for check in checks):
        of_it = [check for check in checks if check.name == name and math.isfinite(check.loss)]
        if len(of_it) > 1 and of_it[0].step == 0 and min(check.loss for check in of_it[1:]) >= of_it[0].loss:
            yield name


def _reached(checks: list[Check]) -> str:
    """What each training came to; a surrogate may have several."""
    said = []
    for name in dict.fromkeys(check.name for check in checks):
        of_it = [check for check in checks if check.name == name]
        found = [check for check in of_it if math.isfinite(check.loss)]
        if found:
            best = min(found, key=lambda check: check.loss)
            said.append(
                f"; {name}: validation loss {best.loss:.4f} at step {best.step}, none lower until step {of_it[-1].step}"
            )
    return "".join(said)


@contextmanager
def _progress(name: str) -> Iterator[Callable[[Check], None]]:
    """A function to be told each check: a bar on a terminal, else a line now and then."""
    last = -math.inf
    with moving_bar(f"{name}: reading") as move:

        def told(check: Check) -> None:
            nonlocal last
            reached = f"validation {check.loss:.4f}, best {check.best:.4f}"
            if move is not None:
                move(f"{name}: {reached}", check.step, check.steps)
            elif time.monotonic() - last >= _SECONDS_BETWEEN_LINES or check.step == check.steps:
                last = time.monotonic()
                say(f"{check.name}: step {check.step} of {check.steps}, {reached}")

        yield told
