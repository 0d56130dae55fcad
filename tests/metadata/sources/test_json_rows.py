"""JSON by rows reads what `json` reads."""

import io
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.metadata.sources import json_rows
from headstart.metadata.sources.json_rows import read_rows

numbers = st.one_of(st.integers(-(10**9), 10**9), st.floats(allow_infinity=False))
tables = st.lists(st.lists(numbers, max_size=5), max_size=5)
texts = st.text(max_size=8)
others = st.one_of(texts, st.lists(st.one_of(texts, numbers), max_size=4), st.dictionaries(texts, tables, max_size=3))
contents = st.dictionaries(st.sampled_from(["b", "c", "d"]), others).flatmap(
    lambda rest: st.tuples(st.just(rest), tables, st.permutations(["a", *rest]))
)


def read(text, rows=("a",)):
    found = []
    rest = read_rows(io.BytesIO(text.encode("ascii")), rows, lambda name, row: found.append((name, row)))
    return found, rest


@settings(max_examples=150, deadline=None)
@given(contents, st.integers(1, 40), st.sampled_from([None, 1]), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_the_same_as_json(content, chunk, indent, separators):
    rest, table, order = content
    whole = {name: table if name == "a" else rest[name] for name in order}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_rows, "_CHUNK", chunk)
        found, others = read(json.dumps(whole, indent=indent, separators=separators))
    assert all(name == "a" for name, _ in found)
    assert len(found) == len(table)
    for (_, row), expected in zip(found, table, strict=True):
        np.testing.assert_array_equal(row, expected)
    assert repr(others) == repr({name: rest[name] for name in order if name != "a"})


@pytest.mark.parametrize("chunk", [3, 1000])
def test_a_text_that_is_cut_off_anywhere(monkeypatch, chunk):
    monkeypatch.setattr(json_rows, "_CHUNK", chunk)
    text = '{"b": ["x", 1], "a": [[1, 2.5], [NaN, -3e5]], "c": {"d": []}}'
    assert read(text) == (
        [("a", [1, 2.5]), ("a", pytest.approx([np.nan, -3e5], nan_ok=True))],
        {"b": ["x", 1], "c": {"d": []}},
    )
    for length in range(len(text)):
        with pytest.raises(ValueError):
            read(text[:length])


@pytest.mark.parametrize("text", ["[]", '{"a": 3}', '{"a": [1]}', '{"b": 3}', '{"a" [[1]]}', '{"a": [[1}'])
def test_other_things_are_refused(text):
    with pytest.raises(ValueError):
        read(text)


def test_progress_counts_all_bytes():
    text = '{"a": [[1], [2]], "b": []}'
    counted = []
    read_rows(io.BytesIO(text.encode()), ["a"], lambda *_: None, counted.append)
    assert sum(counted) == len(text)
