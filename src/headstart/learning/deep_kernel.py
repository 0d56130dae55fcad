"""Deep kernels: a Gaussian process over what a network makes of pipelines, trained over many tasks.

=========  ======================  =========================================================================
symbol     name in code            equation
=========  ======================  =========================================================================
x          points                  features of a pipeline
φ(x)       embed                   output of a network, d numbers
k(x, x')                           s f(Σ_k (φ_k(x) - φ_k(x'))² / ℓ_k²), see `headstart.learning.likelihoods`
ℓ, s, σ²   "kernel.length_scales"  logarithms of length scales (d,) or (1,), output scale and noise variance;
           "kernel.output_scale"   one set for all tasks
           "kernel.noise"
L          loss                    -Σ_t ln p(y_t | φ(X_t), ℓ, s, σ²) / n_t, mean over the tasks of a batch
=========  ======================  =========================================================================

The network is any function of parameters and points, so that a plain MLP and one with an encoder for each algorithm
are trained alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.learning.backend import require_torch
from headstart.learning.batches import Batch, TaskBatches
from headstart.learning.likelihoods import DeepKernelName, gp_log_likelihood
from headstart.learning.networks import Parameters
from headstart.learning.training import Trained, Training, train_network
from headstart.numerics.hyperparameters import Hyperparameters

Array = NDArray[np.float64]
Embed = Callable[[Mapping[str, Any], Any], Any]
"""From parameters and points (..., F) to what the kernel compares (..., d); arrays or tensors."""
Augment = Callable[[Array, NDArray[np.bool_], np.random.Generator], Array]
"""From targets (B, n) and their mask to targets to train on."""

LENGTHS, SCALE, NOISE = "kernel.length_scales", "kernel.output_scale", "kernel.noise"
LEAST_LOG_NOISE = math.log(1e-5)
"""Relative to the variance of a task's losses: less is rounding, and makes covariances singular."""


def initial_kernel(length_scales: int, length_scale: float = 1.0, noise: float = 0.05) -> Parameters:
    """Kernel parameters to start from: `length_scales` of them, output scale 1."""
    return {
        LENGTHS: np.full(length_scales, math.log(length_scale)),
        SCALE: np.zeros(()),
        NOISE: np.full((), math.log(noise)),
    }


def batch_loss(kernel: DeepKernelName, embed: Embed, tensors: Mapping[str, Any], batch: Batch) -> Any:
    """L of a batch, a scalar tensor: the mean over its tasks of the negative log likelihood per observation."""
    torch = require_torch("a deep kernel")
    points = embed(tensors, torch.from_numpy(batch.points))
    mask = None if batch.mask.all() else torch.from_numpy(batch.mask)
    noise = tensors[NOISE].clamp_min(LEAST_LOG_NOISE)
    value = gp_log_likelihood(
        kernel, points, torch.from_numpy(batch.targets), tensors[LENGTHS], tensors[SCALE], noise, mask=mask
    )
    return -(value / torch.from_numpy(batch.mask.sum(axis=1).astype(np.float64))).mean()


def train_deep_kernel(
    kernel: DeepKernelName,
    embed: Embed,
    initial: Mapping[str, Array],
    training: TaskBatches,
    validation: TaskBatches,
    steps: int,
    settings: Training,
    rng: np.random.Generator,
    *,
    validation_tasks: int = 60,
    augment: Augment | None = None,
    name: str = "deep kernel",
) -> Trained:
    """Meta-train network and kernel together, with early stopping on other tasks.

    Parameters
    ----------
    kernel, embed
        The kernel and the network under it.
    initial
        Parameters of the network and of the kernel (`initial_kernel`).
    training, validation
        Tasks to train on and tasks to stop by.
    steps, settings, rng
        See `headstart.learning.training.train`.
    validation_tasks
        Most tasks to validate on, with as many pipelines each as a batch has, the same at every check.
    augment
        Changes the targets of a batch.
    name
        For the log.
    """

    def drawn(tasks: TaskBatches, stream: np.random.Generator, n: int) -> Batch:
        batch = tasks.draw(stream, n, settings.n_pipelines)
        return batch if augment is None else replace(batch, targets=augment(batch.targets, batch.mask, stream))

    def loss(tensors: dict[str, Any], stream: np.random.Generator) -> Any:
        return batch_loss(kernel, embed, tensors, drawn(training, stream, settings.n_tasks))

    held = drawn(validation, rng, validation_tasks)
    return train_network(
        initial, loss, lambda tensors: batch_loss(kernel, embed, tensors, held), steps, settings, rng, name
    )


def learned_hyperparameters(parameters: Mapping[str, Array]) -> Hyperparameters:
    """The kernel's part of trained parameters, as `headstart.numerics.gaussian_process` takes it."""
    return Hyperparameters(
        np.exp(parameters[LENGTHS]),
        float(np.exp(parameters[SCALE])),
        float(np.exp(max(float(parameters[NOISE]), LEAST_LOG_NOISE))),
    )
