"""`FSBO`: a Gaussian process whose kernel is a network that other tasks have trained.

Wistuba & Grabocka (2021), "Few-shot Bayesian optimization with deep kernel surrogates". The notation of the kernel is
in `headstart.learning.deep_kernel`.

=========  ==============  =================================================================================
symbol     name in code    equation
=========  ==============  =================================================================================
φ(x)       network         output of the network, `width` numbers, divided by the learned length scales
l, u       low, high       l < u uniform between lowest and highest target of a task: y ← (y - l) / (u - l)
L          batch_loss      -Σ_t ln p(y_t | φ(X_t), ℓ, s, σ²) / n_t, mean over the tasks of a batch
=========  ==============  =================================================================================

Decided here. (1) Scaling of labels: the paper draws l and u between the lowest and highest loss of all tasks. Ours
draws them for each task of a batch from the range of its own (standardised) targets, and again while u - l is below a
tenth of that range: the factor 1 / (u - l) has no finite variance otherwise, and single batches would decide. (2) On
the new task a common factor of the length scales, the output scale and the noise are fitted to the history under
log-normal priors around what was meta-learned; the network stays, so that a pool is embedded once. With
``fine_tune="all"`` steps of Adam on the network follow, which costs an embedding of the pool at every suggestion.
(3) The evolutionary choice of initial pipelines in the paper is left out: initial pipelines belong to the task here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.errors import UnknownName, check_positive, suggestion
from headstart.history import History
from headstart.learning.adam import Adam
from headstart.learning.backend import require_torch
from headstart.learning.batches import Batch, TaskBatches, training_and_validation
from headstart.learning.deep_kernel import LENGTHS, initial_kernel, learned_hyperparameters, task_log_likelihoods
from headstart.learning.likelihoods import DeepKernelName
from headstart.learning.networks import MLP, Parameters
from headstart.learning.training import Training, TrainingLike, train_network
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import (
    HyperparameterPrior,
    Hyperparameters,
    LogNormal,
    search_hyperparameters,
    spread_over_ranks,
)
from headstart.numerics.marginal_likelihood import log_marginal_likelihood
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction
from headstart.surrogates.meta_trained import MetaTrained

Array = NDArray[np.float64]
FineTune = Literal["none", "kernel", "all"]

_TRAINING = Training()
_VALIDATION_TASKS = 60
_LEAST_STD = 1e-6
"""Relative to that of the targets."""
_LEAST_SHARE = 0.1
"""Of a task's range that labels are scaled by."""
_FINE_TUNING_RATE = 1e-3
_MOST_TO_FIT = 300
"""Trials that the kernel's parameters are fitted to; of more these many, at evenly spaced ranks."""


class FSBO(MetaTrained):
    """Deep-kernel Gaussian process, meta-trained over tasks and adapted to the new one (Wistuba & Grabocka, ICLR 2021).

    Meta-training needs torch; everything after it NumPy alone.

    Parameters
    ----------
    kernel
        ``"matern52"`` or ``"squared_exponential"``.
    units, layers, width
        Hidden units and hidden layers of the network, and how many numbers it gives the kernel.
    fine_tune
        What is fitted on the new task: ``"none"``, ``"kernel"`` or ``"all"``.
    fine_tune_steps
        On the network, for ``"all"``.
    looseness
        Standard deviation of the logarithms of the kernel's parameters around what was meta-learned.
    augment
        Whether labels are scaled at random in meta-training.
    steps, training, seed
        Of meta-training: most steps, how (see `Training`; a mapping changes some of the defaults), the seed.
    """

    def __init__(
        self,
        kernel: DeepKernelName = "matern52",
        units: int = 128,
        layers: int = 2,
        width: int = 32,
        fine_tune: FineTune = "kernel",
        fine_tune_steps: int = 20,
        looseness: float = 0.5,
        augment: bool = True,
        steps: int = 4000,
        training: TrainingLike = _TRAINING,
        seed: int = 0,
    ) -> None:
        for name, value in {"units": units, "width": width}.items():
            check_positive(name, value, whole=True)
        check_positive("looseness", looseness)
        if fine_tune not in get_args(FineTune):
            raise UnknownName(f"fine_tune has no {fine_tune!r}; {suggestion(fine_tune, get_args(FineTune))}")
        self.kernel: DeepKernelName = kernel
        self.units = units
        self.layers = layers
        self.width = width
        self.fine_tune: FineTune = fine_tune
        self.fine_tune_steps = fine_tune_steps
        self.looseness = looseness
        self.augment = augment
        self.set_training(steps, training, _TRAINING, seed)

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:
        points = meta.pipelines.features()
        training, validation = training_and_validation(meta, points, rng)
        network = self._network(points.shape[1])
        initial = {**network.initial(rng), **initial_kernel(self.width, np.sqrt(self.width))}

        def drawn(tasks: TaskBatches, stream: np.random.Generator, n: int) -> Batch:
            batch = tasks.draw(stream, n, self.training.n_pipelines)
            return replace(batch, targets=scale_labels(batch.targets, batch.mask, stream)) if self.augment else batch

        def loss(tensors: dict[str, Any], stream: np.random.Generator) -> Any:
            return batch_loss(self.kernel, network, tensors, drawn(training, stream, self.training.n_tasks))

        held = drawn(validation, rng, _VALIDATION_TASKS)
        trained = train_network(
            initial,
            loss,
            lambda tensors: batch_loss(self.kernel, network, tensors, held),
            self.training.number_of_steps(self.steps, len(training)),
            self.training,
            rng,
            "FSBO",
        )
        return trained.parameters

    def _network(self, inputs: int) -> MLP:
        return MLP("network", (inputs, *[self.units] * self.layers, self.width))

    def _embed(self, points: Array, parameters: Parameters | None = None) -> Array:
        known = self._parameters if parameters is None else parameters
        with one_blas_thread():
            embedded = self._network(points.shape[1])(known, points)
        return np.asarray(embedded / np.exp(self._parameters[LENGTHS]))

    def fit(self, history: History) -> Self:
        points, targets = self.points(history.encoded), history.targets()
        learned = replace(learned_hyperparameters(self._parameters), length_scales=np.ones(1))
        standardisation = Standardisation.of(targets)
        standardised = standardisation.apply(targets)
        self._tuned: Parameters | None = None
        embedded = self._embed(points)
        if self.fine_tune != "none" and not standardisation.constant:
            learned = self._adapted(embedded, standardised, learned)
            if self.fine_tune == "all":
                self._tuned = self._fine_tuned(points, standardised, learned)
                embedded = self._embed(points, self._tuned)
        process = GaussianProcess(kernel=self.kernel).condition(embedded, targets, learned)
        if history.pending:
            encoded = history.waiting
            waiting = self._embed(self.points(encoded), self._tuned)
            process = process.add(waiting, process.posterior(waiting)[0])
        self._process = process
        return self

    def _adapted(self, embedded: Array, targets: Array, learned: Hyperparameters) -> Hyperparameters:
        """The likeliest length-scale factor, output scale and noise under priors around those learned."""
        wide = self.looseness

        def around(value: float) -> LogNormal:
            return LogNormal(float(np.log(value)) + wide**2, wide)  # its mode is `value`

        prior = HyperparameterPrior(around(1.0), around(learned.output_scale), around(learned.noise))
        chosen = spread_over_ranks(targets, _MOST_TO_FIT)
        return search_hyperparameters(self.kernel, embedded[chosen], targets[chosen], prior, learned, 1)

    def _fine_tuned(self, points: Array, targets: Array, known: Hyperparameters) -> Parameters:
        """The network after some steps of Adam on the likelihood of the history, kernel parameters held."""
        network = self._network(points.shape[1])
        scales = np.exp(self._parameters[LENGTHS])
        adam = Adam({k: v.copy() for k, v in self._parameters.items() if k.startswith("network.")})
        with one_blas_thread():
            for _ in range(self.fine_tune_steps):
                outputs, pullback = network.with_pullback(adam.parameters, points)
                likelihood = log_marginal_likelihood(
                    self.kernel,
                    outputs / scales,
                    targets,
                    np.log(known.length_scales),
                    np.log(known.output_scale),
                    np.log(known.noise),
                    by_inputs=True,
                )
                assert likelihood.by_inputs is not None
                by, _ = pullback(-likelihood.by_inputs / scales / len(targets))
                adam.step(by, _FINE_TUNING_RATE)
        return adam.parameters

    def predict(self, encoded: Encoded) -> Prediction:
        if self._tuned is None:
            embedded = self.cached_for_candidates("embedded", encoded, self._embed)
        else:
            embedded = self._embed(self.points(encoded), self._tuned)
        mean, std = self._process.posterior(embedded)
        return Prediction(mean, np.maximum(std, _LEAST_STD * self._process.standardisation.scale))


def batch_loss(kernel: DeepKernelName, network: MLP, tensors: dict[str, Any], batch: Batch) -> Any:
    """L of a batch, a scalar tensor."""
    torch = require_torch("meta-training of FSBO")
    points, targets = network(tensors, torch.from_numpy(batch.points)), torch.from_numpy(batch.targets)
    return -task_log_likelihoods(kernel, tensors, points, targets, batch.mask, likeliest_mean=True).mean()


def scale_labels(targets: Array, mask: NDArray[np.bool_], rng: np.random.Generator) -> Array:
    """Targets (B, n) of each task between random l and u of its own range; see the notation. What is masked stays."""
    lowest = np.where(mask, targets, np.inf).min(axis=1)
    highest = np.where(mask, targets, -np.inf).max(axis=1)
    low, high = np.zeros(len(targets)), np.zeros(len(targets))
    redraw = np.ones(len(targets), dtype=bool)
    while redraw.any():
        pair = np.sort(rng.random((int(redraw.sum()), 2)), axis=1)
        low[redraw], high[redraw] = pair[:, 0], pair[:, 1]
        redraw = high - low < _LEAST_SHARE
    width = np.where(highest > lowest, highest - lowest, 1.0)
    scaled = ((targets - lowest[:, None]) / width[:, None] - low[:, None]) / (high - low)[:, None]
    return np.where(mask, scaled, targets)
