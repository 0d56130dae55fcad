from __future__ import annotations

import numpy as np
import pytest

from headstart.errors import NumericalError
from headstart.numerics.cholesky import JITTERS, extend_cholesky, jittered_cholesky


def covariance(size, seed=0):
    factor = np.random.default_rng(seed).normal(size=(size, size))
    return factor @ factor.T + np.eye(size)


def test_needs_no_jitter_when_positive_definite():
    matrix = covariance(6)
    before = matrix.copy()
    np.testing.assert_allclose(jittered_cholesky(matrix), np.linalg.cholesky(matrix), rtol=1e-12)
    np.testing.assert_array_equal(matrix, before)


def test_singular_matrix_gets_the_least_jitter_that_helps():
    singular = 5.0 * np.ones((4, 4))
    lower = jittered_cholesky(singular)
    added = np.diag(lower @ lower.T - singular) / 5.0
    assert added.max() > 0
    assert added.max() <= 1e-11
    assert np.isfinite(lower).all()


def test_jitter_is_relative_to_the_scale():
    for scale in (1e-12, 1e12):
        lower = jittered_cholesky(scale * np.ones((4, 4)))
        np.testing.assert_allclose(lower @ lower.T / scale, np.ones((4, 4)), atol=1e-9)


def test_indefinite_within_the_largest_jitter_passes_and_beyond_raises():
    def with_smallest_eigenvalue(value):
        basis = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
        return basis @ np.diag([value, 1.0, 1.0, 1.0]) @ basis.T

    assert jittered_cholesky(with_smallest_eigenvalue(-0.3 * JITTERS[-1])).shape == (4, 4)
    with pytest.raises(NumericalError, match=r"positive definite.*eigenvalue -0.01.*more noise"):
        jittered_cholesky(with_smallest_eigenvalue(-0.01))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite_raises(bad):
    matrix = covariance(3)
    matrix[2, 0] = matrix[0, 2] = bad
    with pytest.raises(NumericalError, match="must be finite"):
        jittered_cholesky(matrix)


def test_batch_equals_loop_also_when_one_needs_jitter():
    batch = np.stack([covariance(3, 1), np.ones((3, 3)), covariance(3, 2)])
    factors = jittered_cholesky(batch)
    for matrix, factor in zip(batch, factors, strict=True):
        np.testing.assert_allclose(factor, jittered_cholesky(matrix), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("new", [1, 3])
@pytest.mark.parametrize("old", [0, 5])
def test_extension_equals_factorising_anew(old, new):
    matrix = covariance(old + new)
    grown = extend_cholesky(jittered_cholesky(matrix[:old, :old]), matrix[old:, :old], matrix[old:, old:])
    np.testing.assert_allclose(grown, np.linalg.cholesky(matrix), rtol=1e-10)


def test_extension_by_a_duplicate_without_noise_uses_jitter():
    matrix = covariance(3)
    grown = extend_cholesky(jittered_cholesky(matrix), matrix[2:], matrix[2:, 2:])
    assert np.isfinite(grown).all()
    assert grown[3, 3] > 0
    np.testing.assert_allclose((grown @ grown.T)[3, 3], matrix[2, 2], rtol=1e-6)
