"""What a deep kernel makes of pipelines, and its adaptation to a new task: Algorithm 2 of DeepPipe.

=======  ====================  ============================================================================
symbol   name in code          equation
=======  ====================  ============================================================================
z        Located.points        φ(p) / ℓ, (n, Z): what the kernel compares, at length scale 1
m, ψ     Located.means, noise  prior mean and noise variance of pipelines, in standardised units
y        standardised          losses of the new task in these units
L        –                     -ln p(y - m | φ, ψ, γ) + Σ_k (ln γ_k - ln γ⁰_k)² / (2 w²), γ⁰ meta-learned
w        looseness             how far kernel parameters may go; infinite in the paper
=======  ====================  ============================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from headstart.learning.adam import Adam
from headstart.learning.deep_kernel import LEAST_LOG_NOISE, LENGTHS, MEAN, NOISE, SCALE
from headstart.learning.networks import Parameters
from headstart.methods.deeppipe.network import Outputs, PipelineNetwork
from headstart.numerics.kernels import CrossKernel, kernel_matrix
from headstart.numerics.marginal_likelihood import log_marginal_likelihood
from headstart.surrogates.posterior import Located

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
KERNEL = (LENGTHS, SCALE, NOISE, MEAN)
_UNIT = np.zeros(1)


@dataclass(frozen=True)
class DeepKernel:
    """Matérn-5/2 over points at length scale 1, times an output scale."""

    log_output_scale: float

    def covariance(self, left: Located, right: Located) -> Array:
        others = None if right is left else right.points
        return np.asarray(kernel_matrix("matern52", left.points, others, _UNIT, self.log_output_scale))

    def variance(self, at: Located) -> Array:
        return np.full(len(at), np.exp(self.log_output_scale))

    def cross(self, seen: Located, rows: int) -> Callable[[Located], Array]:
        kernel = CrossKernel("matern52", seen.points, _UNIT, self.log_output_scale, rows)
        return lambda at: kernel(at.points)


def located(outputs: Outputs, parameters: Mapping[str, Array]) -> Located:
    """Where pipelines are of which the network made these outputs, under these parameters of the kernel."""
    n = len(outputs.points)
    means = np.full(n, float(parameters.get(MEAN, 0.0))) + (0.0 if outputs.mean is None else outputs.mean)
    log_noise = np.full(n, float(parameters[NOISE])) + (0.0 if outputs.log_noise is None else outputs.log_noise)
    points = np.asarray(outputs.points / np.exp(parameters[LENGTHS]))
    return Located(points, means, np.exp(np.maximum(log_noise, LEAST_LOG_NOISE)))


def tuned(
    network: PipelineNetwork,
    parameters: Parameters,
    features: Array,
    standardised: Array,
    *,
    kernel: bool,
    masks: Mapping[str, Mask],
    rows: Places,
    steps: int,
    rate: float,
    looseness: float | None = None,
    anchor: Mapping[str, Array] | None = None,
) -> Parameters:
    """Parameters after some steps of Adam on what was observed; those that are not to change are the same objects.

    Parameters
    ----------
    network, parameters
        Where tuning begins.
    features, standardised
        (n, F) and (n,), of what was observed.
    kernel
        Whether the kernel's parameters change, and the constant mean if there is one.
    masks
        Which of the network's parameters change, by name; empty for none.
    rows
        Observations whose place depends on them.
    steps, rate
        Of Adam.
    looseness
        w; ``None`` for infinite.
    anchor
        γ⁰ among others, as meta-learned; `parameters` when omitted.
    """
    center = parameters if anchor is None else anchor
    changing = [name for name in KERNEL if kernel and name in parameters]
    adam = Adam({name: parameters[name].copy() for name in (*changing, *masks)})
    outputs = network(parameters, features)
    n = len(features)
    points = np.array(outputs.points)
    mean = np.zeros(n) if outputs.mean is None else np.array(outputs.mean)
    extra = np.zeros(n) if outputs.log_noise is None else np.array(outputs.log_noise)
    weight = 0.0 if looseness is None else looseness**-2
    moving = bool(masks) and len(rows) > 0
    for _ in range(steps if kernel or moving else 0):
        now = {**parameters, **adam.parameters}
        if moving:
            moved, pullback = network.with_pullback(now, features[rows])
            points[rows] = moved.points
            if moved.mean is not None:
                mean[rows] = moved.mean
            if moved.log_noise is not None:
                extra[rows] = moved.log_noise
        log_noise = now[NOISE] + extra
        found = log_marginal_likelihood(
            "matern52",
            points,
            standardised - mean - now.get(MEAN, 0.0),
            now[LENGTHS],
            now[SCALE],
            np.maximum(log_noise, LEAST_LOG_NOISE),
            mean=0.0,
            by_inputs=moving,
        )
        by_noise = np.where(log_noise > LEAST_LOG_NOISE, found.by_log_noise, 0.0)
        gradient: Parameters = {}
        if kernel:
            by = {
                LENGTHS: found.by_log_length_scales,
                SCALE: np.array(found.by_log_output_scale),
                NOISE: np.array(by_noise.sum()),
                MEAN: -np.array(found.by_targets.sum()),
            }
            for name in changing:
                gradient[name] = weight * (now[name] - center[name]) - by[name]
        if moving:
            assert found.by_inputs is not None
            by_network = pullback(
                -found.by_inputs[rows],
                None if moved.mean is None else found.by_targets[rows],
                None if moved.log_noise is None else -by_noise[rows],
            )
            gradient |= {name: np.where(mask, by_network[name], 0.0) for name, mask in masks.items()}
        else:
            gradient |= {name: np.zeros_like(parameters[name]) for name in masks}
        adam.step(gradient, rate)
    return {**parameters, **adam.parameters}
