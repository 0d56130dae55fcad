"""The part of an exported script that reads a table as it was read for the fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headstart.data.columns import Kind
from headstart.data.delimited import MISSING_CELLS
from headstart.data.dialect import Dialect
from headstart.data.read import COMPRESSED
from headstart.fitting.model import Model
from headstart.fitting.sources import Sources


def quoted(value: Any) -> str:
    """A plain value as Python writes it, texts in double quotes."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list):
        return f"[{', '.join(map(quoted, value))}]"
    return repr(value)


def reading_code(model: Model, table: str, sources: Sources) -> str:
    """Constants and functions: ``read_table``, ``prepare``, ``read_target``, ``load_table``.

    Parameters
    ----------
    table
        Path of the training table.
    sources
        Gets the definitions that these functions need.
    """
    for module, name in (("headstart.data.convert", "np"), ("headstart.data.convert", "pd")):
        sources.add(module, name)
    parts = [
        _constants(model, table),
        _read_code(model, table, sources),
        _sparse_code(sources) if model.schema.n_sparse is not None else _prepare_code(model, sources),
        _target_code(model, sources),
        _load_code(model),
    ]
    return "\n\n\n".join(part.strip("\n") for part in parts)


def _constants(model: Model, table: str) -> str:
    lines = [f"TABLE = {quoted(table)}", f"TARGET = {quoted(model.target)}"]
    if model.classes is not None:
        labels = quoted(model.classes.tolist())
        lines.append(f"CLASSES = np.array({labels}, dtype={quoted(model.classes.dtype.name)})")
    weights = model.origin.get("weights")
    note = ""
    if "weights" in model.origin and weights is None:
        note = "  # rows were weighted by values that are not a column of the table: pass them to fit()"
    lines.append(f"WEIGHTS = {quoted(weights)}{note}")
    others = [name for name in model.schema.others if name not in (model.target, weights)]
    lines.append(f"OTHERS = {quoted(others)}  # columns that are not features")
    if model.schema.n_sparse is None:
        lines.append("COLUMNS = {  # kind, how dates or decimals are written, whether unreadable values are missing")
        for name, spec in model.schema.columns.items():
            lines.append(f"    {quoted(name)}: ({quoted(str(spec.kind))}, {quoted(spec.format)}, {spec.lenient!r}),")
        lines += ["}", _KINDS]
    lines.append(f"MISSING = {quoted([*MISSING_CELLS, *model.schema.missing])}")
    return "\n".join(lines)


# -- reading ----------------------------------------------------------------------------------------------------------


def _suffix(path: str) -> str:
    suffixes = [s.lower() for s in Path(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    return suffixes[-1] if suffixes else ""


def _read_code(model: Model, table: str, sources: Sources) -> str:
    found = {_suffix(f"x{model.origin.get('suffix', '')}"), _suffix(table)}
    branches = [('(".parquet", ".pq")', "pd.read_parquet(path)")]
    if ".feather" in found:
        branches.append(('".feather"', "pd.read_feather(path)"))
    if found & {".xlsx", ".xlsm"}:
        branches.append(('(".xlsx", ".xlsm")', "pd.read_excel(path)"))
    if found & {".jsonl", ".ndjson"}:
        branches.append(('(".jsonl", ".ndjson")', "pd.read_json(path, lines=True, convert_dates=False, dtype=False)"))
    if ".json" in found:
        branches.append(('".json"', "pd.read_json(path, convert_dates=False, dtype=False)"))
    lines = ["def read_table(path):", '    """The table as it is in a file."""', "    name = str(path).lower()"]
    for suffixes, call in branches:
        lines += [f"    if name.endswith({suffixes}):", f"        return {call}"]
    if ".arff" in found:
        lines.append("    # The model was fitted to an ARFF file, for which pandas has no reader: save it as CSV.")
    return "\n".join([*lines, *_csv_lines(model, sources)])


def _csv_lines(model: Model, sources: Sources) -> list[str]:
    dialect = Dialect(**model.origin.get("dialect", {}))
    columns = model.origin.get("columns", [])
    exact = sources.add("headstart.data.delimited", "_EXACT")
    separator = r"\s+" if dialect.separator == " " else dialect.separator
    settings: dict[str, Any] = {
        "sep": separator,
        "encoding": dialect.encoding,
        "header": 0 if dialect.header else None,
        "quotechar": dialect.quote,
        "escapechar": dialect.escape,
        "doublequote": dialect.escape is None,
        "decimal": dialect.decimal,
        "skiprows": dialect.skip,
        "index_col": False,
        "skipinitialspace": True,
        "keep_default_na": False,
        "low_memory": False,
    }
    if dialect.header and columns[:1] == ["row_name"]:
        settings["names"] = columns  # rows have names, above which the header has none
    defaults = {"quotechar": '"', "escapechar": None, "doublequote": True, "decimal": ".", "skiprows": 0}
    written = [f"{k}={quoted(v)}" for k, v in settings.items() if k not in defaults or defaults[k] != v]
    lines = ["    frame = pd.read_csv(", "        path,"]
    lines += [f"        {each}," for each in [*written, "na_values=MISSING", f"**{exact}"]]
    lines.append("    )")
    if dialect.header:
        lines += [
            "    names = [str(name).strip() for name in frame.columns]",
            '    names = [name.replace("Unnamed: ", "unnamed_") for name in names]',
        ]
    else:
        lines.append('    names = [f"x{i}" for i in range(frame.shape[1])]')
    return [*lines, "    return frame.set_axis(names, axis=1)"]


# -- features ---------------------------------------------------------------------------------------------------------


def _by_position(model: Model) -> list[str]:
    if not model.schema.by_position:
        return []
    return [
        "    if not set(COLUMNS) <= set(frame.columns):  # the training table was an array: columns by their order",
        "        frame = frame.drop(columns=[c for c in (TARGET, WEIGHTS, *OTHERS) if c in frame.columns])",
        "        frame = frame.set_axis(list(COLUMNS), axis=1)",
    ]


_CONVERSIONS = {
    Kind.NUMERIC: ("_numeric", "{0}(column, spec, name).values"),
    Kind.BOOLEAN: ("_boolean", "{0}(column, name).values"),
    Kind.CATEGORICAL: ("as_category", "{0}(column)"),
    Kind.DATE: ("_date", "{0}(column, spec, name).values"),
    Kind.TEXT: ("_as_text", "{0}({1}(column))"),
}
"""What `headstart.data.convert` does to a column of each kind."""


def _prepare_code(model: Model, sources: Sources) -> str:
    module = "headstart.data.convert"
    distinct, dense = sources.add(module, "distinct_texts"), sources.add(module, "dense")
    spec, kind = sources.add(module, "ColumnSpec"), sources.add(module, "Kind")
    here = set(model.schema.kinds.values())
    branches: list[str] = []
    for each, (function, call) in _CONVERSIONS.items():
        if each in here:
            branches += [
                f"        {'elif' if branches else 'if'} kind == {quoted(str(each))}:",
                f"            columns[name] = {call.format(sources.add(module, function), distinct)}",
            ]
    return "\n".join(
        [
            "def prepare(frame):",
            '    """The features as the pipeline takes them; ids and constants are not among them."""',
            *_by_position(model),
            "    columns = {}",
            "    for name, (kind, written, lenient) in COLUMNS.items():",
            '        if kind in ("id", "constant"):',
            "            continue",
            f"        column, spec = {dense}(frame[name]), {spec}({kind}(kind), written, lenient)",
            *branches,
            "    return pd.DataFrame(columns, index=pd.RangeIndex(len(frame)))",
        ]
    )


def _sparse_code(sources: Sources) -> str:
    sparse = sources.add_import("scipy", "sparse")
    finite = sources.add("headstart.data.convert", "finite_or_missing")
    return f'''def prepare(frame):
    """The features as the pipeline takes them: a sparse matrix of all columns in their order."""
    features = frame.drop(columns=[c for c in (TARGET, WEIGHTS, *OTHERS) if c in frame.columns])
    return {sparse}.csr_matrix({finite}(features.to_numpy(dtype=np.float64))[0])'''


# -- target -----------------------------------------------------------------------------------------------------------


def _target_code(model: Model, sources: Sources) -> str:
    if model.classes is None:
        numbers = sources.add("headstart.data.target", "_as_numbers")
        return f'''def read_target(column):
    """The numbers to predict, and which rows have one."""
    numbers = {numbers}(column)
    if numbers is None:
        raise ValueError(f"the target {{TARGET!r}} must contain numbers")
    return numbers, np.isfinite(numbers)'''
    text_of = sources.add("headstart.data.values", "text_of")
    return f'''def read_target(column):
    """The labels to predict, and which rows have one."""
    known = column.notna().to_numpy()
    places = {{{text_of}(label): i for i, label in enumerate(CLASSES.tolist())}}
    places |= {{label: i for i, label in enumerate(CLASSES.tolist())}}
    labels = np.empty(len(column), dtype=CLASSES.dtype)
    for i in np.flatnonzero(known):
        value = column.iloc[i]
        place = places.get(value, places.get({text_of}(value)))
        if place is None:
            raise ValueError(f"the target {{TARGET!r}} must be one of {{CLASSES.tolist()}}, found {{value!r}}")
        labels[i] = CLASSES[place]
    return labels, known'''


def _load_code(model: Model) -> str:
    target = ""
    if model.schema.by_position or model.schema.n_sparse is not None:
        target = "  # or the last column, if none has that name"
    lines = [
        "def load_table(path, training=True):",
        '    """Features, target and weights of a table; without a target, rows to predict."""',
        "    frame = read_table(path)",
        "    if not training:",
        "        return prepare(frame.reset_index(drop=True)), None, None",
    ]
    if target:
        lines += [
            f"    if TARGET not in frame.columns:{target}",
            "        frame = frame.rename(columns={frame.columns[-1]: TARGET})",
        ]
    lines += [
        "    y, known = read_target(frame[TARGET])  # rows without a target are left out",
        "    weights = None if WEIGHTS is None else frame[WEIGHTS].to_numpy(dtype=float)[known]",
        "    return prepare(frame[known].reset_index(drop=True)), y[known], weights",
    ]
    return "\n".join(lines)


_KINDS = """KINDS = {
    name: f"date {form}" if kind == "date" and form else kind for name, (kind, form, _) in COLUMNS.items()
}"""
