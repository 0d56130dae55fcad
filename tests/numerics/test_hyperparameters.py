from __future__ import annotations

import numpy as np
import pytest

from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import (
    Hyperparameters,
    default_hyperparameters,
    dimension_scaled_prior,
    search_hyperparameters,
    spread_over_ranks,
)
from headstart.numerics.kernels import kernel_matrix
from headstart.numerics.marginal_likelihood import log_marginal_likelihood


@pytest.fixture(scope="module")
def drawn():
    """Targets drawn from a Gaussian process with known hyper-parameters."""
    rng = np.random.default_rng(11)
    inputs = rng.random((200, 2))
    covariance = kernel_matrix("matern52", inputs, None, np.log([0.2, 0.6]), 0.0) + 0.01 * np.eye(200)
    targets = np.linalg.cholesky(covariance) @ rng.normal(size=200)
    return inputs, (targets - targets.mean()) / targets.std()


def posterior_density(inputs, targets, found, prior):
    vector = np.log([*found.length_scales, found.output_scale, found.noise])
    value = float(log_marginal_likelihood("matern52", inputs, targets, vector[:-2], vector[-2], vector[-1]).value)
    return value + (prior.log_density(vector)[0] if prior is not None else 0.0)


@pytest.mark.parametrize("with_prior", [True, False])
def test_finds_a_maximum_and_the_truth(drawn, with_prior):
    inputs, targets = drawn
    prior = dimension_scaled_prior(2) if with_prior else None
    start = default_hyperparameters(2, prior, ard=True)
    found = search_hyperparameters("matern52", inputs, targets, prior, start, 1)
    best = posterior_density(inputs, targets, found, prior)
    for factor in (0.9, 1.1):
        for changed in (
            Hyperparameters(found.length_scales * [factor, 1.0], found.output_scale, found.noise),
            Hyperparameters(found.length_scales * [1.0, factor], found.output_scale, found.noise),
            Hyperparameters(found.length_scales, found.output_scale * factor, found.noise),
            Hyperparameters(found.length_scales, found.output_scale, found.noise * factor),
        ):
            assert posterior_density(inputs, targets, changed, prior) < best
    assert 0.1 < found.length_scales[0] < 0.4
    assert 0.3 < found.length_scales[1] < 1.2
    assert 0.003 < found.noise < 0.03


def test_reaches_what_botorch_reaches(drawn):
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.mlls import ExactMarginalLogLikelihood

    inputs, targets = drawn[0][:60], drawn[1][:60]
    found = GaussianProcess(prior=None).fit(inputs, targets)
    ours = found.hyperparameters
    standardised = found.standardisation.apply(targets)
    model = SingleTaskGP(
        torch.tensor(inputs),
        torch.tensor(standardised)[:, None],
        outcome_transform=None,
        likelihood=GaussianLikelihood(),
        covar_module=ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)),
    ).double()
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    theirs = Hyperparameters(
        model.covar_module.base_kernel.lengthscale.detach().numpy()[0],
        model.covar_module.outputscale.item(),
        model.likelihood.noise.item(),
    )
    assert (
        posterior_density(inputs, standardised, ours, None)
        >= posterior_density(inputs, standardised, theirs, None) - 1e-3
    )


def test_subset_covers_the_targets_evenly():
    targets = np.random.default_rng(0).permutation(1000).astype(float)
    chosen = targets[spread_over_ranks(targets, 100)]
    assert len(chosen) == 100
    assert {0.0, 999.0} <= set(chosen)
    assert np.diff(np.sort(chosen)).max() <= 11
    assert spread_over_ranks(targets, 1000) == slice(None)


def test_subset_changes_hyperparameters_little(drawn):
    inputs, targets = drawn
    whole = GaussianProcess().fit(inputs, targets).hyperparameters
    subset = GaussianProcess(max_fit_points=100).fit(inputs, targets).hyperparameters
    np.testing.assert_allclose(np.log(subset.length_scales), np.log(whole.length_scales), atol=0.7)
