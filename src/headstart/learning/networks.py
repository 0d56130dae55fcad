"""Fully connected networks whose parameters are plain arrays.

=======  ==============  ========================================================================================
symbol   name in code    equation
=======  ==============  ========================================================================================
W_i      "….i.weight"    (inputs, outputs) of layer i
b_i      "….i.bias"      (outputs,)
ρ        activation      elementwise: relu(a) = max(0, a), or tanh(a)
h_i      hidden          h_0 = x,  h_i = ρ(h_{i-1} W_i + b_i);  no ρ after the last layer unless `end_active`
δ_i      upstream        ∂L/∂h_i of the caller's scalar L;  ∂L/∂a_i = δ_i ρ'(a_i)
=======  ==============  ========================================================================================

An `MLP` is an architecture and holds no numbers. Its parameters are entries of a mapping, under names that begin with
its own, so that several networks share one mapping, one optimiser and one file. Calling it works on NumPy arrays and on
torch tensors alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Parameters = dict[str, Array]
Activation = Literal["relu", "tanh"]
Pullback = Callable[[Array], tuple[Parameters, Array]]
"""From ∂L/∂output to the derivatives by the parameters and by the input."""


def activate(name: Activation, values: Any) -> Any:
    """ρ of an array or a tensor."""
    if isinstance(values, np.ndarray):
        return np.tanh(values) if name == "tanh" else np.maximum(values, 0.0)
    return values.tanh() if name == "tanh" else values.relu()


def dense(parameters: Mapping[str, Any], name: str, inputs: Any) -> Any:
    """One linear layer, x W + b, of arrays or tensors ``(..., inputs)``."""
    return inputs @ parameters[f"{name}.weight"] + parameters[f"{name}.bias"]


def initial_dense(rng: np.random.Generator, name: str, inputs: int, outputs: int, gain: float = 1.0) -> Parameters:
    """Normal weights with variance gain² / inputs, biases 0."""
    weight = rng.standard_normal((inputs, outputs)) * (gain / np.sqrt(max(inputs, 1)))
    return {f"{name}.weight": weight, f"{name}.bias": np.zeros(outputs)}


@dataclass(frozen=True)
class MLP:
    """A fully connected network.

    Parameters
    ----------
    name
        What the names of its parameters begin with.
    sizes
        Inputs, units of the hidden layers, outputs.
    activation
        After every layer but the last.
    end_active
        Whether the last layer has the activation too.
    """

    name: str
    sizes: tuple[int, ...]
    activation: Activation = "relu"
    end_active: bool = False

    @property
    def layers(self) -> int:
        """Number of linear layers."""
        return len(self.sizes) - 1

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters that keep the variance of what passes through: He's for relu, LeCun's for tanh."""
        parameters: Parameters = {}
        for i in range(self.layers):
            gain = np.sqrt(2.0) if self.activation == "relu" and self._is_active(i) else 1.0
            parameters |= initial_dense(rng, f"{self.name}.{i}", self.sizes[i], self.sizes[i + 1], gain)
        return parameters

    def __call__(self, parameters: Mapping[str, Any], inputs: Any) -> Any:
        """Outputs ``(..., outputs)`` for inputs ``(..., inputs)``; arrays with arrays, tensors with tensors."""
        hidden = inputs
        for i in range(self.layers):
            hidden = dense(parameters, f"{self.name}.{i}", hidden)
            if self._is_active(i):
                hidden = activate(self.activation, hidden)
        return hidden

    def with_pullback(self, parameters: Mapping[str, Array], inputs: Array) -> tuple[Array, Pullback]:
        """Outputs ``(n, outputs)`` of inputs ``(n, inputs)``, and their derivatives, in NumPy.

        For a hundred observations this takes a third of torch's time, and it needs no torch where a trained network is
        adapted to a new task.
        """
        kept = [inputs]
        for i in range(self.layers):
            hidden = dense(parameters, f"{self.name}.{i}", kept[-1])
            kept.append(activate(self.activation, hidden) if self._is_active(i) else hidden)

        def pullback(upstream: Array) -> tuple[Parameters, Array]:
            by: Parameters = {}
            for i in reversed(range(self.layers)):
                if self._is_active(i):
                    out = kept[i + 1]
                    upstream = upstream * (1.0 - out * out if self.activation == "tanh" else out > 0.0)
                by[f"{self.name}.{i}.weight"] = kept[i].T @ upstream
                by[f"{self.name}.{i}.bias"] = upstream.sum(axis=0)
                upstream = upstream @ parameters[f"{self.name}.{i}.weight"].T
            return by, upstream

        return kept[-1], pullback

    def _is_active(self, layer: int) -> bool:
        return self.end_active or layer < self.layers - 1
