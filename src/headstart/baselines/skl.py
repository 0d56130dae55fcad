"""`StructuredKernel`: an additive Gaussian process that learns which algorithms belong together.

After the structured kernel learning of AutoPrognosis (Alaa & van der Schaar 2018), which lets the loss of a pipeline be
a sum of functions of groups of algorithms, and the search for additive structure by Metropolis sampling of Gardner et
al. (2017).

=============  ==================  ============================================================================
symbol         name in code        meaning
=============  ==================  ============================================================================
u              blocks              an algorithm: the columns of its hyper-parameters and of its choice
z              partition           groups of blocks; the function is a sum over groups
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

A Gaussian process whose function is a sum over groups of columns:

==============  ====================  ========================================================================
symbol          name in code          equation
==============  ====================  ========================================================================
X, y            inputs, targets       n observations; y standardised
B_u             distances (U, n, n)   squared distances over the columns of block u, each divided by its ℓ²
g               groups                a partition of the blocks 0 … U-1
c_g, s_g        stretches, scales     how much longer the length scales of a group are, and its variance
q_g             squared               q_g = Σ_{u in g} B_u / c_g²
f, f'                                 Matérn-5/2, see `headstart.numerics.kernels`
A               matrix                A = Σ_g s_g f(q_g) + σ² I
m, α, ln p      mean, weights, value  see `headstart.numerics.marginal_likelihood`
W               upstream              ½ (α αᵀ - A⁻¹)
∂ln p/∂ln s_g                         Σ_ij W_ij s_g f(q_g,ij)
∂ln p/∂ln c_g                         -2 Σ_ij W_ij s_g f'(q_g,ij) q_g,ij
∂ln p/∂ln σ²                          σ² tr W
θ               vector                (ln c_1, …, ln c_G, ln s_1, …, ln s_G, ln σ²)
==============  ====================  ========================================================================

A group that holds all columns is an ordinary Gaussian process. The functions of several groups add up, so what is
learned of one group holds whatever the columns of the others are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack
from scipy.optimize import minimize

from headstart.errors import InvalidInput
from headstart.history import History
from headstart.numerics.cholesky import jittered_cholesky
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import LogNormal, spread_over_ranks
from headstart.numerics.kernels import Array, CrossKernel, kernel_matrix
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.space.space import PipelineSpace
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task

Partition = tuple[tuple[int, ...], ...]

_SIZES = (6, 9, 13, 20, 30, 45, 67, 100, 150, 200)
"""Numbers of trials after which a structure is learned."""
_MOST_OBSERVATIONS = 300
"""For the search of hyper-parameters; the posterior is that of all."""
_LEAST_STD = 1e-9
"""Relative to that of the targets."""

Columns = NDArray[np.intp]
_LOG_TWO_PI = math.log(2.0 * math.pi)
_BLOCK_ELEMENTS = 1 << 15
_STRETCH = LogNormal(0.25, 0.5)  # mode 1
_NOISE = LogNormal(-4.0, 1.0)
_BOX = {"stretch": (0.05, 50.0), "scale": (1e-4, 1e2), "noise": (1e-6, 1e1)}


def block_distances(inputs: Array, blocks: Sequence[Columns], length_scales: Array) -> Array:
    """B, shape ``(U, n, n)``, of inputs ``(n, d)`` for the columns of each block and length scales ``(d,)``."""
    distances = np.empty((len(blocks), len(inputs), len(inputs)))
    for block, columns in enumerate(blocks):
        scaled = (inputs[:, columns] - inputs[:, columns].mean(axis=0)) / length_scales[columns]
        squares = np.einsum("ij,ij->i", scaled, scaled)
        distances[block] = np.maximum(squares[:, None] + squares - 2.0 * (scaled @ scaled.T), 0.0)
        np.fill_diagonal(distances[block], 0.0)
    return distances


def additive_evidence(distances: Array, targets: Array, vector: Array) -> tuple[float, Array]:
    """Log marginal likelihood and its gradient by θ, for squared distances ``(G, n, n)`` of the groups."""
    groups, size = len(distances), len(targets)
    stretches, scales, noise = np.exp(vector[:groups]), np.exp(vector[groups:-1]), math.exp(vector[-1])
    matrix = np.zeros((size, size))
    parts, slopes = [], []
    for squared, stretch, scale in zip(distances, stretches, scales, strict=True):
        scaled = squared * (5.0 / stretch**2)
        root = np.sqrt(scaled)
        decay = scale * np.exp(-root)
        parts.append((1.0 + root + scaled / 3.0) * decay)
        slopes.append((-1.0 / 6.0) * (1.0 + root) * decay * scaled)  # s f'(q) q
        matrix += parts[-1]
    diagonal = np.einsum("ii->i", matrix)
    diagonal += noise
    lower = jittered_cholesky(matrix)
    inverse_factor = lapack.dtrtri(lower, lower=1)[0]
    inverse = inverse_factor.T @ inverse_factor
    solved_ones = inverse.sum(axis=0)
    mean = float(solved_ones @ targets) / float(solved_ones.sum())
    weights = inverse @ (targets - mean)
    value = -0.5 * float((targets - mean) @ weights) - float(np.log(np.einsum("ii->i", lower)).sum())
    value -= 0.5 * size * _LOG_TWO_PI
    upstream = 0.5 * (np.outer(weights, weights) - inverse)
    by_scales = [float(np.vdot(upstream, part)) for part in parts]
    by_stretches = [-2.0 * float(np.vdot(upstream, slope)) for slope in slopes]
    return value, np.array([*by_stretches, *by_scales, noise * float(np.trace(upstream))])


@dataclass(frozen=True)
class Additive:
    """A structure with its likeliest hyper-parameters.

    Parameters
    ----------
    vector
        θ.
    log_evidence
        ln p(y|θ) + ln p(θ) - ½ (2G + 1) ln n: the Bayesian information criterion with priors, for comparing structures.
    """

    vector: Array
    log_evidence: float


def search_additive(
    distances: Array, groups: Sequence[Sequence[int]], targets: Array, noise: float, iterations: int
) -> Additive:
    """Likeliest stretches, variances and noise of a partition into `groups` of the blocks of `distances`.

    Parameters
    ----------
    distances, targets
        Shapes ``(U, n, n)`` and ``(n,)``, standardised.
    groups
        The blocks of each group.
    noise
        Where the search begins.
    iterations
        Of L-BFGS.
    """
    count = len(groups)
    together = np.stack([distances[list(group)].sum(axis=0) for group in groups])
    scale = LogNormal(1.0 - math.log(count), 1.0)  # mode 1/G, so that they add up to 1
    priors = [_STRETCH] * count + [scale] * count + [_NOISE]
    limits = [_BOX["stretch"]] * count + [_BOX["scale"]] * count + [_BOX["noise"]]
    begin = np.log([1.0] * count + [1.0 / count] * count + [min(max(noise, 1e-5), 1.0)])

    def loss(vector: Array) -> tuple[float, Array]:
        value, gradient = additive_evidence(together, targets, vector)
        for k, prior in enumerate(priors):
            value += float(prior.log_density(vector[k]))
            gradient[k] += float(prior.slope(vector[k]))
        return -value, -gradient

    with one_blas_thread():
        options = {"maxiter": iterations, "ftol": 1e-5, "gtol": 1e-2}
        found = minimize(loss, begin, jac=True, method="L-BFGS-B", bounds=np.log(limits), options=options)
    penalty = 0.5 * len(begin) * math.log(len(targets))
    return Additive(np.asarray(found.x, dtype=np.float64), -float(found.fun) - penalty)


class AdditiveProcess:
    """The posterior of an additive Gaussian process.

    Parameters
    ----------
    inputs, targets
        Shapes ``(n, d)`` and ``(n,)``.
    columns
        Of each group.
    length_scales
        Shape ``(d,)``, before they are stretched.
    vector
        θ, in units of standardised targets.
    standardisation
        Of the targets.
    mean
        Constant mean of the standardised targets; ``None`` takes the likeliest one.
    """

    def __init__(
        self,
        inputs: Array,
        targets: Array,
        columns: Sequence[Columns],
        length_scales: Array,
        vector: Array,
        standardisation: Standardisation,
        mean: float | None = None,
    ) -> None:
        count = len(columns)
        self._inputs, self._targets, self._columns = inputs, targets, columns
        self._length_scales, self._vector = length_scales, vector
        self.standardisation = standardisation
        self._lengths = [np.log(length_scales[c]) + vector[g] for g, c in enumerate(columns)]
        self._scales = vector[count:-1]
        standardised = standardisation.apply(targets)
        with one_blas_thread():
            matrix = np.zeros((len(inputs), len(inputs)))
            for c, lengths, scale in zip(columns, self._lengths, self._scales, strict=True):
                matrix += kernel_matrix("matern52", np.ascontiguousarray(inputs[:, c]), None, lengths, scale)
            matrix[np.diag_indices_from(matrix)] += math.exp(vector[-1])
            self._inverse_factor = np.asarray(lapack.dtrtri(jittered_cholesky(matrix), lower=1)[0])
            solved = self._inverse_factor.T @ (self._inverse_factor @ np.stack([standardised, np.ones(len(inputs))], 1))
        self.mean = float(solved[:, 0].sum() / solved[:, 1].sum()) if mean is None else mean
        self._weights = solved[:, 0] - self.mean * solved[:, 1]

    def add(self, inputs: Array, targets: Array) -> AdditiveProcess:
        """A new process with further observations and the same hyper-parameters; this one is left as it is."""
        return AdditiveProcess(
            np.concatenate([self._inputs, inputs]),
            np.concatenate([self._targets, targets]),
            self._columns,
            self._length_scales,
            self._vector,
            self.standardisation,
            self.mean,
        )

    def posterior(self, candidates: Array) -> tuple[Array, Array]:
        """Mean and standard deviation of the function at candidates ``(m, d)``: two arrays of shape ``(m,)``."""
        rows = max(64, _BLOCK_ELEMENTS // max(1, *self._inputs.shape))
        rows = max(1, min(rows, len(candidates)))
        mean = np.full(len(candidates), self.mean)
        variance = np.full(len(candidates), float(np.exp(self._scales).sum()))
        with one_blas_thread():
            kernels = [
                CrossKernel("matern52", np.ascontiguousarray(self._inputs[:, c]), lengths, scale, rows)
                for c, lengths, scale in zip(self._columns, self._lengths, self._scales, strict=True)
            ]
            for start in range(0, len(candidates), rows):
                block = slice(start, start + rows)
                cross = kernels[0](candidates[block][:, self._columns[0]])
                for kernel, columns in zip(kernels[1:], self._columns[1:], strict=True):
                    cross += kernel(candidates[block][:, columns])
                mean[block] += cross @ self._weights
                projected = blas.dtrmm(1.0, self._inverse_factor, cross.T, lower=1, overwrite_b=1).T
                variance[block] -= np.einsum("ij,ij->i", projected, projected)
        std = np.sqrt(np.maximum(variance, 0.0))
        return self.standardisation.undo(mean), std * self.standardisation.scale


class StructuredKernel(Surrogate):
    """A sum of Gaussian processes over groups of algorithms; the groups are learned (Alaa & van der Schaar, ICML 2018).

    Parameters
    ----------
    n_steps
        Of each Metropolis walk over partitions; with none the groups are the stages.
    n_iterations
        Of the search for a partition's hyper-parameters.
    seed
        Of the walk; the same history gives the same partition.
    """

    def __init__(self, n_steps: int = 20, n_iterations: int = 15, seed: int = 0) -> None:
        if n_steps < 0 or n_iterations < 1:
            raise InvalidInput(
                f"n_steps must be at least 0 and n_iterations at least 1, got {n_steps!r} and {n_iterations!r}"
            )
        self.n_steps = n_steps
        self.n_iterations = n_iterations
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
        inputs, targets = history.encoded.features(), history.targets()
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
