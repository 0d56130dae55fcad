"""Reading delimited text (CSV, TSV and their like) into a pandas DataFrame."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any, BinaryIO

import pandas as pd

from headstart.data.dialect import SAMPLE_BYTES, Dialect, find_dialect
from headstart.data.errors import TableError, listed

_EXACT: dict[str, Any] = (
    {"float_precision": "round_trip"} if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1) else {}
)
"""Older versions of pandas read floats to the last digit only when asked; newer ones do, and warn when asked."""

MISSING_CELLS = ["", "?", "NA", "N/A", "n/a", "#N/A", "#NA", "<NA>", "NaN", "nan", "-NaN", "-nan", "null", "NULL"]
"""Cells that are missing values. Not among them: None, which is a proper category in many tables."""


def read_delimited(
    stream: BinaryIO, dialect: Mapping[str, Any] | None = None, as_text: Collection[str] = ()
) -> pd.DataFrame:
    """A table from text of which separator, encoding, quotes, header and decimal sign are found out.

    Parameters
    ----------
    stream
        A seekable stream of bytes.
    dialect
        Fields of `Dialect` that are known.
    as_text
        Columns whose cells are left as they are written.

    Returns
    -------
    DataFrame
        Its ``attrs["dialect"]`` has the fields of the `Dialect` that was found.
    """
    sample = stream.read(SAMPLE_BYTES)
    if not sample.strip():
        raise TableError("must contain a table, but is empty")
    complete = len(sample) < SAMPLE_BYTES
    known = dict(dialect or {})
    found = find_dialect(sample, complete=complete, known=known)
    try:
        return _read(stream, found, as_text)
    except UnicodeDecodeError:
        # The beginning was valid UTF-8 and a later part is not: some single-byte encoding.
        if "encoding" in known or found.encoding != "utf-8":
            raise TableError(f"cannot be decoded as {found.encoding}; give dialect={{'encoding': ...}}") from None
        known["encoding"] = "latin-1"
        return _read(stream, find_dialect(sample, complete=complete, known=known), as_text)


def _text(stream: BinaryIO, dialect: Dialect) -> io.TextIOWrapper:
    stream.seek(0)
    return io.TextIOWrapper(stream, encoding=dialect.encoding, newline="")


def _read(stream: BinaryIO, dialect: Dialect, as_text: Collection[str]) -> pd.DataFrame:
    names, dropped = _names(stream, dialect)
    text = _text(stream, dialect)
    try:
        for _ in range(dialect.skip):
            text.readline()
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # cells beyond the last column would be cut off
            frame: pd.DataFrame = pd.read_csv(
                text,
                header=0 if dialect.header else None,
                names=range(len(names)),
                dtype={i: str for i, name in enumerate(names) if name in as_text},
                index_col=False,
                sep=r"\s+" if dialect.separator == " " else dialect.separator,
                quotechar=dialect.quote,
                escapechar=dialect.escape,
                doublequote=dialect.escape is None,
                decimal=dialect.decimal,
                **_EXACT,
                skipinitialspace=True,
                na_values=MISSING_CELLS,
                keep_default_na=False,
                low_memory=False,
            )
    except pd.errors.EmptyDataError:
        frame = pd.DataFrame(columns=range(len(names)))
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        _check_widths(stream, dialect, len(names))
        raise TableError(f"cannot be split into rows and columns: {error}") from None
    finally:
        text.detach()
    # Rows that are too short come filled up with missing values, so only a gap in the last column can hide one.
    if not len(frame) or frame.iloc[:, -1].isna().any():
        _check_widths(stream, dialect, len(names))
    frame.columns = pd.Index(names, dtype=object)
    frame.attrs["dialect"] = asdict(dialect)
    return frame.iloc[:, : len(names) - dropped]


def _names(stream: BinaryIO, dialect: Dialect) -> tuple[list[str], int]:
    """Column names, and how many empty columns at the end are only an artefact of trailing separators."""
    text = _text(stream, dialect)
    try:
        rows = dialect.rows(text)
        first = next(rows, [])
        body = [row for row, _ in zip(rows, range(100), strict=False)]
    finally:
        text.detach()
    if not dialect.header:
        return [f"x{i}" for i in range(len(first))], 0
    names = [cell.strip() or f"unnamed_{i}" for i, cell in enumerate(first)]
    longer = bool(body) and all(len(row) == len(first) + 1 for row in body)
    if longer and not any(row[-1].strip() for row in body):
        return [*names, f"unnamed_{len(names)}"], 1
    if longer and _are_row_names([row[0] for row in body]):
        return ["row_name", *names], 0  # as R writes tables: no name above the names of the rows
    trailing = len(first) > 1 and not first[-1].strip() and not any(row[-1].strip() for row in body)
    return names, int(trailing)


def _are_row_names(cells: list[str]) -> bool:
    counted = cells == [str(i) for i in range(1, len(cells) + 1)]
    return counted or (len(set(cells)) == len(cells) and not any(c.replace(".", "").isdigit() for c in cells))


def _check_widths(stream: BinaryIO, dialect: Dialect, width: int) -> None:
    """Raise for rows with more or fewer cells than the table has columns."""
    text = _text(stream, dialect)
    wrong: list[tuple[int, int]] = []
    try:
        rows = dialect.rows(text)
        if dialect.header:
            next(rows, None)
        for number, row in enumerate(rows, start=1):
            # A line of nothing but blanks is a blank line, also to pandas.
            if len(row) != width and any(cell.strip() for cell in row):
                wrong.append((number, len(row)))
    except csv.Error as error:
        raise TableError(f"cannot be split into cells: {error}") from None
    finally:
        text.detach()
    if wrong:
        shown = listed((f"row {number} has {cells}" for number, cells in wrong), 3)
        raise TableError(
            f"every row must have as many cells as there are columns, {width}; {shown} "
            f"(separator {dialect.separator!r}, quote {dialect.quote!r}); fix these rows, or give "
            "dialect={'separator': ..., 'quote': ...}"
        )
