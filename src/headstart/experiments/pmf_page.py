"""The page about PMF: what it is to beat, and the paper's experiments. All that is said of ours is computed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from headstart.experiments.markdown import (
    TITLES,
    Word,
    against,
    as_in_the_paper,
    how_often,
    notes,
    paired,
    series,
    whole,
)
from headstart.experiments.reference import EVALUATIONS, RELEASED
from headstart.experiments.results import Results, shown
from headstart.experiments.sections import Section, compared, errors_lines, points_lines

_INTRODUCTION = """\
Written by `headstart results docs/results` from `docs/results/data`: replays of `headstart replay`, and `pmf_*.json` of
`headstart experiment`. `pmf` is the default setting, chosen on validation tasks; `pmf_paper` the model of the paper.
Rules and regret as on the [page of all methods](replay.md): every method begins with the same five pipelines, ± is the
half width of a 95 % interval over tasks.
"""
_TO_BEAT = """\
Mean regret after so many evaluations; then `pmf` minus the method, paired by task, with the p of Wilcoxon's signed-rank
test. Of the authors' own algorithm only means are known, so there is no test.
"""
METHOD, PAPER, AUTHORS = "pmf", "pmf_paper", "PMF, the authors' algorithm"
RIVALS = (PAPER, "linear_factors", "random4x", "gp", "forest")
DECISIVE = (25, 50, 100)


def pmf_page(folder: Path) -> Iterator[str] | None:
    """The page, where there is a replay of `pmf` or one of its experiments."""
    replays = [results for results in _replays(folder) if whole(results[1], METHOD)]
    sections = [section for section in SECTIONS if (folder / "data" / f"{section.name}.json").exists()]
    return _lines(folder, replays, sections) if replays or sections else None


def _replays(folder: Path) -> Iterator[tuple[str, Results]]:
    """Replays with the names of their files, the meta-datasets' own splits first."""
    names = [*TITLES, *(f"{name}_partition{k}" for name in TITLES for k in (1, 2))]
    for name in names:
        path = folder / "data" / f"replay_{name}.json"
        if path.exists():
            yield name, Results.load(path)


def _lines(folder: Path, replays: Sequence[tuple[str, Results]], sections: Sequence[Section]) -> Iterator[str]:
    yield "# PMF: probabilistic matrix factorisation over pipelines\n"
    yield _INTRODUCTION
    if replays:
        yield "## To beat\n"
        yield _TO_BEAT
        for name, results in replays:
            yield from _to_beat(folder, name, results)
    for section in sections:
        yield f"## {section.title}\n"
        yield f"The paper: {section.paper}\n"
        yield from section.lines(folder, folder / "data" / f"{section.name}.json")
    missing = [section.name for section in SECTIONS if section not in sections]
    if missing:
        yield "Not run yet: " + ", ".join(f"`headstart experiment {name}`" for name in missing) + ".\n"
    yield from notes(folder, "pmf")


def _to_beat(folder: Path, name: str, results: Results) -> Iterator[str]:
    own = results.split == "test"
    title = TITLES.get(results.meta, results.meta)
    yield f"### {title}\n" if own else f"### {title}, partition {name[-1]} of the tasks\n"
    yield f"{len(results.tasks)} test tasks{'' if own else _drawn(folder, results)}.\n"
    evaluations = [e for e in EVALUATIONS if e <= results.evaluations]
    yield "| method | " + " | ".join(map(str, evaluations)) + " | " + " | ".join(f"at {e}" for e in evaluations) + " |"
    yield "|---|" + "---|" * (2 * len(evaluations))
    for method in (METHOD, *RIVALS):
        if not whole(results, method):
            continue
        entry = results.methods[method]
        cells = [f"{shown(entry['regret_mean'][e - 1])} ± {shown(entry['regret_ci'][e - 1])}" for e in evaluations]
        tests = [paired(results, METHOD, method, e) if method != METHOD else "" for e in evaluations]
        yield f"| {_bold(method)} | {' | '.join(cells)} | {' | '.join(tests)} |"
    released = RELEASED.get(results.meta, {}).get(AUTHORS) if own else None
    if released is not None:
        figures = dict(zip(EVALUATIONS, released, strict=True))
        ours = results.methods[METHOD]["regret_mean"]
        cells = [f"{figures[e]:.4f}" for e in evaluations]
        cells += [f"{ours[e - 1] - figures[e]:+.4f}" for e in evaluations]
        yield f"| {AUTHORS} | {' | '.join(cells)} |"
    yield ""
    absent = [method for method in RIVALS if not whole(results, method)]
    if absent:
        yield "Not run yet: " + ", ".join(f"`{method}`" for method in absent) + ".\n"
    yield _verdict(results, released)


def _drawn(folder: Path, results: Results) -> str:
    """How a partition was drawn, as its file says."""
    path = folder / "data" / f"{results.split}.json"
    if not path.exists():
        return ""
    content = json.loads(path.read_text(encoding="utf-8"))
    about = content.get("about", {})
    return (
        f", drawn with seed {about.get('seed')} from all tasks (chances {about.get('chances of test tasks')}); "
        f"{len(content['train'])} to learn from, {len(content['validation'])} to stop by"
    )


def _verdict(results: Results, released: Sequence[float] | None) -> str:
    """Where the mean regret of the method is not the lowest."""
    wanted = [e for e in DECISIVE if e <= results.evaluations]
    if not wanted:
        return ""
    ours = results.methods[METHOD]["regret_mean"]
    others = {
        f"`{n}`": {e: results.methods[n]["regret_mean"][e - 1] for e in wanted} for n in RIVALS if whole(results, n)
    }
    if released is not None:
        others["the authors' algorithm"] = dict(zip(EVALUATIONS, released, strict=True))
    above = {name: [e for e in wanted if ours[e - 1] >= figures[e]] for name, figures in others.items()}
    exceptions = "; ".join(f"{name} at {series(when)}" for name, when in above.items() if when)
    return (
        f"After {series(wanted)} evaluations the mean regret of `{METHOD}` is below that of all others in the table"
        f"{f', except {exceptions}' if exceptions else ''}.\n"
    )


def _regret(results: Results) -> Iterator[str]:
    last = results.evaluations
    for method in (METHOD, PAPER):
        if not whole(results, method):
            continue
        for what in ("regret", "rank"):
            often, of = how_often(results, method, what)
            among = " among methods with one evaluation for each step" if what == "rank" else ""
            yield (
                f"`{method}` has the lowest mean {what}{among} after {often} of the {of} evaluations that follow the "
                f"initial ones, {as_in_the_paper(often == of)}{'' if often == of else ', where it always has'}."
            )
    for method in ("random2x", "random4x"):
        if whole(results, "forest") and whole(results, method):
            yield against(results, "forest", method, last, paper="below")


def _missing(results: Results) -> Iterator[str]:
    last = results.evaluations
    rivals: tuple[tuple[str, Word | None], ...] = ((METHOD, None), ("forest", "below"), ("random2x", "below"))
    for name in (name for name in results.methods if "-sparse" in name and whole(results, name)):
        for other, paper in rivals:
            if whole(results, other):
                yield against(results, name, other, last, paper=paper)
    if all(whole(results, name) for name in ("fmlp", "random", "random2x")):
        yield against(results, "fmlp", "random", last, paper="below")
        yield against(results, "fmlp", "random2x", last, paper="above")


def _few(results: Results) -> Iterator[str]:
    rivals: tuple[Word | None, ...] = (None, "below")
    for method in (METHOD, PAPER):
        for other, paper in zip((method, "forest"), rivals, strict=True):
            if whole(results, f"{method}-few") and whole(results, other):
                yield against(results, f"{method}-few", other, results.evaluations, paper=paper)


def _bold(method: str) -> str:
    return f"**`{method}`**" if method == METHOD else f"`{method}`"


SECTIONS = (
    Section(
        "pmf_regret",
        "Rank and regret over 200 evaluations (figures 4 and 5)",
        "PMF has the best mean rank from the first evaluation on and the lowest regret; auto-sklearn is second, better "
        "than twice the random budget and nearly matched by four times of it. `forest`, which begins with the same "
        "pipelines chosen by other tasks, stands in for auto-sklearn here; it is not the same.",
        compared(_regret, METHOD),
    ),
    Section(
        "pmf_error",
        "Error and variance of the predictions (figure 6)",
        "the error falls monotonically and levels off after 200 evaluations; the variance falls too.",
        errors_lines,
    ),
    Section(
        "pmf_missing",
        "90 % of the matrix missing (supplementary figures 1 and 2)",
        "PMF gets only slightly worse with a tenth of the cells instead of four fifths, and is still the best; FMLP "
        "lies between random search with one and with two times the budget.",
        compared(_missing, METHOD),
    ),
    Section(
        "pmf_few_tasks",
        "Training on 140 datasets (supplementary figures 3 and 4)",
        "trained on 140 datasets instead of 464, PMF still outperforms auto-sklearn. Of the list in the supplement "
        "those datasets were taken that are among the training and validation tasks.",
        compared(_few, METHOD),
    ),
    Section(
        "pmf_embedding",
        "Latent points (figures 1 to 3)",
        "the latent space captures structure in the space of models, and on a finer scale the setting of a single "
        "hyper-parameter, the share of variance that PCA keeps.",
        points_lines,
    ),
)
