"""Reading ARFF, the text format of Weka and OpenML.

Written here because SciPy's reader takes no string attributes: nominal attributes become pandas categories with the
declared values, ``?`` is missing, dates, quoted values and sparse rows are understood. Relational attributes and
instance weights are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from headstart.data.errors import TableError

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s{{]+)\s*(.+)$", re.IGNORECASE)
_BARE = r"(?!['\"])[^,]*?"
_CELL = re.compile(rf"\s*({_QUOTED}|{_BARE})\s*(?:,|$)")
_SPARSE_CELL = re.compile(rf"\s*(\d{{1,9}})\s+({_QUOTED}|{_BARE})\s*(?:,|$)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
_JAVA_DATES = (("yyyy", "%Y"), ("yy", "%y"), ("MM", "%m"), ("dd", "%d"), ("HH", "%H"), ("mm", "%M"), ("ss", "%S"))


@dataclass(frozen=True)
class _Attribute:
    name: str
    type: str  # number, nominal, string or date
    values: tuple[str, ...] = ()
    date_format: str | None = None


def read_arff(text: str) -> pd.DataFrame:
    """A table from the text of an ARFF file.

    >>> read_arff("@relation r\\n@attribute a numeric\\n@attribute b {x, y}\\n@data\\n1,x\\n?,y").to_dict("list")
    {'a': [1.0, nan], 'b': ['x', 'y']}
    """
    lines = enumerate(text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), start=1)
    attributes = _header(lines)
    columns: list[list[str | None]] = [[] for _ in attributes]
    for number, line in lines:
        line = line.strip()
        if not line or line.startswith("%"):
            continue
        cells = _sparse_row(line, number, attributes) if line.startswith("{") else _row(line, number)
        if len(cells) != len(attributes):
            raise TableError(f"every row must have {len(attributes)} values, line {number} has {len(cells)}")
        for column, cell in zip(columns, cells, strict=True):
            column.append(cell)
    names = [a.name for a in attributes]
    series = [_column(a, c) for a, c in zip(attributes, columns, strict=True)]
    frame = pd.DataFrame(dict(enumerate(series)))
    frame.columns = pd.Index(names, dtype=object)
    return frame


def _header(lines: Iterator[tuple[int, str]]) -> list[_Attribute]:
    attributes: list[_Attribute] = []
    for number, line in lines:
        line = line.strip()
        word = line.split(None, 1)[0].lower() if line else ""
        if word == "@data":
            if not attributes:
                raise TableError("an ARFF file must declare its @attribute lines before @data, found none")
            return attributes
        if word == "@attribute":
            attributes.append(_attribute(line, number))
        elif word and not word.startswith(("%", "@relation")):
            raise TableError(f"line {number} of an ARFF header must be a comment or start with @, found {line[:40]!r}")
    raise TableError("an ARFF file must have a line @data, found none")


def _attribute(line: str, number: int) -> _Attribute:
    found = _ATTRIBUTE.match(line)
    if not found:
        raise TableError(f"line {number} must read '@attribute name type', found {line[:60]!r}")
    name, declared = _unquoted(found.group(1)), found.group(2).strip()
    if declared.startswith("{"):
        inside = declared[1 : declared.rindex("}")] if "}" in declared else declared[1:]
        values = dict.fromkeys(v for v in _row(inside, number) if v is not None)
        return _Attribute(name, "nominal", tuple(values))
    word, _, rest = declared.partition(" ")
    match word.lower():
        case "numeric" | "real" | "integer":
            return _Attribute(name, "number")
        case "string":
            return _Attribute(name, "string")
        case "date":
            return _Attribute(name, "date", date_format=_strptime_format(_unquoted(rest.strip())))
    raise TableError(
        f"line {number}: attribute {name!r} must be numeric, string, date or a list {{…}} of values, "
        f"found {declared[:40]!r}"
    )


def _row(line: str, number: int) -> list[str | None]:
    if "'" not in line and '"' not in line:
        return [None if cell == "?" else cell for cell in map(str.strip, line.split(","))]
    cells: list[str | None] = []
    position = 0
    while position <= len(line):
        found = _CELL.match(line, position)
        if not found:
            raise TableError(f"line {number} has a quote that is not closed, or text after one: {line[:60]!r}")
        cells.append(None if found.group(1) == "?" else _unquoted(found.group(1)))
        if found.end() == len(line):
            if line.endswith(",") and found.group(0).endswith(","):
                cells.append("")
            break
        position = found.end()
    return cells


def _sparse_row(line: str, number: int, attributes: list[_Attribute]) -> list[str | None]:
    if not line.endswith("}"):
        raise TableError(f"line {number}: a sparse row must end with }}, found {line[-20:]!r}")
    # What is left out is 0, which for a nominal attribute is its first value.
    cells: list[str | None] = [a.values[0] if a.values else "0" if a.type == "number" else None for a in attributes]
    inside, position = line[1:-1].strip(), 0
    while position < len(inside):
        found = _SPARSE_CELL.match(inside, position)
        if not found or int(found.group(1)) >= len(attributes):
            raise TableError(
                f"line {number}: a sparse row must list 'position value' with positions below {len(attributes)}, "
                f"found {inside[position : position + 30]!r}"
            )
        cells[int(found.group(1))] = None if found.group(2) == "?" else _unquoted(found.group(2))
        position = found.end()
    return cells


def _column(attribute: _Attribute, cells: list[str | None]) -> pd.Series[Any]:
    if attribute.type == "string":
        return pd.Series(cells, dtype=pd.Series(["a"]).dtype)
    if attribute.type == "nominal":
        unknown = set(cells) - set(attribute.values) - {None}
        if unknown:
            first = min(map(str, unknown))
            raise TableError(f"attribute {attribute.name!r} must contain only its declared values, found {first!r}")
        return pd.Series(pd.Categorical(cells, categories=list(attribute.values)))
    raw: Any = pd.Series(cells, dtype=object)
    if attribute.type == "number":
        parsed: Any = pd.to_numeric(raw, errors="coerce").astype(np.float64)
    else:
        parsed = pd.to_datetime(raw, format=attribute.date_format or "ISO8601", errors="coerce")
    wrong = raw[parsed.isna() & raw.notna() & (raw.str.lower() != "nan")]
    if len(wrong):
        raise TableError(f"attribute {attribute.name!r} is declared a {attribute.type}, found {wrong.iloc[0]!r}")
    return pd.Series(parsed)


def _unquoted(token: str) -> str:
    if len(token) >= 2 and token[0] == token[-1] and token[0] in "'\"":
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m.group(1), m.group(1)), token[1:-1])
    return token


def _strptime_format(java: str) -> str | None:
    if not java:
        return None
    for pattern, directive in _JAVA_DATES:
        java = java.replace(pattern, directive)
    return java.replace("'", "")
