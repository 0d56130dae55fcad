"""`MetaTrained`: what surrogates with networks that were trained on other tasks share."""

from __future__ import annotations

import copy
import os
from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, ModelFileError, SpaceError
from headstart.metadata.metadataset import MetaDataset
from headstart.neural.checkpoints import load_arrays, save_arrays
from headstart.neural.networks import Parameters
from headstart.space.encoded import Encoded
from headstart.space.fits import misfit
from headstart.space.space import PipelineSpace
from headstart.surrogates.base import Surrogate, describe_part
from headstart.surrogates.log_units import log_units, small_loss
from headstart.task import Task

Array = NDArray[np.float64]

UNITS = "units."
_SMALL = UNITS + "small"
FORMAT = 2
"""Of files of trained surrogates; 1 knew no logarithmic units and no memory."""


class MetaTrained(Surrogate):
    """Base of surrogates whose parameters are learned from other tasks, with torch, and used with NumPy alone.

    A subclass writes `learn`, which returns the parameters, beside `fit` and `predict`. What it needs of a pipeline
    whatever the history is, it computes through `once`: for the pool of a task that happens one time only.
    """

    seed: int
    adjustable: ClassVar[frozenset[str]] = frozenset()
    """Settings that only count on a new task: they may be changed after training."""
    of_training: ClassVar[frozenset[str]] = frozenset({"seed"})
    """Settings that only tell how it was trained."""
    logarithmic: bool = False
    """Whether losses are learned and predicted in logarithmic units, see `headstart.surrogates.log_units`.

    `learn` is then given losses in them; `fit` has to take `as_predicted` of the targets of the history.
    """
    _space: PipelineSpace | None = None
    _parameters: Parameters

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

    def as_predicted(self, targets: Array) -> Array:
        small = None if self._space is None else self._parameters.get(_SMALL)
        return targets if small is None else log_units(targets, float(small))

    @property
    def space(self) -> PipelineSpace:
        """The space whose pipelines it knows."""
        if self._space is None:
            raise InvalidInput(
                f"{type(self).__name__} learns from other tasks: give 'headstart fit' a --knowledge FILE that "
                "'headstart metatrain' wrote; in Python call meta_fit or load before start"
            )
        return self._space

    @property
    def learned(self) -> Parameters:
        """Everything that was learned, by name."""
        if self._space is None:
            raise InvalidInput(f"{type(self).__name__} has learned nothing yet: call meta_fit or load")
        return self._parameters

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

    def once(self, name: str, encoded: Encoded, compute: Callable[[Array], Any]) -> Any:
        """``compute(self.points(encoded))``; kept if these pipelines are the pool of the task."""
        kept = self._kept.get(name)
        if kept is not None and kept[0] is encoded:
            return kept[1]
        value = compute(self.points(encoded))
        if encoded is self.task.candidates.pool:
            self._kept[name] = (encoded, value)
        return value

    def holding(self, parameters: Parameters, space: PipelineSpace) -> Self:
        """This surrogate with what another one of the same settings has learned."""
        self._parameters, self._space = parameters, space
        return self

    def adjusted(self, **wanted: Any) -> Self:
        """This surrogate with other values of settings that only count on a new task.

        Raises `InvalidInput` for other values of what was decided by training; how it was trained is not compared.
        """
        checked, found = type(self)(**wanted), copy.copy(self)
        for name in wanted:
            value = getattr(checked, name)
            if name in self.adjustable:
                setattr(found, name, value)
            elif name not in self.of_training and getattr(self, name) != value:
                raise InvalidInput(
                    f"{name}={value!r} is decided by training, and the file was trained with "
                    f"{getattr(self, name)!r}; give a file that was trained so, or ask for what the file has"
                )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write settings and what was learned to a file without pickles; `load` reads it."""
        if self._space is None:
            raise InvalidInput(f"{type(self).__name__} has learned nothing yet: call meta_fit before save")
        from headstart import __version__

        about = {
            "format": FORMAT,
            "headstart": __version__,
            "surrogate": describe_part(self),
            "space": self._space.to_dict(),
        }
        save_arrays(path, self._parameters, about)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A surrogate as it was saved; nothing in the file is run."""
        arrays, about = load_arrays(path)
        if about.get("format") != FORMAT:
            raise ModelFileError(
                f"{os.fspath(path)!r} must have format {FORMAT}, got {about.get('format')!r}; it was written by "
                f"Headstart {about.get('headstart', 'of an earlier version')}: train it again"
            )
        told = about.get("surrogate")
        held = told.get("name") if isinstance(told, dict) else None
        if held != cls.__name__:
            raise ModelFileError(f"{os.fspath(path)!r} must hold a {cls.__name__}, it holds a {held}")
        try:
            settings = dict(about["surrogate"])
            settings.pop("revision", None)
            del settings["name"]
            key = settings.pop("meta_key")
            surrogate = cls(**settings)
            surrogate._space = PipelineSpace.from_dict(about["space"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ModelFileError(f"{os.fspath(path)!r} holds no {cls.__name__} that can be read: {error}") from error
        surrogate._parameters, surrogate.meta_key = arrays, key
        return surrogate
