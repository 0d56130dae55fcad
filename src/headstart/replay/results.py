"""What a replay found: regrets of methods on tasks, with means, intervals, ranks and paired tests.

Saved as one JSON file per meta-dataset and split, all methods together::

    {"meta": "pmf", "split": "test", "evaluations": 100, "seeds": 1, "tasks": [464, …], "names": ["…"],
     "methods": {"gp": {"curves": [[…], …], "regret_mean": […], "regret_ci": […], "rank_mean": […], "rank_ci": […],
                        "seconds_per_suggestion": 0.05, "settings": {…}, "versions": {…}, …}}}

``curves`` are tasks × evaluations, the mean over seeds; ``*_ci`` are half widths of 95 % intervals over tasks. In the
file a number that stays the same for several evaluations is written once, with their number: ``[0.3, [0.1, 99]]``.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.files import replace_file
from headstart.replay.protocol import Method

Array = NDArray[np.float64]
EVALUATIONS = (10, 25, 50, 100)
"""After so many figures are shown in tables, if there are more evaluations."""
_Z = 1.959963984540054
_DIGITS = 6
_CURVE_DIGITS = 4
"""Significant digits kept of each regret; means are made of what is kept."""


def half_width(values: Array, errors: float = _Z) -> Array:
    """Half width of the 95 % interval of the mean over the first axis, or of one of so many standard errors."""
    n = len(values)
    width: Array = errors * values.std(axis=0, ddof=1) / np.sqrt(n) if n > 1 else np.full(values.shape[1:], np.nan)
    return width


def ranks(curves: Sequence[Array]) -> Array:
    """Ranks of M methods, each with curves (T, E): (M, T, E), 1 for the lowest regret, ties sharing their mean."""
    from scipy.stats import rankdata

    places: Array = rankdata(np.stack(curves), axis=0)
    return places


def wilcoxon(one: Array, other: Array) -> float:
    """Two-sided p-value of the paired signed-rank test; 1 where nothing differs."""
    from scipy.stats import wilcoxon as test

    difference = one - other
    return float(test(difference).pvalue) if np.any(difference != 0) else 1.0


@dataclass
class Saved:
    """What was found, kept as one JSON object with a member for each attribute."""

    holds: ClassVar[str]
    """What the file holds, in words."""

    def save(self, path: Path) -> None:
        """Write the file, all or nothing."""
        write_whole(path, "{" + ",\n".join(self._members()) + "}\n")

    def _members(self) -> list[str]:
        return [f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in vars(self).items()]

    @classmethod
    def load(cls, path: Path) -> Self:
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8")))
        except (ValueError, TypeError) as error:
            raise InvalidInput(f"{path} must hold {cls.holds} as JSON: {error}") from error


@dataclass
class MethodResults(Saved, ABC):
    """Results of methods that were run on the same things, in one JSON file.

    A subclass has attributes for what all methods share, `add_runs` and `line`.

    Parameters
    ----------
    methods
        By the text that names them: `rows`, ``settings``, what it was ``given``, and other facts.
    """

    rows: ClassVar[str]
    """What of a method is a list with one part for each task, ``None`` where it could not be run."""
    methods: dict[str, dict[str, Any]] = field(default_factory=dict, kw_only=True)

    def shared(self) -> dict[str, Any]:
        """What all methods share."""
        return {name: value for name, value in vars(self).items() if name != "methods"}

    def complete(self, method: str) -> bool:
        """Whether a method ran on all tasks; one that needs raw tables may not."""
        return all(row is not None for row in self.methods[method][self.rows])

    def is_known(self, method: str, settings: dict[str, Any], given: str) -> bool:
        """Whether a method was run with these settings, given this; one that could not be run is none that was."""
        entry = self.methods.get(method, {})
        return self.has_runs(method) and (entry.get("settings"), entry.get("given")) == (settings, given)

    def has_runs(self, method: str) -> bool:
        """Whether there is anything of a method."""
        return any(row is not None for row in self.methods.get(method, {}).get(self.rows, ()))

    @abstractmethod
    def add_runs(self, method: str, runs: list[Any], **facts: Any) -> None:
        """Take in what came of the runs of a method, in their order, ``None`` for all where it could not be run."""

    @abstractmethod
    def line(self, method: str) -> str:
        """What was found of a method, for people."""

    def in_file(self, path: Path | None) -> Self:
        """What is in the file, or this where there is none; another process may have added to it."""
        if path is None or not path.exists():
            return self
        found = self.load(path)
        for part, value in self.shared().items():
            if getattr(found, part) != value:
                raise InvalidInput(
                    f"{path} holds results with other {part}: {getattr(found, part)!r:.60}, not {value!r:.60}; "
                    "name another place with --out"
                )
        return found

    def _members(self) -> list[str]:
        """One line for each row of each method, so that the file is readable and small."""
        members = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self.shared().items()]
        methods = []
        for name in sorted(self.methods):
            entry = dict(self.methods[name])
            rows = ",\n".join(_json(in_runs(row) if isinstance(row, list) else row) for row in entry.pop(self.rows))
            facts = [f"{json.dumps(key)}: {_json(value)}" for key, value in sorted(entry.items())]
            methods.append(f'{json.dumps(name)}: {{\n"{self.rows}": [\n{rows}],\n' + ",\n".join(facts) + "}")
        return [*members, '"methods": {\n' + ",\n".join(methods) + "}"]

    @classmethod
    def load(cls, path: Path) -> Self:
        found = super().load(path)
        for entry in found.methods.values():
            entry[cls.rows] = [out_of_runs(row) if isinstance(row, list) else row for row in entry.get(cls.rows, ())]
        return found


@dataclass
class Results(MethodResults):
    """Regrets of methods on the same tasks.

    Parameters
    ----------
    meta, split
        Names of the meta-dataset and of the tasks' split.
    evaluations, seeds
        Steps of a run, and runs for each task.
    tasks, names
        Positions of the tasks in the meta-dataset, and their names.
    methods
        By the text that names them: ``curves`` and facts; see the module's text.
    """

    holds, rows = "the results of a replay", "curves"
    meta: str
    split: str
    evaluations: int
    seeds: int
    tasks: list[int]
    names: list[str]

    def curves(self, method: str) -> Array:
        """Regrets (tasks, evaluations) of a method, NaN on tasks that it could not be run on."""
        rows = self.methods[method]["curves"]
        empty = [np.nan] * self.evaluations
        return np.array([empty if row is None else row for row in rows], dtype=np.float64)

    def ranked(self) -> list[str]:
        """Methods that are ranked against each other: one evaluation for each step, on all tasks."""
        return [name for name in self.methods if Method.parse(name).ranked and self.complete(name)]

    def add(self, method: str, curves: Sequence[Array | None], **facts: Any) -> None:
        """Take in a method's curves, (evaluations,) for each task, ``None`` where it could not be run."""
        rows = [None if row is None else rounded(row, _CURVE_DIGITS) for row in curves]
        self.methods[method] = {"curves": rows, **facts}
        self.summarise()

    def add_runs(self, method: str, runs: list[Any], **facts: Any) -> None:
        """Take in the runs of all seeds on all tasks: curves are means over the seeds."""
        ran = [run for run in runs if run is not None]
        per_suggestion = sum(run["seconds"] for run in ran) / max(1, sum(run["suggestions"] for run in ran))
        reasons = sorted({run["reason"] for run in ran if run["regrets"] is None})
        regrets: list[Any] = [None if run is None else run["regrets"] for run in runs]
        of_tasks = [regrets[i : i + self.seeds] for i in range(0, len(regrets), self.seeds)]
        curves = [None if None in of_task else np.mean(of_task, axis=0) for of_task in of_tasks]
        left_out = {"left_out": reasons[0]} if reasons else {}
        self.add(method, curves, **facts, **left_out, seconds_per_suggestion=_number(per_suggestion, 3))

    def summarise(self) -> None:
        """Means, intervals and ranks of all methods; ranks change when a method is added."""
        for name, entry in self.methods.items():
            found = self.curves(name)
            found = found[np.isfinite(found[:, 0])]
            entry["n_tasks"] = len(found)
            entry["regret_mean"] = rounded(found.mean(axis=0) if len(found) else np.full(self.evaluations, np.nan))
            entry["regret_ci"] = rounded(half_width(found)) if len(found) else entry["regret_mean"]
            entry["rank_mean"] = entry["rank_ci"] = None
        ranked = self.ranked()
        if not ranked:
            return
        for name, places in zip(ranked, ranks([self.curves(name) for name in ranked]), strict=True):
            self.methods[name]["rank_mean"] = rounded(places.mean(axis=0))
            self.methods[name]["rank_ci"] = rounded(half_width(places))
        best = self.best()
        for name, entry in self.methods.items():
            entry["versus"] = None
            if name != best and entry["n_tasks"]:
                entry["versus"] = {"method": best, **self.versus(name, best, self.evaluations)}

    def by_regret(self) -> list[str]:
        """Methods from the lowest mean regret at the end on; those that could not run on all tasks last."""

        def place(method: str) -> tuple[bool, float, str]:
            regret = self.methods[method]["regret_mean"][-1]
            return not self.complete(method), np.inf if regret is None else regret, method

        return sorted(self.methods, key=place)

    def best(self) -> str:
        """The method with the lowest mean regret at the end: of the ranked ones, if there are any."""
        ordered, ranked = self.by_regret(), set(self.ranked())
        return next((name for name in ordered if name in ranked), ordered[0])

    def versus(self, method: str, other: str, evaluation: int) -> dict[str, Any]:
        """Paired comparison after so many evaluations: mean difference, half width of its interval, p-value, wins."""
        one, two = self.curves(method)[:, evaluation - 1], self.curves(other)[:, evaluation - 1]
        both = np.isfinite(one) & np.isfinite(two)
        one, two = one[both], two[both]
        difference = one - two
        return {
            "difference": _number(difference.mean()),
            "ci": _number(half_width(difference)),
            "p": _number(wilcoxon(one, two)),
            "wins": int((difference < 0).sum()),
            "losses": int((difference > 0).sum()),
        }

    def line(self, method: str) -> str:
        entry = self.methods[method]
        if not entry["n_tasks"]:
            return f"{method} could not be run: {entry['left_out']}"
        milliseconds = 1000 * entry["seconds_per_suggestion"]
        return (
            f"{method}: mean regret {shown(entry['regret_mean'][-1])} after {self.evaluations} evaluations; "
            f"{milliseconds:.0f} ms per suggestion"
        )


def write_whole(path: Path, text: str) -> None:
    """Write a file, all or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, lambda new: new.write_text(text, encoding="utf-8"))


def _number(value: Any, digits: int = _DIGITS) -> float | None:
    """Rounded; ``None`` where there is none, as JSON has no NaN."""
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def rounded(values: Array, digits: int = _DIGITS) -> list[float | None]:
    """Numbers for JSON, with so many significant digits."""
    return [_number(value, digits) for value in values]


def numbers(values: Sequence[float | None]) -> Array:
    """What `rounded` gave as an array, with NaN where there is no number."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def shown(value: float | None, form: str = ".4f") -> str:
    """A number for people; a dash where there is none.

    >>> shown(0.12345), shown(None)
    ('0.1235', '–')
    """
    return "–" if value is None else format(value, form)


def in_runs(row: list[Any]) -> list[Any]:
    """Numbers in which one that follows itself is a pair: the number, and how often it stands there.

    >>> in_runs([0.3, 0.1, 0.1, 0.1])
    [0.3, [0.1, 3]]
    """
    runs = [(number, len(list(same))) for number, same in groupby(row)]
    return [number if times == 1 else [number, times] for number, times in runs]


def out_of_runs(runs: list[Any]) -> list[Any]:
    """Inverse of `in_runs`; plain numbers stay as they are."""
    return [number for run in runs for number in ([run[0]] * run[1] if isinstance(run, list) else [run])]


def _json(value: Any) -> str:
    """JSON without blanks, whole numbers without ``.0``."""
    if isinstance(value, list):
        return "[" + ",".join(_json(v) for v in value) + "]"
    if isinstance(value, float):
        return f"{value:.{_DIGITS}g}"
    return json.dumps(value, sort_keys=True, allow_nan=False)
