"""Meta-datasets that others published: fetched once, converted, and loaded from a cache.

>>> sorted(SOURCES)
['pmf', 'tensor_oboe', 'zap']

Those of `IN_FOLDERS` cannot be fetched; they are read from a folder that the user has.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import platformdirs

from headstart.errors import InvalidInput, MetaDataError, UnknownName, suggestion
from headstart.metadata.files import is_meta, load_meta, read_header, save_meta
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources.wheels import DEEPPIPE, OBOE, Wheel, download

__all__ = ["IN_FOLDERS", "SOURCES", "Source", "cache_directory", "fetch", "is_fetched", "load", "place"]

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Source:
    """Where a meta-dataset comes from.

    Parameters
    ----------
    name
        Also of the module beside this one that converts it.
    title
        For people.
    wheels
        What it is made of.
    revision
        Of the conversion; a cache of another one is made again.
    """

    name: str
    title: str
    wheels: tuple[Wheel, ...]
    revision: int = 1

    @property
    def licence(self) -> str:
        return ", ".join(f"{wheel.licence} ({wheel.requirement})" for wheel in self.wheels)


SOURCES = {
    source.name: source
    for source in (
        Source("pmf", "38,151 pipelines on 553 OpenML datasets", (DEEPPIPE,)),
        Source("tensor_oboe", "23,424 pipelines on 551 OpenML datasets, with runtimes", (DEEPPIPE, OBOE), revision=2),
        Source("zap", "525 deep-learning pipelines on 525 image tasks", (DEEPPIPE,)),
    )
}

IN_FOLDERS = {
    "dmfbs_layout": "dmfbs:layout",
    "dmfbs_regularization": "dmfbs:regularization",
    "metabu_adaboost": "metabu_adaboost:read",
}
"""Functions of modules beside this one that read a meta-dataset from a folder, by its name."""


def cache_directory() -> Path:
    """Where fetched meta-datasets are: in ``HEADSTART_CACHE``, else the user's cache directory."""
    given = os.environ.get("HEADSTART_CACHE")
    return Path(given).expanduser() if given else Path(platformdirs.user_cache_dir("headstart", appauthor=False))


def place(name: str) -> Path:
    """The directory that a source is cached in, whether or not it is there."""
    return cache_directory() / "meta" / source(name).name


def source(name: str) -> Source:
    """The source of a name; raises `UnknownName` where there is none."""
    if name not in SOURCES:
        raise UnknownName(f"there is no meta-dataset {name!r} to fetch; {suggestion(name, SOURCES)}")
    return SOURCES[name]


def is_fetched(name: str) -> bool:
    """Whether a source is in the cache, as this version converts it."""
    directory = place(name)
    if not is_meta(directory):
        return False
    try:
        return bool(read_header(directory)["about"].get("revision") == str(SOURCES[name].revision))
    except MetaDataError:
        return False


def fetch(name: str, progress: Progress = lambda _doing, _share: None) -> Path:
    """Download the wheels of a source, convert what is in them, and put it into the cache; replaces what is there.

    Parameters
    ----------
    progress
        Called with what is being done and, where that is known, the share of it that is done.

    Returns
    -------
    Path
        The directory, which `headstart.metadata.files.load_meta` reads.

    Raises
    ------
    MetaDataError
        There is no pip or no network, a download is not the expected file, or the disk is full. The cache is then as
        it was before.
    """
    wanted = source(name)
    target = place(name)
    try:
        with tempfile.TemporaryDirectory(prefix="headstart-") as folder:
            files = []
            for wheel in wanted.wheels:
                progress(f"downloading {wheel.requirement} ({wheel.size / 1e6:.0f} MB)", 0.0)
                files.append(download(wheel, Path(folder)))
            meta = import_module(f"{__name__}.{name}").convert(files, progress)
    except OSError as error:
        raise MetaDataError(f"{name} cannot be fetched: {error.strerror or error}") from error
    about = {**meta.about, "licence": wanted.licence, "revision": str(wanted.revision)}
    progress("writing", 0.0)
    return save_meta(meta.changed(about=about), target, replace=True)


def load(name: str | os.PathLike[str], data: str | os.PathLike[str] | None = None) -> MetaDataset:
    """A meta-dataset by the name of its source, or from a directory that `save_meta` wrote.

    Parameters
    ----------
    name
        Of a source that was fetched or is in the folder `data`, or a path.
    data
        A folder with more about the tasks, see `headstart.metadata.sources.extras`.

    Raises
    ------
    InvalidInput
        The source was not fetched yet, or there is no meta-dataset at the path.
    MetaDataError
        It is damaged.
    """
    if str(name) in IN_FOLDERS:
        if data is None:
            raise InvalidInput(
                f"{name} is read from a folder of yours and cannot be fetched; name the folder: --data DIR"
            )
        module, _, function = IN_FOLDERS[str(name)].partition(":")
        found: MetaDataset = getattr(import_module(f"{__name__}.{module}"), function)(Path(data))
        return found
    meta = load_meta(located(name))
    if data is not None:
        from headstart.metadata.sources.extras import with_extras

        meta = with_extras(meta, Path(data))
    return meta


def located(name: str | os.PathLike[str]) -> Path:
    """The directory of a source that was fetched, or of a path; raises as `load` does."""
    if str(name) not in SOURCES:
        path = Path(name).expanduser()
        if path.is_dir():
            return path
        raise UnknownName(
            f"{name} is no meta-dataset and no directory with one; {suggestion(str(name), [*SOURCES, *IN_FOLDERS])}"
        )
    directory = place(str(name))
    if not is_fetched(str(name)):
        state = "was made by another version of Headstart" if is_meta(directory) else "holds no meta-dataset"
        raise InvalidInput(f"{name!r} must be fetched first, {directory} {state}: headstart meta fetch {name}")
    return directory
