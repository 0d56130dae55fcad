"""Meta-features of recorded tasks and of a table at hand."""

import numpy as np
import pytest
from fakes import ColumnMeans, Whitened

from headstart import registry
from headstart.errors import NeedsTable
from headstart.metafeatures.tables import table_metafeatures, with_metafeatures
from headstart.testing.tables import meta_with_tables, small_tables


class Learned(ColumnMeans):
    """How far a table's means are from those of the tables it learned from."""

    keeps = ("_center",)

    def meta_fit(self, meta):
        found = [meta.dataset(task) for task in range(len(meta))]
        self.learned_from = [dataset.name for dataset in found if dataset is not None]
        self._center = np.mean([super(Learned, self).transform(d) for d in found if d is not None], axis=0)
        self.meta_key = "learned"
        return self

    def transform(self, dataset, metafeatures=None):
        self.calls = getattr(self, "calls", 0) + 1
        return super().transform(dataset) - self._center


@pytest.fixture(autouse=True)
def registered(monkeypatch, tmp_path):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    for name, made in (("learned", Learned), ("means", ColumnMeans), ("whitened", Whitened)):
        monkeypatch.setitem(registry._added["metafeatures"], name, made)


@pytest.fixture
def meta():
    whole = meta_with_tables()
    return whole.changed(tables=[*whole.tables[:4], None, whole.tables[5]])


def test_extractors_learn_from_training_tasks_and_describe_all_that_have_a_table(meta):
    found, extractors = with_metafeatures(meta, ["learned", "example"], [0, 1, 4])
    assert list(extractors) == ["learned"]
    assert extractors["learned"].learned_from == ["table 0", "table 1"]
    vectors = found.metafeatures["learned"]
    assert np.isnan(vectors).all(axis=1).tolist() == [False] * 4 + [True, False]
    np.testing.assert_array_equal(vectors[3], extractors["learned"].transform(meta.dataset(3)))
    assert found.metafeatures["example"] is meta.metafeatures["example"]
    again, used = with_metafeatures(meta, extractors, [2])  # what has learned is used as it is
    assert used["learned"] is extractors["learned"]
    np.testing.assert_array_equal(again.metafeatures["learned"], vectors)


def test_one_may_read_what_another_makes(meta):
    found, extractors = with_metafeatures(meta, ["whitened(of=means)"], [0, 1, 2])
    assert list(extractors) == ["means", "whitened(of=means)"]
    means = found.metafeatures["means"]
    np.testing.assert_allclose(found.metafeatures["whitened(of=means)"][:, :-1], means - means[:3].mean(axis=0))
    table = small_tables(2, seed=5)[1]
    made = table_metafeatures(table, ["whitened(of=means)"], extractors)
    own = ColumnMeans().transform(table)
    np.testing.assert_allclose(made["whitened(of=means)"][:-1], own - means[:3].mean(axis=0))
    without_tables, _ = with_metafeatures(meta.changed(tables=None), ["whitened"], [0, 1])
    assert np.isfinite(without_tables.metafeatures["whitened"]).all()


def test_what_cannot_be_made_is_named(meta):
    with pytest.raises(NeedsTable, match="'learned' are made of raw tables, and meta-dataset 'meta' has none"):
        with_metafeatures(meta, ["learned"], [4])
    with pytest.raises(NeedsTable, match=r"no meta-features 'lerned' are recorded.*did you mean 'learned'"):
        with_metafeatures(meta, ["lerned"], [0])
    with pytest.raises(NeedsTable, match="has to learn from other tables: give knowledge"):
        table_metafeatures(small_tables(1)[0], ["learned"], {})


def test_those_of_a_table_are_computed_once(meta, tmp_path):
    _, extractors = with_metafeatures(meta, ["learned"], [0, 1])
    extractor, table = extractors["learned"], small_tables(1, seed=3)[0]
    before = extractor.calls
    first, second = (table_metafeatures(table, ["learned"], extractors)["learned"] for _ in range(2))
    assert extractor.calls == before + 1
    np.testing.assert_array_equal(first, second)
    table_metafeatures(small_tables(1, seed=4)[0], ["learned"], extractors)
    assert extractor.calls == before + 2
    extractor.meta_key = "other"  # what another one made is not taken for its own
    table_metafeatures(table, ["learned"], extractors)
    assert extractor.calls == before + 3
    for file in (tmp_path / "cache" / "metafeatures").iterdir():
        file.write_bytes(b"damaged")
    np.testing.assert_array_equal(table_metafeatures(table, ["learned"], extractors)["learned"], first)


def test_a_cache_that_cannot_be_written_is_no_reason_to_fail(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "file"))
    table = small_tables(1)[0]
    np.testing.assert_array_equal(table_metafeatures(table, ["means"], {})["means"], ColumnMeans().transform(table))
