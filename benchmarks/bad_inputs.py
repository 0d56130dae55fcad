"""Bad tables, models, stores, knowledge, settings, command lines and calls: random changes of good ones.

Each of `FAMILIES` writes files into the current directory, where `prepare` has put good ones, and returns the arguments
of a command, and what else `benchmarks/robustness.py` needs to run it.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import sqlite3
import sys
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HUGE, DEEP = "9" * 5_000, "[" * 5_000 + "]" * 5_000
NASTY: list[Any] = [
    None, True, -1, 0, 2**31, 2**63, -(2**70), 10**400, 0.5, float("nan"), float("inf"), -1e308, 1e-320, "", " ", "x",
    "\0", "\ud800", "é" * 1000, "../../etc/passwd", "a\nb", "=1+1", "nan", [], [[]], {}, {"a": {"b": []}}, [None] * 3,
    ["x", 1], "9" * 400, "[" * 300, "🦄", "-",
]  # fmt: skip
WORDS = [
    "", " ", "nan", "inf", "-inf", "-1", "0", "1e999", "x", "1h1", "²", "٣", "a=b", "y", "a", "../x", "/dev/null",
    "/dev/full", "/proc/self/mem", ".", "t.csv", "nowhere/x", "é\ud800", "=", "<=", "latency <= -1", "gp(",
    "gp(kernel=)", "\n", "9" * 400, "{}", "'", "%s", "$HOME", "--", "-", "🦄", "1e-9", "0.0000001", "1_000", "0x10",
    "t.csv.gz", "true",
]  # fmt: skip
Case = tuple[list[str], dict[str, Any]]


def good_table(kind: str, rows: int = 80, seed: int = 0) -> pd.DataFrame:
    """A small table with numbers, categories, dates and missing values."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(rows, 3)), columns=list("abc"))
    table.loc[rng.random(rows) < 0.1, "b"] = np.nan
    table["city"] = rng.choice(["Rome", "Oslo", "Bonn"], rows)
    table["day"] = pd.date_range("2024-01-01", periods=rows).astype(str)
    signal_ = table["a"] + (table["city"] == "Oslo") + 0.3 * rng.normal(size=rows)
    if kind == "regression":
        return table.assign(y=10 * signal_)
    names = ["no", "yes"] if kind == "binary" else ["low", "middle", "high"]
    return table.assign(y=pd.qcut(signal_, len(names), labels=names).astype(str))


def bytes_changed(content: bytes, chosen: random.Random, most: int = 6) -> bytes:
    """Random changes: bits, pieces that are removed, repeated or moved, bytes that mean something to some reader."""
    special = [
        b"\0",
        b"\xff\xfe",
        b"\xed\xa0\x80",
        b'"',
        b"'",
        b"\r",
        b"\n\n",
        b",,,,",
        b";",
        b"\xef\xbb\xbf",
        b"\x1a",
        b"?",
        b"%",
        b"{",
    ]
    found = bytearray(content)
    for _ in range(chosen.randint(1, most)):
        place, length = chosen.randrange(len(found) or 1), chosen.choice([1, 2, 8, 100])
        match chosen.randrange(6):
            case 0 if found:
                found[min(place, len(found) - 1)] ^= 1 << chosen.randrange(8)
            case 1:
                del found[place : place + length]
            case 2:
                found[place:place] = found[place : place + length] * chosen.choice([1, 2, 50])
            case 3:
                found[place:place] = chosen.choice(special) * chosen.choice([1, 1, 1, 1000])
            case 4:
                del found[place:]
            case _:
                found[place : place + length] = chosen.randbytes(length)
    return bytes(found)


def value_changed(content: Any, chosen: random.Random) -> Any:
    """A JSON value with one of its parts, at any depth, replaced, removed or added to."""
    if isinstance(content, dict | list) and content and chosen.random() < 0.85:
        found = dict(content) if isinstance(content, dict) else list(content)
        key: Any = chosen.choice(list(found)) if isinstance(found, dict) else chosen.randrange(len(found))
        if chosen.random() < 0.1:
            del found[key]
        else:
            found[key] = value_changed(found[key], chosen)
        return found
    return chosen.choice(NASTY)


def number_changed(text: str, chosen: random.Random) -> str:
    """A text with one or a few of its numbers replaced."""
    for _ in range(chosen.randint(1, 3)):
        at = chosen.choice(list(re.finditer(r"-?\d+(\.\d+)?|$", text)))
        new = chosen.choice(["-1", "0", "7", "2147483647", "1e300", "nan", "inf", "", HUGE, "0.5", "-9e18", "1 2", "x"])
        text = text[: at.start()] + new + text[at.end() :]
    return text


def as_json(value: Any) -> str:
    return json.dumps(value).replace(f'"{"9" * 400}"', HUGE).replace(f'"{"[" * 300}"', DEEP)


def members(path: Path | BytesIO) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archived(parts: dict[str, bytes]) -> bytes:
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def on_table(chosen: random.Random, name: str) -> list[str]:
    """A command that reads a table."""
    fit = ["fit", name, "--target", "y", "--evaluations", "1", "--include", "decision_tree", "--jobs", "1"]
    commands = [
        ["inspect", name, "--target", "y"],
        ["inspect", name],
        ["predict", "m.headstart", name],
        ["leaderboard", "m.headstart", name],
        ["importance", "m.headstart", name, "--time", "2"],
        ["metafeatures", name, "--target", "y"],
    ]
    return fit if chosen.random() < 0.15 else chosen.choice(commands)


def delimited(chosen: random.Random) -> Case:
    suffix = chosen.choice([".csv", ".tsv", ".txt", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip"])
    good_table("binary").to_csv(f"bad{suffix}", index=False, sep="\t" if suffix == ".tsv" else ",")
    changed = Path(f"bad{suffix}").read_bytes()
    Path(f"bad{suffix}").write_bytes(bytes_changed(changed, chosen))
    return on_table(chosen, f"bad{suffix}"), {}


def binary(chosen: random.Random) -> Case:
    table, suffix = good_table("binary"), chosen.choice([".parquet", ".feather"])
    table["city"] = table["city"].astype("category")
    getattr(table, f"to_{suffix[1:]}")(f"bad{suffix}")
    Path(f"bad{suffix}").write_bytes(bytes_changed(Path(f"bad{suffix}").read_bytes(), chosen, 3))
    return on_table(chosen, f"bad{suffix}"), {}


def workbook(chosen: random.Random) -> Case:
    good_table("binary").to_excel("g.xlsx", index=False)
    parts = members(Path("g.xlsx"))
    name = chosen.choice(sorted(parts))
    text = parts[name].decode()
    parts[name] = (
        bytes_changed(parts[name], chosen, 2) if chosen.random() < 0.5 else number_changed(text, chosen).encode()
    )
    Path("bad.xlsx").write_bytes(archived(parts))
    return on_table(chosen, "bad.xlsx"), {}


def records(chosen: random.Random) -> Case:
    rows = json.loads(good_table("binary").to_json(orient="records"))
    lines = chosen.random() < 0.4
    for _ in range(chosen.randint(1, 3)):
        rows = value_changed(rows, chosen)
    text = "\n".join(map(as_json, rows)) if lines and isinstance(rows, list) else as_json(rows)
    content = bytes_changed(text.encode(), chosen, 2) if chosen.random() < 0.3 else text.encode()
    name = "bad.jsonl" if lines else "bad.json"
    Path(name).write_bytes(content)
    return on_table(chosen, name), {}


def attributes(chosen: random.Random) -> Case:
    table = good_table("binary").drop(columns="day")
    kinds = {"city": "{Rome,Oslo,Bonn}", "y": "{no,yes}"}
    head = [f"@attribute {name} {kinds.get(name, 'numeric')}" for name in table.columns]
    rows = table.to_csv(index=False, header=False, na_rep="?")
    text = "\n".join(["@relation t", *head, "@data", rows])
    Path("bad.arff").write_bytes(bytes_changed(text.encode(), chosen))
    return on_table(chosen, "bad.arff"), {}


def model_header(chosen: random.Random) -> Case:
    parts = members(Path("m.headstart"))
    header = json.loads(parts["header.json"])
    for _ in range(chosen.randint(1, 2)):
        header = value_changed(header, chosen)
    parts["header.json"] = as_json(header).encode()
    Path("bad.headstart").write_bytes(archived(parts))
    return with_model(chosen), {}


def with_model(chosen: random.Random) -> list[str]:
    commands = [
        ["predict", "bad.headstart", "t.csv"],
        ["leaderboard", "bad.headstart"],
        ["leaderboard", "bad.headstart", "t.csv"],
        ["importance", "bad.headstart", "t.csv", "--time", "2"],
        ["export", "bad.headstart", "--out", "bad.py"],
    ]
    return chosen.choice(commands)


def model_parts(chosen: random.Random) -> Case:
    """The fitted pipelines: their description, arrays and texts."""
    parts = members(Path("m.headstart"))
    inner = members(BytesIO(parts["models.skops"]))
    name = chosen.choice(["schema.json", *sorted(inner)])
    if name == "schema.json":
        inner[name] = as_json(value_changed(json.loads(inner[name]), chosen)).encode()
    else:
        inner[name] = array_changed(inner[name], chosen)
    parts["models.skops"] = archived(inner)
    Path("bad.headstart").write_bytes(archived(parts))
    return with_model(chosen), {}


def array_changed(content: bytes, chosen: random.Random) -> bytes:
    """Values, kind or shape of an array; or bytes, if it is none."""
    try:
        array = np.load(BytesIO(content), allow_pickle=False)
    except (ValueError, EOFError):
        return bytes_changed(content, chosen)
    if array.size and array.dtype.kind in "fiu" and chosen.random() < 0.7:
        flat = array.reshape(-1).copy()
        for _ in range(chosen.randint(1, 5)):
            worst = [np.nan, np.inf, -1e308] if array.dtype.kind == "f" else [-1, 2**31 - 1, -(2**31), 10**6]
            with np.errstate(all="ignore"):
                flat[chosen.randrange(len(flat))] = np.array(chosen.choice(worst)).astype(array.dtype)
        array = flat.reshape(array.shape)
    else:
        array = chosen.choice(
            [array.reshape(-1)[:-1], array.astype("f4"), array[None], np.zeros(0), array.astype("U9")]
        )
    buffer = BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def booster(chosen: random.Random) -> Case:
    """The text of a LightGBM model."""
    parts = members(Path("m.headstart"))
    inner = members(BytesIO(parts["models.skops"]))
    name = next(name for name, content in inner.items() if b"tree_sizes" in content)
    text = inner[name].decode()
    if chosen.random() < 0.2:
        changed = bytes_changed(inner[name], chosen, 2)
    else:
        lines = text.split("\n")
        at = chosen.choice([i for i, line in enumerate(lines) if re.search(r"\d", line) and not line.startswith("[")])
        lines[at] = number_changed(lines[at], chosen)
        changed = "\n".join(lines).encode()
    inner[name] = changed
    parts["models.skops"] = archived(inner)
    Path("bad.headstart").write_bytes(archived(parts))
    return with_model(chosen), {}


def store(chosen: random.Random) -> Case:
    """A row of the store of a fit, or its bytes."""
    shutil.copytree("m", "bad")
    database = Path("bad/store/headstart.db")
    if chosen.random() < 0.25:
        database.write_bytes(bytes_changed(database.read_bytes(), chosen))
    elif chosen.random() < 0.2:
        file = chosen.choice(sorted(path for path in Path("bad/store/artefacts").rglob("*") if path.is_file()))
        file.write_bytes(array_changed(file.read_bytes(), chosen))
    else:
        with sqlite3.connect(database) as connection:
            tables = [name for (name,) in connection.execute("select name from sqlite_master where type='table'")]
            table = chosen.choice([name for name in tables if name.startswith("headstart_")])
            column = chosen.choice([row[1] for row in connection.execute(f"pragma table_info({table})")])
            rows = connection.execute(f"select rowid, {column} from {table}").fetchall()
            row, value = chosen.choice(rows) if rows else (0, None)
            try:
                new: Any = as_json(value_changed(json.loads(str(value)), chosen))
            except (TypeError, ValueError, RecursionError):
                new = chosen.choice(["", "x", -1, 2**62, 1e300, b"\x80", None, DEEP, HUGE])
            try:
                connection.execute(f"update {table} set {column}=? where rowid=?", (new, row))
            except sqlite3.Error:
                connection.execute(f"delete from {table}")
        connection.close()
    resume = ["fit", "t.csv", "--out", "bad", "--resume", "--evaluations", "4"]
    commands = [["studies", "bad/store"], ["studies", "bad/store", "t-"], ["tree", "bad"]]
    commands.append(["meta", "from-store", "bad", "--out", "bad.meta"])
    return resume if chosen.random() < 0.4 else chosen.choice(commands), {}


def settings(chosen: random.Random) -> Case:
    """What a fit was asked for, to be resumed."""
    shutil.copytree("m", "bad")
    request = json.loads(Path("bad/fit.json").read_text())
    for _ in range(chosen.randint(1, 2)):
        request["settings"] = value_changed(request["settings"], chosen)
    if chosen.random() < 0.2:
        request = value_changed(request, chosen)
    Path("bad/fit.json").write_text(as_json(request))
    return ["fit", "t.csv", "--out", "bad", "--resume", "--evaluations", "3"], {}


def knowledge(chosen: random.Random) -> Case:
    """What was learned from other tables, or what it is learned from."""
    fit = ["fit", "t.csv", "--target", "y", "--evaluations", "1", "--space", "tensor_oboe", "--include", "gaussian_nb"]
    if chosen.random() < 0.6:
        content = Path("known.npz").read_bytes()
        parts = members(BytesIO(content))
        name = chosen.choice(sorted(parts))
        parts[name] = array_changed(parts[name], chosen)
        changed = archived(parts) if chosen.random() < 0.8 else bytes_changed(content, chosen)
        Path("bad.npz").write_bytes(changed)
        return [*fit, "--knowledge", "bad.npz"], {}
    shutil.copytree("known.meta", "bad.meta")
    file = chosen.choice(sorted(path for path in Path("bad.meta").rglob("*") if path.is_file()))
    if file.suffix == ".json" and chosen.random() < 0.7:
        file.write_text(as_json(value_changed(json.loads(file.read_text()), chosen)))
    else:
        file.write_bytes(bytes_changed(file.read_bytes(), chosen, 3))
    commands = [["replay", "bad.meta", "--method", "random", "--evaluations", "3"], ["meta", "info", "bad.meta"]]
    return chosen.choice(commands), {}


def options(chosen: random.Random) -> Case:
    """Any option of any command with any value."""
    import typer.main

    from headstart.cli.main import app

    every = list(leaves(typer.main.get_command(app), []))
    name, found = chosen.choice([(n, c) for n, c in every if n[:2] != ["meta", "fetch"]])
    named = {
        "table": "t.csv", "model": "m", "store": "m/store", "fit": "m", "out": "o", "meta": "known.meta",
        "source": "known.meta",
    }  # fmt: skip
    args: list[str] = list(name)
    for param in found.params:
        if param.param_type_name == "argument" and param.required:
            args.append(chosen.choice(WORDS) if chosen.random() < 0.3 else named.get(str(param.name), "t.csv"))
    if name == ["fit"]:
        args += ["--target", "y", "--evaluations", "1", "--include", "decision_tree", "--out", "o"]
    possible = [
        p for p in found.params if p.param_type_name == "option" and not p.is_flag and p.name != "install_completion"
    ]
    for param in chosen.sample(possible, min(len(possible), chosen.randint(1, 2))):
        args += [param.opts[0], chosen.choice(WORDS)]
    return args, {}


def leaves(found: Any, name: list[str]) -> Iterator[tuple[list[str], Any]]:
    """The commands of a group, with what is typed for them."""
    for key, inner in getattr(found, "commands", {}).items():
        yield from leaves(inner, [*name, key]) if hasattr(inner, "commands") else [([*name, key], inner)]


def python(chosen: random.Random) -> Case:
    return [], {"python": [chosen.randrange(10**6)]}


def in_python(seed: int) -> int:
    """The estimators with a bad parameter, bad data or bad calls; 2 for an error that says what to do."""
    from headstart import HeadstartClassifier, HeadstartRegressor
    from headstart.errors import HeadstartError

    chosen = random.Random(seed)
    kind = chosen.choice([HeadstartClassifier, HeadstartRegressor])
    table = good_table("binary" if kind is HeadstartClassifier else "regression")
    X, y = table.drop(columns="y"), table["y"]
    params: dict[str, Any] = {"evaluations": 1, "include": ["decision_tree"], "sandbox": False}
    warnings.simplefilter("ignore")
    names = sorted(kind().get_params())
    strange: list[Any] = [
        X.to_numpy(), X.assign(y=y), X.iloc[:0], X.iloc[:1], X.iloc[:, :0], y, [], [[]], "t.csv", "nowhere.csv", None,
        5, X.T, [[1, 2], [3]], np.zeros((80, 3, 2)), np.full((80, 3), np.inf), pd.concat([X, X], axis=1),
        X.assign(a=object()), X.assign(a=[[1]] * 80), X.assign(a=1j), X.set_axis(range(5), axis=1), {"a": [1]},
        X.assign(a=10**400), X.assign(city=pd.Series(["\ud800"] * 80, dtype=object)), X.astype(str), iter([1]),
        b"a,b", X.assign(a=pd.NA),
        np.array([["a"] * 3] * 80, dtype=object),
    ]  # fmt: skip
    targets: list[Any] = [
        y, y[:5], None, [], ["a"] * 80, np.arange(80), [None] * 80, np.full(80, np.nan), np.full(80, np.inf), "y",
        "nowhere", 5, np.zeros((80, 2)), [[1]] * 80, [object()] * 80, y.to_frame(), [10**400] * 80, np.arange(80) * 1j,
        {1: 2},
        ["\ud800"] * 80,
    ]  # fmt: skip
    try:
        match chosen.randrange(4):
            case 0:
                for name in chosen.sample(names, chosen.randint(1, 2)):
                    params[name] = chosen.choice(
                        [*NASTY, *WORDS, object(), print, X, b"x", ("a",), {1}, np.float64("nan")]
                    )
                kind(**params).fit(X, y)
            case 1:
                kind(**params).fit(chosen.choice(strange), chosen.choice(targets))
            case 2:
                roles = {
                    name: chosen.choice([*targets, "a", "nowhere", -1, -np.ones(80)])
                    for name in chosen.sample(["sample_weight", "groups", "times"], chosen.randint(1, 2))
                }
                kind(**params).fit(X, y, **roles)
            case _:
                model = kind(**params).fit(X, y)
                given = chosen.choice(strange)
                call = chosen.choice(["predict", "leaderboard", "feature_importance", "score"])
                if call == "predict":
                    model.predict(given)
                else:
                    getattr(model, call)(given, chosen.choice(targets))
    except (HeadstartError, ValueError, TypeError) as error:
        message = " ".join(str(error).split())
        ours = any("/headstart/" in frame.filename for frame in traceback.extract_tb(error.__traceback__)[-1:])
        print(f"headstart: {type(error).__name__}: {message[:300]}", file=sys.stderr)
        if not isinstance(error, HeadstartError) and not ours:
            # sklearn's own conventions and checks raise plain ones; anything deeper is an accident
            last = traceback.extract_tb(error.__traceback__)[-1].filename
            if "sklearn/utils" not in last and "sklearn/base" not in last:
                traceback.print_exc()
        return 2
    return 0


FAMILIES: list[Callable[[random.Random], Case]] = [
    delimited, binary, workbook, records, attributes, model_header, model_parts, booster, store, settings, knowledge,
    options, options, python, python,
]  # fmt: skip


def prepare(folder: Path) -> None:
    """Good inputs, to be changed."""
    from headstart.cli.main import main
    from headstart.knowledge import Knowledge
    from headstart.knowledge.files import learner
    from headstart.metadata import MetaDataset
    from headstart.metadata.files import save_meta
    from headstart.space import Encoded, catalog

    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    good_table("binary").to_csv("t.csv", index=False)
    fit = ["fit", "t.csv", "--target", "y", "--evaluations", "3", "--include", "lightgbm", "--include", "decision_tree"]
    try:
        main([*fit, "--include", "knn", "--out", "m", "--quiet", "--jobs", "1"])
    except SystemExit:
        shutil.copy("m/model.headstart", "m.headstart")
    rng = np.random.default_rng(0)
    drawn = catalog.load("tensor_oboe").sample(rng, 60).unique()
    pipelines = Encoded(drawn.space, drawn.values, drawn.active, drawn.choice, ids=np.arange(len(drawn)))
    losses = rng.random((6, len(drawn)))
    splits = {"train": [0, 1, 2, 3], "validation": [4], "test": [5]}
    meta = MetaDataset(pipelines, losses, [f"t{i}" for i in range(6)], splits=splits, name="known")
    save_meta(meta, Path("known.meta"))
    Knowledge.learn(learner("average_rank"), meta, [0, 1, 2, 3], [4]).save("known.npz")
