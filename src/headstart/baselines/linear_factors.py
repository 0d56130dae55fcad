"""`LinearFactors`: a linear Gaussian factor model of pipelines × tasks, without any training loop.

The factors are those of `headstart.surrogates.factorisation`. On a new task the weights of its factors are regressed by
Bayes' rule, which is a Gaussian process with covariance v_pᵀ v_q: see `headstart.surrogates.recorded_gp`. This model is
ours.
"""

from __future__ import annotations

from headstart.errors import InvalidInput
from headstart.learning.networks import Parameters
from headstart.metadata.metadataset import MetaDataset
from headstart.surrogates.factorisation import Standardised, factorise
from headstart.surrogates.latent_prior import LatentPrior
from headstart.surrogates.recorded_gp import RecordedGP


class LinearFactors(RecordedGP):
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

    def learn_prior(self, meta: MetaDataset) -> tuple[LatentPrior, Parameters]:
        return factorise(Standardised.of(meta, self.n_scales), self.rank, self.fill), {}
