"""Meta-features and tables of a folder."""

import gzip

import numpy as np
import pytest

from headstart.errors import InvalidInput
from headstart.metadata import sources
from headstart.metadata.sources.extras import with_extras
from headstart.testing.examples import small_meta

IDS = ("31", "1464", "3", "6", "12", "50")


@pytest.fixture
def meta():
    return small_meta().changed(ids=IDS, about={"ids": "OpenML datasets"}, splits={"train": [0, 1, 2, 3], "test": [4]})


def write(folder, rows):
    (folder / "meta").mkdir()
    lines = [",first,second"] + [f"{i},{a},{b}" for i, a, b in rows]
    (folder / "meta" / "pmf_metafeatures.csv").write_text("\n".join(lines))


def test_what_is_missing_stays_missing(tmp_path, meta):
    write(tmp_path, [(50, 100, 9), (31, 1, 2), (1464, 3, ""), (999, 50, 50), (12, "", 1)])
    found = with_extras(meta, tmp_path)
    nan = np.nan
    expected = [[1, 2], [3, nan], [nan, nan], [nan, nan], [nan, 1], [100, 9]]
    np.testing.assert_array_equal(found.metafeatures["handcrafted"], expected)
    np.testing.assert_array_equal(found.metafeatures["example"], meta.metafeatures["example"])
    assert found.about["metafeatures"] == "handcrafted: known for 4 of 6 tasks"
    assert found.losses is meta.losses


def test_a_folder_about_other_datasets(tmp_path, meta):
    write(tmp_path, [(999, 1, 2)])
    found = with_extras(meta, tmp_path)
    assert list(found.metafeatures) == ["example"]
    assert "metafeatures" not in found.about


def test_tables(tmp_path, meta):
    (tmp_path / "pmf_tables").mkdir()
    for i in (1464, 50, 7):
        with gzip.open(tmp_path / "pmf_tables" / f"{i}.csv.gz", "wt") as stream:
            stream.write("a,__target__\n1,0\n2,1\n3,1\n4,0\n")
    found = with_extras(meta, tmp_path)
    names = [None if table is None else table.path.name for table in found.tables]
    assert names == [None, "1464.csv.gz", None, None, None, "50.csv.gz"]
    assert found.about["tables"] == "known for 2 of 6 tasks"
    assert found.dataset(1).task == "binary"
    assert found.dataset(0) is None


def test_ids_of_other_places_do_not_match_by_chance(tmp_path, meta):
    write(tmp_path, [(int(i), 1, 2) for i in IDS])
    other = meta.changed(about={"ids": "numbers of our own"})
    assert with_extras(other, tmp_path) is other


def test_folders_that_do_not_fit(tmp_path, meta, fake_pip):
    with pytest.raises(InvalidInput, match="data must be a folder"):
        with_extras(meta, tmp_path / "nothing")
    write(tmp_path, [(1, 2, 3), ("1,2", 3, 4)])
    with pytest.raises(InvalidInput, match="must be numbers"):
        with_extras(meta, tmp_path)
    sources.fetch("pmf")
    with pytest.raises(InvalidInput, match="must be numbers"):
        sources.load("pmf", data=tmp_path)
