"""Whatever way a table is written as delimited text, it is read back."""

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.data.delimited import MISSING_CELLS, read_delimited
from headstart.data.dialect import find_dialect, find_encoding
from headstart.data.errors import TableError

LETTERS = "abcdefghijklmnopqrstuvwxyzäöüéñß"
WORDS = st.text(LETTERS, min_size=1, max_size=8).filter(lambda w: w not in MISSING_CELLS)
MARKS = st.sampled_from([",", ";", " ", "|", ", ", "; ", ""])


@st.composite
def sentences(draw):
    """Words with separators between them, which only quotes can keep together."""
    words = draw(st.lists(WORDS, min_size=1, max_size=4))
    return draw(MARKS).join(words)


@st.composite
def tables(draw):
    rows = draw(st.integers(6, 25))
    columns = {}
    for i in range(draw(st.integers(1, 4))):
        columns[f"number {i}"] = draw(st.lists(st.integers(-9999, 9999), min_size=rows, max_size=rows))
    for i in range(draw(st.integers(0, 2))):
        columns[f"share_{i}"] = [
            n / 100 for n in draw(st.lists(st.integers(-9999, 9999), min_size=rows, max_size=rows))
        ]
    for i in range(draw(st.integers(1, 2))):
        columns[f"text{i}"] = draw(st.lists(sentences(), min_size=rows, max_size=rows))
    names = draw(st.permutations(list(columns)))
    return pd.DataFrame({name: columns[name] for name in names})


@given(
    table=tables(),
    separator=st.sampled_from([",", ";", "\t", "|"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1", "cp1252"]),
    quote=st.sampled_from(['"', "'"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    line_end=st.sampled_from(["\n", "\r\n"]),
)
@settings(max_examples=150, deadline=None)
def test_round_trip(table, separator, encoding, quote, quoting, line_end):
    text = io.StringIO()
    writer = csv.writer(text, delimiter=separator, quotechar=quote, quoting=quoting, lineterminator=line_end)
    writer.writerow(table.columns)
    writer.writerows(table.astype(object).to_numpy().tolist())
    found = read_delimited(io.BytesIO(text.getvalue().encode(encoding)))
    assert list(found.columns) == list(table.columns)
    for name in table.columns:
        assert found[name].tolist() == table[name].tolist()


@given(
    numbers=st.lists(st.tuples(st.integers(-9999, 9999), st.integers(-9999, 9999)), min_size=3, max_size=30),
    separator=st.sampled_from([";", "\t", "|"]),
)
@settings(max_examples=60, deadline=None)
def test_decimal_commas(numbers, separator):
    lines = ["a" + separator + "b"] + [f"{a / 100:.2f}{separator}{b / 10:.1f}".replace(".", ",") for a, b in numbers]
    found = read_delimited(io.BytesIO("\n".join(lines).encode()))
    assert np.allclose(found.to_numpy(dtype=float), [[a / 100, b / 10] for a, b in numbers])


@given(st.lists(st.lists(st.integers(0, 10**6), min_size=3, max_size=3), min_size=4, max_size=20))
@settings(max_examples=60, deadline=None)
def test_rows_of_numbers_have_no_header(rows):
    counted = [b - a for a, b in zip(rows[0], rows[0][1:], strict=False)] == [1, 1] and rows[0][0] == 0
    text = "\n".join(",".join(map(str, row)) for row in rows)
    dialect = find_dialect(text.encode(), complete=True)
    assert dialect.header is (counted and rows[0] not in rows[1:])


@given(st.binary(min_size=200, max_size=2000))
@settings(max_examples=60, deadline=None)
def test_noise_is_refused_or_read(noise):
    """Never another exception than ours."""
    try:
        read_delimited(io.BytesIO(noise))
    except TableError:
        pass


def test_noise_is_called_binary():
    noise = np.random.default_rng(0).integers(0, 256, 4000, dtype=np.uint8).tobytes()
    with pytest.raises(TableError, match="looks binary"):
        find_encoding(noise, complete=True)
