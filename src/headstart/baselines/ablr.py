"""`ABLR`: Bayesian linear regression on features that a network learned from other tasks.

Perrone, Jenatton, Seeger & Archambeau (2018), "Scalable hyperparameter transfer learning".

=========  ====================  ==========================================================================
symbol     name in code          equation
=========  ====================  ==========================================================================
x          points                features of a pipeline
φ(x)       network, _features    output of the network, all layers tanh, with a constant 1 appended
w_t                              weights of task t: w_t ~ N(0, I/α_t)
α_t, β_t   alpha, beta           precisions of weights and noise of task t
y_t        targets               standardised losses of task t: y_t ~ N(Φ_t w_t, I/β_t)
           loss                  -Σ_t ln p(y_t | Φ_t, α_t, β_t) / n_t, minimised over the network
=========  ====================  ==========================================================================

Decided here. (1) α_t and β_t are not trained beside the network but at their optimum for the batch at every step: the
derivative by the network is the same there, and tasks that are only validated on need no training. (2) Adam on batches
of tasks and pipelines instead of L-BFGS on everything, with early stopping on tasks that were not trained on. (3) On
the new task α and β are the likeliest again, where ln(β/α) has a normal prior with the moments it has over the training
tasks: five observations alone say little of two precisions.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import check_positive
from headstart.history import History
from headstart.learning.batches import Batch, TaskBatches, training_and_validation
from headstart.learning.likelihoods import linear_log_likelihood
from headstart.learning.networks import MLP, Parameters
from headstart.learning.training import Training, TrainingLike, train_network
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.bayesian_linear import BayesianLinearRegression, likeliest_precisions
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction
from headstart.surrogates.meta_trained import MetaTrained

Array = NDArray[np.float64]

_TRAINING = Training(2e-3)
_VALIDATION_TASKS = 60
_LEAST_STD = 1e-6
"""Relative to that of the targets."""


class ABLR(MetaTrained):
    """Bayesian linear regression on features learned from other tasks (Perrone et al., NeurIPS 2018).

    Meta-training needs torch; everything after it NumPy alone.

    Parameters
    ----------
    units, layers
        Of the network; the units of its last layer are the features.
    steps, training, seed
        Of meta-training: most steps, how (see `Training`; a mapping changes some of the defaults), the seed.
    """

    def __init__(
        self,
        units: int = 50,
        layers: int = 3,
        steps: int = 4000,
        training: TrainingLike = _TRAINING,
        seed: int = 0,
    ) -> None:
        for name, value in {"units": units, "layers": layers}.items():
            check_positive(name, value, whole=True)
        self.units = units
        self.layers = layers
        self.set_training(steps, training, _TRAINING, seed)

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:
        from headstart.learning.backend import require_torch

        torch = require_torch("meta-training of ABLR")
        points = meta.pipelines.features()
        training, validation = training_and_validation(meta, points, rng)
        network = self._network(points.shape[1])
        n_tasks, n_pipelines = self.training.n_tasks, self.training.n_pipelines
        held = validation.draw(rng, _VALIDATION_TASKS, n_pipelines)

        def likelihood(tensors: dict[str, Any], batch: Batch) -> Any:
            features = _with_constant_torch(torch, network(tensors, torch.from_numpy(batch.points)))
            features = features * torch.from_numpy(batch.mask)[:, :, None]
            counts = batch.mask.sum(axis=1).astype(np.float64)
            with one_blas_thread():
                alpha, beta = likeliest_precisions(features.detach().numpy(), batch.targets, counts)
            value = linear_log_likelihood(
                features, *(torch.from_numpy(a) for a in (batch.targets, alpha, beta, counts))
            )
            return -(value / torch.from_numpy(counts)).mean()

        trained = train_network(
            network.initial(rng),
            lambda tensors, stream: likelihood(tensors, training.draw(stream, n_tasks, n_pipelines)),
            lambda tensors: likelihood(tensors, held),
            self.training.number_of_steps(self.steps, len(training)),
            self.training,
            rng,
            "ABLR",
        )
        return {**trained.parameters, "log_ratio": self._ratios(trained.parameters, training, rng)}

    def _ratios(self, parameters: Parameters, training: TaskBatches, rng: np.random.Generator) -> Array:
        """Mean and standard deviation of ln(β/α) over training tasks."""
        batch = training.draw(rng, 4 * _VALIDATION_TASKS, self.training.n_pipelines)
        features = _with_constant(self._network(batch.points.shape[-1])(parameters, batch.points))
        with one_blas_thread():
            alpha, beta = likeliest_precisions(
                features * batch.mask[..., None], batch.targets, batch.mask.sum(axis=1).astype(np.float64)
            )
        ratios = np.log(beta / alpha)
        return np.array([ratios.mean(), max(float(ratios.std()), 0.1)])

    def _network(self, inputs: int) -> MLP:
        return MLP("features", (inputs, *[self.units] * self.layers), "tanh", end_active=True)

    def _features(self, points: Array) -> Array:
        with one_blas_thread():
            return _with_constant(self._network(points.shape[1])(self._parameters, points))

    def fit(self, history: History) -> Self:
        encoded, targets = history.with_pending()
        standardisation = Standardisation.of(targets)
        features = self._features(self.points(encoded))
        mean, spread = self._parameters["log_ratio"]
        precisions = None
        if standardisation.constant:
            # Nothing is known of the scale: features then explain as much of it as they did on other tasks.
            beta = 1.0 + np.exp(mean) * self.units
            precisions = (float(beta * np.exp(-mean)), float(beta))
        with one_blas_thread():
            self._regression = BayesianLinearRegression.fit(
                features, standardisation.apply(targets), precisions, (float(mean), float(spread))
            )
        self._standardisation = standardisation
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        features = self.cached_for_candidates("features", encoded, self._features)
        with one_blas_thread():
            mean, std = self._regression.posterior(features)
        scale = self._standardisation.scale
        return Prediction(self._standardisation.undo(mean), np.maximum(std, _LEAST_STD) * scale)


def _with_constant(features: Array) -> Array:
    return np.concatenate([features, np.ones((*features.shape[:-1], 1))], axis=-1)


def _with_constant_torch(torch: Any, features: Any) -> Any:
    return torch.cat([features, torch.ones(*features.shape[:-1], 1, dtype=features.dtype)], dim=-1)
