"""`ErrorOverTime`: how well a model predicts what it has not seen, as its own search goes on.

==============================  ==================  ==========================================================
quantity                        name in files       of a task, after so many evaluations
==============================  ==================  ==========================================================
mean squared error              error               mean over candidates not tried yet of (µ − y)², y in
                                                    the unit of predictions: `Surrogate.transform_targets`
posterior predictive variance   variance            mean over the same candidates of v
two standard errors             error_2se, …        2 s / √T over the T tasks, as figure 6 of the PMF paper
==============================  ==================  ==========================================================

Unlike a replay the search goes on when the optimum is found, so that every task counts after every evaluation. Beside
the mean over tasks stands the median: a mean squared error is often that of a few tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.experiment import Setup, Table
from headstart.errors import InvalidInput
from headstart.evaluation.recorded import Replay, recorded_task
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.base import Optimizer
from headstart.optimizers.bayes import Bayes
from headstart.replay.protocol import Method, initial_ids
from headstart.replay.results import MethodResults, half_width, rounded, shown
from headstart.replay.runner import given_to, run_method, seed_of_run
from headstart.study import Study
from headstart.surrogates.base import Surrogate
from headstart.trials import Trial

Array = NDArray[np.float64]
QUANTITIES = ("error", "variance")


@dataclass
class Errors(MethodResults):
    """What was found.

    Parameters
    ----------
    meta, split
        Names of the meta-dataset and of the tasks' split.
    evaluations
        After which it was looked at the models.
    tasks, names
        Positions of the tasks in the meta-dataset, and their names.
    methods
        By their text: ``error`` and ``variance``, (tasks, evaluations), with means, medians and twice standard errors.
    """

    holds, rows = "errors of models", "error"
    meta: str
    split: str
    evaluations: list[int]
    tasks: list[int]
    names: list[str]

    def add_runs(self, method: str, runs: list[Any], **facts: Any) -> None:
        """Take in a method's quantities, each (tasks, evaluations)."""
        entry: dict[str, Any] = dict(facts)
        for name in QUANTITIES:
            values = np.array([run[name] for run in runs], dtype=np.float64)
            entry[name] = [rounded(row, 4) for row in values]
            entry[f"{name}_mean"] = rounded(values.mean(axis=0))
            entry[f"{name}_median"] = rounded(np.median(values, axis=0))
            entry[f"{name}_2se"] = rounded(half_width(values, 2.0))
        self.methods[method] = entry

    def table(self) -> Table:
        rows = []
        for method, entry in self.methods.items():
            for name in QUANTITIES:
                pairs = zip(entry[f"{name}_mean"], entry[f"{name}_2se"], strict=True)
                rows.append([f"{method}: {name}", *(f"{shown(mean)} ± {shown(width)}" for mean, width in pairs)])
        title = (
            f"{self.meta}, {self.split}: squared error and variance of predictions, mean over {len(self.tasks)} tasks"
        )
        return Table(title, ["", *map(str, self.evaluations)], rows)

    def line(self, method: str) -> str:
        return f"{method}: squared error {shown(self.methods[method]['error_mean'][-1])} after {self.evaluations[-1]}"


@dataclass(frozen=True)
class ErrorOverTime:
    """An experiment that looks at the model of a search while it goes on.

    Parameters
    ----------
    methods
        Whose searches are `Bayes`, see `headstart.replay.protocol.Method.parse`.
    evaluations
        When to look; those beyond the search are left out.
    """

    methods: Sequence[str]
    evaluations: Sequence[int] = (5, 10, 20, 50, 100, 150, 200)

    def run(self, request: Setup) -> Errors:
        """Measure every method that is not in the file with the same settings yet."""
        meta, partition, out = request.meta, request.partition, request.out
        last = request.evaluations or max(self.evaluations)
        looks = [e for e in self.evaluations if e <= last]
        if not looks:
            raise InvalidInput(f"evaluations must be at least {min(self.evaluations)}, got {last}")
        tasks = list(partition.test)
        results = Errors(meta.name, partition.name, looks, tasks, [meta.tasks[i] for i in tasks]).in_file(out)
        designs = partition.initial_designs(meta)
        given = given_to(meta, partition, designs)
        for method in (Method.parse(text) for text in self.methods):
            results = run_method(
                results,
                method.text,
                method.make().describe(),
                given,
                {str(task): task for task in tasks},
                partial(_learned, method, request, looks, designs),
                looked_at,
                out=out,
                jobs=request.jobs,
                progress=request.progress,
            )
        return results

    load = staticmethod(Errors.load)


def _learned(
    method: Method, request: Setup, looks: list[int], designs: dict[int, tuple[int, ...]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (method.make().meta_fit(request.partition.learning(request.meta)), request.meta, looks, designs), {}


def model_of(optimizer: Optimizer) -> Surrogate:
    """The surrogate of a search."""
    surrogate = optimizer.surrogate if isinstance(optimizer, Bayes) else None
    if not isinstance(surrogate, Surrogate):
        raise InvalidInput(f"a search with a model is needed, got {optimizer!r}; name a surrogate, such as gp")
    return surrogate


def looked_at(
    optimizer: Optimizer, meta: MetaDataset, looks: Sequence[int], designs: dict[int, tuple[int, ...]], task: int
) -> dict[str, list[float]]:
    """Quantities of the model on one task, after each of `looks` evaluations of its own search."""
    described = recorded_task(meta, task, initial_ids(meta, task, designs[task]))
    model, pool = model_of(optimizer).start(described), described.candidates.pool
    assert pool is not None
    truth = np.asarray(meta.loss_row(task)[meta.everything.rows(pool.ids)], dtype=np.float64)
    values: dict[str, list[float]] = {name: [] for name in QUANTITIES}

    def look(study: Study, trial: Trial) -> None:  # noqa: ARG001
        if len(study.history) not in looks:
            return
        untried = np.isfinite(truth) & ~np.isin(pool.ids, study.history.encoded.ids)
        prediction = model.fit(study.history).predict(pool)
        std = prediction.std if prediction.std is not None else np.zeros(len(pool))
        off = prediction.mean[untried] - model.transform_targets(truth[untried])
        values["error"].append(float(np.mean(off**2)) if len(off) else 0.0)
        values["variance"].append(float(np.mean(std[untried] ** 2)) if len(off) else 0.0)

    study = Study(described, Replay(meta, task), optimizer, seed=seed_of_run(task, 0), callbacks=[look])
    if len(study.run(evaluations=max(looks))) < max(looks):
        raise InvalidInput(
            f"task {meta.tasks[task]!r} has {len(pool)} candidates, too few for {max(looks)} evaluations"
        )
    return values
