"""What an artefact becomes when it is stored, and how it is read again.

An array of plain numbers becomes an ``.npy`` file, bytes a ``.bin`` file, a `pathlib.Path` the file that it names with
its suffix, anything else a pickle. Each is recorded with its size and SHA-256, which are checked when it is read.
Nothing that could run code is loaded unless the caller says that the store is trusted.
"""

from __future__ import annotations

import hashlib
import io
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from headstart.errors import InvalidInput, StoreError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SUFFIX = re.compile(r"(\.[A-Za-z0-9]{1,16})?")
_PICKLES = frozenset({".pkl", ".pickle"})


@dataclass(frozen=True)
class ArtefactRecord:
    """What a store notes about an artefact."""

    study_id: int
    number: int
    name: str
    suffix: str
    size: int
    sha256: str
    content: bytes | None = None
    """The artefact itself, when it is to be written as a blob."""

    @property
    def file_name(self) -> str:
        # Part of a path: a store from elsewhere must not be able to lead out of its directory.
        if not _NAME.fullmatch(self.name) or not _SUFFIX.fullmatch(self.suffix):
            raise StoreError(f"{self} has a name that no store writes; the store is damaged or was tampered with")
        return f"{self.number:06d}-{self.name}{self.suffix}"

    def __str__(self) -> str:
        return called(self.name, self.number)


def called(name: str, number: int) -> str:
    """An artefact in messages."""
    return f"artefact {name!r} of trial {number}"


def check_names(names: Iterable[str], number: int) -> None:
    """Raise unless the names of a trial's artefacts can be those of files, on every system."""
    seen: dict[str, str] = {}
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidInput(
                f"an artefact's name must be 1 to 100 letters, digits, '_', '-' or '.', beginning with a letter or "
                f"digit, got {name!r} in trial {number}"
            )
        twin = seen.setdefault(name.lower(), name)
        if twin != name:
            raise InvalidInput(
                f"artefact names must differ in more than case, got {twin!r} and {name!r} in trial {number}"
            )


def load(data: bytes, record: ArtefactRecord, *, trusted: bool) -> Any:
    """The value of an artefact: an array, bytes, or with `trusted` what a pickle holds."""
    if len(data) != record.size or hashlib.sha256(data).hexdigest() != record.sha256:
        raise StoreError(
            f"{record} is damaged: it must have {record.size} bytes with the checksum {record.sha256[:12]}…, found "
            f"{len(data)} bytes with {hashlib.sha256(data).hexdigest()[:12]}…; restore it from a backup"
        )
    if record.suffix in _PICKLES:
        if not trusted:
            raise StoreError(
                f"{record} is a pickle: loading it runs whatever code its author put in. If you trust the author of "
                "this store as you would trust a program of theirs, pass trusted=True"
            )
        import cloudpickle

        try:
            return cloudpickle.loads(data)
        except Exception as error:
            raise StoreError(
                f"{record} cannot be loaded, a package may be missing or of another version: {error!r}"
            ) from error
    if record.suffix == ".npy":
        try:
            return np.load(io.BytesIO(data), allow_pickle=False)
        except ValueError as error:
            raise StoreError(f"{record} is not a plain array: {error}") from error
    return data


def write_value(value: Any, stream: IO[bytes], what: str) -> str:
    """Write a value that is in memory; returns the suffix that says how."""
    # Exactly an array: what a subclass adds, such as a mask, would not be in the file.
    if type(value) is np.ndarray and not value.dtype.hasobject:
        np.lib.format.write_array(stream, value, allow_pickle=False)
        return ".npy"
    if isinstance(value, bytes):
        stream.write(value)
        return ".bin"
    import cloudpickle

    try:
        cloudpickle.dump(value, stream)
    except OSError:
        raise
    except Exception as error:
        raise InvalidInput(
            f"{what} must be an array, bytes, a path or something that can be pickled, got "
            f"{type(value).__name__}: {error}"
        ) from error
    return ".pkl"


def checked_source(path: Path, what: str) -> str:
    """Suffix for a file given by path; raises unless it is a plain file."""
    try:
        plain = stat.S_ISREG(path.lstat().st_mode)
    except FileNotFoundError:
        plain = False
    if not plain:
        raise InvalidInput(f"{what} must be an existing file and not a link, got {path}")
    suffix = path.suffix.lower()
    return suffix if _SUFFIX.fullmatch(suffix) else ""
