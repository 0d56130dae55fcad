"""`ToBeat`: the part of a paper's page that says whether our default of its method is better than all others."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from experiments.markdown import TITLES, paired, series, whole
from experiments.verdicts import LEVEL, holm, leaning
from headstart.replay.reference import EVALUATIONS, INDEPENDENT, RELEASED
from headstart.replay.results import Results, half_width, ranks, shown

DECISIVE = (25, 50, 100)


@dataclass(frozen=True)
class ToBeat:
    """What a method is to beat on replays.

    Parameters
    ----------
    method
        The default setting.
    authors, short
        Key of the authors' own figures in `headstart.replay.reference.RELEASED`, and what sentences call it.
    rivals
        Methods to compare with; ``None`` for all other ranked ones, with mean ranks.
    figures
        By meta-dataset, methods whose figures in `headstart.replay.reference.INDEPENDENT` are to be beaten too.
    """

    method: str
    authors: str
    short: str
    rivals: Sequence[str] | None = None
    figures: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def lines(self, folder: Path, name: str, results: Results) -> Iterator[str]:
        """Of one replay, whose file is named so; the method has been run in it."""
        own = results.split == "test"
        yield f"### {title(name)}{'' if own else ' of the tasks'}\n"
        yield f"{len(results.tasks)} test tasks{'' if own else drawn(folder, results)}.\n"
        evaluations = [e for e in EVALUATIONS if e <= results.evaluations]
        decisive = [e for e in DECISIVE if e <= results.evaluations] if self.rivals is None else []
        columns = [*map(str, evaluations), *(f"at {e}" for e in evaluations), *(f"rank at {e}" for e in decisive)]
        yield "| method | " + " | ".join(columns) + " |"
        yield "|---|" + "---|" * len(columns)
        for method in (self.method, *self._others(results)):
            if whole(results, method):
                yield self._row(results, method, evaluations, decisive)
        given = self._given(results) if own else {}
        ours = results.methods[self.method]["regret_mean"]
        for label, (_, figures) in given.items():
            cells = [f"{figures[e]:.4f}" for e in evaluations]
            cells += [f"{ours[e - 1] - figures[e]:+.4f}" for e in evaluations] + [""] * len(decisive)
            yield f"| {label} | {' | '.join(cells)} |"
        yield ""
        absent = [method for method in self._others(results) if not whole(results, method)]
        if absent:
            yield "Not run yet: " + ", ".join(f"`{method}`" for method in absent) + ".\n"
        yield self._regret(results, dict(given.values()))
        if self.rivals is None:
            yield from self._ranks(results)

    def summary(self, replays: Sequence[tuple[str, Results]]) -> Iterator[str]:
        """A table of all replays: regret beside the lowest of the others, and the place by mean rank."""
        columns = [*(f"regret at {e}" for e in DECISIVE), *(f"place at {e}" for e in DECISIVE)]
        yield "| replay | " + " | ".join(columns) + " |"
        yield "|---|" + "---|" * len(columns)
        for name, results in replays:
            wanted = [e for e in DECISIVE if e <= results.evaluations]
            empty = [""] * (len(DECISIVE) - len(wanted))
            cells = [self._beside(results, e) for e in wanted] + empty
            cells += [self._place(results, e) for e in wanted] + empty
            yield f"| {title(name)} | {' | '.join(cells)} |"
        yield ""

    def _beside(self, results: Results, evaluations: int) -> str:
        """Our mean regret, bold where it is the lowest, and the lowest of the others."""
        found = {n: float(results.methods[n]["regret_mean"][evaluations - 1]) for n in results.ranked()}
        ours = found.pop(self.method)
        if not found:
            return shown(ours)
        best = min(found, key=lambda n: found[n])
        return f"{_bold(shown(ours), ours < found[best])} (`{best}` {shown(found[best])})"

    def _place(self, results: Results, evaluations: int) -> str:
        found = {n: float(results.methods[n]["rank_mean"][evaluations - 1]) for n in results.ranked()}
        place = 1 + sum(other < found[self.method] for other in found.values())
        return f"{_bold(str(place), place == 1)} of {len(found)}"

    def _others(self, results: Results) -> list[str]:
        if self.rivals is not None:
            return list(self.rivals)
        last = results.evaluations - 1
        others = [name for name in results.ranked() if name != self.method]
        return sorted(others, key=lambda name: float(results.methods[name]["rank_mean"][last]))

    def _given(self, results: Results) -> dict[str, tuple[str, dict[int, float]]]:
        """Figures of others by how a table calls them: how sentences do, and regrets by evaluation."""
        found = {}
        released = RELEASED.get(results.meta, {}).get(self.authors)
        if released is not None:
            found[self.authors] = (self.short, dict(zip(EVALUATIONS, released, strict=True)))
        for name in self.figures.get(results.meta, ()):
            figures = dict(zip(EVALUATIONS, INDEPENDENT[results.meta][name], strict=True))
            found[f"`{name}`, independent code"] = (f"`{name}` of independent code", figures)
        return found

    def _row(self, results: Results, method: str, evaluations: Sequence[int], decisive: Sequence[int]) -> str:
        entry = results.methods[method]
        cells = [f"{shown(entry['regret_mean'][e - 1])} ± {shown(entry['regret_ci'][e - 1])}" for e in evaluations]
        own = method == self.method
        cells += ["" if own else paired(results, self.method, method, e) for e in evaluations]
        cells += [f"{entry['rank_mean'][e - 1]:.2f} ± {shown(entry['rank_ci'][e - 1], '.2f')}" for e in decisive]
        text = f"**`{method}`**" if own else f"`{method}`"
        return f"| {text} | {' | '.join(cells)} |"

    def _regret(self, results: Results, given: Mapping[str, Mapping[int, float]]) -> str:
        """Where the mean regret of the method is the lowest, where not, and whose is as low."""
        wanted = [e for e in DECISIVE if e <= results.evaluations]
        if not wanted:
            return ""
        ours = results.methods[self.method]["regret_mean"]
        others: dict[str, Mapping[int, float]] = {
            f"`{n}`": {e: results.methods[n]["regret_mean"][e - 1] for e in wanted}
            for n in self._others(results)
            if whole(results, n)
        }
        others |= given
        above = {name: [e for e in wanted if ours[e - 1] >= figures[e]] for name, figures in others.items()}
        best = [e for e in wanted if not any(e in when for when in above.values())]
        rivals = "; ".join(f"{name} at {series(when)}" for name, when in above.items() if when)
        return (
            f"The mean regret of `{self.method}` is below that of all others in the table {only_after(best, wanted)}."
            f"{f' As low or lower: {rivals}.' if rivals else ''}\n"
        )

    def _ranks(self, results: Results) -> Iterator[str]:
        """Where the mean rank is the best, where not and whose is, and how often regrets differ by more than chance."""
        names = results.ranked()
        wanted = [e for e in DECISIVE if e <= results.evaluations]
        if not wanted or len(names) < 2:
            return
        places = dict(zip(names, ranks([results.curves(name) for name in names]), strict=True))
        ours = places[self.method]
        better, best = [], list(wanted)
        for name in self._others(results):
            for e in wanted:
                apart = ours[:, e - 1] - places[name][:, e - 1]
                if apart.mean() >= 0:
                    best = [other for other in best if other != e]
                    width = half_width(apart)
                    better.append(
                        f"`{name}` at {e} ({places[name][:, e - 1].mean():.2f} against {ours[:, e - 1].mean():.2f}, "
                        f"difference paired by task {apart.mean():+.2f} ± "
                        f"{shown(None if np.isnan(width) else float(width), '.2f')})"
                    )
        rivals = f" As good or better: {'; '.join(better)}." if better else ""
        yield (
            f"`{self.method}` has the best mean rank of the {len(names)} ranked methods {only_after(best, wanted)}."
            f"{rivals}\n"
        )
        others = [name for name in names if name != self.method]
        for e in wanted:
            tests = {name: results.versus(self.method, name, e) for name in others}
            sure = holm({name: float(test["p"]) for name, test in tests.items()})
            own = results.curves(self.method)[:, e - 1]
            signs = [leaning(own - results.curves(name)[:, e - 1]) for name in others if sure[name]]
            won, lost = signs.count(-1), signs.count(1)
            yield (
                f"- After {e} evaluations its regret is lower than that of {won} of the {len(others)} others, and "
                f"higher than that of {lost}, by more than chance (Wilcoxon, {LEVEL:.0%}, Holm's correction)."
            )
        yield ""


def title(name: str) -> str:
    """Of a replay, by the name of its file.

    >>> title("pmf"), title("tensor_oboe_partition2")
    ('PMF', 'Tensor-OBOE, partition 2')
    """
    meta, _, partition = name.partition("_partition")
    return f"{TITLES.get(meta, meta)}, partition {partition}" if partition else TITLES.get(meta, meta)


def _bold(text: str, wanted: bool) -> str:
    return f"**{text}**" if wanted else text


def only_after(good: Sequence[int], wanted: Sequence[int]) -> str:
    """After which numbers of evaluations something holds, and after which it does not.

    >>> only_after([25, 50, 100], [25, 50, 100])
    'after 25, 50 and 100 evaluations'
    >>> only_after([100], [25, 50, 100])
    'after 100 evaluations, not after 25 and 50'
    >>> only_after([], [25, 50, 100])
    'after none of 25, 50 and 100 evaluations'
    >>> only_after([], [25])
    'not after 25 evaluations'
    """
    if not good:
        return f"{'after none of' if len(wanted) > 1 else 'not after'} {series(wanted)} evaluations"
    bad = [e for e in wanted if e not in good]
    return f"after {series(good)} evaluations{f', not after {series(bad)}' if bad else ''}"


def drawn(folder: Path, results: Results) -> str:
    """How a partition was drawn, as its file says."""
    path = folder / "data" / f"{results.split}.json"
    if not path.exists():
        return ""
    content = json.loads(path.read_text(encoding="utf-8"))
    about = content.get("about", {})
    groups = about.get("whole groups of tasks")
    alike = "" if groups is None else "; whole groups of tasks that are alike were drawn, so intervals are too narrow"
    return (
        f", drawn with seed {about.get('seed')} from all tasks (chances {about.get('chances of test tasks')}); "
        f"{len(content['train'])} to learn from, {len(content['validation'])} to stop by{alike}"
    )
