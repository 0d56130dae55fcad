"""Experiments of DMFBS on a small meta-dataset with tables."""

import numpy as np
import pytest

from experiments import dmfbs
from experiments.catalogue import run_experiment
from experiments.dmfbs import FOLDS, OBJECTIVES, SEQUENTIAL, ZERO_SHOT, FirstPicks, Folds, Sequential, Surfaces
from experiments.plots import draw
from experiments.trained import learned
from headstart.metadata.tables import InMemory
from headstart.replay.protocol import Method
from headstart.testing.examples import small_meta
from headstart.testing.tables import small_tables

pytest.importorskip("torch")
QUICK = "dmfbs(extractor='dataset2vec(outputs=4, units=8, blocks=1, depth=1)', steps=2, training={'n_tasks': 2}"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def meta():
    """Eight tasks; one of the three test tasks has no table."""
    small = small_meta(n_tasks=8, n_pipelines=40, missing=0.0)
    tables = [InMemory(table) for table in small_tables(8)]
    splits = {"train": [0, 1, 2, 3], "validation": [4], "test": [5, 6, 7]}
    begin = [[int(small.pipelines.ids[t])] for t in range(8)]
    return small.changed(tables=[*tables[:7], None], splits=splits, initial=begin, name="dmfbs_layout")


def test_what_was_learned_is_kept_and_new_settings_of_a_new_task_are_taken(meta, tmp_path):
    learning = meta.learning([0, 1, 2, 3], [4])
    one, other, usual, third = (
        learned(Method.parse(f"{QUICK}, {rest})"), learning).part("surrogate")
        for rest in ("fine_tune=none", "fine_tune=all", "seed=0", "fine_tune=none, seed=1")
    )
    assert (one.fine_tune, other.fine_tune, usual.fine_tune) == ("none", "all", "regressor")
    name = "0/regressor.0.weight"
    np.testing.assert_array_equal(one.learned[name], other.learned[name])
    assert (one.learned[name] != third.learned[name]).any()
    assert len(list((tmp_path / "cache/experiments").iterdir())) == 2


def test_first_picks_are_those_of_a_method_that_knows_no_result(meta, tmp_path, put):
    labels = {"DMFBS": f"{QUICK}, fine_tune=none)", "Average rank": "average_rank"}
    put("dmfbs_zero_shot", FirstPicks(labels, {"dmfbs_layout": {"DMFBS": (1.0, 2.0)}}, (2, 4), seeds=2))
    found, path = run_experiment("dmfbs_zero_shot", meta, tmp_path)
    assert found.results.names == ["task 5", "task 6"]
    order = np.argsort(np.argsort(np.argsort(meta.losses[:4], axis=1), axis=1).mean(axis=0), kind="stable")[:4]
    for task, curve in zip((5, 6), found.results.curves("average_rank"), strict=True):
        losses = meta.loss_row(task)
        np.testing.assert_allclose(curve, np.minimum.accumulate(losses[order]) - losses.min(), rtol=1e-3)
    table = found.table()
    assert table.columns == ["", "@2", "@4", "ranks", "p at 4", "paper"]
    assert table.rows[0][-1] == "1.00 / 2.00"
    regret = 100 * found.results.curves(labels["DMFBS"])[:, 1].mean()
    assert table.rows[0][1].startswith(f"{regret:.2f} ± ")
    again, _ = run_experiment("dmfbs_zero_shot", meta, tmp_path)
    assert again.table() == table
    assert path.exists()


def test_searches_begin_with_the_same_configuration_on_the_tasks_that_have_tables(meta, tmp_path, put):
    labels = {"DMFBS": f"{QUICK})", "Random": "random"}
    put("dmfbs_sequential", Sequential(labels, (2, 6), {}), evaluations=6)
    found, _ = run_experiment("dmfbs_sequential", meta, tmp_path)
    curves = [found.results.curves(name) for name in labels.values()]
    for row, task in enumerate((5, 6)):
        losses = meta.loss_row(task)
        expected = losses[meta.everything.rows(meta.initial[task])[0]] - losses.min()
        assert [curve[row, 0] for curve in curves] == [pytest.approx(expected, rel=1e-3)] * 2
    assert [row[0] for row in found.table().rows] == ["DMFBS", "Random"]
    assert draw(found, tmp_path / "drawn")[0].exists()


def test_searches_on_the_test_datasets_of_all_splits(meta, tmp_path, put, monkeypatch):
    parts = [{"train": [0, 1, 2, 3], "validation": [4], "test": [5, 6, 7]}, {"train": [3, 4, 5, 6, 7], "test": [0, 1]}]
    monkeypatch.setitem(dmfbs._READ, "dmfbs_layout", lambda _, split: meta.changed(splits=parts[split]))
    labels = {"Average rank": "average_rank", "Random": "random"}
    put("dmfbs_splits", Folds(labels, (2, 6), {}, splits=2), evaluations=6)
    found, _ = run_experiment("dmfbs_splits", meta, tmp_path)
    assert found.results.tasks == [5, 6, 0, 1]
    assert found.results.split == "test of 2 splits, with tables"
    put("dmfbs_sequential", Sequential(labels, (2, 6), {}), evaluations=6)
    for split, rows in enumerate((slice(0, 2), slice(2, 4))):
        alone, _ = run_experiment("dmfbs_sequential", meta.changed(splits=parts[split]), tmp_path / str(split))
        for method in labels.values():
            np.testing.assert_array_equal(found.results.curves(method)[rows], alone.results.curves(method))
    again, _ = run_experiment("dmfbs_splits", meta, tmp_path)
    assert again.table() == found.table()
    assert draw(found, tmp_path / "drawn")[0].exists()


def test_surfaces_compare_predictions_with_losses(meta, tmp_path, put):
    put("dmfbs_surfaces", Surfaces(f"{QUICK}, fine_tune=none)", drawn=1))
    found, _ = run_experiment("dmfbs_surfaces", meta, tmp_path)
    assert found.tasks == ["task 5", "task 6"]
    assert len(found.flat) == 40
    ((losses, predicted),) = found.shown.values()
    assert (min(losses), max(losses), min(predicted), max(predicted)) == (0, 1, 0, 1)
    assert draw(found, tmp_path / "drawn")[0].exists()
    assert run_experiment("dmfbs_surfaces", meta, tmp_path)[0] == found


def test_methods_of_the_tables_can_be_made():
    for labels in (SEQUENTIAL, ZERO_SHOT, OBJECTIVES, FOLDS):
        assert len({Method.parse(text).make().describe().__repr__() for text in labels.values()}) == len(labels)
