"""`read_table`: a pandas DataFrame from a file or from what other libraries hold in memory.

====================================  =======================================================================
``.csv .tsv .tab .txt .data .dat``    delimited text; how it is written is found out, see `headstart.data.dialect`
``.parquet .pq``, ``.feather``        see `headstart.data.columnar`
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
import zipfile
import zlib
from collections.abc import Collection, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from headstart.data.arff import read_arff
from headstart.data.columnar import read_columnar
from headstart.data.delimited import MISSING_CELLS, read_delimited
from headstart.data.dialect import find_encoding
from headstart.data.errors import NOT_UNICODE, TableError
from headstart.data.objects import frame_of_object, frame_of_records, with_checked_names
from headstart.errors import InvalidInput, MissingDependency
from headstart.files import kind_of

DELIMITED = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat")
COMPRESSED = (".gz", ".bz2", ".xz", ".zip")
UNPACKED_BYTES = 2**28
UNPACKED_RATIO = 200
"""A compressed table that unpacks to more than `UNPACKED_BYTES` may grow by this factor at most."""
_CHUNK = 2**20
_SHEET_ROWS = 2**20
_SHEET_CELLS = 10**8
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
    source: Any,
    *,
    sheet: str | int | None = None,
    dialect: Mapping[str, Any] | None = None,
    as_text: Collection[str] = (),
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
    as_text
        Columns of delimited text to leave as they are written: ``007`` is not to become 7.

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
        frame = _read_file(path, sheet, dialect, as_text)
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
    kind = kind_of(path)
    if kind == "a directory":
        raise TableError(f"source must be a file, but {path} is a directory; give one of the files in it")
    if kind not in (None, "a file"):
        raise TableError(f"source must be a file, but {path} is {kind}; write the table to a file first")
    try:
        size = path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise TableError(f"{path} is a link to {os.readlink(path)}, which does not exist; mend the link") from None
        names = sorted(p.name for p in path.parent.iterdir()) if path.parent.is_dir() else []
        close = [n for n in names if n.lower().split(".")[0] == path.name.lower().split(".")[0]]
        hint = f"; did you mean {close[0]}?" if close else ""
        raise TableError(f"file {path} not found{hint}") from None
    except (OSError, ValueError) as error:
        raise TableError(f"{path} cannot be read: {error}") from None
    if size == 0:
        raise TableError(f"{path} must contain a table, but is empty")


def _read_file(
    path: Path, sheet: str | int | None, dialect: Mapping[str, Any] | None, as_text: Collection[str]
) -> pd.DataFrame:
    suffixes = [s.lower() for s in path.suffixes]
    compression = suffixes.pop() if suffixes and suffixes[-1] in COMPRESSED else ""
    if compression == ".zip":
        content, member = _zip_member(path)
        suffixes = [s.lower() for s in Path(member).suffixes] or suffixes
        return _read_stream(content, suffixes, path, sheet, dialect, as_text)
    if compression:
        openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
        with openers[compression](path) as packed:
            return _read_stream(_unpacked(packed, path.stat().st_size), suffixes, path, sheet, dialect, as_text)
    with path.open("rb") as stream:
        return _read_stream(stream, suffixes, path, sheet, dialect, as_text)


def _unpacked(packed: Any, size: int) -> io.BytesIO:
    """All that a compressed file of `size` bytes holds, unless that is out of all proportion."""
    content = io.BytesIO()
    while chunk := packed.read(_CHUNK):
        content.write(chunk)
        _check_proportion(content.tell(), size)
    content.seek(0)
    return content


def _check_proportion(unpacked: int, size: int) -> None:
    if unpacked > UNPACKED_BYTES and unpacked > UNPACKED_RATIO * size:
        raise TableError(
            f"a compressed table must not unpack to more than {UNPACKED_RATIO} times its size, found {size:,} bytes "
            f"that unpack to more than {UNPACKED_BYTES:,}; unpack it yourself if you trust it"
        )


def _size(stream: BinaryIO) -> int:
    size = stream.seek(0, os.SEEK_END)
    stream.seek(0)
    return size


def _zip_member(path: Path) -> tuple[io.BytesIO, str]:
    with zipfile.ZipFile(path) as archive:
        members = [n for n in archive.namelist() if not n.endswith("/") and not n.startswith("__MACOSX")]
        if len(members) != 1:
            raise TableError(f"a zip archive must contain one file, found {len(members)}; unpack it and give one")
        with archive.open(members[0]) as packed:
            return _unpacked(packed, path.stat().st_size), members[0]


def _read_stream(
    stream: BinaryIO,
    suffixes: list[str],
    path: Path,
    sheet: str | int | None,
    dialect: Mapping[str, Any] | None,
    as_text: Collection[str],
) -> pd.DataFrame:
    suffix = suffixes[-1] if suffixes else ""
    if suffix in DELIMITED:
        _check_text(stream)
        return read_delimited(stream, dialect, as_text)
    if suffix in (".parquet", ".pq", ".feather"):
        return read_columnar(stream, suffix)
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


def _read_json(text: str) -> pd.DataFrame:
    try:
        content = _parsed(text)
    except json.JSONDecodeError:
        content = _json_lines(text)
    if isinstance(content, dict) and not any(isinstance(v, list | dict) for v in content.values()):
        content = [content]  # a file of one line
    return frame_of_records(content)


def _parsed(text: str) -> Any:
    """What a JSON text says; numbers that are too large for a float are infinite, as they are in other files."""
    try:
        content = json.loads(text, parse_int=_whole)
    except RecursionError:
        raise TableError(
            "JSON must contain records of plain values, found hundreds of brackets in each other"
        ) from None
    if "\\ud" in text.lower() and not _is_unicode(content):
        raise TableError(NOT_UNICODE)
    return content


def _whole(digits: str) -> int | float:
    if len(digits) < 19:
        return int(digits)
    number = float(digits)
    return number if abs(number) >= 2**63 else int(digits)


def _is_unicode(content: Any) -> bool:
    try:
        json.dumps(content, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _json_lines(text: str) -> list[Any]:
    records = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records.append(_parsed(line))
            except json.JSONDecodeError as error:
                raise TableError(
                    f"line {number} must contain one JSON record, found {line.strip()[:40]!r}: {error}"
                ) from None
    return records


def _read_workbook(stream: BinaryIO, sheet: str | int | None) -> pd.DataFrame:
    if find_spec("openpyxl") is None:
        raise MissingDependency('Excel workbooks need openpyxl: pip install "headstart[excel]"')
    import openpyxl

    try:
        with zipfile.ZipFile(stream) as archive:
            _check_proportion(sum(info.file_size for info in archive.infolist()), _size(stream))
        workbook = openpyxl.load_workbook(stream, read_only=True, data_only=True, keep_links=False)
        sheets = {str(each.title): each for each in workbook.worksheets}
        names = list(sheets)
        if not names or (isinstance(sheet, str) and sheet not in sheets) or not _is_place(sheet, len(names)):
            raise TableError(f"sheet {sheet or 0!r} not found; sheets are {', '.join(names) or 'none'}")
        cells = pd.DataFrame(_rows(sheets[sheet if isinstance(sheet, str) else names[sheet or 0]]), dtype=object)
    except TableError:
        raise
    except Exception as error:  # openpyxl, zipfile and XML each have their own
        raise TableError(f"must be an Excel workbook, but is something else or damaged: {error}") from None
    cells = cells.dropna(how="all").dropna(how="all", axis=1)
    if not len(cells):
        raise TableError("must contain a table, but the sheet is empty")
    frame = cells.iloc[1:].infer_objects()
    frame.columns = pd.Index([f"unnamed_{i}" if pd.isna(n) else str(n) for i, n in enumerate(cells.iloc[0])])
    return frame


def _is_place(sheet: str | int | None, count: int) -> bool:
    return not isinstance(sheet, int) or 0 <= sheet < count


def _rows(sheet: Any) -> list[list[Any]]:
    """The cells of a sheet, row by row; what a file says of its size is not believed."""
    sheet.reset_dimensions()
    rows: list[list[Any]] = []
    width = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
        if number > _SHEET_ROWS:
            raise TableError(f"a sheet must have at most {_SHEET_ROWS:,} rows, found more; the file is damaged")
        values = [_cell_value(cell) for cell in row]
        while values and values[-1] is None:
            values.pop()
        if values:
            rows.append(values)
            width = max(width, len(values))
            if len(rows) * width > _SHEET_CELLS:
                raise TableError(f"a sheet must have at most {_SHEET_CELLS:,} cells, found more; save it as CSV")
    return rows


def _cell_value(cell: Any) -> Any:
    value = cell.value
    if value is None or cell.data_type == "e":
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return None if isinstance(value, str) and value.strip() in MISSING_CELLS else value
