"""What pages of results have in common."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from experiments.verdicts import as_in_the_paper, surely
from headstart.replay.results import Results, evaluations_shown, order_by_regret, shown

Word = Literal["below", "above", "level with"]
TITLES = {"pmf": "PMF", "tensor_oboe": "Tensor-OBOE", "zap": "ZAP"}


def notes(folder: Path, page: str) -> Iterator[str]:
    """What people have written for the end of a page, in ``data/PAGE_notes.md``."""
    note = folder / "data" / f"{page}_notes.md"
    if note.exists():
        yield note.read_text(encoding="utf-8").rstrip()


def table(results: Results, reference: str | None = None) -> Iterator[str]:
    """Mean regrets of all methods as a table in Markdown."""
    evaluations = evaluations_shown(results)
    last = evaluations[-1]
    ordered = [name for name in order_by_regret(results, last) if results.complete(name)]
    best = reference or results.best()
    yield "| method | " + " | ".join(f"{e}" for e in evaluations) + f" | rank at {last} | − {best} | p | ms |"
    yield "|---|" + "---|" * (len(evaluations) + 4)
    for name in ordered:
        entry = results.methods[name]
        cells = [f"{shown(entry['regret_mean'][e - 1])} ± {shown(entry['regret_ci'][e - 1])}" for e in evaluations]
        rank = shown(entry["rank_mean"][last - 1], ".2f") if entry["rank_mean"] is not None else "–"
        paired = ("", "")
        if name != best:
            versus = results.versus(name, best, last)
            paired = (f"{shown(versus['difference'], '+.4f')} ± {shown(versus['ci'])}", shown(versus["p"], ".2g"))
        text = f"**`{name}`**" if name == best else f"`{name}`"
        yield (
            f"| {text} | {' | '.join(cells)} | {rank} | {' | '.join(paired)} | "
            f"{1000 * entry['seconds_per_suggestion']:.0f} |"
        )


def partial_lines(results: Results) -> Iterator[str]:
    """What is said of methods that could not be run on all tasks."""
    for name in order_by_regret(results, results.evaluations):
        entry = results.methods[name]
        if results.complete(name):
            continue
        if not entry["n_tasks"]:
            yield f"`{name}` could not be run: {entry.get('left_out', '')}.\n"
            continue
        evaluations = evaluations_shown(results)
        figures = ", ".join(shown(entry["regret_mean"][e - 1]) for e in evaluations)
        same = [n for n in ("gp", "random") if n in results.methods and results.complete(n)]
        there = [f"{n} {shown(results.versus(name, n, evaluations[-1])['difference'], '+.4f')}" for n in same]
        yield (
            f"`{name}` was run on {entry['n_tasks']} of {len(results.tasks)} tasks ({entry.get('left_out', '')}): "
            f"{figures} after {', '.join(map(str, evaluations))} evaluations; difference there to {', '.join(there)}.\n"
        )


def whole(results: Results, method: str) -> bool:
    """Whether a method was run, on all tasks."""
    return method in results.methods and results.complete(method)


def paired(results: Results, one: str, other: str, evaluation: int) -> str:
    """Mean difference of two methods, its interval, and the p of Wilcoxon's test."""
    versus = results.versus(one, other, evaluation)
    return f"{shown(versus['difference'], '+.4f')} ± {shown(versus['ci'])}, p {shown(versus['p'], '.2g')}"


def against(results: Results, one: str, other: str, evaluation: int, *, paper: Word | None = None) -> str:
    """A sentence that compares two methods; where a paper does, whether it is as there, or no more than chance."""
    versus = results.versus(one, other, evaluation)
    difference = versus["difference"]
    word: Word = "below" if difference < 0 else "above" if difference > 0 else "level with"
    verdict = ""
    if paper is not None:
        each = results.curves(one)[:, evaluation - 1] - results.curves(other)[:, evaluation - 1]
        sure = surely(each[np.isfinite(each)])
        if sure and sure == np.sign(difference):
            verdict = f", {as_in_the_paper(word == paper)}"
        elif sure:  # a few tasks can make a mean that the others do not
            verdict = f", though by signed ranks it is {'below' if sure < 0 else 'above'}"
        elif difference:
            verdict = ", but not by more than chance"
    return (
        f"After {evaluation} evaluations `{one}` is {word} `{other}`{verdict} "
        f"({paired(results, one, other, evaluation)}; lower on {versus['wins']} tasks, higher on {versus['losses']})."
    )


def how_often(results: Results, method: str, what: str) -> tuple[int, int]:
    """After how many evaluations a method has the lowest mean ``"regret"`` or ``"rank"``, and of how many.

    The first five are the initial pipelines, the same for all, and are left out.
    """
    curves: dict[str, Any] = {
        name: np.array(entry[f"{what}_mean"], dtype=float)
        for name, entry in results.methods.items()
        if results.complete(name) and entry[f"{what}_mean"] is not None
    }
    lowest = np.all([curves[method] <= curve for curve in curves.values()], axis=0)[min(5, results.evaluations - 1) :]
    return int(lowest.sum()), len(lowest)


def apart(results: Results, method: str, others: Sequence[str]) -> dict[str, int]:
    """Of other methods: -1 where the method's regret at the end is lower by more than chance, 1 higher, 0 neither."""
    own = results.curves(method)[:, -1]
    return {name: surely(own - results.curves(name)[:, -1]) for name in others if name != method}


def standing(results: Results, method: str) -> tuple[list[str], str]:
    """Which methods are ahead of a ranked one by mean rank at the end, and a sentence about it."""
    last = results.evaluations
    found = {name: float(results.methods[name]["rank_mean"][-1]) for name in results.ranked()}
    ahead = sorted((name for name in found if found[name] < found[method]), key=lambda name: found[name])
    behind = f", behind {', '.join(f'`{name}` ({found[name]:.2f})' for name in ahead)}" if ahead else ", the best"
    width = shown(results.methods[method]["rank_ci"][-1], ".2f")
    return ahead, (
        f"After {last} evaluations the mean rank of `{method}` is {found[method]:.2f} ± {width} among "
        f"{len(found)}{behind}"
    )


def series(numbers: Sequence[int]) -> str:
    """Numbers as in a sentence.

    >>> series([25, 50, 100])
    '25, 50 and 100'
    """
    words = list(map(str, numbers))
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
