"""`RGPE`: ranking-weighted Gaussian process ensemble, after Feurer, Letham & Bakshy (2018).

=============  ==================  ============================================================================
symbol         name in code        equation
=============  ==================  ============================================================================
μ_t, σ_t                           model of training task t; μ_0, σ_0 that of the task at hand
ℓ_ts           losses (T, S)       ranking loss of model t under bootstrap sample s of the n observations
ℓ_0s           own_losses (S,)     the same for the model of the task at hand, with its leave-one-out means
w_t            weights             share of the samples in which model t has the lowest loss
μ(x)           mean                Σ_t w_t μ_t(x)
σ²(x)          variance            Σ_t w_t² σ_t²(x)
=============  ==================  ============================================================================

Decided here, where the paper leaves it open or at odds with speed:

- The distribution of a model's loss comes from bootstrapping the observations under its mean predictions, as in the
  authors' later version, not from joint samples of hundreds of posteriors at every step.
- Leave-one-out means keep the hyper-parameters learned from all observations, which gives them in closed form.
- Pairs of equal targets do not count. Of several models with the lowest loss the one of the task at hand wins; without
  it they share.
- Against the dilution of weights a training task is left out if the median of its losses is above the 95 % quantile
  of the losses of the model of the task at hand.
- With fewer than three observations all training tasks count the same and the model at hand does not.
"""

from __future__ import annotations

import numpy as np

from headstart.baselines.task_ensemble import Array, TaskEnsemble
from headstart.errors import InvalidInput
from headstart.numerics.ranking import bootstrap_losses, left_out_losses
from headstart.space.encoded import Encoded

_FEWEST = 3
"""Observations from which on models are compared."""


class RGPE(TaskEnsemble):
    """Models of training tasks and of the task at hand, weighted by how often each ranks the observations best (Feurer,
    Letham & Bakshy, AutoML workshop at ICML 2018).

    Parameters
    ----------
    n_samples
        Bootstrap samples of the observations.
    dilution
        Quantile of the losses of the task's own model above which a training task with such a median is left out; 1
        leaves none out but those that are worse in every sample.
    n_observations, n_live
        See `TaskEnsemble`.
    seed
        Of the bootstrap; the same history gives the same weights.
    """

    looked_up = ("means", "stds")
    adjustable = frozenset({"n_samples", "dilution", "n_live", "seed"})

    def __init__(
        self,
        n_samples: int = 256,
        dilution: float = 0.95,
        n_observations: int = 200,
        n_live: int = 10,
        seed: int = 0,
    ) -> None:
        super().__init__(n_observations, n_live)
        if n_samples < 1 or not 0 < dilution <= 1:
            raise InvalidInput(
                f"n_samples must be at least 1 and dilution in (0, 1], got {n_samples!r} and {dilution!r}"
            )
        self.n_samples = n_samples
        self.dilution = dilution
        self.seed = seed

    def weigh(self, predicted: Array, observed: Array) -> tuple[Array, float]:
        size = len(observed)
        if size < _FEWEST:
            return np.ones(len(predicted)), 0.0
        rng = np.random.default_rng([self.seed, size])
        counts = rng.multinomial(size, np.full(size, 1.0 / size), self.n_samples)
        own_losses = left_out_losses(self.process.leave_one_out(), observed, counts)
        return ranking_weights(bootstrap_losses(predicted, observed, counts), own_losses, self.dilution)

    def spread(self, own_std: Array, encoded: Encoded) -> Array:
        return np.sqrt((self.own_weight * own_std) ** 2 + self.base.variance(self.weights, encoded))


def ranking_weights(losses: Array, own_losses: Array, dilution: float) -> tuple[Array, float]:
    """Weights ``(T,)`` of models with losses ``(T, S)``, and that of the one with losses ``(S,)``; their sum is 1."""
    diluting = np.median(losses, axis=1) > np.quantile(own_losses, dilution)
    losses = np.where(diluting[:, None], np.inf, losses)
    lowest = losses.min(axis=0, initial=np.inf)
    own = own_losses <= lowest
    winners = (losses == lowest) & ~own
    shared = winners / np.maximum(winners.sum(axis=0), 1)
    return shared.mean(axis=1), float(own.mean())
