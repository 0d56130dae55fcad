"""The page of a report: what it shows, that it is safe and readable, and that a browser is content with it."""

from html.parser import HTMLParser
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from browser import visit

from headstart import HeadstartClassifier
from headstart.report.content import Behaviour, Content, Member, Score, Step, Verdict
from headstart.report.page import MOST_BYTES, TREE_BYTES, render

VOID = {"meta", "link", "br", "wbr", "rect", "circle", "path", "polyline"}


class Page(HTMLParser):
    """Elements with their attributes, and the texts; fails for tags that are not balanced."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self.open = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        if tag in ("p", "li") and self.open[-1] != tag:
            pytest.fail(f"{tag} ends inside of {self.open[-1]}")
        if tag not in VOID:
            assert self.open.pop() == tag, tag

    def handle_data(self, data):
        self.texts.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_a_browser_opens_it_without_errors_or_requests(kind, request, places, tmp_path):
    request.getfixturevalue(kind)
    file = places / f"{kind}.html"
    wide = "document.documentElement.scrollWidth > window.innerWidth"
    found = visit(file, f"[document.title, document.querySelectorAll('svg.chart').length, {wide}]", tmp_path, width=390)
    assert found.requests == [file.as_uri()]
    assert found.errors == []
    title, charts, overflows = found.answer
    assert title.endswith("Headstart report")
    assert charts >= 5
    assert not overflows  # it can be read on a phone without scrolling sideways


def test_the_browser_reports_requests_and_errors(tmp_path):
    """Otherwise the test above could not fail."""
    page = tmp_path / "bad.html"
    page.write_text('<img src="http://127.0.0.1:9/x.png"><script>console.error("complaint")</script>', encoding="utf-8")
    found = visit(page, "1 + 1", tmp_path)
    assert "http://127.0.0.1:9/x.png" in found.requests
    assert any("complaint" in error for error in found.errors)
    assert found.answer == 2


def sections(page):
    return [a["id"] for a in page.all("section")]


def test_what_a_report_of_two_classes_shows(binary, places):
    text = (places / "binary.html").read_text(encoding="utf-8")
    page = Page(text)
    assert sections(page) == ["verdict", "table", "search", "model", "behaviour", "card"]
    said = " ".join(" ".join(page.texts).split())
    summary = binary.summary_
    for value in (summary.score, *summary.interval, summary.constant, summary.linear, summary.lightgbm):
        assert f"{value:.4g}" in said
    for words in (
        "Left out as ids: customer_id",
        "Left out as constants: country",
        "ROC curve",
        "Precision and recall",
        "Calibration",
        "Confusion",
        "Which columns matter",
        "How predictions depend on them",
        binary._run.dataset.key,
        "each by models that had not seen it",
        "evaluations=2",
        "Intended use",
    ):
        assert words in said, words
    assert "Left out: " not in said  # there was time for everything
    assert len(text.encode()) < MOST_BYTES


def test_what_the_others_show(multiclass, regression, places):
    page = Page((places / "multiclass.html").read_text(encoding="utf-8"))
    assert "tree" in sections(page)
    page = Page((places / "regression.html").read_text(encoding="utf-8"))
    said = " ".join(page.texts)
    assert "constraints" in sections(page)
    for words in ("Residuals", "Predicted and actual", "size <= 1 MB", "Constraints are satisfied"):
        assert words in said


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_it_is_made_for_screen_readers(kind, request, places):
    request.getfixturevalue(kind)
    page = Page((places / f"{kind}.html").read_text(encoding="utf-8"))
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in page.elements if tag in ("h1", "h2", "h3", "h4")]
    assert all(later - earlier <= 1 for earlier, later in pairwise(levels))
    assert all(a.get("role") == "img" and a.get("aria-label") for a in page.all("svg"))
    assert all("scope" in a for a in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    targets = {a["id"] for _, a in page.elements if "id" in a}
    assert {a["href"][1:] for a in page.all("a")} <= targets


def test_what_comes_from_a_table_is_only_text(tmp_path):
    """A hostile table: markup in names, classes and values, control characters, 100 long names."""
    rng, evil = np.random.default_rng(0), "<script>alert(1)</script>\"' onload=x \u202e\x07"
    frame = pd.DataFrame(rng.normal(size=(60, 100)), columns=[f"{evil}{i}{'long' * 50}" for i in range(100)])
    frame["</svg>"] = rng.choice([evil, "<img src=http://127.0.0.1:9/x>"], 60)
    frame["<b>target</b>"] = np.where(frame.iloc[:, 0] > 0, evil, "javascript:alert(1)")
    model = HeadstartClassifier(
        evaluations=1, include=["decision_tree", "preprocessing.none"], sandbox=False, n_jobs=1, splitter=2
    )
    model.fit(frame, target="<b>target</b>")
    model.report(tmp_path / "report.html", frame, time_budget=10_000)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.all("script") == page.all("img") == []
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert "\u202e" not in text
    assert "\x07" not in text
    assert len(text.encode()) < MOST_BYTES
    assert "the first 60 of 101" in text


def test_a_tree_that_is_too_large_is_left_out():
    verdict = Verdict("RMSE", False, [Score("constant", 2.0), Score("this model", 1.0, (0.9, 1.1), "model")])
    member = Member(1.0, 1.0, [Step("estimator", "ridge")], "fitted to all rows", 3)
    content = Content("A title", "today", verdict, None, None, [member], Behaviour(), tree="x" * (TREE_BYTES + 1))
    text = render(content)
    assert len(text) < TREE_BYTES
    assert "too large for a report" in text
    assert sections(Page(text)) == ["verdict", "model", "behaviour", "tree", "card"]
