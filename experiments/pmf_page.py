"""The page about PMF: what it is to beat, and the paper's experiments. All that is said of ours is computed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from experiments.markdown import Word, against, apart, how_often, whole
from experiments.paper_page import PaperPage
from experiments.sections import Section, compared, errors_lines, points_lines
from experiments.to_beat import ToBeat
from headstart.replay.results import Results

_INTRODUCTION = """\
Written by `headstart results docs/results` from `docs/results/data`: replays of `headstart replay`, and `pmf_*.json` of
`headstart experiment`. `pmf` is the default setting, chosen on validation tasks; `pmf_paper` the model of the paper.
Rules and regret as on the [page of all methods](replay.md): every method begins with the same five pipelines, ± is the
half width of a 95 % interval over tasks, and a difference is more than chance where p < 0.05 by Wilcoxon's signed-rank
test, paired by task.
"""
_TO_BEAT = """\
Mean regret after so many evaluations; then `pmf` minus the method, paired by task, with the p of Wilcoxon's signed-rank
test. Of the authors' own algorithm only means are known, so there is no test.
"""
METHOD, PAPER = "pmf", "pmf_paper"
RIVALS = (PAPER, "linear_factors", "random4x", "gp", "forest")


def pmf_page(folder: Path) -> Iterator[str] | None:
    """The page, where there is a replay of `pmf` or one of its experiments."""
    return PaperPage(
        "pmf",
        "PMF: probabilistic matrix factorisation over pipelines",
        _INTRODUCTION,
        ToBeat(METHOD, "PMF, the authors' algorithm", "the authors' algorithm", RIVALS),
        _TO_BEAT,
        SECTIONS,
    ).lines(folder)


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
                "initial ones; in the paper it always has."
            )
        found = list(apart(results, method, [name for name in results.methods if whole(results, name)]).values())
        yield (
            f"After {last} evaluations the regret of `{method}` is lower than that of {found.count(-1)} of the "
            f"{len(found)} others, and higher than that of {found.count(1)}, by more than chance."
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
