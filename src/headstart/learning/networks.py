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


class Adam:
    """Adam (Kingma & Ba 2015) on a mapping of NumPy arrays; `step` returns new ones.

    Parameters
    ----------
    parameters
        Where to start.
    learning_rate
        Of every step.
    betas, epsilon
        As in the paper.
    """

    def __init__(
        self,
        parameters: Mapping[str, Array],
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        # One vector instead of many arrays: for small networks the number of NumPy calls is what takes time.
        self._shapes = {name: value.shape for name, value in parameters.items()}
        self._vector = np.concatenate([value.ravel() for value in parameters.values()])
        self._first, self._second = np.zeros_like(self._vector), np.zeros_like(self._vector)
        self._betas, self._epsilon, self._steps = betas, epsilon, 0
        self.learning_rate = learning_rate

    @property
    def parameters(self) -> Parameters:
        """Where it stands: views that the next step changes."""
        views: Parameters = {}
        start = 0
        for name, shape in self._shapes.items():
            size = int(np.prod(shape))
            views[name] = self._vector[start : start + size].reshape(shape)
            start += size
        return views

    def step(self, gradient: Mapping[str, Array]) -> None:
        """Go against the gradient."""
        flat = np.concatenate([gradient[name].ravel() for name in self._shapes])
        self._steps += 1
        one, two = self._betas
        self._first += (1.0 - one) * (flat - self._first)
        self._second += (1.0 - two) * (flat * flat - self._second)
        root = np.sqrt(self._second / (1.0 - two**self._steps))
        root += self._epsilon
        self._vector -= (self.learning_rate / (1.0 - one**self._steps)) * self._first / root
