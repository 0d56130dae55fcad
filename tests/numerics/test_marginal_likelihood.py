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
    fixed = np.linspace(0, 0.2, 12)
    covariance = kernel_matrix(kernel, inputs, None, log_lengths, log_scale) + np.diag(np.exp(log_noise) + fixed)
    inverse = np.linalg.inv(covariance)
    mean = inverse.sum(axis=0) @ targets / inverse.sum()
    result = log_marginal_likelihood(kernel, *task, fixed_noise=fixed)
    assert float(result.mean) == pytest.approx(mean, rel=1e-9)
    assert float(result.value) == pytest.approx(
        multivariate_normal(np.full(12, mean), covariance).logpdf(targets), rel=1e-9
    )
    given = log_marginal_likelihood(kernel, *task, fixed_noise=fixed, mean=0.0)
    assert float(given.value) == pytest.approx(multivariate_normal(np.zeros(12), covariance).logpdf(targets), rel=1e-9)


def test_mean_is_the_likeliest(task):
    result = log_marginal_likelihood("matern52", *task)
    for shift in (-1e-3, 1e-3):
        assert log_marginal_likelihood("matern52", *task, mean=float(result.mean) + shift).value < result.value


@pytest.mark.parametrize("mean", [None, 0.7])
def test_gradient_equals_differences(kernel, task, mean, numeric_gradient):
    inputs, targets, *hyperparameters = task
    fixed = np.linspace(0, 0.2, 12)
    gradient = log_marginal_likelihood(kernel, *task, mean=mean, fixed_noise=fixed, input_gradient=True).gradient

    def value(position, v):
        arguments = [inputs, targets, *hyperparameters]
        arguments[position] = v
        return float(log_marginal_likelihood(kernel, *arguments, mean=mean, fixed_noise=fixed).value)

    for position, name in ((0, "inputs"), (2, "log_length_scales"), (3, "log_output_scale"), (4, "log_noise")):
        expected = numeric_gradient(lambda v, p=position: value(p, v), task[position])
        np.testing.assert_allclose(getattr(gradient, name), expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_value_and_gradient_agree_with_gpytorch(kernel, task):
    torch = pytest.importorskip("torch")
    gpytorch = pytest.importorskip("gpytorch")
    inputs, targets, log_lengths, log_scale, log_noise = task
    X, y = torch.tensor(inputs), torch.tensor(targets)
    ours = log_marginal_likelihood(kernel, *task, input_gradient=True)

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
        np.testing.assert_allclose(getattr(ours.gradient, name), leaf.grad, rtol=1e-6, atol=1e-6, err_msg=name)


def test_exact_marginal_likelihood_of_gpytorch_with_its_own_parameters(task):
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood
    from gpytorch.mlls import ExactMarginalLogLikelihood

    inputs, targets, log_lengths, log_scale, log_noise = task
    ours = log_marginal_likelihood("matern52", *task, gradient=True)
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
        ours.gradient.log_length_scales,
        by_log(base.raw_lengthscale, base.raw_lengthscale_constraint, base.lengthscale),
        rtol=1e-6,
        atol=1e-6,
    )
    np.testing.assert_allclose(
        ours.gradient.log_output_scale,
        by_log(outer.raw_outputscale, outer.raw_outputscale_constraint, outer.outputscale)[0],
        rtol=1e-6,
    )
    np.testing.assert_allclose(
        ours.gradient.log_noise, by_log(noise.raw_noise, noise.raw_noise_constraint, noise.noise)[0], rtol=1e-6
    )


def batch(tasks=4, size=9, dimensions=2):
    rng = np.random.default_rng(5)
    return rng.random((tasks, size, dimensions)), rng.normal(size=(tasks, size))


@pytest.mark.parametrize("own", [False, True])
def test_batched_equals_loop(kernel, own):
    inputs, targets = batch()
    rng = np.random.default_rng(6)
    leading = (4,) if own else ()
    hyperparameters = [
        rng.normal(size=(*leading, 2)),
        np.asarray(rng.normal(size=leading)),
        np.asarray(rng.normal(size=leading) - 2),
    ]
    result = log_marginal_likelihood(kernel, inputs, targets, *hyperparameters, input_gradient=True)
    loop = [
        log_marginal_likelihood(
            kernel, inputs[i], targets[i], *(h[i] if own else h for h in hyperparameters), input_gradient=True
        )
        for i in range(4)
    ]
    np.testing.assert_allclose(result.value, [one.value for one in loop], rtol=1e-9)
    np.testing.assert_allclose(result.mean, [one.mean for one in loop], rtol=1e-9)
    np.testing.assert_allclose(result.gradient.inputs, [one.gradient.inputs for one in loop], rtol=1e-6, atol=1e-8)
    for name, given in zip(("log_length_scales", "log_output_scale", "log_noise"), hyperparameters, strict=True):
        parts = np.array([getattr(one.gradient, name) for one in loop])
        assert getattr(result.gradient, name).shape == given.shape
        np.testing.assert_allclose(getattr(result.gradient, name), parts if own else parts.sum(axis=0), rtol=1e-7)


def test_many_hyperparameters_on_one_task(task):
    inputs, targets, *_ = task
    rng = np.random.default_rng(8)
    lengths, scales, noises = rng.normal(size=(3, 3)), rng.normal(size=3), rng.normal(size=3)
    result = log_marginal_likelihood("matern52", inputs, targets, lengths, scales, noises, gradient=True)
    for i in range(3):
        one = log_marginal_likelihood("matern52", inputs, targets, lengths[i], scales[i], noises[i], gradient=True)
        assert result.value[i] == pytest.approx(float(one.value))
        np.testing.assert_allclose(result.gradient.log_length_scales[i], one.gradient.log_length_scales, rtol=1e-8)


def test_padding_changes_nothing(kernel):
    inputs, targets = batch()
    sizes = [9, 4, 1, 0]
    mask = np.arange(9)[None, :] < np.array(sizes)[:, None]
    inputs[~mask] = inputs[0, 0]  # duplicates, and targets far off: neither may matter
    targets[~mask] = 1e6
    hyperparameters = (np.array([0.2, -0.1]), np.array(0.1), np.array(-2.0))
    result = log_marginal_likelihood(kernel, inputs, targets, *hyperparameters, mask=mask, input_gradient=True)
    total = dict.fromkeys(("log_length_scales", "log_output_scale", "log_noise"), 0.0)
    for i, size in enumerate(sizes):
        one = log_marginal_likelihood(
            kernel, inputs[i, :size], targets[i, :size], *hyperparameters, input_gradient=True
        )
        assert result.value[i] == pytest.approx(float(one.value), rel=1e-9, abs=1e-12)
        assert result.mean[i] == pytest.approx(float(one.mean), rel=1e-9)
        np.testing.assert_allclose(result.gradient.inputs[i, :size], one.gradient.inputs, rtol=1e-7, atol=1e-9)
        np.testing.assert_array_equal(result.gradient.inputs[i, size:], 0.0)
        total = {name: total[name] + getattr(one.gradient, name) for name in total}
    for name, expected in total.items():
        np.testing.assert_allclose(getattr(result.gradient, name), expected, rtol=1e-8, atol=1e-10)


def test_mask_of_one_task_need_not_be_a_prefix(task):
    inputs, targets, *hyperparameters = task
    mask = np.arange(12) % 3 != 1
    masked = log_marginal_likelihood("matern52", *task, mask=mask, gradient=True)
    kept = log_marginal_likelihood("matern52", inputs[mask], targets[mask], *hyperparameters, gradient=True)
    assert float(masked.value) == pytest.approx(float(kept.value))
    np.testing.assert_allclose(masked.gradient.log_length_scales, kept.gradient.log_length_scales, rtol=1e-8)


def test_shapes_are_checked(task):
    inputs, targets, *hyperparameters = task
    with pytest.raises(InvalidInput, match=r"targets must have shape \(12,\)"):
        log_marginal_likelihood("matern52", inputs, targets[:-1], *hyperparameters)
    with pytest.raises(InvalidInput, match=r"mask must have shape \(12,\)"):
        log_marginal_likelihood("matern52", *task, mask=np.ones(3, dtype=bool))
