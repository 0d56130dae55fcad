"""``headstart fit`` and the commands that use what it makes."""

import dataclasses
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from headstart import cli
from headstart.cli import complete, fit, messages
from headstart.cli.display import Display, Picture, clock, counting, wants_picture
from headstart.cli.main import app, main
from headstart.cli.options import duration
from headstart.cli.reports import show_bars
from headstart.cli.signals import Signals, Terminated
from headstart.data.dataset import Dataset
from headstart.errors import HeadstartWarning, StoreError, StudyLocked
from headstart.estimators import HeadstartClassifier
from headstart.fitting.assembly import Assembly
from headstart.fitting.progress import Progress
from headstart.fitting.run import Run
from headstart.store import Store
from headstart.study import Study
from headstart.study.loop import Loop
from headstart.testing.examples import live_task

FRUGAL = (
    *("--include", "logistic_regression", "--include", "preprocessing.none"),
    *("--jobs", "1", "--refit", "single", "--no-report"),
)


def table(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows), "c": rng.choice(["x", "y"], rows)})
    frame["label"] = np.where(frame["a"] + 0.3 * rng.normal(size=rows) > 0, "yes", "no")
    return frame


@pytest.fixture
def headstart(command):
    """The command, with a table in its directory."""
    table().to_csv("train.csv", index=False)
    return command


def start(directory, *args):
    """The command in a process of its own, for signals."""
    command = [sys.executable, "-m", "headstart", *map(str, args)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command,
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_for(process, text):
    seen = []
    for line in process.stderr:
        seen.append(line)
        if text in line:
            return
    raise AssertionError(f"{text!r} not found in {''.join(seen)}")


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A directory with a table and its fit."""
    place = tmp_path_factory.mktemp("fitted")
    table().to_csv(place / "train.csv", index=False)
    table(30, seed=1).to_csv(place / "test.csv", index=False)
    report = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "stdout", report)
        with pytest.raises(SystemExit) as ended:
            main(["fit", "train.csv", "--target", "label", "--evaluations", "2", "--json", *FRUGAL])
    assert ended.value.code == 0
    return place, json.loads(report.getvalue())


# -- fit ------------------------------------------------------------------------------------------------------------


def test_fit_makes_a_directory_with_all_about_the_model(fitted):
    place, report = fitted
    folder = place / "train.headstart"
    assert {p.name for p in folder.iterdir()} == {
        ".lock",
        "fit.json",
        "leaderboard.csv",
        "model.headstart",
        "report.json",
        "store",
    }
    assert json.loads((folder / "report.json").read_text()) == report
    assert (report["task"], report["metric"], report["target"]) == ("binary", "roc_auc", "label")
    assert report["statuses"] == {"ok": 2}
    assert report["best"]["score"] > 0.7
    assert sum(member["weight"] for member in report["members"]) == pytest.approx(1)
    assert len(pd.read_csv(folder / "leaderboard.csv")) == 2


def test_what_is_there_is_not_overwritten_and_resume_goes_on(headstart, in_process):
    first = headstart("fit", "train.csv", "-t", "label", "--evaluations", 1, "--seed", 3, *FRUGAL)
    assert first.code == 0
    assert "ROC AUC 0." in first.out
    assert "a constant has 0.5" in first.out
    assert "headstart predict train.headstart new.csv" in first.out
    assert "validation: " in first.err  # progress, as plain lines

    again = headstart("fit", "train.csv", "-t", "label", *FRUGAL)
    assert (again.code, again.out) == (2, "")
    assert "--resume" in again.err

    more = headstart("fit", "train.csv", "--resume", "--evaluations", 2, "--json", "--no-ensemble")
    assert more.code == 0
    report = json.loads(more.out)
    assert (report["pipelines"], report["new_pipelines"]) == (2, 1)
    assert report["settings"]["random_state"] == 3
    assert report["settings"]["include"] == ["logistic_regression", "preprocessing.none"]
    assert len(report["members"]) == 1

    assert headstart("fit", "train.csv", "--resume", "--metric", "f1").err.startswith(
        "headstart: a fit can only be resumed with the same --metric: it was 'roc_auc', got 'f1'"
    )
    assert "the same --seed: it was 3, got 0" in headstart("fit", "train.csv", "--resume", "--seed", 0).err
    same = ("fit", "train.csv", "--resume", "--evaluations", 2, "--metric", "roc_auc", "--space", "classification")
    bag = headstart(*same, "--refit", "bag")
    assert bag.code == 0
    assert "fitting the best pipeline again" in bag.err  # the model had one fold of each
    assert "again" not in headstart(*same).err  # now it has all
    assert "the same --target" in headstart("fit", "train.csv", "--resume", "-t", "c").err
    table(seed=2).to_csv("other.csv", index=False)
    other = headstart("fit", "other.csv", "--resume", "--out", "train.headstart")
    assert other.code == 2
    assert "the same table" in other.err


def test_the_report_is_about_the_model_in_the_file(headstart, in_process, monkeypatch):
    assert headstart("fit", "train.csv", "-t", "label", "--evaluations", 1, *FRUGAL).code == 0
    first, model = json.loads(Path("train.headstart/report.json").read_text()), Path("train.headstart/model.headstart")
    content = model.read_bytes()
    monkeypatch.setattr(Assembly, "make", Assembly._simple)
    ran = headstart("fit", "train.csv", "--resume", "--evaluations", 2)
    assert ran.code == 0
    assert "the earlier model was kept" in ran.err
    assert model.read_bytes() == content
    assert "simple fallback" not in ran.out
    report = json.loads(Path("train.headstart/report.json").read_text())
    assert report["pipelines"] == 2
    for name in ("score", "summary", "members"):
        assert report[name] == first[name]
    assert report["score"] is not None
    assert report["notes"] == [*first["notes"], "this run only gave a simple model, so the earlier model was kept"]


@pytest.mark.parametrize("kept", [True, False])
def test_in_little_time_a_better_model_is_not_replaced(headstart, in_process, monkeypatch, kept):
    both = ("--include", "decision_tree", "--include", "logistic_regression", "--include", "preprocessing.none")
    assert headstart("fit", "train.csv", "-t", "label", "--evaluations", 4, "--jobs", 1, *both).code == 0
    model, first = Path("train.headstart/model.headstart"), json.loads(Path("train.headstart/report.json").read_text())
    content = model.read_bytes()
    candidates = Run.candidates
    monkeypatch.setattr(Run, "candidates", lambda run: candidates(run)[-1:])  # there is time for the worst one only
    changes = () if kept else ("--no-ensemble",)  # another model is wanted
    ran = headstart("fit", "train.csv", "--resume", "--evaluations", 4, "--time", 600, *changes)
    assert ran.code == 0, ran.err
    assert (model.read_bytes() == content) is kept
    assert ("so the earlier one with ROC AUC" in ran.err) is kept
    assert (json.loads(Path("train.headstart/report.json").read_text())["score"] == first["score"]) is kept


def test_a_damaged_model_is_set_aside_and_made_anew(headstart, in_process):
    assert headstart("fit", "train.csv", "-t", "label", "--evaluations", 1, *FRUGAL).code == 0
    model = Path("train.headstart/model.headstart")
    part = model.read_bytes()[:1000]
    model.write_bytes(part)
    ran = headstart("fit", "train.csv", "--resume", "--evaluations", 2)
    assert ran.code == 0, ran.err
    assert ran.err.count("is damaged or something else; it is now train.headstart/model.damaged") == 1
    assert Path("train.headstart/model.damaged").read_bytes() == part
    assert headstart("predict", "train.headstart", "train.csv").code == 0


def test_what_is_finished_is_kept_though_it_was_not_told(headstart, in_process, monkeypatch):
    def stopped(loop, last):
        if loop.finished:
            raise Terminated(signal.SIGTERM)
        return told(loop, last)

    told = Loop._tell_up_to
    monkeypatch.setattr(Loop, "_tell_up_to", stopped)  # with two jobs the second may be finished before the first
    options = ("--include", "logistic_regression", "--jobs", 2)
    ran = headstart("fit", "train.csv", "-t", "label", "--evaluations", 4, *options)
    assert ran.code == 143
    kept = re.search(r"stopped by SIGTERM; no new model was made; (\d) pipeline", ran.err)
    assert kept is not None, ran.err
    with Store.open("train.headstart/store") as store:
        (study,) = store.studies()
        assert len(store.read_study(study.name).trials()) == int(kept[1]) > 0


def test_a_number_is_a_regression_and_quiet_is_quiet(headstart, in_process):
    ran = headstart(
        "fit", "train.csv", "-t", "a", "--evaluations", 1, "--include", "ridge", "-j", 1, "--quiet", "--out", "deep/er"
    )
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert json.loads(Path("deep/er/report.json").read_text())["task"] == "regression"
    assert headstart("predict", "deep/er", "train.csv", "--proba").code == 2
    assert float(headstart("predict", "deep/er", "train.csv").out.splitlines()[1])


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["fit", "nope.csv", "-t", "label"], "nope.csv not found"),
        (["fit", "train.csv"], "name the column to predict with --target; Columns are a, b, c, label"),
        (["fit", "train.csv", "-t", "lable"], "did you mean 'label'?"),
        (["fit", "train.csv", "-t", "label", "--metric", "rocauc"], "did you mean 'roc_auc'?"),
        (["fit", "train.csv", "-t", "label", "--optimizer", "byes"], "did you mean 'bayes'?"),
        (["fit", "train.csv", "-t", "label", "--optimizer", "gp(foo=1)"], "'gp' has no setting 'foo'"),
        (["fit", "train.csv", "-t", "label", "--optimizer", "gp(kernel=foo)"], "kernel must be one of"),
        (["fit", "train.csv", "-t", "label", "--optimizer", "mosaic(widening=x)"], "'x'"),
        (["fit", "train.csv", "-t", "label", "--space", "x"], "no search space is named 'x'"),
        (["fit", "train.csv", "-t", "label", "--include", "ligthgbm"], "did you mean 'lightgbm'?"),
        (["fit", "train.csv", "-t", "label", "--time", "soon"], "such as 90, 10m or 1.5h"),
        (["fit", "train.csv", "-t", "label", "--jobs", "0"], "must be at least 1, or -1 for all cores, got '0'"),
        (["fit", "train.csv", "-t", "label", "--memory", "much"], "must be a number of gigabytes"),
        (["fit", "train.csv", "-t", "label", "--constraint", "latency"], "got 'latency'"),
        (["fit", "train.csv", "-t", "label", "--constraint", "latncy <= 1"], "did you mean 'latency'?"),
        (["fit", "train.csv", "-t", "label", "--task", "ranking"], "--task"),
        (["fit", "train.csv", "-t", "label", "--out", "train.csv"], "must be a directory"),
        (["fit", "train.csv", "--resume"], "nothing to resume"),
        (["fit", "--nosuch"], "headstart fit --help"),
        (["nosuch"], "No such command"),
        (["predict", "nowhere", "train.csv"], "nowhere not found"),
        (["predict", ".", "train.csv"], "there is no model.headstart in ."),
        (["inspect", "train.csv", "-t", "x"], "not found"),
    ],
)
def test_a_mistake_is_one_line_exit_code_2_and_leaves_nothing(headstart, args, message):
    ran = headstart(*args)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("headstart: ")
    assert ran.err.count("\n") == 1
    assert message in ran.err
    assert os.listdir() == ["train.csv"]


def test_columns_left_out_and_declared(headstart, in_process):
    wide = table().assign(copy=lambda t: t["label"], code=lambda t: (t["b"] > 0) * 7)
    wide.to_csv("wide.csv", index=False)
    plain = headstart("inspect", "wide.csv", "--target", "label")
    assert "'copy' maps one to one to the target" in plain.err
    told = headstart("inspect", "wide.csv", "--target", "label", "--drop", "copy", "--kind", "code=categorical")
    assert "maps one to one" not in told.err
    args = ("--target", "label", "--drop", "copy", "--kind", "code=categorical", "--evaluations", "1", *FRUGAL)
    assert headstart("fit", "wide.csv", *args, "--quiet").code == 0
    wide.drop(columns="copy").to_csv("new.csv", index=False)
    assert headstart("predict", "wide.headstart", "new.csv").code == 0
    assert (
        headstart("fit", "wide.csv", "--out", "wide.headstart", "--resume", "--evaluations", "2", "--quiet").code == 0
    )


def test_warnings_are_one_line_each(headstart):
    frame = table()
    frame.loc[:3, "label"] = None
    frame.to_csv("gaps.csv", index=False)
    ran = headstart("inspect", "gaps.csv", "-t", "label")
    assert ran.code == 0
    assert ran.err == "headstart: warning: 4 of 60 rows have no value in 'label' and were left out\n"
    assert "56 rows × 3 columns" in ran.out


# -- use ------------------------------------------------------------------------------------------------------------


def test_predict(fitted, headstart):
    place, _ = fitted
    test = place / "test.csv"
    lines = headstart("predict", place / "train.headstart", test).out.splitlines()
    assert lines[0] == "prediction"
    assert set(lines[1:]) == {"no", "yes"}
    assert len(lines) == 31
    shares = pd.read_csv(io.StringIO(headstart("predict", place / "train.headstart", test, "--proba").out))
    assert list(shares) == ["no", "yes"]
    np.testing.assert_allclose(shares.sum(axis=1), 1)

    model = place / "train.headstart" / "model.headstart"
    for name, read in (("p.csv", pd.read_csv), ("p.parquet", pd.read_parquet)):
        ran = headstart("predict", model, test, "--out", name)
        assert (ran.code, ran.out, ran.err) == (0, "", "")
        assert read(name)["prediction"].tolist() == lines[1:]
    before = test.read_bytes()
    refused = headstart("predict", model, test, "--out", test)
    assert (refused.code, refused.out) == (2, "")
    assert "overwrite" in refused.err
    assert test.read_bytes() == before
    assert headstart("predict", model, test, "--out", "p.xyz").code == 2


def test_what_is_warned_of_is_not_a_note_as_well(headstart, in_process):
    bound = ("--constraint", "size <= 1kB", *FRUGAL)
    done = headstart("fit", "train.csv", "--target", "label", "--evaluations", "1", *bound)
    assert done.code == 0
    assert done.err.count("warning: no pipeline satisfied the constraints") == done.err.count("warning: ") == 1
    assert "no pipeline satisfied" not in done.out
    notes = json.loads(Path("train.headstart/report.json").read_text())["notes"]
    assert any(note.startswith("no pipeline satisfied") for note in notes)
    size = Path("train.headstart/model.headstart").stat().st_size
    shown = headstart("leaderboard", "train.headstart").out
    assert "size as measured in the search, for the model of one fold" in shown
    assert f"the file of the model has {size / 1000:.4g} kB" in shown.replace("\n", " ")


def test_leaderboard_and_importance(fitted, headstart):
    place, report = fitted
    model, test = place / "train.headstart", place / "test.csv"
    assert "2 pipelines by ROC AUC" in headstart("leaderboard", model).out
    rows = json.loads(headstart("leaderboard", model, "--json").out)
    assert rows[0]["score"] == report["best"]["score"]
    tested = json.loads(headstart("leaderboard", model, test, "--json").out)
    assert {"model"} < {row["estimator"] for row in tested}
    assert all(0 <= row["test_score"] <= 1 for row in tested)
    assert "test score" in headstart("leaderboard", model, test).out
    weights = json.loads(headstart("importance", model, test, "--json").out)
    assert weights[0]["feature"] == "a"
    assert "█" in headstart("importance", model, test, "--best", 1).out


def test_export(fitted, headstart):
    place, _ = fitted
    ran = headstart("export", place / "train.headstart", "--out", "script.py")
    assert (ran.code, ran.out, ran.err) == (0, "", "")
    script = Path("script.py").read_text()
    compile(script, "script.py", "exec")
    assert script == headstart("export", place / "train.headstart").out


# -- signals --------------------------------------------------------------------------------------------------------


def test_ctrl_c_makes_the_model_of_what_was_found_and_sigterm_keeps_it_for_later(headstart, tmp_path):
    endless = ("fit", "train.csv", "-t", "label", "--evaluations", 10**6, *FRUGAL)
    process = start(tmp_path, *endless, "--out", "one", "--json")
    wait_for(process, "ROC AUC")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert "headstart: stopped; making the model from" in err
    report = json.loads(out)
    assert report["reason"] == "interrupted"
    assert (tmp_path / report["model"]).exists()

    process = start(tmp_path, *endless, "--out", "two")
    wait_for(process, "ROC AUC")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()
    assert (process.returncode, out) == (143, "")
    assert "stopped by SIGTERM" in err
    assert "Traceback" not in err
    assert not (tmp_path / "two" / "model.headstart").exists()
    assert (tmp_path / "two" / "store").is_dir()

    later = headstart("fit", "train.csv", "--out", "two", "--resume", "--evaluations", 1, "--json", "-q")
    assert later.code == 0, later.err
    report = json.loads(later.out)
    assert report["new_pipelines"] == 0
    assert report["pipelines"] >= 1
    assert (tmp_path / "two" / "model.headstart").exists()


def test_ctrl_c_in_a_resumed_search_stops_it(headstart, in_process, monkeypatch):
    assert headstart("fit", "train.csv", "-t", "label", "--evaluations", 1, *FRUGAL).code == 0
    told = Display.trial

    def interrupted(display, run, trial):
        told(display, run, trial)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(Display, "trial", interrupted)
    monkeypatch.setattr(os, "_exit", sys.exit)
    ran = headstart("fit", "train.csv", "--resume", "--evaluations", 10, "--time", 600, "--refit", "bag", "--json")
    assert ran.code == 0, ran.err
    assert "refitting the best earlier pipelines" in ran.err
    assert "stopped; making the model from 2 pipelines" in ran.err
    report = json.loads(ran.out)
    assert (report["reason"], report["pipelines"]) == ("interrupted", 2)


def test_only_making_the_model_is_too_late_to_stop():
    display = Display(Progress())
    model = HeadstartClassifier(evaluations=1, include=["gaussian_nb"], sandbox=False, n_jobs=1)
    model.fit(table(), target="label")
    run = model._run
    display.phase(run, "refitting the best earlier pipelines")
    assert not display.signals.making
    run.progress = display
    run.finish()
    assert display.signals.making


def test_ctrl_c_before_anything_was_found_leaves_nothing(headstart, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(fit, "_search", interrupted)
    ran = headstart("fit", "train.csv", "-t", "label")
    assert (ran.code, ran.out) == (130, "")
    assert "nothing was kept" in ran.err
    assert os.listdir() == ["train.csv"]


def test_the_second_ctrl_c_leaves_at_once(monkeypatch, capsys):
    left = []
    signals = Signals(lambda: left.append("display"))
    monkeypatch.setattr(os, "_exit", sys.exit)
    with signals, pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
    with signals, pytest.raises(SystemExit) as ended:
        os.kill(os.getpid(), signal.SIGINT)
    assert ended.value.code == 130
    assert left == ["display"]
    making = Signals(lambda: None)
    making.making = True
    with making:
        os.kill(os.getpid(), signal.SIGINT)  # the search is over: nothing to stop
    assert "press Ctrl-C again" in capsys.readouterr().err
    with Signals(lambda: None), pytest.raises(Terminated, match="SIGTERM"):
        os.kill(os.getpid(), signal.SIGTERM)


# -- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (StoreError("the store is damaged"), 1, "headstart: the store is damaged"),
        (StudyLocked("another process runs it"), 2, "headstart: another process runs it"),
        (OSError(28, "No space left on device", "a/file"), 1, "headstart: a/file: No space left on device"),
        (MemoryError(), 1, "headstart: not enough memory for this table"),
        (ZeroDivisionError("x"), 1, "headstart: unexpected ZeroDivisionError: x; please report it"),
    ],
)
def test_failures(headstart, monkeypatch, error, code, line):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(fit, "fit", fails)
    monkeypatch.delenv("HEADSTART_DEBUG", raising=False)
    ran = headstart("fit", "train.csv")
    assert ran.code == code
    assert ran.err.startswith(line)
    assert "Traceback" not in ran.err
    monkeypatch.setenv("HEADSTART_DEBUG", "1")
    assert "Traceback" in headstart("fit", "train.csv").err


def test_other_warnings_are_not_shown_and_ours_once(capsys):
    with messages.plain_warnings():
        for _ in range(2):
            warnings.warn("careful", HeadstartWarning, stacklevel=1)
            warnings.warn("of others", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "headstart: warning: careful\n"


# -- what is shown --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [50, 80, 120])
def test_the_picture_fits_the_terminal(width):
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)
    assert wants_picture(console, {})
    assert not wants_picture(console, {"NO_COLOR": "1"})
    assert not wants_picture(console, {"TERM": "dumb"})
    picture = Picture(console)
    with picture.open("reading train.csv"):
        console.print(picture.render())
        model = HeadstartClassifier(evaluations=2, include=["gaussian_nb"], sandbox=False, n_jobs=1)
        model.fit(Dataset.from_table(table(), "label", name="train"), progress=picture)
        messages.say("a line above it")
    recorded = Console(file=io.StringIO(), width=width)
    recorded.print(picture.render())
    lines = recorded.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines)
    assert "2 pipelines   2 ok" in shown
    assert "best      ROC AUC 0." in shown
    assert "gaussian_nb" in shown
    assert "making the model" in shown or "choosing the ensemble" in shown
    picture.trial(model._run, model.history_[0])
    assert picture.doing == ""
    assert "reading train.csv" in console.file.getvalue()
    assert "headstart: a line above it" in console.file.getvalue()


def test_the_picture_names_the_pipelines_that_run():
    picture, shown = Picture(Console(file=io.StringIO())), []

    def objective(pipeline):
        run = SimpleNamespace(study=study, plan=SimpleNamespace(n_jobs=1))
        shown.append((pipeline.algorithms[-1], str(picture._now(run))))
        return 0.0

    study = Study(live_task(), objective)
    picture.doing = "refitting"  # at the start
    assert str(picture._now(SimpleNamespace(study=study))) == "refitting"
    study.run(evaluations=2)
    assert [text for _, text in shown] == [f"{name} 0 s" for name, _ in shown]
    assert study.running == []


def test_bars():
    console = Console(file=io.StringIO(), width=60)
    rows = [{"feature": f, "importance": v, "std": 0.0} for f, v in (("a[b]", 0.5), ("b" * 80, 0.0), ("c", -0.1))]
    show_bars(rows, "title", console)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 60
    assert "a[b]" in lines[1]
    assert "█" in lines[1]
    assert "█" not in "".join(lines[2:])


def test_counting_is_lines_without_a_terminal_and_a_bar_on_one(capsys, monkeypatch):
    with counting("shuffling", "columns", every=0.0) as count:
        count(0, 3)
        count(1, 3)
    with counting("shuffling", "columns") as count:
        count(2, 3)  # too soon
    assert capsys.readouterr().err == "shuffling: 0 of 3 columns\nshuffling: 1 of 3 columns\n"
    drawn = Console(file=io.StringIO(), force_terminal=True, width=80)
    monkeypatch.setattr("headstart.cli.display.Console", lambda **_: drawn)
    monkeypatch.setattr("headstart.cli.display.wants_picture", lambda _: True)
    with counting("shuffling", "columns") as count:
        count(1, 4)
    assert "25%" in drawn.file.getvalue()
    assert capsys.readouterr().err == ""


def test_times():
    assert [duration(text) for text in ("90", "1.5h", "10m", "2s")] == [90, 5400, 600, 2]
    assert clock(59.9) == "0:59"


@pytest.mark.parametrize(
    "command", ["fit", "predict", "leaderboard", "importance", "report", "export", "inspect", "show-space"]
)
def test_help(command):
    result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "100"})
    assert result.exit_code == 0
    assert command == "show-space" or f"headstart {command} train" in result.output


def test_completion():
    assert complete.spaces("cl") == ["classification"]
    assert "bayes" in complete.optimizers("")
    assert complete.metrics("roc") == ["roc_auc"]
    ctx = type("Context", (), {"params": {"space": None}})()
    assert {"lightgbm", "linear_svm"} <= set(complete.algorithms(ctx, "l"))
    ctx.params["space"] = "regression"
    assert "logistic_regression" not in complete.algorithms(ctx, "l")


def test_the_budget_counts_from_the_start_of_the_command_and_leaves_time_to_write(headstart, monkeypatch):
    seen = {}

    def searched(model, *_, **given):
        seen.update(given, budget=model.time_budget)
        1 / 0

    monkeypatch.setattr(HeadstartClassifier, "fit", searched)
    before = time.time()
    assert headstart("fit", "train.csv", "-t", "label", "--time", "5").code == 1
    assert before <= seen["started"] == cli.began <= time.time()
    assert (seen["budget"], seen["reserve"]) == (5, 0.25)
    assert headstart("fit", "train.csv", "-t", "label", "--evaluations", "5").code == 1
    assert seen["reserve"] == 0


def test_every_option_is_a_setting(headstart, monkeypatch):
    seen = []
    monkeypatch.setattr(fit, "read_dataset", lambda table, request: seen.append(request) or 1 / 0)
    options = shlex.split(
        "--time 2m --evaluations 7 -j -1 --memory 1.5 --metric f1 --optimizer random --knowledge k.npz "
        "--space small --include a --include b --exclude c --seed 4 --no-ensemble --refit full --calibrate "
        "--no-tune-threshold"
    )
    bounds = ("--constraint", "latency <= 0.001", "--constraint", "size <= 10")
    kinds = ("--drop", "x", "--kind", "y=z=text", "--task", "regression")
    headstart("fit", "train.csv", "-t", "label", *options, *bounds, *kinds)
    (request,) = seen
    assert request.describe() == {
        "time_budget": 120.0,
        "evaluations": 7,
        "n_jobs": -1,
        "memory_limit": 1_500_000_000,
        "metric": "f1",
        "optimizer": "random",
        "knowledge": str(Path("k.npz").resolve()),
        "space": "small",
        "include": ["a", "b"],
        "exclude": ["c"],
        "random_state": 4,
        "ensemble": False,
        "refit": "full",
        "calibrate": True,
        "tune_threshold": False,
        "constraints": ["latency <= 0.001", "size <= 10"],
        "kinds": {"x": "id", "y=z": "text"},
        "target": "label",
        "task": "regression",
    }
    assert [(c.name, c.upper) for c in request.bounds] == [("latency", 1e-3), ("size", 10.0)]
    assert type(request)(**json.loads(json.dumps(request.describe()))).describe() == request.describe()


def test_a_constraint_gives_one_pipeline(headstart, in_process):
    options = ("-t", "label", "--evaluations", 2, "--constraint", "size <= 1e9", "--json", *FRUGAL)
    report = json.loads(headstart("fit", "train.csv", *options).out)
    assert report["settings"]["constraints"] == ["size <= 1e9"]
    assert len(report["members"]) == 1
    other = headstart("fit", "train.csv", "--resume", "--constraint", "size <= 1e8")
    assert "the same --constraint: it was ['size <= 1e9'], got ['size <= 1e8']" in other.err


@pytest.mark.parametrize("fitted", [False, True])
def test_what_a_killed_fit_had_begun_to_write_is_removed_by_the_next(headstart, in_process, fitted):
    begin = ("fit", "train.csv", "--target", "label", "--out", "d", *FRUGAL)
    if fitted:
        assert headstart(*begin, "--evaluations", "1").code == 0
    place = Path("d")
    place.mkdir(exist_ok=True)
    left = [place / ".model.headstart.0123abcd.tmp", place / ".0123abcd.fit.json"]
    others = [] if not fitted else [place / ".model.headstart.mine.tmp", place / "notes"]
    for path in [*left, *others]:
        path.write_text("{")
    done = headstart("fit", "train.csv", "--out", "d", "--evaluations", "2", *(["--resume"] if fitted else begin[2:]))
    assert done.code == 0, done.err
    assert [path.exists() for path in left] == [False, False]
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("settings", [{"time": 60, "seed": 0}, {"target": "label", "metric": 5}, [], None])
def test_a_fit_of_another_version_is_refused(headstart, settings):
    Path("train.headstart").mkdir()
    Path("train.headstart/fit.json").write_text(json.dumps({"settings": settings}))
    ran = headstart("fit", "train.csv", "--resume")
    assert ran.code == 2
    assert "another version of Headstart; start a new fit with another --out" in ran.err


# -- what Python has, the command line has ----------------------------------------------------------------------------


def test_every_setting_is_an_option():
    options = {param.name for param in app_command("fit").params}
    elsewhere = {"store", "sandbox", "verbose", "report_file"}  # the directory, debugging, --quiet, --report
    assert {f.name for f in dataclasses.fields(fit.FitRequest)} - elsewhere <= options


def app_command(name):
    return typer.main.get_command(app).commands[name]


def test_roles_markers_and_ids(command):
    frame = table(90).assign(
        customer=[f"{i:04}" for i in range(90)], w=1.0, g=np.arange(90) // 3, when=np.arange(90), d="2024-05-06"
    )
    frame["d"] = pd.date_range("2024-01-01", periods=90).strftime("%Y-%m-%d")
    frame.loc[:4, "label"] = "k.A."
    frame.to_csv("train.csv", index=False)
    roles = ("--weights", "w", "--groups", "g", "--missing", "k.A.", "--drop", "customer")
    ran = command("fit", "train.csv", "-t", "label", "--patience", 1, "--evaluations", 2, *roles, *FRUGAL, "--json")
    assert ran.code == 0, ran.err
    expected = {"weights": "w", "groups": "g", "missing": ["k.A."], "patience": 1}
    assert json.loads(ran.out)["settings"].items() >= expected.items()
    assert json.loads(ran.out)["rows"] == 85
    assert HeadstartClassifier.load("train.headstart/model.headstart").classes_.tolist() == ["no", "yes"]
    frame.assign(d=pd.date_range("2024-01-01", periods=90).strftime("%d.%m.%Y")).to_csv("new.csv", index=False)
    predicted = command("predict", "train.headstart", "new.csv", "--id", "customer")
    found = pd.read_csv(io.StringIO(predicted.out), dtype=str)
    assert found.columns.tolist() == ["customer", "prediction"]
    assert found["customer"].tolist() == frame["customer"].tolist()
    refused = command("fit", "train.csv", "--resume", "--groups", "when")
    assert refused.code == 2
    assert "the same --groups" in refused.err
    shown = json.loads(command("importance", "train.headstart", "train.csv", "--json", "--time", "30").out)
    assert {row["feature"] for row in shown} == {"a", "b", "c", "when", "d"}
    assert "with times" in command("inspect", "train.csv", "-t", "label", "--times", "when").out
