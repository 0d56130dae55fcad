from __future__ import annotations

import math

import numpy as np
import pytest

from headstart.numerics.hyperparameters import LogNormal, dimension_scaled_prior


def test_log_density_agrees_with_scipy():
    from scipy.stats import lognorm

    log_values = np.linspace(-8, 8, 33)
    expected = lognorm(s=0.7, scale=math.exp(-1.5)).logpdf(np.exp(log_values))
    np.testing.assert_allclose(LogNormal(-1.5, 0.7).log_density(log_values), expected, rtol=1e-10)


def test_mode_is_the_likeliest_value():
    prior = LogNormal(1.2, 0.8)
    values = np.linspace(0.2, 6, 100_000)
    likeliest = values[np.argmax(prior.log_density(np.log(values)))]
    assert prior.mode == pytest.approx(likeliest, abs=1e-4)


def test_gradient_equals_differences(numeric_gradient):
    prior = dimension_scaled_prior(4)
    at = np.array([0.3, -1.0, 2.0, 0.5, -0.2, -5.0])
    value, gradient = prior.log_density(at)
    assert value == pytest.approx(
        sum(float(prior.length_scale.log_density(v)) for v in at[:4])
        + float(prior.output_scale.log_density(at[4]))
        + float(prior.noise.log_density(at[5]))
    )
    np.testing.assert_allclose(gradient, numeric_gradient(lambda v: prior.log_density(v)[0], at), rtol=1e-7)


@pytest.mark.parametrize("dimensions", [1, 17, 300])
def test_length_scale_and_noise_priors_are_botorchs(dimensions):
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from botorch.models.utils.gpytorch_modules import (
        get_covar_module_with_dim_scaled_prior,
        get_gaussian_likelihood_with_lognormal_prior,
    )

    ours = dimension_scaled_prior(dimensions)
    values = torch.tensor([0.01, 0.5, 3.0, 40.0], dtype=torch.float64)
    theirs = get_covar_module_with_dim_scaled_prior(ard_num_dims=dimensions).lengthscale_prior
    np.testing.assert_allclose(
        ours.length_scale.log_density(values.log().numpy()), theirs.log_prob(values).numpy(), rtol=1e-6
    )
    theirs = get_gaussian_likelihood_with_lognormal_prior().noise_covar.noise_prior
    np.testing.assert_allclose(ours.noise.log_density(values.log().numpy()), theirs.log_prob(values).numpy(), rtol=1e-6)
