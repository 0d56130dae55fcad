"""`GPSurrogate`: a Gaussian process over encoded pipelines."""

from __future__ import annotations

from typing import Self, get_args

import numpy as np

from headstart.errors import InvalidInput, check_positive
from headstart.history import History
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.kernels import KernelName
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate

_LEAST_STD = 1e-9
"""Relative to that of the targets."""


class GPSurrogate(Surrogate):
    """Exact Gaussian process on the values and one-hot choices of a pipeline (Snoek, Larochelle & Adams, NeurIPS 2012).

    Proposals under way are added at their predicted mean (the Kriging believer), which leaves the mean as it is and
    takes the uncertainty away around them.

    Parameters
    ----------
    kernel
        ``"matern52"``, ``"squared_exponential"`` or ``"linear"``.
    ard
        A length scale for each column instead of one for all.
    n_starts
        Searches for the hyper-parameters of the kernel.
    """

    def __init__(self, kernel: KernelName = "matern52", ard: bool = True, n_starts: int = 1) -> None:
        if kernel not in get_args(KernelName):
            raise InvalidInput(f"kernel must be one of {', '.join(get_args(KernelName))}, got {kernel!r}")
        check_positive("n_starts", n_starts, whole=True)
        self.kernel: KernelName = kernel
        self.ard = ard
        self.n_starts = n_starts

    def fit(self, history: History) -> Self:
        process = GaussianProcess(kernel=self.kernel, ard=self.ard, n_starts=self.n_starts)
        process.fit(history.encoded.features(), history.targets())
        if history.pending:
            waiting = history.waiting.features()
            process = process.add(waiting, process.posterior(waiting)[0])
        self._process = process
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        mean, std = self._process.posterior(encoded.features())
        # A linear kernel is certain at the origin, and nothing may be.
        return Prediction(mean, np.maximum(std, _LEAST_STD * self._process.standardisation.scale))
