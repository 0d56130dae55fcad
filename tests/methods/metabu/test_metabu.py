"""Metabu as an extractor."""

from functools import cache

import numpy as np
import pytest

from headstart.errors import InvalidInput, ModelFileError, NeedsTable
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.metafeatures.tables import table_metafeatures, with_metafeatures
from headstart.methods.metabu import Metabu
from headstart.registry import create
from headstart.space import Algorithm, Encoded, Float, PipelineSpace, Stage
from headstart.testing import MetaFeaturesContract
from headstart.testing.examples import small_meta
from headstart.testing.tables import meta_with_tables


class TestMetabu(MetaFeaturesContract):
    def make(self):
        return Metabu(metafeatures="example")


class TestTransported(MetaFeaturesContract):
    def make(self):
        return Metabu(metafeatures="example", coupling="fgw", dimensions=2)


class TestOfTables(MetaFeaturesContract):
    """Bootstraps of the tables; without a map, what a user of the library gets."""

    def make(self):
        return Metabu(metafeatures="auto_sklearn", bootstraps=2)

    def meta(self):
        return described()


@cache
def described():
    """Small tables with meta-features that take no time."""
    meta = meta_with_tables()
    return with_metafeatures(meta, ["auto_sklearn"], range(len(meta)))[0]


def decided_by(feature, seed=0, n_tasks=40, n_pipelines=300):
    """Tasks whose best pipelines depend on one of four meta-features, which `feature` gives for each task."""
    rng = np.random.default_rng(seed)
    space = PipelineSpace("line", [Stage("estimator", [Algorithm("a", params=[Float("x", 0, 1), Float("y", 0, 1)])])])
    values = rng.random((n_pipelines, 2))
    active, choice = np.ones(values.shape, dtype=bool), np.zeros((n_pipelines, 1), dtype=int)
    pipelines = Encoded(space, values, active, choice, ids=np.arange(n_pipelines))
    vectors = rng.standard_normal((n_tasks, 4))
    best = np.column_stack([np.full(n_tasks, 0.5), 1 / (1 + np.exp(-feature(vectors)))])
    losses = ((values[None] - best[:, None]) ** 2).sum(axis=2)
    return MetaDataset(pipelines, losses, [f"t{t}" for t in range(n_tasks)], {"v": vectors})


def test_finds_the_meta_feature_that_counts():
    meta = decided_by(lambda vectors: 2 * vectors[:, 2])
    learned = Metabu("v").meta_fit(meta)
    importance = learned.importance()
    assert next(iter(importance)) == "v 2"
    assert list(importance.values()) == sorted(importance.values(), reverse=True)
    assert importance["v 2"] > 3 * max(value for name, value in importance.items() if name != "v 2")
    near = learned.neighbours(learned.transform(None, {"v": meta.metafeatures["v"][0]}), 8)
    assert near[0] == ("t0", 0.0)
    apart = {name: abs(meta.metafeatures["v"][int(name[1:]), 2] - meta.metafeatures["v"][0, 2]) for name, _ in near}
    assert np.mean(list(apart.values())) < 0.6  # of 40 tasks at random it is about 1.1
    assert [distance for _, distance in near] == sorted(distance for _, distance in near)


def test_dimension_follows_the_best_pipelines():
    assert Metabu("v").meta_fit(decided_by(lambda vectors: 2 * vectors[:, 0])).dimension == pytest.approx(1, abs=0.8)
    assert Metabu("v", dimensions=3).meta_fit(decided_by(lambda v: v[:, 0])).vectors.shape == (40, 3)


def test_nothing_of_a_held_out_task_enters():
    meta = small_meta(n_tasks=9)
    train = list(range(8))
    changed = meta.changed(
        losses=np.where(np.arange(9)[:, None] == 8, 1.0 - meta.losses, meta.losses),
        metafeatures={"example": np.where(np.arange(9)[:, None] == 8, 99.0, meta.metafeatures["example"])},
    )
    found = [with_metafeatures(m, {"own": Metabu("example")}, train) for m in (meta, changed)]
    before, after = (made["own"] for _, made in found)
    assert before.describe() == after.describe()
    np.testing.assert_array_equal(found[0][0].metafeatures["own"][train], found[1][0].metafeatures["own"][train])


def test_pipelines_that_only_a_held_out_task_tried_do_not_count():
    meta = small_meta(n_tasks=7)
    losses = np.where(np.arange(60) < 10, np.nan, meta.losses)
    losses[6, :10] = 0.0
    others = meta.pipelines.values.copy()
    others[:10] = np.where(meta.pipelines.active[:10], 1.0 - others[:10], 0.0)
    p = meta.pipelines
    moved = MetaDataset(Encoded(p.space, others, p.active, p.choice, ids=p.ids), losses, meta.tasks, meta.metafeatures)
    keys = [Metabu("example").meta_fit(m.select(range(6))).meta_key for m in (meta.changed(losses=losses), moved)]
    assert keys[0] == keys[1]


def test_missing_meta_features_are_at_the_median_and_odd_ones_are_cut_off():
    meta = decided_by(lambda vectors: vectors[:, 2])
    vectors = meta.metafeatures["v"].copy()
    vectors[3] = np.nan
    vectors[5, 1] = np.nan
    learned = Metabu("v").meta_fit(meta.changed(metafeatures={"v": vectors}))
    assert "t3" not in learned.tasks
    middle = np.nanmedian(np.delete(vectors, 3, axis=0), axis=0)
    np.testing.assert_allclose(
        learned.transform(None, {"v": np.full(4, np.nan)}), learned.transform(None, {"v": middle}), atol=1e-12
    )
    far, farther = (learned.transform(None, {"v": np.array([0, 0, size, 0.0])}) for size in (1e3, 1e9))
    np.testing.assert_array_equal(far, farther)


def test_bootstraps_are_rows_of_their_own_and_seeded():
    meta = described()
    plain, some, same, other = (
        Metabu("auto_sklearn", bootstraps=bootstraps, seed=seed).meta_fit(meta).meta_key
        for bootstraps, seed in ((0, 0), (2, 0), (2, 0), (2, 1))
    )
    assert some == same
    assert len({plain, some, other}) == 3


def test_bootstraps_need_hand_crafted_meta_features():
    with pytest.raises(InvalidInput, match="bootstraps=0"):
        Metabu("dataset2vec", bootstraps=1).meta_fit(small_meta().changed(metafeatures={"dataset2vec": np.eye(6)}))


def test_a_table_gets_them_by_name(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path))
    meta, name = meta_with_tables(), "metabu(metafeatures=auto_sklearn)"
    all_tasks, made = with_metafeatures(meta, [name], range(5))
    found = table_metafeatures(meta.dataset(5), [name], made)[name]
    np.testing.assert_allclose(found, all_tasks.metafeatures[name][5])
    assert set(made[name].importance()) == set(HandCrafted("auto_sklearn").names)


def test_settings_and_states_that_cannot_be():
    for settings, message in (
        ({"coupling": "both"}, "coupling must be"),
        ({"alpha": 1.5}, "alpha must be between 0 and 1"),
        ({"penalty": -1.0}, "penalty must not be negative"),
        ({"top": 0}, "top must be a positive"),
        ({"bootstraps": -2}, "bootstraps must be a positive"),
    ):
        with pytest.raises(InvalidInput, match=message):
            create("metafeatures", "metabu", **settings)
    with pytest.raises(InvalidInput, match="call meta_fit"):
        Metabu().dimension
    with pytest.raises(NeedsTable, match="it has example"):
        Metabu("mf1").meta_fit(small_meta())
    with pytest.raises(InvalidInput, match="at least 4 tasks"):
        Metabu("example").meta_fit(small_meta().select([0, 1, 2]))
    learned = Metabu("example").meta_fit(small_meta())
    with pytest.raises(NeedsTable, match="'example'"):
        learned.transform(None)
    with pytest.raises(InvalidInput, match="must be 3 meta-features"):
        learned.transform(None, {"example": np.zeros(4)})


def test_a_file_that_does_not_fit_together_is_refused(tmp_path):
    learned = Metabu("example").meta_fit(small_meta())
    learned._mean = np.zeros(7)
    learned.save(tmp_path / "bad.npz")
    with pytest.raises(ModelFileError, match="does not fit together"):
        Metabu.load(tmp_path / "bad.npz")
