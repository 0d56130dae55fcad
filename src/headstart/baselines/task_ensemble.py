"""`TaskEnsemble`: what surrogates share that weigh the models of training tasks against that of the task at hand."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.baselines.base_models import BaseModels, BasePredictions
from headstart.errors import InvalidInput
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate
from headstart.surrogates.targets import checked_reshaping, reshaped
from headstart.task import Task

Array = NDArray[np.float64]
_LEAST_STD = 1e-9
"""Relative to that of the targets."""


class TaskEnsemble(Surrogate):
    """Base of surrogates that are a weighted sum of the models of training tasks and that of the task at hand.

    All models predict standardised targets: those of the training tasks by the spread of their own observations, that
    of the task at hand by what was observed so far. A subclass writes `weigh`.

    On a whole space, where nothing can be looked up, only the `n_live` training tasks with the highest weights count.

    Parameters
    ----------
    n_observations
        Most observations of a training task that its model sees.
    targets
        How targets are reshaped before they are learned, see `headstart.surrogates.targets`.
    n_live
        Most training tasks that are used on a whole space.
    """

    looked_up: ClassVar[tuple[str, ...]] = ("means",)
    """What of the training tasks' models is looked up for recorded pipelines."""
    keeps: ClassVar[tuple[str, ...]] = ("models",)
    adjustable = frozenset({"n_live"})
    _models: BaseModels | None = None

    @property
    def models(self) -> dict[str, Any] | None:
        """Those of the training tasks, as arrays."""
        return None if self._models is None else self._models.arrays()

    @models.setter
    def models(self, arrays: dict[str, Any] | None) -> None:
        self._models = None if arrays is None else BaseModels(**arrays)

    def __init__(self, n_observations: int = 200, targets: str = "as_is", n_live: int = 10) -> None:
        if n_live < 1:
            raise InvalidInput(f"n_live must be at least 1, got {n_live!r}")
        self.n_observations = n_observations
        self.targets = checked_reshaping(targets)
        self.n_live = n_live

    def meta_fit(self, meta: MetaDataset) -> Self:
        self._models = BaseModels.of(meta, self.n_observations, self.targets)
        for name in self.looked_up:
            getattr(self._models, name)  # now, once, and not in each process of a replay
        self.meta_key = f"{type(self).__name__}-{meta.key}"
        return self

    def start(self, task: Task) -> Self:
        if self._models is None:
            raise InvalidInput(f"{type(self).__name__} learns from other tasks: call meta_fit before start")
        fresh = super().start(task)
        fresh.base = BasePredictions(self._models, task)
        return fresh

    base: BasePredictions
    """What the models of the training tasks predict for candidates of this task."""
    process: GaussianProcess
    """The model of the task at hand."""
    weights: Array
    """Of the training tasks, shape ``(T,)``, after `fit`."""
    own_weight: float
    """Of the model of the task at hand; all weights together are 1."""

    @abstractmethod
    def weigh(self, predicted: Array, observed: Array) -> tuple[Array, float]:
        """Weights ``(T,)`` of the training tasks and that of the task at hand, none negative, not all 0.

        Parameters
        ----------
        predicted
            Means ``(T, n)`` of the training tasks' models at the pipelines that were tried.
        observed
            Targets ``(n,)`` of the task at hand.
        """

    def fit(self, history: History) -> Self:
        encoded, observed = history.encoded, reshaped(history.targets(), self.targets)
        self.process = GaussianProcess().fit(encoded.features(), observed)
        weights, own = self.weigh(self.base.at_tried(encoded), observed)
        if not self.base.looked_up and np.count_nonzero(weights) > self.n_live:
            kept = np.argsort(-weights, kind="stable")[: self.n_live]
            weights = np.where(np.isin(np.arange(len(weights)), kept), weights, 0.0)
        total = float(weights.sum()) + own
        self.weights, self.own_weight = weights / total, own / total
        if history.pending:
            waiting = history.waiting.features()
            self.process = self.process.add(waiting, self.process.posterior(waiting)[0])
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        mean, std = self.standardised(encoded)
        to = self.process.standardisation
        return Prediction(to.undo(mean), to.scale * np.maximum(std, _LEAST_STD))

    def standardised(self, encoded: Encoded) -> tuple[Array, Array]:
        """Mean and standard deviation in units of standardised targets."""
        own_mean, own_std = self.own(encoded)
        mean = self.own_weight * own_mean + self.base.mean(self.weights, encoded)
        return mean, self.spread(own_std, encoded)

    def own(self, encoded: Encoded) -> tuple[Array, Array]:
        """What the model of the task at hand predicts, in units of standardised targets."""
        mean, std = self.process.posterior(encoded.features())
        to = self.process.standardisation
        return to.apply(mean), std / to.scale

    @abstractmethod
    def spread(self, own_std: Array, encoded: Encoded) -> Array:
        """Standard deviation of the ensemble, from that of the model of the task at hand; standardised, ``(n,)``."""
