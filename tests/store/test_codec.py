import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headstart.errors import InvalidInput
from headstart.store.codec import decode, encode

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters())
keys = st.text(st.characters()) | st.sampled_from(["$", "$$", "$float", "$$float"])
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))


@given(values)
def test_any_json_value_comes_back_equal_from_strict_ascii_json(value):
    text = encode(value, "value")
    assert text.isascii()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert decode(text) == value


@given(st.floats())
def test_floats_keep_every_bit(number):
    back = decode(encode([number], "value"))[0]
    if math.isnan(number):
        assert math.isnan(back)
    else:
        assert struct.pack("d", back) == struct.pack("d", number)


def test_numpy_scalars_become_python_numbers():
    back = decode(encode({"i": np.int64(3), "f": np.float64(0.1), "h": np.float32(0.5), "b": np.bool_(True)}, "value"))
    assert back == {"i": 3, "f": 0.1, "h": 0.5, "b": True}
    assert {type(item) for item in back.values()} == {int, float, bool}


def test_what_is_not_json_is_named_with_its_place():
    with pytest.raises(InvalidInput, match=r"origin\['theta'\]\[1\] must be JSON.*ndarray.*tolist"):
        encode({"theta": [1, np.zeros(2)]}, "origin")
    with pytest.raises(InvalidInput, match="keys are strings, got the key 3"):
        encode({3: 1}, "origin")
