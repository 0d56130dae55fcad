"""What all that is read from and written to files shares: where may be written, how much may be unpacked."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import uuid
import zipfile
from collections.abc import Callable
from pathlib import Path

from headstart.errors import InvalidInput

HARMLESS_BYTES = 64 * 2**20
MOST_RATIO = 100
"""An archive that unpacks to more than `HARMLESS_BYTES` may be at most so many times smaller than its content."""


def writable_file(path: str | os.PathLike[str], error: type[Exception] = InvalidInput) -> Path:
    """The file that a path leads to, through links; raises unless it is a regular file or can become one.

    To replace a device or a pipe would take it away from all other programs, and a link from whoever set it.
    """
    target = Path(os.path.realpath(path))
    kind = kind_of(Path(path))
    if kind == "a directory":
        raise error(f"{path} must be a file, but is a directory; give a file in it")
    if kind not in (None, "a file"):
        raise error(f"{path} must be a file that can be replaced, but is {kind}; choose another name")
    if not target.parent.is_dir():
        raise error(f"the directory {target.parent} must exist to write {target.name} there; create it first")
    return target


def kind_of(path: Path) -> str | None:
    """What a path leads to, through links, in words; None where there is nothing."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return None
    kinds = {
        stat.S_ISREG: "a file",
        stat.S_ISDIR: "a directory",
        stat.S_ISFIFO: "a pipe",
        stat.S_ISSOCK: "a socket",
    }
    return next((name for test, name in kinds.items() if test(mode)), "a device")


def replace_file(path: str | os.PathLike[str], write: Callable[[Path], object]) -> None:
    """Write a file in full or not at all; `write` is given the path of a new file with the same suffix."""
    target = writable_file(path)
    new = target.with_name(f".{uuid.uuid4().hex[:8]}.{target.name}")  # the end of the name tells pandas what to write
    try:
        write(new)
        with new.open("rb+") as written:  # else the new name may be on the disk before the content is
            os.fsync(written.fileno())
        os.replace(new, target)
    finally:
        with contextlib.suppress(OSError):
            new.unlink(missing_ok=True)


def unfinished(path: Path) -> list[Path]:
    """What is left of `path` by processes that were killed while they wrote it, and of those that write it now."""
    name = re.escape(path.name)
    pattern = re.compile(rf"\.[0-9a-f]{{8}}\.{name}|\.{name}\.[0-9a-f]{{8}}\.tmp")
    return [found for found in path.parent.glob(".*") if pattern.fullmatch(found.name)]


def is_out_of_proportion(archive: zipfile.ZipFile, size: int) -> bool:
    """Whether an archive of `size` bytes would unpack to far more than anything that is written here."""
    unpacked = sum(info.file_size for info in archive.infolist())
    return unpacked > HARMLESS_BYTES and unpacked > MOST_RATIO * size
