"""`RecordedGP`: a Gaussian process over recorded pipelines, whose prior was learned from other tasks.

================  =====================  ==================================================================
symbol            name in code           equation
================  =====================  ==================================================================
y_p               targets                loss of pipeline p on the new task: y = a + b (m + g + ε)
m_p               means                  mean of standardised losses over other tasks
g                 –                      Gaussian process over pipelines, see `LatentPrior`
ε_p               noise                  N(0, τ ψ_p): what belongs to the pipeline and the task alone
a                 offset                 N(prior.offset_mean, prior.offset_std²), integrated out
b, τ              scale, level           of `prior.scales` and `prior.levels`, weighted by their evidence
C                 –                      cov(g) + diag τψ over what was observed, L Lᵀ
W                 whitened               L⁻¹ [y, 1, m], one for each level
================  =====================  ==================================================================

For one τ and b, r = (y − b m)/b − a₀/b is Gaussian with covariance C + t² 1 1ᵀ, t = std(a)/b, whose inverse and
determinant follow from those of C by the Sherman-Morrison formula. So one factorisation serves all scales, and the
prediction is the mixture over scales and levels, by its moments.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property, partial
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from headstart.errors import UnknownPipeline
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.neural.networks import Parameters
from headstart.numerics.pool_posterior import PoolPosterior
from headstart.numerics.threads import one_blas_thread
from headstart.space.candidates import Pool
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction
from headstart.surrogates.latent_prior import LatentPrior, Located, PoolRows
from headstart.surrogates.meta_trained import MetaTrained
from headstart.task import Task

Array = NDArray[np.float64]
Places = NDArray[np.int64]
_NEGLIGIBLE = 2e-3
"""Weight of a part that is left out of the mixture."""
_KNOWN = 1e-3
"""Uncertainty of what was tried, relative to what it would be otherwise: never none."""
_LEAST_VARIANCE = 1e-12
_LEAST_SECONDS = 1e-3
_PIPELINE_ARRAYS = ("values", "active", "choice", "order", "ids")


class Part(NamedTuple):
    """One part of the mixture: its weight, level (a place in the grid) and scale; mean and variance of a/b."""

    weight: float
    level: int
    scale: float
    offset: float
    variance: float


class RecordedGP(MetaTrained):
    """Base of surrogates with a Gaussian process over the recorded pipelines of a meta-dataset.

    A subclass writes `learn_prior`. Observations are added one by one to the posterior of earlier fits where they begin
    alike; what comes out is the same as if all had been added now.
    """

    seed = 0
    single: ClassVar[bool] = True
    """Whether the posterior over a pool is kept in single precision: at half the time, and some 1e-5 of a loss."""

    @abstractmethod
    def learn_prior(self, meta: MetaDataset) -> LatentPrior:
        """The prior, in the order of the pipelines of the meta-dataset."""

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:  # noqa: ARG002
        pipelines = meta.pipelines
        recorded = {name: np.asarray(getattr(pipelines, name)) for name in _PIPELINE_ARRAYS if name != "order"}
        if pipelines.order is not None:
            recorded["order"] = np.asarray(pipelines.order)
        if meta.seconds is not None:
            recorded["log_seconds"] = relative_log_seconds(np.asarray(meta.seconds, dtype=np.float64))
        for made in ("prior", "_known", "_rows"):  # of what was learned before
            self.__dict__.pop(made, None)
        return {**self.learn_prior(meta).arrays(), **{f"recorded.{name}": array for name, array in recorded.items()}}

    @cached_property
    def _known(self) -> Pool:
        """The recorded pipelines."""
        arrays = self.learned
        return Pool(Encoded(self.space, *(arrays.get(f"recorded.{name}") for name in _PIPELINE_ARRAYS)))  # type: ignore[arg-type]

    @cached_property
    def prior(self) -> LatentPrior:
        """What was learned from other tasks."""
        arrays = {name: value for name, value in self.learned.items() if name.startswith("prior.")}
        return LatentPrior.from_arrays(arrays, self._known.pool.features())

    @cached_property
    def _rows(self) -> PoolRows:
        return PoolRows(self.prior, np.float32 if self.single else np.float64)

    def adapted(self, task: Task) -> tuple[LatentPrior, PoolRows]:  # noqa: ARG002
        """The prior for one task: the same for all, unless a subclass knows better."""
        return self.prior, self._rows

    def start(self, task: Task) -> Self:
        prior, rows = self.adapted(task)
        fresh = super().start(task)
        fresh.prior, fresh._pool = prior, None
        shared, own = prior.variances(prior.recorded)
        fresh._posteriors = [
            PoolPosterior(
                partial(rows.row, level=level), shared + level * own, level * prior.recorded.noise, single=self.single
            )
            for level in prior.levels.tolist()
        ]
        return fresh

    _pool: tuple[Encoded, Places] | None
    _posteriors: list[PoolPosterior]

    def places(self, encoded: Encoded) -> Places:
        """Of these pipelines among those recorded, -1 for others; remembered for a pool, which comes every time."""
        if self._pool is not None and self._pool[0] is encoded:
            return self._pool[1]
        places = self._known.find(encoded)
        if encoded is self.task.candidates.pool:
            self._pool = (encoded, places)
        return places

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
        if recorded.descriptions is not None:
            recorded.descriptions[new] = found.descriptions
        return recorded

    def fit(self, history: History) -> Self:
        encoded, targets = history.with_pending()
        # That a pipeline failed says nothing of the loss of others: on the other tasks a failure is a missing cell.
        ok = np.array([trial.outcome.ok for trial in history] + [True] * (len(targets) - len(history)), dtype=bool)
        self._tried = encoded.ids, targets
        seen = encoded.take(ok)
        self._seen_places = self.places(seen)
        self._seen = self._locate(seen, self._seen_places)
        with one_blas_thread():
            self._weigh(targets[ok])
        return self

    def _weigh(self, targets: Array) -> None:
        """What the observations say of scales and levels."""
        prior, seen, n = self.prior, self._seen, len(targets)
        values = np.stack([targets, np.ones(n), seen.means], axis=1)
        shared, own = prior.shared(seen, seen), prior.own(seen, seen)
        self._lower, self._whitened = [], []
        found: list[tuple[int, float, float, float]] = []
        evidence: list[float] = []
        for number, level in enumerate(prior.levels):
            covariance = shared + level * own
            covariance[np.diag_indices(n)] += np.maximum(level * seen.noise, _LEAST_VARIANCE)
            lower = cholesky(covariance, lower=True, check_finite=False) if n else covariance
            whitened = solve_triangular(lower, values, lower=True, check_finite=False) if n else values
            self._lower.append(lower)
            self._whitened.append(whitened)
            y, one, m = whitened.T
            ones, size = float(one @ one), float(np.log(np.diag(lower)).sum())
            for scale in prior.scales:
                wide, start = (prior.offset_std / scale) ** 2, prior.offset_mean / scale
                residual = y / scale - m - start * one
                along, shrunk = float(one @ residual), wide / (1.0 + wide * ones)
                misfit = float(residual @ residual) - shrunk * along**2 + np.log1p(wide * ones)
                evidence.append(-0.5 * misfit - size - n * float(np.log(scale)))
                found.append((number, float(scale), start + shrunk * along, shrunk))
        weights = np.exp(np.array(evidence) - max(evidence))
        weights = np.where(weights < _NEGLIGIBLE * weights.sum(), 0.0, weights)
        weights /= weights.sum()
        self._mixture = [Part(float(w), *part) for w, part in zip(weights, found, strict=True) if w > 0]

    def predict(self, encoded: Encoded) -> Prediction:
        places = self.places(encoded)
        recorded = not (places < 0).any() and not (self._seen_places < 0).any()
        located = self.prior.recorded if recorded else self._locate(encoded, places)
        mean, square = np.zeros(len(places)), np.zeros(len(places))
        means, noise = (v[places] if recorded else v for v in (located.means, located.noise))
        with one_blas_thread():
            for number in sorted({part.level for part in self._mixture}):
                level = float(self.prior.levels[number])
                spread, variance = self._posterior(number, located, places if recorded else None)
                y, one, m = spread
                own, rest = np.maximum(variance, 0.0) + level * noise, 1.0 - one
                for part in self._mixture:
                    if part.level == number:
                        at = part.scale * (part.offset * rest + means - m) + y
                        mean += part.weight * at
                        square += part.weight * (part.scale**2 * (own + part.variance * rest**2) + at**2)
        std = np.sqrt(np.maximum(square - mean**2, 1e-18))
        # ε belongs to the pipeline and the task, so what was tried is known, failures too.
        tried, targets = self._tried
        value = dict(zip(tried.tolist(), targets.tolist(), strict=True))  # of those tried twice, the last
        known = np.flatnonzero(np.isin(encoded.ids, tried))
        mean[known] = [value[i] for i in encoded.ids[known].tolist()]
        std[known] *= _KNOWN
        return Prediction(mean, std)

    def _posterior(self, number: int, located: Located, places: Places | None) -> tuple[Array, Array]:
        """C_·o C⁻¹ [y, 1, m] (3, n) and the variance of g (n,) at one level; `places` if all are recorded."""
        if places is not None:
            posterior = self._posteriors[number]
            posterior.observe(self._seen_places.tolist())
            return posterior.spread(self._whitened[number])[:, places], posterior.variance[places]
        prior, level = self.prior, float(self.prior.levels[number])
        shared, own = prior.variances(located)
        between = prior.shared(self._seen, located) + level * prior.own(self._seen, located)
        if not len(self._seen):
            return np.zeros((3, len(located))), shared + level * own
        rows = solve_triangular(self._lower[number], between, lower=True, check_finite=False)
        return self._whitened[number].T @ rows, shared + level * own - (rows**2).sum(axis=0)


def relative_log_seconds(seconds: Array) -> Array:
    """How long pipelines take compared with others, (P,), from seconds (T, P) with NaN where none is known.

    Logarithms, averaged over tasks after each task's mean is taken off; 0 for a pipeline never timed.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.maximum(seconds, _LEAST_SECONDS))
    there = np.isfinite(logs)
    of_tasks = np.where(there, logs, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    over = np.where(there, logs - of_tasks[:, None], 0.0)
    return np.asarray(over.sum(axis=0) / np.maximum(there.sum(axis=0), 1))
