import numpy as np
import pytest
from scipy.linalg import solve_triangular
from scipy.stats import multivariate_normal

from headstart.numerics.affine_mixture import LevelMixture, Levels


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((9, 5))
    kernel, noise = factor @ factor.T, rng.uniform(0.1, 0.5, 9)
    means = rng.standard_normal(9)
    targets = 3.0 + 2.0 * rng.standard_normal(6)
    return kernel, noise, means, targets


def whitened(problem):
    kernel, noise, means, targets = problem
    lower = np.linalg.cholesky(kernel[:6, :6] + np.diag(noise[:6]))
    values = np.stack([targets, np.ones(6), means[:6]], axis=1)
    white = solve_triangular(lower, values, lower=True)
    rows = solve_triangular(lower, kernel[:6, 6:], lower=True)
    return white, white.T @ rows, np.diag(kernel)[6:] - (rows**2).sum(axis=0)


def brute_force(problem, known):
    """Weights, means and second moments at the points that were not observed, from joint normal distributions."""
    kernel, noise, means, targets = problem
    evidence, found = [], []
    for scale in known.scales:
        for level in known.levels:
            mean = known.offset_mean + scale * means
            function = scale**2 * level * kernel + known.offset_std**2
            covariance = function[:6, :6] + scale**2 * level * np.diag(noise[:6])
            evidence.append(multivariate_normal(mean[:6], covariance).logpdf(targets))
            gain = np.linalg.solve(covariance, function[:6, 6:]).T
            at = mean[6:] + gain @ (targets - mean[:6])
            spread = np.diag(function[6:, 6:] - gain @ function[:6, 6:])
            found.append((at, spread, scale**2 * level * noise[6:]))
    weights = np.exp(np.array(evidence) - max(evidence))
    weights[weights < 1e-3] = 0.0
    weights /= weights.sum()
    mean = sum(w * at for w, (at, _, _) in zip(weights, found, strict=True))
    moments = []
    for noisy in (0.0, 1.0):
        square = sum(w * (at**2 + s + noisy * own) for w, (at, s, own) in zip(weights, found, strict=True))
        moments.append(np.sqrt(square - mean**2))
    return weights, mean, moments


@pytest.mark.parametrize("offset_std", [0.0, 0.7, 30.0])
@pytest.mark.parametrize("levels", [[1.0], [0.3, 1.0, 2.5]])
def test_it_is_the_mixture_of_joint_normal_distributions(problem, offset_std, levels):
    known = Levels(1.5, offset_std, np.array([0.6, 1.7, 4.0]), np.array(levels))
    white, spread, variance = whitened(problem)
    mixture = LevelMixture.of(white, known)
    weights, mean, (std, noisy_std) = brute_force(problem, known)
    np.testing.assert_allclose([part.weight for part in mixture.parts], weights[weights > 0])
    assert mixture.likeliest.weight == pytest.approx(weights.max())
    means, noise = problem[2][6:], problem[1][6:]
    for variances, expected in ((variance, std), (variance + noise, noisy_std)):
        found = mixture.moments(spread, means, variances)
        np.testing.assert_allclose(found[0], mean)
        np.testing.assert_allclose(found[1], expected)


def test_without_doubt_it_is_the_process_on_standardised_targets(problem):
    kernel, noise, means, targets = problem
    shift, scale = targets.mean(), targets.std()
    white, spread, variance = whitened(problem)
    mean, std = LevelMixture.of(white, Levels.known(shift, scale)).moments(spread, means[6:], variance)
    gain = np.linalg.solve(kernel[:6, :6] + np.diag(noise[:6]), kernel[:6, 6:]).T
    standardised = means[6:] + gain @ ((targets - shift) / scale - means[:6])
    np.testing.assert_allclose(mean, shift + scale * standardised)
    np.testing.assert_allclose(std, scale * np.sqrt(variance))


def test_nothing_observed_gives_the_prior():
    known = Levels(2.0, 0.5, np.array([1.0, 3.0]), np.ones(1))
    mixture = LevelMixture.of(np.zeros((0, 3)), known)
    assert [part.weight for part in mixture.parts] == [0.5, 0.5]
    mean, std = mixture.moments(np.zeros((3, 2)), np.array([0.0, 1.0]), np.array([1.0, 2.0]))
    np.testing.assert_allclose(mean, [2.0, 4.0])
    np.testing.assert_allclose(std**2, [0.25 + 5.0, 0.25 + 10.0 + 1.0])


def test_far_from_zero_no_digits_are_lost(problem):
    kernel, noise, means, targets = problem
    known = Levels(1.0, 2.0, np.array([1.0, 2.0]), np.ones(1))
    far = Levels(1.0 + 1e6, 2.0, np.array([1.0, 2.0]), np.ones(1))
    white, spread, variance = whitened(problem)
    moved_white, moved_spread, _ = whitened((kernel, noise, means, targets + 1e6))
    mean, std = LevelMixture.of(white, known).moments(spread, means[6:], variance)
    moved, moved_std = LevelMixture.of(moved_white, far).moments(moved_spread, means[6:], variance)
    np.testing.assert_allclose(moved - 1e6, mean, atol=1e-7)
    np.testing.assert_allclose(moved_std, std, rtol=1e-6)


def test_a_few_targets_out_of_all_proportion_count_as_the_worst_of_the_others():
    known = Levels(1.0, 0.5, np.array([0.5, 1.0]), np.ones(1))
    targets = np.array([0.2, 1.1, 3.0, 1e6])
    assert known.highest(targets) == 3.0
    assert known.highest(targets[:3]) == 3.0
    assert known.highest(1e6 * targets) == np.inf  # another unit
    assert known.highest(targets[2:]) == np.inf  # one of two does not tell which is usual
    assert known.highest(np.zeros(0)) == np.inf


def test_what_is_usual_is_told_by_other_tasks():
    offsets, scales = np.array([0.1, 0.5, 0.9]), np.array([0.2, 0.1, 0.0])
    found = Levels.usual(offsets, scales)
    assert found.offset_mean == pytest.approx(0.5)
    assert found.offset_std == pytest.approx(offsets.std())
    assert 1e-4 <= found.scales.min() < 0.02  # a task without any spread does not make the scale 0
    assert found.scales.max() == pytest.approx(np.quantile([0.2, 0.1, 1e-4], 8.5 / 9))
    assert (np.diff(found.scales) > 0).all()
    close = Levels.usual(np.array([0.5, 0.5]), np.array([0.3, 0.3]))
    assert (close.offset_std, close.scales.tolist()) == (pytest.approx(0.3), [pytest.approx(0.3)])
