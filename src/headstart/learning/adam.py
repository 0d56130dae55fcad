"""Adam, the one optimiser of everything that is trained here.

=======  ============  ====================================================================================
symbol   name in code  equation
=======  ============  ====================================================================================
θ        parameters    what is trained
g        gradient      derivative of the loss by θ, shortened to norm `clip` where it is longer
t        steps         steps made so far, counted for each row of an array
m, v     first,        m ← β₁ m + (1 - β₁) g,  v ← β₂ v + (1 - β₂) g²
         second
         rate          θ ← θ (1 - rate decay) - rate m / (1 - β₁ᵗ) / (√(v / (1 - β₂ᵗ)) + ε)
=======  ============  ====================================================================================
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.learning.networks import Array, Parameters

_GROUPS = ("parameters", "first", "second", "steps")


class Adam:
    """Adam (Kingma & Ba 2015) on named arrays, which it changes in place, and so tensors that share their memory.

    torch's own does the same and first imports its compiler, which takes over a second.

    Parameters
    ----------
    parameters
        What is trained.
    weight_decay
        Decoupled (Loshchilov & Hutter 2019), of arrays whose name ends in ``weight``.
    betas, epsilon
        As in the paper.
    """

    def __init__(
        self,
        parameters: Mapping[str, Array],
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        self.parameters: Parameters = dict(parameters)
        self._decay, self._betas, self._epsilon = weight_decay, betas, epsilon
        self._held = {"parameters": self.parameters}
        for group in ("first", "second"):
            self._held[group] = {name: np.zeros(value.shape) for name, value in parameters.items()}
        self._held["steps"] = {name: np.zeros(max([1, *value.shape[:1]])) for name, value in parameters.items()}

    def step(
        self,
        gradient: Mapping[str, Array],
        rate: float,
        clip: float = math.inf,
        rows: NDArray[np.int64] | None = None,
    ) -> None:
        """Go against the gradient.

        Parameters
        ----------
        gradient
            By name; an array without one stays as it is.
        rate
            The learning rate.
        clip
            Largest norm of the whole gradient; a longer one is shortened.
        rows
            The only rows of these arrays that change, and that the gradient is of; they count their own steps. An array
            is changed by rows always or never.
        """
        factor = 1.0
        if clip < math.inf:
            norm = math.sqrt(sum(float(np.vdot(slope, slope)) for slope in gradient.values()))
            factor = min(1.0, clip / norm) if norm > 0.0 else 1.0
        one, two = self._betas
        for name, slope in gradient.items():
            value, first, second, steps = (self._held[group][name] for group in _GROUPS)
            count: Any
            if rows is None:
                steps += 1
                count, part = steps.item(0), (value, first, second)
            else:
                steps[rows] += 1
                count = steps[rows].reshape(-1, *[1] * (value.ndim - 1))
                part = (value[rows], first[rows], second[rows])
            slope = slope if factor == 1.0 else slope * factor
            at, mean, square = part
            mean *= one
            mean += (1.0 - one) * slope
            square *= two
            square += (1.0 - two) * (slope * slope)
            if self._decay and name.endswith("weight"):
                at *= 1.0 - rate * self._decay
            size = np.sqrt(square)
            size /= np.sqrt(1.0 - two**count)
            size += self._epsilon
            at -= rate / (1.0 - one**count) * mean / size
            if rows is not None:
                value[rows], first[rows], second[rows] = part

    def state(self) -> Parameters:
        """All that decides how it goes on, by ``group/name``; the arrays themselves."""
        return {f"{group}/{name}": value for group in _GROUPS for name, value in self._held[group].items()}

    def restore(self, state: Mapping[str, Array]) -> None:
        """Go on with what `state` gave."""
        for name, value in self.state().items():
            value[...] = state[name]
