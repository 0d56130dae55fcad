"""`LiveComparison`: methods that search for a pipeline on raw tables, each within the same seconds.

What learns from other tasks learns once, from the meta-dataset's training and validation tasks; no table is among them.
What was learned is kept in a file beside the results until the method has been run on all tables. So a run that was
killed goes on table by table.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from experiments.live_tables import RawTable, ReadTable, TableRule, check_unknown, read_table
from experiments.live_tpot import Budget, Step, Tpot, load_tpot
from headstart.errors import InvalidInput, MissingDependency
from headstart.evaluation.live import LiveObjective, fit_model
from headstart.evaluation.objective import Objective, outcome_of
from headstart.evaluation.prediction import predict_model
from headstart.evaluation.sandbox import Sandbox
from headstart.evaluation.scoring import Metric
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources.extras import TABLES
from headstart.optimizers.base import Optimizer, evaluation_seed
from headstart.optimizers.warm_start import N_INITIAL
from headstart.replay.protocol import Method
from headstart.replay.results import MethodResults, half_width, ranks, rounded, shown
from headstart.replay.runner import run_method, seed_of_run
from headstart.space import Candidates, catalog
from headstart.space.distinct import distinct
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.study import Study
from headstart.task import Task
from headstart.trials import FULL, Fidelity, Limits, Outcome

Array = NDArray[np.float64]
TPOT = "tpot"
METRIC = "balanced_accuracy"
"""By which pipelines are judged, while searching and on the test rows."""
FOLDS, TEST = 3, 1 / 3
"""By which they are judged while searching, and the share of rows that test what was found."""
LIMITS = Limits(15.0, 3_000_000_000)
"""Of one evaluation."""
SEED = 0
_REFIT_TIMES = 5
"""A pipeline that was judged in time may take so many times an evaluation's limit to be fitted to all rows."""
_MEANS = {"scores": "score", "observed": "observed", "failed": "failed"}


@dataclass
class LiveResults(MethodResults):
    """Scores on test rows and numbers of pipelines of methods on the same tables, after each budget.

    Saved as one JSON file::

        {"meta": "tensor_oboe", "space": "tensor_oboe", "metric": "balanced_accuracy", "budgets": [60, 300],
         "tables": [{"id": "6", "name": "letter", "rows": 5000, "columns": 16, "classes": 26}, …], "about": {…},
         "methods": {"deeppipe": {"runs": [{"scores": […], "validation": […], "observed": […], "failed": […]}, …],
                                  "rank_mean": […], "rank_ci": […], "observed_mean": […], …}}}

    ``runs`` are those on the tables, in their order, ``None`` where a method could not be run. Lists in them, and
    means, have a number for each budget; ``*_ci`` are half widths of 95 % intervals over tables.
    """

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
        places = ranks([-self.values(name, "scores") for name in ran]) if ran else ()
        for name, of_it in zip(ran, places, strict=True):
            means = {"rank": of_it} | {called: self.values(name, what) for what, called in _MEANS.items()}
            for called, values in means.items():
                self.methods[name][f"{called}_mean"] = rounded(values.mean(axis=0))
                self.methods[name][f"{called}_ci"] = rounded(half_width(values))

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
        columns, rows = ["method"], [[name] for name in self.by_rank()]
        for b, budget in enumerate(self.budgets):
            columns += [f"rank, {budget:g} s", "pipelines", "score"]
            for row, (what, form) in product(rows, {"rank": ".2f", "observed": ".0f", "score": ".4f"}.items()):
                entry = self.methods[row[0]]
                row.append(f"{shown(entry[f'{what}_mean'][b], form)} ± {shown(entry[f'{what}_ci'][b], form)}")
        return Table(f"{self.space}, {len(self.tables)} tables: means ± half widths of 95 % intervals", columns, rows)


@dataclass(frozen=True)
class LiveComparison:
    """An experiment on raw tables.

    Parameters
    ----------
    methods
        See `headstart.replay.protocol.Method.parse`; or ``tpot``, the search of that package, with settings of
        `Tpot` if wanted. They are run in this order.
    warm
        Those of the methods that begin with the same five pipelines: greedy on the training tasks.
    space
        What is searched: the name of a space of the catalog, or a space. All pipelines of the meta-dataset are in it.
    rule
        Which tables of ``pmf_tables`` in the folder with the data.
    about_rule
        The rule in a sentence, for the page.
    budgets
        Seconds after which methods are compared, in ascending order. There is one search, of the last of them.
    acquisition
        Of methods that are Bayesian optimisation and whose text names none. Seconds are what is short here, so the
        default counts those that a pipeline is expected to take.
    max_rows
        How many rows of a larger table are drawn.
    evaluations
        Most pipelines of a search, beside its seconds.
    sandbox
        Evaluate in processes of their own; without, limits are not kept.
    """

    methods: Sequence[str]
    warm: Sequence[str] = ()
    space: str | PipelineSpace = "tensor_oboe"
    rule: TableRule = field(default_factory=TableRule)
    about_rule: str = ""
    budgets: tuple[float, ...] = (60.0, 300.0)
    acquisition: str = "log_ei_per_second"
    max_rows: int = 2_000
    evaluations: int | None = None
    sandbox: bool = True

    def run(self, request: Setup) -> LiveResults:
        """Run all of it, or go on; the file holds `LiveResults`."""
        if request.data is None:
            raise InvalidInput(f"{request.name} is on raw tables: give --data DIR, a folder with {TABLES}/")
        meta = request.meta.changed(metafeatures={})  # tables that are new have none
        learning = request.partition.learning(meta)
        tables = self.rule.choose(request.data / TABLES, meta, request.tables)
        check_unknown(tables, learning)
        for text in self.methods:
            self.make(text)
        budgets = self.budgets
        if request.seconds is not None:
            budgets = (*(b for b in budgets if b < request.seconds), request.seconds)
        space = catalog.load(self.space) if isinstance(self.space, str) else self.space
        if space != meta.pipelines.space:
            raise InvalidInput(f"the pipelines of meta-dataset {meta.name!r} must be those of space {space.name!r}")
        resolved = replace(self, budgets=budgets, space=space)
        initial = tuple(self._initial(meta, request))
        results = resolved._empty(meta, len(initial), tables).in_file(request.out)
        for text in self.methods:
            begin, settings = initial if text in self.warm else (), self.make(text).describe()
            given = resolved.key(learning, begin)
            key = hashlib.sha256(json.dumps([settings, given], sort_keys=True).encode()).hexdigest()[:8]
            knowledge = request.out.with_name(f"{request.out.name}.{Method.parse(text).name}-{key}.npz")
            results = run_method(
                results,
                text,
                settings,
                given,
                {table.id: table for table in tables},
                partial(resolved._learned, text, learning, knowledge, begin),
                run_table,
                out=request.out,
                jobs=request.jobs,
                progress=request.progress,
                skipped=MissingDependency,
            )
            knowledge.unlink(missing_ok=True)
        return results

    load = staticmethod(LiveResults.load)

    def make(self, text: str) -> Optimizer | Tpot:
        """A method as its text says, before it has learned anything."""
        from headstart.optimizers.bayes import Bayes

        method = Method.parse(text)
        if method.name == TPOT:
            try:
                return Tpot(**method.settings)
            except TypeError as error:
                raise InvalidInput(f"method {text!r} cannot be made: {error}") from error
        made = method.make()
        if isinstance(made, Bayes) and "acquisition" not in method.settings:
            made.acquisition = self.acquisition
        return made

    def _initial(self, meta: MetaDataset, request: Setup) -> list[Pipeline]:
        from headstart.optimizers.portfolio import greedy_portfolio

        if not self.warm:
            return []
        ids = greedy_portfolio(meta.select(request.partition.train), N_INITIAL)
        rows = meta.pipelines.take(meta.everything.rows(ids))
        return [Pipeline(p.algorithms, p.params) for p in rows]

    def _empty(self, meta: MetaDataset, n_initial: int, tables: Sequence[RawTable]) -> LiveResults:
        about = {"rule": self.about_rule, "warm": list(self.warm), "n_initial": n_initial, "max_rows": self.max_rows}
        about |= {"test": TEST, "folds": FOLDS, "evaluation_seconds": LIMITS.seconds, "acquisition": self.acquisition}
        about |= {"seed": SEED}
        facts = [{"id": table.id, "name": table.name, "rows": table.rows, "columns": table.columns} for table in tables]
        return LiveResults(meta.name, meta.pipelines.space.name, METRIC, list(self.budgets), facts, about)

    def _learned(
        self, text: str, learning: MetaDataset, knowledge: Path, initial: tuple[Pipeline, ...]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (prepared(self.make(text), learning, knowledge), self, initial), {}

    def key(self, learning: MetaDataset, initial: Sequence[Pipeline]) -> str:
        """A hash of all that a method is given."""
        settings = [LIMITS.seconds, LIMITS.bytes, METRIC, FOLDS, TEST, self.max_rows, self.evaluations, SEED]
        begin = [pipeline.to_dict() for pipeline in initial]
        content = json.dumps([learning.key, learning.pipelines.space.key, self.budgets, settings, begin])
        return hashlib.sha256(content.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ByOptimizer:
    """A study of an optimizer that has learned, one evaluation at a time; the objective is told the deadline."""

    optimizer: Optimizer

    def search(
        self, candidates: Candidates, objective: Objective, seed: int, budget: Budget, initial: Sequence[Pipeline]
    ) -> list[Step]:
        """The pipelines that were evaluated at full fidelity."""
        study = Study(Task(candidates, initial=initial), objective, self.optimizer, seed=seed, limits=budget.limits)
        began = time.time()
        history = study.run(seconds=budget.seconds, evaluations=budget.evaluations)
        return [
            Step(t.finished - began, t.outcome.loss, t.pipeline, evaluation_seed(seed, t.number))
            for t in history.full()
        ]


class Reading(NamedTuple):
    """A search as it was after some seconds: pipelines with a loss and those without, and the one of lowest loss."""

    observed: int
    failed: int
    best: Step | None


def read_off(steps: Sequence[Step], seconds: float) -> Reading:
    """What a search had found after so many of its seconds.

    >>> a, b, c = Pipeline(["a"]), Pipeline(["b"]), Pipeline(["c"])
    >>> steps = [Step(2.0, 0.3, a, 0), Step(4.0, None, b, 1), Step(9.0, 0.1, c, 2)]
    >>> read_off(steps, 5.0).observed, read_off(steps, 5.0).failed, read_off(steps, 10.0).best.pipeline.algorithms
    (1, 1, ('c',))
    """
    there = [step for step in steps if step.seconds <= seconds]
    found = [step for step in there if step.loss is not None]
    best = min(found, key=lambda step: (step.loss or 0.0, step.seconds)) if found else None
    return Reading(len(found), len(there) - len(found), best)


class Refit:
    """An objective: fit a pipeline to all rows that were searched on; its loss is that on the test rows.

    Parameters
    ----------
    space, table, metric
        As they were searched with.
    """

    def __init__(self, space: PipelineSpace, table: ReadTable, metric: str) -> None:
        data = table.dataset
        assert data.task is not None
        assert data.y is not None
        assert data.classes is not None
        self.space, self.table, self.metric = space, table, Metric(metric, data.task)
        self.y, self.n_classes = data.y, len(data.classes)

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:  # noqa: ARG002
        return outcome_of(lambda: self._loss(pipeline, seed))

    def _loss(self, pipeline: Pipeline, seed: int) -> float:
        data, train, test = self.table.dataset, self.table.train, self.table.test
        model = self.space.build(pipeline, seed, data.preparation)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit_model(model, data.X.iloc[train], self.y[train])
            predictions = predict_model(model, data.X.iloc[test], (self.n_classes,))
        return self.metric.loss(self.y[test], predictions)

    def without(self) -> float:
        """The score of what a search without any pipeline is left with: always the most frequent class."""
        predictions = np.zeros((len(self.table.test), self.n_classes))
        predictions[:, np.bincount(self.y[self.table.train].astype(np.int64)).argmax()] = 1.0
        return self.metric.score(self.y[self.table.test], predictions)


def run_table(
    searcher: ByOptimizer | Tpot, c: LiveComparison, initial: Sequence[Pipeline], table: RawTable
) -> dict[str, Any]:
    """Search on a table, and test what was found after each budget."""
    assert isinstance(c.space, PipelineSpace)
    ready = read_table(table, max_rows=c.max_rows, test=TEST, folds=FOLDS, seed=SEED)
    budget = Budget(c.budgets[-1], LIMITS, c.evaluations)
    objective: Objective = LiveObjective(c.space, ready.dataset, ready.splits, METRIC)
    refit = Refit(c.space, ready, METRIC)
    generous = Limits(_REFIT_TIMES * (LIMITS.seconds or 0.0), LIMITS.bytes)
    with ExitStack() as stack:
        if c.sandbox:
            objective = stack.enter_context(Sandbox(objective))
            objective.warm()
        candidates = distinct(c.space, ready.dataset)
        steps = searcher.search(candidates, objective, seed_of_run(int(table.id), SEED), budget, initial)
    readings = [read_off(steps, seconds) for seconds in c.budgets]
    scores: dict[Pipeline | None, float] = {None: refit.without()}
    for best in {reading.best.pipeline: reading.best for reading in readings if reading.best is not None}.values():
        with ExitStack() as stack:
            fit = stack.enter_context(Sandbox(refit)) if c.sandbox else refit
            loss = fit(best.pipeline, generous, best.seed).loss
        scores[best.pipeline] = scores[None] if loss is None else refit.metric.to_score(loss)
    bests = [reading.best for reading in readings]
    judged = [np.nan if best is None else refit.metric.to_score(best.loss or 0.0) for best in bests]
    return {
        "scores": rounded(np.array([scores[best and best.pipeline] for best in bests])),
        "validation": rounded(np.array(judged)),
        "observed": [reading.observed for reading in readings],
        "failed": [reading.failed for reading in readings],
        "best": [best and str(best.pipeline) for best in bests],
    }


def prepared(made: Optimizer | Tpot, learning: MetaDataset, knowledge: Path) -> ByOptimizer | Tpot:
    """A method that has learned from other tasks, or finds in a file what it has learned; else it leaves it there."""
    if isinstance(made, Tpot):
        load_tpot()
        return made
    if knowledge.exists():
        return ByOptimizer(Optimizer.load(knowledge))
    learned = made.meta_fit(learning)
    if learned.meta_key is not None:
        unfinished = knowledge.with_name(f"unfinished-{knowledge.name}")
        learned.save(unfinished)
        unfinished.replace(knowledge)
    return ByOptimizer(learned)
