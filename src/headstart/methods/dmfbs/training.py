"""Meta-learning of where DMFBS begins on a new task: Reptile (Algorithm 3).

==========  ===============  ==================================================================================
symbol      name in code     equation
==========  ===============  ==================================================================================
θ           parameters       of extractor and regressor
θ_i         `adapted`        θ after v updates (Algorithm 2) on task i, each one step of Adam
v, η        steps, rate      number of updates, and their learning rate
θ           `Reptile.step`   θ + η' · mean over n tasks of (θ_i - θ), η' the outer rate
==========  ===============  ==================================================================================

Inner steps are Adam's with β_1 = 0, as in Nichol, Achiam & Schulman (2018). Training stops by the squared
error of predictions on validation tasks, before anything is observed on them. The paper stops by the regret of the
twenty pipelines with the lowest predictions; on so few tasks that is mostly chance, and random parameters may be ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from headstart.errors import NumericalError
from headstart.learning.adam import Adam
from headstart.learning.batches import TaskBatches
from headstart.learning.networks import Parameters
from headstart.metadata.metadataset import MetaDataset

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
About = TypeVar("About")
Gradient = Callable[[Parameters, np.random.Generator], Parameters]
"""From the parameters, and random numbers to draw a batch with, to derivatives."""

INNER_BETAS = (0.0, 0.999)
_CLIP = 10.0


@dataclass(frozen=True)
class KnownTask(Generic[About]):
    """A task to learn from, or to validate on.

    Parameters
    ----------
    about
        What describes its table: arrays, batches, or a vector.
    columns, targets
        Its observed pipelines, as rows of the features of all, and their standardised losses; (n,).
    """

    about: About
    columns: Rows
    targets: Array

    def draw(self, rng: np.random.Generator, n: int) -> tuple[Rows, Array]:
        """`n` observations at random; some more than once where there are fewer."""
        chosen = sample(rng, len(self.columns), n)
        return self.columns[chosen], self.targets[chosen]

    def error(self, predicted: Array) -> float:
        """Mean squared error of predictions (n,)."""
        return float(((predicted - self.targets) ** 2).mean())


def sample(rng: np.random.Generator, known: int, n: int) -> Rows:
    """`n` of so many places at random; each once, unless there are fewer."""
    return rng.choice(known, n, replace=known < n)


def known_tasks(meta: MetaDataset, about: Sequence[About | None]) -> list[KnownTask[About]]:
    """The tasks of a meta-dataset with different losses and something that describes them."""
    batches = TaskBatches(meta, np.zeros((len(meta.pipelines), 0)))
    found = []
    for task in map(int, batches.tasks):
        described = about[task]
        if described is not None:
            row = meta.loss_row(task)
            columns = np.flatnonzero(np.isfinite(row))
            targets = (row[columns].astype(np.float64) - batches.means[task]) / batches.stds[task]
            found.append(KnownTask(described, columns, targets))
    return found


def adapted(
    parameters: Parameters,
    gradient: Gradient,
    steps: int,
    rate: float,
    rng: np.random.Generator,
    betas: tuple[float, float] = INNER_BETAS,
) -> Parameters:
    """θ_i: a copy of the parameters after some steps of Adam on one task. Those without a derivative stay."""
    flat = np.concatenate([value.ravel() for value in parameters.values()])  # one array is stepped faster than forty
    found, slopes = _parts(flat, parameters), np.zeros(len(flat))
    by, adam = _parts(slopes, parameters), Adam({"all": flat}, betas=betas)
    for _ in range(steps):
        slopes[:] = 0.0
        for name, slope in gradient(found, rng).items():
            by[name][...] = slope
        adam.step({"all": slopes}, rate, _CLIP)
    return found


def _parts(flat: Array, like: Parameters) -> Parameters:
    """Views of an array, of the shapes of some parameters one after the other."""
    ends = np.cumsum([value.size for value in like.values()])
    return {
        name: flat[end - value.size : end].reshape(value.shape)
        for end, (name, value) in zip(ends, like.items(), strict=True)
    }


class Reptile:
    """Moves parameters towards what they become on single tasks; `headstart.learning.training.train` trains it.

    Parameters
    ----------
    initial
        θ to start from; a copy is changed.
    adapt
        From θ, a task's place and random numbers to θ_i.
    known, n_tasks
        How many tasks there are, and how many of them a step takes, drawn evenly and independently.
    validate
        From θ to the validation loss.
    outer_rate
        η' as a multiple of the rate that a step is given.
    rng
        Draws tasks and batches.
    """

    def __init__(
        self,
        initial: Parameters,
        adapt: Callable[[Parameters, int, np.random.Generator], Parameters],
        known: int,
        n_tasks: int,
        validate: Callable[[Parameters], float],
        outer_rate: float,
        rng: np.random.Generator,
    ) -> None:
        # The outer step is plain; Adam's place is where the loop of training looks for what it has to keep.
        self.adam = Adam({name: value.copy() for name, value in initial.items()})
        self._adapt, self._known, self._n_tasks = adapt, known, n_tasks
        self._validate, self._outer_rate, self._rng = validate, outer_rate, rng

    def step(self, number: int, rate: float) -> None:  # noqa: ARG002
        parameters = self.adam.parameters
        reached: dict[str, Any] = dict.fromkeys(parameters, 0.0)
        for task in self._rng.integers(self._known, size=self._n_tasks):
            for name, value in self._adapt(parameters, int(task), self._rng).items():
                reached[name] = reached[name] + value
        for name, value in parameters.items():
            moved = value + self._outer_rate * rate * (reached[name] / self._n_tasks - value)
            if not np.isfinite(moved).all():
                raise NumericalError(f"{name} is not finite")
            value[...] = moved

    def validate(self) -> float:
        return self._validate(self.adam.parameters)
