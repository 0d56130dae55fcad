"""Keeping BLAS to one thread while matrices are small."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from importlib import import_module
from typing import Any

import scipy.linalg  # noqa: F401  it brings a BLAS of its own, which must be loaded before BLAS libraries are looked for


def one_blas_thread() -> AbstractContextManager[Any]:
    """BLAS runs on the calling thread alone inside this block; what was set before is restored after it.

    With most builds of BLAS the setting is the whole process's. Of several threads in such blocks at once the first one
    decides, which changes how long the others take, and nothing else.
    """
    block: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return block


@cache
def _controller() -> Any:
    """Looking for the loaded BLAS libraries takes milliseconds, so it happens once."""
    return import_module("threadpoolctl").ThreadpoolController()  # comes with scikit-learn; it has no type hints
