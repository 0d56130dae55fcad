"""What a live comparison found: scores on test rows and numbers of pipelines, after each budget.

Saved as one JSON file::

    {"meta": "tensor_oboe", "space": "tensor_oboe", "metric": "balanced_accuracy", "budgets": [60, 300],
     "tables": [{"id": "6", "name": "letter", "rows": 5000, "columns": 16, "classes": 26}, …], "about": {…},
     "methods": {"deeppipe": {"runs": [{"scores": […], "validation": […], "observed": […], "failed": […]}, …],
                              "rank_mean": […], "rank_ci": […], "observed_mean": […], …}}}

``runs`` are those on the tables, in their order, ``None`` where a method could not be run. Lists in them, and means,
have a number for each budget; ``*_ci`` are half widths of 95 % intervals over tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Table
from headstart.replay.results import MethodResults, half_width, ranks, rounded, shown

Array = NDArray[np.float64]
_MEANS = {"scores": "score", "observed": "observed", "failed": "failed"}


@dataclass
class LiveResults(MethodResults):
    """Methods on the same tables; see the module's text."""

    holds, rows = "the results of a live comparison", "runs"
    meta: str
    space: str
    metric: str
    budgets: list[float]
    tables: list[dict[str, Any]]
    about: dict[str, Any]

    def values(self, method: str, what: str) -> Array:
        """``"scores"``, ``"observed"``, … (tables, budgets) of a method that ran on all tables."""
        return np.array([run[what] for run in self.methods[method]["runs"]], dtype=np.float64)

    def add_runs(self, method: str, runs: list[Any], **facts: Any) -> None:
        """Take in the runs of a method; ranks change with it."""
        self.methods[method] = {"runs": runs, **facts}
        ran = [name for name in self.methods if self.complete(name)]
        for name in ran:
            for what, called in _MEANS.items():
                self._mean(name, called, self.values(name, what))
        if ran:
            places = ranks([-self.values(name, "scores") for name in ran])
            for name, of_it in zip(ran, places, strict=True):
                self._mean(name, "rank", of_it)

    def _mean(self, method: str, called: str, values: Array) -> None:
        self.methods[method][f"{called}_mean"] = rounded(values.mean(axis=0))
        self.methods[method][f"{called}_ci"] = rounded(half_width(values))

    def by_rank(self) -> list[str]:
        """Methods that ran on all tables, the best rank after the longest budget first."""
        ran = [name for name in self.methods if self.complete(name)]
        return sorted(ran, key=lambda name: (self.methods[name]["rank_mean"][-1], name))

    def line(self, method: str) -> str:
        entry = self.methods[method]
        if not self.complete(method):
            return f"{method} is left out: {entry['left_out']}"
        numbers = zip(entry["score_mean"], entry["observed_mean"], self.budgets, strict=True)
        return f"{method}: " + ", ".join(
            f"{score:.4f} with {observed:.0f} pipelines after {budget:g} s" for score, observed, budget in numbers
        )

    def table(self) -> Table:
        """Rank, pipelines and score after each budget."""
        columns = ["method"]
        for budget in self.budgets:
            columns += [f"rank, {budget:g} s", "pipelines", "score"]
        rows = []
        for name in self.by_rank():
            entry, cells = self.methods[name], [name]
            for b in range(len(self.budgets)):
                cells.append(_with_interval(entry, "rank", b, ".2f"))
                cells.append(_with_interval(entry, "observed", b, ".0f"))
                cells.append(_with_interval(entry, "score", b, ".4f"))
            rows.append(cells)
        return Table(f"{self.space}, {len(self.tables)} tables: means ± half widths of 95 % intervals", columns, rows)


def _with_interval(entry: Mapping[str, Any], what: str, budget: int, form: str) -> str:
    return f"{shown(entry[f'{what}_mean'][budget], form)} ± {shown(entry[f'{what}_ci'][budget], form)}"
