"""One Gaussian process for each training task, and what they predict for all recorded pipelines.

Ensembles over training tasks (`rgpe`, `tst_r`, `tst_d2v`, `taf_r`) share this module: they have the same models, and
what these predict for a recorded pipeline never changes, so it is computed once and looked up ever after.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import Hyperparameters, spread_over_ranks
from headstart.numerics.kernels import CrossKernel, KernelName
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.surrogates.targets import Reshaping, reshaped
from headstart.task import Task

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Singles = NDArray[np.float32]

_KERNEL: KernelName = "matern52"
_BLOCK = 1024
"""Pipelines at a time, so that what is computed of them stays in cache."""

_shared: WeakValueDictionary[tuple[Any, ...], BaseModels] = WeakValueDictionary()


@dataclass(frozen=True)
class _BaseModel:
    """What a training task's model needs to predict; its matrix is factorised again where deviations are asked for."""

    columns: Rows
    targets: Array  # standardised
    weights: Array
    known: Hyperparameters


class BaseModels:
    """Gaussian processes of all training tasks.

    Parameters
    ----------
    meta
        Its tasks are learned from, each on its own.
    n_observations
        Most observations of a task that its model sees.
    reshaping
        Of the targets, see `headstart.surrogates.targets`.
    with_stds
        Whether deviations of recorded pipelines are wanted, too.
    """

    def __init__(
        self, meta: MetaDataset, n_observations: int = 200, reshaping: Reshaping = "as_is", with_stds: bool = False
    ) -> None:
        if not len(meta):
            raise InvalidInput("models of training tasks need at least one of them, the meta-dataset has none")
        if n_observations < 2:
            raise InvalidInput(f"n_observations must be at least 2, got {n_observations!r}")
        self.pipelines = meta.pipelines
        self.known = meta.everything
        features = meta.pipelines.features()
        self.means: Singles = np.empty((len(meta), len(features)), dtype=np.float32)
        self.stds: Singles | None = np.empty_like(self.means) if with_stds else None
        self._models = []
        for task in range(len(meta)):
            model, process = _learn(features, meta.loss_row(task), n_observations, reshaping)
            self._models.append(model)
            if self.stds is None:
                self.means[task] = self.mean(task, features)
            else:
                mean, std = process.posterior(features)
                to = process.standardisation
                self.means[task], self.stds[task] = to.apply(mean), std / to.scale

    @classmethod
    def of(
        cls, meta: MetaDataset, n_observations: int = 200, reshaping: Reshaping = "as_is", with_stds: bool = False
    ) -> BaseModels:
        """The models of a meta-dataset; whoever asks for the same while they are in use gets the same object."""
        keys = [(meta.key, n_observations, reshaping, more) for more in (True, False)]
        for key in keys[:1] if with_stds else keys:
            models = _shared.get(key)
            if models is not None:
                return models
        models = _shared[keys[0] if with_stds else keys[1]] = cls(meta, n_observations, reshaping, with_stds)
        return models

    def __len__(self) -> int:
        return len(self._models)

    def mean(self, task: int, points: Array) -> Array:
        """μ of one task at features ``(n, d)``: shape ``(n,)``."""
        model = self._models[task]
        mean = np.full(len(points), model.known.mean or 0.0)
        if not len(model.columns) or not len(points):
            return mean
        with one_blas_thread():
            covariances = CrossKernel(
                _KERNEL,
                self._inputs(model),
                np.log(model.known.length_scales),
                np.log(model.known.output_scale),
                min(_BLOCK, len(points)),
            )
            for start in range(0, len(points), _BLOCK):
                block = slice(start, start + _BLOCK)
                mean[block] += covariances(points[block]) @ model.weights
        return mean

    def std(self, task: int, points: Array) -> Array:
        """σ of one task at features ``(n, d)``: shape ``(n,)``."""
        model = self._models[task]
        process = GaussianProcess(kernel=_KERNEL).condition(
            self._inputs(model), model.targets, model.known, standardisation=Standardisation(0.0, 1.0)
        )
        return process.posterior(points)[1]

    def _inputs(self, model: _BaseModel) -> Array:
        return self.pipelines.features()[model.columns]


def _learn(
    features: Array, losses: NDArray[Any], n_observations: int, reshaping: Reshaping
) -> tuple[_BaseModel, GaussianProcess]:
    observed = np.flatnonzero(np.isfinite(losses))
    targets = losses[observed].astype(np.float64)
    chosen = spread_over_ranks(targets, n_observations)
    columns, targets = observed[chosen], reshaped(targets[chosen], reshaping)
    process = GaussianProcess(kernel=_KERNEL, max_fit_points=max(2, n_observations // 2)).fit(
        features[columns], targets
    )
    known = _BaseModel(columns, process.standardisation.apply(targets), process.weights, process.hyperparameters)
    return known, process


class BasePredictions:
    """What the models of training tasks predict for the candidates of one task.

    Recorded pipelines are looked up. Others are predicted by the models themselves, and what was predicted for one that
    was tried is kept.

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
        self._tried: dict[int, Array] = {}

    def _recorded(self, pool: Encoded) -> Rows | None:
        """Columns of a pool's pipelines, if all of them are recorded in the meta-dataset that was learned from."""
        recorded = self._models.pipelines
        if not self._in_place or not np.isin(pool.ids, recorded.ids).all():
            return None
        columns = self._models.known.rows(pool.ids)
        there = recorded.take(columns)
        # Ids are rows of a meta-dataset, and another one may use the same.
        same = np.array_equal(there.choice, pool.choice) and np.array_equal(there.values, pool.values)
        return columns if same else None

    def _columns(self, encoded: Encoded) -> Rows | None:
        if self._pool_columns is None or encoded is self._pool:
            return self._pool_columns
        return self._models.known.rows(encoded.ids)

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
        columns, stds = self._columns(encoded), self._models.stds
        points = self._points(encoded) if columns is None or stds is None else np.zeros((0, 0))
        for task in np.flatnonzero(weights).tolist():
            if columns is None or stds is None:
                std = self._models.std(task, points)
            else:
                std = stds[task, columns].astype(np.float64)
            variance += (weights[task] * std) ** 2
        return variance

    def _weighted(self, weights: Array, encoded: Encoded, change: Callable[[Array], Array]) -> Array:
        used = np.flatnonzero(weights)
        total = np.zeros(len(encoded))
        if not len(used):
            return total
        columns = self._columns(encoded)
        points = self._points(encoded) if columns is None else np.zeros((0, 0))
        together = None if columns is None else self._looked_up(encoded, columns)
        with one_blas_thread():
            for start in range(0, len(encoded), _BLOCK):
                block = slice(start, start + _BLOCK)
                if together is None:
                    means = np.stack([self._models.mean(t, points[block]) for t in used.tolist()])
                else:
                    means = together[used, block].astype(np.float64)
                total[block] = weights[used] @ change(means)
        return total

    def _looked_up(self, encoded: Encoded, columns: Rows) -> Singles:
        """μ of all tasks, shape ``(T, n)``; kept for the pool, whose columns are scattered over those of the matrix."""
        if encoded is not self._pool:
            return self._models.means[:, columns]
        if self._pool_means is None:
            self._pool_means = self._models.means[:, columns]
        return self._pool_means
