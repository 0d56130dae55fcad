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
from headstart.learning.backend import one_torch_thread
from headstart.learning.monitor import Check, TrainingState, next_watch
from headstart.learning.networks import Parameters

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
        At the start.
    check_every
        Steps between looks at the validation loss.
    patience
        Looks without improvement before training ends.
    weight_decay
        Decoupled, on weights of layers only (names that end in ``weight``).
    clip
        Largest norm of a gradient; a longer one is shortened.
    final_rate
        Share of the learning rate to which it falls along a cosine over `steps`; 1 leaves it as it is.
    """

    steps: int = 3000
    learning_rate: float = 1e-3
    check_every: int = 100
    patience: int = 8
    weight_decay: float = 0.0
    clip: float = 10.0
    final_rate: float = 0.01

    def rate(self, step: int) -> float:
        """Learning rate of a step."""
        falling = 0.5 * (1.0 + math.cos(math.pi * step / self.steps))
        return self.learning_rate * (self.final_rate + (1.0 - self.final_rate) * falling)

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
    seconds
        (k,), when they were seen, from the start.
    """

    parameters: Parameters
    validation_loss: float
    step: int
    checks: NDArray[np.float64]
    seconds: NDArray[np.float64]


def train(
    initial: Mapping[str, NDArray[np.float64]],
    loss: Loss,
    validate: Validation,
    schedule: Schedule,
    rng: np.random.Generator,
    name: str = "network",
) -> Trained:
    """Train parameters with torch; the same arguments give the same result. No global seed is read or set.

    Inside `headstart.learning.monitor.monitored` it reports how it goes, and goes on where an earlier process stopped.

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
    watch = next_watch()
    before = watch.restored()
    with one_torch_thread(f"training of {name}") as torch:
        start = initial if before is None else before.parameters
        tensors: Tensors = {k: torch.tensor(v, dtype=torch.float64, requires_grad=True) for k, v in start.items()}
        adam = TorchAdam(torch, tensors, schedule.weight_decay)
        checks: list[tuple[int, float, float]] = []
        best: tuple[float, int, Parameters] | None = None
        first, spent, finished = 0, 0.0, False
        if before is not None:
            first, checks, best, finished = before.step, before.checks, before.best, before.finished
            spent = checks[-1][2]
            adam.restore(before.first, before.second, before.adam_steps)
            rng.bit_generator.state = before.rng
            watch.tell_again(name, schedule.steps, checks)
        began = time.perf_counter() - spent

        def state(step: int, finished: bool) -> TrainingState:
            now = {k: v.detach().numpy() for k, v in tensors.items()}
            return TrainingState(step, now, *adam.state(), rng.bit_generator.state, checks, best, finished)

        for step in range(first, first if finished else schedule.steps + 1):
            looked = before is not None and step == first  # and was kept after that look
            if not looked and (step % schedule.check_every == 0 or step == schedule.steps):
                try:
                    with torch.no_grad():
                        value = float(validate(tensors))
                except NumericalError:
                    value = math.nan
                seconds = time.perf_counter() - began
                checks.append((step, value, seconds))
                logger.info("%s: step %d of %d, validation %.5g, %.0f s", *(name, step, schedule.steps, value, seconds))
                if math.isfinite(value) and (best is None or value < best[0]):
                    best = (value, step, {k: v.detach().numpy().copy() for k, v in tensors.items()})
                watch.tell(Check(name, step, schedule.steps, value, math.nan if best is None else best[0], seconds))
                if best is not None and step - best[1] >= schedule.patience * schedule.check_every:
                    break
                if watch.due and step < schedule.steps:
                    watch.save(state(step, False))
            if step == schedule.steps:
                break
            for tensor in tensors.values():
                tensor.grad = None
            try:
                batch_loss = loss(tensors, rng)
                trouble = "" if bool(torch.isfinite(batch_loss)) else f"got {batch_loss.item()}"
            except NumericalError as error:
                trouble = str(error)
            if trouble and best is not None and best[1] > 0:
                logger.warning("%s: step %d has no finite loss; training ends with the best so far", name, step)
                break
            if trouble:
                raise NumericalError(
                    f"training of {name} must have finite losses; at step {step} {trouble}; "
                    "a lower learning_rate may help"
                )
            batch_loss.backward()
            adam.step(schedule.rate(step), schedule.clip)
        if not finished:
            watch.save(state(step, True))
    if best is None:
        raise NumericalError(f"training of {name} must have a finite validation loss, got {checks[-1][1]}")
    seen = np.array(checks, dtype=np.float64)
    return Trained(best[2], best[0], best[1], seen[:, :2], seen[:, 2])


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

    def state(self) -> tuple[Parameters, Parameters, int]:
        """First and second moments by name, and how many steps were made; views."""
        first, second = ({name: pair[k].numpy() for name, pair in self._moments.items()} for k in (0, 1))
        return first, second, self._steps

    def restore(self, first: Parameters, second: Parameters, steps: int) -> None:
        """Go on with what `state` gave."""
        for name, pair in self._moments.items():
            for tensor, value in zip(pair, (first[name], second[name]), strict=True):
                tensor.copy_(self._torch.from_numpy(value))
        self._steps = steps
