"""Constraints as people write them."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headstart.constraints import Constraint, Measured, parse_constraints, total_excess
from headstart.errors import InvalidInput


@pytest.mark.parametrize(
    ("text", "name", "upper"),
    [
        ("latency <= 1ms", "latency", 1e-3),
        ("latency<250us", "latency", 250e-6),
        ("latency <= 250 µs", "latency", 250e-6),
        ("latency <= 2 s", "latency", 2.0),
        ("latency <= 1e-3", "latency", 1e-3),
        ("training_seconds <= 500ms", "training_seconds", 0.5),
        ("size <= 2MB", "size", 2e6),
        ("size <= 500B", "size", 500.0),
        ("size <= 64 kb", "size", 64e3),
        ("size <= 1.5GB", "size", 1.5e9),
        (" false_positive_rate <= .05 ", "false_positive_rate", 0.05),
        ("disparity(sex) <= 0.05", "disparity(sex)", 0.05),
        ("disparity( age ,recall )<=0.1", "disparity(age, recall)", 0.1),
        ("disparity(age:25,60) <= 0.1", "disparity(age: 25, 60)", 0.1),
        ("disparity(age: 25, 60, roc_auc) <= 0.1", "disparity(age: 25, 60, roc_auc)", 0.1),
        ("parity(my column) <= 0.1", "parity(my column)", 0.1),
        ('parity("my column") <= 0.1', "parity(my column)", 0.1),
        ("disparity('a, b') <= 0.1", 'disparity("a, b")', 0.1),
        (r'disparity("say \"<= 3\"") <= 0.1', r'disparity("say \"<= 3\"")', 0.1),
        ("own measure <= -3", "own measure", -3.0),
    ],
)
def test_text(text, name, upper):
    found = Constraint.parse(text)
    assert found.name == name
    assert found.upper == pytest.approx(upper, rel=1e-12)


@given(st.text(min_size=1), st.lists(st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), unique=True).map(sorted))
def test_any_column_survives_being_written(column, edges):
    for metric in (None, "roc_auc"):
        measured = Measured("disparity", column, tuple(edges), metric)
        assert Measured.parse(str(measured)) == measured
        assert Constraint.parse(f"{measured} <= 0.1") == Constraint(str(measured), 0.1)


def test_all_forms_mean_the_same():
    wanted = (Constraint("latency", 1e-3), Constraint("disparity(sex)", 0.05))
    assert parse_constraints(["latency <= 1ms", "disparity( sex ) <= 0.05"]) == wanted
    assert parse_constraints({"latency": "1ms", "disparity(sex)": 0.05}) == wanted
    assert parse_constraints([wanted[0], "disparity(sex) < 0.05"]) == wanted
    assert parse_constraints("latency <= 1ms") == parse_constraints(wanted[0]) == wanted[:1]
    assert parse_constraints(None) == parse_constraints({}) == ()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("latency", "a name, <= and a number"),
        ("latency >= 1ms", "a name, <= and a number"),
        ("latency <= fast", "a name, <= and a number"),
        ("<= 3", "a name, <= and a number"),
        ("latency <= 1MB", "must be in us, ms, s, got '1MB'"),
        ("disparity(sex) <= 5ms", "has no unit"),
        ("latncy <= 5ms", "did you mean 'latency'"),
        ("disparity(sex, age, recall) <= 1", "must be written as"),
        ("disparity() <= 1", "must be written as"),
        ("disparity(age: 60, 25) <= 1", "must ascend"),
        (["size <= 1MB", "size <= 2MB"], "bounded once"),
        ({"latency": True}, "bounded by a number, got True"),
        ({"latency": "fast"}, "bounded by a number, got 'fast'"),
        ({"latency": math.nan}, "bounded by a number"),
        ({3: 1.0}, "must be text"),
        ([3], "must be text"),
        (3, "must be a list of text"),
    ],
)
def test_mistakes(given, message):
    with pytest.raises(InvalidInput, match=message):
        parse_constraints(given)


def test_excess_is_relative_to_the_bound():
    bounds = [Constraint("latency", 0.5), Constraint("gap", 0.0), Constraint("other", -2.0)]
    assert total_excess(bounds, {"latency": 0.5, "gap": -1.0, "other": -2.0}) == 0
    assert total_excess(bounds, {"latency": 0.75, "gap": 0.25, "other": -1.0}) == 0.5 + 0.25 + 0.5
    assert total_excess(bounds, {"latency": 0.1, "gap": 0.0}) == math.inf
    assert total_excess(bounds[:1], {"latency": math.nan}) == math.inf
    assert total_excess([], {}) == 0


def test_are_shown_in_their_unit():
    assert str(Constraint("latency", 2.5e-4)) == "latency <= 250 us"
    assert str(Constraint("size", 2e6)) == "size <= 2 MB"
    assert Constraint("size", 2e6).shown(0.0) == "0 B"
    assert str(Constraint("disparity(sex)", 0.05)) == "disparity(sex) <= 0.05"
