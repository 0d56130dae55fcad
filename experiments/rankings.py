"""`Rankings`: a comparison whose methods are ranked in groups, each group among itself.

A mean rank is the mean over tasks, and over the evaluations that follow the initial ones, of the rank among the methods
of the group; its interval is over tasks, each with its own mean over evaluations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from experiments.catalogue import Request, Table
from experiments.comparison import Compared, Comparison
from headstart.replay.protocol import N_INITIAL
from headstart.replay.results import Results, half_width, ranks, shown

Array = NDArray[np.float64]
Groups = Mapping[str, Mapping[str, str]]
"""By the name of a group (a column of a table): methods in results by what they are called in it (rows)."""


def overall_ranks(results: Results, methods: Sequence[str]) -> Array:
    """Mean rank of each method on each task among these, (M, T): over the evaluations after the initial ones."""
    begin = min(N_INITIAL, results.evaluations - 1)
    places: Array = ranks([results.curves(method) for method in methods])[:, :, begin:].mean(axis=2)
    return places


def mean_ranks(results: Results, methods: Sequence[str]) -> tuple[Array, Array]:
    """Mean rank of each method among these, and half widths of their intervals over tasks."""
    places = overall_ranks(results, methods)
    return places.mean(axis=1), half_width(places.T)


@dataclass(frozen=True)
class Ranked(Compared):
    """Results whose methods are ranked in groups.

    Parameters
    ----------
    groups
        Those of which a method is missing are left out.
    """

    groups: Groups = field(default_factory=dict)

    @property
    def there(self) -> dict[str, dict[str, str]]:
        """Groups that all methods have been run of."""
        known = {name for name in self.results.methods if self.results.complete(name)}
        return {name: dict(group) for name, group in self.groups.items() if known.issuperset(group.values())}

    def table(self) -> Table:
        """A row for each place in the groups, a column for each group."""
        columns = self.there
        rows: dict[str, list[str]] = {row: [] for group in self.groups.values() for row in group}
        for group in columns.values():
            means, widths = mean_ranks(self.results, list(group.values()))
            found = {
                row: f"{mean:.2f} ± {shown(None if np.isnan(width) else width, '.2f')}"
                for row, mean, width in zip(group, means, widths, strict=True)
            }
            for row, cells in rows.items():
                cells.append(found.get(row, ""))
        title = (
            f"{self.results.meta}, {self.results.split}: mean rank over {len(self.results.tasks)} tasks and "
            f"evaluations {N_INITIAL + 1} to {self.results.evaluations}"
        )
        return Table(title, ["", *columns], [[row, *cells] for row, cells in rows.items()])


@dataclass(frozen=True)
class Rankings(Comparison):
    """An experiment that replays methods and ranks them in groups.

    Parameters
    ----------
    groups
        See `Ranked`.
    """

    groups: Groups = field(default_factory=dict)

    def run(self, request: Request) -> Ranked:
        return Ranked(super().run(request).results, self.groups)
