"""What passes between a sandbox and its workers: frames on a pipe, and the objective in a file.

A frame is a fixed header and a body. Requests to a worker are pickles, since the worker trusts who started it; answers
are JSON, since nobody trusts what comes out of an evaluation.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import cloudpickle

MAX_FRAME = 64 << 20
PAYLOAD_NAME = "objective.bin"
MARK = "HEADSTART_SANDBOX"
"""Environment variable that every process of a worker inherits, so that strays can be told from other processes."""

_MAGIC = b"HSf1"
_HEADER = struct.Struct(">4sQ")
_COUNT = struct.Struct("<Q")
_SECTION = struct.Struct("<QQ")
_ALIGNMENT = 64  # a cache line, and enough for every vector instruction that NumPy uses


class BrokenFrame(Exception):
    """What came through the pipe is not a frame."""


class FrameTooLong(BrokenFrame):
    """A frame announces more than `MAX_FRAME` bytes."""


def send(fd: int, body: bytes) -> None:
    """Write one frame, all of it."""
    view = memoryview(_HEADER.pack(_MAGIC, len(body)) + body)
    while view:
        view = view[os.write(fd, view) :]


def receive(fd: int) -> bytes | None:
    """Read one frame; ``None`` when the other end was closed."""
    header = _read_exactly(fd, _HEADER.size)
    return None if header is None else _read_exactly(fd, _length(header))


def frame_in(received: bytearray) -> bytes | None:
    """The body of the frame that `received` starts with; ``None`` as long as it is not complete."""
    if len(received) < _HEADER.size:
        return None
    end = _HEADER.size + _length(received[: _HEADER.size])
    return bytes(received[_HEADER.size : end]) if len(received) >= end else None


def _length(header: bytes | bytearray) -> int:
    magic, length = _HEADER.unpack(header)
    if magic != _MAGIC:
        raise BrokenFrame("something other than a result was written to the result pipe")
    if length > MAX_FRAME:
        raise FrameTooLong(
            f"a result may take up to {MAX_FRAME >> 20} MiB, got {length / 2**20:.0f} MiB; "
            "return large results as artefacts"
        )
    return int(length)


def _read_exactly(fd: int, size: int) -> bytes | None:
    chunks: list[bytes] = []
    while size:
        chunk = os.read(fd, min(size, 1 << 20))
        if not chunk:
            return None
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


def pickle_objective(objective: Any) -> list[memoryview]:
    """Pickle stream of `objective`, followed by the buffers of its arrays, which are not copied."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        stream = cloudpickle.dumps(objective, protocol=5, buffer_callback=buffers.append)
    except Exception as error:
        raise TypeError(
            f"the objective must be picklable to run in a process of its own, got {type(error).__name__}: {error}; "
            "open files, locks and connections inside the call, not outside"
        ) from error
    return [memoryview(stream), *(buffer.raw() for buffer in buffers)]


def write_payload(sections: Sequence[memoryview], path: Path) -> None:
    """Write sections to one file."""
    with path.open("wb") as file:
        _write_sections(sections, file)


def payload_bytes(sections: Sequence[memoryview]) -> bytes:
    """What `write_payload` writes."""
    file = io.BytesIO()
    _write_sections(sections, file)
    return file.getvalue()


def _write_sections(sections: Sequence[memoryview], file: BinaryIO) -> None:
    """Their number, a table of (offset, size), then each at an aligned offset."""
    places = []
    offset = _aligned(_COUNT.size + _SECTION.size * len(sections))
    for section in sections:
        places.append((offset, section.nbytes))
        offset = _aligned(offset + section.nbytes)
    file.write(_COUNT.pack(len(sections)))
    for place in places:
        file.write(_SECTION.pack(*place))
    for (start, _), section in zip(places, sections, strict=True):
        file.seek(start)
        file.write(section)
    file.seek(0, io.SEEK_END)
    file.write(bytes(offset - file.tell()))


def load_payload(path: Path) -> Any:
    """Unpickle the objective in `path`; its arrays stay in the file, mapped.

    The map is copy-on-write: processes share the pages that they only read, and writing to an array is private.
    """
    with path.open("rb") as file:
        view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    (count,) = _COUNT.unpack_from(view)
    places = [_SECTION.unpack_from(view, _COUNT.size + i * _SECTION.size) for i in range(count)]
    stream, *buffers = (view[start : start + size] for start, size in places)
    return pickle.loads(stream, buffers=buffers)


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


def clean_spool(directory: Path, temporary: bool) -> None:
    """Remove what a sandbox keeps for itself in `directory`: all of it, or all but artefacts."""
    if temporary:
        shutil.rmtree(directory, ignore_errors=True)
        return
    try:
        (directory / PAYLOAD_NAME).unlink(missing_ok=True)
        directory.rmdir()
    except OSError:
        pass  # artefacts are left in it, and these belong to the caller
