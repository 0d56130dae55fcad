"""The same searches from several starts, and settings one at a time."""

import json

import numpy as np
import pytest

from experiments.catalogue import run_experiment
from experiments.mosaic import Sensitivity
from experiments.starts import Blocks, FromStarts
from headstart.metadata import MetaDataset
from headstart.replay.results import Results, wilcoxon
from headstart.replay.variants import warm_started
from headstart.testing.examples import small_meta

NEAR = warm_started("nearest", 2, name="near")


@pytest.fixture
def meta():
    small = small_meta(n_tasks=8)
    initial = [small.pipelines.ids[np.isfinite(row)][:3] for row in small.losses]
    splits = {"train": [0, 1, 2, 3], "validation": [4], "test": [5, 6, 7]}
    vectors = {"example": np.vstack([small.metafeatures["example"][:7], np.full((1, 3), np.nan)])}
    return MetaDataset(small.pipelines, small.losses, small.tasks, vectors, initial=initial, splits=splits, name="pmf")


def test_each_block_is_of_the_tasks_that_all_of_it_ran_on(meta, tmp_path, put):
    groups = {
        "random": {"common": "random", "near": "random-near"},
        "both": {"one": "random", "two": "average_rank"},
        "none": {"gp": "gp"},
    }
    kind = FromStarts([("random", (None, NEAR)), ("average_rank", (None,))], groups, at=(2, 6))
    put("warm_start", kind)
    found, path = run_experiment("warm_start", meta, tmp_path, evaluations=6)
    assert set(Results.load(path).methods) == {"random", "random-near", "average_rank"}
    table = found.table()
    assert [row[0] for row in table.rows] == ["**random**", "common", "near", "**both**", "one", "two"]
    assert [row[-1] for row in table.rows] == ["", "2", "2", "", "3", "3"]
    assert all(len(row) == len(table.columns) for row in table.rows)
    results = found.results
    near, common = (results.curves(name)[:2] for name in ("random-near", "random"))
    assert table.rows[2][1].startswith(f"{near[:, 1].mean():.4f}")
    assert table.rows[1][2].startswith(f"{common[:, 5].mean():.4f}")
    for column, e in ((4, 1), (6, 5)):
        assert table.rows[2][column] == f"{(near[:, e] < common[:, e]).sum()}–{(near[:, e] > common[:, e]).sum()}"
        assert float(table.rows[2][column + 1]) == pytest.approx(wilcoxon(near[:, e], common[:, e]), rel=0.05)
    assert float(table.rows[1][3]) + float(table.rows[2][3]) == pytest.approx(3)


def test_settings_are_tried_on_validation_tasks(meta, tmp_path, put):
    put("mosaic_settings", Sensitivity({"exploration": 1.3}, {"exploration": (0.1, 1.3)}, tasks=2))
    found, path = run_experiment("mosaic_settings", meta, tmp_path, evaluations=6)
    content = json.loads(path.read_text())
    assert content["tasks"] == [4]
    assert content["split"] == "validation, first 2"
    assert isinstance(found, Blocks)
    assert [row[0] for row in found.table().rows] == ["**exploration, usually 1.3**", "`forest`", "0.1", "1.3"]
    assert "mosaic(defaults=no, random_starts=0, exploration=0.1)" in content["methods"]
