"""Deep kernels: a Gaussian process over what a network makes of pipelines, one kernel for many tasks.

=========  ======================  =========================================================================
symbol     name in code            equation
=========  ======================  =========================================================================
x                                  features of a pipeline
φ(x)       points                  output of a network, d numbers
k(x, x')                           s f(Σ_k (φ_k(x) - φ_k(x'))² / ℓ_k²), see `headstart.learning.likelihoods`
ℓ, s, σ²   "kernel.length_scales"  logarithms of length scales (d,) or (1,), output scale and noise variance;
           "kernel.output_scale"   one set for all tasks
           "kernel.noise"
=========  ======================  =========================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.learning.backend import require_torch
from headstart.learning.likelihoods import DeepKernelName, gp_log_likelihood, kernel_matrix
from headstart.learning.networks import Parameters
from headstart.numerics.hyperparameters import Hyperparameters

Array = NDArray[np.float64]

LENGTHS, SCALE, NOISE = "kernel.length_scales", "kernel.output_scale", "kernel.noise"
MEAN = "kernel.mean"
"""The constant mean of all tasks, where one is learned."""
LEAST_LOG_NOISE = math.log(1e-5)
"""Relative to the variance of a task's losses: less is rounding, and makes covariances singular."""


def initial_kernel(length_scales: int, length_scale: float = 1.0, noise: float = 0.05) -> Parameters:
    """Kernel parameters to start from: `length_scales` of them, output scale 1."""
    return {
        LENGTHS: np.full(length_scales, math.log(length_scale)),
        SCALE: np.zeros(()),
        NOISE: np.full((), math.log(noise)),
    }


def task_log_likelihoods(
    kernel: DeepKernelName,
    tensors: Mapping[str, Any],
    points: Any,
    targets: Any,
    mask: NDArray[np.bool_],
    log_noise: Any = None,
    *,
    likeliest_mean: bool = False,
) -> Any:
    """Log marginal likelihoods (B,) of tasks, each divided by the number of its observations.

    Parameters
    ----------
    kernel, tensors
        Name of the kernel, and its parameters among others.
    points
        φ, (n, d) that all tasks share, or (B, n, d).
    targets, mask
        (B, n), and where they are real.
    log_noise
        What is added to the logarithm of σ² for each point; ``None`` for nothing.
    likeliest_mean
        See `headstart.learning.likelihoods.gp_log_likelihood`.
    """
    torch = require_torch("a deep kernel")
    shared = points.dim() == 2
    covariance = kernel_matrix(kernel, points[None] if shared else points, tensors[LENGTHS], tensors[SCALE])
    log_noise = tensors[NOISE] if log_noise is None else tensors[NOISE] + log_noise
    noise = log_noise.clamp_min(LEAST_LOG_NOISE).exp()
    covariance = covariance + torch.diag_embed(noise.expand(covariance.shape[:-1]))
    known = None if mask.all() else torch.from_numpy(mask)
    value = gp_log_likelihood(covariance[0] if shared else covariance, targets, known, likeliest_mean=likeliest_mean)
    return value / torch.from_numpy(mask.sum(axis=1).astype(np.float64))


def learned_hyperparameters(parameters: Mapping[str, Array]) -> Hyperparameters:
    """The kernel's part of trained parameters, as `headstart.numerics.gaussian_process` takes it."""
    return Hyperparameters(
        np.exp(parameters[LENGTHS]),
        float(np.exp(parameters[SCALE])),
        float(np.exp(max(float(parameters[NOISE]), LEAST_LOG_NOISE))),
    )
