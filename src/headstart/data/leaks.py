"""Columns that give the target away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data.columns import Kind

_PROBE_ROWS = 1000
_UNUSED = (Kind.ID, Kind.CONSTANT)


def likely_leaks(frame: pd.DataFrame, kinds: Mapping[str, Kind], y: NDArray[Any], n_classes: int | None) -> list[str]:
    """Columns that stand one to one for the target.

    For a classification: every class has one value of the column and every value one class. For a regression: the
    column is the target, or a linear function of it.
    """
    names = [name for name in frame.columns if kinds[name] not in _UNUSED]
    if n_classes is None:
        return [n for n in names if frame[n].dtype.kind == "f" and _is_linear(frame[n].to_numpy(), y)]
    return [n for n in names if _is_one_to_one(frame[n], y, n_classes)]


def _is_one_to_one(column: pd.Series[Any], y: NDArray[Any], n_classes: int) -> bool:
    probe = slice(0, _PROBE_ROWS)  # a look at a few rows spares nearly every column the rest
    return _match(column.iloc[probe], y[probe]) and _match(column, y, n_classes)


def _match(column: pd.Series[Any], y: NDArray[Any], n_classes: int | None = None) -> bool:
    codes = pd.factorize(column)[0].astype(np.int64) + 1  # missing is a value as any other
    width = int(y.max()) + 1
    pairs, values = len(pd.unique(codes * width + y)), len(pd.unique(codes))
    return pairs == values == (len(pd.unique(y)) if n_classes is None else n_classes)


def _is_linear(values: NDArray[np.float64], y: NDArray[np.float64]) -> bool:
    known = ~np.isnan(values)
    if known.sum() < max(4, 0.5 * len(y)):
        return False
    a, b = values[known], y[known]
    probe = slice(0, _PROBE_ROWS)
    return _correlated(a[probe], b[probe]) and _correlated(a, b)


def _correlated(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.sqrt((a @ a) * (b @ b)))
    return scale > 0 and abs(float(a @ b)) > (1 - 1e-10) * scale
