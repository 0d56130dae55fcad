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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.catalogue import Table
from experiments.sections import here
from experiments.verdicts import best_in_the_paper, surely
from headstart.replay.results import MethodResults, half_width, ranks, rounded, shown, wilcoxon

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


Figures = Mapping[str, tuple[tuple[float, float], ...]]
"""What a paper printed: rank and number of pipelines after each of its budgets, by the name of a method there."""


def live_lines(
    method: str, paper: Figures, budgets: tuple[str, ...], methods: Sequence[str] = ()
) -> Callable[[Path, Path], Iterator[str]]:
    """Lines of a page's section about a live comparison.

    Parameters
    ----------
    method
        The one that the paper is about.
    paper
        What the paper printed.
    budgets
        Of the paper, in words.
    methods
        All that are to be compared.
    """

    def lines(folder: Path, path: Path) -> Iterator[str]:  # noqa: ARG001 (sections are given the folder for pictures)
        results = LiveResults.load(path)
        yield from _setting(results)
        yield results.table().markdown()
        for name, entry in sorted(results.methods.items()):
            if not results.complete(name):
                yield f"`{name}` is not compared: {entry.get('left_out', 'it could not be run on all tables')}.\n"
        absent = [name for name in methods if name not in results.methods]
        if absent:
            yield f"Not run yet, and not among the ranks: {', '.join(f'`{name}`' for name in absent)}.\n"
        yield f"The paper, after {' and '.join(budgets)} on other tables:\n"
        columns = ["method", *(c for budget in budgets for c in (f"rank, {budget}", "pipelines"))]
        rows = [
            [name, *(cell for rank, n in pairs for cell in (f"{rank:.2f}", f"{n:g}"))] for name, pairs in paper.items()
        ]
        yield Table("", columns, rows).markdown()
        yield from here(said_of(results, method))

    return lines


def _setting(results: LiveResults) -> Iterator[str]:
    about = results.about
    tables = ", ".join(f"{table['name']} ({table['id']})" for table in results.tables)
    yield f"{len(results.tables)} tables, by their OpenML ids: {tables}.\n"
    yield (
        f"{about['rule']} Of a larger table {about['max_rows']:,} rows are drawn. {about['test']:.0%} of the rows test "
        f"what was found; on the others every pipeline is judged by {results.metric} in {about['folds']} folds, with "
        f"{about['evaluation_seconds']:g} s for each evaluation. A search has one core and {results.budgets[-1]:g} s; "
        "what it had found earlier is read off its history. The best pipeline is then fitted again to all rows that "
        "were searched on. Pipelines are those with a result; intervals are over tables.\n"
    )
    if about["acquisition"] == "log_ei_per_second":
        yield "Bayesian optimisation weighs the improvement by the seconds that a pipeline is expected to take.\n"
    warm = ", ".join(f"`{name}`" for name in about["warm"] if name in results.methods)
    if warm:
        yield f"The runs of {warm} begin with the same {about['n_initial']} pipelines, greedy on the training tasks.\n"


def said_of(results: LiveResults, method: str) -> Iterator[str]:
    """What is to be said of a method; all of it is computed."""
    others = [name for name in results.by_rank() if name != method]
    if method not in results.methods or not results.complete(method) or not others:
        return
    own = results.methods[method]
    for b, budget in enumerate(results.budgets):
        ahead = [name for name in others if results.methods[name]["rank_mean"][b] < own["rank_mean"][b]]
        place = f"a worse mean rank than {', '.join(f'`{n}`' for n in ahead)}" if ahead else "the best mean rank"
        scores = {name: results.values(name, "scores")[:, b] for name in (method, *others)}
        found = {name: surely(scores[name] - scores[method]) for name in others}
        yield f"After {budget:g} s `{method}` has {place}{best_in_the_paper(found, ahead)}."
    last = results.values(method, "scores")[:, -1]
    for name in others:
        difference = last - results.values(name, "scores")[:, -1]
        yield (
            f"Score of `{method}` less that of `{name}` after {results.budgets[-1]:g} s: {difference.mean():+.4f} ± "
            f"{shown(rounded(np.atleast_1d(half_width(difference)))[0])}, p {wilcoxon(last, last - difference):.2g}; "
            f"higher on {int((difference > 0).sum())} tables, lower on {int((difference < 0).sum())}."
        )
