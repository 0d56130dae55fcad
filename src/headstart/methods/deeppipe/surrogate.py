"""`DeepPipe`: deep pipeline embeddings in a Gaussian process that other tasks have trained.

Pineda Arango & Grabocka (2023), "Deep pipeline embeddings for AutoML". The network is in
`headstart.methods.deeppipe.network`, Algorithm 1 in `headstart.methods.deeppipe.training`, Algorithm 2 in
`headstart.methods.deeppipe.tuning`.

====================  ==============  ===========================================================================
symbol                name in code    equation
====================  ==============  ===========================================================================
φ(p)                  points          embedding of pipeline p, Z numbers
m(p), ψ(p)            means, noise    ours: learned prior mean, and noise of each pipeline
y = a + b (m + g + ε)                 loss on the new task; g ~ GP(0, k(φ, φ')), ε ~ N(0, ψ)
a, b                  Levels          offset and scale of the new task's losses, see
                                      `headstart.numerics.affine_mixture`
====================  ==============  ===========================================================================

Decided where the paper is silent. (1) Its matrices are of accuracies; whether they are standardised it does not say:
``targets="accuracy"`` does as the paper seems to: a loss l counts as l - 1, so that a prior mean of zero expects the
worst; ``"standardised"`` by mean and deviation, on the new task of what was observed; ``"inferred"`` trains on
standardised ones and on the new task infers offset and scale, of which the other tasks tell what is usual. Where losses
are far above that, as those of another metric may be, the observations alone decide. (2) Where the paper leaves
something open, `DeepPipe.paper` does as the code released with it: a constant mean is learned, the rate of
meta-training falls along a cosine over the 10,000 epochs, and kernel parameters are fine-tuned at 1e-3 instead of the
1e-4 of meta-training, with which 100 steps move a parameter by 1 % at most. Tasks of an epoch are drawn at random, so
that each comes once on average. (3) Failures and proposals under way are taken as `headstart.surrogates.located_gp`
says.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, ModelFileError, SpaceError, UnknownName, check_positive, suggestion
from headstart.learning.batches import TaskBatches, training_and_validation
from headstart.learning.deep_kernel import MEAN, NOISE, SCALE, initial_kernel
from headstart.learning.networks import Parameters
from headstart.learning.training import Training, TrainingLike
from headstart.metadata.metadataset import MetaDataset
from headstart.methods.deeppipe.growth import belonging_to, grown
from headstart.methods.deeppipe.network import NoiseHead, Outputs, PipelineNetwork
from headstart.methods.deeppipe.training import train_pipeline_network
from headstart.methods.deeppipe.tuning import DeepKernel, located, tuned
from headstart.numerics.affine_mixture import Levels
from headstart.numerics.hyperparameters import spread_over_ranks
from headstart.numerics.pool_posterior import PoolPosterior
from headstart.numerics.standardisation import Standardisation
from headstart.registry import create
from headstart.space.encoded import Encoded
from headstart.space.fits import misfit
from headstart.space.space import PipelineSpace
from headstart.surrogates.base import Surrogate
from headstart.surrogates.located_gp import Failures, LocatedGP
from headstart.surrogates.meta_trained import checks_of
from headstart.surrogates.mixture import Mixture
from headstart.surrogates.posterior import Fixed, Located, Posterior
from headstart.task import Task

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Places = NDArray[np.int64]
Mean = Literal["zero", "constant", "linear"]
Targets = Literal["inferred", "standardised", "accuracy"]
FineTune = Literal["none", "kernel", "all", "encoder"]

_ZERO = 1.0
"""The loss that counts as 0 where accuracies are learned."""
_OFFSET, _SCALES = "levels.offset", "levels.scales"
_LEVELS = np.exp(np.linspace(-1.5, 1.5, 5))
_MOST_TO_TUNE = 300
"""Observations that parameters are tuned on; of more these many, at evenly spaced ranks."""
_LINKS = 20
_WIDTHS, _NEW = "network.widths", "network.new"
_PAPER_LAYERS = 4
_PAPER_ENCODERS = {"zap_recorded": 1}
"""Encoder layers of experiment 2 by space; none elsewhere."""
_TRAINING = Training(1e-2, patience=30, n_tasks=24, n_pipelines=96)
_PAPER_TRAINING = Training(1e-4, 1e-3, check_every=500, patience=100, n_tasks=1, n_pipelines=1000, epochs=True)


class DeepPipe(LocatedGP):
    """Gaussian process over learned embeddings of pipelines; the defaults are ours, `paper` has those of the paper
    (Pineda Arango & Grabocka, ECML PKDD 2023).

    Meta-training needs torch; everything after it NumPy alone.

    Parameters
    ----------
    factor, encoder_layers, aggregation_layers, outputs
        The network; see `PipelineNetwork`. Without a number of encoder layers those of the paper, one for ZAP and
        none elsewhere; without one of aggregation layers as many as make four with the encoders'.
    mean
        Prior mean: ``"zero"``, a learned ``"constant"``, or ``"linear"``, a head on the last layer.
    noise
        ``"shared"`` by all pipelines, or ``"network"``, a head that tells it by pipeline.
    logarithmic
        Whether losses are in logarithmic units, see `headstart.surrogates.log_units`.
    targets
        ``"inferred"``, ``"standardised"`` or ``"accuracy"``; see the module's text.
    fine_tune
        What is fitted on the new task: ``"none"``, ``"kernel"`` (its parameters), ``"all"`` (the network too), or
        ``"encoder"`` (of algorithms that are new since meta-training, see `extended`).
    fine_tune_steps, fine_tune_rate, looseness
        Steps and rate of Adam, and how far logarithms of kernel parameters may go from what was meta-learned, as a
        standard deviation; ``None`` for as far as they like.
    failures
        ``"worst"`` or ``"ignored"``; see `headstart.surrogates.located_gp`.
    transfer
        Whether to learn from other tasks. Otherwise the network begins at random on each task: fine-tune all of it. It
        goes on from what was reached with fewer observations then, and needs few steps.
    steps, training, seed
        Of meta-training: most steps, how (see `Training`; a mapping changes some of the defaults), the seed.
    """

    own_noise = False
    adjustable = frozenset({"fine_tune", "fine_tune_steps", "fine_tune_rate", "looseness", "failures"})

    def __init__(
        self,
        factor: int = 8,
        encoder_layers: int | None = 1,
        aggregation_layers: int | None = None,
        outputs: int = 20,
        *,
        mean: Mean = "linear",
        noise: NoiseHead = "network",
        logarithmic: bool = True,
        targets: Targets = "inferred",
        fine_tune: FineTune | None = "none",
        fine_tune_steps: int = 100,
        fine_tune_rate: float = 0.01,
        looseness: float | None = 0.5,
        failures: Failures = "worst",
        transfer: bool = True,
        steps: int = 10_000,
        training: TrainingLike = _TRAINING,
        seed: int = 0,
    ) -> None:
        fine_tune = "none" if fine_tune is None else fine_tune  # as the word none is read where settings are text
        for name, value in {"factor": factor, "outputs": outputs, "fine_tune_steps": fine_tune_steps}.items():
            check_positive(name, value, whole=True)
        for name, number in {"encoder_layers": encoder_layers, "aggregation_layers": aggregation_layers}.items():
            if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < 0):
                raise InvalidInput(f"{name} must be a whole number of at least 0, got {number!r}")
        check_positive("looseness", looseness)
        check_positive("fine_tune_rate", fine_tune_rate)
        chosen: dict[str, tuple[str, Any]] = {
            "mean": (mean, Mean),
            "noise": (noise, NoiseHead),
            "targets": (targets, Targets),
            "fine_tune": (fine_tune, FineTune),
            "failures": (failures, Failures),
        }
        for name, (choice, kind) in chosen.items():
            if choice not in get_args(kind):
                raise UnknownName(f"{name} has no {choice!r}; {suggestion(choice, get_args(kind))}")
        if not transfer and fine_tune != "all":
            raise InvalidInput(
                f"without other tasks the network is random until all of it is tuned: give fine_tune='all' with "
                f"transfer=False, got {fine_tune!r}"
            )
        self.factor = factor
        self.encoder_layers = encoder_layers
        self.aggregation_layers = aggregation_layers
        self.outputs = outputs
        self.mean: Mean = mean
        self.noise: NoiseHead = noise
        self.logarithmic = logarithmic
        self.targets: Targets = targets
        self.fine_tune: FineTune = fine_tune
        self.fine_tune_steps = fine_tune_steps
        self.fine_tune_rate = fine_tune_rate
        self.looseness = looseness
        self.failures: Failures = failures
        self.transfer = transfer
        self.set_training(steps, training, _TRAINING, seed)

    @classmethod
    def paper(cls, **changed: Any) -> Self:
        """The paper's recipe (section 5.3, experiment 2); settings may be changed by name (Pineda Arango & Grabocka,
        ECML PKDD 2023).
        """
        recipe: dict[str, Any] = {
            "factor": 8,
            "encoder_layers": None,
            "mean": "constant",
            "noise": "shared",
            "logarithmic": False,
            "targets": "accuracy",
            "steps": 10_000,
            "fine_tune": "kernel",
            "fine_tune_steps": 100,
            "fine_tune_rate": 1e-3,
            "looseness": None,
        }
        training = Training.of(changed.pop("training", {}), _PAPER_TRAINING)
        return cls(**{**recipe, **changed}, training=training)

    # -- other tasks --------------------------------------------------------------------------------------------

    def meta_fit(self, meta: MetaDataset) -> Self:
        return super().meta_fit(meta) if self.transfer else self

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:
        training, validation = training_and_validation(meta, meta.pipelines.features(), rng)
        levels = self._usual_levels(training)
        network = self._new_network(meta.pipelines.space)
        initial = self._initial(network, rng)
        if self.targets == "accuracy":
            initial |= self._initial_in_own_unit(training)
            for tasks in (training, validation):
                tasks.means[:], tasks.stds[:] = _ZERO, 1.0
        trained = train_pipeline_network(network, initial, training, validation, self.steps, self.training, rng)
        return {**trained.parameters, **levels, **checks_of(trained)}

    def restored(self) -> None:
        wanted = self._initial(self.network, np.random.default_rng(0))
        wanted |= {_OFFSET: np.zeros(2), _SCALES: self._parameters.get(_SCALES, np.zeros(1))}
        for name, value in wanted.items():
            found = self._parameters.get(name)
            if found is None or found.shape != value.shape or not np.isfinite(found).all():
                what = "none" if found is None else f"one of shape {found.shape}"
                if found is not None and not np.isfinite(found).all():
                    what += " with others"
                raise ModelFileError(
                    f"DeepPipe must have an array {name!r} of shape {value.shape} with finite numbers, found {what}; "
                    "train it again"
                )

    def _new_network(self, space: PipelineSpace) -> PipelineNetwork:
        encoders, layers = self.encoder_layers, self.aggregation_layers
        encoders = _PAPER_ENCODERS.get(space.name, 0) if encoders is None else encoders
        return PipelineNetwork(
            space,
            factor=self.factor,
            encoder_layers=encoders,
            aggregation_layers=max(1, _PAPER_LAYERS - encoders) if layers is None else layers,
            outputs=self.outputs,
            mean="linear" if self.mean == "linear" else "zero",
            noise=self.noise,
        )

    def _initial(self, network: PipelineNetwork, rng: np.random.Generator) -> Parameters:
        kernel = initial_kernel(network.outputs, float(np.sqrt(network.outputs)))
        constant = {MEAN: np.zeros(())} if self.mean == "constant" else {}
        return {**network.initial(rng), **kernel, **constant}

    def _initial_in_own_unit(self, tasks: TaskBatches) -> Parameters:
        """Mean, output scale and noise that suit losses as they are: half of what varies within a task is noise."""
        offsets, within = tasks.means[tasks.tasks] - _ZERO, float((tasks.stds[tasks.tasks] ** 2).mean())
        constant = {MEAN: np.array(offsets.mean())} if self.mean == "constant" else {}
        between = float(((offsets - constant.get(MEAN, 0.0)) ** 2).mean())
        return {SCALE: np.array(np.log(within + between)), NOISE: np.array(np.log(0.5 * within)), **constant}

    @staticmethod
    def _usual_levels(tasks: TaskBatches) -> Parameters:
        """Offsets and scales of other tasks' losses."""
        found = Levels.usual(tasks.means[tasks.tasks], tasks.stds[tasks.tasks])
        return {_OFFSET: np.array([found.offset_mean, found.offset_std]), _SCALES: found.scales}

    @property
    def network(self) -> PipelineNetwork:
        """The architecture for the space that it was trained on, or extended to."""
        network = self._new_network(self.space)
        if _WIDTHS in self._parameters:
            widths = [int(width) for width in self._parameters[_WIDTHS]]
            return PipelineNetwork(self.space, **network.settings(), widths=widths)
        return network

    # -- new algorithms -----------------------------------------------------------------------------------------

    def extended(self, space: PipelineSpace, fine_tune: FineTune = "encoder") -> Self:
        """The same surrogate for a space with more algorithms.

        All that was learned stays bit for bit; each new algorithm gets a random encoder and a one-hot choice, and on
        new tasks only these are trained, on the few observations there are, unless `fine_tune` says otherwise.

        Parameters
        ----------
        space
            Such as ``surrogate.space.extend("estimator", algorithm)``.
        fine_tune
            Instead of that of this surrogate.
        """
        known, network = self.space, self.network
        lost = misfit(known, space)
        if lost:
            raise SpaceError(f"the space must have all that {type(self).__name__} was trained on, but: {lost}")
        if not network.aggregation_layers:
            raise InvalidInput(
                "a network without aggregation layers has no room for new algorithms; train it with some"
            )
        new = [
            (s, stage.position(algorithm))
            for s, stage in enumerate(space.stages)
            for algorithm in stage.names
            if algorithm not in known.stage(stage.name).names
        ]
        if [stage.name for stage in space.stages] != [stage.name for stage in known.stages]:
            raise SpaceError("the stages of the space must be in the order of those that it was trained on")
        wider = copy.copy(self)
        larger = network.extended(space)
        rng = np.random.default_rng([self.seed, len(new)])
        parameters = grown(network, self._parameters, larger, rng)
        parameters[_WIDTHS] = np.array(larger.widths, dtype=np.float64)
        before = [
            (space.stage_position(stage), space.stage(stage).position(name)) for stage, name in self.new_algorithms
        ]
        parameters[_NEW] = np.array(before + new, dtype=np.float64).reshape(-1, 2)
        wider._space, wider._parameters, wider.fine_tune = space, parameters, fine_tune
        return wider

    @property
    def new_algorithms(self) -> list[tuple[str, str]]:
        """``(stage, algorithm)`` of those that came after meta-training."""
        found = self.learned.get(_NEW, np.zeros((0, 2), dtype=np.int64)).astype(np.int64)
        return [(self.space.stages[s].name, self.space.stages[s].names[a]) for s, a in found]

    # -- a new task ---------------------------------------------------------------------------------------------

    def start(self, task: Task) -> Self:
        learned = self
        if not self.transfer:
            learned = copy.copy(self)
            learned._space = task.space
            learned._parameters = self._initial(self._new_network(task.space), np.random.default_rng(self.seed))
        fresh = super(DeepPipe, learned).start(task)
        fresh._net, fresh._tuned = learned.network, learned._parameters
        fresh._fixed = fresh._chain = None
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
        """All candidates of the task, if they can be listed, while they stay where meta-training put them."""
        listed = self.task.candidates.listed
        if self._tuned is not self._parameters or listed is None:
            return None
        if self._fixed is None:
            at, process = self.locate(listed), self.process
            row = partial(_row, process, at)
            self._fixed = Fixed(at, PoolPosterior(row, process.variance(at), at.noise))
        return self._fixed

    def places(self, encoded: Encoded) -> Places:
        listed = self.task.candidates.listed
        if encoded is listed:
            return np.arange(len(encoded))
        return np.full(len(encoded), -1) if listed is None else listed.find(encoded)

    def levels(self, targets: Array) -> Levels:
        if self.targets == "accuracy":
            return Levels.known(_ZERO, 1.0)
        if self.infers_levels:
            return super().levels(targets)
        observed = Standardisation.of(targets)
        constant = observed.constant and self.transfer
        scale = float(np.median(self._parameters[_SCALES])) if constant else observed.scale
        return Levels.known(observed.shift, scale)

    @property
    def infers_levels(self) -> bool:
        return self.targets == "inferred" and self.transfer

    @property
    def usual(self) -> Levels | None:
        if not self.transfer:
            return None
        (offset, spread), scales = self._parameters[_OFFSET], self._parameters[_SCALES]
        return Levels(float(offset), float(spread), scales, _LEVELS if self.mean == "linear" else np.ones(1))

    def locate(self, encoded: Encoded) -> Located:
        """Where pipelines are, as tuned; for all candidates as much as possible is kept."""
        network, learned, now = self._net, self._parameters, self._tuned
        if not len(encoded):
            return located(network(learned, np.zeros((0, network.features))), learned)
        if now is not learned and self.fine_tune == "all":
            return located(network(now, self.points(encoded)), now)
        outputs: Outputs = self.cached_for_candidates("outputs", encoded, partial(network, learned))
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
        columns = []
        for stage, algorithm in self.new_algorithms:
            s = self.space.stage_position(stage)
            choice = self._net.stages[s].choice
            assert choice is not None
            columns.append(choice.start + self.space.stages[s].position(algorithm))
        return np.flatnonzero(features[:, columns].any(axis=1))

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


def with_memory(**settings: Any) -> Surrogate:
    """`DeepPipe` with these settings, mixed with a memory of recorded pipelines one by one.

    A network knows a pipeline by its hyper-parameters alone. What those do not tell, such as that one of two nearly
    equal pipelines is always the better one, is in the matrix of recorded losses, where the surrogate called ``pmf``
    finds it. Of pipelines that were never recorded it knows nothing; there the network is asked alone. A network that
    is fine-tuned to the task goes without.
    """
    network = DeepPipe(**settings)
    if network.fine_tune != "none":
        return network
    shared = {"logarithmic": network.logarithmic, "failures": network.failures, "seed": network.seed}
    return Mixture(network, create("surrogate", "pmf", **shared))


with_memory.__signature__ = inspect.signature(DeepPipe)  # type: ignore[attr-defined]
