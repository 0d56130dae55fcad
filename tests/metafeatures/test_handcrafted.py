"""Sets of hand-crafted meta-features: contract, tables of all kinds, what cannot be computed."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from headstart.data import Dataset
from headstart.errors import InvalidInput, NeedsTable, UnknownName
from headstart.metadata.tables import InMemory
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.metafeatures.handcrafted.sets import FAMILIES, FEATURES, SETS
from headstart.metafeatures.handcrafted.table import CELLS, DRAWN_ROWS, PART_ROWS, PART_WIDTH, Table
from headstart.metafeatures.tables import table_metafeatures, with_metafeatures
from headstart.optimizers.nearest import Nearest
from headstart.registry import create
from headstart.testing import MetaFeaturesContract
from headstart.testing.examples import pool_task
from headstart.testing.tables import meta_with_tables, small_tables

SIZES = {"mf1": 46, "mf2": 22, "auto_sklearn": 36, "landmark": 8, "scot": 4, "byu": 43, "full": 210}


def dataset(X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Dataset.from_arrays(X, y, **settings)


class TestMF1(MetaFeaturesContract):
    def make(self):
        return create("metafeatures", "mf1")


class TestFull(MetaFeaturesContract):
    def make(self):
        return create("metafeatures", "full")


class TestBYU(MetaFeaturesContract):
    def make(self):
        return create("metafeatures", "handcrafted(set=byu, seed=3)")


@pytest.mark.parametrize("name", SIZES)
def test_sets_have_the_sizes_of_their_papers(name):
    extractor = create("metafeatures", name)
    assert extractor.set == name
    assert len(extractor.names) == len(set(extractor.names)) == SIZES[name]
    assert len(extractor.transform(small_tables(1)[0])) == SIZES[name]


def test_names_are_declared_once():
    declared = [feature.name for family in FAMILIES for feature in family.FEATURES]
    assert len(declared) == len(set(declared)) == len(FEATURES)
    assert set().union(*SETS.values()) == set(declared)
    with pytest.raises(UnknownName, match="did you mean 'mf1'"):
        HandCrafted("mf11")


def odd_tables():
    """What a table may be like, by name."""
    rng = np.random.default_rng(0)
    n = 60
    numbers = rng.standard_normal((n, 3))
    y = np.where(numbers[:, 0] > 0, "p", "q")
    holes = np.where(rng.random((n, 3)) < 0.4, np.nan, numbers)
    holes[:, 2] = np.nan
    levels = pd.DataFrame({"a": rng.choice(list("xyz"), n), "b": rng.choice(list("uv"), n)})
    mixed = pd.DataFrame(
        {
            "number": numbers[:, 0],
            "level": rng.choice(["a", "b", None], n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
            "flag": rng.random(n) > 0.5,
            "text": [f"some words of text {' more' * (i % 7)} {i}" for i in range(n)],
            "constant": 1.0,
            "nothing": np.nan,
        }
    )
    counts = rng.poisson(2.0, n).astype(float)
    return {
        "mixed": dataset(mixed, y),
        "missing": dataset(holes, y),
        "levels alone": dataset(levels, y),
        "constants alone": dataset(np.ones((n, 2)), y, kinds={"x0": "numeric", "x1": "numeric"}),
        "one column": dataset(numbers[:, :1], y),
        "every row twice": dataset(np.repeat(numbers[:30], 2, axis=0), np.repeat(y[:30], 2)),
        "four rows": dataset(numbers[:4], ["p", "q", "p", "q"]),
        "a class with one row": dataset(numbers, np.r_[["r"], y[1:]]),
        "many classes": dataset(numbers, [f"c{i % 25}" for i in range(n)]),
        "nearly a class for each row": dataset(numbers, [f"c{max(i, 1)}" for i in range(n)], task="classification"),
        "huge numbers": dataset(numbers * 1e300, y),
        "tiny numbers": dataset(numbers * 1e-300, y),
        "more columns than rows": dataset(rng.standard_normal((20, 300)), y[:20]),
        "many levels": dataset(pd.DataFrame({"a": [f"v{i % 45}" for i in range(n)], "b": numbers[:, 0]}), y),
        "sparse": dataset(sparse.random(n, 400, 0.05, random_state=0, format="csr"), y),
        "regression": dataset(numbers, numbers.sum(axis=1), task="regression"),
        "regression of counts": dataset(numbers, counts, task="regression"),
        "huge regression": dataset(numbers, np.tanh(numbers[:, 0]) * 1e308, task="regression"),
        "regression of levels": dataset(levels, counts, task="regression"),
    }


ODD = odd_tables()


@pytest.mark.parametrize("name", [*ODD, "one class"])
def test_any_table_has_a_finite_vector_and_a_mask(name):
    table = ODD["mixed"].take(np.flatnonzero(ODD["mixed"].y == 0)) if name == "one class" else ODD[name]
    extractor = HandCrafted("full")
    found = extractor.measure(table)
    vector = extractor.transform(table)
    assert np.isfinite(vector).all()
    np.testing.assert_array_equal(vector[found.known], found.values[found.known])
    assert (vector[~found.known] == 0.0).all()
    assert np.isfinite(HandCrafted("byu").measure(table).values).all()  # what only counts is always known
    counted = [n[0].isupper() and not n.startswith(("Landmark", "PCA")) for n in found.names]
    assert found.known[counted].all()


def test_ordinary_tables_have_nearly_all():
    for name in ("mixed", "regression"):
        found = HandCrafted("full").measure(ODD[name])
        assert found.known.mean() > 0.9, [n for n, k in zip(found.names, found.known, strict=True) if not k]
    unknown = HandCrafted("full").measure(ODD["regression"])
    assert not unknown.known[unknown.names.index("num_to_cat")]
    one = HandCrafted("full").measure(ODD["mixed"].take(np.flatnonzero(ODD["mixed"].y == 0)))
    known = dict(zip(one.names, one.known, strict=True))
    assert not any(known[n] for n in ("LandmarkLDA", "n1", "f1.mean", "can_cor.mean", "sil", "c1", "gravity"))
    assert all(known[n] for n in ("leaves", "mean.mean", "attr_ent.mean", "wg_dist.mean", "NumberOfClasses"))


def test_what_cannot_be_computed_is_at_the_median_of_other_tables():
    tables = [ODD["mixed"], ODD["levels alone"], ODD["many levels"], ODD["regression"]]
    meta = meta_with_tables().select([0, 1, 2, 3]).changed(tables=[InMemory(t) for t in tables])
    extractor = HandCrafted("full").meta_fit(meta)
    place = extractor.names.index("num_to_cat")
    values = [HandCrafted("full").measure(t).values[place] for t in tables]
    assert np.isnan(values).tolist() == [False, False, False, True]
    assert extractor.transform(tables[3])[place] == np.median(values[:3])
    assert extractor.transform(tables[0])[place] == values[0]


def test_large_tables_are_described_by_a_part_that_the_seed_decides():
    rng = np.random.default_rng(0)
    n = 3000
    X = pd.DataFrame(rng.standard_normal((n, 4)), columns=list("abcd"))
    X["level"] = rng.choice([f"v{i:03d}" for i in range(150)], n)
    table = Table.of(dataset(X, np.where(X["a"] > 0, "p", "q")))
    assert table.n == n
    assert table.part.n == DRAWN_ROWS < PART_ROWS
    assert table.part.sizes is table.sizes
    rows = {row.tobytes() for row in np.ascontiguousarray(table.numeric)}
    assert {row.tobytes() for row in np.ascontiguousarray(table.part.numeric)} <= rows
    vectors = [HandCrafted("mf1", seed=s).transform(dataset(X, np.where(X["a"] > 0, "p", "q"))) for s in (0, 0, 1)]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    differs = vectors[0] != vectors[2]
    assert all(name.startswith("Landmark") for name, d in zip(HandCrafted("mf1").names, differs, strict=True) if d)
    assert np.abs(vectors[0] - vectors[2]).max() < 0.1
    wide = Table.of(dataset(rng.standard_normal((50, 1500)), np.arange(50) % 2))
    assert wide.numeric.shape == (50, 1000)
    assert wide.sizes.columns == 1500
    assert wide.part.numeric.shape == (50, PART_WIDTH)
    small = Table.of(dataset(X.iloc[:PART_ROWS, :4], np.where(X["a"] > 0, "p", "q")[:PART_ROWS]))
    assert small.part is small


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(100_000, 30), (2_000, 1_000)])
def test_many_rows_and_many_columns(shape):
    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape)
    table = dataset(X, np.where(X[:, 0] + X[:, 1] > 0, "p", "q"))
    assert Table.of(table).numeric.size <= max(CELLS, PART_ROWS * 1000)
    found = HandCrafted("full").measure(table)
    assert found.known.mean() > 0.9


def test_a_regression_has_versions_of_its_own():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4))
    linear = X @ [1.0, 2.0, 0.0, -1.0]

    def values(y):
        found = HandCrafted("full").measure(dataset(X, y, task="regression"))
        return dict(zip(found.names, found.values, strict=True))

    straight, noise = values(linear), values(rng.standard_normal(300))
    assert straight["LandmarkLDA"] == pytest.approx(1.0)
    assert straight["p_trace"] == pytest.approx(1.0)
    assert straight["NumberOfClasses"] == 300
    assert straight["LandmarkNaiveBayes"] > 0.8
    share = np.histogram(linear, bins=10)[0] / 300
    assert straight["ClassProbabilityMax"] == pytest.approx(share.max())
    assert straight["freq_class.mean"] == pytest.approx(share[share > 0].mean())
    explained = 1 - np.linalg.lstsq(np.c_[X, np.ones(300)], linear + X[:, 0] ** 2, rcond=None)[1][0] / (
        np.var(linear + X[:, 0] ** 2) * 300
    )
    assert values(linear + X[:, 0] ** 2)["p_trace"] == pytest.approx(explained)
    for name in ("LandmarkLDA", "LandmarkDecisionTree", "Landmark1NN", "mut_inf.mean", "sil", "linear_discr.mean"):
        assert straight[name] > noise[name] + 0.02, name
    for name in ("n1", "n3.mean", "l2.mean", "leaves_homo.mean", "f1.mean"):
        assert straight[name] < noise[name], name


def test_columns_of_levels_enter_as_published():
    """Ids are left out, booleans have two levels, a missing level is a column of its own and no symbol."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "customer_id": np.arange(100) + 1000,
            "level": rng.choice(["a", "b"], 100),
            "flag": rng.random(100) > 0.5,
            "number": rng.random(100),
        }
    )
    frame.loc[:4, "level"] = None
    found = HandCrafted("mf1").measure(dataset(frame, np.arange(100) % 2))
    values = dict(zip(found.names, found.values, strict=True))
    assert values["NumberOfFeatures"] == 3
    assert values["NumberOfCategoricalFeatures"] == 2
    assert values["SymbolsSum"] == 4
    assert values["PercentageOfMissingValues"] == pytest.approx(5 / 300)


def test_methods_find_them_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path))
    meta = meta_with_tables()
    optimizer = create("optimizer", "nearest(metafeatures=mf1)")
    assert optimizer.needs.metafeatures == {"mf1"}
    found, extractors = with_metafeatures(meta, optimizer.needs.metafeatures, range(4))
    assert found.metafeatures["mf1"].shape == (6, 46)
    assert np.isfinite(found.metafeatures["mf1"]).all()
    extractor = extractors["mf1"]
    extractor.save(tmp_path / "mf1.npz")
    assert HandCrafted.load(tmp_path / "mf1.npz").describe() == extractor.describe()
    table = small_tables(2, seed=5)[1]
    np.testing.assert_array_equal(table_metafeatures(table, ["mf1"], extractors)["mf1"], extractor.transform(table))
    assert table_metafeatures(table, ["scot"], {})["scot"].shape == (4,)  # without having learned
    taught = Nearest(metafeatures="mf1").meta_fit(found.select(range(4)))
    assert len(taught.start(pool_task(found, 5)).ask(3)) == 3


def test_mistakes_are_named():
    with pytest.raises(NeedsTable, match="'mf2' describe a table"):
        HandCrafted("mf2").transform(None)
    with pytest.raises(InvalidInput, match="must have a target"):
        HandCrafted().transform(dataset(np.arange(20.0).reshape(10, 2), None))
