"""Meta-training of a pipeline network under a Gaussian process: Algorithm 1 of DeepPipe.

=======  =====================  ============================================================================
symbol   name in code           equation
=======  =====================  ============================================================================
y_t      targets                losses of task t, standardised over all that was observed on it, or raw
φ, m, ψ  `Outputs`              what the network makes of pipelines, see `headstart.methods.deeppipe.network`
γ        "kernel.…"             length scales, output scale, noise, constant mean, see `headstart.learning.deep_kernel`
ln ψ_p                          "kernel.noise" + what the noise head adds, at least that of `LEAST_LOG_NOISE`
L        batch_loss             mean over tasks of -ln p(y_t - m | φ, ψ, γ) / n_t, equation 6 for m = 0; plus
                                w/2 times the mean of (y - m)² over all cells of the batch
=======  =====================  ============================================================================

**The mean.** A task's likelihood hardly minds a wrong mean, for the process makes up for it as soon as there are
observations; before that the mean is all there is. Hence the second term, which is ours. It is no part of the
validation loss.

**Batches.** There are two ways to draw them. ``"separate"`` is the paper's: for each task its own pipelines of those
observed on it. ``"crossed"``: the same pipelines for all tasks of the batch, with what is missing masked. They are then
embedded once instead of once per task, their kernel matrix is computed once, and one factorisation serves all tasks of
which nothing is missing. Batches of one task, as the paper has, and those of tasks with few pipelines in common are
separate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headstart.learning.backend import require_torch
from headstart.learning.batches import Batch, TaskBatches
from headstart.learning.deep_kernel import MEAN, task_log_likelihoods
from headstart.learning.training import Trained, Training, train_network
from headstart.methods.deeppipe.network import Outputs, PipelineNetwork

Array = NDArray[np.float64]
BatchKind = Literal["crossed", "separate"]

MEAN_WEIGHT = 2.0
"""w"""
_VALIDATION_TASKS = 60
"""Most tasks to validate on, the same at every check."""
_MOST_NUMBERS = 4_000_000
"""In the covariance matrices of tasks that are validated at once."""


_LEAST_CROSSED = 8.0
"""Observations of a task in a crossed batch, on average, below which batches are drawn for each task on its own."""
_DRAWS = 10


def draw(tasks: TaskBatches, rng: np.random.Generator, n_tasks: int, n_pipelines: int, kind: BatchKind) -> Batch:
    """A random batch of at most so many tasks and pipelines."""
    if kind == "separate":
        return tasks.draw(rng, n_tasks, n_pipelines)
    n = min(n_pipelines, tasks.n_pipelines)
    for _ in range(_DRAWS):
        columns = np.sort(rng.choice(tasks.n_pipelines, n, replace=False, shuffle=False))
        which = rng.permutation(len(tasks))[:n_tasks]
        targets, mask = tasks.crossed(which, columns)
        some = mask.any(axis=1)  # a task may have none of these pipelines
        if some.any():
            return Batch(tasks.points[columns], targets[some], mask[some], tasks.tasks[which[some]])
    return tasks.draw(rng, n_tasks, n_pipelines)


def log_likelihoods(network: PipelineNetwork, tensors: Mapping[str, Any], batch: Batch) -> Any:
    """ln p of each task of a batch divided by its number of observations, a tensor (B,)."""
    torch = require_torch("DeepPipe")
    return _log_likelihoods(network(tensors, torch.from_numpy(batch.points)), tensors, batch)


def _log_likelihoods(outputs: Outputs, tensors: Mapping[str, Any], batch: Batch) -> Any:
    targets = require_torch("DeepPipe").from_numpy(batch.targets)
    residuals = targets if outputs.mean is None else targets - outputs.mean
    residuals = residuals - tensors[MEAN] if MEAN in tensors else residuals
    return task_log_likelihoods("matern52", tensors, outputs.points, residuals, batch.mask, outputs.log_noise)


def batch_loss(network: PipelineNetwork, tensors: Mapping[str, Any], batch: Batch, mean_weight: float = 0.0) -> Any:
    """L of a batch, a scalar tensor; `mean_weight` is w."""
    torch = require_torch("DeepPipe")
    outputs = network(tensors, torch.from_numpy(batch.points))
    loss = -_log_likelihoods(outputs, tensors, batch).mean()
    if mean_weight and outputs.mean is not None:
        errors = torch.from_numpy(batch.targets) - outputs.mean
        loss = loss + 0.5 * mean_weight * (errors * errors)[torch.from_numpy(batch.mask)].mean()
    return loss


def validation_loss(network: PipelineNetwork, tensors: Mapping[str, Any], batch: Batch) -> float:
    """L of a large batch without gradients, some tasks at a time."""
    size = max(1, _MOST_NUMBERS // batch.targets.shape[1] ** 2)
    total = sum(float(log_likelihoods(network, tensors, part).sum()) for part in batch.parts(size))
    return -total / len(batch)


def train_pipeline_network(
    network: PipelineNetwork,
    initial: Mapping[str, Array],
    training: TaskBatches,
    validation: TaskBatches,
    steps: int,
    settings: Training,
    rng: np.random.Generator,
) -> Trained:
    """Algorithm 1: steps of Adam on random batches, early stopping on other tasks.

    Parameters
    ----------
    network, initial
        The architecture; parameters of network and kernel to start from.
    training, validation
        Tasks to train on and tasks to stop by.
    steps, settings, rng
        See `headstart.learning.training.train`.
    """
    n_tasks, n_pipelines = settings.n_tasks, settings.n_pipelines
    common = min(training.coverage, validation.coverage) * n_pipelines
    kind: BatchKind = "separate" if n_tasks == 1 or common < _LEAST_CROSSED else "crossed"
    held = draw(validation, rng, _VALIDATION_TASKS, n_pipelines, kind)

    def loss(tensors: dict[str, Any], stream: np.random.Generator) -> Any:
        return batch_loss(network, tensors, draw(training, stream, n_tasks, n_pipelines, kind), MEAN_WEIGHT)

    return train_network(
        initial,
        loss,
        lambda tensors: validation_loss(network, tensors, held),
        settings.number_of_steps(steps, len(training)),
        settings,
        rng,
        "DeepPipe",
    )
