"""Datasets: targets, tasks, notes, keys, and every mistake that a caller can make."""

import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from headstart.data import Dataset, DataWarning, Kind, TableError, default_metric

N = 120


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "size": rng.normal(size=N),
            "rooms": rng.integers(1, 6, N),
            "city": rng.choice(["Rome", "Bern", "Oslo"], N),
            "row": np.arange(N),
            "built": pd.date_range("2000-01-01", periods=N).strftime("%d.%m.%Y"),
            "price": rng.normal(100, 10, N),
            "sold": rng.choice(["yes", "no"], N),
        }
    )


def features(n=N):
    return np.random.default_rng(1).normal(size=(n, 3))


def test_from_a_table(frame):
    dataset = Dataset.from_table(frame, "sold", name="flats")
    assert (dataset.task, dataset.target, dataset.name) == ("binary", "sold", "flats")
    assert dataset.classes.tolist() == ["no", "yes"]
    assert dataset.y.tolist() == [int(s == "yes") for s in frame["sold"]]
    assert (dataset.n_rows, dataset.n_features) == (N, 6)
    assert dataset.kinds == {
        "size": Kind.NUMERIC,
        "rooms": Kind.NUMERIC,
        "city": Kind.CATEGORICAL,
        "row": Kind.ID,
        "built": Kind.DATE,
        "price": Kind.NUMERIC,
    }
    assert dataset.X.index.equals(pd.RangeIndex(N))
    assert any("look like ids" in note and "'row'" in note for note in dataset.notes)
    assert "sold" not in dataset.X


def test_from_a_file(tmp_path, frame):
    frame.to_csv(tmp_path / "flats.csv", index=False)
    dataset = Dataset.from_table(tmp_path / "flats.csv", "price")
    assert (dataset.task, dataset.name) == ("regression", "flats")
    assert dataset.key == Dataset.from_table(frame, "price").key


def test_the_target_s_name_tells_the_header(tmp_path):
    """Years as names look like data; knowing the target's name settles it."""
    (tmp_path / "t.csv").write_text("2001,2005,y\n" + "".join(f"{i},{i * i},{'ab'[i % 2]}\n" for i in range(10)))
    assert list(Dataset.from_table(tmp_path / "t.csv", "y").X.columns) == ["2001", "2005"]


@pytest.mark.parametrize("y", [["\ud800", "b"] * 10, np.array(["\ud800", "b"] * 10)], ids=["list", "array"])
def test_half_a_character_in_the_target(y):
    with pytest.raises(TableError, match="y: text must be Unicode"):
        Dataset.from_arrays(np.zeros((20, 2)), y)


def test_without_a_target(frame):
    dataset = Dataset.from_table(frame, None)
    assert (dataset.y, dataset.classes, dataset.task) == (None, None, None)
    assert "no target" in dataset.describe()


@pytest.mark.parametrize(
    ("y", "task"),
    [
        (["a", "b"] * 60, "binary"),
        (["a", "b", "c"] * 40, "multiclass"),
        ([True, False] * 60, "binary"),
        ([0, 1] * 60, "binary"),
        ([-1.5, 2.5] * 60, "binary"),
        (list(range(10)) * 12, "multiclass"),
        ([float(i) for i in range(5)] * 24, "multiclass"),
        (list(range(0, 110, 10)) * 10 + [0] * 10, "regression"),
        (list(range(40)) * 3, "regression"),
        (list(range(15)) * 8, "regression"),
        (np.linspace(0, 1, N), "regression"),
        ([0.5, 1.0, 1.5, 2.0] * 30, "regression"),
        ([str(x) for x in np.linspace(0, 1, N)], "regression"),
        (pd.Categorical(list(range(40)) * 3), "multiclass"),
        ([1, "a", 2.5] * 40, "multiclass"),
    ],
)
def test_the_task_is_inferred_and_stated(y, task):
    dataset = Dataset.from_arrays(features(), y)
    assert dataset.task == task
    assert any(task in note and "because" in note for note in dataset.notes)
    assert (dataset.classes is None) == (task == "regression")
    assert dataset.y.dtype == (np.float64 if task == "regression" else np.int64)


def test_a_task_that_is_given():
    numbers = [0, 1, 2] * 40
    assert Dataset.from_arrays(features(), numbers, task="regression").y.tolist() == numbers
    assert Dataset.from_arrays(features(), list(range(60)) * 2, task="classification").task == "multiclass"
    assert Dataset.from_arrays(features(), [0, 1] * 60, task="multiclass").task == "multiclass"


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "10", "9"], ["10", "9", "a", "b"]),
        ([10, 9, -1], [-1, 9, 10]),
        ([1.5, 0.5, 2.0], [0.5, 1.5, 2.0]),
        ([True, False], [False, True]),
        (["b", 2, "a", 1.5], [1.5, 2, "a", "b"]),
        ([("x", 1), "a"], ["a", ("x", 1)]),
        (pd.Categorical(["low", "high"], categories=["low", "high"], ordered=True), ["low", "high"]),
    ],
)
def test_labels_of_any_type(labels, classes):
    y = pd.Series(list(labels) * 10, dtype=getattr(labels, "dtype", object))
    dataset = Dataset.from_arrays(features(len(y)), y, task="classification")
    assert dataset.classes.tolist() == classes
    assert [dataset.classes.tolist()[code] for code in dataset.y] == y.tolist()


def test_default_metrics():
    assert [default_metric(t) for t in ("binary", "multiclass", "regression")] == [
        "roc_auc",
        "neg_log_loss",
        "neg_root_mean_squared_error",
    ]
    with pytest.raises(TableError, match="did you mean 'regression'"):
        default_metric("regresion")


def test_rows_without_a_target_are_left_out(frame):
    frame.loc[[3, 7], "price"] = [np.nan, np.inf]
    with pytest.warns(DataWarning, match="2 of 120 rows have no value in 'price' and were left out"):
        dataset = Dataset.from_table(frame, "price", weights=np.arange(N))
    assert dataset.n_rows == N - 2 == len(dataset.weights)
    assert dataset.weights[3] == 4
    assert dataset.X["size"].tolist() == frame["size"].drop([3, 7]).tolist()


def test_infinities_are_missing(frame):
    frame.loc[[1, 2], "size"] = [np.inf, -np.inf]
    with pytest.warns(DataWarning, match="2 infinite values are treated as missing, in 'size'"):
        dataset = Dataset.from_table(frame, "sold")
    assert dataset.X["size"].isna().sum() == 2
    assert any("infinite values" in note for note in dataset.notes)


@pytest.mark.parametrize("target", ["sold", "price"])
@pytest.mark.parametrize(
    "leak", [lambda y: y, lambda y: y.map({"yes": 4, "no": 9}) if y.dtype.kind != "f" else 3 * y - 2]
)
def test_leaks_are_pointed_out(frame, target, leak):
    frame["copy"] = leak(frame[target])
    with pytest.warns(DataWarning, match="column 'copy' maps one to one to the target"):
        dataset = Dataset.from_table(frame, target)
    assert "copy" in dataset.X


@pytest.mark.parametrize("rows", [100, 3000])
def test_no_leak_where_one_row_differs(rows):
    y = np.arange(rows) % 2
    near = y.astype(float)
    near[-1] = 1 - near[-1]
    X = np.column_stack([near, np.random.default_rng(0).normal(size=rows)])
    Dataset.from_arrays(X, y)  # a warning would be an error here
    Dataset.from_arrays(X, y.astype(float), task="regression")


def test_classes_with_a_single_row():
    with pytest.warns(DataWarning, match="classes with a single row .*: c"):
        dataset = Dataset.from_arrays(features(), ["a", "b"] * 59 + ["a", "c"])
    assert dataset.classes.tolist() == ["a", "b", "c"]


def test_stray_values_are_noted(frame):
    frame["size"] = [*map(str, frame["size"][:-1]), "broken"]
    dataset = Dataset.from_table(frame, "sold")
    assert any("'size' are not numbers and are treated as missing: 'broken'" in note for note in dataset.notes)
    assert dataset.X["size"].isna().sum() == 1


def test_only_an_id_to_learn_from():
    dataset = Dataset.from_arrays(np.arange(N), np.linspace(0, 1, N) ** 2)
    assert dataset.kinds == {"x0": Kind.NUMERIC}
    assert any("ids were kept" in note for note in dataset.notes)


def test_roles(frame):
    frame["w"] = 1.5
    frame["household"] = np.repeat(np.arange(N // 2), 2)
    dataset = Dataset.from_table(frame, "sold", weights="w", groups="household", times="built")
    assert list(dataset.X.columns) == ["size", "rooms", "city", "row", "price"]
    assert dataset.weights.tolist() == [1.5] * N
    assert dataset.groups.tolist() == frame["household"].tolist()
    assert dataset.times[1] == np.datetime64("2000-01-02")
    assert dataset.schema.apply(frame).shape == (N, 5)  # the roles' columns are not called unknown
    assert "with weights, groups, times" in dataset.describe()
    texts = Dataset.from_table(frame, "sold", groups=frame["city"], times=frame["price"])
    assert texts.groups[0] == frame["city"][0]
    assert texts.times.dtype == np.float64


def test_sparse():
    matrix = sparse.random(N, 30, 0.1, format="coo", random_state=0)
    dataset = Dataset.from_arrays(matrix, ["a", "b"] * 60)
    assert sparse.issparse(dataset.X)
    assert dataset.X.format == "csr"
    assert dataset.kinds == {}
    assert (matrix.tocsr() != dataset.X).nnz == 0
    assert dataset.take([2, 0]).X.shape == (2, 30)
    assert "sparse, 10.00% filled" in dataset.describe()
    assert dataset.schema.apply(matrix.toarray()).shape == (N, 30)
    with pytest.raises(TableError, match="must have 30 columns, found 29"):
        dataset.schema.apply(matrix.tocsr()[:, :29])
    matrix.data[0] = np.inf
    with pytest.warns(DataWarning, match="1 infinite values"):
        Dataset.from_arrays(matrix, ["a", "b"] * 60)
    with pytest.raises(TableError, match="kinds cannot be declared for a sparse matrix"):
        Dataset.from_arrays(matrix, ["a", "b"] * 60, kinds={"x0": "text"})
    frame = pd.DataFrame.sparse.from_spmatrix(sparse.random(N, 3, 0.5, random_state=0))
    assert Dataset.from_arrays(frame, ["a", "b"] * 60).is_sparse


def test_polars_in(frame):
    polars = pytest.importorskip("polars")
    assert Dataset.from_table(polars.from_pandas(frame), "sold").key == Dataset.from_table(frame, "sold").key
    y = polars.Series("y", ["a", "b"] * 60)
    assert Dataset.from_arrays(polars.from_numpy(features()), y).target == "y"


def test_take(frame):
    dataset = Dataset.from_table(frame, "sold", weights=np.arange(N) + 1.0)
    part = dataset.take([5, 3])
    assert part.X["row"].tolist() == [5, 3]
    assert part.X.index.tolist() == [0, 1]
    assert part.weights.tolist() == [6.0, 4.0]
    assert part.classes is dataset.classes
    assert part.key != dataset.key
    assert dataset.take(np.arange(N)).key == dataset.key
    assert dataset.take(dataset.y == 1).n_rows == (dataset.y == 1).sum()
    with pytest.raises(TableError, match="between 0 and 119, got 3 to 120"):
        dataset.take([3, 120])
    with pytest.raises(TableError, match="a mask must have one value per row"):
        dataset.take([True])


def test_describe(frame):
    report = Dataset.from_table(frame, "sold", name="flats").describe()
    assert report.startswith("flats: 120 rows × 6 columns\ntarget 'sold': binary (no ")
    assert "default metric roc_auc" in report
    assert "categorical      1  city" in report
    assert "- binary classification, because 'sold' has 2 distinct values" in report
    assert "regression, " in Dataset.from_table(frame, "price").describe()


def test_keys_tell_datasets_apart(frame):
    keys = {
        Dataset.from_table(frame, "sold").key,
        Dataset.from_table(frame, "price").key,
        Dataset.from_table(frame, "sold", kinds={"rooms": "categorical"}).key,
        Dataset.from_table(frame, "sold", weights=np.arange(N)).key,
        Dataset.from_table(frame.rename(columns={"size": "area"}), "sold").key,
        Dataset.from_table(frame.iloc[::-1], "sold").key,
        Dataset.from_table(frame.assign(size=frame["size"] + 1e-9), "sold").key,
        Dataset.from_table(frame.assign(city=frame["city"].replace("Rome", "Roma")), "sold").key,
    }
    assert len(keys) == 8
    assert Dataset.from_table(frame.copy(), "sold", name="other").key in keys


def test_keys_are_the_same_in_another_process(frame, tmp_path):
    frame["words"] = [f"some words about row {i % 50}" for i in range(N)]
    frame.to_parquet(tmp_path / "t.parquet")
    program = textwrap.dedent(
        """
        import sys
        from headstart.data import Dataset, make_splits
        dataset = Dataset.from_table(sys.argv[1], "sold", groups="city")
        print(dataset.key, make_splits(dataset, seed=3).key)
        """
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "t.parquet")],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": ":".join(p for p in sys.path if p), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    from headstart.data import make_splits

    dataset = Dataset.from_table(frame, "sold", groups="city")
    assert runs == {f"{dataset.key} {make_splits(dataset, seed=3).key}\n"}


def table(**columns):
    return pd.DataFrame({"a": np.random.default_rng(0).normal(size=20), "y": ["u", "v"] * 10, **columns})


@pytest.mark.parametrize(
    ("source", "target", "options", "message"),
    [
        (table(), "Y", {}, "target column 'Y' not found; did you mean 'y'"),
        (table(price=1.5), "pirce", {}, "did you mean 'price'"),
        (table(), np.arange(3), {}, "target must have one value per row of the table, 20, got 3"),
        (table(), np.zeros((20, 2)), {}, r"target must have one value per row, got an array of shape \(20, 2\)"),
        (table(y="u"), "y", {}, "at least two classes, found only 'u'"),
        (table(y=1.0), "y", {"task": "regression"}, "must vary, but every row has 1"),
        (table(y=None), "y", {}, "must have values, but is missing in all 20 rows"),
        (table(y=np.nan), "y", {"task": "regression"}, "must have values, but is missing in all 20 rows"),
        (table(), "y", {"task": "regression"}, "must contain numbers for a regression, found 'u'"),
        (table(), "y", {"task": "clustering"}, "task 'clustering' is unknown"),
        (table(y=["u", "v", "w", "x"] * 5), "y", {"task": "binary"}, "two classes for a binary task, found 4"),
        (table(y=[f"u{i}" for i in range(20)]), "y", {}, "each of its 20 rows has its own"),
        (table(y=pd.date_range("2020", periods=20)), "y", {}, "must contain numbers or labels, found dates"),
        (table(y=[[1], [2]] * 10), "y", {"task": "classification"}, "labels must be numbers, text or booleans"),
        (table().head(3), "y", {}, "at least 4 rows with a target, found 3 in 3"),
        (table(a=None), "y", {}, "all 1 columns are empty in all 20 rows"),
        (table(a=1), "y", {}, "features must vary, but all 1 columns are constants or ids"),
        (table()[["y"]], "y", {}, "at least one feature besides the target"),
        (table(), "y", {"weights": -np.arange(20)}, "weights must not be negative, row 1 has -1"),
        (table(), "y", {"weights": [np.nan] * 20}, "weights must be finite, row 0 has nan"),
        (table(), "y", {"weights": [1.0]}, "weights must have one value per row of the table, 20, got 1"),
        (table(), "y", {"weights": np.zeros(20)}, "weights must not all be zero"),
        (table(), "y", {"weights": ["x"] * 20}, "weights must be numbers, found 'x'"),
        (table(), "y", {"weights": [None] * 20}, "weights must be numbers, found None"),
        (table(), "y", {"weights": "b"}, "weights column 'b' not found"),
        (table(), "y", {"weights": "y"}, "column 'y' cannot be weights, it is already target"),
        (table(), "y", {"weights": 1.5}, "must be the name of a column or one value per row, got float"),
        (table(g=["p", None] * 10), "y", {"groups": "g"}, "groups must be known for every row, row 1 has none"),
        (table(t=[1.0, None] * 10), "y", {"times": "t"}, "times must be known for every row, row 1 has none"),
        (table(t=["early", "late"] * 10), "y", {"times": "t"}, "times must be numbers or dates, found 'early'"),
        (table(), "y", {"kinds": {"b": "text"}}, "kinds: column 'b' not found"),
        (table(b="x"), "y", {"kinds": {"b": "numeric"}}, "column 'b' must contain numbers, found 'x'"),
    ],
)
def test_mistakes(source, target, options, message):
    with pytest.raises(TableError, match=message):
        Dataset.from_table(source, target, **options)


def test_mistakes_are_value_errors():
    with pytest.raises(ValueError, match="not found"):
        Dataset.from_table(table(), "nothing")
