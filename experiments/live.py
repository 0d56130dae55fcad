"""`LiveComparison`: methods that search for a pipeline on raw tables, each within the same seconds.

What learns from other tasks learns once, from the meta-dataset's training and validation tasks; no table is among them.
What was learned is kept in a file beside the results until the method has been run on all tables. So a run that was
killed goes on table by table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from experiments.experiment import Setup
from experiments.live_results import LiveResults
from experiments.live_search import Budget, ByOptimizer, Refit, Searcher, read_off
from experiments.live_tables import ReadTable, TableFile, TableRule, check_unknown, read_table
from experiments.live_tpot import Tpot, load_tpot
from headstart.errors import InvalidInput, MissingDependency
from headstart.evaluation.live import LiveObjective
from headstart.evaluation.objective import Objective
from headstart.evaluation.sandbox import Sandbox
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources.extras import TABLES
from headstart.optimizers.base import Optimizer
from headstart.replay.protocol import N_INITIAL, Method
from headstart.replay.runner import run_method
from headstart.space import catalog
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.trials import Limits

TPOT = "tpot"
_REFIT_TIMES = 5
"""A pipeline that was judged in time may take so many times an evaluation's limit to be fitted to all rows."""


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
    evaluation_seconds, evaluation_bytes
        Most of one evaluation.
    acquisition
        Of methods that are Bayesian optimisation and whose text names none. Seconds are what is short here, so the
        default counts those that a pipeline is expected to take.
    metric
        By which pipelines are judged, while searching and on the test rows.
    folds, test, max_rows
        How pipelines are judged while searching, the share of rows that test what was found, and how many rows of a
        larger table are drawn.
    evaluations
        Most pipelines of a search, beside its seconds.
    seed
        Of all that is drawn.
    sandbox
        Evaluate in processes of their own; without, limits are not kept.
    """

    methods: Sequence[str]
    warm: Sequence[str] = ()
    space: str | PipelineSpace = "tensor_oboe"
    rule: TableRule = field(default_factory=TableRule)
    about_rule: str = ""
    budgets: tuple[float, ...] = (60.0, 300.0)
    evaluation_seconds: float = 15.0
    evaluation_bytes: int = 3_000_000_000
    acquisition: str = "log_ei_per_second"
    metric: str = "balanced_accuracy"
    folds: int = 3
    test: float = 1 / 3
    max_rows: int = 2_000
    evaluations: int | None = None
    seed: int = 0
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
        search = TableSearch(self, budgets, self._space(meta), tuple(self._initial(meta, request)))
        results = self._empty(meta, search, tables).in_file(request.out)
        for text in self.methods:
            warm, settings = text in self.warm, self.make(text).describe()
            given = search.key(learning, warm)
            key = hashlib.sha256(json.dumps([settings, given], sort_keys=True).encode()).hexdigest()[:8]
            knowledge = request.out.with_name(f"{request.out.name}.{Method.parse(text).name}-{key}.npz")
            results = run_method(
                results,
                text,
                settings,
                given,
                {table.id: table for table in tables},
                partial(self._learned, text, learning, knowledge, search, warm),
                run_table,
                out=request.out,
                jobs=request.jobs,
                progress=request.progress,
                skipped=MissingDependency,
            )
            knowledge.unlink(missing_ok=True)
        return results

    def load(self, path: Path) -> LiveResults:
        return LiveResults.load(path)

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

    def _space(self, meta: MetaDataset) -> PipelineSpace:
        space = catalog.load(self.space) if isinstance(self.space, str) else self.space
        if space != meta.pipelines.space:
            raise InvalidInput(f"the pipelines of meta-dataset {meta.name!r} must be those of space {space.name!r}")
        return space

    def _initial(self, meta: MetaDataset, request: Setup) -> list[Pipeline]:
        from headstart.optimizers.portfolio import greedy_portfolio

        if not self.warm:
            return []
        ids = greedy_portfolio(meta.select(request.partition.train), N_INITIAL)
        rows = meta.pipelines.take(meta.everything.rows(ids))
        return [Pipeline(p.algorithms, p.params) for p in rows]

    def _empty(self, meta: MetaDataset, search: TableSearch, tables: Sequence[TableFile]) -> LiveResults:
        about = {
            "rule": self.about_rule,
            "max_rows": self.max_rows,
            "test": self.test,
            "folds": self.folds,
            "evaluation_seconds": self.evaluation_seconds,
            "acquisition": self.acquisition,
            "warm": list(self.warm),
            "n_initial": len(search.initial),
            "seed": self.seed,
        }
        facts = [{"id": table.id, "name": table.name, "rows": table.rows, "columns": table.columns} for table in tables]
        return LiveResults(meta.name, search.space.name, self.metric, list(search.budgets), facts, about)

    def _learned(
        self, text: str, learning: MetaDataset, knowledge: Path, search: TableSearch, warm: bool
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (prepared(self.make(text), learning, knowledge), search, warm), {}


@dataclass(frozen=True)
class TableSearch:
    """What a search on a table needs to know beside its method."""

    comparison: LiveComparison
    budgets: tuple[float, ...]
    space: PipelineSpace
    initial: tuple[Pipeline, ...]

    def key(self, learning: MetaDataset, warm: bool) -> str:
        """A hash of all that a method is given."""
        c = self.comparison
        settings = [
            c.evaluation_seconds,
            c.evaluation_bytes,
            c.metric,
            c.folds,
            c.test,
            c.max_rows,
            c.evaluations,
            c.seed,
        ]
        begin = [p.to_dict() for p in self.initial] if warm else []
        content = json.dumps([learning.key, self.space.key, self.budgets, settings, begin])
        return hashlib.sha256(content.encode()).hexdigest()[:16]

    def read(self, table: TableFile) -> ReadTable:
        c = self.comparison
        return read_table(table, max_rows=c.max_rows, test=c.test, folds=c.folds, seed=c.seed)


def run_table(searcher: Searcher, search: TableSearch, warm: bool, table: TableFile) -> dict[str, Any]:
    """Search on a table, and test what was found after each budget."""
    c = search.comparison
    ready = search.read(table)
    limits = Limits(c.evaluation_seconds, c.evaluation_bytes)
    seed = int(np.random.SeedSequence([c.seed, int(table.id)]).generate_state(1)[0])
    budget = Budget(search.budgets[-1], limits, c.evaluations)
    objective: Objective = LiveObjective(search.space, ready.dataset, ready.splits, c.metric)
    refit = Refit(search.space, ready, c.metric)
    generous = Limits(_REFIT_TIMES * c.evaluation_seconds, c.evaluation_bytes)
    with ExitStack() as stack:
        if c.sandbox:
            objective = stack.enter_context(Sandbox(objective))
            objective.warm()
        steps = searcher.search(search.space, objective, seed, budget, search.initial if warm else ())
    readings = [read_off(steps, seconds) for seconds in search.budgets]
    scores: dict[Pipeline, float] = {}
    for best in {reading.best.pipeline: reading.best for reading in readings if reading.best is not None}.values():
        with ExitStack() as stack:
            fit = stack.enter_context(Sandbox(refit)) if c.sandbox else refit
            outcome = fit(best.pipeline, generous, best.seed)
        scores[best.pipeline] = refit.without() if outcome.loss is None else refit.metric.to_score(outcome.loss)
    return {
        "scores": [_short(refit.without() if r.best is None else scores[r.best.pipeline]) for r in readings],
        "validation": [None if r.best is None else _short(refit.metric.to_score(r.best.loss or 0.0)) for r in readings],
        "observed": [r.observed for r in readings],
        "failed": [r.failed for r in readings],
        "best": [None if r.best is None else str(r.best.pipeline) for r in readings],
    }


def prepared(made: Optimizer | Tpot, learning: MetaDataset, knowledge: Path) -> Searcher:
    """A method that has learned from other tasks.

    Parameters
    ----------
    made
        The method before that.
    learning
        What it learns from.
    knowledge
        File that it finds what it has learned in, or leaves it.
    """
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


def _short(value: float) -> float:
    return float(f"{value:.6g}")
