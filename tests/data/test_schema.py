"""New data brought to the columns of training."""

import json
import warnings

import numpy as np
import pandas as pd
import pytest

from headstart.data import Dataset, DataWarning, Schema, TableError

N = 60


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "row_id": np.arange(N),
            "size": rng.normal(size=N),
            "price": [f"{x:.2f}".replace(".", ",") for x in rng.uniform(1, 100, N)],
            "city": rng.choice(["Rome", "Bern"], N),
            "floor": pd.Categorical(rng.integers(0, 3, N)),
            "new": rng.choice(["yes", "no"], N),
            "day": pd.date_range("2020-01-01", periods=N).strftime("%d/%m/%Y"),
            "y": rng.choice(["u", "v"], N),
        }
    )


@pytest.fixture
def dataset(frame):
    return Dataset.from_table(frame, "y")


def test_training_data_come_out_as_x(frame, dataset):
    pd.testing.assert_frame_equal(dataset.schema.apply(frame), dataset.X)
    pd.testing.assert_frame_equal(dataset.schema.apply(frame.drop(columns="y")[dataset.X.columns[::-1]]), dataset.X)


def test_json_round_trip(frame, dataset):
    schema = Schema.from_dict(json.loads(json.dumps(dataset.schema.to_dict())))
    assert schema == dataset.schema
    pd.testing.assert_frame_equal(schema.apply(frame), dataset.X)
    assert len(json.dumps(schema.to_dict())) < 1000


def test_a_few_rows_are_read_as_all_were(frame, dataset):
    """Alone, 05/01/2020 could be the first of May, and a single city a constant."""
    one = dataset.schema.apply(frame.iloc[[4]].drop(columns="y"))
    assert one["day"].iloc[0] == pd.Timestamp("2020-01-05")
    assert one["price"].iloc[0] == dataset.X["price"].iloc[4]
    assert one["city"].iloc[0] == dataset.X["city"].iloc[4]


def test_other_types_with_the_same_values(frame, dataset):
    other = frame.astype({"size": str, "floor": float, "city": "category"})
    other["new"] = frame["new"] == "yes"
    other["day"] = pd.to_datetime(frame["day"], format="%d/%m/%Y")
    found = dataset.schema.apply(other)
    for name in ("size", "new", "day"):
        assert found[name].tolist() == dataset.X[name].tolist()
    assert found["floor"].tolist() == dataset.X["floor"].tolist()


def test_unseen_categories_and_missing_values_stay(frame, dataset):
    frame.loc[0, ["city", "size", "day"]] = ["Oslo", np.inf, None]
    found = dataset.schema.apply(frame)
    assert found["city"][0] == "Oslo"
    assert found.loc[0, ["size", "day"]].isna().all()


def test_an_absent_column_is_named(frame, dataset):
    with pytest.raises(TableError, match="all training columns, 'city' not found; did you mean 'citi'"):
        dataset.schema.apply(frame.rename(columns={"city": "citi"}))


def test_ids_may_be_absent(frame, dataset):
    found = dataset.schema.apply(frame.drop(columns="row_id"))
    assert list(found.columns) == list(dataset.X.columns)
    assert found["row_id"].isna().all()


def test_added_columns_are_ignored_with_a_warning(frame, dataset):
    with pytest.warns(DataWarning, match="not in the training table are ignored: 'extra'"):
        found = dataset.schema.apply(frame.assign(extra=1))
    assert list(found.columns) == list(dataset.X.columns)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("size", "big", "column 'size' must contain numbers, found 'big'"),
        ("new", "maybe", "column 'new' must contain true and false, or yes and no, found 'maybe'"),
        ("day", "tomorrow", "column 'day' must contain dates written as %d/%m/%Y, found 'tomorrow'"),
    ],
)
def test_values_that_cannot_be_read(frame, dataset, column, value, message):
    frame[column] = frame[column].astype(object)
    frame.loc[3, column] = value
    with pytest.raises(TableError, match=message):
        dataset.schema.apply(frame)


def test_columns_of_arrays_go_by_position():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    dataset = Dataset.from_arrays(X, ["u", "v"] * 30)
    named = pd.DataFrame(X, columns=["a", "b", "c"])
    for other in (X, X.tolist(), named):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert np.array_equal(dataset.schema.apply(other).to_numpy(), X)
    with pytest.raises(TableError, match="must have 3 columns, found 2"):
        dataset.schema.apply(X[:, :2])
    by_name = Dataset.from_arrays(named, ["u", "v"] * 30)
    assert np.array_equal(by_name.schema.apply(X).to_numpy(), X)


def test_strays_seen_in_training_are_missing_later():
    values = [*map(str, np.linspace(0, 1, N - 1)), "broken"]
    dataset = Dataset.from_arrays(pd.DataFrame({"a": values, "b": np.linspace(0, 1, N)}), ["u", "v"] * 30)
    assert np.isnan(dataset.schema.apply({"a": ["broken again"], "b": [1]})["a"][0])
