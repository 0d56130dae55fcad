"""The smallest enclosing ellipsoid: closed forms, optimality conditions, and a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from headstart.baselines.ellipsoid import enclosing_ellipsoid
from headstart.errors import InvalidInput


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_the_corners_of_a_box():
    corners = np.array([[x, y, z] for x in (-1, 3) for y in (0, 1) for z in (2, 2.5)], dtype=float)
    found = enclosing_ellipsoid(corners, tolerance=1e-9)
    half = np.array([2.0, 0.5, 0.25])
    np.testing.assert_allclose(found.center, [1, 0.5, 2.25], atol=1e-6)
    np.testing.assert_allclose(found.shape, np.diag(1 / (3 * half**2)), atol=1e-5)


def test_a_regular_triangle_has_its_circle():
    angles = np.array([0.1, 0.1 + 2 * np.pi / 3, 0.1 + 4 * np.pi / 3])
    found = enclosing_ellipsoid(np.column_stack([np.cos(angles), np.sin(angles)]) * 2 + 5, tolerance=1e-9)
    np.testing.assert_allclose(found.center, [5, 5], atol=1e-6)
    np.testing.assert_allclose(found.shape, np.eye(2) / 4, atol=1e-6)


def test_an_interval():
    found = enclosing_ellipsoid(np.array([[1.0], [2.0], [5.0]]), tolerance=1e-9)
    np.testing.assert_allclose([found.center[0], 1 / np.sqrt(found.shape[0, 0])], [3.0, 2.0], atol=1e-6)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_no_optimiser_finds_a_smaller_one(rng, dimensions):
    points = rng.normal(size=(25, dimensions)) @ rng.normal(size=(dimensions, dimensions))
    found = enclosing_ellipsoid(points, tolerance=1e-8)
    assert found.distance(points).max() <= 1 + 1e-9
    lower = np.tril_indices(dimensions)

    def root(v):
        matrix = np.zeros((dimensions, dimensions))
        matrix[lower] = v[: len(lower[0])]
        return matrix

    # The ellipsoid {x: |Rᵀ x - b| ≤ 1} has volume ∝ 1 / det R.
    def volume(v):
        return -np.log(np.abs(np.diag(root(v)))).sum()

    def slack(v):
        return 1 - (((points @ root(v)) - v[len(lower[0]) :]) ** 2).sum(axis=1)

    start = np.concatenate([(0.8 * np.linalg.cholesky(found.shape))[lower], np.zeros(dimensions)])
    start[len(lower[0]) :] = root(start).T @ found.center
    reference = minimize(volume, start, constraints={"type": "ineq", "fun": slack}, method="SLSQP", tol=1e-12)
    assert reference.success
    assert -0.5 * np.linalg.slogdet(found.shape)[1] == pytest.approx(reference.fun, abs=1e-4)


def test_moves_with_the_points(rng):
    points, map_ = rng.normal(size=(30, 3)), rng.normal(size=(3, 3))
    one, other = enclosing_ellipsoid(points, tolerance=1e-9), enclosing_ellipsoid(points @ map_ + 7, tolerance=1e-9)
    elsewhere = rng.normal(size=(50, 3))
    np.testing.assert_allclose(one.distance(elsewhere), other.distance(elsewhere @ map_ + 7), rtol=1e-4)


def test_holds_all_points_at_a_coarse_tolerance(rng):
    points = rng.random((300, 10))
    assert enclosing_ellipsoid(points, tolerance=0.5).distance(points).max() <= 1 + 1e-9


def test_points_on_a_plane_are_refused(rng):
    flat = np.column_stack([rng.normal(size=(10, 2)), np.ones(10)])
    with pytest.raises(InvalidInput, match="that span them"):
        enclosing_ellipsoid(flat)
    with pytest.raises(InvalidInput, match="got shape"):
        enclosing_ellipsoid(np.ones(3))
