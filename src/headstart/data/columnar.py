"""Parquet and Feather files, read with pyarrow; large Parquet files a few columns at a time.

A piece is made compact (`headstart.data.compact`) before the next one is read, so reading takes little more memory than
the table that comes of it. Texts are held as codes of the different ones.
"""

from __future__ import annotations

import io
import shutil
from typing import Any, BinaryIO

import pandas as pd
import psutil

from headstart.data.compact import compact, is_large
from headstart.data.errors import TableError

PIECE_BYTES = 2**27
"""About what is read at once, if cells have eight bytes."""
_CELL_BYTES = 4
_FREE_SHARE = 0.9


def read_columnar(stream: BinaryIO, suffix: str) -> pd.DataFrame:
    """The table in a Parquet or Feather file."""
    what = "Feather" if suffix == ".feather" else "Parquet"
    try:
        if suffix == ".feather":
            return pd.read_feather(_source(stream))
        return _read_parquet(stream)
    except (PermissionError, TableError):
        raise
    except Exception as error:  # pyarrow has many
        raise TableError(f"must be a {what} file, but is something else or damaged: {error}") from None


def _source(stream: BinaryIO) -> Any:
    """What pyarrow reads from; never a Python object: a thread of Arrow that lets go of one when Python ends aborts."""
    import pyarrow as pa

    if isinstance(stream, io.BufferedReader) and isinstance(stream.name, str):
        return pa.OSFile(stream.name)
    content = pa.BufferOutputStream()
    shutil.copyfileobj(stream, content)
    return pa.BufferReader(content.getvalue())


def _read_parquet(stream: BinaryIO) -> pd.DataFrame:
    import pyarrow as pa
    import pyarrow.parquet as pq

    source = _source(stream)
    file = pq.ParquetFile(source)
    schema, rows = file.schema_arrow, file.metadata.num_rows
    if not is_large(rows, len(schema.names)):
        source.seek(0)
        return pd.read_parquet(source)
    _check_room(rows, len(schema.names))
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    names = [name for name in schema.names if name not in index]
    texts = [f.name for f in schema if pa.types.is_string(f.type) or pa.types.is_large_string(f.type)]
    file = pq.ParquetFile(source, read_dictionary=texts)
    step = max(1, PIECE_BYTES // (8 * rows))
    columns: dict[str, Any] = {}
    for start in range(0, len(names), step):
        piece = file.read(columns=names[start : start + step])
        for name in piece.column_names:
            columns[name] = _column(piece.column(name), name in texts)
        del piece
    pa.default_memory_pool().release_unused()
    return pd.DataFrame(columns, copy=False)


def _check_room(rows: int, columns: int) -> None:
    """Say so before it is read if a table cannot be held."""
    needed, free = rows * columns * _CELL_BYTES, psutil.virtual_memory().available
    if needed > _FREE_SHARE * free:
        raise TableError(
            f"must fit into memory, but {rows:,} rows × {columns:,} columns take about {needed / 1e9:.0f} GB and "
            f"{free / 1e9:.0f} GB are free; write a file with a sample of the rows"
        )


def _column(column: Any, text: bool) -> Any:
    """A column in few bytes; what is neither text nor numbers as pandas has it."""
    import pyarrow as pa

    if text:
        return pd.arrays.ArrowExtensionArray(column.unify_dictionaries())
    if pa.types.is_boolean(column.type) and column.null_count:
        return pd.array(column.to_pandas(), dtype="boolean")
    series = column.to_pandas()
    return compact(series.to_numpy()) if series.dtype.kind in "iuf" else series.array
