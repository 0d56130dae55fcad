"""Hashes of content: equal for equal tables, in every process and on every machine."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse


class ContentHash:
    """A running hash over arrays, tables and plain values."""

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=16)

    def plain(self, value: Any) -> None:
        """Add what JSON can hold; anything else by its representation."""
        self._hash.update(json.dumps(value, default=repr, sort_keys=True).encode() + b"\0")

    def array(self, array: NDArray[Any] | None) -> None:
        """Add an array: its type, shape and values."""
        if array is None:
            self.plain(None)
            return
        if array.dtype == object or array.dtype.kind in "USO":
            array = _hashed_objects(array)
        elif array.dtype.kind == "f":
            array = np.where(np.isnan(array), np.nan, array)  # a NaN has many bit patterns
        little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        self.plain([little.dtype.str, little.shape])
        self._hash.update(little.view(np.uint8).data if little.size else b"")

    def table(self, table: Any) -> None:
        """Add a DataFrame as `headstart.data.convert` makes them, or a CSR matrix."""
        if sparse.issparse(table):
            self.plain(["csr", table.shape])
            for part in (table.indptr.astype(np.int64), table.indices.astype(np.int64), table.data):
                self.array(part)
            return
        self.plain([list(table.columns), len(table)])
        for position in range(table.shape[1]):
            column = table.iloc[:, position]
            if isinstance(column.dtype, pd.CategoricalDtype):
                self.array(column.cat.codes.to_numpy().astype(np.int32))
                self.plain([str(c) for c in column.cat.categories])
            elif column.dtype.kind in "biuf":
                self.array(column.to_numpy())
            elif column.dtype.kind == "M":
                self.array(column.to_numpy().astype("datetime64[us]").view(np.int64))
            else:
                self.array(column.to_numpy(dtype=object))

    def key(self) -> str:
        """The hash as 32 hexadecimal digits."""
        return self._hash.hexdigest()


def _hashed_objects(array: NDArray[Any]) -> NDArray[np.uint64]:
    """One number per object, by what it reads as; missing values are all alike."""
    flat = array.astype(object).ravel()
    texts = np.array(["\0" if pd.isna(v) else str(v) for v in flat], dtype=object)
    hashed: NDArray[np.uint64] = pd.util.hash_array(texts, categorize=True)
    return hashed
