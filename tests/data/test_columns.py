"""Kinds of columns."""

import datetime as dt
import decimal
import uuid

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.data import Kind, TableError, infer_kinds
from headstart.data.columns import ColumnSpec, _unboxed, infer_columns
from headstart.data.convert import convert
from headstart.data.values import distinct_texts

N = 60
RNG = np.random.default_rng(0)
MANY_WORDS = [f"the {a} {b} sat on a {c}" for a, b, c in RNG.choice(["red", "old", "cat", "dog", "mat", "tin"], (N, 3))]
DAYS = pd.date_range("2021-01-20", periods=N, freq="31h")

CASES = {
    "floats": (RNG.normal(size=N), "numeric"),
    "few integers": (RNG.integers(0, 3, N), "numeric"),
    "zeros and ones": (RNG.integers(0, 2, N), "numeric"),
    "large integers": (RNG.integers(0, 10**9, N), "numeric"),
    "nullable": (pd.array([1, None, *range(N - 2)], dtype="Int64"), "numeric"),
    "numbers as text": ([str(x) for x in RNG.normal(size=N)], "numeric"),
    "thousands": ([f"{x:,}" for x in RNG.integers(0, 10**7, N)], "numeric"),
    "decimal commas": ([f"{x:.2f}".replace(".", ",") for x in RNG.normal(size=N)], "numeric"),
    "percent": ([f"{x}%" for x in RNG.integers(0, 100, N)], "numeric"),
    "money": ([f"$ {x}.50" for x in RNG.integers(0, 100, N)], "numeric"),
    "numbers and a stray": ([*map(str, range(100, 100 + N - 1)), "broken"], "numeric"),
    "few numbers and none": (["1", "2", "None", "3"] * 15, "numeric"),
    "decimals": ([decimal.Decimal(i) / 7 for i in range(N)], "numeric"),
    "spans": (pd.to_timedelta(RNG.integers(0, 1000, N), unit="s"), "numeric"),
    "epoch": (1_600_000_000 + RNG.integers(0, 10**6, N), "numeric"),
    "booleans": (RNG.integers(0, 2, N).astype(bool), "boolean"),
    "booleans and None": ([True, False, None] * 20, "boolean"),
    "Yes and no": (["Yes", "no", "YES"] * 20, "boolean"),
    "t and f": (["t", "f"] * 30, "boolean"),
    "true or nothing": (["true", None] * 30, "boolean"),
    "m and f": (["m", "f"] * 30, "categorical"),
    "words": (["red", "green", "blue"] * 20, "categorical"),
    "padded codes": ([f"{i:05d}" for i in RNG.integers(0, 50, N)], "categorical"),
    "category of numbers": (pd.Categorical(RNG.integers(0, 5, N)), "categorical"),
    "short phrases": (["very good", "quite bad", "so so"] * 20, "categorical"),
    "one or nothing": (["pool", None] * 30, "categorical"),
    "one number or nothing": ([4.0, None] * 30, "numeric"),
    "repeating names": ([f"street{i}" for i in RNG.integers(0, 40, N)], "categorical"),
    "iso": (DAYS.strftime("%Y-%m-%d"), "date"),
    "iso times": (DAYS.strftime("%Y-%m-%dT%H:%M:%SZ"), "date"),
    "european": (DAYS.strftime("%d.%m.%Y"), "date"),
    "american": (DAYS.strftime("%m/%d/%Y %I:%M %p"), "date"),
    "british": (DAYS.strftime("%d/%m/%Y %H:%M"), "date"),
    "named months": (DAYS.strftime("%d %b %Y"), "date"),
    "long months": (DAYS.strftime("%B %d, %Y"), "date"),
    "datetimes": (DAYS, "date"),
    "zoned": (DAYS.tz_localize("Europe/Zurich"), "date"),
    "periods": (pd.period_range("2020-01", periods=N, freq="M"), "date"),
    "python dates": ([d.date() for d in DAYS], "date"),
    "clock times": ([f"{h:02d}:30" for h in RNG.integers(0, 24, N)], "categorical"),
    "sentences": (MANY_WORDS, "text"),
    "row": (np.arange(N), "id"),
    "shuffled from one": (RNG.permutation(N) + 1.0, "id"),
    "customer_id": (RNG.choice(10**8, N, replace=False), "id"),
    "customerID": (RNG.choice(10**8, N, replace=False), "id"),
    "unique, no name": (RNG.choice(10**8, N, replace=False), "numeric"),
    "year": (np.arange(N) + 1, "numeric"),
    "uuids": ([str(uuid.UUID(int=i * 12345678901234567890)) for i in range(N)], "id"),
    "order id": ([f"A{i} b c d" for i in range(N)], "id"),
    "branch_id": (RNG.integers(0, 5, N), "numeric"),
    "id category": (pd.Categorical([f"E{i}" for i in range(N)]), "id"),
    "same": ([7] * N, "constant"),
    "same text": (["x"] * N, "constant"),
    "nothing": ([None] * N, "constant"),
    "nans": ([np.nan] * N, "constant"),
    "question marks": (["?"] * N, "constant"),
    "lists": ([[1, 2], [3], [1, 2]] * 20, "categorical"),
}


@pytest.mark.parametrize("case", CASES)
def test_kind(case):
    values, expected = CASES[case]
    assert infer_kinds(pd.DataFrame({case: values})) == {case: Kind(expected)}


@pytest.mark.parametrize("case", CASES)
def test_every_column_converts(case):
    frame = pd.DataFrame({case: CASES[case][0]})
    spec = infer_columns(frame)[0][case]
    values = pd.Series(convert(frame[case], spec, case).values)
    assert len(values) == N
    forms = {"numeric": "f", "boolean": "f", "date": "M"}
    if spec.kind in forms:
        assert values.dtype.kind == forms[spec.kind]
    if spec.kind is Kind.CATEGORICAL:
        assert all(isinstance(c, str) for c in values.cat.categories)
        assert values.cat.categories.is_monotonic_increasing


@given(seed=st.integers(0, 10**6), columns=st.sets(st.sampled_from(sorted(CASES)), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_kinds_do_not_depend_on_the_order_of_rows(seed, columns):
    frame = pd.DataFrame({c: CASES[c][0] for c in columns})
    shuffled = frame.sample(frac=1, random_state=seed).reset_index(drop=True)
    assert infer_columns(shuffled)[0] == infer_columns(frame)[0]


@given(st.lists(st.one_of(st.none(), st.text(max_size=12), st.floats(), st.booleans(), st.integers()), min_size=1))
@settings(max_examples=150, deadline=None)
def test_anything_has_a_kind_and_converts(values):
    frame = pd.DataFrame({"c": pd.Series(values, dtype=object)})
    spec = infer_columns(frame)[0]["c"]
    assert len(convert(frame["c"], spec, "c").values) == len(values)


def test_the_sample_does_not_depend_on_the_order_of_rows():
    texts = np.array([f"text {i}" for i in range(5000)], dtype=object)
    shuffled = np.random.default_rng(1).permutation(texts)
    first, second = (distinct_texts(pd.Series(t)).sample(100) for t in (texts, shuffled))
    assert len(first) == 100
    assert set(first) == set(second)


@pytest.mark.parametrize(
    ("texts", "first"),
    [
        (["31/12/2020", "01/02/2020"] * 3, "2020-12-31"),
        (["12/31/2020", "01/02/2020"] * 3, "2020-12-31"),
        (["2020-12-31 10:00:00", "2020-12-31"], "2020-12-31 10:00"),
        (["2020-12-31T23:00:00-02:00", "2020-01-01T00:00:00Z"], "2021-01-01 01:00"),
        (["31-Dec-20", "01-Feb-20"], "2020-12-31"),
    ],
)
def test_dates_are_read_right(texts, first):
    frame = pd.DataFrame({"d": texts})
    moments = convert(frame["d"], infer_columns(frame)[0]["d"], "d").values
    assert moments[0] == np.datetime64(first)


def test_day_or_month():
    specs, notes = infer_columns(pd.DataFrame({"d": ["03/04/2020", "05/06/2020"]}))
    assert specs["d"].format == "%m/%d/%Y"
    assert "with day and month swapped" in notes[0]
    assert infer_columns(pd.DataFrame({"d": ["03.04.2020", "05.06.2020"]}))[0]["d"].format == "%d.%m.%Y"


def test_overrides():
    frame = pd.DataFrame(
        {"code": [1, 2, 3] * 10, "when": ["2020-01-01", "x", "y"] * 10, "at": [1.6e9, 1.7e9, 1.8e9] * 10}
    )
    kinds = infer_kinds(frame, {"code": "categorical", "when": Kind.TEXT, "at": "date"})
    assert kinds == {"code": Kind.CATEGORICAL, "when": Kind.TEXT, "at": Kind.DATE}
    with pytest.raises(TableError, match="column 'cod' not found; did you mean 'code'"):
        infer_kinds(frame, {"cod": "text"})
    with pytest.raises(TableError, match=r"column 'code': unknown kind 'number'; .*Known: boolean, categorical"):
        infer_kinds(frame, {"code": "number"})
    with pytest.raises(TableError, match="'when' is declared a date, but its values share no known date format"):
        infer_kinds(frame, {"when": "date"})


def test_epochs_declared_as_dates():
    frame = pd.DataFrame({"s": [0, 86400], "d": [20200131, 20210201]})
    specs = infer_columns(frame, {"s": "date", "d": "date"})[0]
    assert convert(frame["d"], specs["d"], "d").values[0] == np.datetime64("2020-01-31")
    specs = infer_columns(pd.DataFrame({"s": [1.6e9, 1.7e9]}), {"s": "date"})[0]
    assert convert(frame["s"], specs["s"], "s").values[1] == np.datetime64("1970-01-02")


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        (["a", "b"], Kind.NUMERIC, "'c' must contain numbers, found 'a', 'b'; fix the values"),
        (["yes", "maybe"], Kind.BOOLEAN, "'c' must contain true and false, or yes and no, found 'maybe'"),
        ([0, 3], Kind.BOOLEAN, "'c' must contain true and false, found 3"),
        (["2020-01-01", "soon"], Kind.DATE, "'c' must contain dates year-month-day, found 'soon'"),
        ([1.5, 2], Kind.DATE, "'c' must contain dates, found the number 1.5"),
        ([dt.datetime(2020, 1, 1)] * 2, Kind.NUMERIC, "'c' must contain numbers, found dates"),
    ],
)
def test_what_cannot_be_read(values, kind, message):
    with pytest.raises(TableError, match=message):
        convert(pd.Series(values), ColumnSpec(kind), "c")


def test_whole_numbers_that_no_float_can_hold_are_infinite():
    column = pd.Series([1, None, 10**400, -(10**400)] * 5, dtype=object)
    assert infer_kinds(column.to_frame("a")) == {"a": Kind.NUMERIC}
    assert _unboxed(column)[:4].tolist() == pytest.approx([1.0, np.nan, np.inf, -np.inf], nan_ok=True)


def test_complex_numbers_are_refused():
    with pytest.raises(TableError, match="real numbers, found complex ones"):
        infer_kinds(pd.DataFrame({"c": [1 + 2j, 3j]}))


def test_equal_numbers_are_one_category():
    values = convert(pd.Series([1, 1.0, "1", " 1 ", 2.5], dtype=object), ColumnSpec(Kind.CATEGORICAL), "c").values
    assert values.categories.tolist() == ["1", "2.5"]
    assert values.codes.tolist() == [0, 0, 0, 0, 1]
