"""An ensemble of small networks whose first layer is a factorisation machine over pipelines and tasks.

M members of H neurons each stand side by side: neuron h = 1 … MH belongs to member ⌈h / H⌉.

=========  ==================  ==============================================================================
symbol     name in code        equation
=========  ==================  ==============================================================================
x          points              (P, F) features of pipelines
t                              a task, one-hot among the inputs; written out here as parameters of its own
w_h, b_h   "first.weight",     weights and bias of neuron h
           "first.bias"
v_jh       "factors.weight"    (F, MH, K) factors of input j
a_th, q_th levels, directions  weight and factors of the task's indicator, (T, MH) and (T, MH, K)
u_h(x)     interactions        Σ_j v_jh x_j
B_h(x)     base                b_h + w_h·x + ½ Σ_k (u_hk(x)² - Σ_j v_jhk² x_j²), the same for every task
z_th(x)                        B_h(x) + a_th + q_th·u_h(x), pre-activation
f_tm(x)    outputs             c_m0 + Σ_{h of m} c_h relu(z_th(x)), the prediction of member m
=========  ==================  ==============================================================================

The ½ Σ_k (…) is Σ_{i<j} (v_ih·v_jh) x_i x_j, all products of two inputs of a pipeline, and q_th·u_h(x) those of the
task with each input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.learning.networks import Parameters, initial_dense

Array = NDArray[np.float64]

FIRST, FACTORS, LAST = "first", "factors.weight", "last"


@dataclass(frozen=True)
class FactorizedEnsemble:
    """The architecture; see the notation.

    Parameters
    ----------
    inputs
        F, features of a pipeline.
    members, neurons, factors
        M, H and K.
    """

    inputs: int
    members: int
    neurons: int
    factors: int

    @property
    def width(self) -> int:
        """Neurons of all members."""
        return self.members * self.neurons

    @property
    def task_size(self) -> int:
        """Numbers that describe a task in one member: H levels and H K directions."""
        return self.neurons * (1 + self.factors)

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters of everything but the tasks."""
        first = initial_dense(rng, FIRST, self.inputs, self.width, np.sqrt(2.0))
        first[f"{FIRST}.bias"] = 0.1 * rng.standard_normal(self.width)
        spread = (self.inputs * self.factors) ** -0.25
        return {
            **first,
            FACTORS: 0.5 * spread * rng.standard_normal((self.inputs, self.width, self.factors)),
            f"{LAST}.weight": rng.standard_normal(self.width) / np.sqrt(self.neurons),
            f"{LAST}.bias": np.zeros(self.members),
        }

    def interactions(self, parameters: Mapping[str, Any], points: Any) -> Any:
        """u, (P, MH, K)."""
        flat = parameters[FACTORS].reshape(self.inputs, self.width * self.factors)
        return (points @ flat).reshape(len(points), self.width, self.factors)

    def base(self, parameters: Mapping[str, Any], points: Any, interactions: Any = None) -> Any:
        """B, (P, MH); `interactions` where they are known already."""
        u = self.interactions(parameters, points) if interactions is None else interactions
        squares = (points * points) @ (parameters[FACTORS] ** 2).sum(-1)
        linear = points @ parameters[f"{FIRST}.weight"] + parameters[f"{FIRST}.bias"]
        return linear + 0.5 * ((u * u).sum(-1) - squares)

    def crossed(self, parameters: Mapping[str, Any], points: Any, levels: Any, directions: Any) -> Any:
        """z of every task with every pipeline, tensors: (MH, T, P) from levels (T, MH) and directions (T, MH, K)."""
        u = self.interactions(parameters, points)
        base = self.base(parameters, points, u)
        products = directions.permute(1, 0, 2) @ u.permute(1, 2, 0)
        return products + base.T[:, None, :] + levels.T[:, :, None]

    def crossed_outputs(self, parameters: Mapping[str, Any], preactivations: Any) -> Any:
        """f, tensors: (M, T, P) from z (MH, T, P)."""
        active = preactivations.relu() * parameters[f"{LAST}.weight"][:, None, None]
        shape = (self.members, self.neurons, *preactivations.shape[1:])
        return active.reshape(shape).sum(1) + parameters[f"{LAST}.bias"][:, None, None]

    def task_weights(self, parameters: Mapping[str, Array], directions: Array) -> Array:
        """(F, MH) such that x times it is q·u(x): what a task adds to the weights of the first layer."""
        return np.asarray(np.einsum("fhk,hk->fh", parameters[FACTORS], directions, optimize=True))

    def outputs(self, parameters: Mapping[str, Array], preactivations: Array) -> Array:
        """f, (P, M) from z (P, MH)."""
        active = np.maximum(preactivations, 0.0).reshape(len(preactivations), self.members, self.neurons)
        last = parameters[f"{LAST}.weight"].reshape(self.members, self.neurons)
        return np.asarray(np.einsum("pmh,mh->pm", active, last) + parameters[f"{LAST}.bias"])
