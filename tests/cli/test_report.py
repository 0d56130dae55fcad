"""``headstart report``, and the report at the end of a fit."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headstart.cli import fit as cli_fit
from headstart.cli.fit import FitRequest
from headstart.cli.report import command_of
from headstart.fitting import evidence
from headstart.fitting.evidence import Record

OPTIONS = ("-t", "label", "--evaluations", 1, "--include", "lda", "--include", "preprocessing.none", "-j", 1)


def table(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.normal(size=rows), "c": rng.choice(["x", "y"], rows)})
    frame["label"] = np.where(frame["a"] + 0.3 * rng.normal(size=rows) > 0, "yes", "no")
    return frame


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A directory with a table and its fit, made once."""
    return tmp_path_factory.mktemp("finished")


@pytest.fixture
def fitted(command, in_process, finished):
    """The command, in a directory with a table and its fit."""
    if not any(finished.iterdir()):
        table().to_csv("train.csv", index=False)
        table(30, seed=1).to_csv("test.csv", index=False)
        ran = command("fit", "train.csv", *OPTIONS, "--json")
        assert ran.code == 0, ran.err
        Path("out.json").write_text(ran.out)
        shutil.copytree(".", finished, dirs_exist_ok=True)
    else:
        shutil.copytree(finished, ".", dirs_exist_ok=True)
        request = json.loads(Path("train.headstart/fit.json").read_text())
        Path("train.headstart/fit.json").write_text(json.dumps(request | {"table": str(Path("train.csv").resolve())}))
    return command


def test_a_fit_ends_with_a_report(fitted):
    report = json.loads(Path("out.json").read_text())
    assert report["report"] == "train.headstart/report.html"
    page = Path(report["report"]).read_text(encoding="utf-8")
    assert "headstart fit train.csv --target label --task classification --evaluations 1 --jobs 1 --metric" in page
    assert f"{report['summary']['lightgbm']:.4g}" in page
    assert "report_file" not in page
    assert "report_file" not in Path("train.headstart/fit.json").read_text()


def test_no_report_and_one_that_comes_later(command, in_process):
    table().to_csv("train.csv", index=False)
    ran = command("fit", "train.csv", *OPTIONS, "--no-report")
    assert ran.code == 0
    assert "report.html" not in ran.out
    assert not Path("train.headstart/report.html").exists()
    assert json.loads(Path("train.headstart/fit.json").read_text())["settings"]["report"] is False
    ran = command("report", "train.headstart")
    assert (ran.code, ran.out) == (0, "written: train.headstart/report.html\n")
    assert "ROC curve" in Path("train.headstart/report.html").read_text(encoding="utf-8")


def test_with_a_test_table_and_without_the_training_table(fitted):
    Path("train.csv").rename("moved.csv")
    assert fitted("report", "train.headstart", "test.csv", "--out", "new.html").code == 0
    page = Path("new.html").read_text(encoding="utf-8")
    assert "on the test table" in page
    assert "the training table is not at" in page
    assert "What each family reached" in page
    assert fitted("report", "train.headstart", "--out", "new.html", "--train", "moved.csv").code == 0
    page = Path("new.html").read_text(encoding="utf-8")
    assert "the training table is not at" not in page
    assert "each by models that had not seen it" in page  # the folds of the fit were found
    table(61).to_csv("train.csv", index=False)
    assert fitted("report", "train.headstart", "--out", "new.html").code == 0
    assert "has changed since the fit" in Path("new.html").read_text(encoding="utf-8")


def test_a_later_report_knows_where_the_time_went_but_not_where_the_table_was(fitted):
    assert fitted("report", "train.headstart", "--out", "new.html").code == 0
    page = Path("new.html").read_text(encoding="utf-8")
    spent = json.loads(Path("train.headstart/report.json").read_text())["seconds"]
    assert f'in all</th><td class="n">{spent:.1f}</td>' in page
    assert "headstart fit train.csv --target label" in page
    Path("train.headstart/report.json").write_text("{")
    assert fitted("report", "train.headstart", "--out", "new.html").code == 0
    assert "Where the time went" not in Path("new.html").read_text(encoding="utf-8")


def test_a_model_file_alone(fitted):
    shutil.move("train.headstart/model.headstart", "alone.headstart")
    shutil.rmtree("train.headstart")
    assert fitted("report", "alone.headstart", "test.csv", "--out", "alone.html").code == 0
    assert "on the test table" in Path("alone.html").read_text(encoding="utf-8")


def files():
    """What is there, but for the store, whose database has files of its own."""
    return sorted(str(path) for path in Path().rglob("*") if "store" not in path.parts)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["nothing"], "nothing not found; give the directory that 'headstart fit' made"),
        (["empty"], "there is no model.headstart in empty"),
        (["train.csv"], "train.csv"),
        (["train.headstart", "none.csv"], "none.csv not found"),
        (["train.headstart", "bare.csv"], "must have the target 'label' to be scored"),
        (["train.headstart", "--out", "report.pdf"], "a report is written as .html, got 'report.pdf'"),
        (["train.headstart", "--out", "empty/no/r.html"], "must exist to write r.html there"),
        (["train.headstart", "--out", "dir.html"], "must be a file, but is a directory"),
        (["train.headstart", "page.html", "--out", "page.html"], "is also read; choose another name"),
        (["train.headstart", "--train", "test.csv"], "--train must be the table of the fit"),
        (["train.headstart", "--train", "none.csv"], "none.csv not found"),
        (["train.headstart/model.headstart", "--train", "train.csv"], "--train needs the directory of a fit"),
        (["train.headstart", "--time", "soon"], "such as 90, 10m or 1.5h"),
        ([], "headstart report --help"),
    ],
)
def test_mistakes_end_in_one_line(args, message, fitted):
    Path("empty").mkdir()
    Path("dir.html").mkdir()
    Path("bare.csv").write_text("a,c\n1,x\n2,y\n")
    Path("page.html").write_text("mine")
    before = files()
    ran = fitted("report", *args)
    assert ran.code in (1, 2)
    assert ran.out == ""
    assert message in ran.err
    assert ran.err.startswith("headstart: ")
    assert ran.err.count("\n") == 1
    assert files() == before
    assert Path("page.html").read_text() == "mine"


def test_a_report_that_fails_costs_no_model(command, in_process, monkeypatch):
    """Neither one that raises nor one that is interrupted; the model is written before."""
    table().to_csv("train.csv", index=False)
    there = []

    def fail(content):
        there.append(Path(f"{'a' if not there else 'b'}/model.headstart").exists())
        raise (RuntimeError("no ink") if len(there) == 1 else KeyboardInterrupt)

    monkeypatch.setattr(evidence, "render", fail)
    ran = command("fit", "train.csv", *OPTIONS, "--out", "a")
    assert (ran.code, there) == (0, [True])
    assert "warning: the report could not be written, RuntimeError: no ink; the model is not affected" in ran.err
    assert "The model is in a/model.headstart" in ran.out
    assert "The report is in" not in ran.out
    ran = command("fit", "train.csv", *OPTIONS, "--out", "b")
    assert (ran.code, there) == (0, [True, True])
    assert "the report was not finished; 'headstart report b' writes it" in ran.err
    assert json.loads(Path("b/report.json").read_text())["report"] is None


def test_a_report_gets_what_is_left_of_the_budget(command, in_process, monkeypatch):
    table().to_csv("train.csv", index=False)
    given = {}

    def write(estimator, end, record):
        given.update(end=end, record=record)
        return True

    monkeypatch.setattr("headstart.fitting.estimator.HeadstartEstimator.write_report", write)
    assert command("fit", "train.csv", *OPTIONS, "--time", "1000").code == 0
    assert given["end"] == pytest.approx(cli_fit.cli.began + 1000)
    assert isinstance(given["record"], Record)


def test_the_command_that_makes_a_fit_again():
    request = FitRequest(
        target="a b",
        evaluations=3,
        include=["lda", "knn"],
        ensemble=False,
        kinds={"zip": "categorical"},
        random_state=7,
        report=False,
    )
    assert command_of(Path("my table.csv"), request) == (
        "headstart fit 'my table.csv' --target 'a b' --evaluations 3 --include lda --include knn --seed 7 "
        "--no-ensemble --kind zip=categorical"
    )
    assert "the same command gives the same model" in command_of(Path("t.csv"), FitRequest(target="y"))
