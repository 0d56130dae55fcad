"""A lock on a file that the operating system releases when its holder dies, however it dies."""

from __future__ import annotations

import os
import socket
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Held = TypeVar("Held")

_ATTEMPTS = 3
"""To take a lock: one who looks for its holder has it for a moment."""

if sys.platform == "win32":
    import msvcrt

    # Locked bytes cannot be read by others on Windows: lock one far behind the holder's name.
    _LOCKED_BYTE = 1 << 30

    def _try_lock(descriptor: int, shared: bool = False) -> bool:  # noqa: ARG001
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _try_lock(descriptor: int, shared: bool = False) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def holder_name() -> str:
    """This process, as named to whom it locks out."""
    return f"process {os.getpid()} on {socket.gethostname()}"


def let_go_in_forks(let_go: Callable[[Held], None]) -> weakref.WeakSet[Held]:
    """A set of objects; in a fork of this process `let_go` is called with each of them."""
    held: weakref.WeakSet[Held] = weakref.WeakSet()

    def in_child() -> None:
        for one in list(held):
            let_go(one)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=in_child)
    return held


class FileLock:
    """An exclusive lock on `path`, whose content names the holder.

    The file stays when the lock is released: to remove it could take it from under a process that is just opening it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> str | None:
        """Take the lock; returns None, or the name of the process that has it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            for attempt in range(_ATTEMPTS):
                if _try_lock(descriptor):
                    break
                time.sleep(0.01 * (attempt + 1 < _ATTEMPTS))  # somebody may just be looking who has it
            else:
                # The holder writes its name right after it took the lock: for a moment there may be none.
                return self._path.read_text("utf-8", "replace").strip() or "another process"
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, holder_name().encode())
            self._descriptor, descriptor = descriptor, -1
        finally:
            if descriptor != -1:
                os.close(descriptor)
        _held.add(self)
        return None

    def holder(self) -> str | None:
        """Name of the process that has the lock, or None if nobody has."""
        try:
            descriptor = os.open(self._path, os.O_RDONLY if os.name != "nt" else os.O_RDWR)
        except OSError:  # nobody ever had it, or not for us to see
            return None
        try:
            if _try_lock(descriptor, shared=True):
                return None
            return self._path.read_text("utf-8", "replace").strip() or "another process"
        finally:
            os.close(descriptor)

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        _held.discard(self)


# A fork copies the descriptors: a child must not hold the lock on after its parent died.
_held = let_go_in_forks(FileLock.release)
