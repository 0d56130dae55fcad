"""The Tucker decomposition: against sums written out, the matrix case, and the truth where cells are missing."""

import numpy as np
import pytest

from headstart.baselines.tensor_oboe import complete_tucker, multiply, unfold
from headstart.errors import InvalidInput


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def tucker_tensor(rng, sizes, ranks, noise=0.0):
    tensor = rng.normal(size=ranks)
    for mode, (size, rank) in enumerate(zip(sizes, ranks, strict=True)):
        basis = np.linalg.qr(rng.normal(size=(size, rank)))[0]
        tensor = np.moveaxis(np.tensordot(basis, tensor, axes=(1, mode)), 0, mode)
    return tensor + noise * rng.normal(size=sizes)


def test_multiply_is_the_sum_it_says(rng):
    tensor, a, c = rng.normal(size=(3, 4, 5)), rng.normal(size=(3, 2)), rng.normal(size=(5, 6))
    np.testing.assert_allclose(multiply(tensor, [a, None, c]), np.einsum("ijk,ix,kz->xjz", tensor, a, c))


def test_unfold():
    tensor = np.arange(24).reshape(2, 3, 4)
    assert unfold(tensor, 1).shape == (3, 8)
    np.testing.assert_array_equal(unfold(tensor, 1)[2], tensor[:, 2, :].ravel())


def test_full_ranks_give_the_tensor_back(rng):
    tensor = rng.normal(size=(4, 3, 5))
    found = complete_tucker(tensor, (4, 3, 5))
    np.testing.assert_allclose(found.tensor(), tensor, atol=1e-5)
    for factor in found.factors:
        np.testing.assert_allclose(factor.T @ factor, np.eye(factor.shape[1]), atol=1e-5)


def test_a_matrix_is_the_truncated_svd(rng):
    matrix = rng.normal(size=(8, 12))
    u, s, vt = np.linalg.svd(matrix)
    np.testing.assert_allclose(
        complete_tucker(matrix, (3, 3), iterations=50, tolerance=0.0).tensor(), (u[:, :3] * s[:3]) @ vt[:3], atol=1e-5
    )


def test_iteration_is_no_worse_than_the_higher_order_svd(rng):
    tensor = tucker_tensor(rng, (10, 8, 6), (3, 3, 3), noise=0.3)
    ranks = (2, 2, 2)
    bases = [np.linalg.svd(unfold(tensor, mode))[0][:, :2] for mode in range(3)]
    projections = [b @ b.T for b in bases]
    by_hosvd = np.einsum("ijk,ia,jb,kc->abc", tensor, *projections)
    found = complete_tucker(tensor, ranks, iterations=30, tolerance=0.0).tensor()
    assert np.square(found - tensor).sum() <= np.square(by_hosvd - tensor).sum() + 1e-6


def test_missing_cells_are_found(rng):
    truth = 10 * tucker_tensor(rng, (20, 6, 9), (3, 2, 3))
    tensor = np.where(rng.random(truth.shape) < 0.25, np.nan, truth)
    found = complete_tucker(tensor, (3, 2, 3), iterations=300, tolerance=0.0).tensor()
    missing = np.isnan(tensor)
    assert np.abs(found - truth)[missing].mean() < 0.02 * np.abs(truth)[missing].mean()


def test_item_factors_make_the_unfolded_tensor(rng):
    tensor = tucker_tensor(rng, (7, 4, 5), (2, 3, 2), noise=0.1)
    found = complete_tucker(tensor, (2, 3, 2))
    np.testing.assert_allclose(found.factors[0] @ found.item_factors(), unfold(found.tensor(), 0), atol=1e-10)


def test_ranks_larger_than_what_there_is(rng):
    assert complete_tucker(rng.normal(size=(3, 2, 2)), (9, 9, 9)).core.shape == (3, 2, 2)


def test_every_mode_needs_a_rank(rng):
    with pytest.raises(InvalidInput, match="each of the 3 modes"):
        complete_tucker(rng.normal(size=(3, 2, 2)), (2, 2))
