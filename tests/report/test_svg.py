"""Charts as SVG: well-formed, and with points where they belong."""

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from headstart.report.charts import search_chart, verdict_chart
from headstart.report.content import Score, Search, Verdict
from headstart.report.svg import Axis, Chart, nice_ticks, short, spark


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3.2, 17), (1e-6, 3e-6), (12345, 12349), (-5e8, 5e8), (2, 2)])
def test_ticks_are_round_few_and_inside(low, high):
    ticks = nice_ticks(float(low), float(high))
    assert 1 <= len(ticks) <= 7
    assert all(low - 1e-9 * abs(low) <= tick <= high + 1e-9 * abs(high) for tick in ticks)
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[:1])


def test_points_are_where_their_numbers_say():
    chart = Chart("a & b", Axis("x", 0.0, 10.0), Axis("y", -1.0, 1.0))
    chart.points([0.0, 5.0, 10.0], [-1.0, 0.0, 1.0])
    root = ET.fromstring(chart.svg())
    assert root.get("aria-label") == "a & b"
    circles = [(float(c.get("cx")), float(c.get("cy"))) for c in root.iter("circle")]
    (x0, y0), (x1, y1), (x2, y2) = circles
    assert x1 == pytest.approx((x0 + x2) / 2)
    assert y1 == pytest.approx((y0 + y2) / 2)
    assert x0 < x2
    assert y0 > y2  # up is more
    assert (x2, y0) == (426, 236)  # the corner of the frame


def test_numbers_that_are_not_finite_do_not_set_the_axis():
    axis = Axis.around("x", [1.0, np.nan, 3.0, np.inf])
    assert (axis.low, axis.high) == pytest.approx((0.9, 3.1))
    assert Axis.around("x", []).high > Axis.around("x", []).low
    assert Axis.around("x", [5.0]).high > 5


def test_short_numbers():
    assert [short(v) for v in (0, 0.5, 999, 1234, 99999, 2.5e6, -3e9, 1e-5)] == [
        "0",
        "0.5",
        "999",
        "1234",
        "100k",
        "2.5M",
        "-3G",
        "1.0e-05",
    ]


def test_a_small_histogram():
    root = ET.fromstring(spark([0.5, 0.25, 0.25], "of <x>"))
    assert root.get("aria-label") == "of <x>"
    assert [float(r.get("height")) for r in root.iter("rect")] == [22, 11, 11]
    assert spark([], "nothing") == ""


def test_the_best_so_far_goes_the_right_way():
    scores = np.array([3.0, 2.0, 2.5, 1.0])
    search = Search(4, np.arange(4.0), scores, np.ones(4, dtype=bool))
    for higher, last in ((False, 1.0), (True, 3.0)):
        figure = search_chart(search, "RMSE", higher)
        ET.fromstring(figure.chart)
        assert f"the best has {last:.4g}" in figure.chart


def test_the_verdict_says_which_way_is_better():
    scores = [Score("constant", 2.0), Score("this model", 1.0, (0.9, 1.1), "model")]
    assert "left is better" in verdict_chart(Verdict("RMSE", False, scores)).caption
    figure = verdict_chart(Verdict("AUC", True, scores))
    assert "right is better" in figure.caption
    assert len(re.findall("<circle", figure.chart)) == 2
