"""Intrinsic dimension and metric scaling."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.manifold import smacof

from headstart.errors import InvalidInput
from headstart.methods.metabu.geometry import dimension_stability, intrinsic_dimension, scaling


def on_a_torus(n, dimensions, seed):
    """Distances of points that lie uniformly in a space without a border, where the estimate has no bias from one."""
    points = np.random.default_rng(seed).random((n, dimensions))
    apart = np.abs(points[:, None] - points)
    return np.sqrt((np.minimum(apart, 1 - apart) ** 2).sum(axis=2))


@pytest.mark.parametrize("dimensions", [2, 5, 10])
def test_dimension_of_points_in_known_dimensions(dimensions):
    n, draws = 400, 6
    distances = [on_a_torus(n, dimensions, seed) for seed in range(draws)]
    found = [intrinsic_dimension(apart) for apart in distances]
    error = dimensions / np.sqrt(n)
    assert abs(np.mean(found) - dimensions) < 3 * error
    assert np.std(found) < 3 * error
    squared = [intrinsic_dimension(apart**2) for apart in distances]
    np.testing.assert_allclose(squared, np.array(found) / 2)  # what Algorithm 6 as printed gives


def test_dimension_of_points_that_lie_in_fewer_dimensions_than_they_have():
    flat = np.random.default_rng(0).random((400, 2))
    bent = np.column_stack([flat, np.sin(3 * flat[:, 0]), flat[:, 0] * flat[:, 1]])
    assert intrinsic_dimension(cdist(bent, bent)) == pytest.approx(2, abs=0.4)


def test_points_at_the_same_place_count_once():
    distances = on_a_torus(50, 3, 0)
    twice = np.tile(np.arange(50), 2)
    assert intrinsic_dimension(distances[np.ix_(twice, twice)]) == intrinsic_dimension(distances)


def test_too_few_points_are_an_error():
    with pytest.raises(InvalidInput, match="at least 4 points"):
        intrinsic_dimension(np.ones((3, 3)) - np.eye(3))


def test_stability_of_parts():
    distances = on_a_torus(100, 4, 3)
    half, whole = dimension_stability(distances, (0.5, 1.0), draws=30)
    assert (half.points, whole.points) == (50, 100)
    assert whole.mean == intrinsic_dimension(distances)
    assert whole.deviation == 0.0
    assert 0.2 < half.deviation < 2.0
    assert half.mean == pytest.approx(4, abs=1.2)
    assert dimension_stability(distances, (0.5, 1.0), draws=30)[0] == half


def test_scaling_of_exact_distances_gives_them_back():
    points = np.random.default_rng(2).standard_normal((30, 4))
    distances = cdist(points, points)
    found = scaling(distances, 4)
    np.testing.assert_allclose(cdist(found, found), distances, atol=1e-6)
    covariance = found.T @ found  # along the principal axes, the longest first
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-6)
    assert (np.diff(np.diag(covariance)) <= 0).all()


def test_scaling_fits_no_worse_than_scikit_learn_from_many_starts():
    points = np.random.default_rng(3).standard_normal((25, 6))
    distances = cdist(points, points, "cityblock")
    found = scaling(distances, 2)
    own = ((cdist(found, found) - distances) ** 2).sum() / 2
    _, theirs = smacof(distances, n_components=2, n_init=8, random_state=0, normalized_stress=False, eps=1e-9)
    assert own < 1.05 * theirs


def test_more_dimensions_than_points_have_are_zero():
    distances = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    found = scaling(distances, 5)
    assert found.shape == (3, 5)
    np.testing.assert_allclose(cdist(found, found), distances, atol=1e-6)
