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
from headstart.registry import Kind, create

if TYPE_CHECKING:
    from headstart.metadata.metadataset import MetaDataset

FORMAT = 3
"""Of files of learners; 2 held surrogates alone."""


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

    def describe(self) -> dict[str, Any]:
        """Name and settings, for the record: JSON."""
        return describe_part(self)

    def adjusted(self, **wanted: Any) -> Self:
        """This learner with other values of settings that only count on a new task.

        Raises `InvalidInput` for other values of what was decided by training; how it was trained is not compared.
        """
        checked, found = type(self)(**wanted), copy.copy(self)
        for name in wanted:
            value = getattr(checked, name)
            if name in self.adjustable:
                setattr(found, name, value)
            elif name not in self.training_only_settings and getattr(self, name) != value:
                raise InvalidInput(
                    f"{name}={value!r} is decided by training, and the file was trained with "
                    f"{getattr(self, name)!r}; give a file that was trained so, or ask for what the file has"
                )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write settings and what was learned to a file without code; `load` reads it."""
        from importlib.metadata import version

        from headstart.learning.checkpoints import save_arrays
        from headstart.learning.state import pack

        if self.meta_key is None:
            raise InvalidInput(f"{type(self).__name__} has learned nothing yet: call meta_fit before save")
        arrays: dict[str, Any] = {}
        content = pack(self, arrays)
        save_arrays(path, arrays, {"format": FORMAT, "headstart": version("headstart"), "learner": content})

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """A learner as it was saved; nothing in the file is run."""
        learner = load_learner(path)
        if not isinstance(learner, cls):
            raise ModelFileError(f"{os.fspath(path)!r} must hold a {cls.__name__}, it holds a {type(learner).__name__}")
        return learner

    def restored(self) -> None:  # noqa: B027
        """Check what was read from a file; called by `load`. Raises `ModelFileError`, `ValueError` or `KeyError`."""


def load_learner(path: str | os.PathLike[str]) -> Learner:
    """The learner in a file, of whatever class it is."""
    from headstart.learning.checkpoints import load_arrays
    from headstart.learning.state import unpack

    arrays, about = load_arrays(path)
    if about.get("format") != FORMAT:
        raise ModelFileError(
            f"{os.fspath(path)!r} must have format {FORMAT}, got {about.get('format')!r}; it was written by "
            f"Headstart {about.get('headstart', 'of an earlier version')}: train it again with 'headstart metatrain'"
        )
    try:
        return unpack(about["learner"], arrays)
    except ModelFileError:
        raise
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{os.fspath(path)!r} holds no learner that can be read: {error}") from error


def settings_of(part: Any) -> dict[str, Any]:
    """Constructor settings of a part, as they are."""
    names = [name for name in inspect.signature(type(part).__init__).parameters if hasattr(part, name)]
    return {name: getattr(part, name) for name in names}


def describe_part(part: Any) -> dict[str, Any]:
    """Class name and constructor settings of a part, as JSON types; parts inside it are described in turn."""
    settings: dict[str, Any] = {}
    for name, value in settings_of(part).items():
        if hasattr(value, "to_dict"):
            value = value.to_dict()
        elif isinstance(value, (list, tuple)):
            value = [v.to_dict() if hasattr(v, "to_dict") else v for v in value]
        elif not isinstance(value, (str, int, float, bool, type(None), dict)):
            value = value.describe() if hasattr(value, "describe") else describe_part(value)
        settings[name] = value
    if getattr(part, "revision", 1) != 1:
        settings["revision"] = part.revision
    if getattr(part, "meta_key", None) is not None:
        settings["meta_key"] = part.meta_key
    return {"name": type(part).__name__, **settings}
