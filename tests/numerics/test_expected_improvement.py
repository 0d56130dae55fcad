from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from headstart.errors import InvalidInput
from headstart.numerics.expected_improvement import (
    log_expected_improvement,
    log_h,
    log_probability_of_feasibility,
)

WIDE = np.concatenate(
    [-np.logspace(6, -8, 200), [0.0], np.logspace(-8, 3, 150), [-1.0, -6.0, np.nextafter(-1, 0), np.nextafter(-6, 0)]]
)


def test_log_h_agrees_with_high_precision():
    mpmath = pytest.importorskip("mpmath")

    def exact(z):
        with mpmath.workdps(60):
            t = mpmath.mpf(float(z))
            if t > -50:
                mills = mpmath.sqrt(mpmath.pi / 2) * mpmath.exp(t * t / 2) * mpmath.erfc(-t / mpmath.sqrt(2))
                bracket = 1 + t * mills
            else:  # asymptotic series, alternating: the error is below the first term left out
                bracket = mpmath.fsum((-1) ** k * mpmath.fac2(2 * k + 1) / (-t) ** (2 * k + 2) for k in range(20))
            return float(mpmath.log(bracket) - t * t / 2 - mpmath.log(2 * mpmath.pi) / 2)

    expected = np.array([exact(z) for z in WIDE])
    np.testing.assert_allclose(log_h(WIDE), expected, rtol=1e-13, atol=2e-14)


def test_log_h_agrees_with_botorch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from botorch.acquisition.analytic import _log_ei_helper

    z = np.concatenate([-np.logspace(6, -8, 500), [0.0], np.logspace(-8, 3, 300)])
    np.testing.assert_allclose(log_h(z), _log_ei_helper(torch.tensor(z)).numpy(), rtol=1e-6, atol=1e-6)


def test_log_h_is_finite_and_increasing_to_the_end_of_the_range():
    z = np.concatenate([-np.logspace(154, -3, 4000), np.logspace(-3, 300, 4000)])
    values = log_h(z)
    assert np.isfinite(values).all()
    assert (np.diff(values) >= 0).all()
    np.testing.assert_array_equal(log_h([-np.inf, np.inf]), [-np.inf, np.inf])
    assert np.isnan(log_h(np.nan))
    assert log_h(np.zeros((2, 3))).shape == (2, 3)


def test_expected_improvement_equals_its_integral():
    quantiles = (np.arange(2_000_000) + 0.5) / 2_000_000
    samples = norm.ppf(quantiles)
    for mean, std, best in [(1.0, 0.5, 0.8), (0.2, 1.5, 0.7), (3.0, 1.0, 1.0)]:
        integral = np.maximum(0.0, best - (mean + std * samples)).mean()
        assert np.exp(log_expected_improvement(mean, std, best)) == pytest.approx(integral, rel=1e-4)


def test_agrees_with_botorchs_acquisition_function():
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from botorch.acquisition.analytic import LogExpectedImprovement
    from botorch.models.deterministic import GenericDeterministicModel
    from botorch.posteriors import GPyTorchPosterior
    from gpytorch.distributions import MultivariateNormal

    class Predicted(GenericDeterministicModel):
        """Mean and standard deviation are the two inputs."""

        def __init__(self):
            super().__init__(lambda X: X[..., :1])

        def posterior(self, X, *args, **kwargs):
            return GPyTorchPosterior(MultivariateNormal(X[..., 0], torch.diag_embed(X[..., 1] ** 2)))

    rng = np.random.default_rng(0)
    mean, std = 100.0 * rng.normal(size=300), np.exp(rng.uniform(-9, 9, size=300))
    acquisition = LogExpectedImprovement(Predicted(), best_f=-1.5, maximize=False)
    theirs = acquisition(torch.tensor(np.stack([mean, std], axis=-1))[:, None, :])
    np.testing.assert_allclose(log_expected_improvement(mean, std, -1.5), theirs.numpy(), rtol=1e-6, atol=1e-6)


def test_certain_predictions_are_exact():
    mean = np.array([0.0, 1.0, 2.0])
    np.testing.assert_array_equal(log_expected_improvement(mean, 0.0, 1.0), [0.0, -np.inf, -np.inf])
    np.testing.assert_allclose(np.exp(log_expected_improvement(mean, 0.0, 0.75)), [0.75, 0.0, 0.0])


def test_tiny_uncertainty_approaches_the_certain_case():
    for std in (1e-300, 1e-160, 1e-20, 1e-3):
        result = log_expected_improvement([0.0, 1.0, 1.0 + 1e-9], std, 1.0)
        assert result[0] == pytest.approx(0.0, abs=1e-12)
        assert np.isfinite(result[1])
        assert not np.isnan(result).any()
    assert log_expected_improvement(1e-40, 1e-320, 0.0) == -np.inf  # z² overflows


def test_more_to_beat_lowers_the_score_and_uncertainty_raises_it():
    assert log_expected_improvement(1.0, 0.5, 0.9) < log_expected_improvement(1.0, 0.5, 1.0)
    assert log_expected_improvement(1.0, 0.6, 1.0) > log_expected_improvement(1.0, 0.5, 1.0)


def test_undecidable_predictions_stay_undecided():
    assert np.isnan(log_expected_improvement([np.nan, 0.0], [1.0, np.nan], 0.0)).all()
    assert np.isnan(log_probability_of_feasibility([np.nan], [0.0], 0.0)).all()


def test_shapes_broadcast():
    assert log_expected_improvement(np.zeros((5, 1)), np.ones(3), 0.0).shape == (5, 3)
    assert log_probability_of_feasibility(np.zeros(4), 1.0, [[0.0], [1.0]]).shape == (2, 4)


def test_probability_of_feasibility():
    mean, std, limit = np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.5, 2.0]), 1.5
    np.testing.assert_allclose(
        log_probability_of_feasibility(mean, std, limit), norm.logcdf(limit, mean, std), rtol=1e-12
    )
    np.testing.assert_array_equal(log_probability_of_feasibility([1.0, 1.5, 2.0], 0.0, 1.5), [0.0, 0.0, -np.inf])
    far = log_probability_of_feasibility(1e6, 1.0, 0.0)
    assert far == pytest.approx(-5e11, rel=1e-6)


@pytest.mark.parametrize("function", [log_expected_improvement, log_probability_of_feasibility])
def test_negative_std_is_refused(function):
    with pytest.raises(InvalidInput, match=r"std must be at least 0, its smallest value is -1\.0"):
        function([0.0, 0.0], [1.0, -1.0], 0.0)
