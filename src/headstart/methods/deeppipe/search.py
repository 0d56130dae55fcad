"""`DeepSearch`: what a Gaussian process on learned embeddings does on a new task; notation in
`headstart.methods.deeppipe.surrogate`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from headstart.history import History
from headstart.learning.deep_kernel import SCALE
from headstart.learning.networks import Parameters
from headstart.methods.deeppipe import memory as pipeline_memory
from headstart.methods.deeppipe.growth import belonging_to
from headstart.methods.deeppipe.network import MeanHead, PipelineNetwork
from headstart.methods.deeppipe.posterior import Observed, PoolObserved, PoolProcess
from headstart.methods.deeppipe.tuning import Located, tuned
from headstart.methods.pmf.surrogate import PMF
from headstart.numerics.affine_mixture import Levels
from headstart.numerics.hyperparameters import spread_over_ranks
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread
from headstart.space.candidates import Pool
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction
from headstart.surrogates.meta_trained import MetaTrained
from headstart.surrogates.recorded_gp import Failures
from headstart.surrogates.targets import reshaped
from headstart.task import Task

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
Targets = Literal["inferred", "standardised", "raw", "accuracy"]
FineTune = Literal["none", "kernel", "all", "encoder"]

ZERO: dict[str, float] = {"raw": 0.0, "accuracy": 1.0}
"""Losses that count as 0 where they keep their unit."""
OFFSET, SCALES = "levels.offset", "levels.scales"
_LEVELS = np.exp(np.linspace(-1.5, 1.5, 5))
_BAD = 2.0
"""What a failure counts as where nothing has succeeded yet: so many usual deviations above a usual loss."""
_LEAST_STD = 1e-6
"""Relative to that of the targets."""
_MOST_TO_TUNE = 300
"""Observations that parameters are tuned on; of more these many, at evenly spaced ranks."""


class DeepSearch(MetaTrained):
    """Base of `DeepPipe`: its parameters are there, and a new task begins. The settings are explained there."""

    mean: MeanHead
    targets: Targets
    clipped: bool
    fine_tune: FineTune
    fine_tune_steps: int
    fine_tune_rate: float
    looseness: float | None
    warm: bool
    own_noise: bool
    failures: Failures
    memory: bool
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
        fresh._process = None
        fresh._chain = None
        memory = self._memory
        fresh._recorded = memory.start(task) if memory is not None and memory.covers(task) else None
        fresh._recalled = fresh._recorded if self._remembers else None
        if fresh._recalled is not None:
            fresh._recalled.failures = self.failures
        return fresh

    @property
    def _remembers(self) -> bool:
        """Whether the memory is asked: not beside a network that is fine-tuned to the task, or has clipped losses."""
        return self.memory and self.transfer and self.fine_tune == "none" and not self.clipped

    def __getstate__(self) -> dict[str, Any]:  # the memory is made again of what was learned
        return {name: value for name, value in self.__dict__.items() if name != "_memory_of"}

    @property
    def _memory(self) -> PMF | None:
        """The memory, made once of what was learned; seconds are read off it also where it is not asked for losses."""
        if self._space is None:
            return None
        kept: tuple[Parameters, PMF | None] | None = self.__dict__.get("_memory_of")
        if kept is None or kept[0] is not self._parameters:
            kept = self.__dict__["_memory_of"] = (
                self._parameters,
                pipeline_memory.recalled(self._parameters, self.space),
            )
        return kept[1]

    _recorded: PMF | None
    _recalled: PMF | None

    _net: PipelineNetwork
    _process: PoolProcess | None
    _chain: tuple[Encoded, Array, Parameters] | None
    _tuned: Parameters
    _observed: Observed
    _failed: tuple[Places, float] | None

    def fit(self, history: History) -> Self:
        encoded = history.encoded
        targets = reshaped(self.transform_targets(history.targets()), "clipped" if self.clipped else "as_is")
        ok = history.ok
        if self._usual is not None:
            targets = np.minimum(targets, self._usual.highest(targets[ok]))
        # Where everything failed there is no worst loss that a failure could count as, but perhaps a usual one.
        ignored = self.failures == "ignored" or not (ok.any() or self.transfer)
        if not ok.any() and self.transfer:
            offset, scales = self._parameters[OFFSET][0], self._parameters[SCALES]
            targets = np.full(len(ok), offset + _BAD * float(np.median(scales)))
        self._failed = (encoded.ids[~ok], float(targets[ok].max(initial=-np.inf))) if ignored else None
        if ignored:
            encoded, targets = encoded.take(ok), targets[ok]
        with one_blas_thread():
            self._tuned = self._adapted(encoded, targets)
            self._observed = self._condition(encoded, targets)
            if history.pending:
                waiting = history.waiting
                believed, _ = self._observed.moments(self._locate(waiting), noisy=False)
                together = Encoded.concatenate([encoded, waiting])
                self._observed = self._condition(together, np.concatenate([targets, believed]))
        if self._recalled is not None:
            self._recalled.fit(history)
        return self

    def _condition(self, seen: Encoded, targets: Array) -> Observed:
        """The posterior; incremental over a pool of which all stays where meta-training put it."""
        known, scale, candidates = self._levels(targets), float(self._tuned[SCALE]), self.task.candidates
        if self._tuned is not self._parameters or not isinstance(candidates, Pool):
            return Observed(self._locate(seen), targets, scale, known)
        if self._process is None:
            self._process = PoolProcess(self._locate(candidates.pool), scale)
        return PoolObserved(self._process, candidates.rows(seen.ids), targets, known)

    def _levels(self, targets: Array) -> Levels:
        """What is known of offset and scale."""
        if self.targets in ZERO:
            return Levels.known(ZERO[self.targets], 1.0)
        observed = Standardisation.of(targets)
        if not self.transfer:
            return Levels.known(observed.shift, observed.scale)
        if self.targets == "standardised":
            scales = self._parameters[SCALES]
            return Levels.known(observed.shift, float(np.median(scales)) if observed.constant else observed.scale)
        assert self._usual is not None
        return self._usual.unless_foreign(targets)

    @property
    def _usual(self) -> Levels | None:
        """What other tasks tell of offset and scale; ``None`` where that is not asked."""
        if self.targets != "inferred" or not self.transfer:
            return None
        (offset, spread), scales = self._parameters[OFFSET], self._parameters[SCALES]
        return Levels(float(offset), float(spread), scales, np.ones(1) if self.mean == "zero" else _LEVELS)

    def _locate(self, encoded: Encoded) -> Located:
        """Where pipelines are, as tuned; their means as the memory expects them to shift on this task."""
        located = self._placed(encoded)
        shift = None if self._recalled is None or self.mean == "zero" else self._recalled.shift(encoded)
        return located if shift is None else replace(located, means=located.means + shift)

    def _placed(self, encoded: Encoded) -> Located:
        """Where the network puts pipelines; for a pool as much as possible is kept."""
        network, learned = self._net, self._parameters
        if not len(encoded):
            return Located.of(network, learned, np.zeros((0, network.features)))
        if self._tuned is not learned and self.fine_tune == "all":
            return Located.of(network, self._tuned, self.points(encoded))
        located: Located = self.cached_for_pool("located", encoded, lambda points: Located.of(network, learned, points))
        if self._tuned is learned:
            return located
        if self.fine_tune == "kernel":
            return located.moved(learned, self._tuned)
        features = self.points(encoded)
        rows = self._rows_of_new(features)
        return located.replaced(rows, Located.of(network, self._tuned, features[rows]))

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

    def _adapted(self, seen: Encoded, targets: Array) -> Parameters:
        """Parameters for this task; the very ones that were learned if there is nothing to adapt."""
        if self.fine_tune == "none" or len(targets) < 2 or Standardisation.of(targets).constant:
            return self._parameters
        return self._adapted_in_turn(seen, targets) if self.warm else self._tune(self._parameters, seen, targets)

    def _adapted_in_turn(self, seen: Encoded, targets: Array) -> Parameters:
        """Tuned on the first two observations, from there on the first three, and so on to all.

        It follows from the observations alone, but what was reached with the first of them is kept for the next fit.
        """
        parameters, reached = self._parameters, 0
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
        located = Located.of(self._net, start, features)
        likeliest = Observed(located, values, float(start[SCALE]), self._levels(values)).mixture.likeliest
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

    def log_seconds(self, encoded: Encoded) -> Array | None:
        return None if self._recorded is None else self._recorded.log_seconds(encoded)

    def predict(self, encoded: Encoded) -> Prediction:
        with one_blas_thread():
            if isinstance(self._observed, PoolObserved) and encoded is self.task.candidates.pool:
                mean, std = self._observed.pool_moments(noisy=self.own_noise)
            else:
                mean, std = self._observed.moments(self._locate(encoded), noisy=self.own_noise)
        if self._failed is not None:
            ids, worst = self._failed
            mean = np.where(np.isin(encoded.ids, ids), np.maximum(mean, worst), mean)
        scale = max(part.scale for part in self._observed.mixture.parts)
        found = Prediction(mean, np.maximum(std, _LEAST_STD * scale))
        return found if self._recalled is None else pipeline_memory.mixed(found, self._recalled, encoded)


def links(n: int) -> list[int]:
    """Numbers of observations up to `n` at which parameters are tuned in turn: each one at first, then ever fewer."""
    found, k = [], 2
    while k <= n:
        found.append(k)
        k += max(1, k // _LINKS)
    return found


_LINKS = 20
