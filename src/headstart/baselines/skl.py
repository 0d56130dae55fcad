"""`StructuredKernel`: an additive Gaussian process that learns which algorithms belong together.

After the structured kernel learning of AutoPrognosis (Alaa & van der Schaar 2018), which lets the loss of a pipeline be
a sum of functions of groups of algorithms, and the search for additive structure by Metropolis sampling of Gardner et
al. (2017).

=============  ==================  ============================================================================
symbol         name in code        meaning
=============  ==================  ============================================================================
u              blocks              an algorithm: the columns of its hyper-parameters and of its choice
z              partition           groups of blocks; the function is a sum over groups, see
                                   `headstart.numerics.additive`
ln p(y|z)      log_evidence        Bayesian information criterion at the likeliest hyper-parameters of z
=============  ==================  ============================================================================

Decided here:

- The walk begins with a group for each stage. A step takes one algorithm out of its group and puts it into another or
  into one of its own, all with equal chance, and is accepted with probability min(1, p(y|z') / p(y|z) × reverse chance
  / chance): all partitions are equally likely a priori. The likeliest partition of the walk is used, not an average.
- Length scales of single columns are those of an ordinary Gaussian process on the same trials; a group stretches them
  together and has a variance of its own.
- A structure is learned after 6, 9, 13, … trials (half as many again each time, up to 200) from the trials there were
  then, and holds until the next time. So it follows from the history alone, and is learned once.
- No learning from other tasks: this is the part that DeepPipe's paper compares without meta-learning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.history import History
from headstart.numerics.additive import AdditiveProcess, Columns, block_distances, search_additive
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import spread_over_ranks
from headstart.numerics.standardisation import Standardisation
from headstart.space.encoded import Encoded
from headstart.space.space import PipelineSpace
from headstart.surrogates.base import Prediction, Surrogate
from headstart.surrogates.targets import checked_reshaping, reshaped
from headstart.task import Task

Array = NDArray[np.float64]
Partition = tuple[tuple[int, ...], ...]

_SIZES = (6, 9, 13, 20, 30, 45, 67, 100, 150, 200)
"""Numbers of trials after which a structure is learned."""
_MOST_OBSERVATIONS = 300
"""For the search of hyper-parameters; the posterior is that of all."""
_LEAST_STD = 1e-9
"""Relative to that of the targets."""


class StructuredKernel(Surrogate):
    """A sum of Gaussian processes over groups of algorithms; the groups are learned.

    Parameters
    ----------
    n_steps
        Of each Metropolis walk over partitions; with none the groups are the stages.
    n_iterations
        Of the search for a partition's hyper-parameters.
    targets
        How targets are reshaped before they are learned, see `headstart.surrogates.targets`.
    seed
        Of the walk; the same history gives the same partition.
    """

    def __init__(self, n_steps: int = 20, n_iterations: int = 15, targets: str = "as_is", seed: int = 0) -> None:
        if n_steps < 0 or n_iterations < 1:
            raise InvalidInput(
                f"n_steps must be at least 0 and n_iterations at least 1, got {n_steps!r} and {n_iterations!r}"
            )
        self.n_steps = n_steps
        self.n_iterations = n_iterations
        self.targets = checked_reshaping(targets)
        self.seed = seed

    def start(self, task: Task) -> Self:
        fresh = super().start(task)
        fresh.blocks, fresh._stages = algorithm_blocks(task.space)
        fresh._learned = {}
        return fresh

    blocks: list[Columns]
    """Columns of each algorithm."""
    partition: Partition
    """Groups of blocks in use, after `fit`."""
    _stages: Partition
    _learned: dict[bytes, Partition]

    def fit(self, history: History) -> Self:
        inputs, targets = history.encoded.features(), reshaped(history.targets(), self.targets)
        plain = GaussianProcess().fit(inputs, targets)
        self.partition = self._stages
        self._process: GaussianProcess | AdditiveProcess = plain
        if len(self._stages) and len(targets) > 1 and not plain.standardisation.constant:
            self.partition = self._structure(inputs, targets)
            known = plain.hyperparameters
            chosen = spread_over_ranks(targets, _MOST_OBSERVATIONS)
            distances = block_distances(inputs[chosen], self.blocks, known.length_scales)
            standardised = plain.standardisation.apply(targets[chosen])
            found = search_additive(distances, self.partition, standardised, known.noise, 2 * self.n_iterations)
            columns = [np.concatenate([self.blocks[u] for u in group]) for group in self.partition]
            self._process = AdditiveProcess(
                inputs, targets, columns, known.length_scales, found.vector, plain.standardisation
            )
        if history.pending:
            waiting = history.waiting.features()
            self._process = self._process.add(waiting, self._process.posterior(waiting)[0])
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        mean, std = self._process.posterior(encoded.features())
        return Prediction(mean, np.maximum(std, _LEAST_STD * self._process.standardisation.scale))

    def _structure(self, inputs: Array, targets: Array) -> Partition:
        """The partition learned from as many of the first trials as the schedule says."""
        sizes = [size for size in _SIZES if size <= len(targets)]
        if not sizes or not self.n_steps or len(self.blocks) < 2:
            return self._stages
        first, values = inputs[: sizes[-1]], targets[: sizes[-1]]
        key = first.tobytes() + values.tobytes()
        if key not in self._learned:
            self._learned[key] = self._walk(first, values)
        return self._learned[key]

    def _walk(self, inputs: Array, targets: Array) -> Partition:
        standardisation = Standardisation.of(targets)
        if standardisation.constant:
            return self._stages
        known = GaussianProcess().fit(inputs, targets).hyperparameters
        distances = block_distances(inputs, self.blocks, known.length_scales)
        standardised = standardisation.apply(targets)
        evidence: dict[Partition, float] = {}

        def height(partition: Partition) -> float:
            if partition not in evidence:
                evidence[partition] = search_additive(
                    distances, partition, standardised, known.noise, self.n_iterations
                ).log_evidence
            return evidence[partition]

        rng = np.random.default_rng([self.seed, len(targets)])
        here = self._stages
        for _ in range(self.n_steps):
            there, log_ratio = propose(here, rng)
            if np.log(1.0 - rng.random()) < height(there) - height(here) + log_ratio:
                here = there
        return max(evidence, key=lambda partition: evidence[partition])


def propose(partition: Partition, rng: np.random.Generator) -> tuple[Partition, float]:
    """A partition with one block moved, and the logarithm of the chance of the way back over that of the way there.

    A block is drawn, then a place: one of the other groups or, if it is not alone already, a group of its own.
    """
    size = sum(len(group) for group in partition)
    block = int(rng.integers(size))
    home = next(g for g, group in enumerate(partition) if block in group)
    rest = [tuple(u for u in group if u != block) for group in partition]
    others = [g for g in range(len(partition)) if g != home]
    alone = not rest[home]
    places = others if alone else [*others, -1]
    if not places:
        return partition, 0.0
    place = places[int(rng.integers(len(places)))]
    groups = [tuple(sorted((*group, block))) if g == place else group for g, group in enumerate(rest)]
    if place == -1:
        groups.append((block,))
    there = canonical(groups)
    ways_back = len(there) - 1 if place == -1 else len(there)
    return there, float(np.log(len(places)) - np.log(ways_back))


def canonical(groups: Sequence[Sequence[int]]) -> Partition:
    """The same groups, without empty ones, in an order that does not depend on how they were made."""
    return tuple(sorted(tuple(sorted(group)) for group in groups if len(group)))


def algorithm_blocks(space: PipelineSpace) -> tuple[list[Columns], Partition]:
    """Columns of `Encoded.features` of each algorithm that has any, and the blocks of each stage.

    Where the order of stages is free, their places are one more block and one more group.
    """
    blocks: list[Columns] = []
    stages: list[list[int]] = [[] for _ in space.stages]
    hot = space.width
    first_hot = []
    for stage in space.stages:
        first_hot.append(hot)
        hot += len(stage.algorithms) if len(stage.algorithms) > 1 else 0
    for s, a, _, columns in space.blocks():
        own = np.arange(space.width)[columns]
        if len(space.stages[s].algorithms) > 1:
            own = np.append(own, first_hot[s] + a)
        if len(own):
            stages[s].append(len(blocks))
            blocks.append(own.astype(np.intp))
    width = space.sample(np.random.default_rng(0), 1).features().shape[1]
    if width > hot:
        stages.append([len(blocks)])
        blocks.append(np.arange(hot, width, dtype=np.intp))
    return blocks, canonical(stages)
