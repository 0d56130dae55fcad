"""The tree of a search as people see it."""

import xml.etree.ElementTree as ET

import pytest

from headstart.errors import InvalidInput
from headstart.evaluation.scoring import Metric
from headstart.history import History
from headstart.report.tree import TreeView
from headstart.space import Algorithm, Float, PipelineSpace, Stage
from headstart.trials import Outcome, Proposal, Status, Trial


@pytest.fixture
def view() -> TreeView:
    svc = "sklearn.svm:SVC"
    space = PipelineSpace(
        "small",
        [
            Stage("scaler", [Algorithm("none"), Algorithm("a & b", "sklearn.preprocessing:StandardScaler")]),
            Stage("estimator", [Algorithm(name, svc, [Float("x", 0, 1)]) for name in ("svc", "tree")]),
        ],
    )
    history = History(space)
    made = [
        ("none", "svc", 0.3, ["svc"]),
        ("none", "svc", 0.1, ["svc", "none"]),
        ("a & b", "svc", 0.2, ["svc", "a & b"]),
        ("none", "tree", None, None),
    ]
    for number, (scaler, estimator, loss, path) in enumerate(made):
        pipeline = space.default({"scaler": scaler, "estimator": estimator})
        proposal = Proposal(number, pipeline, {} if path is None else {"path": path})
        outcome = Outcome.failed(Status.CRASHED, "it crashed") if loss is None else Outcome.of(loss)
        history.propose(proposal)
        history.add(Trial(proposal, outcome, 0.0, 1.0))
    return TreeView.of(history, metric=Metric("roc_auc", "binary"))


def test_as_text(view):
    assert str(view).splitlines() == [
        "                           tried  failed  median    best",
        "all pipelines, by ROC AUC      4       1  0.8000  0.9000",
        "├─ svc                         3       -  0.8000  0.9000",
        "│  ├─ scaler: none             2       -  0.8000  0.9000",
        "│  └─ scaler: a & b            1       -  0.8000  0.8000",
        "└─ tree                        1       1       -       -",
    ]


def test_picture_and_page_are_well_formed_and_complete(view):
    for text in (view.svg(), view.page().replace("<!doctype html>", "").replace('<meta charset="utf-8">', "")):
        for label in ("all pipelines, by ROC AUC", "svc", "scaler: none", "scaler: a &amp; b", "tree"):
            assert label in text
    root = ET.fromstring(view.svg())
    assert len(root.findall("{http://www.w3.org/2000/svg}path")) == 4  # a line to every node but the root
    page = view.page()
    assert page.count("<details") == page.count("</details>") == 2  # the root and svc have children
    assert "http" not in page  # it needs nothing else


def test_written_by_the_end_of_the_name(view, tmp_path):
    for name, start in (("t.html", "<!doctype html>"), ("t.svg", "<svg"), ("t.txt", " ")):
        view.save(tmp_path / "new" / name)
        assert (tmp_path / "new" / name).read_text(encoding="utf-8").startswith(start)
    with pytest.raises(InvalidInput, match=r"a tree is written as .html, .svg, .txt, got 't.png'"):
        view.save(tmp_path / "t.png")


def test_of_a_fitted_model(tmp_path):
    from sklearn.datasets import load_iris

    from headstart import HeadstartClassifier
    from headstart.errors import InvalidInput
    from headstart.estimators import load

    model = HeadstartClassifier(
        evaluations=8,
        optimizer="mosaic(policy_samples=5, playout_samples=10)",
        include=["decision_tree", "knn"],
        metric="accuracy",
        sandbox=False,
    ).fit(*load_iris(return_X_y=True))
    assert model.tree_.root.visits == 8
    assert set(model.tree_.root.children) == {"decision_tree", "knn"}
    assert "by accuracy" in str(model.tree_)
    model.save(tmp_path / "m.headstart")
    with pytest.raises(InvalidInput, match="headstart tree"):
        load(tmp_path / "m.headstart").tree_
