"""A process and its descendants: who they are, and how much memory they hold, asked every few milliseconds.

On Linux from ``/proc``, which is some ten times faster than psutil; from psutil elsewhere and where that is incomplete.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import Any

import psutil

_LINUX = sys.platform == "linux"
_FAST_CHILDREN = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


@dataclass(frozen=True)
class Usage:
    """Bytes of one process.

    Parameters
    ----------
    private
        Memory that belongs to no file, in RAM or swapped out.
    shared
        Shared memory, which includes maps of files on a memory file system.
    data
        What ``RLIMIT_DATA`` counts.
    """

    private: int
    shared: int
    data: int


_FIELDS = {b"RssAnon", b"VmSwap", b"RssShmem", b"VmData"}


def usage(pid: int) -> Usage | None:
    """Memory of one process; ``None`` when it is gone or the system does not tell."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    found = {}
    for line in lines:
        name, _, value = line.partition(b":")
        if name in _FIELDS:
            found[name] = int(value.split()[0]) << 10
    if b"RssAnon" not in found:
        return None
    return Usage(found[b"RssAnon"] + found.get(b"VmSwap", 0), found.get(b"RssShmem", 0), found.get(b"VmData", 0))


def proportional(pid: int) -> int | None:
    """Memory of one process in which a page that n processes share counts 1/n; walks the page tables, so it is slow."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return None
    names = (b"Pss_Anon:", b"Pss_Shmem:", b"SwapPss:")
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(names))


def descendants(pid: int) -> list[int]:
    """Every process that `pid` started, directly or not, as far as the chain of parents is unbroken."""
    if not _FAST_CHILDREN:
        try:
            return [child.pid for child in psutil.Process(pid).children(recursive=True)]
        except psutil.Error:
            return []
    found: dict[int, None] = {}  # in place of a set, to keep parents before their children
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            if child not in found:
                found[child] = None
                waiting.append(child)
    return list(found)


def kill_tree(pid: int) -> None:
    """Kill what descends from `pid`, which itself stays."""
    try:
        tree = psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return  # it is dead already
    for process in tree:
        kill(process)


def kill(process: Any) -> None:
    """Kill a psutil process, if it is still there to be killed."""
    with contextlib.suppress(psutil.Error):
        process.kill()


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it ended in the meantime
    return found


class TreeMemory:
    """Memory that the descendants of a forking process take on top of what that process has itself.

    A forked process shares its parent's pages until one of them writes, but each of them has these pages in its own
    count. The sum is therefore only an upper bound once there are several; when that passes the limit, the exact and
    slow count decides.

    Parameters
    ----------
    base
        The forking process just before the fork.
    mapped
        Size of the file of data that it has mapped, which is nobody's memory even if it lies on a memory file system.
    """

    def __init__(self, base: Usage, mapped: int) -> None:
        self._base = base
        self._mapped = mapped

    def measure(self, child: int, everyone: list[int], limit: int | None) -> int:
        """Bytes taken by `everyone`, of which `child` is the one that was forked."""
        bound = 0
        for pid in everyone:
            found = usage(pid)
            if found is not None:
                bound += found.private - (self._base.private if pid == child else 0)
                bound += max(0, found.shared - self._base.shared - self._mapped)
        if limit is None or bound <= limit or len(everyone) == 1:
            return max(0, bound)
        exact = [proportional(pid) for pid in everyone]
        return max(0, sum(size for size in exact if size is not None) - self._base.private) if any(exact) else bound


class ServedMemory:
    """Memory that a process and its descendants take on top of what they had at first, read from outside by psutil.

    Parameters
    ----------
    pid
        The process.
    mapped
        Size of the file of data that it has mapped.
    """

    def __init__(self, pid: int, mapped: int) -> None:
        self._process = psutil.Process(pid)
        self._base = _private(self._process)
        # Where private memory cannot be told from mapped files, pages of the table come in as they are touched.
        self._allowance = 0 if exact_from_outside() else mapped

    def measure(self) -> int:
        """Bytes taken now; raises `psutil.Error` when the system does not tell."""
        total = _private(self._process) - self._base - self._allowance
        for child in self._process.children(recursive=True):
            try:
                total += _private(child)
            except psutil.Error:
                continue  # it ended in the meantime
        return max(0, total)


def exact_from_outside() -> bool:
    """Whether psutil tells private memory from mapped files quickly on this system."""
    return _LINUX or sys.platform == "win32"


def _private(process: Any) -> int:
    memory = process.memory_info()
    if hasattr(memory, "private"):  # Windows
        return int(memory.private)
    return int(memory.rss - getattr(memory, "shared", 0))
