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
are far above that, as those of another metric may be, the observations alone decide. (2) "10,000 epochs" over all tasks
would be millions of steps: an epoch is read as one task. (3) Algorithm 2 has no other learning rate than Algorithm 1,
with which 100 steps move a parameter by 1 % at most; `fine_tune_rate` is a setting. (4) Failures and proposals under
way are taken as `headstart.surrogates.located_gp` says.
"""

from __future__ import annotations

import copy
import inspect
from typing import Any, Self, cast, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, ModelFileError, SpaceError, UnknownName, check_positive, suggestion
from headstart.learning.batches import TaskBatches, training_and_validation
from headstart.learning.deep_kernel import NOISE, SCALE, initial_kernel
from headstart.learning.networks import Parameters
from headstart.learning.training import Training, TrainingLike
from headstart.metadata.metadataset import MetaDataset
from headstart.methods.deeppipe.growth import grown
from headstart.methods.deeppipe.network import MeanHead, NoiseHead, PipelineNetwork
from headstart.methods.deeppipe.search import OFFSET, SCALES, ZERO, DeepSearch, FineTune, Targets
from headstart.methods.deeppipe.training import train_pipeline_network
from headstart.registry import create
from headstart.space.fits import misfit
from headstart.space.space import PipelineSpace
from headstart.surrogates.base import Surrogate
from headstart.surrogates.located_gp import Failures
from headstart.surrogates.meta_trained import checks_of
from headstart.surrogates.mixture import Mixture
from headstart.task import Task

Array = NDArray[np.float64]

_WIDTHS, _NEW = "network.widths", "network.new"
_N_SCALES = 9
_PAPER_LAYERS = 4
_TRAINING = Training(1e-2, patience=30, n_tasks=24, n_pipelines=96)
_PAPER_TRAINING = Training(1e-4, final_rate=1.0, patience=10, n_tasks=1, n_pipelines=1000)


class DeepPipe(DeepSearch):
    """Gaussian process over learned embeddings of pipelines; the defaults are ours, `paper` has those of the paper
    (Pineda Arango & Grabocka, ECML PKDD 2023).

    Meta-training needs torch; everything after it NumPy alone.

    Parameters
    ----------
    factor, encoder_layers, aggregation_layers, outputs
        The network; see `PipelineNetwork`. By default as many aggregation layers as make four with the encoders'.
    mean
        Prior mean: ``"zero"``, or ``"linear"``, a head on the last layer.
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

    adjustable = frozenset({"fine_tune", "fine_tune_steps", "fine_tune_rate", "looseness", "failures"})

    def __init__(
        self,
        factor: int = 8,
        encoder_layers: int = 1,
        aggregation_layers: int | None = None,
        outputs: int = 20,
        *,
        mean: MeanHead = "linear",
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
            "mean": (mean, MeanHead),
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
        self.mean: MeanHead = mean
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
            "encoder_layers": 0,
            "mean": "zero",
            "noise": "shared",
            "logarithmic": False,
            "targets": "accuracy",
            "steps": 10_000,
            "fine_tune": "kernel",
            "fine_tune_steps": 100,
            "fine_tune_rate": 1e-4,
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
        if self.targets == "accuracy":  # in their own unit, at whose size the kernel begins
            for tasks in (training, validation):
                tasks.means[:], tasks.stds[:] = ZERO, 1.0
            offset, scale = levels[OFFSET][0] - ZERO, float(np.median(levels[SCALES]))
            initial[SCALE] = np.array(np.log(offset**2 + scale**2))
            initial[NOISE] = initial[NOISE] + 2.0 * np.log(scale)
        trained = train_pipeline_network(network, initial, training, validation, self.steps, self.training, rng)
        return {**trained.parameters, **levels, **checks_of(trained)}

    def restored(self) -> None:
        wanted = self._initial(self.network, np.random.default_rng(0))
        wanted |= {OFFSET: np.zeros(2), SCALES: self._parameters.get(SCALES, np.zeros(1))}
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
        layers = max(1, _PAPER_LAYERS - self.encoder_layers) if self.aggregation_layers is None else None
        return PipelineNetwork(
            space,
            factor=self.factor,
            encoder_layers=self.encoder_layers,
            aggregation_layers=layers if layers is not None else cast(int, self.aggregation_layers),
            outputs=self.outputs,
            mean=self.mean,
            noise=self.noise,
        )

    def _initial(self, network: PipelineNetwork, rng: np.random.Generator) -> Parameters:
        return {**network.initial(rng), **initial_kernel(network.outputs, float(np.sqrt(network.outputs)))}

    @staticmethod
    def _usual_levels(tasks: TaskBatches) -> Parameters:
        """Offsets and scales of other tasks' losses."""
        offsets, scales = tasks.means[tasks.tasks], tasks.stds[tasks.tasks]
        scales = np.maximum(scales, 1e-3 * float(np.median(scales)))
        grid = np.unique(np.quantile(scales, (np.arange(_N_SCALES) + 0.5) / _N_SCALES))
        spread = max(float(offsets.std()), float(np.median(scales)))
        return {OFFSET: np.array([offsets.mean(), spread]), SCALES: grid}

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

    def start(self, task: Task) -> Self:
        if self.transfer:
            return super().start(task)
        beginner = copy.copy(self)
        beginner._space = task.space
        beginner._parameters = self._initial(self._new_network(task.space), np.random.default_rng(self.seed))
        return super(DeepPipe, beginner).start(task)


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
