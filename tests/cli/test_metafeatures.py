"""`headstart metafeatures`."""

import json

import numpy as np
import pandas as pd
import pytest

from headstart.data import Dataset
from headstart.knowledge.files import Knowledge
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.registry import create
from headstart.testing.examples import small_meta
from headstart.testing.tables import meta_with_tables


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.standard_normal(60), "b": rng.choice(["x", "y"], 60)})
    frame["c"] = 3.0 * frame["a"] + rng.standard_normal(60)
    frame["label"] = np.where(frame["a"] > 0, "yes", "no")
    frame.to_csv(tmp_path / "train.csv", index=False)
    return tmp_path / "train.csv"


def test_prints_values_by_name(command, table):
    ran = command("metafeatures", table, "--target", "label")
    assert ran.code == 0
    assert "46 meta-features 'mf1'" in ran.out
    assert any(line.split()[1:4:2] == ["NumberOfInstances", "60"] for line in ran.out.splitlines())


def test_json_has_null_where_nothing_is_known(command, table):
    ran = command("metafeatures", table, "-t", "label", "--set", "full", "--json")
    found = json.loads(ran.out)
    expected = HandCrafted("full").measure(Dataset.from_table(table, "label"))
    assert list(found) == list(expected.names)
    np.testing.assert_array_equal(np.array(list(found.values()), dtype=float), expected.values)
    assert found["can_cor.sd"] is None  # there are two classes


def test_columns_are_read_as_told(command, table):
    ran = command("metafeatures", table, "-t", "c", "--drop", "b", "--set", "scot", "--json")
    found = json.loads(ran.out)
    assert found["LogNumberOfFeatures"] == pytest.approx(np.log(2))
    assert found["NumberOfClasses"] == 60  # different values of a number to predict


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-t", "label", "--set", "mf"], "did you mean"),
        ([], "name the column to predict with --target"),
        (["-t", "lable"], "did you mean 'label'"),
    ],
)
def test_mistakes_are_named(command, table, options, message):
    ran = command("metafeatures", table, *options)
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""


@pytest.fixture
def near(tmp_path, monkeypatch):
    """A method that knows tables by Metabu, as 'metatrain' writes it."""
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    meta = meta_with_tables()
    method = create("optimizer", "nearest(metafeatures='metabu(metafeatures=auto_sklearn)')")
    Knowledge.learn(method, meta, range(6), []).save(tmp_path / "near.npz")
    return tmp_path / "near.npz"


def test_similar_tables_and_a_map(command, table, near, tmp_path):
    ran = command("metafeatures", table, "-t", "label", "--knowledge", near, "--map", "map.svg")
    assert ran.code == 0, ran.err
    assert "nearest of 6 tables" in ran.out
    assert "written: map.svg" in ran.out
    drawn = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert "train among 6 tables" in drawn
    ran = command("metafeatures", table, "-t", "label", "--knowledge", near, "--json")
    found = json.loads(ran.out)
    assert sorted(found["neighbours"]) == [f"task {t}" for t in range(6)]
    assert list(found["neighbours"].values()) == sorted(found["neighbours"].values())
    nearest = next(iter(found["neighbours"]))
    assert nearest in drawn
    assert set(found["importance"]) == set(HandCrafted("auto_sklearn").names)


def test_a_map_needs_something_to_show(command, table, tmp_path):
    ran = command("metafeatures", table, "-t", "label", "--map", "map.svg")
    assert (ran.code, ran.out) == (2, "")
    assert "--map needs --knowledge FILE" in ran.err
    create("surrogate", "linear_factors(rank=2)").meta_fit(small_meta()).save(tmp_path / "other.npz")
    ran = command("metafeatures", table, "-t", "label", "--knowledge", "other.npz")
    assert ran.code == 2
    assert "must hold Metabu" in ran.err
    ran = command("metafeatures", table, "-t", "label", "--knowledge", "other.npz", "--map", "map.gif")
    assert "a plot is written as" in ran.err
