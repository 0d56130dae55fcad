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
        decayed = [v for k, v in tensors.items() if k.endswith("weight")]
        others = [v for k, v in tensors.items() if not k.endswith("weight")]
        groups = [{"params": decayed, "weight_decay": schedule.weight_decay}, {"params": others, "weight_decay": 0.0}]
        adam = torch.optim.AdamW([g for g in groups if g["params"]], lr=schedule.learning_rate)
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
            for group in adam.param_groups:
                group["lr"] = schedule.learning_rate * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * progress)))
            adam.zero_grad(set_to_none=True)
            batch_loss = loss(tensors, rng)
            if not bool(torch.isfinite(batch_loss)):
                raise NumericalError(
                    f"training of {name} must have finite losses, got {batch_loss.item()} at step {step}; "
                    "a lower learning_rate may help"
                )
            batch_loss.backward()
            torch.nn.utils.clip_grad_norm_([v for v in tensors.values() if v.grad is not None], schedule.clip)
            adam.step()
    if best is None:
        raise NumericalError(f"training of {name} must have a finite validation loss, got {checks[-1][1]}")
    return Trained(best[2], best[0], best[1], np.array(checks, dtype=np.float64))
