"""Reading tables: every format, and every way in which a source can be wrong."""

import bz2
import gzip
import json
import lzma
import os
import sys
import zipfile

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import sparse

from headstart.data import TableError, read_table
from headstart.errors import MissingDependency


@pytest.fixture
def frame():
    return pd.DataFrame(
        {
            "size": [1.5, np.nan, 3.25],
            "count": [1, 2, 3],
            "city": ["Zürich", "a, b", None],
            "note": ['says "no"', "two\nlines", "plain"],
        }
    )


def same(found, expected):
    pd.testing.assert_frame_equal(found, expected, check_dtype=False, check_column_type=False)


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"])
def test_delimited_text(tmp_path, frame, separator, encoding):
    path = tmp_path / "table.csv"
    frame.to_csv(path, sep=separator, encoding=encoding, index=False)
    same(read_table(path), frame)


def test_blanks_as_separator(tmp_path):
    path = tmp_path / "table.dat"
    path.write_text("  a     b  c\n 1.0  2.5  x\n10.0 -3.5  'y z'\n")
    assert read_table(str(path)).to_dict("list") == {"a": [1.0, 10.0], "b": [2.5, -3.5], "c": ["x", "y z"]}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name;price\nx;3,14\ny;1.024,5\n", {"name": ["x", "y"], "price": ["3,14", "1.024,5"]}),
        ("name;price\nx;3,14\ny;10,5\n", {"name": ["x", "y"], "price": [3.14, 10.5]}),
        ('a,b\n1,"3,14"\n2,"2,5"\n', {"a": [1, 2], "b": [3.14, 2.5]}),
        ("5.1,3.5,a\n4.9,3.0,b\n", {"x0": [5.1, 4.9], "x1": [3.5, 3.0], "x2": ["a", "b"]}),
        ("red,round\ngreen,flat\nred,flat\n", {"x0": ["red", "green", "red"], "x1": ["round", "flat", "flat"]}),
        ("colour,shape\nred,round\ngreen,flat\n", {"colour": ["red", "green"], "shape": ["round", "flat"]}),
        ("0,1,2,label\n5,3,1,a\n4,3,1,b\n", {"0": [5, 4], "1": [3, 3], "2": [1, 1], "label": ["a", "b"]}),
        ("sep=|\na|b\n1|2\n", {"a": [1], "b": [2]}),
        ("a,b,\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
        ("a,b\n1,2,\n3,4,\n", {"a": [1, 3], "b": [2, 4]}),
        ('"a" "b"\n"1" 5 "x y"\n"2" 6 "z"\n', {"row_name": [1, 2], "a": [5, 6], "b": ["x y", "z"]}),
        ("sentence\nhello big world\nbye now\n", {"sentence": ["hello big world", "bye now"]}),
        ("a,b\n'x, y',2\n'z',4\n", {"a": ["x, y", "z"], "b": [2, 4]}),
        ('a,b\n"x \\"q\\", y",2\n"z",4\n', {"a": ['x "q", y', "z"], "b": [2, 4]}),
        ("a, b\n1, None\n2, x\n", {"a": [1, 2], "b": ["None", "x"]}),
    ],
)
def test_what_is_found_out(tmp_path, text, expected):
    path = tmp_path / "table.csv"
    path.write_text(text)
    assert read_table(path).to_dict("list") == expected


def test_missing_cells(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,?\nNA,x\n,NaN\n")
    assert read_table(path).isna().to_numpy().tolist() == [[False, True], [True, False], [True, True]]


def test_a_later_byte_that_is_no_utf8(tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(b"a,b\n" + b"1,word\n" * 60_000 + "2,caf\u00e9\n".encode("latin-1"))
    assert read_table(path)["b"].iloc[-1] == "café"


def test_a_dialect_that_is_known(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("1;2\n3;4\n")
    assert list(read_table(path, dialect={"header": True}).columns) == ["1", "2"]
    with pytest.raises(TableError, match="'seperator' is not part of a dialect; did you mean 'separator'"):
        read_table(path, dialect={"seperator": ";"})


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zip"])
def test_compressed(tmp_path, frame, suffix):
    content = frame.to_csv(index=False).encode()
    path = tmp_path / f"table.csv{suffix}"
    if suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("inner.csv", content)
    else:
        path.write_bytes({".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix].compress(content))
    same(read_table(path), frame)


def test_parquet_and_feather_keep_types(tmp_path):
    frame = pd.DataFrame(
        {
            "c": pd.Categorical(["x", None, "y"]),
            "d": pd.to_datetime(["2020-01-01", None, "2021-05-05"]),
            "b": [True] * 3,
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_feather(tmp_path / "t.feather")
    for name in ("t.parquet", "t.feather"):
        pd.testing.assert_frame_equal(read_table(tmp_path / name), frame, check_column_type=False)


def test_arrow_gets_nothing_of_python_to_let_go_of(tmp_path, monkeypatch):
    # its threads do so when Python has ended, which aborts the process (apache/arrow issue 34314)
    pd.DataFrame({"a": [1, 2]}).to_parquet(tmp_path / "t.parquet")
    read, sources = pd.read_parquet, []
    monkeypatch.setattr(pd, "read_parquet", lambda source: (sources.append(source), read(source))[1])
    assert list(read_table(tmp_path / "t.parquet")["a"]) == [1, 2]
    (source,) = sources
    assert isinstance(source, pa.NativeFile)
    assert not isinstance(source, pa.PythonFile)


def test_arff(tmp_path):
    path = tmp_path / "t.arff"
    path.write_text(
        "% a comment\n@RELATION 'my table'\n@ATTRIBUTE size NUMERIC\n"
        "@attribute 'the city' {Rome, 'New York', \"it\\'s\"}\n"
        "@attribute words string\n@attribute day date 'yyyy-MM-dd'\n@attribute n integer\n\n@DATA\n"
        "1.5, Rome, 'a, \\'quoted\\' text', 2020-01-31, 3\n% another\n?,'New York',?,?,4\n"
        "2,'it\\'s',plain,2021-02-01,?\n"
    )
    table = read_table(path)
    assert list(table.columns) == ["size", "the city", "words", "day", "n"]
    assert table["the city"].cat.categories.tolist() == ["Rome", "New York", "it's"]
    assert table["the city"].tolist() == ["Rome", "New York", "it's"]
    assert table["words"].iloc[0] == "a, 'quoted' text"
    assert table["words"].isna().tolist() == [False, True, False]
    assert table["day"].iloc[0] == pd.Timestamp("2020-01-31")
    assert table["size"].isna().tolist() == [False, True, False]


def test_sparse_arff(tmp_path):
    path = tmp_path / "t.arff"
    path.write_text(
        "@relation r\n@attribute a real\n@attribute b {no, yes}\n@attribute c real\n@data\n{0 2.5, 1 yes}\n{}\n{2 ?}\n"
    )
    table = read_table(path)
    assert table["a"].tolist() == [2.5, 0.0, 0.0]
    assert table["b"].tolist() == ["yes", "no", "no"]
    assert np.isnan(table["c"].iloc[2])


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("@attribute a real\n@data\n1\nx", "'a' is declared a number, found 'x'"),
        ("@attribute a {u,v}\n@data\nw", "declared values, found 'w'"),
        ("@attribute a real\n@attribute b real\n@data\n1,2,3", "must have 2 values, line 4 has 3"),
        ("@attribute a relational\n@data\n1", "found 'relational'"),
        ("@attribute a real\n1,2", "line 2 of an ARFF header"),
        ("@attribute a real", "must have a line @data"),
        ("@attribute a string\n@data\n'open", "quote that is not closed"),
        ("@attribute a real\n@data\n{4 1}", "positions below 1"),
    ],
)
def test_wrong_arff(tmp_path, lines, message):
    path = tmp_path / "t.arff"
    path.write_text(lines)
    with pytest.raises(TableError, match=message):
        read_table(path)


@pytest.mark.parametrize("name", ["t.jsonl", "t.json"])
def test_json(tmp_path, name):
    records = [{"a": 1, "b": "x"}, {"a": 2.5, "c": True}, {"b": None}]
    path = tmp_path / name
    path.write_text("\n".join(map(json.dumps, records)) if name == "t.jsonl" else json.dumps(records))
    table = read_table(path)
    assert list(table.columns) == ["a", "b", "c"]
    assert table["a"].tolist()[:2] == [1.0, 2.5]
    assert table.isna().sum().tolist() == [1, 2, 2]


def test_json_by_column(tmp_path):
    (tmp_path / "t.json").write_text('{"a": [1, 2], "b": ["x", "y"]}')
    assert read_table(tmp_path / "t.json").to_dict("list") == {"a": [1, 2], "b": ["x", "y"]}
    (tmp_path / "t.json").write_text('{"a": [1, 2], "b": ["x"]}')
    with pytest.raises(TableError, match="columns of equal length"):
        read_table(tmp_path / "t.json")


def test_wrong_json_names_the_line(tmp_path):
    (tmp_path / "t.jsonl").write_text('{"a": 1}\n{"a": 2\n')
    with pytest.raises(TableError, match="line 2 must contain one JSON record"):
        read_table(tmp_path / "t.jsonl")


def test_excel(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as writer:
        pd.DataFrame({"a": [1, 2], "d": pd.to_datetime(["2020-01-01", "2020-01-02"])}).to_excel(
            writer, sheet_name="one", index=False
        )
        pd.DataFrame({"b": ["x"]}).to_excel(writer, sheet_name="two", index=False)
    assert read_table(path)["a"].tolist() == [1, 2]
    assert read_table(path)["d"].iloc[1] == pd.Timestamp("2020-01-02")
    assert read_table(path, sheet="two").to_dict("list") == {"b": ["x"]}
    with pytest.raises(TableError, match="sheet 'three' not found; sheets are one, two"):
        read_table(path, sheet="three")
    (tmp_path / "no.xlsx").write_bytes(b"not a workbook")
    with pytest.raises(TableError, match="must be an Excel workbook"):
        read_table(tmp_path / "no.xlsx")
    monkeypatch.setattr("headstart.data.read.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"headstart\[excel\]"):
        read_table(path)


def test_repeated_names_in_a_workbook(tmp_path):
    pytest.importorskip("openpyxl")
    pd.DataFrame([["a", "a"], [1, 2]]).to_excel(tmp_path / "t.xlsx", header=False, index=False)
    with pytest.raises(TableError, match="column names must be unique, found 'a'"):
        read_table(tmp_path / "t.xlsx")


def test_objects(frame):
    same(read_table(frame.set_index("count", drop=False)), frame)
    assert list(read_table(pd.Series([1, 2])).columns) == ["x0"]
    assert list(read_table(np.zeros((2, 3))).columns) == ["x0", "x1", "x2"]
    assert read_table(np.array([1, 2])).shape == (2, 1)
    structured = np.array([(1, "a"), (2, "b")], dtype=[("n", int), ("t", "U1")])
    assert read_table(structured).to_dict("list") == {"n": [1, 2], "t": ["a", "b"]}
    assert read_table([{"a": 1}, {"a": 2}]).to_dict("list") == {"a": [1, 2]}
    assert read_table([[1, "x"], [2, "y"]]).to_dict("list") == {"x0": [1, 2], "x1": ["x", "y"]}
    assert read_table({"a": [1, 2], "b": ("x", "y")}).to_dict("list") == {"a": [1, 2], "b": ["x", "y"]}
    matrix = sparse.random(5, 3, 0.5, random_state=0)
    assert np.allclose(read_table(matrix).to_numpy(), matrix.toarray())
    objects = read_table(np.array([[1, "x"], [2, None]], dtype=object))
    assert objects["x0"].dtype.kind == "i"


def test_polars():
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"a": [1, None], "b": ["x", "y"]})
    assert read_table(table)["b"].tolist() == ["x", "y"]
    assert read_table(table.lazy()).isna().sum().tolist() == [1, 0]
    assert read_table(table["a"]).columns.tolist() == ["a"]


def test_column_names_become_strings():
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    assert list(read_table(frame).columns) == ["a_x", "a_y"]
    with pytest.raises(TableError, match="column names must be unique, found '1'"):
        read_table(pd.DataFrame([[1, 2]], columns=[1, "1"]))


def written(path, content):
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "but is empty"),
        ("t.csv", b" \n\n", "but is empty"),
        ("t.csv", bytes(range(256)) * 8, "looks binary"),
        ("t.csv", b"a,b\n" + bytes(range(1, 9)) * 20, "looks binary"),
        ("t.csv", b"PK\x03\x04rest", "found a zip archive or an Excel workbook"),
        ("t.csv", b"a,b\n1,2\n3,4,5\n6\n", r"columns, 2; row 2 has 3, row 3 has 1 \(separator ','"),
        ("t.csv", b"a,b\n1,2\n3\n4,5\n", "row 2 has 1"),
        ("t.csv", b"a,b,a\n1,2,3\n", "column names must be unique, found 'a' more than once"),
        ("t.csv", b"a,b\n", "at least one row, found none below the 2 column names"),
        ("t.xyz", b"a,b\n1,2\n", "the suffix must tell the kind of file, found .xyz in 't.xyz'; known are .csv"),
        ("t", b"a,b\n1,2\n", "the suffix must tell the kind of file, found none"),
        ("t.xls", b"abc", "old format .xls"),
        ("t.pkl", b"\x80\x04.", "the suffix must tell the kind of file, found .pkl"),
        ("t.parquet", b"PAR1 nonsense", "must be a Parquet file"),
        ("t.feather", b"ARROW1 nonsense", "must be a Feather file"),
        ("t.csv.gz", b"no gzip", "damaged or truncated"),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n" * 1000, mtime=0)[:40], "damaged or truncated"),
        ("t.csv.xz", b"no xz", "damaged or truncated"),
        ("t.csv.zip", b"no zip", "damaged or truncated"),
        ("t.json", b"[]", "at least one row"),
        ("t.json", b"3", "at least one row, found int"),
    ],
)
def test_wrong_files(tmp_path, name, content, message):
    path = written(tmp_path / name, content)
    with pytest.raises(TableError, match=message) as caught:
        read_table(path)
    assert str(path) in str(caught.value)


def test_wrong_paths(tmp_path):
    with pytest.raises(TableError, match=r"source must be a file, .* is a directory"):
        read_table(tmp_path)
    (tmp_path / "table.tsv").write_text("a\tb\n1\t2\n")
    with pytest.raises(TableError, match=r"table.csv not found; did you mean table.tsv\?"):
        read_table(tmp_path / "table.csv")
    with pytest.raises(TableError, match="not found"):
        read_table(str(tmp_path / "nowhere" / "t.csv"))
    with pytest.raises(TableError, match="download it first"):
        read_table("https://example.org/t.csv")
    with pytest.raises(TableError):
        read_table("a\0b.csv")
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1")
        archive.writestr("b.csv", "a\n1")
    with pytest.raises(TableError, match="must contain one file, found 2"):
        read_table(tmp_path / "two.zip")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read(tmp_path):
    path = written(tmp_path / "t.csv", b"a\n1\n")
    path.chmod(0)
    with pytest.raises(TableError, match="must be readable; change its permissions"):
        read_table(path)


def test_permission_message(tmp_path, monkeypatch):
    path = written(tmp_path / "t.csv", b"a\n1\n")

    def refuse(*args, **kwargs):
        raise PermissionError

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(TableError, match="must be readable; change its permissions"):
        read_table(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (3, "source must be a path, .* got int"),
        (None, "got NoneType"),
        ([], "at least one row"),
        ([{"a": 1}, [2]], "either records or rows"),
        ([[1, 2], [3]], "same number of values"),
        (np.zeros((2, 2, 2)), "found 3 dimensions"),
        (np.zeros((2, 2), dtype=complex), "real numbers"),
        (pd.DataFrame({"a": []}), "at least one row"),
        (pd.DataFrame(index=[0, 1]), "at least one column"),
    ],
)
def test_wrong_objects(source, message):
    with pytest.raises(TableError, match=message):
        read_table(source)


def test_a_workbook_needs_a_package(tmp_path, monkeypatch):
    monkeypatch.setattr("headstart.data.read.find_spec", lambda name: None)
    with pytest.raises(MissingDependency, match=r"headstart\[excel\]"):
        read_table(written(tmp_path / "t.xlsx", b"PK"))


def test_reading_runs_nothing(tmp_path):
    """A pickle under any name is refused, never loaded."""
    import pickle

    class Trap:
        def __reduce__(self):
            return (sys.exit, (3,))

    for suffix in ("csv", "parquet", "feather", "json", "xlsx", "arff", "pkl"):
        with pytest.raises(TableError):
            read_table(written(tmp_path / f"t.{suffix}", pickle.dumps(Trap())))
