"""`RecordedGP`: a Gaussian process over recorded pipelines, whose prior was learned from other tasks.

================  =====================  ==================================================================
symbol            name in code           equation
================  =====================  ==================================================================
y_p               targets                loss of pipeline p on the new task: y = a + b (m + g + ε)
m_p, ψ_p          means, noise           of pipeline p; ε_p ~ N(0, ψ_p) belongs to the pipeline and the task alone
g                 –                      Gaussian process over pipelines, see `LatentPrior`
a, b              Levels                 offset and scale, see `headstart.numerics.affine_mixture`
L                 _lower                 L Lᵀ = K_oo + diag ψ_o of what was observed
W                 _whitened              L⁻¹ [y, 1, m]
================  =====================  ==================================================================
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from headstart.errors import UnknownPipeline
from headstart.history import History
from headstart.learning.networks import Parameters
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.affine_mixture import Levels, Mixture
from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.pool_posterior import PoolPosterior
from headstart.numerics.threads import one_blas_thread
from headstart.space.candidates import Pool
from headstart.space.encoded import Encoded
from headstart.surrogates.acquisition import OVERHEAD_SECONDS
from headstart.surrogates.base import Prediction
from headstart.surrogates.latent_prior import LatentPrior, Located, PoolRows
from headstart.surrogates.meta_trained import MetaTrained
from headstart.task import Task

Array = NDArray[np.float64]
Places = NDArray[np.int64]
_KNOWN = 1e-3
"""Uncertainty of what was tried, relative to what it would be otherwise: never none."""
_LEAST_STD = 1e-9
Failures = Literal["worst", "ignored"]
_PIPELINE_ARRAYS = ("values", "active", "choice", "order", "ids")


class RecordedGP(MetaTrained):
    """Base of surrogates with a Gaussian process over the recorded pipelines of a meta-dataset.

    A subclass writes `learn_prior`. Observations are added one by one to the posterior of earlier fits where they begin
    alike; what comes out is the same as if all had been added now.
    """

    seed = 0
    revision = 2
    failures: Failures = "ignored"
    """What a failure says of other pipelines: nothing, or as much as the worst loss would."""
    single: ClassVar[bool] = True
    """Whether the posterior over a pool is kept in single precision: at half the time, and some 1e-5 of a loss."""

    @property
    def locates_new(self) -> bool:
        """Whether it can tell where pipelines are that were never recorded."""
        return False

    @abstractmethod
    def learn_prior(self, meta: MetaDataset) -> LatentPrior:
        """The prior, in the order of the pipelines of the meta-dataset."""

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:  # noqa: ARG002
        pipelines = meta.pipelines
        recorded = {name: np.asarray(getattr(pipelines, name)) for name in _PIPELINE_ARRAYS if name != "order"}
        if pipelines.order is not None:
            recorded["order"] = np.asarray(pipelines.order)
        if meta.seconds is not None:
            seconds = np.asarray(meta.seconds, dtype=np.float64)
            if np.isfinite(seconds).any():
                recorded["log_seconds"] = relative_log_seconds(seconds)
        for made in ("prior", "recorded", "_rows"):  # of what was learned before
            self.__dict__.pop(made, None)
        return {**self.learn_prior(meta).arrays(), **{f"recorded.{name}": array for name, array in recorded.items()}}

    @cached_property
    def recorded(self) -> Pool:
        """The recorded pipelines."""
        arrays = self.learned
        return Pool(Encoded(self.space, *(arrays.get(f"recorded.{name}") for name in _PIPELINE_ARRAYS)))  # type: ignore[arg-type]

    @cached_property
    def prior(self) -> LatentPrior:
        """What was learned from other tasks."""
        arrays = {name: value for name, value in self.learned.items() if name.startswith("prior.")}
        return LatentPrior.from_arrays(arrays, self.recorded.pool.features())

    @cached_property
    def _rows(self) -> PoolRows:
        return PoolRows(self.prior, np.float32 if self.single else np.float64)

    def adapted(self, task: Task) -> tuple[LatentPrior, PoolRows]:  # noqa: ARG002
        """The prior for one task: the same for all, unless a subclass knows better."""
        return self.prior, self._rows

    def covers(self, task: Task) -> bool:
        """Whether all candidates of a task are on record; its space is one of those that `check_space` lets pass."""
        pool = task.candidates.pool
        if pool is None:
            return self.recorded.covers(task.space)
        return bool((self._find(pool) >= 0).all())

    def _find(self, encoded: Encoded) -> Places:
        return self.recorded.find(encoded if encoded.space == self.space else encoded.to(self.space))

    def start(self, task: Task) -> Self:
        self.check_space(task.space)
        if task.candidates.pool is None and not self.locates_new and not self.covers(task):
            raise UnknownPipeline(
                f"{type(self).__name__} knows only the recorded pipelines of its meta-dataset, and space "
                f"{task.space.name!r} has others; PMF can learn where those are: headstart metatrain META --method "
                "'pmf(unseen=True)'"
            )
        with one_blas_thread():
            prior, rows = self.adapted(task)
        fresh = super().start(task)
        fresh.prior, fresh._pool = prior, None
        at = prior.recorded
        fresh._posterior = PoolPosterior(rows.row, prior.variance(at), at.noise, single=self.single)
        return fresh

    _pool: tuple[Encoded, Places] | None
    _posterior: PoolPosterior
    _of_recorded: Array | None

    def places(self, encoded: Encoded) -> Places:
        """Of these pipelines among those recorded, -1 for others; remembered for a pool, which comes every time."""
        if self._pool is not None and self._pool[0] is encoded:
            return self._pool[1]
        places = self._find(encoded)
        if encoded is self.task.candidates.pool:
            self._pool = (encoded, places)
        return places

    def knows(self, encoded: Encoded) -> NDArray[np.bool_]:
        return np.ones(len(encoded), dtype=bool) if self.locates_new else self.places(encoded) >= 0

    def log_seconds(self, encoded: Encoded) -> Array | None:
        known = self.learned.get("recorded.log_seconds")
        places = self.places(encoded)
        return None if known is None or (places < 0).any() else np.asarray(known[places])

    def locate_new(self, encoded: Encoded) -> Located:
        """Where pipelines are that were never recorded; refused unless a subclass can tell."""
        raise UnknownPipeline(
            f"{type(self).__name__} knows only the recorded pipelines of its meta-dataset, not {encoded[0]!r}"
        )

    def _locate(self, encoded: Encoded, places: Places) -> Located:
        recorded = self.prior.recorded.take(np.maximum(places, 0))
        new = np.flatnonzero(places < 0)
        if not len(new):
            return recorded
        found = self.locate_new(encoded.take(new))
        recorded.points[new], recorded.means[new], recorded.noise[new] = found.points, found.means, found.noise
        recorded.extra = np.zeros(len(recorded))
        recorded.extra[new] = found.extra
        if recorded.descriptions is not None:
            recorded.descriptions[new] = found.descriptions
        return recorded

    def fit(self, history: History) -> Self:
        # On the other tasks a failure is a missing cell, which says nothing of the loss of others.
        ok = history.ok
        targets = self.transform_targets(history.targets())
        targets = np.minimum(targets, self._usual.highest(targets[ok]))
        self._failed = history.encoded.ids[~ok], float(targets[ok].max(initial=-np.inf))
        seen = history.encoded
        if self.failures == "ignored" or not ok.any():
            seen, targets = seen.take(ok), targets[ok]
        self._condition(seen, targets)
        if history.pending:  # believed to come out as predicted: the mean stays, the uncertainty goes
            waiting = history.waiting
            believed = self.predict(waiting).mean
            self._condition(Encoded.concatenate([seen, waiting]), np.concatenate([targets, believed]))
        return self

    def _condition(self, seen: Encoded, targets: Array) -> None:
        """The posterior given losses of these pipelines."""
        self._tried = seen.ids, targets
        self._seen_places = self.places(seen)
        self._seen = self._locate(seen, self._seen_places)
        prior = self.prior
        values = np.stack([targets, np.ones(len(self._seen)), self._seen.means], axis=1)
        with one_blas_thread():
            covariance = prior.covariance(self._seen, self._seen)
            covariance[np.diag_indices(len(values))] += self._seen.total_noise
            self._lower = jittered_cholesky(covariance)
            self._whitened = solve_triangular(self._lower, values, lower=True, check_finite=False)
        self._mixture = Mixture.of(self._whitened, self._usual.unless_foreign(targets))
        self._of_recorded = None

    @property
    def _usual(self) -> Levels:
        """What other tasks tell of offset and scale."""
        return Levels(self.prior.offset_mean, self.prior.offset_std, self.prior.scales, np.ones(1))

    def predict(self, encoded: Encoded) -> Prediction:
        places = self.places(encoded)
        with one_blas_thread():
            if (places < 0).any() or (self._seen_places < 0).any():
                at = self._locate(encoded, places)
                spread, variance = self._spread(at)
                means, noise = at.means, at.total_noise
            else:
                if self._of_recorded is None:  # once, for a search on a whole space asks many times
                    self._posterior.observe(self._seen_places.tolist())
                    self._of_recorded = self._posterior.spread(self._whitened)
                spread, variance = self._of_recorded[:, places], self._posterior.variance[places]
                means, noise = self.prior.recorded.means[places], self.prior.recorded.noise[places]
        mean, std = self._mixture.moments(spread, means, np.maximum(variance, 0.0) + noise)
        std = np.maximum(std, _LEAST_STD)
        # ε belongs to the pipeline and the task, so what was tried is known; what failed is no better than the worst.
        failed, worst = self._failed
        bad = np.isin(encoded.ids, failed)
        mean[bad] = np.maximum(mean[bad], worst)
        std[bad] *= _KNOWN
        tried, targets = self._tried
        value = dict(zip(tried.tolist(), targets.tolist(), strict=True))  # of those tried twice, the last
        known = np.flatnonzero(np.isin(encoded.ids, tried))
        mean[known] = [value[i] for i in encoded.ids[known].tolist()]
        std[known] *= _KNOWN
        return Prediction(mean, std)

    def _spread(self, at: Located) -> tuple[Array, Array]:
        """S (3, n) and the variance of g (n,), where these need not be recorded."""
        between = self.prior.covariance(self._seen, at)
        if not len(self._seen):
            return np.zeros((3, len(at))), self.prior.variance(at)
        rows = solve_triangular(self._lower, between, lower=True, check_finite=False)
        return self._whitened.T @ rows, self.prior.variance(at) - (rows**2).sum(axis=0)


def relative_log_seconds(seconds: Array) -> Array:
    """How long pipelines take compared with others, (P,), from seconds (T, P) with NaN where none is known.

    Logarithms, averaged over tasks after each task's mean is taken off; 0 for a pipeline never timed.
    """
    logs = np.log(seconds + OVERHEAD_SECONDS)
    there = np.isfinite(logs)
    of_tasks = np.where(there, logs, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    over = np.where(there, logs - of_tasks[:, None], 0.0)
    return np.asarray(over.sum(axis=0) / np.maximum(there.sum(axis=0), 1))
