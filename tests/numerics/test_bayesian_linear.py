import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from headstart.errors import NumericalError
from headstart.numerics.bayesian_linear import BayesianLinearRegression, likeliest_precisions


@pytest.fixture
def observations():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((40, 5))
    return features, features @ rng.standard_normal(5) + 0.4 * rng.standard_normal(40)


def log_likelihood(features, targets, alpha, beta):
    covariance = features @ features.T / alpha + np.eye(len(targets)) / beta
    return multivariate_normal(np.zeros(len(targets)), covariance).logpdf(targets)


def test_precisions_are_the_likeliest(observations):
    features, targets = observations
    alpha, beta = likeliest_precisions(features, targets)
    search = minimize(lambda logs: -log_likelihood(features, targets, *np.exp(logs)), np.zeros(2), method="Nelder-Mead")
    assert log_likelihood(features, targets, alpha, beta) == pytest.approx(-search.fun, abs=1e-2)
    np.testing.assert_allclose(np.log([alpha, beta]), search.x, atol=0.1)


def test_a_prior_on_their_ratio_pulls(observations):
    features, targets = observations
    free = likeliest_precisions(features, targets)
    pulled = likeliest_precisions(features, targets, prior=(0.0, 0.01))
    assert np.log(free[1] / free[0]) > 1.0
    assert np.log(pulled[1] / pulled[0]) == pytest.approx(0.0, abs=0.1)


def test_tasks_side_by_side_are_tasks_alone(observations):
    features, targets = observations
    padded = np.zeros((2, 40, 5))
    padded[0], padded[1, :12] = features, features[:12]
    both = np.zeros((2, 40))
    both[0], both[1, :12] = targets, targets[:12]
    together = likeliest_precisions(padded, both, np.array([40.0, 12.0]))
    alone = [likeliest_precisions(features, targets), likeliest_precisions(features[:12], targets[:12])]
    np.testing.assert_allclose(np.transpose(together), alone, rtol=1e-8)


def test_the_posterior_is_that_of_the_gaussian_process_with_a_linear_kernel(observations):
    features, targets = observations
    alpha, beta = 0.7, 3.0
    new = np.random.default_rng(1).standard_normal((6, 5))
    mean, std = BayesianLinearRegression.fit(features, targets, (alpha, beta)).posterior(new)
    gram, cross = features @ features.T / alpha + np.eye(40) / beta, new @ features.T / alpha
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(gram, targets), rtol=1e-9)
    variance = np.diag(new @ new.T / alpha - cross @ np.linalg.solve(gram, cross.T))
    np.testing.assert_allclose(std, np.sqrt(variance), rtol=1e-7)


def test_more_features_than_observations_and_none_at_all(observations):
    features, targets = observations
    wide = np.concatenate([features, features**2, np.sin(features)], axis=1)[:4]
    fitted = BayesianLinearRegression.fit(wide, targets[:4])
    assert np.isfinite([fitted.alpha, fitted.beta]).all()
    assert np.isfinite(fitted.posterior(wide)[1]).all()
    mean, std = BayesianLinearRegression.fit(np.zeros((0, 2)), np.zeros(0), (4.0, 1.0)).posterior(np.eye(2))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(std, 0.5)


def test_features_that_are_not_finite_are_an_error():
    with pytest.raises(NumericalError, match="must be finite"):
        BayesianLinearRegression.fit(np.full((3, 2), np.nan), np.ones(3))
