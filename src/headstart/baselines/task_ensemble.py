"""`TaskEnsemble`: what surrogates share that weigh the models of training tasks against that of the task at hand.

Such ensembles (`rgpe`, `tst_r`, `tst_d2v`, `taf_r`) have the same models, one Gaussian process for each training task,
and what these predict for a recorded pipeline never changes, so it is computed once and looked up ever after.

==============  ==================  ==========================================================================
symbol          name in code        equation
==============  ==================  ==========================================================================
T, P                                training tasks, recorded pipelines
μ_t(x)          means (T, P)        posterior mean of task t's model, in units of its standardised targets
σ_t(x)          stds                posterior standard deviation, in the same units
w_t             weights (T,)        of an ensemble
==============  ==================  ==========================================================================

Decided here: a model sees at most 200 of its task's observations, those at evenly spaced ranks of the loss, best and
worst included; kernel (Matérn-5/2, a length scale for each column) and prior are those of the surrogate `gp`; the
hyper-parameters are the likeliest for half of the observations. Targets are standardised for each task.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import Hyperparameters, spread_over_ranks
from headstart.numerics.kernels import CrossKernel, KernelName
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Singles = NDArray[np.float32]

_LEAST_STD = 1e-9
"""Relative to that of the targets."""
_KERNEL: KernelName = "matern52"
_BLOCK = 1024
"""Pipelines at a time, so that what is computed of them stays in cache."""

_shared: WeakValueDictionary[tuple[Any, ...], BaseModels] = WeakValueDictionary()


@dataclass(eq=False)
class BaseModels:
    """Gaussian processes of T training tasks: what they need to predict, as plain arrays.

    Parameters
    ----------
    pipelines
        All P recorded ones.
    columns
        Of each task, which of the pipelines its model saw.
    targets
        Of each task, those pipelines' targets, standardised.
    weights
        Of each task, what its covariances with those pipelines are multiplied by.
    length_scales
        (T, d)
    scales
        (T, 3): output scale, noise and mean.
    """

    pipelines: Encoded
    columns: list[Rows]
    targets: list[Array]
    weights: list[Array]
    length_scales: Array
    scales: Array

    @classmethod
    def learn(cls, meta: MetaDataset, n_observations: int = 200) -> BaseModels:
        """From the tasks of a meta-dataset, each on its own; a model sees at most so many observations."""
        if not len(meta):
            raise InvalidInput("models of training tasks need at least one of them, the meta-dataset has none")
        if n_observations < 2:
            raise InvalidInput(f"n_observations must be at least 2, got {n_observations!r}")
        features = meta.pipelines.features()
        columns, processes, targets = [], [], []
        for task in range(len(meta)):
            losses = meta.loss_row(task)
            observed = np.flatnonzero(np.isfinite(losses))
            seen = losses[observed].astype(np.float64)
            chosen = spread_over_ranks(seen, n_observations)
            columns.append(observed[chosen])
            process = GaussianProcess(kernel=_KERNEL, max_fit_points=max(2, n_observations // 2))
            processes.append(process.fit(features[columns[-1]], seen[chosen]))
            targets.append(process.standardisation.apply(seen[chosen]))
        known = [process.hyperparameters for process in processes]
        return cls(
            meta.pipelines,
            columns,
            targets,
            [process.weights for process in processes],
            np.array([k.length_scales for k in known]),
            np.array([(k.output_scale, k.noise, k.mean or 0.0) for k in known]),
        )

    @classmethod
    def of(cls, meta: MetaDataset, n_observations: int = 200) -> BaseModels:
        """The models of a meta-dataset; whoever asks for the same while they are in use gets the same object."""
        key = (meta.key, n_observations)
        models = _shared.get(key)
        if models is None:
            models = _shared[key] = cls.learn(meta, n_observations)
        return models

    def arrays(self) -> dict[str, Any]:
        """What it was made of, by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def means(self) -> Singles:
        """μ (T, P) of all recorded pipelines."""
        features = self.pipelines.features()
        return np.stack([self.mean(task, features).astype(np.float32) for task in range(len(self))])

    @cached_property
    def stds(self) -> Singles:
        """σ (T, P) of all recorded pipelines."""
        features = self.pipelines.features()
        return np.stack([self.std(task, features).astype(np.float32) for task in range(len(self))])

    def __len__(self) -> int:
        return len(self.columns)

    def mean(self, task: int, points: Array) -> Array:
        """μ of one task at features ``(n, d)``: shape ``(n,)``."""
        output_scale, _, constant = self.scales[task]
        mean = np.full(len(points), constant)
        if not len(self.columns[task]) or not len(points):
            return mean
        with one_blas_thread():
            covariances = CrossKernel(
                _KERNEL,
                self._inputs(task),
                np.log(self.length_scales[task]),
                np.log(output_scale),
                min(_BLOCK, len(points)),
            )
            for start in range(0, len(points), _BLOCK):
                block = slice(start, start + _BLOCK)
                mean[block] += covariances(points[block]) @ self.weights[task]
        return mean

    def std(self, task: int, points: Array) -> Array:
        """σ of one task at features ``(n, d)``: shape ``(n,)``."""
        known = Hyperparameters(self.length_scales[task], *self.scales[task].tolist())
        process = GaussianProcess(kernel=_KERNEL).condition(
            self._inputs(task), self.targets[task], known, standardisation=Standardisation(0.0, 1.0)
        )
        return process.posterior(points)[1]

    def _inputs(self, task: int) -> Array:
        return self.pipelines.features()[self.columns[task]]


class BasePredictions:
    """What the models of training tasks predict for the candidates of one task.

    Those of a pool of recorded pipelines are looked up. Others are predicted by the models themselves, and what was
    predicted for one that was tried, or for all candidates at once, is kept.

    Parameters
    ----------
    models
        Of the training tasks.
    task
        At hand.
    """

    def __init__(self, models: BaseModels, task: Task) -> None:
        self._models = models
        self._in_place = task.space == models.pipelines.space
        self._pool = task.candidates.pool
        self._pool_columns = None if self._pool is None else self._recorded(self._pool)
        self._pool_means: Singles | None = None
        self._listed = task.candidates.listed
        self._of_listed: dict[tuple[str, int], Array] = {}
        self._tried: dict[int, Array] = {}

    def _recorded(self, encoded: Encoded) -> Rows | None:
        """Columns of these pipelines, if all of them are recorded in the meta-dataset that was learned from."""
        columns = self._models.pipelines.find(encoded)
        return None if (columns < 0).any() else columns

    def _columns(self, encoded: Encoded) -> Rows | None:
        if self._pool_columns is None or encoded is self._pool:
            return self._pool_columns
        return self._recorded(encoded)

    def _points(self, encoded: Encoded) -> Array:
        return (encoded if self._in_place else encoded.to(self._models.pipelines.space)).features()

    @property
    def looked_up(self) -> bool:
        """Whether predictions cost nothing, as for a pool of recorded pipelines."""
        return self._pool_columns is not None

    def at_tried(self, encoded: Encoded) -> Array:
        """μ of all tasks at pipelines that were tried: shape ``(T, n)``."""
        columns = self._columns(encoded)
        if columns is not None:
            return self._models.means[:, columns].astype(np.float64)
        new = np.array([i for i, id_ in enumerate(encoded.ids.tolist()) if id_ not in self._tried], dtype=np.int64)
        if len(new):
            points = self._points(encoded.take(new))
            found = np.stack([self._models.mean(t, points) for t in range(len(self._models))], axis=1)
            self._tried.update(zip(encoded.ids[new].tolist(), found, strict=True))
        found = np.array([self._tried[i] for i in encoded.ids.tolist()])
        return found.reshape(len(encoded), len(self._models)).T

    def mean(self, weights: Array, encoded: Encoded) -> Array:
        """Σ_t w_t μ_t(x): shape ``(n,)``. Tasks without weight cost nothing."""
        return self._weighted(weights, encoded, lambda means: means)

    def improvement(self, weights: Array, best: Array, encoded: Encoded) -> Array:
        """Σ_t w_t max(0, b_t - μ_t(x)) for one `best` b_t of each task: shape ``(n,)``."""
        used = np.flatnonzero(weights)

        def gained(means: Array) -> Array:
            np.subtract(best[used, None], means, out=means)
            return np.maximum(means, 0.0, out=means)

        return self._weighted(weights, encoded, gained)

    def variance(self, weights: Array, encoded: Encoded) -> Array:
        """Σ_t w_t² σ_t²(x): shape ``(n,)``."""
        variance = np.zeros(len(encoded))
        columns = self._columns(encoded)
        for task in np.flatnonzero(weights).tolist():
            if columns is None:
                std = self._predicted("std", task, encoded)
            else:
                std = self._models.stds[task, columns].astype(np.float64)
            variance += (weights[task] * std) ** 2
        return variance

    def _weighted(self, weights: Array, encoded: Encoded, change: Callable[[Array], Array]) -> Array:
        used = np.flatnonzero(weights)
        total = np.zeros(len(encoded))
        if not len(used):
            return total
        columns = self._columns(encoded)
        together: NDArray[np.floating[Any]]
        if columns is None:
            together = np.stack([self._predicted("mean", t, encoded) for t in used.tolist()])
            rows = np.arange(len(used))
        else:
            together, rows = self._looked_up(encoded, columns), used
        with one_blas_thread():
            for start in range(0, len(encoded), _BLOCK):
                block = slice(start, start + _BLOCK)
                total[block] = weights[used] @ change(together[rows, block].astype(np.float64))
        return total

    def _predicted(self, what: Literal["mean", "std"], task: int, encoded: Encoded) -> Array:
        """μ or σ of one task: shape ``(n,)``; kept for all candidates, which come every time."""
        if (what, task) in self._of_listed and encoded is self._listed:
            return self._of_listed[what, task]
        model = self._models.mean if what == "mean" else self._models.std
        found = model(task, self._points(encoded))
        if encoded is self._listed:
            self._of_listed[what, task] = found
        return found

    def _looked_up(self, encoded: Encoded, columns: Rows) -> Singles:
        """μ of all tasks, shape ``(T, n)``; kept for the pool, whose columns are scattered over those of the matrix."""
        if encoded is not self._pool:
            return self._models.means[:, columns]
        if self._pool_means is None:
            self._pool_means = self._models.means[:, columns]
        return self._pool_means


class TaskEnsemble(Surrogate):
    """Base of surrogates that are a weighted sum of the models of training tasks and that of the task at hand.

    All models predict standardised targets: those of the training tasks by the spread of their own observations, that
    of the task at hand by what was observed so far. A subclass writes `weigh`.

    On a whole space, where nothing can be looked up, only the `n_live` training tasks with the highest weights count.

    Parameters
    ----------
    n_observations
        Most observations of a training task that its model sees.
    n_live
        Most training tasks that are used on a whole space.
    """

    looked_up: ClassVar[tuple[str, ...]] = ("means",)
    """What of the training tasks' models is looked up for recorded pipelines."""
    keeps: ClassVar[tuple[str, ...]] = ("models",)
    adjustable = frozenset({"n_live"})
    _models: BaseModels | None = None

    @property
    def models(self) -> dict[str, Any] | None:
        """Those of the training tasks, as arrays."""
        return None if self._models is None else self._models.arrays()

    @models.setter
    def models(self, arrays: dict[str, Any] | None) -> None:
        self._models = None if arrays is None else BaseModels(**arrays)

    def __init__(self, n_observations: int = 200, n_live: int = 10) -> None:
        if n_live < 1:
            raise InvalidInput(f"n_live must be at least 1, got {n_live!r}")
        self.n_observations = n_observations
        self.n_live = n_live

    def meta_fit(self, meta: MetaDataset) -> Self:
        self._models = BaseModels.of(meta, self.n_observations)
        for name in self.looked_up:
            getattr(self._models, name)  # now, once, and not in each process of a replay
        self.meta_key = f"{type(self).__name__}-{meta.key}"
        return self

    def start(self, task: Task) -> Self:
        if self._models is None:
            raise self.not_learned()
        fresh = super().start(task)
        fresh.base = BasePredictions(self._models, task)
        return fresh

    base: BasePredictions
    """What the models of the training tasks predict for candidates of this task."""
    process: GaussianProcess
    """The model of the task at hand."""
    weights: Array
    """Of the training tasks, shape ``(T,)``, after `fit`."""
    own_weight: float
    """Of the model of the task at hand; all weights together are 1."""

    @abstractmethod
    def weigh(self, predicted: Array, observed: Array) -> tuple[Array, float]:
        """Weights ``(T,)`` of the training tasks and that of the task at hand, none negative, not all 0.

        Parameters
        ----------
        predicted
            Means ``(T, n)`` of the training tasks' models at the pipelines that were tried.
        observed
            Targets ``(n,)`` of the task at hand.
        """

    def fit(self, history: History) -> Self:
        encoded, observed = history.encoded, history.targets()
        self.process = GaussianProcess().fit(encoded.features(), observed)
        weights, own = self.weigh(self.base.at_tried(encoded), observed)
        if not self.base.looked_up and np.count_nonzero(weights) > self.n_live:
            kept = np.argsort(-weights, kind="stable")[: self.n_live]
            weights = np.where(np.isin(np.arange(len(weights)), kept), weights, 0.0)
        total = float(weights.sum()) + own
        self.weights, self.own_weight = weights / total, own / total
        if history.pending:
            waiting = history.waiting.features()
            self.process = self.process.add(waiting, self.process.posterior(waiting)[0])
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        own_mean, own_std = self.own(encoded)
        mean = self.own_weight * own_mean + self.base.mean(self.weights, encoded)
        to = self.process.standardisation
        return Prediction(to.undo(mean), to.scale * np.maximum(self.spread(own_std, encoded), _LEAST_STD))

    def own(self, encoded: Encoded) -> tuple[Array, Array]:
        """What the model of the task at hand predicts, in units of standardised targets."""
        mean, std = self.process.posterior(encoded.features())
        to = self.process.standardisation
        return to.apply(mean), std / to.scale

    @abstractmethod
    def spread(self, own_std: Array, encoded: Encoded) -> Array:
        """Standard deviation of the ensemble, from that of the model of the task at hand; standardised, ``(n,)``."""
