"""Temporary directories of fits. One whose process was killed is removed by the next fit.

The lock in a directory is made first and removed last, so that what has none is empty or not ours: a user's own
directory may have such a name.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path

from headstart.store.filelock import FileLock, holder_name

_PREFIX = "headstart-scratch-"
_LOCK = ".headstart-lock"
"""No other directory has such a file."""


def scratch_directory(owner: object) -> Path:
    """A new temporary directory that is there as long as `owner`, after those are removed whose processes are gone."""
    remove_left_behind()
    lock = None
    while lock is None:
        directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = _locked(directory)
    weakref.finalize(owner, _remove, directory, lock)
    return directory


def _locked(directory: Path) -> FileLock | None:
    """The lock of a new directory; None if another fit took it for one that was left, and removes it."""
    lock = FileLock(directory / _LOCK)
    with suppress(FileNotFoundError):
        if lock.acquire() is None and (directory / _LOCK).read_text("utf-8") == holder_name():
            return lock
    lock.release()
    return None


def _remove(directory: Path, lock: FileLock) -> None:
    with suppress(OSError):  # the rest is for the next line, or the next fit
        for path in directory.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink(missing_ok=True)
    if os.name == "nt":  # where a file that is open cannot be removed
        lock.release()
    shutil.rmtree(directory, ignore_errors=True)
    lock.release()


def remove_left_behind() -> None:
    """Remove directories that nobody holds."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if directory.is_symlink():
                continue
            with suppress(OSError):  # it is not empty
                directory.rmdir()
                continue
            lock = FileLock(directory / _LOCK)
            if (directory / _LOCK).exists() and lock.acquire() is None:
                _remove(directory, lock)
        except OSError:
            continue  # of another user, or another fit was faster
