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


def test_dates_may_be_written_otherwise_than_in_training():
    days = pd.date_range("2024-01-01", periods=60)
    table = pd.DataFrame({"day": days.strftime("%Y-%m-%d"), "y": np.arange(60) % 2, "x": np.arange(60.0)})
    schema = Dataset.from_table(table, "y").schema
    expected = schema.apply(table)["day"]
    for written in ("%d.%m.%Y", "%m/%d/%Y", "%d %B %Y", "%Y/%m/%d", "%Y%m%d", "%d.%m.%Y %H:%M"):
        new = table.assign(day=days.strftime(written))
        new = new.assign(day=new["day"].astype(int)) if written == "%Y%m%d" else new
        pd.testing.assert_series_equal(schema.apply(new)["day"], expected)
    with pytest.warns(DataWarning, match="day and month swapped"):
        schema.apply(table[:12].assign(day="03/04/2024"))
    american = Dataset.from_table(table.assign(day=days.strftime("%m/%d/%Y")), "y").schema
    assert american.apply(table[:1].assign(day="03.04.2024"))["day"].tolist() == [pd.Timestamp("2024-03-04")]
    with pytest.raises(TableError, match="must contain dates written as"):
        american.apply(table[:1].assign(day="25/12/2024"))


def test_a_few_values_that_are_no_dates_are_missing_and_noted():
    days = pd.Series(pd.date_range("2024-01-01", periods=60).strftime("%d.%m.%Y"))
    days[[3, 7]] = ["soon", "31.02.2024"]
    days[9] = "unknown"
    table = pd.DataFrame({"day": days, "y": np.arange(60) % 2, "x": np.arange(60.0)})
    found = Dataset.from_table(table, "y")
    assert found.kinds["day"] == "date"
    assert found.X["day"].isna().sum() == 3
    assert any("'day' are not dates and are treated as missing" in note for note in found.notes)
    few = Dataset.from_table(table[:12], "y")
    assert few.kinds["day"] != "date"
    assert any(
        "most of its values are dates, %d.%m.%Y, but 3 are not" in note or "but 2 are not" in note for note in few.notes
    )
    assert Dataset.from_table(table[:12], "y", kinds={"day": "date"}).X["day"].isna().sum() == 3


def test_markers_of_missing_values():
    columns = {"a": ["1.5", "k.A.", "3", "4"], "b": [1, -999, 3, 5], "y": ["p", "q", "k.A.", "p"]}
    table = pd.DataFrame({name: values * 5 for name, values in columns.items()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # rows without a target, columns that give it away
        found = Dataset.from_table(table, "y", missing=["k.A.", "-999"])
        assert len(Dataset.from_table(table, "y").classes) == 3
    assert (found.task, found.classes.tolist(), found.n_rows) == ("binary", ["p", "q"], 15)
    assert found.X.isna().sum().to_dict() == {"a": 5, "b": 5}
    again = Schema.from_dict(found.schema.to_dict())
    assert again.apply(table).isna().sum().to_dict() == {"a": 5, "b": 5}
