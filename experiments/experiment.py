"""What an experiment is: a figure or table of a paper that can be run by name, and what it is told and gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from headstart.metadata.metadataset import MetaDataset
from headstart.replay.partition import Partition
from headstart.replay.results import Saved
from headstart.replay.runner import Jobs, Reporter

SavedAs = TypeVar("SavedAs", bound=Saved)


class Table(NamedTuple):
    """A table for people: the first column is text, the others numbers."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """The table without its title."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines)


class Findings(Protocol):
    """What an experiment found; it is in the file already."""

    def table(self) -> Table: ...


def known(kind: type[SavedAs], path: Path, **parts: Any) -> SavedAs | None:
    """What is in the file, if it is there and has these parts."""
    found = kind.load(path) if path.exists() else None
    return found if found is not None and parts.items() <= vars(found).items() else None


@dataclass(frozen=True)
class Setup:
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
    """

    name: str
    meta: MetaDataset
    partition: Partition
    out: Path
    evaluations: int | None
    jobs: Jobs
    progress: Reporter
    data: Path | None = None
    tables: int | None = None
    seconds: float | None = None


class Kind(Protocol):
    """How an experiment is done."""

    def run(self, setup: Setup, /) -> Findings:
        """Do it, or go on with it."""

    def load(self, path: Path) -> Findings:
        """What it left in a file."""


@dataclass(frozen=True)
class Experiment:
    """A figure or table of a paper.

    Parameters
    ----------
    line
        What it is, for people.
    kind
        How it is done.
    meta
        Meta-dataset that the paper used.
    evaluations
        Steps of a search; ``None`` where it searches nothing, or by the clock.
    tasks
        So many of the first test tasks; ``None`` for all of them.
    seconds
        Of a search on a raw table; ``None`` where it is on recorded results.
    """

    line: str
    kind: Kind
    meta: str
    evaluations: int | None = None
    tasks: int | None = None
    seconds: float | None = None
