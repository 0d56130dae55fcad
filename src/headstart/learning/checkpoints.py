"""Trained parameters in a file: an ``.npz`` of arrays with a JSON text among them, no pickles.

The text holds a hash of all the rest, so that a file which was damaged or changed is not taken for what it was.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import struct
import uuid
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import ModelFileError
from headstart.files import is_out_of_proportion, kind_of, writable_file

_ABOUT = "about.json"
_HASH = "sha256"
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    MemoryError,
    RecursionError,
    struct.error,
)
"""What zip files raise whose bytes are not what they were, the last ones for a header that was hit."""


def save_arrays(path: str | os.PathLike[str], arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> None:
    """Write arrays and JSON beside them; the file is there complete or not at all.

    Parameters
    ----------
    path
        The file; what was there is replaced.
    arrays
        By name; numbers or booleans.
    about
        JSON: what the arrays are and what made them.
    """
    path = writable_file(path, ModelFileError)
    for name, array in arrays.items():
        if name == _ABOUT or np.asarray(array).dtype.kind not in "biuf":
            raise ModelFileError(f"{name!r} must be an array of numbers that is not called {_ABOUT!r} to be saved")
    content = {**about, _HASH: _digest(arrays, about)}
    text = np.frombuffer(json.dumps(content, allow_nan=False).encode(), dtype=np.uint8)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")  # mkstemp's could be read by its owner alone
    try:
        with temporary.open("xb") as file:
            entries: dict[str, Any] = {_ABOUT: text, **arrays}
            np.savez_compressed(file, **entries)
            file.flush()
            with zipfile.ZipFile(temporary) as archive:
                believed = not is_out_of_proportion(archive, temporary.stat().st_size)
            if not believed:  # it would not be unpacked again
                file.seek(0)
                file.truncate()
                np.savez(file, **entries)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load_arrays(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """What `save_arrays` wrote; `ModelFileError` for anything else. Nothing in the file is run."""
    kind = kind_of(Path(path))
    if kind not in (None, "a file"):
        raise ModelFileError(f"{os.fspath(path)!r} must be a file of trained parameters, but is {kind}")
    if kind == "a file" and not zipfile.is_zipfile(path):
        raise ModelFileError(f"{os.fspath(path)!r} holds no trained parameters, such as 'headstart metatrain' writes")
    try:
        with zipfile.ZipFile(path) as archive:
            size = os.stat(path).st_size
            if is_out_of_proportion(archive, size):
                raise ModelFileError(
                    f"{os.fspath(path)!r} has {size:,} bytes and would unpack to far more than trained parameters "
                    "are; it was not unpacked"
                )
            arrays = {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.namelist()}
        about = json.loads(arrays.pop(_ABOUT).tobytes().decode())
    except ModelFileError:
        raise
    except FileNotFoundError:
        raise ModelFileError(f"no file of trained parameters at {os.fspath(path)!r}") from None
    except (*_DAMAGED, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{os.fspath(path)!r} holds no trained parameters that can be read: {error}") from error
    if not isinstance(about, dict):
        raise ModelFileError(f"{os.fspath(path)!r} holds no trained parameters: its description is no JSON object")
    if about.pop(_HASH, None) != _digest(arrays, about):
        raise ModelFileError(f"{os.fspath(path)!r} was damaged or changed since it was written: its hash differs")
    return arrays, about


def _array(content: bytes) -> NDArray[Any]:
    """An array of numbers from the bytes of an ``.npy`` file; its header must not claim more than there is."""
    stream = io.BytesIO(content)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array has version {version} of its format")
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read_header(stream)
    if dtype.kind not in "biuf":
        raise ValueError(f"an array must have numbers, found {dtype}")
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count * dtype.itemsize != len(content) - stream.tell():
        raise ValueError("an array has another size than its header says")
    found = np.frombuffer(content, dtype, count, stream.tell()).copy()
    return found.reshape(shape, order="F" if fortran else "C")


def _digest(arrays: Mapping[str, NDArray[Any]], about: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(dict(about), sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        held = np.ascontiguousarray(array)
        digest.update(f"{name} {held.dtype.str} {np.shape(array)}".encode())
        digest.update(held.tobytes())
    return digest.hexdigest()
