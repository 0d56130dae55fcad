"""The one training loop: steps of Adam, checks on held-out data, the best parameters kept."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, NumericalError, check_positive, suggestion
from headstart.learning.adam import Adam
from headstart.learning.backend import one_torch_thread
from headstart.learning.monitor import Check, TrainingState, next_watch
from headstart.learning.networks import Array, Parameters

logger = logging.getLogger(__name__)

Tensors = dict[str, Any]
Loss = Callable[[Tensors, np.random.Generator], Any]
"""From the parameters, and random numbers to draw a batch with, to a scalar tensor."""
Validation = Callable[[Tensors], Any]
"""From the parameters to a number, the lower the better; the same each time for the same parameters."""
_CLIP = 10.0
"""Largest norm of the gradient of a network."""


@dataclass(frozen=True)
class Training:
    """How fast to train, when to stop, and on batches of which size; how long at most is a setting beside it.

    Parameters
    ----------
    learning_rate
        Adam's, at the start.
    final_rate
        Share of the learning rate to which it falls along a cosine over all steps; 1 leaves it as it is.
    check_every, patience
        Steps between looks at the validation loss, and looks without improvement before training ends.
    weight_decay
        Decoupled, on weights of layers only.
    n_tasks, n_pipelines
        Tasks of a batch, and pipelines of each; where there are fewer, all.
    epochs
        Whether the most steps beside it are counted in epochs, each of as many as have room for every training task.
    """

    learning_rate: float = 1e-3
    final_rate: float = 0.01
    check_every: int = 100
    patience: int = 8
    weight_decay: float = 0.0
    n_tasks: int = 16
    n_pipelines: int = 128
    epochs: bool = False

    def __post_init__(self) -> None:
        for name in ("check_every", "patience", "n_tasks", "n_pipelines"):
            check_positive(name, getattr(self, name), whole=True)
        check_positive("learning_rate", self.learning_rate)
        if not 0.0 < self.final_rate <= 1.0:
            raise InvalidInput(
                f"final_rate is a share of learning_rate, above 0 and at most 1, got {self.final_rate!r}"
            )
        if not self.weight_decay >= 0.0:
            raise InvalidInput(f"weight_decay must be at least 0, got {self.weight_decay!r}")

    @classmethod
    def of(cls, given: TrainingLike, usual: Training) -> Training:
        """As given; a mapping changes some of the usual settings: ``pmf(training={'learning_rate': 0.01})``."""
        if isinstance(given, Training):
            return given
        if not isinstance(given, Mapping):
            raise InvalidInput(f"training must be a Training or a mapping of its settings, got {given!r}")
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                raise InvalidInput(f"training has no setting {name!r}; {suggestion(name, known)}")
        return replace(usual, **given)

    def to_dict(self) -> dict[str, Any]:
        """As JSON; without `epochs` where steps are steps, so that results on record are known by their settings."""
        found = asdict(self)
        return found if self.epochs else {name: value for name, value in found.items() if name != "epochs"}

    def number_of_steps(self, steps: int, n_tasks: int) -> int:
        """Most steps where there are so many training tasks."""
        return steps * math.ceil(n_tasks / self.n_tasks) if self.epochs else steps

    def rate(self, step: int, steps: int) -> float:
        """Learning rate of one of so many steps."""
        falling = 0.5 * (1.0 + math.cos(math.pi * step / steps))
        return self.learning_rate * (self.final_rate + (1.0 - self.final_rate) * falling)


TrainingLike = Training | Mapping[str, Any]


class Trainable(Protocol):
    """What `train` trains."""

    adam: Adam
    """Has the parameters, and is asked for its state."""

    def step(self, number: int, rate: float) -> None:
        """One step at this rate; `NumericalError` where there is no finite loss."""
        ...

    def validate(self) -> float:
        """The validation loss of the parameters as they are, the lower the better."""
        ...


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
        (k, 3) steps, validation losses and seconds from the start.
    steps
        Most steps that there might have been.
    """

    parameters: Parameters
    validation_loss: float
    step: int
    checks: NDArray[np.float64]
    steps: int


def train(
    model: Trainable,
    steps: int,
    training: Training,
    rng: np.random.Generator | None = None,
    name: str = "network",
    *,
    start_counts: bool = False,
) -> Trained:
    """Train a model; the same arguments give the same result.

    Inside `headstart.learning.monitor.monitored` it reports how it goes, goes on where an earlier process stopped, and
    ends after the seconds that the monitor allows.

    Parameters
    ----------
    model
        Validated before the first step, at checks and after the last step.
    steps, training
        How many at most, and see there.
    rng
        What the model draws with; ``None`` for one that begins random numbers anew at each step.
    name
        For the log.
    start_counts
        Whether its start is worth keeping if a step breaks before anything better was found.
    """
    watch = next_watch()
    before = watch.restored()
    checks: list[tuple[int, float, float]] = []
    best: tuple[float, int, Parameters] | None = None
    first, finished, cut = 0, False, False
    if before is not None:
        first, checks, best, finished = before.step, before.checks, before.best, before.finished
        model.adam.restore(before.adam)
        if rng is not None:
            rng.bit_generator.state = before.rng
        watch.tell_again(name, steps, checks)
    began = time.perf_counter() - (checks[-1][2] if checks else 0.0)

    def state(step: int, finished: bool) -> TrainingState:
        drawn = {} if rng is None else rng.bit_generator.state
        return TrainingState(step, model.adam.state(), drawn, checks, best, finished)

    for step in range(first, first if finished else steps + 1):
        looked = before is not None and step == first  # and was kept after that look
        if not looked and (step % training.check_every == 0 or step == steps):
            try:
                value = float(model.validate())
            except NumericalError:
                value = math.nan
            seconds = time.perf_counter() - began
            checks.append((step, value, seconds))
            logger.info("%s: step %d of %d, validation %.5g, %.0f s", name, step, steps, value, seconds)
            if math.isfinite(value) and (best is None or value < best[0]):
                best = (value, step, {k: v.copy() for k, v in model.adam.parameters.items()})
            watch.tell(Check(name, step, steps, value, math.nan if best is None else best[0], seconds))
            if best is not None and step - best[1] >= training.patience * training.check_every:
                break
            if step < steps and watch.over:
                cut = True
                break
            if watch.due and step < steps:
                watch.save(state(step, False))
        if step == steps:
            break
        try:
            model.step(step, training.rate(step, steps))
        except NumericalError as error:
            if best is None or not (best[1] > 0 or start_counts):
                raise NumericalError(
                    f"training of {name} must have finite losses; at step {step} {error}; "
                    "a lower learning_rate may help"
                ) from error
            logger.warning("%s: step %d has no finite loss; training ends with the best so far", name, step)
            break
    if cut:
        watch.cut(state(step, False))
    elif not finished:
        watch.save(state(step, True))
    if best is None:
        raise NumericalError(f"training of {name} must have a finite validation loss, got {checks[-1][1]}")
    return Trained(best[2], best[0], best[1], np.array(checks, dtype=np.float64), steps)


def train_network(
    initial: Mapping[str, Array],
    loss: Loss,
    validate: Validation,
    steps: int,
    training: Training,
    rng: np.random.Generator,
    name: str = "network",
) -> Trained:
    """`train` parameters of a network with torch; no global seed is read or set.

    Parameters
    ----------
    initial
        Parameters to start from; they are not changed.
    loss
        Called at each step.
    validate
        Called at checks, without gradients.
    steps, training, rng, name
        See `train`; `rng` draws the batches.
    """
    with one_torch_thread(f"training of {name}") as torch:
        return train(_Network(torch, initial, loss, validate, training.weight_decay, rng), steps, training, rng, name)


class _Network:
    """Tensors that share their memory with the arrays that Adam changes."""

    def __init__(
        self,
        torch: Any,
        initial: Mapping[str, Array],
        loss: Loss,
        validate: Validation,
        weight_decay: float,
        rng: np.random.Generator,
    ) -> None:
        self.adam = Adam({name: np.array(value, dtype=np.float64) for name, value in initial.items()}, weight_decay)
        self._tensors = {name: torch.from_numpy(v).requires_grad_() for name, v in self.adam.parameters.items()}
        self._torch, self._loss, self._validate, self._rng = torch, loss, validate, rng

    def step(self, number: int, rate: float) -> None:  # noqa: ARG002
        for tensor in self._tensors.values():
            tensor.grad = None
        loss = self._loss(self._tensors, self._rng)
        if not bool(self._torch.isfinite(loss)):
            raise NumericalError(f"got {loss.item()}")
        loss.backward()
        gradient = {name: t.grad.numpy() for name, t in self._tensors.items() if t.grad is not None}
        self.adam.step(gradient, rate, _CLIP)

    def validate(self) -> float:
        with self._torch.no_grad():
            return float(self._validate(self._tensors))
