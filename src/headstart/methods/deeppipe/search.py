"""`DeepSearch`: what a Gaussian process on learned embeddings does on a new task.

The notation is that of `headstart.methods.deeppipe.surrogate`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from headstart.learning.deep_kernel import SCALE
from headstart.learning.networks import Parameters
from headstart.methods.deeppipe.growth import belonging_to
from headstart.methods.deeppipe.network import MeanHead, Outputs, PipelineNetwork
from headstart.methods.deeppipe.tuning import DeepKernel, located, tuned
from headstart.numerics.affine_mixture import Levels
from headstart.numerics.hyperparameters import spread_over_ranks
from headstart.numerics.pool_posterior import PoolPosterior
from headstart.numerics.standardisation import Standardisation
from headstart.space.candidates import Pool
from headstart.space.encoded import Encoded
from headstart.surrogates.located_gp import LocatedGP
from headstart.surrogates.posterior import Fixed, Located, Posterior
from headstart.task import Task

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
Targets = Literal["inferred", "standardised", "accuracy"]
FineTune = Literal["none", "kernel", "all", "encoder"]

ZERO = 1.0
"""The loss that counts as 0 where accuracies are learned."""
OFFSET, SCALES = "levels.offset", "levels.scales"
_LEVELS = np.exp(np.linspace(-1.5, 1.5, 5))
_MOST_TO_TUNE = 300
"""Observations that parameters are tuned on; of more these many, at evenly spaced ranks."""


class DeepSearch(LocatedGP):
    """Base of `DeepPipe`: its parameters are there, and a new task begins. The settings are explained there."""

    own_noise = False
    mean: MeanHead
    targets: Targets
    fine_tune: FineTune
    fine_tune_steps: int
    fine_tune_rate: float
    looseness: float | None
    transfer: bool

    @property
    @abstractmethod
    def network(self) -> PipelineNetwork:
        """The architecture for the space that it was trained on, or extended to."""

    @property
    @abstractmethod
    def new_algorithms(self) -> list[tuple[str, str]]:
        """``(stage, algorithm)`` of those that came after meta-training."""

    def start(self, task: Task) -> Self:
        fresh = super().start(task)
        fresh._net = fresh.network
        fresh._tuned = fresh._parameters
        fresh._fixed = None
        fresh._chain = None
        return fresh

    _net: PipelineNetwork
    _tuned: Parameters
    _fixed: Fixed | None
    _chain: tuple[Encoded, Array, Parameters] | None

    @property
    def process(self) -> DeepKernel:
        return DeepKernel(float(self._tuned[SCALE]))

    @property
    def fixed(self) -> Fixed | None:
        """The pool of the task, while all of it stays where meta-training put it."""
        candidates = self.task.candidates
        if self._tuned is not self._parameters or not isinstance(candidates, Pool):
            return None
        if self._fixed is None:
            at, process = self.locate(candidates.pool), self.process
            row = partial(_row, process, at)
            self._fixed = Fixed(at, PoolPosterior(row, process.variance(at), at.noise))
        return self._fixed

    def places(self, encoded: Encoded) -> Places:
        candidates = self.task.candidates
        if encoded is candidates.pool:
            return np.arange(len(encoded))
        return candidates.find(encoded) if isinstance(candidates, Pool) else np.full(len(encoded), -1)

    def levels(self, targets: Array) -> Levels:
        if self.targets == "accuracy":
            return Levels.known(ZERO, 1.0)
        if self.infers_levels:
            return super().levels(targets)
        observed = Standardisation.of(targets)
        constant = observed.constant and self.transfer
        scale = float(np.median(self._parameters[SCALES])) if constant else observed.scale
        return Levels.known(observed.shift, scale)

    @property
    def infers_levels(self) -> bool:
        return self.targets == "inferred" and self.transfer

    @property
    def usual(self) -> Levels | None:
        if not self.transfer:
            return None
        (offset, spread), scales = self._parameters[OFFSET], self._parameters[SCALES]
        return Levels(float(offset), float(spread), scales, np.ones(1) if self.mean == "zero" else _LEVELS)

    def locate(self, encoded: Encoded) -> Located:
        """Where pipelines are, as tuned; for a pool as much as possible is kept."""
        network, learned, now = self._net, self._parameters, self._tuned
        if not len(encoded):
            return located(network(learned, np.zeros((0, network.features))), learned)
        if now is not learned and self.fine_tune == "all":
            return located(network(now, self.points(encoded)), now)
        outputs: Outputs = self.cached_for_pool("outputs", encoded, partial(network, learned))
        found = located(outputs, now)
        if now is not learned and self.fine_tune == "encoder":
            features = self.points(encoded)
            rows = self._rows_of_new(features)
            new = located(network(now, features[rows]), now)
            found.points[rows], found.means[rows], found.noise[rows] = new.points, new.means, new.noise
        return found

    # -- Algorithm 2 --------------------------------------------------------------------------------------------

    def _rows_of_new(self, features: Array) -> Places:
        """Pipelines with an algorithm that came after meta-training."""
        columns = self.new_columns(self._net, self.new_algorithms)
        return np.flatnonzero(features[:, columns].any(axis=1))

    @staticmethod
    def new_columns(network: PipelineNetwork, algorithms: list[tuple[str, str]]) -> list[int]:
        """Columns of features that say whether one of these is chosen."""
        found = []
        for stage, algorithm in algorithms:
            s = network.space.stage_position(stage)
            choice = network.stages[s].choice
            assert choice is not None
            found.append(choice.start + network.space.stages[s].position(algorithm))
        return found

    def adapt(self, seen: Encoded, targets: Array) -> None:
        self._tuned = self._parameters
        if self.fine_tune != "none" and len(targets) > 1 and not Standardisation.of(targets).constant:
            begin = self._tune if self.transfer else self._tune_in_turn
            self._tuned = begin(self._parameters, seen, targets)

    def _tune_in_turn(self, parameters: Parameters, seen: Encoded, targets: Array) -> Parameters:
        """Tuned on the first two observations, from there on the first three, and so on to all.

        It follows from the observations alone, but what was reached with the first of them is kept for the next fit.
        """
        reached = 0
        if self._chain is not None:
            before, values, kept = self._chain
            n = len(values)
            same = n <= len(targets) and np.array_equal(values, targets[:n])
            if same and np.array_equal(before.ids, seen.ids[:n]):
                parameters, reached = kept, n
        for n in links(len(targets)):
            if n > reached:
                part = seen.take(np.arange(n))
                if not Standardisation.of(targets[:n]).constant:
                    parameters = self._tune(parameters, part, targets[:n])
                self._chain = part, targets[:n], parameters
        return parameters

    def _tune(self, start: Parameters, seen: Encoded, targets: Array) -> Parameters:
        """Parameters after `fine_tune_steps` from `start` on; `start` itself if there is nothing to tune."""
        rows = spread_over_ranks(targets, _MOST_TO_TUNE)
        features, values = self.points(seen)[rows], targets[rows]
        masks: Mapping[str, Mask] = {}
        moving = np.arange(len(features))
        if self.fine_tune == "all":
            masks = {name: np.ones(value.shape, dtype=bool) for name, value in start.items() if self._net.owns(name)}
        elif self.fine_tune == "encoder":
            moving = self._rows_of_new(features)
            if not len(moving):
                return start
            masks = self._masks_of_new()
        at = located(self._net(start, features), start)
        likeliest = Posterior(DeepKernel(float(start[SCALE])), at, values, self.levels(values)).mixture.likeliest
        return tuned(
            self._net,
            start,
            features,
            values / likeliest.scale - likeliest.offset,
            kernel=self.fine_tune in ("kernel", "all"),
            masks=masks,
            rows=moving,
            steps=self.fine_tune_steps,
            rate=self.fine_tune_rate,
            looseness=self.looseness,
            anchor=self._parameters,
        )

    def _masks_of_new(self) -> dict[str, Mask]:
        masks: dict[str, Mask] = {}
        for stage, algorithm in self.new_algorithms:
            for name, mask in belonging_to(self._net, stage, algorithm, self._parameters).items():
                masks[name] = mask | masks.get(name, np.zeros_like(mask))
        return masks


def _row(process: DeepKernel, at: Located, place: int) -> Array:
    """Covariances of one pipeline with all."""
    return process.covariance(at, at.take(slice(place, place + 1)))[:, 0]


def links(n: int) -> list[int]:
    """Numbers of observations up to `n` at which parameters are tuned in turn: each one at first, then ever fewer."""
    found, k = [], 2
    while k <= n:
        found.append(k)
        k += max(1, k // _LINKS)
    return found


_LINKS = 20
