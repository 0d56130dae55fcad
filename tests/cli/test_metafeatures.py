"""`headstart metafeatures`."""

import json

import numpy as np
import pandas as pd
import pytest

from headstart.data import Dataset
from headstart.metafeatures.handcrafted import HandCrafted


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
