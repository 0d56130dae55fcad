"""The file of a model: a zip archive with a header in JSON and parts as bytes.

Writing is atomic. Reading never trusts sizes or names: whatever is wrong with a file is a `ModelFileError`.
"""

from __future__ import annotations

import contextlib
import io
import os
import uuid
import zipfile
import zlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from headstart.errors import ModelFileError
from headstart.files import HARMLESS_BYTES, MOST_RATIO, is_out_of_proportion, writable_file
from headstart.store.codec import decode, encode

FORMAT = "headstart-model"
VERSION = 1
"""Of the format; a file of a later one is refused. It rises when an older Headstart would misread a new file, not when
something is added: what a reader does not know it leaves alone, and what a file does not have yet is None."""

_HEADER = "header.json"


def write_container(path: str | PathLike[str], header: Mapping[str, Any], parts: Mapping[str, bytes]) -> None:
    """Write a file in one step: whoever reads the path sees the old file or the new one, never a part of it."""
    from headstart.store.artefacts import sync_directory  # it needs a database's library, reading a model does not

    target = writable_file(path, ModelFileError)
    if target.exists() and not is_container(target):
        raise ModelFileError(
            f"{path} exists and is not a Headstart model, so it was left alone; choose another name or remove it first"
        )
    about = encode({"format": FORMAT, "version": VERSION, **header}, "header")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        with open(temporary, "xb") as stream:
            with zipfile.ZipFile(stream, "w") as archive:
                for name, content in {_HEADER: about.encode(), **parts}.items():
                    archive.writestr(name, content, compression_of(content))
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, target)
        sync_directory(target.parent)
    except OSError as error:
        raise ModelFileError(f"{path} cannot be written: {error}") from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def is_container(path: Path) -> bool:
    """Whether there is a model of Headstart, of whatever version."""
    try:
        with zipfile.ZipFile(path) as archive:
            if archive.getinfo(_HEADER).file_size > HARMLESS_BYTES:
                return False
            header = decode(archive.read(_HEADER).decode())
        return isinstance(header, dict) and header.get("format") == FORMAT
    except Exception:  # zipfile has many, and any of them means no
        return False


def read_container(path: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Header and parts of a file; `ModelFileError` where it is missing, damaged, too large, foreign or too new."""
    place = Path(path)
    if not place.exists():
        raise ModelFileError(f"file {path} not found; check the name and the directory")
    if place.is_dir():
        raise ModelFileError(f"path must be a file that save wrote, but {path} is a directory")
    try:
        content = place.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error}") from error
    if content[:2] != b"PK":
        what = "is empty" if not content else "is something else"
        raise ModelFileError(f"{path} must be a model that save wrote, but {what}")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            check_sizes(archive, len(content), str(path))
            if _HEADER not in archive.namelist():
                raise ModelFileError(f"{path} must be a model that save wrote, but is another kind of zip archive")
            header = decode(archive.read(_HEADER).decode())
            _check_header(header, str(path))
            parts = {name: archive.read(name) for name in archive.namelist() if name != _HEADER}
        for name, part in parts.items():
            if part[:2] == b"PK" or name.endswith(".skops"):
                with zipfile.ZipFile(io.BytesIO(part)) as inner:
                    check_sizes(inner, len(part), f"{path} ({name})")
    except ModelFileError:
        raise
    except Exception as error:  # zipfile, zlib, json and codecs have many kinds for what is one thing here
        raise damaged(path, error) from error
    return header, parts


def compression_of(content: bytes) -> int:
    """How a part is kept: deflated, unless it is an archive itself or would shrink so much that it is not believed."""
    if content[:2] == b"PK":
        return zipfile.ZIP_STORED
    believed = len(content) <= HARMLESS_BYTES or MOST_RATIO * len(zlib.compress(content, 1)) > 2 * len(content)
    return zipfile.ZIP_DEFLATED if believed else zipfile.ZIP_STORED


def damaged(path: str | PathLike[str], error: Exception) -> ModelFileError:
    """The error for a file whose content is not what `save` writes."""
    said = str(error).strip() or type(error).__name__
    return ModelFileError(f"{path} is damaged or truncated, {said[:200]}; copy it again from where it was saved")


def check_sizes(archive: zipfile.ZipFile, size: int, where: str) -> None:
    """Raise for an archive that would unpack to sizes out of all proportion."""
    if is_out_of_proportion(archive, size):
        unpacked = sum(info.file_size for info in archive.infolist())
        raise ModelFileError(
            f"{where} has {size:,} bytes and claims to contain {unpacked:,}, far more than a model would; it "
            "was not unpacked"
        )


def _check_header(header: Any, path: str) -> None:
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} must be a model that save wrote, but is another kind of zip archive")
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        written = (header.get("libraries") or {}).get("headstart", "a later version")
        raise ModelFileError(
            f"{path} has version {version} of the format and was written by Headstart {written}, this one knows "
            f"version {VERSION}; update Headstart to load it"
        )
