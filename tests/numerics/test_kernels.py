from __future__ import annotations

import numpy as np
import pytest

from headstart.errors import UnknownName
from headstart.numerics.kernels import kernel_diagonal, kernel_matrix, kernel_with_pullback

KERNELS = ["matern52", "squared_exponential", "linear"]


@pytest.fixture(params=KERNELS)
def kernel(request):
    return request.param


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def loop_kernel(kernel, left, right, log_lengths, log_scale):
    """Pair by pair, straight from the textbook."""
    lengths, scale = np.broadcast_to(np.exp(log_lengths), left.shape[1]), np.exp(log_scale)
    result = np.empty((len(left), len(right)))
    for i, x in enumerate(left):
        for j, z in enumerate(right):
            distance = np.sqrt(sum(((a - b) / length) ** 2 for a, b, length in zip(x, z, lengths, strict=True)))
            result[i, j] = (
                scale
                * {
                    "matern52": (1 + np.sqrt(5) * distance + 5 * distance**2 / 3) * np.exp(-np.sqrt(5) * distance),
                    "squared_exponential": np.exp(-(distance**2) / 2),
                    "linear": sum(a * b / length**2 for a, b, length in zip(x, z, lengths, strict=True)),
                }[kernel]
            )
    return result


@pytest.mark.parametrize("shared", [False, True])
def test_matrix_equals_a_loop_over_pairs(kernel, shared, rng):
    left, right = rng.random((6, 3)), rng.random((4, 3))
    log_lengths = rng.normal(size=1 if shared else 3)
    expected = loop_kernel(kernel, left, right, log_lengths, 0.4)
    np.testing.assert_allclose(kernel_matrix(kernel, left, right, log_lengths, 0.4), expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        kernel_with_pullback(kernel, left, right, log_lengths, 0.4)[0], expected, rtol=1e-12, atol=1e-14
    )


def test_matrix_agrees_with_gpytorch(kernel, rng):
    torch = pytest.importorskip("torch")
    gpytorch = pytest.importorskip("gpytorch")
    left, right = rng.random((30, 5)), rng.random((20, 5))
    log_lengths = rng.normal(size=5)
    oracle = {
        "matern52": lambda: gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=5),
        "squared_exponential": lambda: gpytorch.kernels.RBFKernel(ard_num_dims=5),
        "linear": lambda: gpytorch.kernels.LinearKernel(),
    }[kernel]().double()
    scaled = [torch.tensor(left), torch.tensor(right)]
    if kernel == "linear":  # it has no length scales
        scaled = [points / torch.tensor(np.exp(log_lengths)) for points in scaled]
        oracle.variance = 1.0
    else:
        oracle.lengthscale = torch.tensor(np.exp(log_lengths))
    expected = 1.7 * oracle(*scaled).to_dense().detach().numpy()
    ours = kernel_matrix(kernel, left, right, log_lengths, np.log(1.7))
    np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-9)


def test_one_set_of_points_has_exact_diagonal_and_symmetry(kernel, rng):
    points = 1e3 + rng.random((8, 4))
    matrix = kernel_matrix(kernel, points, None, np.zeros(4), 0.3)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12)
    np.testing.assert_allclose(np.diag(matrix), kernel_diagonal(kernel, points, np.zeros(4), 0.3), rtol=1e-12)
    if kernel != "linear":
        np.testing.assert_array_equal(np.diag(matrix), np.exp(0.3))


def test_far_offset_does_not_destroy_distances(rng):
    points = rng.random((8, 4))
    near = kernel_matrix("matern52", points, points[:5], np.zeros(4), 0.0)
    far = kernel_matrix("matern52", points + 1e6, points[:5] + 1e6, np.zeros(4), 0.0)
    np.testing.assert_allclose(far, near, atol=1e-8)


@pytest.mark.parametrize("shared", [False, True])
def test_pullback_equals_differences(kernel, shared, rng, numeric_gradient):
    left, right = rng.random((5, 3)), rng.random((4, 3))
    right[0] = left[0]  # a pair at distance 0
    log_lengths, log_scale = rng.normal(size=1 if shared else 3) * 0.3, np.array(0.4)
    upstream = rng.normal(size=(5, 4))

    def scalar(a, b, lengths, scale):
        return float((upstream * kernel_matrix(kernel, a, b, lengths, scale)).sum())

    gradient = kernel_with_pullback(kernel, left, right, log_lengths, log_scale)[1](upstream)
    close = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(
        gradient.log_length_scales, numeric_gradient(lambda v: scalar(left, right, v, log_scale), log_lengths), **close
    )
    np.testing.assert_allclose(
        gradient.log_output_scale, numeric_gradient(lambda v: scalar(left, right, log_lengths, v), log_scale), **close
    )
    np.testing.assert_allclose(
        gradient.left, numeric_gradient(lambda v: scalar(v, right, log_lengths, log_scale), left), **close
    )
    np.testing.assert_allclose(
        gradient.right, numeric_gradient(lambda v: scalar(left, v, log_lengths, log_scale), right), **close
    )


def test_pullback_of_one_set_of_points_with_duplicates(kernel, rng, numeric_gradient):
    points = rng.random((5, 3))
    points[3] = points[1]
    upstream = rng.normal(size=(5, 5))  # not symmetric: nothing may rely on that
    gradient = kernel_with_pullback(kernel, points, None, np.zeros(3), 0.0)[1](upstream)
    expected = numeric_gradient(
        lambda v: float((upstream * kernel_matrix(kernel, v, None, np.zeros(3), 0.0)).sum()), points
    )
    np.testing.assert_allclose(gradient.left, expected, rtol=1e-6, atol=1e-7)
    assert gradient.right is None


def test_batched_equals_loop_and_shared_hyperparameters_sum(kernel, rng):
    points, upstream = rng.random((3, 5, 2)), rng.normal(size=(3, 5, 5))
    own_lengths, own_scales = rng.normal(size=(3, 2)), rng.normal(size=3)
    matrix, pullback = kernel_with_pullback(kernel, points, None, own_lengths, own_scales)
    gradient = pullback(upstream)
    shared = kernel_with_pullback(kernel, points, None, own_lengths[0], own_scales[0])[1](upstream)
    lengths_sum, scale_sum = np.zeros(2), 0.0
    for task in range(3):
        one, one_pullback = kernel_with_pullback(kernel, points[task], None, own_lengths[task], own_scales[task])
        one_gradient = one_pullback(upstream[task])
        np.testing.assert_allclose(matrix[task], one, rtol=1e-12)
        np.testing.assert_allclose(gradient.log_length_scales[task], one_gradient.log_length_scales, rtol=1e-10)
        np.testing.assert_allclose(gradient.log_output_scale[task], one_gradient.log_output_scale, rtol=1e-10)
        np.testing.assert_allclose(gradient.left[task], one_gradient.left, rtol=1e-10, atol=1e-13)
        with_shared = kernel_with_pullback(kernel, points[task], None, own_lengths[0], own_scales[0])[1](upstream[task])
        lengths_sum += with_shared.log_length_scales
        scale_sum += with_shared.log_output_scale
    np.testing.assert_allclose(shared.log_length_scales, lengths_sum, rtol=1e-10)
    np.testing.assert_allclose(shared.log_output_scale, scale_sum, rtol=1e-10)


def test_no_points_and_no_dimensions():
    assert kernel_matrix("matern52", np.zeros((0, 2)), None, np.zeros(2), 0.0).shape == (0, 0)
    assert kernel_matrix("matern52", np.ones((3, 2)), np.zeros((0, 2)), np.zeros(2), 0.0).shape == (3, 0)
    np.testing.assert_array_equal(kernel_matrix("matern52", np.zeros((2, 0)), None, np.zeros(0), 0.0), np.ones((2, 2)))


def test_unknown_kernel_is_named():
    with pytest.raises(UnknownName, match="did you mean 'matern52'"):
        kernel_matrix("matern5", np.zeros((1, 1)), None, [0.0], 0.0)
