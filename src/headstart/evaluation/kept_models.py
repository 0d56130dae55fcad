"""Fitted models on their way out of an evaluation: bytes that have been read back once, where limits hold.

What a class does when it is unpickled is its own business: it may raise, exit, wait or take memory. An evaluation
therefore reads back what it leaves behind, and lets models that are not made of known libraries alone predict a few
rows. If that goes wrong it is the evaluation that fails, in its own process and within its limits.

A file begins with the seconds that reading took, so that whoever needs many of them can plan.
"""

from __future__ import annotations

import io
import pickle
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import cloudpickle

LIBRARIES = frozenset(
    {"headstart", "lightgbm", "catboost", "xgboost", "sklearn", "pandas", "scipy", "numpy"}
    | {"builtins", "collections", "copyreg"}
)
"""What models may be made of without being tried out after they were read back."""

_SECONDS = struct.Struct("<d")


class UnusableModel(Exception):
    """A fitted model does not survive being pickled."""


class _Reader(pickle.Unpickler):
    """Reads a pickle and notes whether it names anything that is not of known libraries."""

    foreign = False

    def find_class(self, module: str, name: str) -> Any:
        self.foreign |= module.partition(".")[0] not in LIBRARIES
        return super().find_class(module, name)


def keep(models: Sequence[Any], try_out: Callable[[Any], object]) -> memoryview:
    """Fitted models as bytes for `restore`.

    Parameters
    ----------
    try_out
        Is called with each model that was read back, unless they are all made of `LIBRARIES`.

    Raises
    ------
    UnusableModel
        They cannot be pickled, read back or used afterwards; the message says which and why.
    """
    buffer, step = io.BytesIO(), "pickled"
    try:
        buffer.write(_SECONDS.pack(0.0))
        cloudpickle.dump(list(models), buffer, protocol=pickle.HIGHEST_PROTOCOL)
        step = "unpickled"
        started = time.perf_counter()
        buffer.seek(_SECONDS.size)
        reader = _Reader(buffer)
        found = reader.load()
        seconds = time.perf_counter() - started
        step = "used after it was pickled and unpickled"
        for model in found if reader.foreign else ():
            try_out(model)
    except MemoryError:
        raise
    except Exception as error:
        raise UnusableModel(
            f"a fitted pipeline must survive pickling to be kept, but cannot be {step}: {type(error).__name__}: {error}"
        ) from error
    buffer.seek(0)
    buffer.write(_SECONDS.pack(seconds))
    return buffer.getbuffer()  # a view: models may be large


def loading_seconds(kept: BinaryIO) -> float:
    """How long it took to read the models back where they were made."""
    (seconds,) = _SECONDS.unpack(kept.read(_SECONDS.size))
    return float(seconds)


def restore(kept: BinaryIO) -> list[Any]:
    """The models; whatever their classes raise is passed on."""
    loading_seconds(kept)
    return list(pickle.load(kept))
