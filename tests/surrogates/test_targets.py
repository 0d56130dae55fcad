import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from headstart.errors import UnknownName
from headstart.surrogates.targets import checked_reshaping, reshaped

RESHAPINGS = ("as_is", "clipped", "ranked", "logarithmic")
TARGETS = np.array([0.3, 0.1, 0.2, 0.9, 0.5])


@pytest.mark.parametrize("reshaping", RESHAPINGS)
@given(
    values=st.lists(st.floats(-1, 1).map(lambda v: round(v, 3)), min_size=0, max_size=12),
    scale=st.sampled_from([1e-9, 1.0, 1e9]),
)
def test_keeps_the_order_and_the_best(reshaping, values, scale):
    targets = scale * np.array(values, dtype=float)
    result = reshaped(targets, reshaping)
    assert result.shape == targets.shape
    assert np.isfinite(result).all()
    for i, j in np.ndindex(len(values), len(values)):
        if targets[i] < targets[j]:
            assert result[i] <= result[j]
    if len(values):
        assert result.min() == targets.min()
        np.testing.assert_array_equal(result[targets == targets.min()], targets.min())


def test_values():
    np.testing.assert_array_equal(reshaped(TARGETS, "as_is"), TARGETS)
    clipped = reshaped(TARGETS, "clipped")
    np.testing.assert_allclose(clipped, [0.3, 0.1, 0.2, 0.5, 0.5])
    for reshaping, scores in (
        ("ranked", norm.ppf([0.5, 0.1, 0.3, 0.9, 0.7])),
        ("logarithmic", np.log(np.array([0.2, 0.0, 0.1, 0.8, 0.4]) / 0.2 + 0.1)),
    ):
        result = reshaped(TARGETS, reshaping)
        expected = 0.1 + (scores - scores.min()) * clipped.std() / scores.std()
        np.testing.assert_allclose(result, expected)


def test_when_most_are_best_the_others_still_differ():
    targets = np.array([0.1, 0.1, 0.1, 0.1, 0.4])
    for reshaping in RESHAPINGS:
        assert reshaped(targets, reshaping)[-1] > 0.1


def test_unknown_names():
    assert checked_reshaping("ranked") == "ranked"
    with pytest.raises(UnknownName, match="did you mean 'clipped'"):
        checked_reshaping("clip")
