"""The JSON files of meta-datasets in the wheel of DeepPipe."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import MetaDataError
from headstart.metadata.sources.json_rows import read_rows
from headstart.metadata.sources.wheels import opened
from headstart.space.encoded import Encoded
from headstart.space.parameters import Float
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage

Progress = Callable[[str, float], None]
"""Called with what is being done and the share of it that is done."""

_ROWS = {"pipelines": np.float64, "error": np.float32, "list_for_selector": np.int64}
PAPER = "S. Pineda Arango and J. Grabocka, Deep pipeline embeddings for AutoML (KDD 2023)"


@dataclass(frozen=True)
class DeepPipeFile:
    """One of the files: P pipelines in D columns on T tasks.

    Attributes
    ----------
    columns
        (P, D) recorded values in [0, 1].
    losses
        (T, P), NaN where there is none.
    selector
        (P, S) algorithm of each stage, as a position in the stage.
    domains
        Where the columns of each algorithm begin, over all stages, and where the last ones end.
    stages
        Algorithms of each stage, as positions in `domains`.
    splits
        Positions of tasks, list by list.
    initial
        Pipelines that each task is begun with; empty where the file names none.
    others
        What else is in the file.
    """

    columns: NDArray[np.float64]
    losses: NDArray[np.float32]
    selector: NDArray[np.int64]
    domains: Sequence[int]
    stages: Sequence[Sequence[int]]
    splits: Sequence[Sequence[int]]
    initial: Sequence[Sequence[int]]
    others: dict[str, Any]


def read_deeppipe(wheel: Path, name: str, progress: Progress) -> DeepPipeFile:
    """Read the file of a meta-dataset.

    Losses are kept in 32 bits: a rounding of less than 6e-8, in files that print nine digits of them.
    """
    rows: dict[str, list[NDArray[Any]]] = defaultdict(list)
    done = 0
    with opened(wheel, f"deeppipe_api/experiments/data/{name}_meta_dataset.json") as (stream, size):

        def count(n: int) -> None:
            nonlocal done
            done += n
            progress("reading", done / size)

        def take(member: str, row: list[Any]) -> None:
            rows[member].append(np.array(row, dtype=_ROWS[member]))

        try:
            others = read_rows(stream, _ROWS, take, count)
            losses = np.stack(rows.pop("error"))
            initial: list[Sequence[int]] = [()] * len(losses)
            for lists in others.pop("init_ids"):
                for task, begin in dict(lists).items():
                    initial[int(task)] = begin
            return DeepPipeFile(
                np.stack(rows["pipelines"]),
                losses,
                np.stack(rows["list_for_selector"]),
                others.pop("algorithm_domain"),
                others.pop("list_for_concatenator"),
                others.pop("tasks_index"),
                initial,
                others,
            )
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise MetaDataError(f"{name} in {wheel.name} is not of the expected form: {error}") from error


def recorded(
    file: DeepPipeFile, name: str, stages: Sequence[str], algorithms: Sequence[tuple[str, Sequence[str]]]
) -> Encoded:
    """The pipelines in a space of columns in [0, 1], for spaces that cannot be rebuilt.

    Parameters
    ----------
    name
        Of the space.
    stages
        Their names.
    algorithms
        Name and columns of each, over all stages, in the order of the file.
    """
    blocks = [(name, [Float(column, 0.0, 1.0) for column in columns]) for name, columns in algorithms]
    if [len(columns) for _, columns in blocks] != np.diff(file.domains).tolist():
        raise MetaDataError(f"the columns of {name!r} are not those expected: blocks begin at {file.domains}")
    declared = [Algorithm(name, params=columns) for name, columns in blocks]
    members_of = zip(stages, file.stages, strict=True)
    space = PipelineSpace(name, [Stage(stage, [declared[a] for a in members]) for stage, members in members_of])
    active = np.zeros(file.columns.shape, dtype=bool)
    for s, members in enumerate(file.stages):
        for position, a in enumerate(members):
            rows = np.flatnonzero(file.selector[:, s] == position)
            active[rows, file.domains[a] : file.domains[a + 1]] = True
    # Inactive columns hold defaults of the algorithms there; a few values are above 1 by a rounding.
    values = np.where(active, np.clip(file.columns, 0.0, 1.0), 0.0)
    return Encoded(space, values, active, file.selector, ids=np.arange(len(values)))
