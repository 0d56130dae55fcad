"""`Schema`: what a table must look like for a model that was trained on another one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from headstart.data.columns import ColumnSpec, Kind
from headstart.data.convert import convert, finite_or_missing
from headstart.data.errors import DataWarning, TableError, column_hint, listed
from headstart.data.read import read_table
from headstart.data.values import blanked

_DISPENSABLE = (Kind.ID, Kind.CONSTANT)


@dataclass(frozen=True)
class Schema:
    """The columns of a training table, without its rows.

    Parameters
    ----------
    columns
        Each column's kind and how it is read, in their order. Empty for a sparse matrix.
    others
        Columns of the table that are not features: target, weights, groups, times. New tables may have them or not.
    by_position
        Whether the names were made up for an array: another table's columns are then taken in their order.
    n_sparse
        Number of columns of a sparse matrix; None for a table.
    missing
        Texts that stand for a missing value, besides the usual ones.
    """

    columns: Mapping[str, ColumnSpec]
    others: tuple[str, ...] = ()
    by_position: bool = False
    n_sparse: int | None = None
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", dict(self.columns))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names in their order."""
        return tuple(self.columns)

    @property
    def kinds(self) -> dict[str, Kind]:
        """The columns' kinds."""
        return {name: spec.kind for name, spec in self.columns.items()}

    @property
    def preparation(self) -> dict[str, str]:
        """What pipelines are told of the columns: kinds, for dates with the format; empty for a sparse matrix."""
        return {
            name: f"{spec.kind} {spec.format}" if spec.kind is Kind.DATE and spec.format else str(spec.kind)
            for name, spec in self.columns.items()
        }

    @property
    def n_features(self) -> int:
        """How many columns the features have."""
        return len(self.columns) if self.n_sparse is None else self.n_sparse

    def apply(self, source: Any) -> Any:
        """New data in the form of the training data.

        Columns may come in any order and type as long as their values can be read; an id or a constant may be absent.
        Categories that training never saw are kept: encoders decide what to make of them.

        Parameters
        ----------
        source
            Anything that `read_table` takes.

        Returns
        -------
        DataFrame or CSR matrix
            As `Dataset.X`.

        Raises
        ------
        TableError
            A column is absent, or holds what cannot be read as its kind; the message names it.

        Warns
        -----
        DataWarning
            For columns that training did not have; they are ignored.
        """
        return self.convert(self.read(source))

    def read(self, source: Any) -> Any:
        """New data with the columns checked, but values as they are; `convert` does the rest, also for some rows."""
        if self.n_sparse is not None:
            return self._apply_sparse(source)
        positional = isinstance(source, np.ndarray | list | tuple) or sparse.issparse(source)
        frame = read_table(source)
        if (self.by_position or (positional and not _has_names(source))) and not set(self.names) <= set(frame.columns):
            if frame.shape[1] != len(self.names):
                raise TableError(f"the table must have {len(self.names)} columns, found {frame.shape[1]}")
            frame = frame.set_axis(pd.Index(self.names, dtype=object), axis=1)
        self._check_names(list(frame.columns))
        return frame

    def convert(self, frame: Any) -> Any:
        """The values of data that was read, in the form of the training data."""
        if self.n_sparse is not None:
            return frame
        converted = {}
        for name, spec in self.columns.items():
            if name in frame.columns:
                converted[name] = convert(blanked(frame[name], self.missing), spec, name).values
            else:
                converted[name] = np.full(len(frame), np.nan)
        return pd.DataFrame(converted, index=pd.RangeIndex(len(frame)))

    def _check_names(self, found: list[str]) -> None:
        present = set(found)
        absent = [n for n, spec in self.columns.items() if n not in present and spec.kind not in _DISPENSABLE]
        if absent:
            named = listed(map(repr, absent))
            raise TableError(
                f"the table must have all training columns, {named} not found; {column_hint(absent[0], found)}"
            )
        added = [n for n in found if n not in self.columns and n not in self.others]
        if added:
            named = listed(map(repr, added))
            warnings.warn(f"columns not in the training table are ignored: {named}", DataWarning, stacklevel=5)

    def _apply_sparse(self, source: Any) -> Any:
        matrix = source if sparse.issparse(source) else read_table(source).to_numpy(dtype=np.float64)
        matrix = sparse.csr_matrix(matrix, dtype=np.float64)
        if matrix.shape[1] != self.n_sparse:
            raise TableError(f"the matrix must have {self.n_sparse} columns, found {matrix.shape[1]}")
        if matrix.shape[0] == 0:
            raise TableError("the matrix must have at least one row, found none")
        data, infinite = finite_or_missing(matrix.data)
        if infinite:
            matrix = sparse.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
        return matrix

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        return {
            "columns": [
                {"name": name, "kind": str(spec.kind), "format": spec.format, "lenient": spec.lenient}
                for name, spec in self.columns.items()
            ],
            "others": list(self.others),
            "by_position": self.by_position,
            "n_sparse": self.n_sparse,
            "missing": list(self.missing),
        }

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """The schema that `to_dict` described."""
        columns = {c["name"]: ColumnSpec(Kind(c["kind"]), c["format"], c["lenient"]) for c in content["columns"]}
        missing = tuple(content.get("missing", ()))
        return cls(columns, tuple(content["others"]), content["by_position"], content["n_sparse"], missing)


def _has_names(source: Any) -> bool:
    if isinstance(source, np.ndarray):
        return source.dtype.names is not None
    return isinstance(source, list | tuple) and bool(source) and isinstance(source[0], Mapping)
