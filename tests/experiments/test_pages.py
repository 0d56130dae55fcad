"""Plots and pages made of saved results."""

import re

import numpy as np
import pytest

from experiments.pages import write_pages
from headstart.errors import InvalidInput
from headstart.replay.results import Results
from headstart.report.curves import plot_results, spread


@pytest.fixture
def results():
    rng = np.random.default_rng(0)
    found = Results("pmf", "test", 100, 1, [3, 5, 8], ["a", "b", "c"])
    for k, name in enumerate(("gp", "random", "random4x", "forest")):
        curves = np.minimum.accumulate(rng.random((3, 100)) + 0.1 * k, axis=1)
        found.add(name, list(curves), settings={"name": name}, seconds_per_suggestion=0.01 * k)
    found.add("tst_d2v", [curves[0], None, None], settings={}, seconds_per_suggestion=0.0, left_out="it needs tables")
    return found


def test_the_page_shows_all_methods_and_what_differs(results, tmp_path):
    results.save(tmp_path / "data" / "replay_pmf.json")
    (page,) = write_pages(tmp_path)
    text = page.read_text()
    for name in results.methods:
        assert f"`{name}`" in text
    assert f"{results.methods['gp']['regret_mean'][24]:.4f}" in text
    assert "1 of 3 tasks (it needs tables)" in text
    assert "0.2322 / 0.1938 / 0.1427 / 0.1155" in text
    assert (tmp_path / "replay_pmf.svg").read_text().count("random4x") == 1


@pytest.mark.parametrize("method", ["random4x", "gp"])
def test_little_is_enough_for_a_page(tmp_path, method):
    found = Results("pmf", "test", 3, 1, [4], ["one"])
    found.add(method, [np.array([0.5, 0.25, 0.0])], settings={}, seconds_per_suggestion=0.0)
    found.add("tst_d2v", [None], settings={}, seconds_per_suggestion=0.0, left_out="no tables")
    found.save(tmp_path / "data" / "replay_pmf.json")
    (page,) = write_pages(tmp_path)
    assert "0.0000 ± –" in page.read_text()
    assert "`tst_d2v` could not be run: no tables" in page.read_text()


def test_a_notice_stands_below_every_title(results, tmp_path):
    results.save(tmp_path / "data" / "replay_pmf.json")
    (tmp_path / "data" / "notice.md").write_text("Beware.\n")
    for page in write_pages(tmp_path):
        assert page.read_text().split("\n\n")[1] == "Beware."


def test_without_results(tmp_path):
    with pytest.raises(InvalidInput, match="must be a directory"):
        write_pages(tmp_path)
    (tmp_path / "data").mkdir()
    with pytest.raises(InvalidInput, match="must hold results"):
        write_pages(tmp_path)


def test_the_same_results_give_the_same_plot(results, tmp_path):
    for name in ("a.svg", "b.svg"):
        plot_results(results, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    with pytest.raises(InvalidInput, match=r"\.svg, \.png, \.pdf"):
        plot_results(results, tmp_path / "plot.txt")


def test_of_many_methods_the_best_have_colours_and_all_have_names(tmp_path):
    many = Results("pmf", "test", 3, 1, [4, 5], ["one", "two"])
    for k in range(14):
        many.add(f"m{k:02}", [np.array([0.5, 0.3, 0.01 * (k + 1)])] * 2, settings={}, seconds_per_suggestion=0.0)
    plot_results(many, tmp_path / "many.svg")
    labels = re.findall(r"<text style=\"([^\"]*)\"[^>]*>(m\d\d)<", (tmp_path / "many.svg").read_text())
    assert {name for _, name in labels} == set(many.methods)
    grey = {name for style, name in labels if "fill: #9a9a9a" in style}
    assert grey == {f"m{k:02}" for k in range(8, 14)}


def test_labels_keep_their_distance_and_order():
    rng = np.random.default_rng(1)
    for _ in range(50):
        wanted = np.sort(rng.random(12))
        places = spread(wanted, 0.05)
        assert (np.diff(places) >= 0.05 - 1e-9).all()
    apart = np.array([0.1, 0.5, 0.9])
    np.testing.assert_array_equal(spread(apart, 0.1), apart)
