"""`read_table`: a pandas DataFrame from a file or from what other libraries hold in memory.

====================================  =======================================================================
``.csv .tsv .tab .txt .data .dat``    delimited text; how it is written is found out, see `headstart.data.dialect`
``.parquet .pq``, ``.feather``        need pyarrow (``pip install "headstart[parquet]"``)
``.arff``                             see `headstart.data.arff`
``.jsonl .ndjson``, ``.json``         one record per line; a list of records, or lists by column name
``.xlsx .xlsm``                       the first sheet or the one named; needs openpyxl (``headstart[excel]``)
====================================  =======================================================================

Each may be compressed (``.gz .bz2 .xz .zip``). Reading never runs code from a file: there are no pickles, and
formulas in a workbook are not computed.
"""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import shutil
import zipfile
import zlib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from headstart.data.arff import read_arff
from headstart.data.delimited import read_delimited
from headstart.data.dialect import find_encoding
from headstart.data.errors import TableError
from headstart.data.objects import frame_of_object, frame_of_records, with_checked_names
from headstart.errors import InvalidInput, MissingDependency

DELIMITED = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat")
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
_BINARY_MARKS = {
    b"PAR1": "a Parquet file",
    b"ARROW1": "a Feather file",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\x1f\x8b": "a gzip file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook",
    b"%PDF": "a PDF",
    b"\x89PNG": "an image",
}


def read_table(
    source: Any, *, sheet: str | int | None = None, dialect: Mapping[str, Any] | None = None
) -> pd.DataFrame:
    """A table from a path or an object.

    Parameters
    ----------
    source
        A path, or a pandas, polars or Arrow table or series, a NumPy array (also a structured one), a SciPy sparse
        matrix, a list of records or a mapping of columns. The index of a pandas object is left out.
    sheet
        Name or position of a sheet; only for workbooks. The first one by default.
    dialect
        Fields of `headstart.data.dialect.Dialect` that need not be found out, such as ``{"separator": ";"}``; only for
        delimited text.

    Returns
    -------
    DataFrame
        With unique column names, all of them strings, at least one row, and rows numbered from 0.

    Raises
    ------
    TableError
        The source cannot be read, or contains no table.
    MissingDependency
        A package is needed that is not installed.
    """
    if not isinstance(source, str | os.PathLike):
        return with_checked_names(frame_of_object(source), "the table")
    path = Path(source)
    _check_file(source, path)
    try:
        frame = _read_file(path, sheet, dialect)
    except PermissionError:
        raise TableError(f"{path} must be readable; change its permissions") from None
    except MissingDependency:
        raise
    except InvalidInput as error:
        raise TableError(f"{path}: {error}") from None
    except (EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, OSError) as error:
        raise TableError(f"{path} cannot be read, it may be damaged or truncated: {error}") from None
    return with_checked_names(frame, str(path))


def _check_file(source: Any, path: Path) -> None:
    if str(source).partition("://")[0] in ("http", "https", "s3", "ftp", "gs"):
        raise TableError(f"source must be a file or a table, found the URL {source}; download it first")
    if path.is_dir():
        raise TableError(f"source must be a file, but {path} is a directory; give one of the files in it")
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        names = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        close = [n for n in names if n.lower().split(".")[0] == path.name.lower().split(".")[0]]
        hint = f"; did you mean {close[0]}?" if close else ""
        raise TableError(f"file {path} not found{hint}") from None
    except (OSError, ValueError) as error:
        raise TableError(f"{path} cannot be read: {error}") from None
    if size == 0:
        raise TableError(f"{path} must contain a table, but is empty")


def _read_file(path: Path, sheet: str | int | None, dialect: Mapping[str, Any] | None) -> pd.DataFrame:
    suffixes = [s.lower() for s in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSED else ""
    if compression == ".zip":
        content, member = _zip_member(path)
        suffixes = [s.lower() for s in Path(member).suffixes] or suffixes
        return _read_stream(io.BytesIO(content), suffixes, path, sheet, dialect)
    if compression:
        openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        with openers[compression](path) as packed:
            return _read_stream(io.BytesIO(packed.read()), suffixes, path, sheet, dialect)
    with path.open("rb") as stream:
        return _read_stream(stream, suffixes, path, sheet, dialect)


def _zip_member(path: Path) -> tuple[bytes, str]:
    with zipfile.ZipFile(path) as archive:
        members = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX")]
        if len(members) != 1:
            raise TableError(f"a zip archive must contain one file, found {len(members)}; unpack it and give one")
        return archive.read(members[0]), members[0]


def _read_stream(
    stream: BinaryIO, suffixes: list[str], path: Path, sheet: str | int | None, dialect: Mapping[str, Any] | None
) -> pd.DataFrame:
    suffix = suffixes[-1] if suffixes else ""
    if suffix in DELIMITED:
        _check_text(stream)
        return read_delimited(stream, dialect)
    if suffix in (".parquet", ".pq", ".feather"):
        return _read_columnar(stream, suffix)
    if suffix == ".arff":
        return read_arff(_whole_text(stream))
    if suffix in (".json", ".jsonl", ".ndjson"):
        return _read_json(_whole_text(stream))
    if suffix in (".xlsx", ".xlsm"):
        return _read_workbook(stream, sheet)
    if suffix == ".xls":
        raise TableError("workbooks must be .xlsx, found the old format .xls; save it as .xlsx or as CSV")
    known = (*DELIMITED, ".parquet", ".pq", ".feather", ".arff", ".json", ".jsonl", ".ndjson", ".xlsx", ".xlsm")
    raise TableError(
        f"the suffix must tell the kind of file, found {suffix or 'none'} in {path.name!r}; known are "
        f"{' '.join(known)}, each also with {' '.join(COMPRESSED)}"
    )


def _check_text(stream: BinaryIO) -> None:
    start = stream.read(8)
    stream.seek(0)
    for mark, what in _BINARY_MARKS.items():
        if start.startswith(mark):
            raise TableError(f"must be text, found {what}; rename it to match its content")


def _whole_text(stream: BinaryIO) -> str:
    _check_text(stream)
    content = stream.read()
    if not content.strip():
        raise TableError("must contain a table, but is empty")
    return content.decode(find_encoding(content, complete=True))


def _read_columnar(stream: BinaryIO, suffix: str) -> pd.DataFrame:
    what = "Feather" if suffix == ".feather" else "Parquet"
    if find_spec("pyarrow") is None:
        raise MissingDependency(f'{what} files need pyarrow: pip install "headstart[parquet]"')
    import pyarrow as pa

    reader: Any = pd.read_feather if suffix == ".feather" else pd.read_parquet
    try:
        # copied out of Python's hands: a thread of Arrow that lets go of a Python object when Python ends aborts it
        content = pa.BufferOutputStream()
        shutil.copyfileobj(stream, content)
        frame: pd.DataFrame = reader(pa.BufferReader(content.getvalue()))
        return frame
    except PermissionError:
        raise
    except Exception as error:  # pyarrow has many
        raise TableError(f"must be a {what} file, but is something else or damaged: {error}") from None


def _read_json(text: str) -> pd.DataFrame:
    try:
        content = json.loads(text)
    except json.JSONDecodeError:
        content = _json_lines(text)
    if isinstance(content, dict) and not any(isinstance(v, list | dict) for v in content.values()):
        content = [content]  # a file of one line
    return frame_of_records(content)


def _json_lines(text: str) -> list[Any]:
    records = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise TableError(
                    f"line {number} must contain one JSON record, found {line.strip()[:40]!r}: {error}"
                ) from None
    return records


def _read_workbook(stream: BinaryIO, sheet: str | int | None) -> pd.DataFrame:
    if find_spec("openpyxl") is None:
        raise MissingDependency('Excel workbooks need openpyxl: pip install "headstart[excel]"')
    try:
        workbook = pd.ExcelFile(stream, engine="openpyxl")
    except Exception as error:  # openpyxl, zipfile and XML each have their own
        raise TableError(f"must be an Excel workbook, but is something else or damaged: {error}") from None
    with workbook:
        names = [str(n) for n in workbook.sheet_names]
        if (isinstance(sheet, str) and sheet not in names) or (isinstance(sheet, int) and not 0 <= sheet < len(names)):
            raise TableError(f"sheet {sheet!r} not found; sheets are {', '.join(names)}")
        # Without a header row, because pandas would rename repeated names silently.
        cells = pd.read_excel(workbook, sheet_name=sheet or 0, header=None)
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    if not len(cells):
        raise TableError("must contain a table, but the sheet is empty")
    frame = cells.iloc[1:].infer_objects()
    frame.columns = pd.Index([f"unnamed_{i}" if pd.isna(n) else str(n) for i, n in enumerate(cells.iloc[0])])
    return frame
