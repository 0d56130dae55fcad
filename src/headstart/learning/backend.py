"""torch where it is needed, and nowhere else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from headstart.errors import MissingDependency

_lock = threading.RLock()


def require_torch(what: str) -> Any:
    """The torch module; `MissingDependency` says that `what` needs it and how to get it."""
    try:
        import torch
    except ImportError as error:
        raise MissingDependency(f'{what} needs torch: pip install "headstart[neural]"') from error
    return torch


@contextmanager
def one_torch_thread(what: str = "training a network") -> Iterator[Any]:
    """torch, on the calling thread alone inside this block; what was set before is restored after it.

    The networks here are so small that a second thread costs more than it brings, and much more on a busy machine. The
    setting is torch's own and holds for the whole process, so only one thread at a time is let in.
    """
    torch = require_torch(what)
    with _lock:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            yield torch
        finally:
            torch.set_num_threads(before)
