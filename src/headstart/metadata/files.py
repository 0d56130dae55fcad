"""A meta-dataset as a directory: `save_meta` and `load_meta`.

============================  =========================================================================================
``meta.json``                 format, name, space, tasks, ids, splits, initial designs, about, where tables that are
                              files lie, and of each other file its size and SHA-256
``pipelines.parquet``         a row per pipeline: its id, the algorithm of each stage, values and active columns, and
                              where it is free the order of the stages
``losses.parquet``            a row per pipeline, a column per task, in the order of ``meta.json``; NaN is missing
``seconds.parquet``           the same for runtimes, where they are known
``statuses.parquet``          the same for how evaluations ended, where that is known
``constraints_*.parquet``     the same for each value that a constraint may bound
``metafeatures_*.parquet``    a row per task, for each extractor
============================  =========================================================================================

Numbers are kept in 32 bits if all of a matrix fit without a change, else in 64. A directory is written beside its place
and renamed at the end, so that there is all of it or nothing; what is read is checked against the sizes and hashes.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from headstart.errors import HeadstartError, InvalidInput, MetaDataError
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.tables import as_json, from_json
from headstart.space.encoded import Encoded
from headstart.space.space import PipelineSpace

FORMAT = "headstart-meta"
VERSION = 1
"""Of the format; a directory of a later one is refused."""

_HEADER = "meta.json"
_PIPELINES = "pipelines.parquet"
_MATRICES = ("losses", "seconds", "statuses")
_CONSTRAINTS = "constraints_"
_METAFEATURES = "metafeatures_"
_CONTENT = {
    **dict.fromkeys(("space", "splits", "about", "files"), dict),
    **dict.fromkeys(("tasks", "ids", "initial", "tables", "metafeatures"), list),
    "name": str,
    "pipelines": int,
    "missing": float,
}
"""What the header must hold."""
_COLUMNS_AT_ONCE = 64
_ATTEMPTS = 20
_LOOKS = 5
_LEFT_BEHIND = 3600.0
"""Seconds after which an unfinished directory beside the place is taken for the remains of a crash."""


def save_meta(meta: MetaDataset, path: str | os.PathLike[str], *, replace: bool = False) -> Path:
    """Write a meta-dataset as a directory.

    Parameters
    ----------
    path
        A meta-dataset that is there already is replaced; any other directory that is not empty is left alone.
    replace
        Replace whatever directory is there.

    Raises
    ------
    InvalidInput
        There is something else at that place.
    MetaDataError
        It cannot be written, as on a full disk. Nothing is left behind then, and what was there before is unharmed.
    """
    target = Path(path).expanduser().absolute()
    if not (replace and target.is_dir()):
        check_target(target)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _sweep(target)
        temporary.mkdir()
        files = {name: _written(temporary / name, table) for name, table in _tables(meta)}
        header = {"format": FORMAT, "version": VERSION, **_described(meta), "files": files}
        with open(temporary / _HEADER, "x", encoding="utf-8") as stream:
            json.dump(header, stream)
            _flushed(stream)
        _put_in_place(temporary, target)
    except (OSError, pa.ArrowException) as error:
        raise MetaDataError(f"a meta-dataset cannot be written to {target}: {_reason(error)}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise `InvalidInput` unless a meta-dataset may be written to that place."""
    target = Path(path).expanduser().absolute()
    for _ in range(_LOOKS):
        try:
            if not any(target.iterdir()) or is_meta(target):
                return
        except FileNotFoundError:
            return
        except NotADirectoryError as error:
            if not target.is_file():  # a part of the path is one, which writing will say
                return
            raise InvalidInput(f"a meta-dataset is a directory, and {target} is a file; give another place") from error
        time.sleep(0.01)  # another process may be putting its own in place
    raise InvalidInput(f"{target} holds something else, so it was left alone; give a new or empty directory")


def is_meta(path: Path) -> bool:
    """Whether there is a meta-dataset of Headstart in a directory, of whatever version."""
    try:
        header = json.loads((path / _HEADER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(header, dict) and header.get("format") == FORMAT


def _sweep(target: Path) -> None:
    for old in target.parent.glob(f".{target.name}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):  # another process is done with it
            if time.time() - old.stat().st_mtime > _LEFT_BEHIND:
                shutil.rmtree(old, ignore_errors=True)


def _put_in_place(temporary: Path, target: Path) -> None:
    """Rename; an empty directory or an older meta-dataset gives way, also one that another process put there by now."""
    before = temporary.with_name(temporary.name.replace(".tmp", ".old.tmp"))
    for attempts_left in reversed(range(_ATTEMPTS)):
        with contextlib.suppress(FileNotFoundError):
            os.rename(target, before)
        try:
            os.rename(temporary, target)
            break
        except OSError as error:
            taken = error.errno in (errno.ENOTEMPTY, errno.EEXIST)
            if not taken or not attempts_left:
                with contextlib.suppress(OSError):
                    os.rename(before, target)
                raise
            shutil.rmtree(before, ignore_errors=True)
    shutil.rmtree(before, ignore_errors=True)


def _described(meta: MetaDataset) -> dict[str, Any]:
    return {
        "name": meta.name,
        "space": meta.pipelines.space.to_dict(),
        "tasks": list(meta.tasks),
        "ids": list(meta.ids),
        "splits": {name: positions.tolist() for name, positions in meta.splits.items()},
        "initial": [list(row) for row in meta.initial],
        "tables": [as_json(table) for table in meta.tables],
        "about": dict(meta.about),
        "pipelines": len(meta.pipelines),
        "missing": meta.missing,
        "metafeatures": list(meta.metafeatures),
        "constraints": meta.constraint_names,
    }


def _tables(meta: MetaDataset) -> Iterator[tuple[str, pa.Table]]:
    """The parquet files, one at a time."""
    pipelines = meta.pipelines
    columns: dict[str, NDArray[Any]] = {"id": pipelines.ids}
    columns |= {f"choice.{s}": pipelines.choice[:, s].astype(np.int16) for s in range(pipelines.choice.shape[1])}
    if pipelines.order is not None:
        columns |= {f"order.{s}": pipelines.order[:, s].astype(np.int16) for s in range(pipelines.order.shape[1])}
    for d in range(pipelines.space.width):
        columns[f"value.{d}"], columns[f"active.{d}"] = pipelines.values[:, d], pipelines.active[:, d].astype(np.uint8)
    yield _PIPELINES, pa.table({name: np.ascontiguousarray(column) for name, column in columns.items()})
    matrices: dict[str, NDArray[Any] | None] = {name: getattr(meta, name) for name in _MATRICES}
    matrices |= {f"{_CONSTRAINTS}{i}": matrix for i, matrix in enumerate(meta.constraints.values())}
    for name, matrix in matrices.items():
        if matrix is not None:
            kind = _smallest(matrix)
            yield f"{name}.parquet", pa.table({f"{t}": row.astype(kind) for t, row in enumerate(matrix)})
    for i, vectors in enumerate(meta.metafeatures.values()):
        kind = _smallest(vectors)
        yield f"{_METAFEATURES}{i}.parquet", pa.table({f"{k}": c.astype(kind) for k, c in enumerate(vectors.T)})


def _smallest(matrix: NDArray[Any]) -> np.dtype[Any]:
    """The type with the fewest bits that holds all numbers as they are."""
    if matrix.dtype.kind != "f":
        return matrix.dtype
    for row in matrix:
        with np.errstate(over="ignore"):
            small = row.astype(np.float32)
        if not np.array_equal(small.astype(row.dtype), row, equal_nan=True):
            return np.dtype(np.float64)
    return np.dtype(np.float32)


def _written(path: Path, table: pa.Table) -> dict[str, Any]:
    with open(path, "xb") as stream:
        pq.write_table(table, stream, compression="zstd", row_group_size=max(1, table.num_rows))
        _flushed(stream)
    content = path.read_bytes()
    return {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "rows": table.num_rows}


def _flushed(stream: Any) -> None:
    stream.flush()
    os.fsync(stream.fileno())


def _reason(error: BaseException) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:300]


# -- reading ------------------------------------------------------------------------------------------------------


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What ``meta.json`` says, without a look at the matrices; raises as `load_meta` does."""
    place = Path(path).expanduser()
    if not place.is_dir():
        what = "is a file" if place.exists() else "is not there"
        raise InvalidInput(f"a meta-dataset is a directory, and {place} {what}; give one that save_meta wrote")
    file = place / _HEADER
    if not file.exists():
        raise InvalidInput(f"{place} holds no meta-dataset: there is no {_HEADER} in it")
    try:
        header = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise MetaDataError(f"{file} cannot be read: {_reason(error)}") from error
    except ValueError as error:
        raise _damaged(place, f"{_HEADER} is not JSON") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise InvalidInput(f"{place} holds no meta-dataset of Headstart: its {_HEADER} is something else")
    version = header.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise MetaDataError(
            f"{place} has version {version} of the format, this Headstart knows version {VERSION}; update Headstart"
        )
    wrong = [name for name, kind in _CONTENT.items() if not isinstance(header.get(name), kind)]
    if wrong:
        raise _damaged(place, f"{_HEADER} has no proper {', '.join(wrong)}")
    return header


def load_meta(path: str | os.PathLike[str]) -> MetaDataset:
    """Read a meta-dataset that `save_meta` wrote.

    Raises
    ------
    InvalidInput
        There is no meta-dataset at that place.
    MetaDataError
        It is damaged, cannot be read, or a newer Headstart wrote it.
    """
    place = Path(path).expanduser()
    header = read_header(place)
    try:
        return _restored(place, header)
    except MetaDataError:
        raise
    except OSError as error:
        raise MetaDataError(f"{error.filename or place} cannot be read: {_reason(error)}") from error
    except (pa.ArrowException, HeadstartError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        # Whatever can be wrong inside files of the right outer form.
        raise _damaged(place, f"{type(error).__name__}: {error}") from error


def _damaged(place: Path, what: str) -> MetaDataError:
    return MetaDataError(
        f"the meta-dataset in {place} is damaged, {what[:200]}; make it again, or fetch it with --again"
    )


def _restored(place: Path, header: Mapping[str, Any]) -> MetaDataset:
    files: Mapping[str, Any] = header["files"]

    def matrix(name: str) -> NDArray[Any]:
        return _matrix(_parquet(place, f"{name}.parquet", files))

    measured: list[str] = header.get("constraints", [])  # older ones have none
    others: dict[str, Any] = {name: header[name] for name in ("tasks", "ids", "initial", "splits", "name", "about")}
    others |= {name: matrix(name) for name in _MATRICES if name == "losses" or f"{name}.parquet" in files}
    return MetaDataset(
        _pipelines(_parquet(place, _PIPELINES, files), PipelineSpace.from_dict(header["space"])),
        constraints={name: matrix(f"{_CONSTRAINTS}{i}") for i, name in enumerate(measured)},
        metafeatures={
            name: np.ascontiguousarray(matrix(f"{_METAFEATURES}{i}").T.astype(np.float64))
            for i, name in enumerate(header["metafeatures"])
        },
        tables=[from_json(table) for table in header["tables"]],
        **others,
    )


def _parquet(place: Path, name: str, files: Mapping[str, Any]) -> pq.ParquetFile:
    if name not in files:
        raise _damaged(place, f"{name} is missing from {_HEADER}")
    try:
        content = (place / name).read_bytes()
    except FileNotFoundError:
        raise _damaged(place, f"{name} is missing") from None
    if len(content) != files[name]["size"] or hashlib.sha256(content).hexdigest() != files[name]["sha256"]:
        raise _damaged(place, f"{name} is not what was written")
    return pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)), pre_buffer=False)


def _read(file: pq.ParquetFile, columns: list[str] | None = None) -> pa.Table:
    """In this thread: one of Arrow's own that still lets go of Python's bytes when Python ends aborts the process."""
    return file.read(columns=columns, use_threads=False)


def _numbers(column: pa.ChunkedArray) -> NDArray[Any]:
    """A column as an array. Arrow's own conversion would import pandas first, which takes longer than all the rest."""
    whole = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    return np.from_dlpack(whole)


def _matrix(file: pq.ParquetFile) -> NDArray[Any]:
    """A row for each column of the file. Some columns at a time, for both together would take twice the memory."""
    names = file.schema_arrow.names
    kind = file.schema_arrow.types[0].to_pandas_dtype() if names else np.float32
    matrix = np.empty((len(names), file.metadata.num_rows), dtype=kind)
    for start in range(0, len(names), _COLUMNS_AT_ONCE):
        part = _read(file, names[start : start + _COLUMNS_AT_ONCE])
        for i, column in enumerate(part.columns):
            matrix[start + i] = _numbers(column)
    return matrix


def _pipelines(file: pq.ParquetFile, space: PipelineSpace) -> Encoded:
    table = _read(file)

    def columns(kind: str, number: int, dtype: type) -> NDArray[Any]:
        found = np.empty((table.num_rows, number), dtype=dtype)
        for i in range(number):
            found[:, i] = _numbers(table[f"{kind}.{i}"])
        return found

    stages = len(space.stages)
    return Encoded(
        space,
        columns("value", space.width, np.float64),
        columns("active", space.width, bool),
        columns("choice", stages, np.int64),
        columns("order", stages, np.int64) if space.free_order else None,
        _numbers(table["id"]).copy(),
    )
