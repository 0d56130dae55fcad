"""`MetaTrained`: what surrogates with networks that were trained on other tasks share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, SpaceError
from headstart.learning.networks import Parameters
from headstart.learning.training import Trained, Training, TrainingLike
from headstart.metadata.metadataset import MetaDataset
from headstart.space.encoded import Encoded
from headstart.space.fits import misfit
from headstart.space.space import PipelineSpace
from headstart.surrogates.base import Surrogate
from headstart.surrogates.log_units import log_units, small_loss
from headstart.task import Task

Array = NDArray[np.float64]

_SMALL, _CHECKS, _STEPS = "units.small", "training.checks", "training.steps"


class MetaTrained(Surrogate):
    """Base of surrogates whose parameters are learned from other tasks, with torch, and used with NumPy alone.

    A subclass writes `learn`, which returns the parameters, beside `fit` and `predict`. What it needs of a pipeline
    whatever the history is, it computes through `cached_for_candidates`: for the candidates of a task, where they can
    be listed, that happens one time only.
    """

    steps: int
    training: Training
    seed: int
    keeps: ClassVar[tuple[str, ...]] = ("_parameters", "_space")
    training_only_settings = frozenset({"steps", "training", "seed"})
    logarithmic: bool = False
    """Whether losses are learned and predicted in logarithmic units, see `headstart.surrogates.log_units`.

    `learn` is then given losses in them; `fit` has to take `transform_targets` of the targets of the history.
    """
    _space: PipelineSpace | None = None
    _parameters: Parameters

    def set_training(self, steps: int, training: TrainingLike, usual: Training, seed: int) -> None:
        """Take over the settings of training: most steps, how (some of the usual settings may be changed), the seed."""
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 0:
            raise InvalidInput(f"steps must be a whole number of at least 0, got {steps!r}")
        self.steps, self.training, self.seed = steps, Training.of(training, usual), seed

    @abstractmethod
    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:
        """All that is kept of the other tasks."""

    def meta_fit(self, meta: MetaDataset) -> Self:
        if not len(meta):
            raise InvalidInput(f"{type(self).__name__} learns from other tasks, got a meta-dataset without any")
        small = small_loss(meta) if self.logarithmic else None
        learned_from = meta if small is None else meta.mapped(partial(log_units, small=small))
        self._parameters = self.learn(learned_from, np.random.default_rng(self.seed))
        if small is not None:
            self._parameters[_SMALL] = np.array(small)
        self._space = meta.pipelines.space
        self.meta_key = meta.key
        return self

    def transform_targets(self, targets: Array) -> Array:
        small = None if self._space is None else self._parameters.get(_SMALL)
        return targets if small is None else log_units(targets, float(small))

    @property
    def space(self) -> PipelineSpace:
        """The space whose pipelines it knows."""
        if self._space is None:
            raise self.not_learned()
        return self._space

    @property
    def learned(self) -> Parameters:
        """Everything that was learned, by name."""
        if self._space is None:
            raise InvalidInput(f"{type(self).__name__} has learned nothing yet: call meta_fit or load")
        return self._parameters

    @property
    def validation_losses(self) -> Array:
        """(k, 3): steps, validation losses and seconds of the checks of its training."""
        return self.learned.get(_CHECKS, np.zeros((0, 3)))

    @property
    def trained_steps(self) -> dict[str, tuple[int, int]]:
        if self._space is None or _STEPS not in self._parameters:
            return super().trained_steps
        made = int(self.validation_losses[-1, 0])
        return {type(self).__name__: (made, int(self._parameters[_STEPS]))}

    def check_space(self, space: PipelineSpace) -> None:
        """Raise `SpaceError`, saying what to do, unless all pipelines of a space are among those it knows."""
        found = misfit(space, self.space)
        if not found:
            return
        from headstart.space import catalog

        ways = []
        if self.space.name not in catalog.names():
            ways.append(
                f"its space, {self.space.name!r}, is of recorded results alone: for a table train on a meta-dataset "
                "whose space can be searched, such as tensor_oboe"
            )
        elif catalog.load(self.space.name) == self.space:
            ways.append(f"search the space that it was trained on, {self.space.name!r} (--space {self.space.name})")
        if found.unknown and not (found.different or found.stages or found.order):
            ways.append(f"exclude {', '.join(algorithm for _, algorithm in found.unknown)}")
            if hasattr(self, "extended"):
                ways.append("in Python, go on with surrogate.extended(space), which adds them")
        raise SpaceError(
            f"what {type(self).__name__} was trained on must have the pipelines of space {space.name!r}, but {found}; "
            + ("; or ".join(ways) or "train one on the space that you search")
        )

    def start(self, task: Task) -> Self:
        self.check_space(task.space)
        fresh = super().start(task)
        fresh._in_place = task.space == self._space
        fresh._kept = {}
        return fresh

    _in_place: bool
    _kept: dict[str, tuple[Encoded, Any]]

    def points(self, encoded: Encoded) -> Array:
        """Features (n, F) of pipelines in the columns that the parameters were learned for."""
        assert self._space is not None
        return (encoded if self._in_place else encoded.to(self._space)).features()

    def cached_for_candidates(self, name: str, encoded: Encoded, compute: Callable[[Array], Any]) -> Any:
        """``compute(self.points(encoded))``; kept if these pipelines are all candidates of the task."""
        kept = self._kept.get(name)
        if kept is not None and kept[0] is encoded:
            return kept[1]
        value = compute(self.points(encoded))
        if encoded is self.task.candidates.listed:
            self._kept[name] = (encoded, value)
        return value


def checks_of(trained: Trained) -> Parameters:
    """How validation went, to be kept beside what was learned."""
    return {_CHECKS: trained.checks, _STEPS: np.array(float(trained.steps))}
