"""What a notebook shows of estimators, leaderboards and fits."""

import sys
from types import ModuleType, SimpleNamespace

import pandas as pd
import pytest

from headstart import HeadstartClassifier
from headstart.estimators import load
from headstart.fitting.notebook import SHOWN, Leaderboard, NotebookProgress, in_notebook


@pytest.fixture(scope="module")
def model(frame):
    return HeadstartClassifier(
        evaluations=2, include=["logistic_regression", "decision_tree"], splitter=3, sandbox=False, n_jobs=1
    ).fit(frame.rename(columns={"label": "<label>"}), target="<label>")


def test_an_estimator_shows_how_good_it_is_once_it_is_fitted(model):
    page = model._repr_mimebundle_()["text/html"]
    assert page == model._repr_html_()
    assert "<em>&lt;label&gt;</em>, binary" in page
    assert model.summary_.lines()[0] in page
    assert page.count("<tr>") == 1 + len(model.model_.members)
    unfitted = HeadstartClassifier()._repr_html_()
    assert "sk-" in unfitted  # scikit-learn's diagram
    assert "HeadstartClassifier" in unfitted


def test_a_leaderboard_is_a_table_for_people(model, tmp_path):
    board = model.leaderboard_
    page = board._repr_html_()
    assert f"{board['score'].iloc[0]:.5g}" in page
    assert "ROC AUC" in page
    assert page.count("<tr") == 1 + len(board)
    assert page.count("font-weight: 600") == (board["weight"] > 0).sum()
    model.save(tmp_path / "model.headstart")
    assert load(tmp_path / "model.headstart").leaderboard_._repr_html_() == page


def test_errors_are_positive_markup_is_text_and_many_rows_are_cut(model):
    board = model.leaderboard_
    many = Leaderboard(pd.concat([board] * 30, ignore_index=True))
    many["metric"], many["score"], many["pipeline"] = "neg_log_loss", -0.25, "<script>"
    page = many._repr_html_()
    assert "0.25" in page
    assert "-0.25" not in page
    assert "<script>" not in page
    assert f"and {len(many) - SHOWN} more" in page
    assert type(board.head(1)) is pd.DataFrame  # what is made of it is plain
    assert "<table" in Leaderboard({"a": [1]})._repr_html_()


class Handle:
    """Stands for a cell's output."""

    def __init__(self):
        self.shown = []

    def update(self, data, raw):
        assert raw
        self.shown.append(data)


@pytest.fixture
def kernel(monkeypatch):
    """A program that looks like a kernel; returns what its cell shows."""
    handle = Handle()
    display = ModuleType("IPython.display")
    display.display = lambda data, raw, display_id: handle
    ipython = ModuleType("IPython")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())
    ipython.display = display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return handle


def test_progress_is_redrawn_in_a_cell(kernel, frame, quick, capsys):
    assert in_notebook()
    HeadstartClassifier(**quick, verbose=True).fit(frame, target="label")
    assert capsys.readouterr().out == ""
    first, last = kernel.shown[0], kernel.shown[-1]
    assert "0 pipelines tried" in first["text/plain"]
    assert "2 pipelines tried, 0 failed" in last["text/plain"]
    assert last["text/plain"].endswith("done")
    assert 'value="1.000"' in last["text/html"]
    assert any("ROC AUC" in shown["text/html"] for shown in kernel.shown)


def test_elsewhere_there_are_lines(frame, quick, capsys):
    assert not in_notebook()
    HeadstartClassifier(**quick, verbose=True).fit(frame, target="label")
    assert "validation: " in capsys.readouterr().out


def test_improvements_are_shown_the_last_first(kernel, frame, quick):
    progress = NotebookProgress()
    HeadstartClassifier(**quick).fit(frame, target="label", progress=progress)
    progress._improvements = [f"improvement {i}" for i in range(9)]
    run = SimpleNamespace(history=[], elapsed=3.0, settings=SimpleNamespace(seconds=10.0, evaluations=None), table="d")
    assert progress.lines(run) == [
        "'d'",
        "3 s of 10 s, 0 pipelines tried, 0 failed",
        *(f"improvement {i}" for i in (8, 7, 6, 5, 4)),
        "done",
    ]
