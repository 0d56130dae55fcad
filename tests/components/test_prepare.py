"""From a raw table to numbers and categories."""

import numpy as np
import pandas as pd
import pytest

from headstart.components.prepare import PrepareTable


def prepared(kinds, train, new=None, **settings):
    step = PrepareTable(kinds, **settings)
    first = step.fit_transform(train)
    return first if new is None else step.transform(new)


def test_categories_are_texts_however_a_file_was_read():
    train = pd.DataFrame({"c": [1, 2, 2, np.nan]})
    for values in ([1, 2, 3], [1.0, 2.0, 3.0], ["1", "2", "3"], pd.Categorical([1, 2, 3])):
        found = prepared({"c": "categorical"}, train, pd.DataFrame({"c": values}))["c"]
        assert found.cat.categories.tolist() == ["1", "2"]
        assert found.cat.codes.tolist() == [0, 1, -1]  # what was never seen is missing


def test_mixed_types_fall_together():
    train = pd.DataFrame({"c": np.array([1, "1", 1.0, "b", None, True], dtype=object)})
    assert prepared({"c": "categorical"}, train)["c"].tolist()[:4] == ["1", "1", "1", "b"]


def test_rare_categories_share_one():
    train = pd.DataFrame({"c": ["a"] * 5 + ["b"] * 4 + ["c", "d", "e", None]})
    step = PrepareTable({"c": "categorical"}, max_categories=3).fit(train)
    assert step.categories_["c"] == ["a", "b", "(other)"]
    found = step.transform(pd.DataFrame({"c": ["a", "c", "new", None]}))["c"]
    assert found.tolist()[:3] == ["a", "(other)", "(other)"]
    assert found.isna().tolist() == [False, False, False, True]


def test_categories_that_no_row_has_are_not_learned():
    train = pd.DataFrame({"c": pd.Categorical(["x", "y"], categories=["x", "y", "z"])})
    assert prepared({"c": "categorical"}, train)["c"].cat.categories.tolist() == ["x", "y"]


def test_numbers_and_booleans():
    train = pd.DataFrame({"n": ["1", "x", "inf", None], "b": ["yes", "no", "True", "?"]})
    found = prepared({"n": "numeric", "b": "boolean"}, train)
    np.testing.assert_array_equal(found["n"], [1, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(found["b"], [1, 0, 1, np.nan])


def test_dates():
    train = pd.DataFrame({"d": ["2024-03-01 06:30", "2024-02-28", None]})
    found = prepared({"d": "date"}, train)
    assert found["d since"][:2].tolist() == pytest.approx([2 + 6.5 / 24, 0.0])
    assert found.iloc[0, 1:].tolist() == [2024, 3, 1, 4, 6.5]
    assert found.iloc[2].isna().all()


def test_dates_by_their_format():
    first = pd.Timestamp("2024-02-01")
    for kind, values in (
        ("date %d.%m.%Y", ["01.02.2024", "13.02.2024"]),
        ("date ISO8601", ["2024-02-01", "2024-02-13T00:00"]),
        ("date %Y%m%d", [20240201, 20240213]),
        ("date s", [first.timestamp(), first.timestamp() + 12 * 86400]),
        ("date ISO8601", pd.to_datetime(["2024-02-01", "2024-02-13"])),
        ("date %d.%m.%Y", pd.to_datetime(["2024-02-01", "2024-02-13"])),
    ):
        found = prepared({"d": kind}, pd.DataFrame({"d": values}))
        assert found["d month"].tolist() == [2, 2], kind
        assert found["d day"].tolist() == [1, 13]


def test_texts():
    texts = ["a red apple", "a green apple", "red pears", "green pears", None] * 4
    found = prepared({"t": "text"}, pd.DataFrame({"t": texts}), text_components=3, random_state=0)
    assert found.columns.tolist() == ["t length", "t 0", "t 1", "t 2"]
    assert found["t length"][4] == 0
    assert (found.iloc[0] == found.iloc[5]).all()


def test_ids_and_constants_go():
    train = pd.DataFrame({"i": range(5), "k": 1})
    found = prepared({"i": "id", "k": "constant"}, train)
    assert found.columns.tolist() == ["(nothing)"]


@pytest.mark.parametrize("kind", ["numeric", "boolean", "categorical", "date", "text"])
def test_a_column_without_values(kind):
    train = pd.DataFrame({"x": np.array([None] * 4, dtype=object)})
    assert len(prepared({"x": kind}, train, pd.DataFrame({"x": ["1", "2"]}))) == 2


def test_names_are_those_of_the_columns():
    train = pd.DataFrame({"n": [1.0, 2.0], "d": ["2024-01-01", "2024-01-02"]})
    step = PrepareTable({"n": "numeric", "d": "date"}).fit(train)
    assert step.get_feature_names_out().tolist() == step.transform(train).columns.tolist()
