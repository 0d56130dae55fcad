"""The page about DeepPipe: what it is to beat, and the paper's experiments. All that is said of ours is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments import deeppipe, deeppipe_live
from experiments.catalogue import Table
from experiments.cluster import Clustered
from experiments.embedding import Points
from experiments.markdown import against, apart, how_often, standing, table, whole
from experiments.new_algorithm import ENCODED, KNOWN, LEFT_OUT, PLAIN, ROWS, UNTRAINED
from experiments.paper_page import PaperPage
from experiments.rankings import Ranked, overall_ranks
from experiments.sections import Section, compared, here, learned_from, settings_of, sizes
from experiments.to_beat import ToBeat
from experiments.verdicts import LEVEL, all_the_way, as_in_the_paper, best_in_the_paper, higher, surely
from headstart.replay.results import Results, half_width, shown

_INTRODUCTION = """\
Written by `headstart results docs/results` from `docs/results/data`: replays of `headstart replay`, and
`deeppipe_*.json` of `headstart experiment`. `deeppipe` is the default setting, chosen on validation tasks;
`deeppipe_paper` the recipe of the paper. Rules and regret as on the [page of all methods](replay.md): every method
begins with the same five pipelines, ± is the half width of a 95 % interval over tasks, and a difference is more than
chance where p < 0.05, by Wilcoxon's signed-rank test paired by task if no other is named. Experiments on the network
alone leave out the memory of recorded pipelines and train for 3,000 steps; [how they are done](../experiments.md).
"""
_TO_BEAT = """\
Mean regret after so many evaluations; then `deeppipe` minus the method, paired by task, with the p of Wilcoxon's
signed-rank test; then the mean rank among all ranked methods, which the rows are ordered by. Of what others measured
only means are known, so there is no test; for ZAP the authors have released no checkpoint.
"""
Array = NDArray[np.float64]
METHOD, PAPER = "deeppipe", "deeppipe_paper"
ALONE = deeppipe.ALONE.text
TO_BEAT = ToBeat(
    METHOD,
    "DeepPipe, the authors' checkpoint",
    "the authors' checkpoint",
    figures={"pmf": ("gp", "linear_factors"), "tensor_oboe": ("gp", "linear_factors"), "zap": ("portfolio",)},
)
PAPER_RANKS: Mapping[str, Mapping[str, tuple[float, ...]]] = {
    "tensor_oboe": {
        "extra_trees": (3.2398, 3.5319, 2.5582, 2.9247, 2.7455),
        "gradient_boosting": (3.1572, 3.0934, 2.6773, 3.0743, 2.9978),
        "logistic_regression": (3.0503, 3.6362, 2.7086, 2.8802, 2.7248),
        "mlp": (3.1982, 3.4780, 2.5761, 3.0423, 2.7054),
    },
    "pmf": {
        "extra_trees": (3.1527, 3.2462, 2.5710, 3.0464, 2.9838),
        "random_forest": (3.1645, 3.3208, 2.5996, 2.8550, 3.0601),
        "extreme_gradient_boosting": (3.2109, 3.2592, 2.4011, 3.0850, 3.0439),
        "k_neighbors": (3.2541, 3.3180, 2.5947, 2.8845, 2.9486),
    },
}
"""Columns of the paper's tables 3 and 4 in the order of `ROWS`."""


def deeppipe_page(folder: Path) -> Iterator[str] | None:
    """The page, where there is a replay of `deeppipe` or one of its experiments."""
    title = "DeepPipe: deep pipeline embeddings in a Gaussian process"
    return PaperPage("deeppipe", title, _INTRODUCTION, TO_BEAT, _TO_BEAT, SECTIONS).lines(folder)


def _best(results: Results, method: str) -> Iterator[str]:
    """How a method stands that is the best in the paper, at the end and on the way."""
    ahead, sentence = standing(results, method)
    yield f"{sentence}{best_in_the_paper(apart(results, method, results.ranked()), ahead)}."
    often, of = how_often(results, method, "rank")
    yield f"`{method}` has the lowest mean rank after {often} of the {of} evaluations that follow the initial ones."


def _alone(results: Results) -> Iterator[str]:
    if whole(results, ALONE):
        yield from _best(results, ALONE)
        for other in ("forest", "gp", "random"):
            if whole(results, other):
                yield against(results, ALONE, other, results.evaluations, paper="below")


def _transfer(results: Results) -> Iterator[str]:
    for method in (METHOD, PAPER):
        if whole(results, method):
            yield from _best(results, method)
            others = [name for name in results.ranked() if name not in (METHOD, PAPER)]
            for other in others:
                yield against(results, method, other, results.evaluations, paper="below" if other in _THEIRS else None)


_THEIRS = ("pmf", "fmlp", "oboe", "tensor_oboe", "rgpe")
"""Methods that the paper compares with, too."""


def _layers(results: Results) -> Iterator[str]:
    names = {what: f"deeppipe-{what}" for what in ("both", "encoders", "aggregation", "neither")}
    if not all(whole(results, name) for name in names.values()):
        return
    yield from _best(results, names["both"])
    last = results.evaluations
    for one, other in (("both", "neither"), ("encoders", "neither"), ("aggregation", "neither")):
        yield against(results, names[one], names[other], last, paper="below")
    yield against(results, names["encoders"], names["aggregation"], last, paper="below")


def _factor(results: Results) -> Iterator[str]:
    if whole(results, "deeppipe-factor8"):
        yield from _best(results, "deeppipe-factor8")
        for factor in deeppipe.FACTORS:
            if factor != 8 and whole(results, f"deeppipe-factor{factor}"):
                yield against(results, "deeppipe-factor8", f"deeppipe-factor{factor}", results.evaluations)


def _zap(results: Results) -> Iterator[str]:
    method = "deeppipe-encoders1"
    if whole(results, method):
        yield from _best(results, method)
        for other in ("deeppipe-encoders0", "deeppipe-alone-encoders1", "deeppipe-alone-encoders0"):
            if whole(results, other):
                yield against(results, method, other, results.evaluations, paper="below")


def _few_lines(folder: Path, path: Path) -> Iterator[str]:
    """Lines of the section on few training tasks."""
    del folder
    results = Results.load(path)
    ranked = Ranked(results, deeppipe.FEW_TASKS.groups)
    yield sizes(results)
    yield from settings_of(results)
    yield from learned_from(results)
    yield ranked.table().title + ", by the share of training tasks:\n"
    yield ranked.table().markdown()
    yield "Mean regret:\n"
    yield from table(results)
    yield ""
    yield from here(_few_said(ranked))


def _few_said(ranked: Ranked) -> Iterator[str]:
    columns = ranked.there
    places = {
        part: dict(zip(group, overall_ranks(ranked.results, list(group.values())), strict=True))
        for part, group in columns.items()
    }
    for part, found in places.items():
        lowest = min(found, key=lambda row: found[row].mean())
        yield f"With {part} of the tasks the network with {lowest} has the best mean rank."
    if len(columns) > 1:
        least, *_, most = places.values()
        yield _best_encoders("the deepest encoders", "the fewest tasks", least, list(least)[-1])
        yield _best_encoders("no encoders", "all tasks", most, next(iter(most)))


def _best_encoders(these: str, tasks: str, places: Mapping[str, Array], row: str) -> str:
    """Whether a row has the best mean rank, as in the paper."""
    others = {other: places[row] - found for other, found in places.items() if other != row}
    ahead = sorted((other for other, found in others.items() if found.mean() > 0), key=lambda o: places[o].mean())
    end = best_in_the_paper({other: surely(found) for other, found in others.items()}, ahead, "they are")
    if not ahead:
        return f"{these.capitalize()} are best with {tasks}{end}."
    return f"With {tasks} {these} have a worse mean rank than {', '.join(f'`{o}`' for o in ahead)}{end}."


def _new_lines(folder: Path, path: Path) -> Iterator[str]:
    """Lines of the section on new algorithms."""
    del folder
    results = Results.load(path)
    ranked = Ranked(results, deeppipe.NEW_ALGORITHM.groups(results.meta))
    yield sizes(results)
    yield from settings_of(results)
    ours = ranked.table()
    theirs = PAPER_RANKS.get(results.meta, {})
    rows = []
    for k, (row, *cells) in enumerate(ours.rows):
        both = zip(ours.columns[1:], cells, strict=True)
        rows.append([row, *(f"{cell} ({theirs[e][k]:.2f})" if e in theirs else cell for e, cell in both)])
    yield f"{ours.title}; in brackets what the paper has:\n"
    yield Table("", ours.columns, rows).markdown()
    yield from here(_new_said(ranked, theirs))


def _new_said(ranked: Ranked, theirs: Mapping[str, tuple[float, ...]]) -> Iterator[str]:
    columns = ranked.there
    if not columns:
        return
    places = {e: overall_ranks(ranked.results, [group[row] for row in ROWS]) for e, group in columns.items()}
    means = {e: dict(zip(ROWS, found.mean(axis=1), strict=True)) for e, found in places.items()}
    of = len(columns)
    best = sum(min(found, key=lambda row: found[row]) == KNOWN for found in means.values())
    yield (
        f"The surrogate that knows the algorithm has the best mean rank for {best} of {of} estimators; in the paper it "
        "has for all."
    )
    for other in (PLAIN, UNTRAINED, LEFT_OUT, KNOWN):
        below = sum(found[ENCODED] < found[other] for found in means.values())
        pairs = [(found[ROWS.index(ENCODED)], found[ROWS.index(other)]) for e, found in theirs.items() if e in columns]
        apart = np.mean([found[ROWS.index(ENCODED)] - found[ROWS.index(other)] for found in places.values()], axis=0)
        width = half_width(apart)
        yield (
            f"“{ENCODED}” is better than “{other}” for {below} of {of} estimators, in the paper for "
            f"{sum(one < two for one, two in pairs)} of these; mean difference of ranks, over estimators and paired by "
            f"task: {apart.mean():+.2f} ± {shown(None if np.isnan(width) else float(width), '.2f')}."
        )


def _cluster_lines(folder: Path, path: Path) -> Iterator[str]:
    """Lines of the section on random embeddings."""
    from experiments.plots import plot_clusters

    found = Clustered.load(path)
    plot_clusters(found, folder / f"{path.stem}.png")
    settings = found.settings
    yield (
        f"{len(found.estimator):,} pipelines of the {len(found.estimators)} estimators with the most, drawn with seed "
        f"0; F = {settings['factor']}, {settings['total']} layers in all, Z = {settings['outputs']}; all weights and "
        f"biases from N(0, 1), seeds 0 to {settings['networks'] - 1}; the metric is over all triples, ± over networks. "
        "The pictures (t-SNE) are of the networks with seed 0, without one-hot choices.\n"
    )
    yield f"![Random embeddings by estimator]({path.stem}.png)\n"
    yield found.table().markdown()
    yield from here(_cluster_said(found))


def _cluster_said(found: Clustered) -> Iterator[str]:
    for choice, values in found.metrics.items():
        means, _ = found.means(choice)
        grows = bool((np.diff(means) > 0).all())
        figures = ", ".join(f"{mean:.3f} with {layers}" for mean, layers in zip(means, found.layers, strict=True))
        networks = np.array(values, dtype=np.float64)
        steps = [higher(after, before) for before, after in pairwise(networks)]
        yield (
            f"{choice.capitalize()} one-hot choices the metric {'grows' if grows else 'does not grow'} with each "
            f"encoder layer, {all_the_way(grows, steps)} (Mann and Whitney's test): {figures}."
        )
        none, one = networks[:2]
        share = float((one[:, None] > none[None, :]).mean())
        yield (
            f"A random network with {found.layers[1]} encoder layer has a higher metric than one with "
            f"{found.layers[0]} in {share:.0%} of all pairs (corollary H.4 has it in expectation)."
        )


def _embedding_lines(folder: Path, path: Path) -> Iterator[str]:
    """Lines of the section on learned embeddings."""
    from experiments.plots import plot_flat

    points = Points.load(path)
    plot_flat(points, folder / f"{path.stem}.png")
    yield (
        f"{len(points.points):,} pipelines, drawn at random, in the {points.latent} dimensions of `{points.method}`, "
        "in units of the kernel's length scales; the pictures by t-SNE, the figures by the ten nearest neighbours in "
        "all dimensions. The tasks are the first two test tasks.\n"
    )
    yield f"![Learned embeddings by algorithm and by loss]({path.stem}.png)\n"
    yield points.table().markdown()
    said = []
    for stage in (None, *points.stages):
        same, chance = points.alike(stage)
        clusters = f"there are clusters, {as_in_the_paper(True)}"
        said.append(
            f"{same:.0%} of a pipeline's neighbours have its {stage or 'estimator'}, by chance it would be "
            f"{chance:.0%}: {clusters if points.p_alike(stage) < LEVEL else 'that is not more than chance'}."
        )
    yield from here(said)


SECTIONS = (
    Section(
        "deeppipe_alone",
        "Without other tasks (experiment 1, figures 2 and 12)",
        "DeepPipe has the best mean rank of the methods without transfer, SMAC is second. `forest` stands in for SMAC. "
        "The paper tunes the network for 10,000 steps; here they are 480 in all for each task, 8 at a time. F = 6 "
        "(in the paper 8 on Tensor-OBOE), one encoder layer.",
        compared(_alone, ALONE),
        ("tensor_oboe", "zap"),
    ),
    Section(
        "deeppipe_transfer",
        "Transfer (experiment 2, figures 3 and 13)",
        "DeepPipe strongly outperforms all methods with transfer on all meta-datasets.",
        compared(_transfer, METHOD),
        ("tensor_oboe", "zap"),
    ),
    Section(
        "deeppipe_live",
        "Live searches within a time (experiment 3, table 1)",
        "DeepPipe has the best mean rank after ten minutes and after an hour, and observes about as many pipelines as "
        "the others.",
        deeppipe_live.lines,
    ),
    Section(
        "deeppipe_new_algorithm",
        "A new algorithm (experiment 4, tables 3 and 4)",
        "the surrogate that knows the algorithm is best in all cases; of those that do not, the one that trains a new "
        "encoder. Of the tables' estimators these are the first four.",
        _new_lines,
        ("pmf",),
    ),
    Section(
        "deeppipe_cluster",
        "Clusters in random embeddings (experiment 5, figure 4)",
        "pipelines with the same estimator lie closer together the more encoder layers a random network has.",
        _cluster_lines,
    ),
    Section(
        "deeppipe_few_tasks",
        "Few training tasks (experiment 5, figure 5)",
        "deeper encoders are better with few training tasks, shallower ones or none with many. Ranks are among the "
        "three networks of a column, mean over tasks and evaluations.",
        _few_lines,
    ),
    Section(
        "deeppipe_layers",
        "Encoder and aggregation layers (figure 8)",
        "encoders and aggregation together are best, neither is worst, and encoders alone are better than aggregation "
        "alone. Here encoders are one layer, and aggregation is three layers beside them, four without.",
        compared(_layers, "deeppipe-both"),
    ),
    Section(
        "deeppipe_factor",
        "Width (figures 10 and 11)",
        "F = 8 is the best after 100 pipelines on both meta-datasets.",
        compared(_factor, "deeppipe-factor8"),
        ("pmf",),
    ),
    Section(
        "deeppipe_zap",
        "Transfer and encoders on ZAP (figure 14)",
        "the version with transfer and one encoder layer is the best.",
        compared(_zap, "deeppipe-encoders1"),
    ),
    Section(
        "deeppipe_embedding",
        "Learned embeddings (figures 6 and 7)",
        "pipelines with the same estimator and with the same dimensionality reducer form clusters; good pipelines lie "
        "close together, in other places on another task.",
        _embedding_lines,
    ),
)
