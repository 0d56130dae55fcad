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
from headstart.metadata.metadataset import MetaDataset
from headstart.replay.partition import Partition
from headstart.replay.runner import Reporter


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
    data, tables, seconds
        Folder with raw tables, and on how many of them and for how long a live experiment searches; ``None`` for as
        many and as long as it has.
    look
        Parts of the file's name that say that this is a look at less than the whole.
    """

    name: str
    meta: MetaDataset
    partition: Partition
    out: Path
    evaluations: int | None
    jobs: int
    progress: Reporter
    look: tuple[str, ...] = ()
    data: Path | None = None
    tables: int | None = None
    seconds: float | None = None

    def file_of(self, other: str) -> Path:
        """Where another experiment on the same meta-dataset has its results, or `REPLAY`."""
        if other == REPLAY:
            return self.out.with_name(f"replay_{self.meta.name}.json")
        return self.out.with_name(file_name(other, self.meta.name, self.look))


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
    seconds
        Of a search on a raw table; ``None`` where it is on recorded results.
    tasks
        So many of the first test tasks; ``None`` for all of them.
    """

    place: str
    line: str
    meta: str
    evaluations: int | None = 200
    tasks: int | None = None
    seconds: float | None = None

    def load(self) -> Experiment:
        module, _, name = self.place.partition(":")
        experiment: Experiment = getattr(import_module(module), name)
        return experiment


REPLAY = "replay"
"""What ``headstart replay`` found on the test tasks of a meta-dataset, as if it were an experiment."""
_PMF = "experiments.pmf"
_DEEPPIPE = "experiments.deeppipe"
EXPERIMENTS = {
    "pmf_regret": Entry(f"{_PMF}:REGRET", "PMF, figures 4 and 5: rank and regret over 200 evaluations", "pmf"),
    "pmf_error": Entry(f"{_PMF}:ERROR", "PMF, figure 6: error and variance of the predictions over evaluations", "pmf"),
    "pmf_missing": Entry(f"{_PMF}:MISSING", "PMF, supplement 1 and 2: 90 % of the training matrix missing", "pmf"),
    "pmf_few_tasks": Entry(f"{_PMF}:FEW_TASKS", "PMF, supplement 3 and 4: training on 140 datasets", "pmf"),
    "pmf_embedding": Entry(f"{_PMF}:EMBEDDING", "PMF, figures 1 to 3: latent points of the pipelines", "pmf", None),
    "deeppipe_alone": Entry(
        f"{_DEEPPIPE}:STANDARD",
        "DeepPipe, figures 2 and 12: without other tasks; also on tensor_oboe and zap",
        "pmf",
        100,
    ),
    "deeppipe_transfer": Entry(
        f"{_DEEPPIPE}:TRANSFER", "DeepPipe, figures 3 and 13: transfer; also on tensor_oboe and zap", "pmf", 100
    ),
    "deeppipe_new_algorithm": Entry(
        f"{_DEEPPIPE}:NEW_ALGORITHM",
        "DeepPipe, tables 3 and 4: an algorithm that other tasks did not have, 20 tasks; also on pmf",
        "tensor_oboe",
        50,
        20,
    ),
    "deeppipe_cluster": Entry(
        f"{_DEEPPIPE}:CLUSTER", "DeepPipe, figure 4: clusters in random embeddings", "tensor_oboe", None
    ),
    "deeppipe_few_tasks": Entry(
        f"{_DEEPPIPE}:FEW_TASKS", "DeepPipe, figure 5: few training tasks, 50 test tasks", "tensor_oboe", 100, 50
    ),
    "deeppipe_layers": Entry(
        f"{_DEEPPIPE}:LAYERS", "DeepPipe, figure 8: with and without encoders, 50 tasks", "tensor_oboe", 100, 50
    ),
    "deeppipe_factor": Entry(
        f"{_DEEPPIPE}:FACTOR", "DeepPipe, figures 10 and 11: width, 50 tasks; also on pmf", "tensor_oboe", 100, 50
    ),
    "deeppipe_zap": Entry(f"{_DEEPPIPE}:ZAP", "DeepPipe, figure 14: transfer and encoders on ZAP", "zap", 100),
    "deeppipe_embedding": Entry(
        f"{_DEEPPIPE}:EMBEDDING", "DeepPipe, figures 6 and 7: learned embeddings of the pipelines", "tensor_oboe", None
    ),
    "deeppipe_live": Entry(
        "experiments.deeppipe_live:LIVE",
        "DeepPipe, table 1: searches on ten raw tables, after 60 and 300 seconds",
        "tensor_oboe",
        None,
        seconds=300.0,
    ),
}


def run_experiment(
    name: str,
    meta: MetaDataset,
    folder: Path,
    *,
    tasks: int | None = None,
    evaluations: int | None = None,
    jobs: int = 1,
    progress: Reporter | None = None,
    data: Path | None = None,
    seconds: float | None = None,
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
        So many of the first test tasks, and of the evaluations, instead of as many as the experiment has.
    jobs
        Runs at a time; results do not depend on it.
    progress
        Is told what is going on.
    data, seconds
        For experiments on raw tables: the folder with them, and another length of a search. `tasks` are tables then.
    """
    entry = find(name)
    for what, value in (("tasks", tasks), ("evaluations", evaluations), ("jobs", jobs)):
        check_positive(what, value, whole=True)
    check_positive("seconds", seconds)
    if entry.seconds is not None:
        if evaluations is not None:
            raise InvalidInput(f"a search of {name} ends by the clock: it has no evaluations to choose, but seconds")
        return _on_tables(name, meta, folder, tasks, seconds, data, jobs, progress or Reporter())
    if seconds is not None:
        raise InvalidInput(f"{name} is on recorded results: it has no seconds to choose")
    if entry.evaluations is None and (tasks, evaluations) != (None, None):
        raise InvalidInput(f"{name} searches nothing: it has no tasks or evaluations to choose")
    partition = Partition.of(meta, "test")
    known = len(partition.test)
    whole = min(entry.tasks or known, known)
    number = min(tasks or whole, known)
    look = [f"first{number}"] if number != whole else []
    if number < known:
        partition = replace(partition, name=f"{partition.name}, first {number}", test=partition.test[:number])
    if evaluations not in (None, entry.evaluations):
        look.append(f"{evaluations}evaluations")
    out = folder / file_name(name, meta.name, look)
    steps: Any = evaluations or entry.evaluations
    request = Request(name, meta, partition, out, steps, jobs, progress or Reporter(), tuple(look))
    return entry.load().run(request), out


def file_name(name: str, meta: str, look: Sequence[str] = ()) -> str:
    """Of the results of an experiment on a meta-dataset.

    >>> file_name("pmf_regret", "pmf"), file_name("pmf_regret", "zap", ["first2"])
    ('pmf_regret.json', 'pmf_regret_zap_first2.json')
    """
    return "_".join([name, *([] if meta == find(name).meta else [meta]), *look]) + ".json"


def _on_tables(
    name: str,
    meta: MetaDataset,
    folder: Path,
    tables: int | None,
    seconds: float | None,
    data: Path | None,
    jobs: int,
    progress: Reporter,
) -> tuple[Outcome, Path]:
    """Run an experiment on raw tables; a look at fewer of them, or a shorter one, gets a file of its own."""
    entry = find(name)
    parts = [name, *([] if meta.name == entry.meta else [meta.name])]
    parts += [] if tables is None else [f"first{tables}"]
    parts += [] if seconds in (None, entry.seconds) else [f"{seconds:g}seconds"]
    out = folder / f"{'_'.join(parts)}.json"
    partition = Partition.of(meta, "test")
    request = Request(
        name, meta, partition, out, None, jobs, progress, data=data, tables=tables, seconds=seconds or entry.seconds
    )
    return entry.load().run(request), out


def find(name: str) -> Entry:
    """The entry of a name; raises `UnknownName` where there is none."""
    if name not in EXPERIMENTS:
        raise UnknownName(f"there is no experiment {name!r}; {suggestion(name, EXPERIMENTS)}")
    return EXPERIMENTS[name]
