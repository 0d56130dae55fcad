"""`LinearFactors`: a linear Gaussian factor model of pipelines × tasks, without any training loop.

=================  =====================  ==================================================================
symbol             name in code           equation
=================  =====================  ==================================================================
y_tp               losses                 loss of pipeline p on task t
a_t, b_t           offset, scale          mean and standard deviation of a task's losses
z_tp               standardised           (y_tp − a_t) / b_t = m_p + v_pᵀ w_t + ε_tp
m_p                means                  mean of z_tp over the tasks on which p was observed
v_p (R,)           loadings               right singular vectors of z − m times s_k / √T, so that w_t ~ N(0, I)
ψ_p                noise                  variance of ε_tp: mean square of what the factors leave over
X_p                [1, v_p]               offset and loadings as one design
θ ~ N(θ₀, Λ⁻¹)     weights                ((a − …)/b, w) of the new task
b                  scale of the new task  unknown: a grid, weighted by prior × evidence
=================  =====================  ==================================================================

For one b, y/b − m = X θ + ε is Bayesian linear regression with known noise: Σ = (Λ + XᵀΨ⁻¹X)⁻¹,
θ̂ = Σ (Λθ₀ + XᵀΨ⁻¹r), and the evidence is in closed form. The prediction is the mixture over the grid, by its moments.

This model is ours. Nothing here is iterated but the filling of missing cells (`fill`), which repeats the singular value
decomposition with the model's own values in place of what is missing.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from headstart.errors import HeadstartError, InvalidInput, UnknownPipeline
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task

Array = NDArray[np.float64]
_LEAST_NOISE = 1e-4
"""Relative to the variance of a task's losses."""
_NEGLIGIBLE = 1e-3
"""Weight of a scale that is left out of the mixture."""


class LinearFactors(Surrogate):
    """Pipeline means plus a few linear factors, learned from other tasks; exact inference on the new one.

    Knows recorded pipelines only.

    Parameters
    ----------
    rank
        Number of factors.
    fill
        How often missing cells are filled with what the model says and the factors computed again.
    n_scales
        Size of the grid of scales for the new task, quantiles of those of the training tasks.
    """

    def __init__(self, rank: int = 30, fill: int = 3, n_scales: int = 9) -> None:
        if rank < 1 or fill < 0 or n_scales < 1:
            raise InvalidInput(
                f"rank and n_scales must be at least 1 and fill at least 0, got {rank!r}, {n_scales!r} and {fill!r}"
            )
        self.rank = rank
        self.fill = fill
        self.n_scales = n_scales
        self._learned: _Learned | None = None

    def meta_fit(self, meta: MetaDataset) -> Self:
        self._learned = _learn(meta, self.rank, self.fill, self.n_scales)
        self.meta_key = f"linear_factors-{meta.key}"
        return self

    def start(self, task: Task) -> Self:
        if self._learned is None:
            raise HeadstartError("linear_factors must learn from other tasks first: call meta_fit(meta-dataset)")
        fresh = super().start(task)
        fresh._pool = None
        return fresh

    _pool: tuple[Encoded, NDArray[np.int64]] | None

    def _columns(self, encoded: Encoded) -> NDArray[np.int64]:
        """Places of these pipelines among those known; remembered for a pool, which comes again and again."""
        assert self._learned is not None
        if self._pool is not None and self._pool[0] is encoded:
            return self._pool[1]
        if not encoded.recorded:
            raise UnknownPipeline("linear_factors knows only the recorded pipelines of its meta-dataset")
        columns = self._learned.places(encoded.ids)
        if encoded is self.task.candidates.pool:
            self._pool = (encoded, columns)
        return columns

    def fit(self, history: History) -> Self:
        assert self._learned is not None
        encoded, targets = history.with_pending()
        self._seen = self._columns(encoded) if len(encoded) else np.zeros(0, np.int64)
        self._targets = targets
        self._fitted = self._learned.regress(self._seen, targets)
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        assert self._learned is not None
        columns = self._columns(encoded)
        design, means, noise = self._learned.design(columns)
        mean, square = np.zeros(len(columns)), np.zeros(len(columns))
        for weight, scale, weights, root in self._fitted:
            at = scale * (means + design @ weights)
            variance = scale**2 * (((design @ root) ** 2).sum(axis=1) + noise)
            mean += weight * at
            square += weight * (variance + at**2)
        std = np.sqrt(np.maximum(square - mean**2, 1e-18))
        # ε belongs to the pipeline and the task, so what was tried is known.
        place = np.full(len(self._learned.means), -1)
        place[self._seen] = np.arange(len(self._seen))
        tried = np.flatnonzero(place[columns] >= 0)
        mean[tried] = self._targets[place[columns[tried]]]
        std[tried] *= _KNOWN
        return Prediction(mean, std)


_KNOWN = 1e-3
"""Uncertainty of what was tried, relative to what it would be otherwise: never none."""
_Fitted = list[tuple[float, float, Array, Array]]
"""For each scale of the mixture: its weight, the scale, the mean of the weights and a root of their covariance."""


class _Learned:
    """What is known of all pipelines, and of how tasks differ."""

    def __init__(
        self, ids: NDArray[np.int64], means: Array, loadings: Array, noise: Array, offsets: Array, scales: Array
    ) -> None:
        self._sorted = np.argsort(ids)
        self._ids = ids[self._sorted]
        self.means = means
        self.loadings = loadings
        self.noise = noise
        self.offset_mean, self.offset_std = float(offsets.mean()), float(max(offsets.std(), 1e-9))
        self.scales = scales

    def places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        at = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        unknown = np.flatnonzero(self._ids[at] != ids)
        if len(unknown):
            raise UnknownPipeline(f"linear_factors knows only recorded pipelines, not #{ids[unknown[0]]}")
        return self._sorted[at]

    def design(self, columns: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        loadings = self.loadings[columns]
        return np.concatenate([np.ones((len(columns), 1)), loadings], axis=1), self.means[columns], self.noise[columns]

    def regress(self, columns: NDArray[np.int64], targets: Array) -> _Fitted:
        """Bayesian linear regression for each scale, with the scales' posterior weights."""
        design, means, noise = self.design(columns)
        weighted = design / noise[:, None]
        information = weighted.T @ design
        found, evidence = [], []
        for scale in self.scales:
            prior = np.ones(design.shape[1])
            prior[0] = (scale / self.offset_std) ** 2
            start = np.zeros(design.shape[1])
            start[0] = self.offset_mean / scale
            precision = information + np.diag(prior)
            factor = cho_factor(precision, lower=True)
            residual = targets / scale - means - design @ start
            right = weighted.T @ residual
            step = cho_solve(factor, right)
            diagonal = np.diag(factor[0])
            evidence.append(
                -len(targets) * np.log(scale)
                + 0.5 * np.log(prior).sum()
                - np.log(diagonal).sum()
                - 0.5 * (residual @ (residual / noise) - right @ step)
            )
            root = np.linalg.inv(np.tril(factor[0])).T
            found.append((float(scale), start + step, root))
        weights = np.exp(np.array(evidence) - max(evidence))
        weights /= weights.sum()
        kept = weights >= _NEGLIGIBLE
        weights = weights / weights[kept].sum()
        return [(float(w), *part) for w, part, keep in zip(weights, found, kept, strict=True) if keep]


def _learn(meta: MetaDataset, rank: int, fill: int, n_scales: int) -> _Learned:
    losses = np.asarray(meta.losses, dtype=np.float64)
    losses = losses[np.isfinite(losses).any(axis=1)]
    known = np.isfinite(losses)
    offsets, scales = np.nanmean(losses, axis=1), np.nanstd(losses, axis=1)
    floor = 1e-3 * (np.median(scales) or 1.0)
    scales = np.maximum(scales, floor)
    standardised = (losses - offsets[:, None]) / scales[:, None]
    del losses
    count = known.sum(axis=0)
    standardised[~known] = 0.0
    # A pipeline seen on no task is as good as the average one, and as uncertain as anything.
    means = standardised.sum(axis=0) / np.maximum(count, 1)
    residuals = standardised
    residuals -= means
    residuals[~known] = 0.0
    rank = min(rank, len(residuals) - 1 if len(residuals) > 1 else 1, residuals.shape[1])
    filled = residuals
    for turn in range(fill + 1):
        left, basis = _leading(filled, rank)
        if turn < fill:
            filled = np.where(known, residuals, left @ basis)
    over = np.where(known, residuals - left @ basis, 0.0)
    # What the factors explain of a task they were made of, they would not of another: R of T degrees are used up.
    share = max(1.0 - rank / len(residuals), 0.2)
    spread = (over**2).sum(axis=0)
    typical = float(spread.sum() / max(1, count.sum()))
    noise = (spread + 3.0 * typical) / (count + 3.0) / share
    noise[count == 0] = 1.0
    loadings = basis.T * (np.sqrt((left**2).mean(axis=0)))
    grid = np.quantile(scales, (np.arange(n_scales) + 0.5) / n_scales)
    return _Learned(meta.pipelines.ids, means, loadings, np.maximum(noise, _LEAST_NOISE), offsets, np.unique(grid))


def _leading(matrix: Array, rank: int) -> tuple[Array, Array]:
    """Leading singular factors of a wide matrix (T, P): (T, R) left times values, (R, P) right."""
    values, vectors = np.linalg.eigh(matrix @ matrix.T)
    lead = vectors[:, ::-1][:, :rank]
    size = np.sqrt(np.maximum(values[::-1][:rank], 1e-18))
    return lead * size, (lead / size).T @ matrix
