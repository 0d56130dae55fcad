"""Low-rank factors: against SciPy and scikit-learn on complete data, against the truth where cells are missing."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD

from headstart.errors import InvalidInput
from headstart.numerics.low_rank import complete, fill_by_means, truncated_svd


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def low_rank_matrix(rng, m, n, rank, noise=0.0):
    return rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n)) + noise * rng.normal(size=(m, n))


@pytest.mark.parametrize("shape", [(12, 40), (40, 12), (15, 15)])
def test_factors_of_a_complete_matrix(rng, shape):
    matrix = rng.normal(size=shape)
    u, s, vt = np.linalg.svd(matrix, full_matrices=False)
    found = truncated_svd(matrix, 4)
    np.testing.assert_allclose(found.values, s[:4], rtol=1e-9)
    np.testing.assert_allclose(found.matrix(), (u[:, :4] * s[:4]) @ vt[:4], atol=1e-8)
    np.testing.assert_allclose(found.left.T @ found.left, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(found.right @ found.right.T, np.eye(4), atol=1e-9)


def test_agrees_with_scikit_learn_in_single_precision(rng):
    matrix = low_rank_matrix(rng, 30, 3000, 5, noise=0.1).astype(np.float32)
    reference = TruncatedSVD(5, algorithm="arpack").fit(matrix.astype(np.float64))
    found = complete(matrix, 5)
    np.testing.assert_allclose(found.values, reference.singular_values_, rtol=1e-5)
    np.testing.assert_allclose(found.right.T @ found.right, reference.components_.T @ reference.components_, atol=1e-4)


def test_the_sign_of_factors_does_not_depend_on_the_order_of_columns(rng):
    matrix = rng.normal(size=(8, 50))
    order = rng.permutation(50)
    one, other = truncated_svd(matrix, 3), truncated_svd(matrix[:, order], 3)
    np.testing.assert_allclose(one.right[:, order], other.right, atol=1e-9)


def test_a_matrix_of_lower_rank_gives_fewer_factors(rng):
    assert len(truncated_svd(low_rank_matrix(rng, 10, 30, 2), 6).values) == 2


def test_missing_cells_of_a_low_rank_matrix_are_found(rng):
    truth = low_rank_matrix(rng, 40, 300, 3)
    matrix = np.where(rng.random(truth.shape) < 0.3, np.nan, truth)
    missing = np.isnan(matrix)
    by_means = fill_by_means(matrix)
    found = complete(matrix, 3, iterations=200, tolerance=1e-6)
    error = np.abs(found.matrix() - truth)[missing].mean()
    assert error < 0.02 * np.abs(by_means - truth)[missing].mean()


def test_more_rounds_come_closer(rng):
    truth = low_rank_matrix(rng, 40, 200, 4, noise=0.1)
    matrix = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    errors = [
        np.square(complete(matrix, 4, iterations=n, tolerance=0.0).matrix() - truth)[np.isnan(matrix)].mean()
        for n in (0, 2, 20)
    ]
    assert errors[2] < errors[1] < errors[0]


def test_means_are_those_of_an_additive_table(rng):
    rows, columns = rng.normal(size=(20, 1)), rng.normal(size=(1, 400))
    truth = rows + columns
    matrix = np.where(rng.random(truth.shape) < 0.2, np.nan, truth)
    filled = fill_by_means(matrix)
    assert np.abs(filled - truth).mean() < 0.02
    np.testing.assert_array_equal(filled[~np.isnan(matrix)], truth[~np.isnan(matrix)].astype(np.float32))


def test_rows_and_columns_without_a_cell_are_filled():
    matrix = np.arange(12.0).reshape(3, 4)
    matrix[1, :] = np.nan
    matrix[:, 2] = np.nan
    assert np.isfinite(fill_by_means(matrix)).all()
    assert np.isfinite(complete(matrix, 2).matrix()).all()


def test_nothing_to_learn_from_is_said():
    with pytest.raises(InvalidInput, match="without a single cell"):
        fill_by_means(np.full((2, 2), np.nan))
    with pytest.raises(InvalidInput, match="rank must be at least 1"):
        complete(np.ones((2, 2)), 0)


def test_the_input_stays_as_it_is(rng):
    matrix = np.where(rng.random((6, 20)) < 0.3, np.nan, rng.normal(size=(6, 20)))
    before = matrix.copy()
    complete(matrix, 2)
    np.testing.assert_array_equal(matrix, before)
