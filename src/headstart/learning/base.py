"""`Learner`: what surrogates, optimizers and meta-features share; `Needs`: what of a task it cannot do without."""

from __future__ import annotations

import copy
import inspect
import os
from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from headstart.errors import InvalidInput, ModelFileError
from headstart.registry import Kind, create, is_nearest, names, parsed

if TYPE_CHECKING:
    from headstart.metadata.metadataset import MetaDataset


@dataclass(frozen=True)
class Needs:
    """What a learner must be told of a task.

    Parameters
    ----------
    table
        Whether it reads the raw table.
    metafeatures
        Names of the meta-features that it reads.
    """

    table: bool = False
    metafeatures: frozenset[str] = frozenset()

    def __or__(self, other: Needs) -> Needs:
        return Needs(self.table or other.table, self.metafeatures | other.metafeatures)


class Learner(ABC):
    """Base of everything that may learn from other tasks.

    A subclass that is made of other learners names the settings that hold them in `parts`: they then learn, are
    described, saved and asked for their needs together with it. One that learns something itself writes `meta_fit` and
    names in `keeps` the attributes that hold it: arrays, texts, numbers, spaces, pipelines, and lists and mappings of
    these.
    """

    kind: ClassVar[Kind]
    """Of part in the registry."""
    parts: ClassVar[Mapping[str, Kind]] = {}
    """Settings that are learners, or names of them, and of which kind."""
    keeps: ClassVar[tuple[str, ...]] = ()
    """Attributes that `meta_fit` sets and a file keeps."""
    adjustable: ClassVar[frozenset[str]] = frozenset()
    """Settings that only count on a new task: they may be changed after training."""
    training_only_settings: ClassVar[frozenset[str]] = frozenset({"seed"})
    """Settings that only tell how it was trained."""
    revision: ClassVar[int] = 1
    """To be raised when the same settings come to give other results, so that earlier ones are not taken for them."""
    meta_key: str | None = None
    """Names what `meta_fit` learned, such as a hash of it; a stored run is only resumed with the same."""

    def part(self, name: str) -> Any:
        """The learner that a setting holds or names; ``None`` where it has none."""
        value = getattr(self, name)
        return None if value is None else create(self.parts[name], value)

    @property
    def needs(self) -> Needs:
        """What it must be told of a task, its parts included; a subclass adds its own with ``super().needs | …``."""
        found = Needs()
        for name in self.parts:
            part = self.part(name)
            found |= Needs() if part is None else part.needs
        return found

    def meta_fit(self, meta: MetaDataset) -> Self:
        """Learn from other tasks; called before `start`, or never. By default its parts do."""
        for name in self.parts:
            part = self.part(name)
            if part is not None:
                part = part.meta_fit(meta)
                setattr(self, name, part)
                self.meta_key = part.meta_key or self.meta_key
        return self

    @property
    def learns(self) -> bool:
        """Whether `meta_fit` learns something that a file can keep."""
        return bool(self.keeps) or any(part is not None and part.learns for part in map(self.part, self.parts))

    def not_learned(self) -> InvalidInput:
        """The error for `start` to raise where it cannot do without other tasks and has learned from none."""
        return InvalidInput(
            f"{type(self).__name__} learns from other tasks: give 'headstart fit' a --knowledge FILE that "
            "'headstart metatrain' wrote; in Python call meta_fit or load before start"
        )

    def describe(self) -> dict[str, Any]:
        """Name and settings, for the record: JSON."""
        return describe_part(self)

    @property
    def trained_steps(self) -> dict[str, tuple[int, int]]:
        """Steps of training that were made and most that might have been, by the class of the part that made them."""
        parts = [part for part in map(self.part, self.parts) if part is not None]
        return {name: steps for part in parts for name, steps in part.trained_steps.items()}

    def adjusted(self, **wanted: Any) -> Self:
        """This learner with other values of settings that only count on a new task.

        Raises `InvalidInput` for other values of what was decided by training; how it was trained is not compared.
        """
        checked, found = type(self)(**wanted), copy.copy(self)
        for name in wanted:
            value, held = getattr(checked, name), getattr(self, name)
            if name in self.parts and isinstance(held, Learner) and value is not None:
                setattr(found, name, held.like(value))
            elif name in self.adjustable:
                setattr(found, name, value)
            elif name not in self.training_only_settings and held != value:
                raise InvalidInput(
                    f"{name}={value!r} is decided by training, and the file was trained with {held!r}; give a file "
                    "that was trained so, or ask for what the file has"
                )
        return found

    def like(self, wanted: Learner | str) -> Learner:
        """This learner with the settings of another of its class, or of one that is written ``NAME(setting=value)``.

        Of a surrogate whose part has that class, that part. Raises `InvalidInput` as `adjusted` does, and for
        one of another class.
        """
        name, written = parsed(wanted) if isinstance(wanted, str) else ("", {})
        made = create("optimizer" if name in names("optimizer") else self.kind, wanted)
        if type(made) is not type(self):
            for part in map(self.part, self.parts):
                if self.kind == "surrogate" and type(part) is type(made):
                    return part.like(wanted)  # type: ignore[no-any-return]
            raise InvalidInput(
                f"what was trained is {type(self).__name__}, not {type(made).__name__}; leave the optimizer out to use "
                "it as it is"
            )
        if self.kind == "optimizer" and name in names("surrogate"):  # searched with Bayes
            return self.adjusted(surrogate=wanted)
        if is_nearest(name):
            if not written and parsed(str(getattr(self, "metafeatures", None)))[0] == name:
                return self
            return self.adjusted(metafeatures=settings_of(made)["metafeatures"])
        usual = settings_of(type(made)())  # a recipe, such as deeppipe_paper, asks for what it has another of
        asked = {k: v for k, v in settings_of(made).items() if k in written or _plain(v) != _plain(usual[k])}
        return self.adjusted(**asked)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write settings and what was learned to a file without code; `load` reads it."""
        from headstart.learning.state import write

        write(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A learner as it was saved; nothing in the file is run."""
        from headstart.learning.state import read

        learner, _ = read(path)
        if not isinstance(learner, cls):
            raise ModelFileError(f"{os.fspath(path)!r} must hold a {cls.__name__}, it holds a {type(learner).__name__}")
        return learner

    def restored(self) -> None:  # noqa: B027
        """Check what was read from a file; called by `load`. Raises `ModelFileError`, `ValueError` or `KeyError`."""


def settings_of(part: Any) -> dict[str, Any]:
    """Constructor settings of a part, as they are."""
    names = [name for name in inspect.signature(type(part).__init__).parameters if hasattr(part, name)]
    return {name: getattr(part, name) for name in names}


def describe_part(part: Any) -> dict[str, Any]:
    """Class name and constructor settings of a part, as JSON types; parts inside it are described in turn."""
    settings = {name: _plain(value) for name, value in settings_of(part).items()}
    if getattr(part, "revision", 1) != 1:
        settings["revision"] = part.revision
    if getattr(part, "meta_key", None) is not None:
        settings["meta_key"] = part.meta_key
    return {"name": type(part).__name__, **settings}


def _plain(value: Any) -> Any:
    """A setting as JSON types."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [v.to_dict() if hasattr(v, "to_dict") else v for v in value]
    if isinstance(value, str | int | float | bool | dict) or value is None:
        return value
    return value.describe() if hasattr(value, "describe") else describe_part(value)
