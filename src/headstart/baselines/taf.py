"""`TAFRanking`: transfer acquisition function, after Wistuba, Schilling & Schmidt-Thieme (2018).

=============  ==================  ============================================================================
symbol         name in code        equation
=============  ==================  ============================================================================
EI(x)          own                 expected improvement under the model of the task at hand
μ_t            base                model of training task t
I_t(x)         gained              max(0, min_j μ_t(x_j) - μ_t(x)) over the pipelines x_j tried on the task at hand
w_t            weights             ¾ (1 - (δ_t/ρ)²) for δ_t < ρ, else 0; ¾ for the task at hand
a(x)           scores              (w_0 EI(x) + Σ_t w_t I_t(x)) / (w_0 + Σ_t w_t)
=============  ==================  ============================================================================

δ_t is the share of pairs of observations that model t puts in the other order, as in `headstart.baselines.tst`.

Decided here: improvements are measured in units of each task's standardised targets. The score is the logarithm of a,
so that candidates can still be told apart where no training task promises anything and expected improvement is too
small for a number.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from headstart.baselines.tst import TSTRanking
from headstart.errors import InvalidInput
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.expected_improvement import log_expected_improvement
from headstart.optimizers.bayes import Bayes, Scores
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Surrogate


class TransferImprovement:
    """Logarithm of the weighted mean of expected improvement and of what training tasks predict to be gained.

    Works with a `TSTRanking` surrogate, which has the models and the weights.
    """

    def __call__(self, surrogate: Surrogate, history: History, encoded: Encoded) -> Scores:
        if not isinstance(surrogate, TSTRanking):
            raise InvalidInput(f"the transfer acquisition needs a TSTRanking surrogate, got {type(surrogate).__name__}")
        mean, std = surrogate.own(encoded)
        targets = surrogate.process.standardisation.apply(history.targets())
        best = float(targets.min()) if len(targets) else float(mean.max())
        own = log_expected_improvement(mean, std, best)
        tried = surrogate.base.at_tried(history.encoded)
        lowest = tried.min(axis=1) if tried.shape[1] else np.zeros(len(tried))
        gained = surrogate.base.improvement(surrogate.weights, lowest, encoded)
        with np.errstate(divide="ignore"):
            return np.asarray(np.logaddexp(np.log(surrogate.own_weight) + own, np.log(gained)))


class TAFRanking(Bayes):
    """Bayesian optimisation whose acquisition asks the training tasks too what they would gain (Wistuba, Schilling &
    Schmidt-Thieme, Machine Learning 2018).

    Parameters
    ----------
    bandwidth
        Share of pairs in the other order from which on a training task does not count.
    n_observations, n_live
        See `headstart.baselines.task_ensemble.TaskEnsemble`.
    n_initial, n_samples, n_starts
        See `Bayes`.
    """

    def __init__(
        self,
        bandwidth: float = 0.3,
        n_observations: int = 200,
        n_live: int = 10,
        n_initial: int = 5,
        n_samples: int = 2000,
        n_starts: int = 10,
    ) -> None:
        super().__init__(
            TSTRanking(bandwidth, n_observations, n_live),
            TransferImprovement(),
            n_initial,
            n_samples,
            n_starts,
        )
        self.bandwidth = bandwidth
        self.n_observations = n_observations
        self.n_live = n_live

    def meta_fit(self, meta: MetaDataset) -> Self:
        super().meta_fit(meta)
        self.meta_key = f"taf_r-{meta.key}"
        return self
