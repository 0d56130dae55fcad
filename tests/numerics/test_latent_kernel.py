"""Covariances of latent points: values against scikit-learn, gradients against finite differences."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from sklearn.gaussian_process.kernels import RBF, Matern

from headstart.errors import UnknownName
from headstart.numerics.latent_kernel import LatentKernel, check_stationary

KINDS = ["squared_exponential", "matern52", "linear"]


def example(kind, seed=0):
    rng = np.random.default_rng(seed)
    points = rng.standard_normal((7, 3))
    points[1] = points[0]  # equal points, where a distance has no derivative
    return points, LatentKernel(kind, 0.5 + rng.random(3), 1.3, 0.2 + rng.random(3))


@pytest.mark.parametrize("kind", KINDS)
def test_values(kind):
    points, kernel = example(kind)
    expected = points @ np.diag(kernel.linear) @ points.T
    if kind == "squared_exponential":
        expected += 1.3 * RBF(kernel.length_scales)(points)
    if kind == "matern52":
        expected += 1.3 * Matern(kernel.length_scales, nu=2.5)(points)
    np.testing.assert_allclose(kernel.matrix(points), expected, atol=1e-7)
    np.testing.assert_allclose(kernel.matrix(points[:2], points), expected[:2], atol=1e-7)
    np.testing.assert_allclose(np.diag(kernel.matrix(points)), np.diag(expected))


@pytest.mark.parametrize("kind", KINDS)
def test_gradients(kind):
    points, kernel = example(kind)
    weights = np.random.default_rng(1).standard_normal((7, 7))
    weights += weights.T

    def loss(vector):
        x, rest = vector[:21].reshape(7, 3), vector[21:]
        return (weights * LatentKernel(kind, np.exp(rest[:3]), np.exp(rest[3]), np.exp(rest[4:])).matrix(x)).sum()

    at = np.concatenate([points.ravel(), np.log(kernel.length_scales), [np.log(1.3)], np.log(kernel.linear)])
    numeric = approx_fprime(at, loss, 1e-6)
    found = kernel.gradient(points, weights)
    analytic = np.concatenate(
        [found.points.ravel(), found.log_length_scales, [found.log_output_scale], found.log_linear]
    )
    np.testing.assert_allclose(analytic, numeric, rtol=1e-4, atol=2e-4)


def test_an_unknown_kernel():
    with pytest.raises(UnknownName, match="did you mean 'matern52'"):
        check_stationary("matern")
