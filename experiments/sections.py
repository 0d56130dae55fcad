"""Sections of pages about a paper's experiments. All that is said of what was found is computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from experiments.embedding import Points
from experiments.markdown import partial_lines, table, whole
from experiments.model_error import QUANTITIES, Errors
from experiments.verdicts import all_the_way, surely
from headstart.methods.deeppipe import DeepPipe
from headstart.replay.results import Results, shown


@dataclass(frozen=True)
class Section:
    """An experiment on the page.

    Parameters
    ----------
    name
        Of the experiment and its file.
    title
        Heading.
    paper
        What the paper says.
    lines
        Everything else, from the folder and the file.
    also
        Other meta-datasets than its own that it is run on.
    """

    name: str
    title: str
    paper: str
    lines: Callable[[Path, Path], Iterator[str]]
    also: Sequence[str] = ()


def compared(say: Callable[[Results], Iterator[str]], method: str) -> Callable[[Path, Path], Iterator[str]]:
    """Lines of a section with a replay: picture, table with tests against a method, and what is to be said of it."""

    def lines(folder: Path, path: Path) -> Iterator[str]:
        from headstart.report.curves import plot_results

        results = Results.load(path)
        plot_results(results, folder / f"{path.stem}.svg")
        yield sizes(results)
        yield from settings_of(results)
        yield from learned_from(results)
        yield f"![Mean rank and mean regret]({path.stem}.svg)\n"
        yield from table(results, method if whole(results, method) else None)
        yield ""
        yield from partial_lines(results)
        yield from here(say(results))

    return lines


def sizes(results: Results) -> str:
    """How much was run."""
    first = "" if results.split == "test" else f" ({results.split})"
    return (
        f"{len(results.tasks)} test tasks{first}, {results.evaluations} evaluations, runs for each task: "
        f"{results.seeds}.\n"
    )


def settings_of(results: Results) -> Iterator[str]:
    """What settings of DeepPipe under a name of their own are: how they differ from the defaults."""
    said, usual = [], DeepPipe().describe()
    for name, entry in results.methods.items():
        surrogate = entry["settings"].get("surrogate")
        if "-" not in name or "learned_from" in entry or not isinstance(surrogate, dict):
            continue
        if surrogate.get("name") == usual["name"]:
            changed = [f"{key}={value}" for key, value in surrogate.items() if usual.get(key, value) != value]
            said.append(f"`{name}` is `deeppipe_network({', '.join(changed)})`")
    if said:
        yield "; ".join(said) + ".\n"


def learned_from(results: Results) -> Iterator[str]:
    """What variants learned from."""
    said: set[str] = set()
    for entry in results.methods.values():
        facts = entry.get("learned_from")
        if facts is None or facts["variant"] in said:
            continue
        said.add(facts["variant"])
        before = facts["of"]
        yield (
            f"`-{facts['variant']}`: learned from {facts['tasks']} tasks with {facts['missing']:.1%} of the cells "
            f"missing and stopped by {facts['validation'] or 'a part of them'}; the others learned from "
            f"{before['tasks']} tasks with {before['missing']:.1%} missing and stopped by {before['validation']}.\n"
        )


def errors_lines(folder: Path, path: Path) -> Iterator[str]:
    """Lines of a section with errors of models."""
    from experiments.plots import plot_errors

    errors = Errors.load(path)
    plot_errors(errors, folder / f"{path.stem}.svg")
    yield f"{len(errors.tasks)} test tasks; over candidates that were not tried yet; ± two standard errors.\n"
    yield f"![Squared error and variance over evaluations]({path.stem}.svg)\n"
    yield errors.table().markdown()
    said = []
    for method, entry in errors.methods.items():
        for name in QUANTITIES:
            mean = entry[f"{name}_mean"]
            monotone = all(after < before for before, after in pairwise(mean))
            falls = "falls all the way" if monotone else "does not fall all the way"
            steps = [surely(before - after) for before, after in pairwise(np.array(entry[name], dtype=np.float64).T)]
            said.append(
                f"The {name} of `{method}` {falls}, {all_the_way(monotone, steps)}: from {shown(mean[0])} after "
                f"{errors.evaluations[0]} evaluations to {shown(mean[-1])} after {errors.evaluations[-1]}."
            )
        variance, error = entry["variance_mean"][-1], entry["error_mean"][-1]
        if error:
            said.append(f"The variance of `{method}` is then {variance / error:.2g} times its squared error.")
    yield from here(said)


def points_lines(folder: Path, path: Path) -> Iterator[str]:
    """Lines of a section with latent points."""
    from experiments.plots import plot_pairs, plot_points

    points = Points.load(path)
    plot_points(points, folder / f"{path.stem}.png")
    plot_pairs(points, folder / f"{path.stem}_estimators.png")
    yield (
        f"{len(points.points):,} pipelines, drawn at random, in the first dimensions of the {points.latent} of "
        f"`{points.method}`.\n"
    )
    yield f"![Latent points by loss and by hyper-parameter]({path.stem}.png)\n"
    yield f"![Latent points by estimator]({path.stem}_estimators.png)\n"
    same, chance = points.alike()
    yield from here(
        [
            f"{same:.0%} of a pipeline's ten nearest neighbours in {len(points.points[0])} dimensions have its "
            f"estimator; by chance it would be {chance:.0%}.",
            f"The neighbours explain {points.explained('losses'):.0%} of the variance of the loss on {points.task}, "
            f"and {points.explained('values'):.0%} of that of `{points.parameter}` among pipelines that have it.",
        ]
    )


def here(sentences: Iterable[str]) -> Iterator[str]:
    """What was found, one item for each sentence."""
    found = [f"- {sentence}" for sentence in sentences]
    if found:
        yield "Here:\n"
        yield "\n".join(found) + "\n"
