"""Small spaces, tasks and meta-datasets that contract tests run on; handy for trying a plug-in out."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.constraints import Constraint, total_excess
from headstart.evaluation.synthetic import Synthetic
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.base import Optimizer, evaluation_seed
from headstart.space import Algorithm, Categorical, Encoded, Float, Integer, PipelineSpace, Stage
from headstart.space.parameters import Parameter
from headstart.task import Task
from headstart.trials import Limits, Outcome, Proposal, Trial


def small_space() -> PipelineSpace:
    """Two stages with every kind of parameter, a condition, a forbidden combination and an algorithm without any."""
    pca = Algorithm("pca", "sklearn.decomposition:PCA", [Float("n_components", 0.5, 0.99)])
    knn: list[Parameter] = [Integer("n_neighbors", 1, 50, log=True), Categorical("weights", ("uniform", "distance"))]
    svm: list[Parameter] = [
        Categorical("kernel", ("rbf", "poly")),
        Float("C", 1e-3, 1e3, log=True),
        Integer("degree", 2, 5, when={"kernel": ("poly",)}),
    ]
    estimators = [
        Algorithm("knn", "sklearn.neighbors:KNeighborsClassifier", knn),
        Algorithm("svm", "sklearn.svm:SVC", svm),
        Algorithm("naive_bayes", "sklearn.naive_bayes:GaussianNB"),
    ]
    stages = [Stage("reducer", [Algorithm("none"), pca]), Stage("estimator", estimators)]
    return PipelineSpace("small", stages, forbidden=[{"reducer": ["pca"], "estimator.kernel": ["poly"]}])


def small_meta(n_tasks: int = 6, n_pipelines: int = 60, missing: float = 0.1, seed: int = 0) -> MetaDataset:
    """A meta-dataset of related synthetic tasks, some cells missing. Nothing in it is shared with another one."""
    return pickle.loads(_small_meta(n_tasks, n_pipelines, missing, seed))  # type: ignore[no-any-return]


@lru_cache(maxsize=8)
def _small_meta(n_tasks: int, n_pipelines: int, missing: float, seed: int) -> bytes:
    """The pickled meta-dataset: contract tests want hundreds of them, and its losses take a while."""
    rng = np.random.default_rng(seed)
    space = small_space()
    drawn = space.sample(rng, 10 * n_pipelines).unique()[:n_pipelines]
    recorded = Encoded(space, drawn.values, drawn.active, drawn.choice, ids=np.arange(len(drawn)) + 100)
    shared, own = Synthetic(space, seed), [Synthetic(space, seed + 1 + t) for t in range(n_tasks)]

    def found(function: Synthetic) -> NDArray[np.float64]:
        return np.array([function(pipeline, Limits(), 0).loss or 0.0 for pipeline in drawn])

    losses = 0.7 * found(shared) + 0.3 * np.array([found(function) for function in own])
    losses[rng.random(losses.shape) < missing] = np.nan
    metafeatures = {"example": rng.standard_normal((n_tasks, 3))}
    return pickle.dumps(MetaDataset(recorded, losses, [f"task {t}" for t in range(n_tasks)], metafeatures))


def live_task(key: str = "live") -> Task:
    """A task whose candidates are a whole space."""
    return Task(small_space(), key=key, metafeatures={"example": np.zeros(3)})


def pool_task(meta: MetaDataset | None = None, task: int = 0) -> Task:
    """A task whose candidates are the recorded pipelines of one task of a meta-dataset."""
    meta = meta if meta is not None else small_meta()
    vectors = {name: v[task] for name, v in meta.metafeatures.items()}
    return Task(meta.pool(task), key=meta.tasks[task], metafeatures=vectors)


def bounded(task: Task, infeasible: int = 0) -> Task:
    """The same task with a bound on what `evaluate` measures as ``cost``; about a third of the pipelines satisfy it.

    Parameters
    ----------
    task
        Without a bound.
    infeasible
        How many pipelines over the bound it begins with.
    """
    task = replace(task, constraints=[Constraint(_COST, 0.36)])
    over = [
        trial.pipeline
        for trial in (random_trials(task, 20, failing=0.0) if infeasible else ())
        if total_excess(task.constraints, trial.outcome.constraints) > 0
    ]
    return replace(task, initial=over[:infeasible])


_COST = "cost"


def evaluate(proposal: Proposal, task: Task, seed: int = 0, failing: float = 0.0) -> Trial:
    """A finished trial of a proposal, under a synthetic loss."""
    function = Synthetic(task.space, 7, failing=failing, constraint=_COST if task.constraints else None)
    started = time.time()
    outcome = function(proposal.pipeline, Limits(), evaluation_seed(seed, proposal.number), proposal.fidelity)
    return Trial(proposal, outcome, started, time.time())


def random_trials(task: Task, n: int, seed: int = 0, failing: float = 0.1) -> list[Trial]:
    """Trials of random candidates, repeated where a pool has fewer than `n`."""
    pool = task.candidates.pool
    recorded = None if pool is None else (pool.ids.tobytes(), pool.values.tobytes())
    key = (task.space, recorded, bool(task.constraints), n, seed, failing)
    if key not in _TRIALS:
        rng = np.random.default_rng(seed)
        found: list[Trial] = []
        while len(found) < n:
            for pipeline in task.candidates.sample(rng, n - len(found)):
                found.append(evaluate(Proposal(len(found), pipeline), task, seed, failing))
        _TRIALS[key] = tuple(found)
    return list(_TRIALS[key])


_TRIALS: dict[Any, tuple[Trial, ...]] = {}
"""Contract tests want the same thousand trials again and again."""


def feed(optimizer: Optimizer, trials: Sequence[Trial]) -> None:
    """Give an optimizer proposals and results as if it had made them."""
    for trial in trials:
        optimizer.restore(trial.proposal)
        optimizer.tell(trial)


def failed(proposal: Proposal, status: str = "crashed") -> Trial:
    """A trial that failed."""
    return Trial(proposal, Outcome.failed(status, "made to fail"), 0.0, 0.0)
