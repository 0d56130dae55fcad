"""Large tables in few bytes: each column in the smallest type that keeps what can be learned from it.

A table is large if it has more than `LARGE_CELLS` cells. Its dataset then holds

=======================  ============================================================================================
whole numbers            int8 or int16, or float32 up to 2²⁴, which that holds exactly; larger ones as int32 or int64
other numbers            float32, whose steps are at most a millionth of the column's range; else float64
booleans                 int8, or float32 where some are missing
categories               codes of int8, int16 or int32
ids and constants        zeros: nothing learns from them
=======================  ============================================================================================

No more than one column at a time is there in double precision.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGE_CELLS = 20_000_000
_EXACT = 2**24
"""Whole numbers up to this are exact in float32."""
_OFFSET = 16
"""Numbers that are at most so many times as large as their range have steps of a millionth of it in float32."""
_PROBE = 1000


def is_large(rows: int, columns: int) -> bool:
    """Whether a table of this size is held in compact types."""
    return rows * columns > LARGE_CELLS


def compact(numbers: NDArray[Any]) -> NDArray[Any]:
    """Numbers without infinities in the smallest type that keeps them, see the module's documentation.

    >>> compact(np.array([1.0, 2.0, 300.0])).dtype, compact(np.array([0.5, np.nan])).dtype
    (dtype('int16'), dtype('float32'))
    >>> compact(np.array([2.0**40, 2.0**40 + 1])).dtype
    dtype('int64')
    """
    if numbers.dtype == bool:
        return numbers.view(np.int8)
    if not len(numbers) or numbers.dtype in (np.int8, np.int16, np.float32):
        return numbers
    low, high = (0, 0) if np.isnan(numbers[0]) and np.isnan(numbers).all() else (np.nanmin(numbers), np.nanmax(numbers))
    largest = max(abs(float(low)), abs(float(high)))
    if numbers.dtype.kind in "iu" or _are_whole(numbers):
        for kind in (np.int8, np.int16):
            if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                return numbers.astype(kind)
        if largest <= _EXACT:
            return numbers.astype(np.float32)
        if largest < 2**31:
            return numbers.astype(np.int32)
        return numbers.astype(np.int64) if largest < 2**63 else numbers
    exact = largest <= _EXACT or not _are_whole(numbers[~np.isnan(numbers)])
    span = float(high) - float(low)
    if exact and (span == 0 or largest <= _OFFSET * span) and largest < float(np.finfo(np.float32).max):
        return numbers.astype(np.float32)
    return numbers


def _are_whole(numbers: NDArray[Any]) -> bool:
    """Whether there is a whole number everywhere."""
    return bool(np.all(numbers[:_PROBE] == np.rint(numbers[:_PROBE])) and np.all(numbers == np.rint(numbers)))
