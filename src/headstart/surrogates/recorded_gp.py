"""`RecordedGP`: a Gaussian process over recorded pipelines, whose prior was learned from other tasks.

================  =====================  ==================================================================
symbol            name in code           equation
================  =====================  ==================================================================
y_p               targets                loss of pipeline p on the new task: y = a + b (m + g + ε)
m_p               prior.means            mean of standardised losses over other tasks
g                 –                      Gaussian process over pipelines, covariance `prior.row`
ε_p               prior.noise            N(0, ψ_p): what belongs to the pipeline and the task alone
a                 offset                 N(prior.offset_mean, prior.offset_std²), integrated out
b                 scale                  one of `prior.scales`, weighted by its evidence
W                 whitened               L⁻¹ [y, 1, m], see `headstart.numerics.pool_posterior`
================  =====================  ==================================================================

For one b, r = (y − b m)/b − a₀/b is Gaussian with covariance K + ψ + t² 1 1ᵀ, t = std(a)/b, whose inverse and
determinant follow from those of K + ψ by the Sherman-Morrison formula. So one factorisation serves all scales, and the
prediction is the mixture over them, by its moments.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import HeadstartError, UnknownPipeline
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.pool_posterior import PoolPosterior
from headstart.space.candidates import Pool
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task

Array = NDArray[np.float64]
Places = NDArray[np.int64]
_NEGLIGIBLE = 1e-3
"""Weight of a scale that is left out of the mixture."""
_KNOWN = 1e-3
"""Uncertainty of what was tried, relative to what it would be otherwise: never none."""


class Prior(Protocol):
    """What was learned from other tasks about P pipelines, in units of a task's standardised losses."""

    means: Array
    noise: Array
    variance: Array
    """(P,), of the Gaussian process."""
    offset_mean: float
    offset_std: float
    scales: Array

    def row(self, place: int) -> Array:
        """Covariances (P,) of one pipeline with all."""
        ...


class RecordedGP(Surrogate):
    """Base of surrogates with a Gaussian process over the recorded pipelines of a meta-dataset.

    A subclass writes `learn`, which makes the prior. Observations are added one by one to the posterior of earlier fits
    where they begin alike; what comes out is the same as if all had been added now.
    """

    _prior: Prior | None = None
    _known: Pool

    @abstractmethod
    def learn(self, meta: MetaDataset) -> Prior:
        """The prior, in the order of the pipelines of the meta-dataset."""

    def meta_fit(self, meta: MetaDataset) -> Self:
        self._prior = self.learn(meta)
        self._known = meta.everything
        self.meta_key = meta.key
        return self

    def start(self, task: Task) -> Self:
        if self._prior is None:
            raise HeadstartError(f"{type(self).__name__} must learn from other tasks first: call meta_fit")
        fresh = super().start(task)
        fresh._pool = None
        fresh._posterior = PoolPosterior(self._prior.row, self._prior.variance, self._prior.noise)
        return fresh

    _pool: tuple[Encoded, Places] | None
    _posterior: PoolPosterior

    def places(self, encoded: Encoded) -> Places:
        """Of these pipelines among those known; remembered for a pool, which comes again and again."""
        if self._pool is not None and self._pool[0] is encoded:
            return self._pool[1]
        places = self._known.find(encoded)
        unknown = np.flatnonzero(places < 0)
        if len(unknown):
            raise UnknownPipeline(
                f"{type(self).__name__} knows only the recorded pipelines of its meta-dataset, not "
                f"{encoded[int(unknown[0])]!r}"
            )
        if encoded is self.task.candidates.pool:
            self._pool = (encoded, places)
        return places

    def fit(self, history: History) -> Self:
        encoded, targets = history.with_pending()
        tried = self.places(encoded)
        # That a pipeline failed says nothing of the loss of others: on the other tasks a failure is a missing cell.
        ok = np.array([trial.outcome.ok for trial in history] + [True] * (len(tried) - len(history)), dtype=bool)
        self._tried = tried, targets
        self._seen, self._targets = tried[ok], targets[ok]
        self._posterior.observe(self._seen.tolist())
        self._mixture, self._whitened = self._weigh_scales()
        return self

    def _weigh_scales(self) -> tuple[list[tuple[float, float, float, float]], Array]:
        """Weight, scale, mean and variance of a/b for each scale that counts; and W."""
        prior = self._prior
        assert prior is not None
        n = len(self._seen)
        values = np.stack([self._targets, np.ones(n), prior.means[self._seen]], axis=1)
        whitened = self._posterior.whiten(values)
        y, one, m = whitened.T
        ones = float(one @ one)
        found, evidence = [], []
        for scale in prior.scales:
            wide, start = (prior.offset_std / scale) ** 2, prior.offset_mean / scale
            residual = y / scale - m - start * one
            along = float(one @ residual)
            shrunk = wide / (1.0 + wide * ones)
            evidence.append(
                -0.5 * (float(residual @ residual) - shrunk * along**2 + np.log1p(wide * ones)) - n * np.log(scale)
            )
            found.append((float(scale), start + shrunk * along, shrunk))
        weights = np.exp(np.array(evidence) - max(evidence))
        weights = np.where(weights < _NEGLIGIBLE * weights.sum(), 0.0, weights)
        weights /= weights.sum()
        return [(float(w), *part) for w, part in zip(weights, found, strict=True) if w > 0], whitened

    def predict(self, encoded: Encoded) -> Prediction:
        prior = self._prior
        assert prior is not None
        places = self.places(encoded)
        y, one, m = self._posterior.spread(self._whitened)[:, places]
        means, own = prior.means[places], np.maximum(self._posterior.variance[places], 0.0) + prior.noise[places]
        mean, square = np.zeros(len(places)), np.zeros(len(places))
        for weight, scale, offset, variance in self._mixture:
            at = scale * (offset + means - m - offset * one) + y
            mean += weight * at
            square += weight * (scale**2 * (own + variance * (1.0 - one) ** 2) + at**2)
        std = np.sqrt(np.maximum(square - mean**2, 1e-18))
        # ε belongs to the pipeline and the task, so what was tried is known, failures too.
        tried, targets = self._tried
        last = np.full(len(prior.means), -1)
        last[tried] = np.arange(len(tried))
        known = np.flatnonzero(last[places] >= 0)
        mean[known] = targets[last[places[known]]]
        std[known] *= _KNOWN
        return Prediction(mean, std)
