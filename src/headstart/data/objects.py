"""Tables that other libraries hold in memory, as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from headstart.data.errors import TableError


def frame_of_object(source: Any) -> pd.DataFrame:
    """A DataFrame from any table-like object; `TableError` for what is none."""
    if isinstance(source, pd.DataFrame):
        return source
    if isinstance(source, pd.Series):
        return source.to_frame("x0" if source.name is None else source.name)
    library = type(source).__module__.partition(".")[0]
    if library == "polars":
        return _of_polars(source)
    if library == "pyarrow" and hasattr(source, "to_pandas") and hasattr(source, "column_names"):
        return pd.DataFrame(source.to_pandas())
    if sparse.issparse(source):
        return _of_sparse(source)
    if isinstance(source, np.ndarray):
        return _of_array(source)
    if isinstance(source, list | tuple | Mapping):
        return frame_of_records(source)
    raise TableError(
        "source must be a path, a pandas, polars or Arrow table, a NumPy array, a SciPy sparse matrix, a list of "
        f"records or a mapping of columns, got {type(source).__name__}"
    )


def frame_of_records(content: Any) -> pd.DataFrame:
    """A DataFrame from a list of records, a list of rows, or a mapping of columns."""
    if isinstance(content, Mapping):
        lengths = {
            str(k): len(v) if isinstance(v, Sequence | np.ndarray | pd.Series) else None for k, v in content.items()
        }
        if None in lengths.values() or len(set(lengths.values())) > 1:
            raise TableError(f"a mapping must contain columns of equal length, found {lengths}")
        return pd.DataFrame({k: list(v) if isinstance(v, tuple) else v for k, v in content.items()})
    if not isinstance(content, list | tuple) or not content:
        found = "none" if isinstance(content, list | tuple) else type(content).__name__
        raise TableError(f"a table must have at least one row, found {found}")
    if all(isinstance(record, Mapping) for record in content):
        return pd.DataFrame.from_records(list(content))
    if any(isinstance(record, Mapping) for record in content):
        raise TableError("a list must contain either records or rows, found both")
    widths = {len(row) if isinstance(row, list | tuple | np.ndarray) else 0 for row in content}
    if widths == {0}:
        return _named_by_position(pd.DataFrame({0: list(content)}))
    if len(widths) > 1:
        raise TableError(f"every row must have the same number of values, found {sorted(widths)}")
    return _named_by_position(pd.DataFrame([list(row) for row in content]))


def with_checked_names(frame: pd.DataFrame, what: str) -> pd.DataFrame:
    """The frame with string names and a plain index; `TableError` for repeated names or no rows."""
    if isinstance(frame.columns, pd.MultiIndex):
        names = ["_".join(str(part) for part in label if str(part)) for label in frame.columns]
    else:
        names = [str(label) for label in frame.columns]
    repeated = sorted({n for n in names if names.count(n) > 1}) if len(set(names)) < len(names) else []
    if repeated:
        raise TableError(f"{what}: column names must be unique, found {', '.join(map(repr, repeated))} more than once")
    if not names:
        raise TableError(f"{what} must have at least one column, found none")
    if not len(frame):
        raise TableError(f"{what} must have at least one row, found none below the {len(names)} column names")
    frame = frame.set_axis(pd.Index(names, dtype=object), axis=1)
    return frame.reset_index(drop=True)


def _named_by_position(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.set_axis(pd.Index([f"x{i}" for i in range(frame.shape[1])]), axis=1)


def _of_polars(source: Any) -> pd.DataFrame:
    if hasattr(source, "collect"):
        source = source.collect()
    if not hasattr(source, "columns"):
        source = source.to_frame(source.name or "x0")
    return pd.DataFrame(source.to_pandas())


def _of_sparse(source: Any) -> pd.DataFrame:
    accessor: Any = pd.DataFrame.sparse
    return _named_by_position(accessor.from_spmatrix(sparse.csc_matrix(source)))


def _of_array(source: np.ndarray[Any, Any]) -> pd.DataFrame:
    if source.dtype.names:
        return pd.DataFrame({name: source[name] for name in source.dtype.names})
    if source.ndim not in (1, 2):
        raise TableError(f"an array must have rows and columns, found {source.ndim} dimensions {source.shape}")
    if source.dtype.kind in "cV":
        raise TableError(f"an array must contain real numbers, text or objects, found {source.dtype}")
    frame = _named_by_position(pd.DataFrame(source if source.ndim == 2 else source[:, None]))
    return frame.infer_objects() if source.dtype == object else frame
