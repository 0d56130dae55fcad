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

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Table
from headstart.errors import InvalidInput
from headstart.replay.results import half_width, ranks, rounded, shown, write_whole

Array = NDArray[np.float64]
SAME = ("meta", "space", "metric", "budgets", "tables", "about")
"""What all methods of one file share."""
_MEANS = {"scores": "score", "observed": "observed", "failed": "failed"}


@dataclass
class LiveResults:
    """Methods on the same tables; see the module's text."""

    meta: str
    space: str
    metric: str
    budgets: list[float]
    tables: list[dict[str, Any]]
    about: dict[str, Any]
    methods: dict[str, dict[str, Any]] = field(default_factory=dict)

    def same_runs(self, other: LiveResults) -> bool:
        """Whether methods of another file can stand beside those of this one."""
        return all(getattr(self, part) == getattr(other, part) for part in SAME)

    def complete(self, method: str) -> bool:
        """Whether a method ran on all tables."""
        return all(run is not None for run in self.methods[method]["runs"])

    def values(self, method: str, what: str) -> Array:
        """``"scores"``, ``"observed"``, … (tables, budgets) of a method that ran on all tables."""
        return np.array([run[what] for run in self.methods[method]["runs"]], dtype=np.float64)

    def add(self, method: str, runs: list[dict[str, Any] | None], **facts: Any) -> None:
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

    def save(self, path: Path) -> None:
        """Write the file, all or nothing: one line for each run."""
        content = {part: getattr(self, part) for part in SAME}
        lines = [f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in content.items()]
        methods = []
        for name in sorted(self.methods):
            entry = dict(self.methods[name])
            runs = ",\n".join(json.dumps(run) for run in entry.pop("runs"))
            facts = [f"{json.dumps(key)}: {json.dumps(value, sort_keys=True)}" for key, value in sorted(entry.items())]
            methods.append(f'{json.dumps(name)}: {{\n"runs": [\n{runs}],\n' + ",\n".join(facts) + "}")
        lines.append('"methods": {\n' + ",\n".join(methods) + "}")
        write_whole(path, "{" + ",\n".join(lines) + "}\n")

    @classmethod
    def load(cls, path: Path) -> LiveResults:
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"{path} must hold the results of a live comparison as JSON: {error}") from error

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
