"""Leading linear factors of a matrix of losses: where `LinearFactors` ends and `PMF` begins.

=================  =====================  ==================================================================
symbol             name in code           equation
=================  =====================  ==================================================================
y_tp               losses                 loss of pipeline p on task t
a_t, b_t           offsets, scales        mean and standard deviation of a task's losses
z_tp               standardised           (y_tp − a_t) / b_t = m_p + v_pᵀ w_t + ε_tp
m_p                means                  mean of z_tp over the tasks on which p was observed
v_p (R,)           loadings               right singular vectors of z − m times s_k / √T, so that w_t ~ N(0, I)
ψ_p                noise                  variance of ε_tp: mean square of what the factors leave over
=================  =====================  ==================================================================

Nothing is iterated but the filling of missing cells (`fill`), see `headstart.numerics.low_rank`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.latent_kernel import LatentKernel
from headstart.numerics.low_rank import complete
from headstart.surrogates.latent_prior import LatentPrior
from headstart.surrogates.posterior import Located

Array = NDArray[np.float64]
_LEAST_NOISE = 1e-4
"""Relative to the variance of a task's losses."""
_TASKS_FOR_A_FACTOR = 3
"""Least tasks for each factor: with fewer, factors explain the very tasks that they are made of and no others."""
_PRIOR_CELLS = 3.0
"""Cells at the typical variance that the noise of every pipeline is shrunk by."""


@dataclass
class Standardised:
    """Losses of tasks, each on its own scale.

    Parameters
    ----------
    residuals, known
        (T, P): standardised losses minus the means of their pipelines, 0 where nothing is known.
    means
        (P,)
    offset_mean, offset_std, scales
        Of the tasks: mean and spread of their mean losses, quantiles of their standard deviations.
    """

    residuals: Array
    known: NDArray[np.bool_]
    means: Array
    offset_mean: float
    offset_std: float
    scales: Array

    @classmethod
    def of(cls, meta: MetaDataset, n_scales: int = 9, *, raw: bool = False) -> Standardised:
        """Of all tasks with a loss; `raw` takes losses as they are, every task with offset 0 and scale 1."""
        losses = np.asarray(meta.losses, dtype=np.float64)
        losses = np.where(np.isfinite(losses), losses, np.nan)
        losses = losses[np.isfinite(losses).any(axis=1)]
        if not len(losses):
            raise InvalidInput("there must be a task with a loss to learn from, got none")
        known = np.isfinite(losses)
        if raw:
            offsets, scales = np.zeros(len(losses)), np.ones(len(losses))
        else:
            offsets, scales = np.nanmean(losses, axis=1), np.nanstd(losses, axis=1)
            scales = np.maximum(scales, 1e-3 * (float(np.median(scales)) or 1.0))
        residuals = (losses - offsets[:, None]) / scales[:, None]
        residuals[~known] = 0.0
        # A pipeline seen on no task is as good as the average one.
        means = residuals.sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        residuals -= means
        residuals[~known] = 0.0
        grid = np.unique(np.quantile(scales, (np.arange(n_scales) + 0.5) / n_scales))
        return cls(residuals, known, means, float(offsets.mean()), float(max(offsets.std(), 1e-9)), grid)

    def about(self, mean: float) -> Standardised:
        """The same losses with this mean for all pipelines."""
        residuals = np.where(self.known, self.residuals + self.means - mean, 0.0)
        return replace(self, residuals=residuals, means=np.full(len(self.means), mean))


def factorise(losses: Standardised, rank: int, fill: int) -> LatentPrior:
    """The prior of `LinearFactors`: leading factors of standardised losses; see the module's text."""
    residuals, known = losses.residuals, losses.known
    rank = min(rank, len(residuals) // _TASKS_FOR_A_FACTOR, residuals.shape[1])
    left, basis = np.zeros((len(residuals), 1)), np.zeros((1, residuals.shape[1]))
    if rank:
        found = complete(np.where(known, residuals, np.nan), rank, iterations=fill)
        if len(found.right):  # otherwise all tasks agree in everything
            left, basis = found.left * found.values, found.right
    over = np.where(known, residuals - left @ basis, 0.0)
    count, spread = known.sum(axis=0), (over**2).sum(axis=0)
    # What the factors explain of a task they were made of, they would not of another: R of T degrees are used up.
    share = max(1.0 - rank / len(residuals), 0.2)
    typical = float(spread.sum() / max(1, count.sum()))
    noise = (spread + _PRIOR_CELLS * typical) / (count + _PRIOR_CELLS) / share
    noise[(count == 0) | (len(residuals) == 1)] = 1.0  # as uncertain as anything
    loadings = basis.T * np.sqrt((left**2).mean(axis=0))
    located = Located(loadings, losses.means, np.maximum(noise, _LEAST_NOISE))
    kernel = LatentKernel("linear", np.ones(loadings.shape[1]), 0.0, np.ones(loadings.shape[1]))
    return LatentPrior(located, kernel, losses.offset_mean, losses.offset_std, losses.scales)
