"""Pages of results: notes that people wrote, with tables, figures and numbers from the saved results filled in.

Notes are in ``notes/`` beside the pages, results in ``data/``. In notes ``{{KIND FILE …}}`` stands for something made
of ``data/FILE.json``; words with blanks in them are quoted. AT is a list of evaluations such as ``25,100``.

========================================  ==============================================================================
``{{replay FILE AT OURS METHOD …}}``      figure and table of methods: mean regrets at AT; at 25 and 100 on how many
                                          tasks ours is lower and higher, with Holm's p over all ranked methods
``{{standings FILE AT OURS METHOD …}}``   the table alone
``{{figure FILE}}``, ``{{table FILE}}``   all that an experiment left, drawn or as a table
``{{cell FILE ROW COLUMN}}``              a cell of that table
``{{versus FILE AT OURS METHOD …}}``      one line: regrets at AT, tasks won and lost by ours, Holm's p over this line
``{{lowest FILE WHAT METHOD}}``           after how many evaluations its mean ``regret`` or ``rank`` is the lowest
``{{solved FILE AT METHOD}}``             on how many tasks it has found the optimum by then
``{{independent FILE}}``                  table of ours beside figures that others measured
``{{steps FILE METHOD}}``                 how much of its training it has had
``{{ms FILE METHOD}}``                    milliseconds of a suggestion
========================================  ==============================================================================

A METHOD is named as in the file, with or without its settings; ``FILE/METHOD`` takes it from another file, ``best3``
stands for the three ranked methods with the lowest regret that are not named, ``all`` for all, ``best`` (as OURS) for
the best, ``authors`` for what the authors' own code gives. ``METHOD[^x]`` puts the mark of a footnote in its row.
``FILE@SPLIT`` is of those tasks of a drawn partition alone that are in this split of the meta-dataset itself.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.catalogue import EXPERIMENTS
from experiments.comparison import Compared
from experiments.experiment import Findings, Table
from headstart.errors import InvalidInput
from headstart.optimizers.warm_start import N_INITIAL
from headstart.replay.results import EVALUATIONS, Results, shown, wilcoxon, write_whole

DECISIVE = (25, 100)
"""After so many evaluations methods are tested against each other."""
KINDS = {"zap": "-.*"}
"""What tasks have in common that are versions of one dataset, by meta-dataset: they count as one in tests."""
_AUTHORS = {"pmf": "PMF, ", "deeppipe": "DeepPipe, "}
"""How the rows of what authors released begin, by method of ours."""
_OTHERS: dict[str, dict[str, dict[str, list[float | None]]]] = json.loads(
    Path(__file__).with_name("others.json").read_text()
)
INDEPENDENT, RELEASED = _OTHERS["independent"], _OTHERS["released"]
"""Mean regrets of others at `EVALUATIONS` on the protocol of `headstart.replay.protocol`, to compare ours with: of the
same methods, and of what the authors released; ``None`` where a figure is of no one run.

They were measured over the test tasks with independent code on the same recorded results; intervals are about ±.03
(PMF), ±.006 (Tensor-OBOE) and ±.0015 (ZAP).
"""


def write_pages(folder: Path) -> list[Path]:
    """Write a page for each of the notes; returns what was written.

    Parameters
    ----------
    folder
        Pages and plots go here; ``notes`` and ``data`` are inside it.
    """
    notes = sorted((folder / "notes").rglob("*.md"))
    if not notes:
        raise InvalidInput(f"{folder / 'notes'} must be a folder with the notes that pages are made of; there are none")
    for note in notes:
        page = folder / note.relative_to(folder / "notes")
        write_whole(page, Filling(folder, page).filled(note.read_text(encoding="utf-8")))
    return [folder / note.relative_to(folder / "notes") for note in notes]


class Filling:
    """Fills in the notes of one page."""

    def __init__(self, folder: Path, page: Path) -> None:
        self.folder = folder
        self.page = page

    def filled(self, notes: str) -> str:
        """The page."""
        head = "<!-- Written by `python -m experiments pages` from notes/ and data/; change the notes. -->\n"
        return head + re.sub(r"\{\{(.+?)\}\}", self._one, notes)

    def _one(self, found: re.Match[str]) -> str:
        kinds: dict[str, Callable[..., str]] = {
            "replay": self._replay,
            "standings": self._standings,
            "figure": lambda file: self._drawn(self._load(file), file),
            "table": lambda file: self._load(file).table().markdown(),
            "cell": self._cell,
            "versus": self._versus,
            "lowest": self._lowest,
            "solved": self._solved,
            "independent": self._independent,
            "steps": self._steps,
            "ms": lambda file, method: f"{1000 * self._entry(file, method)['seconds_per_suggestion']:.0f}",
        }
        kind, *words = shlex.split(found[1])
        try:
            return kinds[kind](*words)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidInput(f"notes of {self.page.name}: {found[0]} cannot be filled in: {error!r}") from error

    def _load(self, file: str) -> Findings:
        path = self.folder / "data" / f"{file}.json"
        if not path.exists():
            raise InvalidInput(f"notes of {self.page.name} need {path}: run the experiment first")
        if file.startswith("replay_"):
            return Compared(Results.load(path))  # of `headstart replay`
        return EXPERIMENTS[max((n for n in EXPERIMENTS if file.startswith(n)), key=len)].kind.load(path)

    def _results(self, file: str) -> Results:
        file, _, split = file.partition("@")
        found = self._load(file)
        if not isinstance(found, Compared):
            raise InvalidInput(f"notes of {self.page.name}: {file} must be of methods that were replayed")
        return found.results if not split else self._part(found.results, split)

    def _part(self, results: Results, split: str) -> Results:
        """Results on the tasks of a drawn partition that are in this split of the meta-dataset itself."""
        drawn = json.loads((self.folder / "data" / f"{results.split}.json").read_text(encoding="utf-8"))
        wanted = set(drawn["about"]["test tasks by own split"][split])
        rows = [i for i, task in enumerate(results.tasks) if task in wanted]
        part = replace(
            results, tasks=[results.tasks[i] for i in rows], names=[results.names[i] for i in rows], methods={}
        )
        for method, entry in results.methods.items():
            curves = [entry["curves"][i] for i in rows]
            part.add(method, curves, seconds_per_suggestion=entry["seconds_per_suggestion"])
        return part

    def _replay(self, file: str, at: str, ours: str, *methods: str) -> str:
        results, rows = self._chosen(file, ours, methods)
        whole = "all" in methods
        name = file if whole else f"{self.page.stem}_{file}"
        shown_here = {n: dict(results.methods[n]) for n in rows if n in results.methods}
        drawn = results if whole else replace(results, methods=shown_here)
        drawn.summarise()
        return f"{self._drawn(Compared(drawn), name)}\n\n{self._standings(file, at, ours, *methods)}"

    def _standings(self, file: str, at: str, ours: str, *methods: str) -> str:
        results, rows = self._chosen(file, ours, methods)
        own = next(iter(rows))
        ranked = [name for name in results.ranked() if name != own]
        also = [name for name in rows if name in results.methods and name not in (own, *ranked)]
        tested = {e: paired(results, own, ranked, e, also) for e in DECISIVE if e <= results.evaluations}
        evaluations = [int(e) for e in at.split(",")]
        columns = ["method", *at.split(","), *(c for e in tested for c in (f"won–lost at {e}", "p"))]
        columns += ["rank", "ms"] if "all" in methods else []
        lines = []
        for name, label in rows.items():
            if name in RELEASED.get(results.meta, {}):
                figures = dict(zip(EVALUATIONS, RELEASED[results.meta][name], strict=True))
                cells = [shown(figures.get(e)) for e in evaluations]
                lines.append([label, *cells, *[""] * (len(columns) - len(cells) - 1)])
                continue
            entry = results.methods[name]
            cells = [_regret(results, name, own, e) for e in evaluations]
            for found in tested.values():
                cells += ["", ""] if name == own else [f"{found[name][0]}–{found[name][1]}", f"{found[name][2]:.2g}"]
            rank = "" if entry["rank_mean"] is None else f"{entry['rank_mean'][-1]:.2f}"
            facts = [rank, f"{1000 * entry['seconds_per_suggestion']:.0f}"]
            lines.append([label, *cells, *facts][: len(columns)])
        return Table("", columns, lines).markdown()

    def _chosen(self, file: str, ours: str, methods: Sequence[str]) -> tuple[Results, dict[str, str]]:
        """Results with methods of other files, and labels of rows by method or by what authors released. Ours first."""
        results = self._results(file)
        own = results.best() if ours == "best" else named(results, ours)
        rows, named_there = {own: f"**`{own}`**"}, [_split(word)[0].rpartition("/")[2] for word in methods]
        for word in methods:
            name, mark = _split(word)
            if name == "authors":
                released = RELEASED.get(results.meta, {})
                rows |= {label: label + mark for label in released if label.startswith(_AUTHORS[own.partition("(")[0]])}
                continue
            if "/" in name:
                other, _, name = name.partition("/")
                _add(results, self._results(other), name)
            best = [m for m in results.by_regret() if m not in (own, *named_there)]
            if name == "all":
                names = [m for m in best if results.methods[m]["n_tasks"]]
            elif name.startswith("best"):
                names = [m for m in best if m in results.ranked()][: int(name[4:])]
            else:
                names = [named(results, name)]
            for m in names:
                ran = results.methods[m]["n_tasks"]
                rows[m] = f"`{m}`{mark}" + ("" if results.complete(m) else f", {ran} tasks")
        return results, rows

    def _versus(self, file: str, at: str, ours: str, *methods: str) -> str:
        results = self._results(file)
        own, others = named(results, ours), [named(results, method) for method in methods]
        found = paired(results, own, others, int(at))
        said = [f"`{ours}` {_regret(results, own, own, int(at), interval=False)}"]
        for method, name in zip(methods, others, strict=True):
            won, lost, p = found[name]
            said.append(f"`{method}` {_regret(results, name, own, int(at), interval=False)} ({won}–{lost}, p {p:.2g})")
        return ", ".join(said)

    def _lowest(self, file: str, what: str, method: str) -> str:
        results = self._results(file)
        curves = {
            name: np.array(entry[f"{what}_mean"], dtype=float)
            for name, entry in results.methods.items()
            if results.complete(name) and entry[f"{what}_mean"] is not None
        }
        own = curves[named(results, method)]
        lowest = np.all([own <= curve for curve in curves.values()], axis=0)[min(N_INITIAL, len(own) - 1) :]
        return f"{lowest.sum()} of {len(lowest)}"

    def _solved(self, file: str, at: str, method: str) -> str:
        results = self._results(file)
        regrets = results.curves(named(results, method))[:, int(at) - 1]
        return f"{(regrets == 0).sum()} of {np.isfinite(regrets).sum()}"

    def _cell(self, file: str, row: str, column: str) -> str:
        table = self._load(file).table()
        return {cells[0]: cells for cells in table.rows}[row][list(table.columns).index(column)]

    def _entry(self, file: str, method: str) -> dict[str, Any]:
        results = self._results(file)
        return results.methods[named(results, method)]

    def _steps(self, file: str, method: str) -> str:
        ((made, most),) = self._entry(file, method)["steps"].values()
        return f"{made:,} of {most:,} steps ({100 * made / most:.2g} %)"

    def _drawn(self, found: Findings, name: str) -> str:
        from experiments.plots import draw

        paths = [os.path.relpath(path, self.page.parent) for path in draw(found, self.folder / name)]
        return "\n\n".join(f"![{found.table().title}]({path})" for path in paths)

    def _independent(self, file: str) -> str:
        results = self._results(file)
        rows = []
        for name, theirs in INDEPENDENT[results.meta].items():
            entry = results.methods[name]
            ours, widths = ([entry[what][e - 1] for e in EVALUATIONS] for what in ("regret_mean", "regret_ci"))
            pairs = [(o, t, w) for o, t, w in zip(ours, theirs, widths, strict=True) if t is not None]
            apart = max(((o - t) / w if w else 0.0 for o, t, w in pairs), key=abs)
            rows.append([f"`{name}`", _figures(ours), _figures(theirs), f"{apart:+.2f}"])
        rows += [[name, "", _figures(theirs), ""] for name, theirs in RELEASED[results.meta].items()]
        return Table("", ["method", "ours", "independent", "largest difference"], rows).markdown()


def named(results: Results, word: str) -> str:
    """A method of results by its name, with or without its settings."""
    found = [word] if word in results.methods else [m for m in results.methods if m.partition("(")[0] == word]
    if len(found) != 1:
        raise InvalidInput(f"{word!r} must name one method of {results.meta}; there are {', '.join(results.methods)}")
    return found[0]


def paired(
    results: Results, ours: str, others: Sequence[str], evaluation: int, also: Sequence[str] = ()
) -> dict[str, tuple[int, int, float]]:
    """Tasks on which ours is lower and higher than each other method, and p of Wilcoxon's test with Holm's correction.

    The correction is over the others; for each of `also` over the others and itself. Tasks that are versions of one
    dataset (`KINDS`) count as one in the test, by the mean of their differences.
    """
    counts, p_values = {}, {}
    alike = [re.search(KINDS.get(results.meta, "$^"), name) for name in results.names]
    for other in (*others, *also):
        difference = results.curves(ours)[:, evaluation - 1] - results.curves(other)[:, evaluation - 1]
        kinds: dict[Any, list[float]] = {}
        for i in np.flatnonzero(np.isfinite(difference)):
            kinds.setdefault(found[0] if (found := alike[i]) else i, []).append(difference[i])
        means = np.array([np.mean(values) for values in kinds.values()])
        counts[other] = (int((difference < 0).sum()), int((difference > 0).sum()))
        p_values[other] = wilcoxon(means, np.zeros_like(means))
    family = {other: p_values[other] for other in others}
    corrected = holm(family) | {name: holm({**family, name: p_values[name]})[name] for name in also}
    return {other: (*counts[other], p) for other, p in corrected.items()}


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P-values of several tests, corrected so that a level holds for all of them together (Holm 1979).

    >>> {name: round(p, 3) for name, p in holm({"a": 0.01, "b": 0.03, "c": 0.04}).items()}
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    corrected: dict[str, float] = {}
    highest = 0.0
    for k, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        highest = max(highest, min(1.0, (len(p_values) - k) * p_values[name]))
        corrected[name] = highest
    return {name: corrected[name] for name in p_values}


def _regret(results: Results, method: str, ours: str, evaluation: int, interval: bool = True) -> str:
    """Mean regret of a method; of one that ran on some tasks only, beside that of ours on these."""
    entry = results.methods[method]
    text = shown(entry["regret_mean"][evaluation - 1])
    if not results.complete(method):
        ran = np.isfinite(results.curves(method)[:, 0])
        return f"{text} (there `{ours}` {results.curves(ours)[ran, evaluation - 1].mean():.4f})"
    return f"{text} ± {shown(entry['regret_ci'][evaluation - 1])}" if interval else text


def _figures(values: Sequence[float | None]) -> str:
    return " / ".join(map(shown, values))


def _split(word: str) -> tuple[str, str]:
    """A method and the mark of a footnote behind it.

    >>> _split("gp[^a]"), _split("gp")
    (('gp', '[^a]'), ('gp', ''))
    """
    name, bracket, mark = word.partition("[^")
    return name, bracket + mark


def _add(results: Results, other: Results, method: str) -> None:
    """Take in a method of another file, on the tasks that both have."""
    if (other.meta, other.evaluations, other.seeds) != (results.meta, results.evaluations, results.seeds):
        raise InvalidInput(f"{method} must be of the same meta-dataset, evaluations and seeds, to stand beside others")
    entry = other.methods[named(other, method)]
    curves = dict(zip(other.tasks, entry["curves"], strict=True))
    seconds = entry["seconds_per_suggestion"]
    results.add(method, [curves.get(task) for task in results.tasks], seconds_per_suggestion=seconds)
