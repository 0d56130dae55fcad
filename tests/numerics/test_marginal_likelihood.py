from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from headstart.errors import InvalidInput
from headstart.numerics.kernels import kernel_matrix
from headstart.numerics.marginal_likelihood import log_marginal_likelihood


@pytest.fixture(params=["matern52", "squared_exponential", "linear"])
def kernel(request):
    return request.param


@pytest.fixture
def task():
    rng = np.random.default_rng(3)
    inputs = rng.random((12, 3))
    inputs[5] = inputs[2]
    return inputs, rng.normal(size=12) + 2.0, np.array([0.1, -0.5, 0.4]), np.array(0.3), np.array(-2.0)


def test_equals_the_normal_density_with_the_least_squares_mean(kernel, task):
    inputs, targets, log_lengths, log_scale, log_noise = task
    log_noise = log_noise + np.linspace(0, 0.2, 12)  # an own one for each observation
    covariance = kernel_matrix(kernel, inputs, None, log_lengths, log_scale) + np.diag(np.exp(log_noise))
    inverse = np.linalg.inv(covariance)
    mean = inverse.sum(axis=0) @ targets / inverse.sum()
    result = log_marginal_likelihood(kernel, *task[:4], log_noise)
    assert float(result.mean) == pytest.approx(mean, rel=1e-9)
    assert float(result.value) == pytest.approx(
        multivariate_normal(np.full(12, mean), covariance).logpdf(targets), rel=1e-9
    )
    given = log_marginal_likelihood(kernel, *task[:4], log_noise, mean=0.0)
    assert float(given.value) == pytest.approx(multivariate_normal(np.zeros(12), covariance).logpdf(targets), rel=1e-9)


def test_mean_is_the_likeliest(task):
    result = log_marginal_likelihood("matern52", *task)
    for shift in (-1e-3, 1e-3):
        assert log_marginal_likelihood("matern52", *task, mean=float(result.mean) + shift).value < result.value


@pytest.mark.parametrize("mean", [None, 0.7])
@pytest.mark.parametrize("own_noise", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_gradient_equals_differences(kernel, task, mean, own_noise, shared, numeric_gradient):
    given = list(task)
    if shared:
        given[2] = given[2][:1]
    if own_noise:
        given[4] = given[4] + np.linspace(0, 0.2, 12)
    found = log_marginal_likelihood(kernel, *given, mean=mean, by_inputs=True)

    def value(position, v):
        arguments = [*given]
        arguments[position] = v
        return log_marginal_likelihood(kernel, *arguments, mean=mean).value

    names = ("by_inputs", "by_targets", "by_log_length_scales", "by_log_output_scale", "by_log_noise")
    for position, name in enumerate(names):
        expected = numeric_gradient(lambda v, p=position: value(p, v), given[position])
        assert np.shape(getattr(found, name)) == np.shape(given[position])
        np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-6, atol=1e-6, err_msg=name)
    assert log_marginal_likelihood(kernel, *given).by_inputs is None


def test_value_and_gradient_agree_with_gpytorch(kernel, task):
    torch = pytest.importorskip("torch")
    gpytorch = pytest.importorskip("gpytorch")
    inputs, targets, log_lengths, log_scale, log_noise = task
    X, y = torch.tensor(inputs), torch.tensor(targets)
    ours = log_marginal_likelihood(kernel, *task, by_inputs=True)

    # GPyTorch's kernels get leaves that autograd differentiates by; its linear kernel has no length scales.
    leaves = [torch.tensor(v, requires_grad=True) for v in (log_lengths, log_scale, log_noise)] + [X.requires_grad_()]
    base = {
        "matern52": lambda: gpytorch.kernels.MaternKernel(nu=2.5),
        "squared_exponential": lambda: gpytorch.kernels.RBFKernel(),
        "linear": lambda: gpytorch.kernels.LinearKernel(),
    }[kernel]().double()
    if kernel == "linear":
        base.variance = 1.0
    else:
        base.lengthscale = 1.0
    covariance = leaves[1].exp() * base(X / leaves[0].exp()).to_dense() + leaves[2].exp() * torch.eye(12).double()
    mean = torch.full((12,), float(ours.mean), dtype=torch.float64)
    value = gpytorch.distributions.MultivariateNormal(mean, covariance).log_prob(y)
    value.backward()
    assert float(ours.value) == pytest.approx(value.item(), rel=1e-6)
    for leaf, name in zip(leaves, ("log_length_scales", "log_output_scale", "log_noise", "inputs"), strict=True):
        np.testing.assert_allclose(getattr(ours, f"by_{name}"), leaf.grad, rtol=1e-6, atol=1e-6, err_msg=name)


def test_exact_marginal_likelihood_of_gpytorch_with_its_own_parameters(task):
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.mlls import ExactMarginalLogLikelihood

    inputs, targets, log_lengths, log_scale, log_noise = task
    ours = log_marginal_likelihood("matern52", *task)
    model = SingleTaskGP(
        torch.tensor(inputs),
        torch.tensor(targets)[:, None],
        outcome_transform=None,
        likelihood=GaussianLikelihood(),
        covar_module=ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=3)),
    ).double()
    model.covar_module.base_kernel.lengthscale = torch.tensor(np.exp(log_lengths))
    model.covar_module.outputscale = float(np.exp(log_scale))
    model.likelihood.noise = float(np.exp(log_noise))
    model.mean_module.constant = float(ours.mean)
    model.train()
    value = 12 * ExactMarginalLogLikelihood(model.likelihood, model)(model(torch.tensor(inputs)), model.train_targets)
    value.backward()
    assert float(ours.value) == pytest.approx(value.item(), rel=1e-6)
    assert model.mean_module.raw_constant.grad.item() == pytest.approx(0.0, abs=1e-6)

    def by_log(raw, constraint, parameter):  # chain rule through their softplus
        jacobian = torch.autograd.functional.jacobian(lambda r: constraint.transform(r), raw.detach().flatten())
        return (raw.grad.flatten() / torch.diag(jacobian) * parameter.detach().flatten()).numpy()

    base, outer, noise = model.covar_module.base_kernel, model.covar_module, model.likelihood.noise_covar
    np.testing.assert_allclose(
        ours.by_log_length_scales,
        by_log(base.raw_lengthscale, base.raw_lengthscale_constraint, base.lengthscale),
        rtol=1e-6,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        ours.by_log_output_scale,
        by_log(outer.raw_outputscale, outer.raw_outputscale_constraint, outer.outputscale)[0],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        ours.by_log_noise, by_log(noise.raw_noise, noise.raw_noise_constraint, noise.noise)[0], rtol=1e-6
    )


def test_shapes_are_checked(task):
    inputs, targets, *hyperparameters = task
    with pytest.raises(InvalidInput, match=r"targets must have shape \(12,\)"):
        log_marginal_likelihood("matern52", inputs, targets[:-1], *hyperparameters)
