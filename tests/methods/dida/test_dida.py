"""`Dida` as an extractor."""

import numpy as np
import pytest
from quick import quick

from headstart.data import Dataset
from headstart.errors import InvalidInput, NeedsTable
from headstart.metadata.tables import InMemory
from headstart.metafeatures.set_networks import TableArrays
from headstart.methods.dida import Dida
from headstart.registry import create
from headstart.testing import MetaFeaturesContract
from headstart.testing.examples import small_meta
from headstart.testing.tables import meta_with_tables, small_tables

torch = pytest.importorskip("torch")


class TestDida(MetaFeaturesContract):
    def make(self):
        return quick("metafeatures", "dida")


class TestOneLayer(MetaFeaturesContract):
    def make(self):
        return Dida(4, 1, 4, 8, None, steps=2, n_tables=3)


@pytest.fixture(scope="module")
def extractor():
    return quick("metafeatures", "dida").meta_fit(meta_with_tables())


def test_patches_of_different_tables_are_told_apart_after_training():
    rng = np.random.default_rng(0)
    shapes = [rng.standard_normal, rng.standard_exponential, rng.standard_cauchy, rng.random]
    kinds = [Dataset.from_arrays(shape((150, 4)), rng.integers(0, 2, 150).astype(str)) for shape in shapes]
    meta = small_meta(4).changed(tables=[InMemory(kind) for kind in kinds])
    learned = Dida(8, 2, 8, 16, 5, steps=40, learning_rate=5e-3, n_tables=4).meta_fit(meta)
    arrays, right = [TableArrays.of(kind) for kind in kinds], []
    for _ in range(10):
        patches, owners = learned.draw(arrays, rng)
        vectors = learned.network(learned.parameters, patches)
        near = np.exp(-np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)) > 0.5
        same = np.equal.outer(owners, owners)
        pairs = np.triu(np.ones_like(same), 1)
        right.append(0.5 * (near[same & pairs].mean() + (~near[~same & pairs]).mean()))
    assert np.mean(right) > 0.7


def test_a_step_has_two_patches_of_each_table_and_all_have_one_size(extractor):
    tables = [TableArrays.of(table) for table in small_tables(6)]
    rng, sizes = np.random.default_rng(0), set()
    for _ in range(20):
        patches, owners = extractor.draw(tables, rng)
        assert owners[::2] == owners[1::2]
        assert len(set(owners)) == 3  # so that a negative is never of its own table
        (size,) = {patch.features.shape for patch in patches}
        sizes.add(size)
    assert len(sizes) > 10
    assert all(200 <= rows <= 500 and 2 <= features <= 15 for rows, features in sizes)


def test_a_patch_is_drawn_with_replacement_from_its_table():
    rng = np.random.default_rng(0)
    table = TableArrays(np.arange(6, dtype=np.float32).reshape(3, 2), np.eye(3, dtype=np.float32))
    patch = table.patch(rng, 50, 7)
    assert patch.features.shape == (50, 7)
    own = patch.targets.argmax(axis=1)
    assert set(own) == {0, 1, 2}
    assert all(set(np.unique(column - 2 * own)) <= {0.0, 1.0} for column in patch.features.T)
    assert set(patch.features[:, 0]) == set(2.0 * np.arange(3) + (patch.features[0, 0] - 2 * own[0]))


def test_a_large_table_is_the_mean_of_its_parts(extractor):
    rng = np.random.default_rng(0)
    large = Dataset.from_arrays(rng.random((700, 20)), rng.integers(0, 3, 700).astype(str))
    parts = [extractor.network.part(TableArrays.of(large, 500, draw), draw) for draw in range(8)]
    assert {part.features.shape for part in parts} == {(500, 15)}
    vectors = [extractor.network(extractor.parameters, [extractor.network.whole(part)])[0] for part in parts]
    np.testing.assert_allclose(extractor.transform(large), np.mean(vectors, axis=0), rtol=1e-9)
    assert np.std(vectors, axis=0).max() > 1e-6


def test_an_optimizer_by_the_name_of_meta_features_is_nearest_by_these():
    made = create("optimizer", "dida(steps=3, layers=1)")
    assert made.needs.metafeatures == {"dida(steps=3, layers=1)"}
    assert create("metafeatures", made.metafeatures).layers == 1
    assert (
        create("optimizer", "dataset2vec").describe()
        == create("optimizer", "nearest(metafeatures=dataset2vec)").describe()
    )
    with pytest.raises(InvalidInput, match="has no setting 'stepz'"):
        create("optimizer", "dida(stepz=3)")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layers": 3}, "layers must be 1 or 2, got 3"),
        ({"neighbours": 0}, "neighbours must be"),
        ({"pair_units": 0}, "pair_units must be"),
        ({"n_tables": 1}, "n_tables must be at least 2"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(InvalidInput, match=message):
        Dida(**settings)


def test_it_must_be_trained_on_two_tables():
    table = small_tables(1)[0]
    with pytest.raises(InvalidInput, match="Dida learns from tables: call meta_fit"):
        Dida().transform(table)
    with pytest.raises(NeedsTable, match="at least 2, got 1"):
        Dida().meta_fit(small_meta().changed(tables=[InMemory(table), *[None] * 5]))
