"""The raw tables of a meta-dataset: how they are read, shared and kept."""

import pickle

import numpy as np
import pandas as pd
import pytest

from headstart.data import Dataset
from headstart.errors import HeadstartWarning
from headstart.evaluation.recorded import recorded_task
from headstart.metadata.files import load_meta, save_meta
from headstart.metadata.tables import ArraysFile, InMemory, TableFile
from headstart.testing.examples import small_meta
from headstart.testing.tables import meta_with_tables, small_tables

reads = []


def counted():
    reads.append(1)
    return small_tables(1)[0]


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.random(20), "level": rng.integers(0, 3, 20), "price": rng.random(20)})
    frame.to_csv(tmp_path / "table.csv", index=False)
    np.savez(tmp_path / "arrays.npz", X=frame[["a", "price"]].to_numpy(np.float32), y=frame["level"].to_numpy())
    return tmp_path


def test_each_table_has_its_own_target_and_task(files):
    csv, npz, memory = files / "table.csv", files / "arrays.npz", small_tables(1)[0]
    tables = [TableFile(csv, "level", "classification"), TableFile(csv, "price"), ArraysFile(npz, "classification")]
    meta = small_meta().changed(tables=[*tables, InMemory(memory), None, None])
    assert [meta.dataset(t).task for t in range(3)] == ["multiclass", "regression", "multiclass"]
    assert meta.dataset(1).target == "price"
    np.testing.assert_allclose(meta.dataset(2).X.to_numpy()[:, 1], meta.dataset(0).X["price"], rtol=1e-6)
    np.testing.assert_array_equal(meta.dataset(2).y, meta.dataset(0).y)
    assert meta.dataset(3) is memory
    assert meta.dataset(4) is None


def test_a_table_is_read_when_it_is_asked_for_and_once():
    reads.clear()
    meta = small_meta().changed(tables=[None, counted, *[None] * 4], splits={"train": [1, 2]})
    part = meta.split("train")
    assert recorded_task(part, 0).dataset is None
    assert not reads
    found = recorded_task(part, 0, table=True).dataset
    assert isinstance(found, Dataset)
    assert meta.dataset(1) is found
    assert meta.learning([1]).mapped(np.square).changed(metafeatures={}).dataset(0) is found
    assert len(reads) == 1
    again = pickle.loads(pickle.dumps(meta))  # reads anew: what was read stays behind
    assert again.dataset(1).key == found.key
    assert len(reads) == 2
    assert len(pickle.dumps(meta)) < 20_000


def test_one_that_cannot_be_read_is_told_once(files):
    (files / "text.npz").write_text("nothing")
    np.savez(files / "other.npz", Z=np.zeros(3))
    wrong = [TableFile(files / "none.csv"), ArraysFile(files / "text.npz"), ArraysFile(files / "other.npz")]
    meta = small_meta().changed(tables=[*wrong, *[None] * 3])
    for task, why in enumerate(["none.csv", "", "must hold arrays X and y, it holds Z"]):
        with pytest.warns(HeadstartWarning, match=f"table of task 'task {task}' cannot be read.*{why}"):
            assert meta.dataset(task) is None
        assert meta.dataset(task) is None  # a second warning would be an error


def test_files_are_kept_with_the_meta_dataset(files):
    tables = [TableFile(files / "table.csv", "level"), ArraysFile(files / "arrays.npz"), InMemory(small_tables(1)[0])]
    meta = small_meta().changed(tables=[*tables, None, None, None])
    save_meta(meta, files / "kept")
    back = load_meta(files / "kept")
    assert back.tables == (*tables[:2], *[None] * 4)
    assert back.dataset(0).key == meta.dataset(0).key


def test_the_examples_have_tables_of_many_kinds():
    meta = meta_with_tables()
    found = [meta.dataset(task) for task in range(len(meta))]
    assert {dataset.task for dataset in found} == {"binary", "multiclass", "regression"}
    assert len({dataset.key for dataset in found}) == len(meta)
