"""How a delimited text file is written, found out from its beginning.

Every combination of separator and quote is tried on the first rows. A good one cuts them into the same number of cells,
and the cells look like numbers, dates or plain words rather than like pieces of something else: the measure is the
consistency of the rows times the plausibility of the cells, an idea of van den Burg, Nazábal and Sutton (2019),
"Wrangling messy CSV files by detecting row and type patterns".
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from headstart.data.errors import TableError
from headstart.errors import suggestion

SAMPLE_BYTES = 256 * 1024
SAMPLE_ROWS = 300
SEPARATORS = (",", "\t", ";", "|", " ")

_NUMBER = re.compile(r"[+-]?(?:\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?%?$")
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+$")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:[eE][+-]?\d+)?$")
_DECIMAL_DOT = re.compile(r"[+-]?\d*\.\d+(?:[eE][+-]?\d+)?$")
_MOMENT = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}(?:[T ][\d:.]+(?: ?[AaPp][Mm])?(?:Z|[+-]\d\d:?\d\d)?)?$")
_WORD = re.compile(r"[\w.@#&+*()/:_-]+$")
_WORDS = re.compile(r"[\w.@#&+*()/:_ '!?-]+$")
_MISSING = frozenset(("", "?", "na", "n/a", "nan", "null", "none", "-"))
_PLAUSIBILITY = {"number": 1.0, "moment": 1.0, "missing": 0.9, "word": 0.9, "words": 0.8, "text": 0.5, "quoted": 0.1}


@dataclass(frozen=True)
class Dialect:
    """How a delimited text file is written.

    Parameters
    ----------
    encoding
        A codec that Python knows.
    separator
        One character; a blank stands for any run of blanks.
    quote
        The character around cells that hold a separator.
    escape
        The character that makes a quote part of a cell; None where it is doubled instead.
    header
        Whether the first row names the columns.
    decimal
        ``.`` or ``,``.
    skip
        Lines before the first row.
    """

    encoding: str = "utf-8"
    separator: str = ","
    quote: str = '"'
    escape: str | None = None
    header: bool = True
    decimal: str = "."
    skip: int = 0

    def rows(self, text: io.TextIOBase | Sequence[str]) -> Iterator[list[str]]:
        """The cells of each row that is not empty."""
        lines = iter(text)
        for _ in range(self.skip):
            next(lines, None)
        if self.separator == " ":
            lines = (line.strip() + "\n" for line in lines)
        reader = csv.reader(
            lines,
            delimiter=self.separator,
            quotechar=self.quote,
            escapechar=self.escape,
            doublequote=self.escape is None,
            skipinitialspace=True,
        )
        return (row for row in reader if row)


def find_encoding(sample: bytes, *, complete: bool) -> str:
    """The encoding of a text file from its first bytes; `TableError` if they are not text.

    Byte-order marks decide; otherwise UTF-16 is known by its zero bytes, UTF-8 by being valid, and the rest is
    Windows-1252 or, where that has no such character, Latin-1.
    """
    if sample.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    if b"\0" in sample:
        even, odd = sample[0::2].count(0), sample[1::2].count(0)
        half = len(sample) // 2
        if odd > 0.4 * half and even < 0.05 * half:
            return "utf-16-le"
        if even > 0.4 * half and odd < 0.05 * half:
            return "utf-16-be"
        raise TableError("must be text, found zero bytes: it looks binary")
    control = sum(sample.count(bytes([c])) for c in (*range(9), *range(14, 32), 127))
    if control > 0.002 * len(sample) + 1:
        raise TableError(f"must be text, found {control} control characters in {len(sample)} bytes: it looks binary")
    for encoding in ("utf-8", "cp1252"):
        try:
            codecs.getincrementaldecoder(encoding)().decode(sample, final=complete)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def find_dialect(sample: bytes, *, complete: bool, known: Mapping[str, Any] | None = None) -> Dialect:
    """How the file is written whose first bytes are `sample`.

    Parameters
    ----------
    sample
        The beginning of the file.
    complete
        Whether that is all of it.
    known
        Fields of `Dialect` that need not be found out.
    """
    given = dict(known or {})
    names = [f.name for f in fields(Dialect)]
    for name in given:
        if name not in names:
            raise TableError(f"dialect: {name!r} is not part of a dialect; {suggestion(name, names)}")
    dialect = replace(Dialect(encoding=given.get("encoding") or find_encoding(sample, complete=complete)), **given)
    lines = _decoded_lines(sample, dialect.encoding, complete)
    skip = next((i for i, line in enumerate(lines) if line.strip()), 0)
    if declared := re.match(r"sep=(.)\s*$", lines[skip] if lines else ""):  # how Excel marks its exports
        skip += 1
        given.setdefault("separator", declared.group(1))
    dialect = replace(dialect, skip=given.get("skip", skip))
    text = "".join(lines[dialect.skip :])
    if "escape" not in given and '\\"' in text and '""' not in text:
        dialect = replace(dialect, escape="\\")

    tried: list[tuple[float, Dialect, list[list[str]]]] = []
    for separator in (given["separator"],) if "separator" in given else SEPARATORS:
        for quote in (given["quote"],) if "quote" in given else _quotes_in(text, separator):
            candidate = replace(dialect, separator=separator, quote=quote)
            rows = _first_rows(candidate, lines, complete)
            tried.append((_score(rows, separator), candidate, rows))
    score, dialect, rows = max(tried, key=lambda t: t[0])  # the first of equals
    if score <= 0:  # a single column
        dialect = replace(dialect, separator=given.get("separator", ","))
        rows = _first_rows(dialect, lines, complete)
    if "header" not in given:
        dialect = replace(dialect, header=_has_header(rows))
    if "decimal" not in given:
        dialect = replace(dialect, decimal=_decimal_sign(rows[1:], dialect.separator))
    return dialect


def _decoded_lines(sample: bytes, encoding: str, complete: bool) -> list[str]:
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(sample, final=complete)
    except (UnicodeDecodeError, LookupError) as error:
        raise TableError(f"cannot be decoded as {encoding}: {error}; give dialect={{'encoding': ...}}") from None
    return io.StringIO(text, newline="").readlines()


def _first_rows(dialect: Dialect, lines: list[str], complete: bool) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in dialect.rows(lines):
            rows.append(row)
            if len(rows) > SAMPLE_ROWS:
                return rows[:-1]
    except csv.Error:
        return rows[:-1]
    return rows if complete or len(rows) < 2 else rows[:-1]  # the last one may be cut off


def _quotes_in(text: str, separator: str) -> list[str]:
    """Quotes that stand at the edges of cells; always the double one."""
    if "'" not in text:
        return ['"']
    edge = re.escape(separator)
    opened = len(re.findall(rf"(?:^|{edge}) *'", text, re.MULTILINE))
    closed = len(re.findall(rf"' *(?:\r?$|{edge})", text, re.MULTILINE))
    return ['"', "'"] if opened and closed else ['"']


def _score(rows: list[list[str]], separator: str) -> float:
    """Consistency of the rows' lengths times plausibility of their cells; 0 where the separator cuts nothing."""
    if not rows:
        return 0.0
    body = rows[1:] if len(rows) > 2 else rows  # the header may lack the name of the row names
    lengths = Counter(map(len, body))
    usual, count = lengths.most_common(1)[0]
    if usual == 1 or count < 0.5 * len(body):
        return 0.0
    fits_header = len(rows[0]) in (usual, usual - 1)
    if separator == " " and (count < 0.95 * len(body) or not fits_header):
        return 0.0  # blanks stand inside sentences too, in numbers that vary
    consistency = sum(n / len(body) * (k - 1) / k for k, n in lengths.items()) / len(lengths)
    cells = Counter(_look(cell) for row in rows for cell in row)
    plausibility = sum(_PLAUSIBILITY[look] * n for look, n in cells.items()) / cells.total()
    return consistency * plausibility * (1.0 if fits_header else 0.3)


def _look(cell: str) -> str:
    cell = cell.strip()
    if _NUMBER.match(cell):
        return "number"
    if cell.lower() in _MISSING:
        return "missing"
    if _MOMENT.match(cell):
        return "moment"
    if cell[0] in "\"'" or cell[-1] in "\"'":
        return "quoted"
    if _WORD.match(cell):
        return "word"
    return "words" if _WORDS.match(cell) else "text"


def _has_header(rows: list[list[str]]) -> bool:
    """Whether the first row reads as names.

    A numeric column whose first cell is not a number speaks for it, one whose first cell is a number speaks against it.
    Without numeric columns, names are names unless they come again in their columns.
    """
    if len(rows) < 2:
        return bool(rows) and not any(_look(cell) == "number" for cell in rows[0])
    first, body = rows[0], rows[1:]
    if _counts_columns(first, body):
        return True
    votes = 0
    for position, name in enumerate(first):
        column = [row[position].strip() for row in body if len(row) > position]
        looks = Counter(_look(cell) for cell in column)
        present = len(column) - looks["missing"]
        measured = looks["number"] + looks["moment"]
        if present and measured >= 0.9 * present:
            look = _look(name)
            votes += -1 if look in ("number", "moment") else 0 if look == "missing" else 1
    if votes:
        return votes > 0
    recurs = any(name.strip() and name in (row[i] for row in body if len(row) > i) for i, name in enumerate(first))
    return not recurs and len(set(first)) == len(first) and not any(_look(name) == "number" for name in first)


def _counts_columns(first: list[str], body: list[list[str]]) -> bool:
    """Whether the numbers of a row count columns or years (0, 1, 2, …) and its words come nowhere else."""
    numbers = [cell.strip() for cell in first if _look(cell) == "number"]
    if len(numbers) < 3 or not all(n.isdigit() for n in numbers):
        return False
    counted = [int(n) for n in numbers]
    if counted != list(range(counted[0], counted[0] + len(counted))) or (
        len(counted) == len(first) and counted[0] != 0
    ):
        return False
    words = {cell for cell in first if cell.strip() not in numbers}
    return first not in body and not any(cell in words for row in body for cell in row)


def _decimal_sign(rows: list[list[str]], separator: str) -> str:
    cells = [cell.strip() for row in rows for cell in row if "," in cell or "." in cell]
    commas = [cell for cell in cells if _DECIMAL_COMMA.match(cell)]
    dots = sum(1 for cell in cells if _DECIMAL_DOT.match(cell))
    if not commas or dots >= len(commas):
        return "."
    if separator != ";" and all(_GROUPED.match(cell) for cell in commas):
        return "."  # thousands, not decimals
    return ","
