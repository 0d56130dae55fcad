"""`Partition`: which tasks of a meta-dataset are learned from, and which are replayed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, check_positive
from headstart.metadata.metadataset import SPLITS, MetaDataset
from headstart.optimizers.warm_start import N_INITIAL
from headstart.replay.protocol import expected_lowest
from headstart.replay.results import write_whole

_PORTFOLIO = 200
"""Long enough that five of it have a value on nearly every task."""


@dataclass(frozen=True)
class Partition:
    """Tasks of a meta-dataset by what they are for; positions.

    Parameters
    ----------
    name
        For people.
    train, validation
        What methods learn from, and what they may use to decide when to stop learning.
    test
        What is replayed. Nothing of it is learned from.
    initial
        Ids of initial pipelines by task, instead of those of the meta-dataset.
    """

    name: str
    train: tuple[int, ...]
    validation: tuple[int, ...]
    test: tuple[int, ...]
    initial: Mapping[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, meta: MetaDataset, split: str) -> Partition:
        """The meta-dataset's own: ``"test"``, or ``"validation"`` to choose settings on."""
        if split not in ("test", "validation"):
            raise InvalidInput(f"split must be 'test' or 'validation', got {split!r}")
        missing = [name for name in ("train", split) if name not in meta.splits]
        if missing:
            raise InvalidInput(
                f"meta-dataset {meta.name!r} has no split {missing[0]!r}; give a file with lists of task positions"
            )
        found = {name: tuple(int(i) for i in meta.splits.get(name, ())) for name in SPLITS}
        return cls(split, found["train"], found["validation"] if split == "test" else (), found[split])

    @classmethod
    def read(cls, path: Path, meta: MetaDataset) -> Partition:
        """From a JSON file: lists ``train``, ``validation`` (may be left out) and ``test`` of task positions.

        The file may have ``initial`` too: lists of pipeline ids by task position, instead of those of the
        meta-dataset; and ``about``, which is for people.
        """
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, OSError) as error:
            raise InvalidInput(f"{path} must be a JSON file with lists train, validation and test: {error}") from error
        if not isinstance(content, dict) or not {"train", "test"} <= content.keys():
            raise InvalidInput(f"{path} must hold an object with lists train, validation and test of task positions")
        unknown = sorted(content.keys() - {*SPLITS, "initial", "about"})
        if unknown:
            raise InvalidInput(f"{path} may hold train, validation, test, initial and about, got {unknown[0]!r} too")
        lists = {name: _positions(path, name, content.get(name, []), meta) for name in SPLITS}
        together = [task for tasks in lists.values() for task in tasks]
        if len(set(together)) != len(together):
            twice = next(task for task in together if together.count(task) > 1)
            raise InvalidInput(f"{path} must name each task once: {twice} stands there more than once")
        try:
            initial = {int(task): tuple(int(i) for i in ids) for task, ids in content.get("initial", {}).items()}
            meta.everything.rows([i for ids in initial.values() for i in ids])
        except (AttributeError, TypeError, ValueError, LookupError) as error:
            raise InvalidInput(
                f"'initial' in {path} must be an object with lists of pipeline ids by task position: {error}"
            ) from error
        return cls(path.stem, lists["train"], lists["validation"], lists["test"], initial)

    @classmethod
    def draw(
        cls,
        meta: MetaDataset,
        seed: int,
        test: int,
        validation: int,
        *,
        hard: bool = False,
        groups: Sequence[str] | None = None,
        name: str = "drawn",
    ) -> Partition:
        """Test and validation tasks drawn at random; the others are learned from.

        Tasks whose losses are all the same are not replayed, and tasks without a loss are in no list. The splits of the
        meta-dataset play no part.

        Parameters
        ----------
        meta
            All tasks.
        seed
            Of the draw.
        test, validation
            How many tasks of each. Validation tasks are drawn evenly from what the test tasks leave.
        hard
            Draw the test tasks one after another with chances proportional to `difficulty`, as section 4.1 of the PMF
            paper does, instead of evenly.
        groups
            A label for each task, where several tasks are of the same kind: whole groups are drawn, with at least so
            many tasks, and what is tested on has no relatives among what is learned from.
        name
            For people.
        """
        check_positive("test", test, whole=True)
        rng = np.random.default_rng(seed)
        known = [i for i in range(len(meta)) if np.isfinite(meta.loss_row(i)).any()]
        if groups is not None:
            if hard:
                raise InvalidInput("hard tasks are drawn one by one, groups as a whole: give one of hard and groups")
            tests, validation_tasks, train = _whole_groups(meta, rng, known, groups, (test, validation))
            return cls(name, train, validation_tasks, tests)
        chances = np.array([difficulty(meta, i) if hard else float(np.ptp(_values(meta, i)) > 0) for i in known])
        if test > np.count_nonzero(chances) or validation < 0 or test + validation >= len(known):
            raise InvalidInput(
                f"test and validation must leave tasks to learn from, and {np.count_nonzero(chances)} of the "
                f"{len(known)} tasks with losses can be tested on, got test={test} and validation={validation}"
            )
        tested = rng.choice(known, test, replace=False, p=chances / chances.sum())
        left = np.setdiff1d(known, tested)
        validated = rng.choice(left, validation, replace=False)
        arrays = (np.setdiff1d(left, validated), np.sort(validated), np.sort(tested))
        train, validation_tasks, tests = (tuple(int(i) for i in tasks) for tasks in arrays)
        return cls(name, train, validation_tasks, tests)

    def write(self, path: Path, about: Mapping[str, Any]) -> None:
        """A file for `read`, without the initial pipelines: those follow from the meta-dataset."""
        content = {"about": dict(about), "train": self.train, "validation": self.validation, "test": self.test}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(
            path, "{" + ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()) + "}\n"
        )

    def learning(self, meta: MetaDataset) -> MetaDataset:
        """What methods learn from."""
        return meta.learning(self.train, self.validation)

    def initial_designs(self, meta: MetaDataset) -> dict[int, tuple[int, ...]]:
        """Ids of the initial pipelines of every task that is replayed: prescribed here or by the meta-dataset.

        Where none are: the first five, of those that have a value on the task, of the greedy portfolio of the training
        tasks.
        """
        designs = {task: tuple(self.initial.get(task, meta.initial[task])) for task in self.test}
        missing = [task for task in self.test if task not in self.initial and not designs[task]]
        if missing:
            from headstart.optimizers.portfolio import greedy_portfolio

            portfolio = np.asarray(greedy_portfolio(meta.select(self.train), _PORTFOLIO, fill=True))
            columns = meta.everything.rows(portfolio)
            for task in missing:
                known = np.isfinite(meta.loss_row(task)[columns])
                designs[task] = tuple(int(i) for i in portfolio[known][:N_INITIAL])
        return designs


def _whole_groups(
    meta: MetaDataset, rng: np.random.Generator, known: Sequence[int], groups: Sequence[str], wanted: tuple[int, int]
) -> list[tuple[int, ...]]:
    """Test and validation tasks, random groups with at least so many, then all that is left."""
    if len(groups) != len(meta) or wanted[1] < 0:
        raise InvalidInput(
            f"groups must name one for each of the {len(meta)} tasks and validation not be negative, "
            f"got {len(groups)} and validation={wanted[1]}"
        )
    members: dict[str, list[int]] = {}
    for task in known:
        members.setdefault(groups[task], []).append(task)
    order = list(members)
    rng.shuffle(order)
    found: list[tuple[int, ...]] = []
    for size, testing in zip(wanted, (True, False), strict=True):
        chosen: list[int] = []
        while len(chosen) < size and order:
            tasks = members.pop(order.pop())
            chosen += [task for task in tasks if not testing or np.ptp(_values(meta, task)) > 0]
        if len(chosen) < size or not order:
            raise InvalidInput(
                f"test and validation must leave groups of tasks to learn from, got {wanted[0]} and {wanted[1]} of "
                f"{len(known)} tasks in {len(set(groups))} groups"
            )
        found.append(tuple(sorted(chosen)))
    return [*found, tuple(sorted(task for tasks in members.values() for task in tasks))]


def difficulty(meta: MetaDataset, task: int, evaluations: int = 300) -> float:
    """Mean regret of random search on a task after so many evaluations, in closed form."""
    ordered = np.sort(_values(meta, task))
    return expected_lowest(ordered - ordered[0], evaluations)


def _values(meta: MetaDataset, task: int) -> NDArray[np.float64]:
    losses = np.asarray(meta.loss_row(task), dtype=np.float64)
    return losses[np.isfinite(losses)]


def _positions(path: Path, name: str, given: Any, meta: MetaDataset) -> tuple[int, ...]:
    if not isinstance(given, Sequence) or not all(isinstance(i, int) and not isinstance(i, bool) for i in given):
        raise InvalidInput(f"{name!r} in {path} must be a list of task positions, got {given!r:.80}")
    for task in given:
        if not 0 <= task < len(meta):
            raise InvalidInput(f"{name!r} in {path} must hold positions from 0 to {len(meta) - 1}, got {task}")
        if not np.isfinite(meta.loss_row(task)).any():
            raise InvalidInput(f"task {task} in {name!r} of {path} has no loss at all; leave it out")
    if name != "validation" and not given:
        raise InvalidInput(f"{name!r} in {path} must not be empty")
    return tuple(given)
