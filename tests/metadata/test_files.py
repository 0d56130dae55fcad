"""Meta-datasets as directories: nothing changes on the way, and nothing broken is left or read."""

import errno
import json
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.errors import InvalidInput, MetaDataError
from headstart.metadata import MetaDataset
from headstart.metadata.files import VERSION, load_meta, read_header, save_meta
from headstart.metadata.metadataset import NOT_TRIED
from headstart.metadata.tables import TableFile
from headstart.space import Algorithm, Encoded, Float, PipelineSpace, Stage
from headstart.testing.examples import small_meta


def full_meta():
    """One of everything that a meta-dataset can hold."""
    meta = small_meta()
    rng = np.random.default_rng(1)
    observed = np.isfinite(meta.losses)
    return meta.changed(
        seconds=np.where(observed, rng.random(meta.losses.shape), np.nan),
        constraints={
            name: np.where(observed, rng.random(meta.losses.shape), np.nan) for name in ("size", 'gap("a/b")')
        },
        statuses=np.where(observed, 0, NOT_TRIED).astype(np.uint8),
        initial=[(100, 103), (), *[(101,)] * 4],
        splits={"train": [0, 1, 2], "validation": [3], "test": [5, 4]},
        name="everything",
        ids=[str(i) for i in range(6)],
        tables=[TableFile(Path("/tables/0.csv"), "y"), *[None] * 5],
        about={"licence": "none", "paper": "Öztürk"},
        metafeatures={**meta.metafeatures, "a/b c": rng.random((6, 1)).astype(np.float32).astype(float)},
    )


def assert_same(one, other):
    assert one.pipelines.space == other.pipelines.space
    for name in ("ids", "values", "active", "choice", "order"):
        np.testing.assert_array_equal(getattr(one.pipelines, name), getattr(other.pipelines, name))
    for name in ("losses", "seconds", "statuses"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("metafeatures", "constraints"):
        assert getattr(one, name).keys() == getattr(other, name).keys()
    for name, matrix in one.constraints.items():
        np.testing.assert_array_equal(matrix, other.constraints[name])
    for name, vectors in one.metafeatures.items():
        np.testing.assert_array_equal(vectors, other.metafeatures[name])
    assert {k: v.tolist() for k, v in one.splits.items()} == {k: v.tolist() for k, v in other.splits.items()}
    for name in ("tasks", "ids", "initial", "tables", "about", "name", "key"):
        assert getattr(one, name) == getattr(other, name), name


def test_all_of_it_comes_back(tmp_path):
    meta = full_meta()
    assert save_meta(meta, tmp_path / "deep" / "meta") == tmp_path / "deep" / "meta"
    assert_same(meta, load_meta(tmp_path / "deep" / "meta"))
    assert [p.name for p in (tmp_path / "deep").iterdir()] == ["meta"]


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="counts threads as Linux shows them")
def test_reading_starts_no_thread(tmp_path):
    # one of Arrow that lets go of Python's bytes when Python has ended aborts the process (apache/arrow issue 34314)
    save_meta(small_meta(), tmp_path / "m")
    code = f"""
        import os
        import numpy, pyarrow.parquet, scipy.linalg
        from headstart.metadata.files import load_meta
        before = len(os.listdir("/proc/self/task"))
        load_meta({str(tmp_path / "m")!r})
        print(len(os.listdir("/proc/self/task")) - before)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_a_selection_is_saved_as_what_it_is(tmp_path):
    part = full_meta().split("test")
    save_meta(part, tmp_path / "part")
    assert_same(part, load_meta(tmp_path / "part"))


def test_free_order_and_pipelines_nobody_tried(tmp_path):
    steps = [Stage(name, [Algorithm("a", params=[Float("x", 0, 1)]), Algorithm("b")]) for name in ("one", "two", "end")]
    space = PipelineSpace("free", steps, free_order=True)
    drawn = space.sample(np.random.default_rng(0), 20).unique()
    recorded = Encoded(space, drawn.values, drawn.active, drawn.choice, drawn.order, np.arange(len(drawn)))
    meta = MetaDataset(recorded, np.full((2, len(drawn)), np.nan), ["a", "b"])
    save_meta(meta, tmp_path / "free")
    assert_same(meta, load_meta(tmp_path / "free"))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.floats(width=32, allow_nan=True),
            st.floats(allow_nan=True),
            st.sampled_from([0.1, 1e300, -1e-300, np.inf, 2.0**-149]),
        ),
        min_size=4,
        max_size=4,
    )
)
def test_numbers_keep_every_bit_in_as_few_as_they_need(tmp_path_factory, numbers):
    space = PipelineSpace("one", [Stage("end", [Algorithm("a"), Algorithm("b")])])
    nothing = np.zeros((2, 0))
    pipelines = Encoded(space, nothing, nothing.astype(bool), np.array([[0], [1]]), ids=np.arange(2))
    losses = np.array(numbers).reshape(2, 2)
    place = save_meta(MetaDataset(pipelines, losses, ["a", "b"]), tmp_path_factory.mktemp("bits") / "meta")
    loaded = load_meta(place)
    np.testing.assert_array_equal(loaded.losses.astype(np.float64), losses)
    with np.errstate(over="ignore"):
        fits = np.array_equal(losses.astype(np.float32).astype(np.float64), losses, equal_nan=True)
    assert loaded.losses.dtype == (np.float32 if fits else np.float64)


def test_an_older_one_is_replaced(tmp_path):
    save_meta(full_meta(), tmp_path / "meta")
    save_meta(small_meta(3), tmp_path / "meta")
    assert_same(small_meta(3), load_meta(tmp_path / "meta"))
    assert sorted(p.name for p in (tmp_path / "meta").iterdir()) == [
        "losses.parquet",
        "meta.json",
        "metafeatures_0.parquet",
        "pipelines.parquet",
    ]
    assert [p.name for p in tmp_path.iterdir()] == ["meta"]


def test_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.txt").write_text("years of work")
    with pytest.raises(InvalidInput, match="holds something else"):
        save_meta(small_meta(), tmp_path / "thesis")
    with pytest.raises(InvalidInput, match="is a file"):
        save_meta(small_meta(), tmp_path / "thesis" / "chapter.txt")
    assert (tmp_path / "thesis" / "chapter.txt").read_text() == "years of work"
    (tmp_path / "empty").mkdir()
    save_meta(small_meta(), tmp_path / "empty")
    assert_same(small_meta(), load_meta(tmp_path / "empty"))


def test_several_at_once(tmp_path):
    metas = [small_meta(n) for n in (2, 3, 4, 5)]
    with ThreadPoolExecutor(4) as pool:
        for _ in pool.map(lambda i: save_meta(metas[i % 4], tmp_path / "meta"), range(40)):
            pass
    assert load_meta(tmp_path / "meta").key in [meta.key for meta in metas]
    assert [p.name for p in tmp_path.iterdir()] == ["meta"]


def test_remains_of_a_crash_are_cleared(tmp_path):
    old, new = tmp_path / ".meta.0.tmp", tmp_path / ".meta.1.tmp"
    for place, age in ((old, 7200), (new, 5)):
        place.mkdir()
        stamp = place.stat().st_mtime - age
        os.utime(place, (stamp, stamp))
    save_meta(small_meta(), tmp_path / "meta")
    assert not old.exists()
    assert new.exists()  # another process may be writing it


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_a_full_disk_leaves_what_was_there(tmp_path, monkeypatch, calls):
    save_meta(small_meta(3), tmp_path / "meta")
    written, count = pq.write_table, iter(range(100))

    def full(table, stream, **options):
        if next(count) == calls:
            stream.write(b"PAR1 half")
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(table, stream, **options)

    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(MetaDataError, match=r"cannot be written to .*meta: No space left on device"):
        save_meta(full_meta(), tmp_path / "meta")
    assert [p.name for p in tmp_path.iterdir()] == ["meta"]
    assert_same(small_meta(3), load_meta(tmp_path / "meta"))


def test_files_that_may_not_grow_further(tmp_path):
    """The same with a limit that the system keeps, in a process of its own."""
    program = """
        import resource, sys
        import numpy as np
        from headstart.errors import MetaDataError
        from headstart.metadata.files import save_meta
        from headstart.testing.examples import small_meta
        meta = small_meta(40, 20)
        meta = meta.changed(losses=np.random.default_rng(0).random((40, 20)))
        resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
        try:
            save_meta(meta, sys.argv[1])
        except MetaDataError as error:
            print(error)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "meta")], capture_output=True, text=True
    )
    assert "File too large" in ran.stdout, ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_to(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MetaDataError, match="cannot be written"):
        save_meta(small_meta(), tmp_path / "file" / "meta")


# -- damage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    return save_meta(full_meta(), tmp_path / "meta")


FILES = ("losses", "seconds", "statuses", "pipelines", "metafeatures_0", "metafeatures_1")


@pytest.mark.parametrize("name", FILES)
def test_a_damaged_file_is_named(saved, name):
    file = saved / f"{name}.parquet"
    content = file.read_bytes()
    for changed in (content[:-10], b"", content + b"x", content[:50] + bytes([content[50] ^ 1]) + content[51:]):
        file.write_bytes(changed)
        with pytest.raises(MetaDataError, match=rf"damaged, {name}.parquet is not what was written; make it again"):
            load_meta(saved)
    file.unlink()
    with pytest.raises(MetaDataError, match=f"{name}.parquet is missing"):
        load_meta(saved)


def change(place, **fields):
    header = json.loads((place / "meta.json").read_text())
    (place / "meta.json").write_text(json.dumps({**header, **fields}))


def test_a_later_version_is_refused(saved):
    change(saved, version=VERSION + 1)
    with pytest.raises(MetaDataError, match="update Headstart"):
        load_meta(saved)


@pytest.mark.parametrize("name", ["tasks", "ids", "splits", "initial", "about", "space", "files", "name", "tables"])
def test_a_header_without_a_part(saved, name):
    header = json.loads((saved / "meta.json").read_text())
    (saved / "meta.json").write_text(json.dumps({k: v for k, v in header.items() if k != name}))
    with pytest.raises(MetaDataError, match=f"no proper {name}"):
        load_meta(saved)


@pytest.mark.parametrize(
    "fields",
    [
        {"tasks": ["a"]},
        {"initial": [[7]] * 6},
        {"splits": {"train": [9]}},
        {"splits": {"train": ["x"]}},
        {"metafeatures": []},
        {"metafeatures": ["a", "b", "c"]},
        {"space": {}},
        {"files": {"pipelines.parquet": 3}},
        {"files": {}},
        {"tables": [3] * 6},
    ],
)
def test_a_header_that_does_not_fit(saved, fields):
    if fields == {"metafeatures": []}:
        change(saved, **fields)
        assert load_meta(saved).metafeatures == {}  # files that nobody names are not looked at
        return
    change(saved, **fields)
    with pytest.raises(MetaDataError, match="damaged"):
        load_meta(saved)


def test_what_is_no_meta_dataset(tmp_path):
    with pytest.raises(InvalidInput, match="is not there"):
        load_meta(tmp_path / "nothing")
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match="is a file"):
        load_meta(tmp_path / "file")
    with pytest.raises(InvalidInput, match=r"there is no meta\.json"):
        load_meta(tmp_path)
    header = tmp_path / "meta.json"
    for foreign in ("[]", "3", '{"format": "other"}', "null"):
        header.write_text(foreign)
        with pytest.raises(InvalidInput, match="something else"):
            read_header(tmp_path)
    for broken in ("", "{", "\x00", '{"format": "headstart-meta"'):
        header.write_text(broken)
        with pytest.raises(MetaDataError, match="not JSON"):
            read_header(tmp_path)
    header.write_bytes(b"\xff\xfe")
    with pytest.raises(MetaDataError, match="not JSON"):
        read_header(tmp_path)
