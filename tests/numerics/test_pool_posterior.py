"""The posterior over a pool, against a direct computation."""

import numpy as np
import pytest

from headstart.numerics.pool_posterior import PoolPosterior


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((80, 3))
    covariance = np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=2))
    return covariance, 0.01 + 0.1 * rng.random(80), rng.standard_normal((80, 2))


def posterior(problem):
    covariance, noise, _ = problem
    return PoolPosterior(lambda i: covariance[i], np.diag(covariance).copy(), noise)


@pytest.mark.parametrize("n", [0, 1, 20, 40])
def test_agrees_with_a_direct_computation(problem, n):
    covariance, noise, values = problem
    seen = np.random.default_rng(1).permutation(80)[:n]
    model = posterior(problem)
    model.observe(seen.tolist())
    gain = np.linalg.solve(covariance[np.ix_(seen, seen)] + np.diag(noise[seen]), covariance[seen]).T
    np.testing.assert_allclose(
        model.spread(np.linalg.solve(model.lower, values[seen])).T, gain @ values[seen], atol=1e-9
    )
    np.testing.assert_allclose(model.variance, np.diag(covariance - gain @ covariance[seen]), atol=1e-9)
    np.testing.assert_allclose(model.lower @ model.lower.T, covariance[np.ix_(seen, seen)] + np.diag(noise[seen]))


def test_how_it_came_to_what_is_observed_makes_no_difference(problem):
    seen = np.random.default_rng(2).permutation(80)[:30].tolist()
    once, by_turns = posterior(problem), posterior(problem)
    once.observe(seen)
    for step in (seen[:7], seen[:20], [*seen[:12], 79, 78], seen):
        by_turns.observe(step)
    np.testing.assert_array_equal(once.variance, by_turns.variance)
    np.testing.assert_array_equal(once.rows, by_turns.rows)


def test_the_same_point_twice(problem):
    covariance, noise, _ = problem
    model = posterior(problem)
    model.observe([3, 3])
    variance = covariance[3, 3] * (noise[3] / 2) / (covariance[3, 3] + noise[3] / 2)
    assert model.variance[3] == pytest.approx(variance)
