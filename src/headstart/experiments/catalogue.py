"""Experiments by name: what ``headstart experiment`` can run.

A method's experiments are objects of a module of their own, made of `Comparison`, `ErrorOverTime` or anything else with
a method ``run``; here they are named, and nothing is imported before one is run.

>>> "pmf_regret" in EXPERIMENTS
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from headstart.errors import InvalidInput, UnknownName, check_positive, suggestion
from headstart.experiments.partition import Partition
from headstart.experiments.runner import Progress, Silent
from headstart.metadata.metadataset import MetaDataset


class Table(NamedTuple):
    """A table for people: the first column is text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table without its title."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


class Outcome(Protocol):
    """What an experiment found; it is in the file already."""

    def table(self) -> Table: ...


@dataclass(frozen=True)
class Request:
    """What an experiment is run on.

    Parameters
    ----------
    name
        Of the experiment.
    meta, partition
        Recorded results; which tasks are learned from and which tested on.
    out
        JSON file of the results; what is unfinished is kept beside it.
    evaluations
        Steps of a search; ``None`` where there is none.
    jobs
        Runs at a time.
    progress
        Is told what is going on.
    """

    name: str
    meta: MetaDataset
    partition: Partition
    out: Path
    evaluations: int | None
    jobs: int
    progress: Progress

    def file_of(self, other: str) -> Path:
        """Where another experiment on the same has its results."""
        return self.out.with_name(self.out.name.replace(self.name, other, 1))


class Experiment(Protocol):
    """What can be run by name."""

    def run(self, request: Request) -> Outcome: ...


@dataclass(frozen=True)
class Entry:
    """One line of the catalogue.

    Parameters
    ----------
    place
        ``module:object`` of the `Experiment`.
    line
        What it is, for people.
    meta
        Meta-dataset that the paper used.
    evaluations
        Steps of a search; ``None`` where it searches nothing.
    """

    place: str
    line: str
    meta: str
    evaluations: int | None = 200

    def load(self) -> Experiment:
        module, _, name = self.place.partition(":")
        experiment: Experiment = getattr(import_module(module), name)
        return experiment


_PMF = "headstart.experiments.pmf"
EXPERIMENTS = {
    "pmf_regret": Entry(f"{_PMF}:REGRET", "PMF, figures 4 and 5: rank and regret over 200 evaluations", "pmf"),
    "pmf_error": Entry(f"{_PMF}:ERROR", "PMF, figure 6: error and variance of the predictions over evaluations", "pmf"),
    "pmf_missing": Entry(f"{_PMF}:MISSING", "PMF, supplement 1 and 2: 90 % of the training matrix missing", "pmf"),
    "pmf_few_tasks": Entry(f"{_PMF}:FEW_TASKS", "PMF, supplement 3 and 4: training on 140 datasets", "pmf"),
    "pmf_embedding": Entry(f"{_PMF}:EMBEDDING", "PMF, figures 1 to 3: latent points of the pipelines", "pmf", None),
}


def run_experiment(
    name: str,
    meta: MetaDataset,
    folder: Path,
    *,
    tasks: int | None = None,
    evaluations: int | None = None,
    jobs: int = 1,
    progress: Progress | None = None,
) -> tuple[Outcome, Path]:
    """Run an experiment, or go on with it; what it found and the file it is in.

    Parameters
    ----------
    name
        In `EXPERIMENTS`.
    meta
        With splits ``train`` and ``test``.
    folder
        Where the JSON file goes. A look at fewer tasks or evaluations than the experiment has gets a file of its own.
    tasks, evaluations
        So many of the first test tasks, and of the evaluations, for a quick look.
    jobs
        Runs at a time; results do not depend on it.
    progress
        Is told what is going on.
    """
    entry = find(name)
    for what, value in (("tasks", tasks), ("evaluations", evaluations), ("jobs", jobs)):
        check_positive(what, value, whole=True)
    if entry.evaluations is None and (tasks, evaluations) != (None, None):
        raise InvalidInput(f"{name} searches nothing: it has no tasks or evaluations to choose")
    partition = Partition.of(meta, "test")
    parts = [name]
    if meta.name != entry.meta:
        parts.append(meta.name)
    if tasks is not None and tasks < len(partition.test):
        partition = replace(partition, name=f"{partition.name}, first {tasks}", test=partition.test[:tasks])
        parts.append(f"first{tasks}")
    if evaluations not in (None, entry.evaluations):
        parts.append(f"{evaluations}evaluations")
    out = folder / f"{'_'.join(parts)}.json"
    steps: Any = evaluations or entry.evaluations
    request = Request(name, meta, partition, out, steps, jobs, progress or Silent())
    return entry.load().run(request), out


def find(name: str) -> Entry:
    """The entry of a name; raises `UnknownName` where there is none."""
    if name not in EXPERIMENTS:
        raise UnknownName(f"there is no experiment {name!r}; {suggestion(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
