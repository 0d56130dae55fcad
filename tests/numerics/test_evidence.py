"""The evidence that a search evaluates, against the general one, which has oracles of its own."""

import numpy as np
import pytest

from headstart.numerics.marginal_likelihood import Evidence, log_marginal_likelihood


@pytest.mark.parametrize("kernel", ["matern52", "squared_exponential"])
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("size", [1, 2, 30])
def test_equals_the_general_one(kernel, ard, size):
    rng = np.random.default_rng(3)
    inputs, targets = 5.0 + rng.random((size, 4)), rng.standard_normal(size)
    inputs[size // 2 :, 1] = inputs[0, 1]
    evidence = Evidence(kernel, inputs, targets)
    for _ in range(3):  # the memory is used again, what was in it must not matter
        vector = np.concatenate([rng.standard_normal(4 if ard else 1), rng.standard_normal(2)])
        value, gradient = evidence(vector)
        expected = log_marginal_likelihood(kernel, inputs, targets, vector[:-2], vector[-2], vector[-1])
        assert value == pytest.approx(float(expected.value), rel=1e-10)
        np.testing.assert_allclose(
            gradient,
            [*expected.by_log_length_scales, expected.by_log_output_scale, expected.by_log_noise],
            rtol=1e-8,
            atol=1e-10,
        )


def test_survives_a_matrix_that_needs_jitter():
    inputs = np.repeat([[0.1, 0.2], [0.7, 0.3]], 5, axis=0)
    value, gradient = Evidence("matern52", inputs, np.arange(10.0))(np.array([0.0, 0.0, 0.0, -40.0]))
    assert np.isfinite(value)
    assert np.isfinite(gradient).all()
