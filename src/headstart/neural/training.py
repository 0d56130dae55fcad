"""The one training loop: Adam, checks on held-out data, the best parameters kept."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, NumericalError
from headstart.neural.backend import one_torch_thread
from headstart.neural.networks import Parameters

logger = logging.getLogger(__name__)

Tensors = dict[str, Any]
Loss = Callable[[Tensors, np.random.Generator], Any]
"""From the parameters, and random numbers to draw a batch with, to a scalar tensor."""
Validation = Callable[[Tensors], Any]
"""From the parameters to a number, the lower the better; the same each time for the same parameters."""


@dataclass(frozen=True)
class Schedule:
    """How long and how fast to train.

    Parameters
    ----------
    steps
        Most steps of Adam.
    learning_rate
        At the start; it falls to 1 % of that along a cosine over `steps`.
    check_every
        Steps between looks at the validation loss.
    patience
        Looks without improvement before training ends.
    weight_decay
        Decoupled, on weights of layers only (names that end in ``weight``).
    clip
        Largest norm of a gradient; a longer one is shortened.
    """

    steps: int = 3000
    learning_rate: float = 1e-3
    check_every: int = 100
    patience: int = 8
    weight_decay: float = 0.0
    clip: float = 10.0

    def __post_init__(self) -> None:
        if self.steps < 0 or self.check_every < 1 or self.patience < 1 or not self.learning_rate > 0:
            raise InvalidInput(
                "steps must be at least 0, check_every and patience at least 1 and learning_rate positive, got "
                f"{self.steps!r}, {self.check_every!r}, {self.patience!r}, {self.learning_rate!r}"
            )


@dataclass(frozen=True)
class Trained:
    """The result of `train`.

    Parameters
    ----------
    parameters
        Those with the lowest validation loss.
    validation_loss
        Of these parameters.
    step
        After which they were reached.
    checks
        (k, 2) steps and validation losses seen.
    """

    parameters: Parameters
    validation_loss: float
    step: int
    checks: NDArray[np.float64]


def train(
    initial: Mapping[str, NDArray[np.float64]],
    loss: Loss,
    validate: Validation,
    schedule: Schedule,
    rng: np.random.Generator,
    name: str = "network",
) -> Trained:
    """Train parameters with torch; the same arguments give the same result. No global seed is read or set.

    Parameters
    ----------
    initial
        Parameters to start from; they are not changed.
    loss
        Called at each step.
    validate
        Called before the first step, every `check_every` steps and after the last, without gradients.
    schedule
        See there.
    rng
        Draws the batches.
    name
        For the log.
    """
    with one_torch_thread(f"training of {name}") as torch:
        tensors: Tensors = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in initial.items()}
        adam = TorchAdam(torch, tensors, schedule.weight_decay)
        checks: list[tuple[int, float]] = []
        best: tuple[float, int, Parameters] | None = None
        began = time.perf_counter()
        for step in range(schedule.steps + 1):
            if step % schedule.check_every == 0 or step == schedule.steps:
                with torch.no_grad():
                    value = float(validate(tensors))
                checks.append((step, value))
                logger.info(
                    "%s: step %d of %d, validation %.5g, %.0f s",
                    *(name, step, schedule.steps, value, time.perf_counter() - began),
                )
                if math.isfinite(value) and (best is None or value < best[0]):
                    best = (value, step, {k: v.detach().numpy().copy() for k, v in tensors.items()})
                if best is not None and step - best[1] >= schedule.patience * schedule.check_every:
                    break
            if step == schedule.steps:
                break
            progress = step / schedule.steps
            rate = schedule.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * progress)))
            for tensor in tensors.values():
                tensor.grad = None
            batch_loss = loss(tensors, rng)
            if not bool(torch.isfinite(batch_loss)):
                raise NumericalError(
                    f"training of {name} must have finite losses, got {batch_loss.item()} at step {step}; "
                    "a lower learning_rate may help"
                )
            batch_loss.backward()
            adam.step(rate, schedule.clip)
    if best is None:
        raise NumericalError(f"training of {name} must have a finite validation loss, got {checks[-1][1]}")
    return Trained(best[2], best[0], best[1], np.array(checks, dtype=np.float64))


class TorchAdam:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019) on named tensors.

    torch's own does the same and first imports its compiler, which takes over a second.

    Parameters
    ----------
    torch
        The module.
    tensors
        What to change; gradients are in their ``grad``, and one without any stays as it is.
    weight_decay
        Of tensors whose name ends in ``weight``.
    betas, epsilon
        As in the paper.
    """

    def __init__(
        self,
        torch: Any,
        tensors: Tensors,
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.999),
        epsilon: float = 1e-8,
    ) -> None:
        self._torch, self._tensors = torch, tensors
        self._decay, self._betas, self._epsilon = weight_decay, betas, epsilon
        self._moments = {name: (torch.zeros_like(t), torch.zeros_like(t)) for name, t in tensors.items()}
        self._steps = 0

    def step(self, learning_rate: float, clip: float = math.inf) -> None:
        """One step; a gradient longer than `clip` is shortened."""
        with self._torch.no_grad():
            gradients = {name: t.grad for name, t in self._tensors.items() if t.grad is not None}
            norm = math.sqrt(sum(float((g * g).sum()) for g in gradients.values()))
            factor = min(1.0, clip / norm) if norm > 0.0 else 1.0
            self._steps += 1
            one, two = self._betas
            rate = learning_rate / (1.0 - one**self._steps)
            root = math.sqrt(1.0 - two**self._steps)
            for name, gradient in gradients.items():
                first, second = self._moments[name]
                tensor = self._tensors[name]
                if self._decay and name.endswith("weight"):
                    tensor.mul_(1.0 - learning_rate * self._decay)
                shortened = gradient if factor == 1.0 else gradient * factor
                first.mul_(one).add_(shortened, alpha=1.0 - one)
                second.mul_(two).addcmul_(shortened, shortened, value=1.0 - two)
                tensor.addcdiv_(first, second.sqrt().div_(root).add_(self._epsilon), value=-rate)
