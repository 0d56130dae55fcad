"""`LiveComparison`: methods that search for a pipeline on raw tables, each within the same seconds.

What learns from other tasks learns once, from the meta-dataset's training and validation tasks; no table is among them.
What was learned and can be kept in a file is, beside the results, until the method has been run on all tables. So a run
that was killed goes on table by table.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
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
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.base import Optimizer
from headstart.replay.protocol import N_INITIAL, Method
from headstart.replay.runner import plain, versions, writing
from headstart.replay.work import Log, each
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
        plan = Plan(self, budgets, self._space(meta), tuple(self._initial(meta, request)))
        results = self._empty(meta, plan, tables, request)
        for text in self.methods:
            results = self._one_method(text, plan, learning, tables, results, request)
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

    def _empty(self, meta: MetaDataset, plan: Plan, tables: Sequence[TableFile], request: Setup) -> LiveResults:
        about = {
            "rule": self.about_rule,
            "max_rows": self.max_rows,
            "test": self.test,
            "folds": self.folds,
            "evaluation_seconds": self.evaluation_seconds,
            "acquisition": self.acquisition,
            "warm": list(self.warm),
            "n_initial": len(plan.initial),
            "seed": self.seed,
        }
        facts = [{"id": table.id, "name": table.name, "rows": table.rows, "columns": table.columns} for table in tables]
        empty = LiveResults(meta.name, plan.space.name, self.metric, list(plan.budgets), facts, about)
        empty = LiveResults(**json.loads(json.dumps(vars(empty))))  # as it will be read
        return _joined(empty, request.out)

    def _one_method(
        self,
        text: str,
        plan: Plan,
        learning: MetaDataset,
        tables: Sequence[TableFile],
        results: LiveResults,
        request: Setup,
    ) -> LiveResults:
        settings = plain(self.make(text).describe())
        given = plan.key(learning, text in self.warm)
        head = {"method": text, "settings": settings, "given": given}
        known = results.methods.get(text)
        if known is not None and (known["settings"], known["given"], known.get("left_out")) == (settings, given, None):
            request.progress.done(f"{text}: known already")
            return results
        with Log(request.out, text, head) as log, one_blas_thread():
            found: dict[str, dict[str, Any]] = {c["table"]: c["run"] for c in log.found if "table" in c}
            facts: dict[str, Any] = next((c for c in log.found if "meta_seconds" in c), {})
            left = [table for table in tables if table.id not in found]
            knowledge = _knowledge(request.out, text, head)
            try:
                if left:
                    request.progress.learning(text)
                    started = time.perf_counter()
                    with log.learning(partial(request.progress.learning, text)):
                        searcher = prepared(self.make(text), learning, knowledge)
                    if not facts:
                        facts = {"meta_seconds": round(time.perf_counter() - started, 1)}
                        log.write(facts)
                    shared = (searcher, plan, text in self.warm)
                    request.progress.running(text, len(found), len(tables))
                    for table, run in each(run_table, shared, left, request.jobs):
                        found[table.id] = run
                        log.write({"table": table.id, "run": run})
                        request.progress.running(text, len(found), len(tables))
            except MissingDependency as error:
                facts = {"left_out": str(error)}
                found = {}
            runs = [found.get(table.id) for table in tables]
            with writing(request.out):
                results = _joined(results, request.out)
                results.add(text, runs, settings=settings, given=given, versions=versions(), **facts)
                results.save(request.out)
            log.close(done=True)
            knowledge.unlink(missing_ok=True)
        request.progress.done(_line(text, results))
        return results


@dataclass(frozen=True)
class Plan:
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


def run_table(searcher: Searcher, plan: Plan, warm: bool, table: TableFile) -> dict[str, Any]:
    """Search on a table, and test what was found after each budget."""
    c = plan.comparison
    ready = plan.read(table)
    limits = Limits(c.evaluation_seconds, c.evaluation_bytes)
    seed = int(np.random.SeedSequence([c.seed, int(table.id)]).generate_state(1)[0])
    budget = Budget(plan.budgets[-1], limits, c.evaluations)
    objective: Objective = LiveObjective(plan.space, ready.dataset, ready.splits, c.metric)
    refit = Refit(plan.space, ready, c.metric)
    generous = Limits(_REFIT_TIMES * c.evaluation_seconds, c.evaluation_bytes)
    if c.sandbox:
        with Sandbox(objective) as sandbox:
            sandbox.warm()
            steps = searcher.search(plan.space, sandbox, seed, budget, plan.initial if warm else ())
    else:
        steps = searcher.search(plan.space, objective, seed, budget, plan.initial if warm else ())
    readings = [read_off(steps, seconds) for seconds in plan.budgets]
    scores: dict[Pipeline, float] = {}
    for best in {reading.best.pipeline: reading.best for reading in readings if reading.best is not None}.values():
        if c.sandbox:
            with Sandbox(refit) as sandbox:
                outcome = sandbox(best.pipeline, generous, best.seed)
        else:
            outcome = refit(best.pipeline, generous, best.seed)
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
        Where a surrogate whose training can be kept finds or leaves it.
    """
    if isinstance(made, Tpot):
        load_tpot()
        return made
    from headstart.optimizers.bayes import Bayes
    from headstart.registry import create
    from headstart.surrogates.meta_trained import MetaTrained

    surrogate = create("surrogate", made.surrogate) if isinstance(made, Bayes) else None
    if not isinstance(made, Bayes) or not isinstance(surrogate, MetaTrained):
        return ByOptimizer(made.meta_fit(learning))
    if not knowledge.exists():
        surrogate.meta_fit(learning)
        unfinished = knowledge.with_name(f"unfinished-{knowledge.name}")
        surrogate.save(unfinished)
        unfinished.replace(knowledge)
    made.surrogate = type(surrogate).load(knowledge)
    made.meta_key = made.surrogate.meta_key
    return ByOptimizer(made)


def _knowledge(out: Path, text: str, head: dict[str, Any]) -> Path:
    """A file beside the results whose name tells what was learned from what."""
    key = hashlib.sha256(json.dumps(head, sort_keys=True).encode()).hexdigest()[:8]
    return out.with_name(f"{out.name}.{Method.parse(text).name}-{key}.npz")


def _joined(results: LiveResults, path: Path) -> LiveResults:
    """What is in the file, where it is of the same runs; another process may have added to it."""
    if not path.exists():
        return results
    found = LiveResults.load(path)
    if not found.same_runs(results):
        raise InvalidInput(f"{path} holds results of other tables, budgets or settings; give another folder with --out")
    return found


def _line(text: str, results: LiveResults) -> str:
    entry = results.methods[text]
    if not results.complete(text):
        return f"{text} is left out: {entry['left_out']}"
    numbers = ", ".join(
        f"{score:.4f} with {observed:.0f} pipelines after {budget:g} s"
        for score, observed, budget in zip(entry["score_mean"], entry["observed_mean"], results.budgets, strict=True)
    )
    return f"{text}: {numbers}"


def _short(value: float) -> float:
    return float(f"{value:.6g}")
