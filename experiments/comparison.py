"""`Comparison`: methods replayed on the same tasks, after they learned from all training tasks or from a variant.

Where methods are ranked in groups, each group among itself, a mean rank is the mean over tasks, and over the
evaluations that follow the initial ones, of the rank among the methods of the group; its interval is over tasks, each
with its own mean over evaluations.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from headstart.errors import InvalidInput
from headstart.optimizers.warm_start import N_INITIAL
from headstart.replay.protocol import Method
from headstart.replay.results import EVALUATIONS, Results, half_width, ranks, shown
from headstart.replay.runner import given_to, plain, replay, writing
from headstart.replay.variants import Variant

Array = NDArray[np.float64]
_COLUMNS = 5
"""Of a table in a terminal, which has no room for more."""
Groups = Mapping[str, Mapping[str, str]]
"""By the name of a group (a column of a table): methods in results by what they are called in it (rows)."""


@dataclass(frozen=True)
class Compared:
    """Results of a comparison.

    Parameters
    ----------
    results
        Of the replay.
    groups
        Methods that are ranked among each other; groups of which a method is missing are left out.
    """

    results: Results
    groups: Groups = field(default_factory=dict)

    def table(self) -> Table:
        """Mean regrets, or mean ranks where methods are in groups."""
        return self._ranks() if self.groups else self._regrets()

    def _regrets(self) -> Table:
        results = self.results
        before = [e for e in EVALUATIONS if e < results.evaluations]
        evaluations = [*before[1 - _COLUMNS :], results.evaluations]
        rows = []
        for name in results.by_regret():
            entry = results.methods[name]
            cells = [f"{shown(entry['regret_mean'][e - 1])} ± {shown(entry['regret_ci'][e - 1])}" for e in evaluations]
            rank = "" if entry["rank_mean"] is None else shown(entry["rank_mean"][-1], ".2f")
            rows.append([name, *cells, rank])
        title = f"{results.meta}, {results.split}: mean regret over {len(results.tasks)} tasks"
        return Table(title, ["method", *map(str, evaluations), f"rank at {results.evaluations}"], rows)

    def _ranks(self) -> Table:
        known = {name for name in self.results.methods if self.results.complete(name)}
        groups = {name: group for name, group in self.groups.items() if known.issuperset(group.values())}
        rows: dict[str, list[str]] = {row: [row] for group in self.groups.values() for row in group}
        for group in groups.values():
            places = overall_ranks(self.results, list(group.values()))
            for row, mean, width in zip(group, places.mean(axis=1), half_width(places.T), strict=True):
                rows[row].append(f"{mean:.2f} ± {shown(None if np.isnan(width) else width, '.2f')}")
        title = (
            f"{self.results.meta}, {self.results.split}: mean rank over {len(self.results.tasks)} tasks and "
            f"evaluations {N_INITIAL + 1} to {self.results.evaluations}"
        )
        return Table(title, ["", *groups], list(rows.values()))


def overall_ranks(results: Results, methods: Sequence[str]) -> Array:
    """Mean rank of each method on each task among these, (M, T): over the evaluations after the initial ones."""
    begin = min(N_INITIAL, results.evaluations - 1)
    places: Array = ranks([results.curves(method) for method in methods])[:, :, begin:].mean(axis=2)
    return places


@dataclass(frozen=True)
class Comparison:
    """An experiment that replays methods. What other files of the same folder hold of the same runs is used again.

    Parameters
    ----------
    methods
        Those that learn from all training tasks, see `headstart.replay.protocol.Method`.
    variants
        Those that learn from something else, by what that is.
    groups
        See `Compared`.
    """

    methods: Sequence[str | Method]
    variants: Mapping[Variant, Sequence[str | Method]] = field(default_factory=dict)
    groups: Groups = field(default_factory=dict)

    def run(self, setup: Setup) -> Compared:
        """Replay all of it; the file holds `Results`."""
        evaluations = setup.evaluations or 100
        self._borrow(setup, evaluations)
        whole: dict[Variant | None, Sequence[str | Method]] = {None: self.methods}
        for variant, methods in (whole | {**self.variants}).items():
            results = replay(
                setup.meta,
                methods,
                setup.partition,
                evaluations=evaluations,
                jobs=setup.jobs,
                out=setup.out,
                progress=setup.progress,
                variant=variant,
            )
        return Compared(results, self.groups)

    def load(self, path: Path) -> Compared:
        return Compared(Results.load(path), self.groups)

    def _borrow(self, setup: Setup, evaluations: int) -> None:
        """Take over what was found elsewhere with the same settings, given the same, by whatever name."""
        meta, partition, out = setup.meta, setup.partition, setup.out
        tasks = list(partition.test)
        here = Results(meta.name, partition.name, evaluations, 1, tasks, [meta.tasks[i] for i in tasks])
        given = given_to(meta, partition, partition.initial_designs(meta))
        others = [_read(path, here) for path in sorted(out.parent.glob("*.json")) if path != out]
        found = {_key(name, entry): entry for other in others if other for name, entry in other.methods.items()}
        with writing(out):
            results = _read(out, here) if out.exists() else here
            if results is None:
                return  # whether what is in the file fits is for the replay to say
            for method in map(Method.of, self.methods):
                wanted = _key(method.text, {"settings": plain(method.make().describe()), "given": given})
                if wanted in found and _key(method.text, results.methods.get(method.text, {})) != wanted:
                    results.methods[method.text] = dict(found[wanted])
                    results.summarise()
                    results.save(out)


def _read(path: Path, like: Results) -> Results | None:
    """What is in a file, if it is of the same runs."""
    try:
        results = Results.load(path)
    except InvalidInput:  # another kind of experiment
        return None
    return results if results.shared() == like.shared() else None


def _key(name: str, entry: Mapping[str, Any]) -> str:
    """Settings of a method in results, what it was given, and how many pipelines it tried at each step."""
    return json.dumps([entry.get("settings"), entry.get("given"), Method.parse(name).per_step], sort_keys=True)
