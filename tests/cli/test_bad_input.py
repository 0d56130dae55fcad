"""Bad input on the command line: one line that says what is wrong and what to do, no traceback, nothing lost."""

import os
import random
import shutil
import signal
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headstart.cli.main import main

ROWS = 60
FRUGAL = ["--evaluations", "1", "--include", "logistic_regression", "--jobs", "1", "--refit", "single"]


def good():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=ROWS), "b": rng.normal(size=ROWS), "c": rng.choice(["x", "y"], ROWS)})
    return frame.assign(label=np.where(frame["a"] > 0, "yes", "no"), amount=frame["a"] * 2)


def run(capsys, *args):
    with pytest.raises(SystemExit) as ended:
        main([str(arg) for arg in args])
    captured = capsys.readouterr()
    return ended.value.code, captured.out, captured.err


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A directory with a fitted model, which no test changes."""
    folder = tmp_path_factory.mktemp("fitted")
    good().to_csv(folder / "good.csv", index=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        with pytest.raises(SystemExit) as ended:
            main(["fit", "good.csv", "--target", "label", "--quiet", *FRUGAL])
    assert ended.value.code in (None, 0)
    return folder


# -- tables --------------------------------------------------------------------------------------------------------


def write(content):
    """A file with this content."""
    return lambda: Path("t.csv").write_bytes(content)


def frame(change):
    """The good table, changed."""
    return lambda: change(good()).to_csv("t.csv", index=False)


def noise():
    return bytes(random.Random(0).randbytes(5000))


def twice(table):
    return table.rename(columns={"b": "a"})


TABLES = {
    "no file": (lambda: None, "t.csv"),
    "a directory": (lambda: Path("t.csv").mkdir(), "is a directory"),
    "an empty file": (write(b""), "empty"),
    "only a line break": (write(b"\n"), "t.csv"),
    "only a header": (write(b"a,b,label\n"), "at least one row"),
    "binary noise": (write(noise()), "t.csv"),
    "a PNG": (write(b"\x89PNG\r\n\x1a\n" + noise()), "t.csv"),
    "a cut gzip": (write(b"\x1f\x8b\x08\x00" + noise()[:50]), "t.csv"),
    "one column": (write(b"label\n" + b"yes\nno\n" * 20), "at least one feature"),
    "no target": (frame(lambda t: t.drop(columns="label")), "label"),
    "a target in another case": (frame(lambda t: t.rename(columns={"label": "Label"})), "Label"),
    "one class": (frame(lambda t: t.assign(label="yes")), "at least two classes"),
    "all targets missing": (frame(lambda t: t.assign(label=None)), "label"),
    "three rows": (frame(lambda t: t[:3]), "at least 4 rows"),
    "one row": (frame(lambda t: t[:1]), "at least two classes"),
    "the same name twice": (frame(twice), "'a'"),
    "all features missing": (frame(lambda t: t.assign(a=None, b=None, c=None, amount=None)), "feature"),
    "all features constant": (frame(lambda t: t.assign(a=1, b=2, c="x", amount=3)), "feature"),
    "rows of differing length": (write(b"a,b,label\n1,2,yes\n3,4,no,9,9\n5\n" * 20), "t.csv"),
}


@pytest.mark.parametrize("name", TABLES)
def test_tables(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    prepare, message = TABLES[name]
    prepare()
    code, out, err = run(capsys, "fit", "t.csv", "--target", "label", *FRUGAL)
    print(f"{name}: {err}")
    assert code == 2
    assert out == ""
    assert message in err
    assert_one_line(err)
    assert not Path("t.headstart").exists()


def assert_one_line(err):
    last = err.strip().splitlines()
    assert "Traceback" not in err
    assert last[-1].startswith("headstart: ")
    assert all(line.startswith("headstart: ") for line in last)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("t.csv", index=False)
    Path("t.csv").chmod(0)
    code, _, err = run(capsys, "fit", "t.csv", "--target", "label", *FRUGAL)
    assert code == 2
    assert "t.csv" in err


def test_a_constant_target_for_a_regression(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().assign(amount=1.5).to_csv("t.csv", index=False)
    code, _, err = run(capsys, "fit", "t.csv", "--target", "amount", "--task", "regression", "--evaluations", "1")
    assert code == 2
    assert "must vary" in err


# -- settings ------------------------------------------------------------------------------------------------------

SETTINGS = {
    "no target named": ([], "--target"),
    "an unknown metric": (["--target", "label", "--metric", "acuracy"], "did you mean 'accuracy'"),
    "a metric for numbers": (["--target", "label", "--metric", "r2"], "is for regression"),
    "a metric for classes": (["--target", "amount", "--metric", "roc_auc"], "is for classification, not a regression"),
    "an unknown optimizer": (["--target", "label", "--optimizer", "bays"], "did you mean 'bayes'"),
    "an unknown space": (["--target", "label", "--space", "clasification"], "did you mean 'classification'"),
    "an unknown algorithm": (["--target", "label", "--include", "lightgbn"], "did you mean 'lightgbm'"),
    "an unknown algorithm to leave out": (["--target", "label", "--exclude", "svn"], "svn"),
    "an algorithm of several stages": (["--target", "label", "--exclude", "none"], "imputation.none"),
    "no time": (["--target", "label", "--time", "0"], "--time"),
    "negative time": (["--target", "label", "--time", "-5"], "--time"),
    "time that is no number": (["--target", "label", "--time", "soon"], "--time"),
    "time that is nan": (["--target", "label", "--time", "nan"], "--time"),
    "endless time": (["--target", "label", "--time", "inf"], "--time"),
    "no evaluations": (["--target", "label", "--evaluations", "0"], "evaluations"),
    "half an evaluation": (["--target", "label", "--evaluations", "1.5"], "--evaluations"),
    "no jobs": (["--target", "label", "--jobs", "0"], "--jobs"),
    "no memory": (["--target", "label", "--memory", "0"], "--memory"),
    "too little memory": (["--target", "label", "--memory", "0.01"], "memory_limit (--memory) must be at least"),
    "a negative seed": (["--target", "label", "--seed", "-1"], "seed"),
    "an unknown task": (["--target", "label", "--task", "cluster"], "--task"),
    "numbers wanted of texts": (["--target", "label", "--task", "regression"], "label"),
    "an unknown refit": (["--target", "label", "--refit", "all"], "--refit"),
    "numbers calibrated": (["--target", "amount", "--calibrate"], "'amount' is a number"),
    "thresholds between numbers": (["--target", "amount", "--no-tune-threshold"], "--tune-threshold"),
    "thresholds for probabilities": (["--target", "label", "--tune-threshold"], "needs a metric of labels"),
    "an option that does not exist": (["--target", "label", "--tme", "5"], "--tme"),
    "a column to drop that is not there": (["--target", "label", "--drop", "aa"], "'aa'"),
    "a kind without a column": (["--target", "label", "--kind", "categorical"], "COLUMN=KIND"),
    "an unknown kind": (["--target", "label", "--kind", "a=colour"], "colour"),
    "nothing to resume": (["--target", "label", "--resume"], "resume"),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("good.csv", index=False)
    args, message = SETTINGS[name]
    code, out, err = run(capsys, "fit", "good.csv", *args)
    print(f"{name}: {err}")
    assert code == 2
    assert out == ""
    assert message in err
    assert_one_line(err)
    assert [p.name for p in Path().iterdir()] == ["good.csv"]


# -- what is there already -----------------------------------------------------------------------------------------


def test_an_output_directory_that_exists(place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    before = sorted(p.name for p in Path("good.headstart").iterdir())
    code, _, err = run(capsys, "fit", "good.csv", "--target", "label", *FRUGAL)
    assert code == 2
    assert "--resume" in err
    assert sorted(p.name for p in Path("good.headstart").iterdir()) == before


def test_an_output_directory_of_someone_else(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("good.csv", index=False)
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    code, _, err = run(capsys, "fit", "good.csv", "--target", "label", "--out", "mine", *FRUGAL)
    assert code == 2
    assert "mine" in err
    assert Path("mine/thesis.txt").read_text() == "years of work"


def test_an_output_directory_that_is_a_file(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("good.csv", index=False)
    code, _, err = run(capsys, "fit", "good.csv", "--target", "label", "--out", "good.csv", *FRUGAL)
    assert code == 2
    assert "good.csv" in err


def test_resume_with_another_table(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(place / "good.headstart", "good.headstart")
    good()[:50].to_csv("good.csv", index=False)
    code, _, err = run(capsys, "fit", "good.csv", "--out", "good.headstart", "--resume", "--evaluations", "2")
    assert code == 2
    assert "same table" in err


@contextmanager
def room_for(size):
    """Files cannot grow beyond so many bytes, as on a disk that is full."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, old)


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limits there")
def test_a_full_disk(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("good.csv", index=False)
    with room_for(50):
        code, _, err = run(capsys, "predict", place / "good.headstart", "good.csv", "--out", "new.csv")
    assert code == 1
    assert "large" in err
    assert_one_line(err)
    assert [p.name for p in Path().iterdir()] == ["good.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="files have no limits there")
def test_a_disk_that_fills_while_searching(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("good.csv", index=False)
    with room_for(20_000):
        code, _, err = run(capsys, "fit", "good.csv", "--target", "label", *FRUGAL)
    assert code == 1
    assert_one_line(err)


# -- damage --------------------------------------------------------------------------------------------------------


def cut(path):
    Path(path).write_bytes(Path(path).read_bytes()[:1000])


def flip(path):
    content = bytearray(Path(path).read_bytes())
    content[len(content) // 2] ^= 0xFF
    Path(path).write_bytes(bytes(content))


DAMAGE = {
    "no model": (lambda d: (d / "model.headstart").unlink(), ["predict", "d", "good.csv"], 2),
    "a model that is cut": (lambda d: cut(d / "model.headstart"), ["predict", "d", "good.csv"], 1),
    "a model with a wrong byte": (lambda d: flip(d / "model.headstart"), ["predict", "d", "good.csv"], 1),
    "a model that is empty": (lambda d: (d / "model.headstart").write_bytes(b""), ["predict", "d", "good.csv"], 1),
    "a model that is noise": (lambda d: (d / "model.headstart").write_bytes(noise()), ["leaderboard", "d"], 1),
    "a store that is noise": (
        lambda d: (d / "store/headstart.db").write_bytes(noise()),
        ["fit", "good.csv", "--out", "d", "--resume", "--evaluations", "2"],
        1,
    ),
    "a store that is cut": (
        lambda d: cut(d / "store/headstart.db"),
        ["fit", "good.csv", "--out", "d", "--resume", "--evaluations", "2"],
        1,
    ),
    "settings that are noise": (
        lambda d: (d / "fit.json").write_bytes(noise()),
        ["fit", "good.csv", "--out", "d", "--resume", "--evaluations", "2"],
        2,
    ),
    "a directory that is no model": (lambda d: shutil.rmtree(d) or d.mkdir(), ["predict", "d", "good.csv"], 2),
    "no directory": (lambda d: shutil.rmtree(d), ["predict", "d", "good.csv"], 2),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage(name, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("good.csv", index=False)
    shutil.copytree(place / "good.headstart", "d")
    change, args, expected = DAMAGE[name]
    change(Path("d"))
    code, out, err = run(capsys, *args)
    print(f"{name}: {err}")
    assert code == expected
    assert out == ""
    assert "d" in err
    assert_one_line(err)


# -- prediction ----------------------------------------------------------------------------------------------------

NEW = {
    "no file": (None, "new.csv"),
    "a column missing": (lambda t: t.drop(columns="c"), "'c'"),
    "no column in common": (lambda t: t.rename(columns=lambda name: f"_{name}"), "not found"),
    "text for numbers": (lambda t: t.assign(a="tall"), "'a'"),
    "a list for numbers": (lambda t: t.assign(a="[1, 2]"), "'a'"),
    "no rows": (lambda t: t[:0], "row"),
}


@pytest.mark.parametrize("name", NEW)
def test_prediction(name, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    change, message = NEW[name]
    if change is not None:
        change(good()).to_csv("new.csv", index=False)
    code, out, err = run(capsys, "predict", place / "good.headstart", "new.csv")
    print(f"{name}: {err}")
    assert code == 2
    assert out == ""
    assert message in err
    assert_one_line(err)


def test_columns_added_reordered_and_of_another_type(place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("new.csv", index=False)
    _, expected, _ = run(capsys, "predict", place / "good.headstart", "new.csv")
    changed = good()[["c", "b", "a", "label", "amount"]].assign(added=1)
    changed.astype({"a": str}).to_parquet("new.parquet")
    code, out, err = run(capsys, "predict", place / "good.headstart", "new.parquet")
    assert code in (None, 0)
    assert out == expected
    assert "added" in err
    assert err.startswith("headstart: warning: ")


OTHERS = {
    "writing over the table": (["predict", "{place}/good.headstart", "good.csv", "--out", "good.csv"], "overwrite"),
    "importance without the target": (["importance", "{place}/good.headstart", "unlabelled.csv"], "label"),
    "test scores without the target": (["leaderboard", "{place}/good.headstart", "unlabelled.csv"], "label"),
    "classes that the model does not know": (["leaderboard", "{place}/good.headstart", "other.csv"], "maybe"),
    "an unknown command": (["fti", "good.csv"], "fti"),
    "an unknown space to show": (["show-space", "auto_sklern"], "did you mean 'auto_sklearn'"),
    "studies of no store": (["studies", "nowhere"], "nowhere"),
    "inspect without a file": (["inspect", "nowhere.csv"], "nowhere.csv"),
    "a format that is not known": (["predict", "{place}/good.headstart", "good.csv", "--out", "x.docx"], "docx"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_commands(name, place, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    good().to_csv("good.csv", index=False)
    good().drop(columns="label").to_csv("unlabelled.csv", index=False)
    good().assign(label="maybe").to_csv("other.csv", index=False)
    args, message = OTHERS[name]
    code, out, err = run(capsys, *[arg.format(place=place) for arg in args])
    print(f"{name}: {err}")
    assert code in (1, 2)
    assert out == ""
    assert message in err
    assert_one_line(err)
    assert len(pd.read_csv("good.csv")) == ROWS
