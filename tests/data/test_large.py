"""Large tables: compact types, and Parquet in pieces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headstart.data import Dataset, columnar, compact
from headstart.data.errors import TableError
from headstart.data.folds import stratified_part
from headstart.data.read import read_table


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0.0, 1.0, 127.0], "int8"),
        ([0, -200, 5], "int16"),
        ([0.0, 2.0**24], "float32"),
        ([0, 2**24 + 1], "int32"),
        ([0, 2**40], "int64"),
        ([0.5, 1e20], "float32"),
        ([0.5, 1e200], "float64"),
        ([1.5e9 + 0.25, 1.5e9 + 0.5], "float64"),
        ([np.nan, 2.0**24 + 1], "float64"),
        ([np.nan, np.nan], "float32"),
        ([True, False], "int8"),
    ],
)
def test_the_smallest_type_that_keeps_the_values(values, kind):
    numbers = np.array(values)
    found = compact.compact(numbers)
    assert found.dtype == kind
    np.testing.assert_allclose(found.astype(float), numbers.astype(float), rtol=1e-7)


def mixed(rows: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    truth = pd.array(rng.random(rows) < 0.5, dtype="boolean")
    truth[3] = pd.NA
    words = rng.choice(["red", "green", "blue"], rows).astype(object)
    words[5] = None
    return pd.DataFrame(
        {
            "real": np.where(rng.random(rows) < 0.1, np.nan, rng.normal(size=rows)),
            "whole": rng.integers(0, 50, rows),
            "truth": truth,
            "word": words,
            "answer": rng.choice(["yes", "no"], rows),
            "padded": rng.choice(["007", "010"], rows),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 90, rows), "D"),
            "number": [f"{v:.2f}" for v in rng.normal(size=rows)],
            "row_id": np.arange(rows),
            "y": rng.choice(["a", "b"], rows),
        }
    )


def test_a_large_file_is_read_as_the_same_table_in_fewer_bytes(tmp_path, monkeypatch):
    frame = mixed()
    path = tmp_path / "table.parquet"
    frame.to_parquet(path, row_group_size=100)
    usual = Dataset.from_table(path, "y")
    monkeypatch.setattr(compact, "LARGE_CELLS", 100)
    monkeypatch.setattr(columnar, "PIECE_BYTES", 8 * len(frame) * 3)
    large = Dataset.from_table(path, "y")
    assert large.kinds == usual.kinds
    assert large.schema == usual.schema
    assert large.notes == usual.notes
    assert large.nbytes < usual.nbytes
    assert str(large.X["real"].dtype) == "float32"
    assert str(large.X["whole"].dtype) == str(large.X["answer"].dtype) == "int8"
    np.testing.assert_array_equal(large.y, usual.y)
    for name in usual.X.columns.drop("row_id"):
        ours, theirs = large.X[name], usual.X[name]
        if theirs.dtype.kind == "f":
            np.testing.assert_allclose(ours.astype(float), theirs, rtol=1e-6)
        else:
            pd.testing.assert_series_equal(ours, theirs)
    pd.testing.assert_frame_equal(large.schema.apply(path), usual.schema.apply(frame))


def test_an_index_is_left_out_of_a_large_file(tmp_path, monkeypatch):
    path = tmp_path / "table.parquet"
    mixed().set_index("row_id").to_parquet(path)
    monkeypatch.setattr(compact, "LARGE_CELLS", 100)
    assert "row_id" not in read_table(path).columns


def test_what_cannot_be_held_is_said_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "table.parquet"
    mixed().to_parquet(path)
    monkeypatch.setattr(compact, "LARGE_CELLS", 100)
    monkeypatch.setattr(columnar, "_CELL_BYTES", 10**12)
    with pytest.raises(TableError, match=r"600 rows × 10 columns take about .* a sample of the rows"):
        Dataset.from_table(path, "y")


_PEAK = """
import re, sys
from pathlib import Path
from headstart.data import Dataset
def peak():
    return 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text()).group(1))
Dataset.from_table(sys.argv[2], "y")  # loads what is needed
before = peak()
table = Dataset.from_table(sys.argv[1], "y")
print((peak() - before) / table.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is in /proc")
def test_reading_takes_little_more_memory_than_the_table(tmp_path: Path):
    rng = np.random.default_rng(0)
    rows, columns = 600_000, 40
    frame = pd.DataFrame({f"v{i}": rng.random(rows) for i in range(columns)})
    frame["y"] = rng.integers(0, 2, rows)
    frame.to_parquet(tmp_path / "large.parquet", row_group_size=100_000)
    mixed().to_parquet(tmp_path / "small.parquet")
    program = [sys.executable, "-c", _PEAK, str(tmp_path / "large.parquet"), str(tmp_path / "small.parquet")]
    found = subprocess.run(program, capture_output=True, text=True, check=True)
    # The table itself is 1, in doubles it would be 2, and pieces of 128 MB are more than it here.
    assert 0.9 < float(found.stdout) < 4.5


def test_a_part_has_the_shares_of_the_classes():
    strata = np.repeat([0, 1, 2, 3], [9000, 900, 99, 1])
    part = stratified_part(strata, 1000, np.random.default_rng(0))
    assert np.bincount(strata[part]).tolist() == [900, 90, 10, 1]
    assert (np.diff(part) > 0).all()
