"""Temporary directories of fits. One whose process was killed is removed by the next fit."""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from pathlib import Path

from headstart.store.filelock import FileLock

_PREFIX = "headstart-fit-"
_LOCK = ".lock"
_UNLOCKED_SECONDS = 60.0
"""Age from which a directory without a lock is taken for what a process left that died just then."""


def scratch_directory(owner: object) -> Path:
    """A new temporary directory that is there as long as `owner`, after those are removed whose processes are gone."""
    remove_left_behind()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = FileLock(directory / _LOCK)
    lock.acquire()
    weakref.finalize(owner, _remove, directory, lock)
    return directory


def _remove(directory: Path, lock: FileLock) -> None:
    lock.release()
    shutil.rmtree(directory, ignore_errors=True)


def remove_left_behind() -> None:
    """Remove directories that nobody holds."""
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            if not (directory / _LOCK).exists() and time.time() - directory.stat().st_mtime < _UNLOCKED_SECONDS:
                continue
            lock = FileLock(directory / _LOCK)
            if directory.is_symlink() or lock.acquire() is not None:
                continue
            _remove(directory, lock)
        except OSError:
            continue  # of another user, or another fit was faster
