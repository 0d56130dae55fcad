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
    within = loop_kernel(kernel, left, left, log_lengths, 0.4)
    found = kernel_with_pullback(kernel, left, log_lengths, 0.4)[0]
    np.testing.assert_allclose(found, within, rtol=1e-12, atol=1e-14)


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
    points = rng.random((5, 3))
    points[3] = points[1]  # a pair at distance 0
    log_lengths, log_scale = rng.normal(size=1 if shared else 3) * 0.3, np.array(0.4)
    upstream = rng.normal(size=(5, 5))  # not symmetric: nothing may rely on that

    def scalar(at, lengths, scale):
        return float((upstream * kernel_matrix(kernel, at, None, lengths, scale)).sum())

    pullback = kernel_with_pullback(kernel, points, log_lengths, log_scale)[1]
    gradient = pullback(upstream)
    close = {"rtol": 1e-6, "atol": 1e-7}
    np.testing.assert_allclose(
        gradient.log_length_scales, numeric_gradient(lambda v: scalar(points, v, log_scale), log_lengths), **close
    )
    np.testing.assert_allclose(
        gradient.log_output_scale, numeric_gradient(lambda v: scalar(points, log_lengths, v), log_scale), **close
    )
    np.testing.assert_allclose(
        gradient.points, numeric_gradient(lambda v: scalar(v, log_lengths, log_scale), points), **close
    )
    assert pullback(upstream, by_points=False).points is None


def test_no_points_and_no_dimensions():
    assert kernel_matrix("matern52", np.zeros((0, 2)), None, np.zeros(2), 0.0).shape == (0, 0)
    assert kernel_matrix("matern52", np.ones((3, 2)), np.zeros((0, 2)), np.zeros(2), 0.0).shape == (3, 0)
    np.testing.assert_array_equal(kernel_matrix("matern52", np.zeros((2, 0)), None, np.zeros(0), 0.0), np.ones((2, 2)))


def test_unknown_kernel_is_named():
    with pytest.raises(UnknownName, match="did you mean 'matern52'"):
        kernel_matrix("matern5", np.zeros((1, 1)), None, [0.0], 0.0)
