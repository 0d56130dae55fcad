"""Three hundred bad inputs: every one ends in one line, with no traceback and nothing "unexpected"."""

import gzip
import io
import json
import os
import random
import shutil
import sqlite3
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headstart.cli.main import main
from headstart.estimators import HeadstartClassifier
from headstart.evaluation.synthetic import Synthetic
from headstart.store import Store
from headstart.study import Study
from headstart.testing.examples import live_task, small_space

ROWS = 40
DEEP = "[" * 100_000 + "]" * 100_000
HUGE = "9" * 5_000


def good():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=ROWS), "c": rng.choice(["x", "y"], ROWS)})
    return frame.assign(day=pd.date_range("2024-01-01", periods=ROWS).astype(str), y=np.where(frame["a"] > 0, "p", "q"))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with a table, a model, a store, and a file of knowledge."""
    folder = tmp_path_factory.mktemp("many")
    good().to_csv(folder / "good.csv", index=False)
    model = HeadstartClassifier(
        evaluations=1, include=["lightgbm", "preprocessing.none"], refit="single", sandbox=False
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(good().drop(columns="y"), good()["y"]).save(folder / "model.headstart")
    with Store.open(folder / "store") as store:
        Study(live_task(), Synthetic(small_space(), 7, failing=0.2), store=store, name="first").run(evaluations=3)
    return folder


@pytest.fixture
def run(place, tmp_path, monkeypatch, capsys):
    """The command in a directory of its own; whatever it says is checked."""
    monkeypatch.chdir(tmp_path)
    for name in ("good.csv", "model.headstart"):
        shutil.copy(place / name, name)

    def run(*args, fails=True):
        with pytest.raises(SystemExit) as ended:
            main([str(arg) for arg in args])
        err = capsys.readouterr().err
        print(args[:3], err[:300])
        assert "Traceback" not in err
        assert "unexpected" not in err
        assert all(line.startswith("headstart: ") for line in err.strip().splitlines())
        assert not fails or ended.value.code in (1, 2)
        assert not fails or len([line for line in err.strip().splitlines() if "warning" not in line]) == 1
        return err

    return run


# -- command lines -------------------------------------------------------------------------------------------------

NUMBERS = ("nan", "inf", "-inf", "-1", "0", "", "x", "1e999", "²")
FIT = (
    "fit",
    "good.csv",
    "--target",
    "y",
    "--evaluations",
    "1",
    "--include",
    "logistic_regression",
    "--refit",
    "single",
)
LINES = [
    *((*FIT, option, value) for option in ("--time", "--memory", "--evaluation-time") for value in NUMBERS),
    *((*FIT, option, value) for option in ("--evaluations", "--patience", "--members") for value in NUMBERS),
    *((*FIT, option, value) for option in ("--jobs", "--splitter") for value in NUMBERS if value != "-1"),
    (*FIT, "--splitter", "-1"),
    *((*FIT, "--seed", value) for value in ("-1", "x", "1.5", "")),
    *((*FIT, option, "nowhere") for option in ("--weights", "--groups", "--times", "--drop", "--metric", "--space")),
    *((*FIT, option, "y") for option in ("--weights", "--groups", "--times")),
    *((*FIT, option, "c") for option in ("--weights", "--times")),
    *((*FIT, "--kind", value) for value in ("", "=", "a=", "=numeric", "a=x", "zz=numeric", "c=date")),
    *((*FIT, "--constraint", value) for value in ("", "latency", "latency <= x", "x <= 1", "size <= nan")),
    *((*FIT, "--knowledge", value) for value in ("nowhere.npz", "good.csv", ".", "model.headstart", "/dev/null")),
    *((*FIT, "--out", value) for value in ("good.csv", "/dev/full", "/dev/null", "good.csv/x", "/proc/nowhere/x")),
    *((*FIT, "--include", value) for value in ("", "nothing", "preprocessing.", ".none")),
    (*FIT, "--evaluations", "1", "--missing", "p", "--missing", "q"),
    ("fit", "good.csv", "--target", ""),
    ("fit", "good.csv", "--target", "day"),
    *(("replay", "nowhere", "--method", value) for value in ("gp(kernel=)", "gp(=1)", "gp(", "gp(a=1)", "gp(ard)", "")),
    *(("predict", "model.headstart", "good.csv", "--out", value) for value in ("x", "/dev/full", "no/x.csv", "x.xlsx")),
    *(("predict", "model.headstart", "good.csv", "--id", value) for value in ("nowhere", "")),
    *(("export", "model.headstart", "--out", value) for value in ("no/x.py", ".", "/dev/full", "good.csv/x.py")),
    *(("importance", "model.headstart", "good.csv", "--time", value) for value in NUMBERS),
    ("leaderboard", "good.csv"),
    ("studies", "good.csv"),
    ("studies", "x://y"),
    ("studies", "sqlite:////proc/nowhere.db"),
    ("meta", "from-store", "good.csv", "--out", "m.meta"),
    ("inspect", "good.csv", "--target", "y", "--missing"),
]


@pytest.mark.parametrize(
    "line", LINES, ids=lambda line: " ".join(str(part)[:20] for part in line[:6]).replace("/", "|")
)
def test_command_lines(line, run):
    run(*line)
    assert Path("good.csv").exists()
    assert Path("/dev/full").is_char_device()
    assert Path("/dev/null").is_char_device()


# -- tables --------------------------------------------------------------------------------------------------------


def workbook(part, old, new):
    def write():
        good().drop(columns="day").to_excel("g.xlsx", index=False)
        with zipfile.ZipFile("g.xlsx") as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        assert old in parts[part]
        parts[part] = parts[part].replace(old, new, 1)
        with zipfile.ZipFile("t.xlsx", "w") as archive:
            for name, content in parts.items():
                archive.writestr(name, content)
        return "t.xlsx"

    return write


def text(content, name="t.json"):
    def write():
        Path(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return name

    return write


def records(value, column="a"):
    return text(json.dumps([{"a": i, "b": i % 3, column: value, "y": i % 2} for i in range(20)]))


def made(make, name):
    def write():
        make(name)
        return name

    return write


def bomb(name):
    with gzip.open(name, "wb", 9) as packed:
        packed.write(b"a,y\n")
        for _ in range(290):
            packed.write(b"1,2\n" * 2**18)


SHEET = "xl/worksheets/sheet1.xml"
TABLES = {
    "cell reference": workbook(SHEET, b'r="A2"', b'r="ZZZZZZ2"'),
    "no column in a reference": workbook(SHEET, b'r="A2"', b'r="22"'),
    "row number": workbook(SHEET, b'<row r="3"', b'<row r="x"'),
    "row number too large": workbook(SHEET, b'<row r="3"', b'<row r="99999999999"'),
    "value": workbook(SHEET, b't="n"><v>', b't="n"><v>one'),
    "date value": workbook(SHEET, b't="n"', b't="d"'),
    "no end of a sheet": workbook(SHEET, b"</worksheet>", b""),
    "a sheet that is not there": workbook("xl/_rels/workbook.xml.rels", b"sheet1", b"sheet9"),
    "an unknown format of cells": workbook("xl/workbook.xml", b"</workbook>", b"<"),
    "styles": workbook("xl/styles.xml", b"<styleSheet", b"<"),
    "no content types": workbook("[Content_Types].xml", b"<Types", b"<"),
    "a workbook that is text": text("a,y\n1,2\n", "t.xlsx"),
    "brackets": text(DEEP),
    "brackets in a line": text('{"a": 1}\n{"a": ' + DEEP + "}", "t.jsonl"),
    "half a character": records("\ud800"),
    "half a character in a name": records(1, "\ud800"),
    "a number of 5,000 digits in a line": text('{"a": ' + HUGE + "}\n{", "t.jsonl"),
    "null": text("null"),
    "a number": text("5"),
    "a text": text('"a"'),
    "an empty list": text("[]"),
    "empty records": text("[{}, {}]"),
    "columns of differing length": text('{"a": [1, 2], "y": [1]}'),
    "no end": text('[{"a": 1'),
    "records and rows": text('[{"a": 1}, [1]]'),
    "a list as a target": text(json.dumps([{"a": i, "y": [i % 2]} for i in range(20)])),
    "a target of 400 digits": text(json.dumps([{"a": i, "y": 10**400} for i in range(20)])),
    "a pipe": made(os.mkfifo, "t.csv"),
    "a link to nothing": made(lambda name: os.symlink("nowhere.csv", name), "t.csv"),
    "a link to itself": made(lambda name: os.symlink(name, name), "t.csv"),
    "a link to a device": made(lambda name: os.symlink("/dev/zero", name), "t.csv"),
    "a bomb": made(bomb, "t.csv.gz"),
    "a zip of two": made(lambda n: [zipfile.ZipFile(n, m).writestr(m, "") for m in "wa"], "t.csv.zip"),
    "an empty zip": made(lambda n: zipfile.ZipFile(n, "w").close(), "t.csv.zip"),
    **{f"nothing as {suffix}": text("", f"t{suffix}") for suffix in (".csv", ".arff", ".json", ".xlsx", ".parquet")},
    **{
        f"blanks as {suffix}": text(" \n ", f"t{suffix}")
        for suffix in (".csv", ".arff", ".json", ".parquet", ".csv.gz")
    },
    **{
        f"noise {seed} as {suffix}": text(random.Random(seed).randbytes(3000), f"t{suffix}")
        for seed in range(3)
        for suffix in (".csv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zip", ".xlsx", ".json", ".arff", ".parquet")
    },
    "an ARFF without data": text("@relation r\n@attribute a numeric\n", "t.arff"),
    "an ARFF with an unknown type": text("@relation r\n@attribute a colour\n@data\n1\n", "t.arff"),
    "an ARFF with a wrong value": text("@relation r\n@attribute y {p,q}\n@data\nz\n", "t.arff"),
    "an ARFF with a position too large": text("@relation r\n@attribute y {p,q}\n@data\n{99 p}\n", "t.arff"),
    "an ARFF with a position of many digits": text(
        "@relation r\n@attribute y {p,q}\n@data\n{" + HUGE + " p}\n", "t.arff"
    ),
    "a quote that is not closed": text('a,y\n"1,2\n' + "3,4\n" * 50, "t.csv"),
    "zeros": text(b"\0" * 2000, "t.csv"),
    "a suffix that is not known": text("a,y\n1,2\n", "t.sav"),
    "no suffix": text("a,y\n1,2\n", "t"),
    "a URL": lambda: "https://nowhere.example/t.csv",
    "a zero byte in the name": lambda: "a\0b.csv",
    "a long name": lambda: "a" * 3000 + ".csv",
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name, run):
    run("inspect", TABLES[name](), "--target", "y")


# -- models --------------------------------------------------------------------------------------------------------


def opened():
    with zipfile.ZipFile("model.headstart") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def closed(parts):
    with zipfile.ZipFile("model.headstart", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)


KEYS = ("format", "version", "safe", "estimator", "libraries", "params", "columns", "model", "notes", "tables")
PARTS = ("schema", "task", "classes", "members", "metric", "target", "decisions", "notes", "origin")


@pytest.mark.parametrize("value", [None, 5, [], {}], ids=str)
@pytest.mark.parametrize("key", [*KEYS, *(f"model.{part}" for part in PARTS)])
def test_headers_of_models(key, value, run):
    parts = opened()
    header = json.loads(parts["header.json"])
    outer, _, inner = key.partition(".")
    if inner:
        header[outer][inner] = value
    else:
        header[outer] = value
    closed({**parts, "header.json": json.dumps(header).encode()})
    run("predict", "model.headstart", "good.csv", fails=False)


def lightgbm_text(parts):
    with zipfile.ZipFile(io.BytesIO(parts["models.skops"])) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    (name,) = (name for name, part in content.items() if part.startswith(b"tree\n"))
    return content, name


CHANGES = {
    "a child that is its parent": (b"left_child=", b"left_child=0 "),
    "a child that is not there": (b"right_child=", b"right_child=99 "),
    "too few leaves": (b"num_leaves=", b"num_leaves=1"),
    "more leaves than values": (b"leaf_value=", b"leaf_value=5 "),
    "a column that is not there": (b"split_feature=", b"split_feature=77 "),
    "columns": (b"max_feature_idx=", b"max_feature_idx=9"),
    "classes": (b"num_class=1", b"num_class=1000"),
    "an objective": (b"objective=binary sigmoid:1", b"objective=multiclass num_class:1000"),
    "sizes": (b"tree_sizes=", b"tree_sizes=9"),
    "linear leaves": (b"is_linear=0", b"is_linear=1"),
    "categories": (b"num_cat=", b"num_cat=9"),
    "decisions": (b"decision_type=", b"decision_type=1 "),
    "no trees": (b"Tree=", b"Bush="),
    "another line": (b"shrinkage=", b"leaf_const=1\nshrinkage="),
}


@pytest.mark.parametrize("name", CHANGES)
def test_boosters(name, run):
    parts = opened()
    content, place = lightgbm_text(parts)
    old, new = CHANGES[name]
    assert old in content[place]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for key, part in {**content, place: content[place].replace(old, new, 1)}.items():
            archive.writestr(key, part)
    closed({**parts, "models.skops": buffer.getvalue()})
    assert "LightGBM model cannot be used" in run("predict", "model.headstart", "good.csv")


@pytest.mark.parametrize(
    "args",
    [("predict",), ("leaderboard",), ("importance", "--time", "1"), ("report", "--time", "1")],
    ids=lambda a: a[0],
)
def test_classes_that_are_not_there(args, run):
    """What no check of files knows of is found when the model is used, whatever for."""
    parts = opened()
    with zipfile.ZipFile(io.BytesIO(parts["models.skops"])) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    for name, part in content.items():
        if name.endswith(".npy") and np.array_equal(found := np.load(io.BytesIO(part)), [0, 1]):
            buffer = io.BytesIO()
            np.save(buffer, found + 2**31 - 1)
            content[name] = buffer.getvalue()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, part in content.items():
            archive.writestr(name, part)
    closed({**parts, "models.skops": buffer.getvalue()})
    command, *options = args
    good().rename(columns={"y": "target"}).to_csv("named.csv", index=False)
    assert "model.headstart cannot be used" in run(command, "model.headstart", "named.csv", *options)


@pytest.mark.parametrize("seed", range(20))
def test_bytes_of_models(seed, run):
    chosen = random.Random(seed)
    content = bytearray(Path("model.headstart").read_bytes())
    for _ in range(1 + seed % 4):
        content[chosen.randrange(len(content))] ^= 1 << chosen.randrange(8)
    Path("model.headstart").write_bytes(bytes(content[: len(content) - 7 * (seed % 3)]))
    run("predict", "model.headstart", "good.csv", fails=False)


# -- stores --------------------------------------------------------------------------------------------------------

TRIAL, STUDY = "update headstart_trial set content=", "update headstart_study set "
ROWS_OF_STORES = {
    "a trial that is nested": f"{TRIAL}'{DEEP}'",
    "a trial that is a list": f"{TRIAL}'[]'",
    "a trial that is null": f"{TRIAL}'null'",
    "a trial that is bytes": f"{TRIAL}x'80ff'",
    "a trial that has more": TRIAL + """replace(content, '"loss":', '"more":1,"loss":')""",
    "an error that is a mapping": TRIAL + """replace(content, '"error":null', '"error":{"a":[1]}')""",
    "a memory of many digits": TRIAL + f"""replace(content, '"bytes":', '"bytes":{HUGE},"x":')""",
    "seconds that are text": TRIAL + """replace(content, '"finished":', '"finished":"a","x":')""",
    "a proposal that is nested": f"update headstart_proposal set content='{DEEP}'",
    "a proposal that is a number": "update headstart_proposal set content='5'",
    "settings that are nested": f"{STUDY}settings='{DEEP}'",
    "settings that are a list": f"{STUDY}settings='[]'",
    "settings that are cut": f"{STUDY}settings='{{'",
    "a seed that is text": f"{STUDY}seed='x'",
    "a seed of many digits": f"{STUDY}seed='{HUGE}'",
    "a date that is text": f"{STUDY}created='x'",
    "a date that is too late": f"{STUDY}created=1e300",
    "a date before all": f"{STUDY}created=-1e300",
    "a name that is bytes": f"{STUDY}name=x'80'",
    "a format of many digits": f"update headstart_store set value='{HUGE}' where key='format_version'",
    "no format": "delete from headstart_store",
    "no trials": "drop table headstart_trial",
    "no seeds": "alter table headstart_study rename column seed to other",
}


@pytest.mark.parametrize("name", ROWS_OF_STORES)
def test_stores(name, place, run):
    shutil.copytree(place / "store", "store")
    with sqlite3.connect("store/headstart.db") as connection:
        connection.execute(ROWS_OF_STORES[name])
    connection.close()
    for args in (("studies", "store"), ("studies", "store", "first"), ("meta", "from-store", "store", "--out", "m")):
        run(*args, fails=False)


# -- knowledge -----------------------------------------------------------------------------------------------------


def array(header, content=b""):
    text = header.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + content


KNOWLEDGE = {
    "nothing in it": {},
    "no description": {"a.npy": array("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", b"\0" * 8)},
    "more than there is": {"a.npy": array("{'descr': '<f8', 'fortran_order': False, 'shape': (10**12,), }")},
    "a shape of terabytes": {"a.npy": array("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }")},
    "a negative shape": {"a.npy": array("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", b"\0" * 8)},
    "objects": {"a.npy": array("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\x80\x04N.")},
    "a bomb": {"a.npy": b"\0" * (80 << 20)},
    "brackets": {
        "about.json.npy": array("{'descr': '|u1', 'fortran_order': False, 'shape': (200000,), }", DEEP.encode())
    },
    "no array": {"about.json.npy": b"{}"},
}


@pytest.mark.parametrize("name", KNOWLEDGE)
def test_knowledge(name, run):
    with zipfile.ZipFile("k.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for part, content in KNOWLEDGE[name].items():
            archive.writestr(part, content)
    assert "k.npz" in run(*FIT, "--knowledge", "k.npz", "--evaluations", "1")


def test_there_are_three_hundred():
    headers = 4 * (len(KEYS) + len(PARTS))
    many = [LINES, TABLES, CHANGES, ROWS_OF_STORES, KNOWLEDGE]
    assert headers + 20 + sum(map(len, many)) >= 300
