"""Keeping BLAS to one thread while matrices are small."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

_lock = threading.RLock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """BLAS runs on the calling thread alone inside this block; what was set before is restored after it.

    Some builds of BLAS have one setting for the whole process, others one for each thread. Only one thread at a time
    is let in, or each would take the setting of another for the one to restore.
    """
    with _lock, _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> Any:
    """Looking for the loaded BLAS libraries takes milliseconds, so it happens once."""
    import_module("scipy.linalg")  # brings a BLAS of its own, which must be loaded before
    return import_module("threadpoolctl").ThreadpoolController()  # it has no type hints
