"""Experiments of the DMFBS paper (Jomaa, Schmidt-Thieme & Grabocka, 2021), by name.

==================  ===========================================================================================
table 4, figure 3   `dmfbs_sequential`: searches of 100 configurations that all begin with the same one;
                    `dmfbs_splits`: fewer methods, on all five splits
table 5             `dmfbs_objectives`: what the terms of the objective are worth, before anything is observed
table 6             `dmfbs_zero_shot`: first choices of methods that have observed nothing
figure 4            `dmfbs_start`: a Gaussian process after five configurations that another method chose
figure 1            `dmfbs_surfaces`: losses of a dataset, and what is predicted of them beforehand
==================  ===========================================================================================

The others are of one of the paper's five splits. All are on the test datasets whose tables there are; ``--meta`` takes
the other meta-dataset. Figures are 100 times regrets of losses that lie between 0 and 1 on every dataset, as in the
paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.comparison import Compared
from experiments.experiment import Experiment, Setup, Table, known
from experiments.starts import FromStarts
from experiments.trained import learned
from headstart.errors import InvalidInput
from headstart.evaluation.recorded import recorded_task
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources import dmfbs as source
from headstart.metafeatures.tables import with_metafeatures
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.base import Optimizer
from headstart.optimizers.warm_start import with_warm_start
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method
from headstart.replay.results import Results, Saved, half_width, ranks, rounded, shown, wilcoxon
from headstart.replay.runner import given_to, replay, run_method, seed_of_run
from headstart.replay.variants import warm_started

Array = NDArray[np.float64]
Labelled = Mapping[str, str]
"""Methods by what they are called in a table; the first is compared with the others."""
Published = Mapping[str, Mapping[str, Sequence[float]]]
"""The paper's figures by meta-dataset and label."""

STEPS = 60
"""Of Reptile in all trainings; the paper has at most 500, and goes a fiftieth as far at each."""
_DMFBS = f"dmfbs(steps={STEPS}"
_ZERO_SHOT = f"{_DMFBS}, fine_tune=none)"
_NEAREST = "nearest(metafeatures={}, neighbours=1, distance=l2)"
ZERO_SHOT = {
    "DMFBS": _ZERO_SHOT,
    "Random": "random",
    "Average rank": "average_rank",
    "NN⟨MF1⟩": _NEAREST.format("mf1"),
    "NN⟨MF2⟩": _NEAREST.format("mf2"),
    "NN⟨D2V⟩": _NEAREST.format("dataset2vec"),
    "Ellipsoid": "ellipsoid",
}
_SETS = {"MF1": "mf1", "MF2": "mf2", "D2V": "dataset2vec"}
_PLAIN = "manifold=0, identification=0, fine_tune=none"
OBJECTIVES = {
    "DMFBS, all three terms": _ZERO_SHOT,
    "DMFBS, without identification": f"{_DMFBS}, identification=0, fine_tune=none)",
    "DMFBS, quadratic loss alone": f"{_DMFBS}, {_PLAIN})",
    **{f"MFBS⟨{name}⟩, manifold": f"{_DMFBS}, metafeatures={mf}, fine_tune=none)" for name, mf in _SETS.items()},
    **{f"MFBS⟨{name}⟩, quadratic": f"{_DMFBS}, metafeatures={mf}, {_PLAIN})" for name, mf in _SETS.items()},
}
SEQUENTIAL = {
    "DMFBS": f"{_DMFBS})",
    "Random": "random",
    "DMFBS-RI": "dmfbs(steps=0)",
    "DMFBS, zero-shot": _ZERO_SHOT,
    "SMFO": "smfo",
    "TST-R": "tst_r",
    "TST-D2V": "tst_d2v",
    "RGPE": "rgpe",
    "TAF-R": "taf_r",
    "FSBO": "fsbo",
    "ABLR": "ablr",
    "DMFBS, all tuned": f"{_DMFBS}, fine_tune=all, fine_tune_steps=5)",
}
FOLDS = {label: SEQUENTIAL[label] for label in ("DMFBS", "Random", "DMFBS-RI", "DMFBS, zero-shot", "SMFO", "TAF-R")}
_LAYOUT, _REGULARIZATION = "dmfbs_layout", "dmfbs_regularization"
_READ: dict[str, Callable[..., MetaDataset]] = {_LAYOUT: source.layout, _REGULARIZATION: source.regularization}
PUBLISHED_SEQUENTIAL: Published = {
    _LAYOUT: {
        "Random": (5.221, 3.449, 2.225),
        "SMFO": (3.723, 2.400, 1.382),
        "TST-R": (3.582, 1.796, 1.140),
        "TST-D2V": (3.353, 1.725, 1.095),
        "RGPE": (2.637, 1.550, 1.132),
        "ABLR": (4.723, 2.536, 1.603),
        "TAF-R": (3.598, 2.725, 2.725),
        "FSBO": (4.159, 1.796, 0.974),
        "DMFBS-RI": (3.422, 1.969, 1.140),
        "DMFBS": (2.169, 1.438, 0.705),
    },
    _REGULARIZATION: {
        "Random": (6.044, 3.987, 3.014),
        "SMFO": (3.077, 1.995, 1.105),
        "TST-R": (3.738, 1.807, 1.033),
        "TST-D2V": (3.110, 1.581, 1.157),
        "RGPE": (2.831, 1.397, 0.739),
        "ABLR": (4.771, 2.428, 1.618),
        "TAF-R": (3.416, 2.007, 2.007),
        "FSBO": (3.477, 2.436, 0.981),
        "DMFBS-RI": (3.504, 2.464, 1.570),
        "DMFBS": (3.079, 1.153, 0.669),
    },
}
PUBLISHED_OBJECTIVES: Published = {
    _LAYOUT: {
        "DMFBS, all three terms": (10.605, 5.263),
        "DMFBS, without identification": (11.388, 5.662),
        "DMFBS, quadratic loss alone": (10.952, 5.952),
        "MFBS⟨MF1⟩, manifold": (13.238, 7.262),
        "MFBS⟨MF2⟩, manifold": (12.499, 6.223),
        "MFBS⟨D2V⟩, manifold": (12.367, 6.596),
        "MFBS⟨MF1⟩, quadratic": (13.146, 7.100),
        "MFBS⟨MF2⟩, quadratic": (11.755, 7.004),
        "MFBS⟨D2V⟩, quadratic": (11.441, 5.573),
    },
    _REGULARIZATION: {
        "DMFBS, all three terms": (10.998, 4.857),
        "DMFBS, without identification": (10.536, 5.025),
        "DMFBS, quadratic loss alone": (10.077, 4.941),
        "MFBS⟨MF1⟩, manifold": (12.061, 5.421),
        "MFBS⟨MF2⟩, manifold": (11.293, 5.671),
        "MFBS⟨D2V⟩, manifold": (12.044, 6.660),
        "MFBS⟨MF1⟩, quadratic": (11.418, 5.709),
        "MFBS⟨MF2⟩, quadratic": (13.175, 5.263),
        "MFBS⟨D2V⟩, quadratic": (11.673, 6.221),
    },
}
PUBLISHED_ZERO_SHOT: Published = {
    _LAYOUT: {
        "Random": (13.752, 6.664),
        "Average rank": (13.103, 6.660),
        "NN⟨MF1⟩": (14.611, 6.407),
        "NN⟨MF2⟩": (12.981, 6.578),
        "NN⟨D2V⟩": (11.733, 5.906),
        "Ellipsoid": (11.240, 6.070),
        "DMFBS": (10.605, 5.263),
    },
    _REGULARIZATION: {
        "Random": (14.931, 8.351),
        "Average rank": (10.999, 5.152),
        "NN⟨MF1⟩": (14.098, 6.775),
        "NN⟨MF2⟩": (13.600, 7.143),
        "NN⟨D2V⟩": (11.959, 5.899),
        "Ellipsoid": (11.289, 4.930),
        "DMFBS": (10.998, 4.857),
    },
}


def with_tables(meta: MetaDataset, partition: Partition) -> Partition:
    """The same with those test tasks alone that have a table, so that all methods are compared on the same ones."""
    test = tuple(task for task in partition.test if meta.tables[task] is not None)
    if not test:
        raise InvalidInput(f"no test task of {meta.name!r} has a table; name the folder with them: --data DIR")
    return replace(partition, name=f"{partition.name}, with tables", test=test)


def ready(method: Method, meta: MetaDataset, partition: Partition) -> Optimizer:
    """A method that has learned; what DMFBS learned is kept, for several experiments want the same."""
    made = method.make()
    meta, _ = with_metafeatures(meta, made.needs.metafeatures, partition.train)
    learning = partition.learning(meta)
    return learned(method, learning) if method.name == "dmfbs" else made.meta_fit(learning)


@dataclass(frozen=True)
class Normalised(Compared):
    """Results beside those of the paper.

    Parameters
    ----------
    labels
        Methods by label; those that were not run are left out.
    at
        After how many evaluations regrets and ranks are shown.
    published
        The paper's regrets after so many.
    """

    labels: Labelled = field(default_factory=dict)
    at: Sequence[int] = ()
    published: Published = field(default_factory=dict)

    def table(self) -> Table:
        from experiments.pages import holm  # pages know all experiments, this one too

        ran = {label: name for label, name in self.labels.items() if name in self.results.methods}
        curves = np.stack([100.0 * self.results.curves(name) for name in ran.values()])
        at = [e for e in self.at if e <= self.results.evaluations]
        places, last, own = ranks(list(curves)), at[-1] - 1, next(iter(ran))
        p = holm({label: wilcoxon(curve[:, last], curves[0][:, last]) for label, curve in zip(ran, curves, strict=True)
                  if label != own})  # fmt: skip
        theirs = self.published.get(self.results.meta, {})
        rows = []
        for label, curve, place in zip(ran, curves, places, strict=True):
            cells = [f"{curve[:, e - 1].mean():.2f} ± {half_width(curve[:, e - 1]):.2f}" for e in at]
            rank = " / ".join(f"{place[:, e - 1].mean():.2f}" for e in at)
            paper = " / ".join(f"{value:.2f}" for value in theirs.get(label, ())) or "–"
            rows.append([label, *cells, rank, "" if label == own else f"{p[label]:.2g}", paper])
        title = f"{self.results.meta}, {self.results.split}: normalised regret over {len(self.results.tasks)} tasks"
        return Table(title, ["", *(f"@{e}" for e in at), "ranks", f"p at {at[-1]}", "paper"], rows)


@dataclass(frozen=True)
class Sequential:
    """Searches from the same configuration (table 4).

    Parameters
    ----------
    labels, at, published
        See `Normalised`.
    """

    labels: Labelled
    at: Sequence[int]
    published: Published

    def run(self, setup: Setup) -> Normalised:
        partition = with_tables(setup.meta, setup.partition)
        for text in self.labels.values():
            method = Method.parse(text)
            kept = {text: ready(method, setup.meta, partition)} if method.name == "dmfbs" else None
            replay(
                setup.meta,
                [method],
                partition,
                evaluations=setup.evaluations or 100,
                jobs=setup.jobs,
                out=setup.out,
                progress=setup.progress,
                trained=kept,
            )
        return self.load(setup.out)

    def load(self, path: Path) -> Normalised:
        return Normalised(Results.load(path), {}, self.labels, self.at, self.published)


@dataclass(frozen=True)
class Folds:
    """Searches on the test datasets of all splits, after learning from the training datasets of each (table 4).

    Each split has a file of its own beside the results, which are those of the splits that are finished.

    Parameters
    ----------
    labels, at, published
        See `Normalised`.
    splits
        How many, from the first on.
    """

    labels: Labelled
    at: Sequence[int]
    published: Published
    splits: int = 5

    def run(self, setup: Setup) -> Normalised:
        finished: list[Results] = []
        for split in range(self.splits):
            meta = _READ[setup.meta.name](setup.data, split)
            piece = setup.out.with_name(f".{setup.out.stem}.{split}.partial")
            one = replace(setup, meta=meta, partition=Partition.of(meta, "test"), out=piece)
            finished.append(Sequential(self.labels, self.at, self.published).run(one).results)
            _together(finished, self.labels.values()).save(setup.out)
        return self.load(setup.out)

    def load(self, path: Path) -> Normalised:
        return Normalised(Results.load(path), {}, self.labels, self.at, self.published)


def _together(splits: Sequence[Results], methods: Iterable[str]) -> Results:
    """Results on the test tasks of all these splits; no task is in two of them."""
    first, tasks = splits[0], [task for one in splits for task in one.tasks]
    names = [name for one in splits for name in one.names]
    name = f"test of {len(splits)} splits, with tables" if len(splits) > 1 else first.split
    found = Results(first.meta, name, first.evaluations, first.seeds, tasks, names)
    for method in methods:
        entries = [one.methods[method] for one in splits]
        seconds = float(np.mean([entry["seconds_per_suggestion"] for entry in entries]))
        facts = {fact: entries[0][fact] for fact in ("settings", "versions")}
        curves = [curve for one in splits for curve in one.curves(method)]
        steps = [entry["steps"] for entry in entries if "steps" in entry]
        found.add(method, curves, **facts, seconds_per_suggestion=seconds, **({"steps": steps} if steps else {}))
    return found


@dataclass(frozen=True)
class FirstPicks:
    """What methods choose first, before they know any result (tables 5 and 6).

    Parameters
    ----------
    labels, at, published
        See `Normalised`; so many choices as the last of `at`.
    seeds
        Runs on each task, for methods that draw at random.
    """

    labels: Labelled
    published: Published
    at: Sequence[int] = (5, 20)
    seeds: int = 3

    def run(self, setup: Setup) -> Normalised:
        meta, partition = setup.meta, with_tables(setup.meta, setup.partition)
        tasks = list(partition.test)
        results = Results(meta.name, partition.name, self.at[-1], self.seeds, tasks, [meta.tasks[i] for i in tasks])
        results = results.in_file(setup.out)
        for text in self.labels.values():
            method = Method.parse(text)
            results = run_method(
                results,
                text,
                method.make().describe(),
                given_to(meta, partition, {}),
                {f"task {task}, seed {seed}": (task, seed) for task in tasks for seed in range(self.seeds)},
                partial(_shared, method, meta, partition, self.at[-1]),
                _first_picks,
                out=setup.out,
                jobs=setup.jobs,
                progress=setup.progress,
            )
        return self.load(setup.out)

    def load(self, path: Path) -> Normalised:
        return Normalised(Results.load(path), {}, self.labels, self.at, self.published)


def _shared(method: Method, meta: MetaDataset, partition: Partition, n: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    optimizer = ready(method, meta, partition)
    meta, _ = with_metafeatures(meta, optimizer.needs.metafeatures, partition.train)
    return (optimizer, meta, n), {"learned": optimizer.meta_key}


def _first_picks(optimizer: Optimizer, meta: MetaDataset, n: int, cell: tuple[int, int]) -> dict[str, Any]:
    """Regrets of the first n choices on a task."""
    task = recorded_task(meta, cell[0], (), table=optimizer.needs.table)
    chosen = with_warm_start(task, optimizer, n, seed_of_run(*cell)).initial
    losses = np.asarray(meta.loss_row(cell[0]), dtype=np.float64)
    found = np.minimum.accumulate(losses[meta.everything.rows([int(pipeline.id or 0) for pipeline in chosen])])
    found = np.concatenate([found, np.full(n - len(found), found[-1])]) - losses.min()
    return {"regrets": [float(regret) for regret in found], "seconds": 0.0, "suggestions": len(chosen)}


@dataclass
class Surface(Saved):
    """Losses of datasets and what was predicted of them before anything was observed.

    Parameters
    ----------
    meta, key
        Name and key of the meta-dataset.
    tasks, agreement
        Names of the test tasks, and rank correlation of losses and predictions on each.
    flat
        (P, 2) places of the configurations, by t-SNE.
    shown
        By name of a task: losses and predictions (P,), both scaled to [0, 1].
    """

    holds = "losses of datasets and predictions of them"
    meta: str
    key: str
    tasks: list[str]
    agreement: list[float | None]
    flat: list[list[float]]
    shown: dict[str, list[list[float | None]]]

    def table(self) -> Table:
        found = np.array(self.agreement, dtype=np.float64)
        cells = [
            shown(float(value), ".2f") for value in (found.mean(), half_width(found), *np.quantile(found, (0, 0.5, 1)))
        ]
        title = f"{self.meta}: rank correlation of losses and predictions over {len(found)} tasks"
        return Table(title, ["", "mean", "±", "lowest", "median", "highest"], [["DMFBS, zero-shot", *cells]])


@dataclass(frozen=True)
class Surfaces:
    """Figure 1: losses and predictions over all configurations.

    Parameters
    ----------
    method
        What predicts.
    drawn
        How many tasks are drawn: those at evenly spaced ranks of the agreement, from the median on.
    """

    method: str
    drawn: int = 2

    def run(self, setup: Setup) -> Surface:
        from scipy.stats import spearmanr
        from sklearn.manifold import TSNE

        meta, partition = setup.meta, with_tables(setup.meta, setup.partition)
        tasks = [meta.tasks[task] for task in partition.test]
        before = known(Surface, setup.out, meta=meta.name, key=meta.key, tasks=tasks)
        if before is not None:
            return before
        surrogate = ready(Method.parse(self.method), meta, partition).part("surrogate")
        predicted = []
        with one_blas_thread():
            for task in partition.test:
                described = recorded_task(meta, task, (), table=surrogate.needs.table)
                model = surrogate.start(described).fit(_nothing(described))
                predicted.append(model.predict(meta.pipelines).mean)
            flat = TSNE(random_state=0, perplexity=20).fit_transform(meta.pipelines.features())
        losses = [np.asarray(meta.loss_row(task), dtype=np.float64) for task in partition.test]
        agreement = [float(spearmanr(*pair)[0]) for pair in zip(losses, predicted, strict=True)]
        order = np.argsort(agreement)
        some = order[np.linspace(len(order) // 2, len(order) - 1, self.drawn).round().astype(int)]
        surfaces = {tasks[i]: [rounded(_unit(losses[i])), rounded(_unit(predicted[i]))] for i in some}
        places = [[round(float(x), 2) for x in row] for row in flat]
        found = Surface(meta.name, meta.key, tasks, rounded(np.array(agreement)), places, surfaces)
        found.save(setup.out)
        return found

    load = staticmethod(Surface.load)


def _nothing(task: Any) -> Any:
    from headstart.history import History

    return History(task.candidates)


def _unit(values: Array) -> Array:
    return np.asarray((values - values.min()) / max(float(np.ptp(values)), 1e-12))


_GP = "gp(kernel=squared_exponential)"
_STARTS = {"random": "random", "NN⟨MF1⟩": _NEAREST.format("mf1"), "NN⟨D2V⟩": _NEAREST.format("dataset2vec")}
_STARTS["DMFBS"] = _ZERO_SHOT
_FROM = {label: warm_started(text, name=f"start{i}", learn=ready) for i, (label, text) in enumerate(_STARTS.items())}


@dataclass(frozen=True)
class Started:
    """Figure 4: the same search from several starts, on the tasks that have tables."""

    searches: FromStarts

    def run(self, setup: Setup) -> Compared:
        return self.searches.run(replace(setup, partition=with_tables(setup.meta, setup.partition)))

    def load(self, path: Path) -> Compared:
        return self.searches.load(path)


START = FromStarts(
    [(_GP, [_FROM["DMFBS"], _FROM["random"], _FROM["NN⟨MF1⟩"], _FROM["NN⟨D2V⟩"]])],
    {
        "a Gaussian process after five configurations by": {
            label: _FROM[label].called(Method.parse(_GP)).text for label in ("DMFBS", "random", "NN⟨MF1⟩", "NN⟨D2V⟩")
        }
    },
    at=(5, 10, 20),
)

EXPERIMENTS = {
    "dmfbs_sequential": Experiment(
        "DMFBS, table 4: searches from the same configuration",
        Sequential(SEQUENTIAL, (10, 33, 67, 100), PUBLISHED_SEQUENTIAL),
        _LAYOUT,
        evaluations=100,
    ),
    "dmfbs_splits": Experiment(
        "DMFBS, table 4: searches on the test datasets of all five splits",
        Folds(FOLDS, (10, 33, 67, 100), PUBLISHED_SEQUENTIAL),
        _LAYOUT,
        evaluations=100,
    ),
    "dmfbs_zero_shot": Experiment(
        "DMFBS, table 6: first choices before anything is observed",
        FirstPicks(ZERO_SHOT, PUBLISHED_ZERO_SHOT),
        _LAYOUT,
    ),
    "dmfbs_objectives": Experiment(
        "DMFBS, table 5: terms of the objective, and fixed meta-features",
        FirstPicks(OBJECTIVES, PUBLISHED_OBJECTIVES),
        _LAYOUT,
    ),
    "dmfbs_surfaces": Experiment(
        "DMFBS, figure 1: losses of a dataset and what is predicted of them", Surfaces(_ZERO_SHOT), _LAYOUT
    ),
    "dmfbs_start": Experiment(
        "DMFBS, figure 4: a Gaussian process after the choices of others", Started(START), _LAYOUT, evaluations=50
    ),
}
