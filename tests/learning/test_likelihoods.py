"""Batched likelihoods against GPyTorch, against NumPy's and against densities of a normal distribution."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from headstart.errors import UnknownName
from headstart.learning.likelihoods import gp_log_likelihood, kernel_matrix, linear_log_likelihood
from headstart.numerics.marginal_likelihood import log_marginal_likelihood

torch = pytest.importorskip("torch")
KERNELS = ("matern52", "squared_exponential")


@pytest.fixture
def tasks():
    rng = np.random.default_rng(3)
    points, targets = rng.standard_normal((3, 9, 2)), rng.standard_normal((3, 9)) + 0.5
    mask = np.ones((3, 9), dtype=bool)
    mask[1, 6:] = False
    mask[2, 1:] = False
    return points, targets, mask


def tensors(*arrays):
    return [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in arrays]


HYPERPARAMETERS = (np.log([0.8, 1.7]), np.log(1.3), np.log(0.2))


def likelihood(kernel, points, targets, lengths, scale, noise, mask, likeliest_mean=True):
    covariance = kernel_matrix(kernel, points, lengths, scale) + noise.exp() * torch.eye(
        points.shape[1], dtype=noise.dtype
    )
    return gp_log_likelihood(covariance, targets, mask, likeliest_mean=likeliest_mean)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("mean", [None, 0.0])
def test_gpytorch_agrees(tasks, kernel, mean):
    gpytorch = pytest.importorskip("gpytorch")
    points, targets, mask = tasks
    z, y, *hyperparameters = tensors(points, targets, *HYPERPARAMETERS)
    found = likelihood(kernel, z, y, *hyperparameters, torch.from_numpy(mask), likeliest_mean=mean is None)
    for t in range(3):
        real = mask[t]
        matern = kernel == "matern52"
        kernels = gpytorch.kernels
        base = kernels.MaternKernel(2.5, ard_num_dims=2) if matern else kernels.RBFKernel(ard_num_dims=2)
        model = kernels.ScaleKernel(base).double()
        base.lengthscale = torch.tensor(np.exp(HYPERPARAMETERS[0]))
        model.outputscale = torch.tensor(np.exp(HYPERPARAMETERS[1]))
        with torch.no_grad():
            covariance = model(torch.from_numpy(points[t, real])).to_dense().numpy()
        covariance += np.exp(HYPERPARAMETERS[2]) * np.eye(real.sum())
        level = mean
        if level is None:
            solved = np.linalg.solve(covariance, np.ones(real.sum()))
            level = solved @ targets[t, real] / solved.sum()
        distribution = gpytorch.distributions.MultivariateNormal(
            torch.full((int(real.sum()),), float(level), dtype=torch.float64), torch.from_numpy(covariance)
        )
        expected = float(distribution.log_prob(torch.from_numpy(targets[t, real])))
        assert found[t].item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_numpy_agrees_in_values_and_gradients(tasks, kernel):
    points, targets, mask = tasks
    points = points.copy()
    points[0, 1] = points[0, 0]  # coinciding points, where the derivative of a distance is no number
    given = tensors(points, targets, *HYPERPARAMETERS)
    found = likelihood(kernel, *given, torch.from_numpy(mask))
    found.sum().backward()
    gradients = [np.zeros(np.shape(value)) for value in (points, targets, *HYPERPARAMETERS)]
    for t, known in enumerate(mask):
        one = log_marginal_likelihood(kernel, points[t, known], targets[t, known], *HYPERPARAMETERS, by_inputs=True)
        assert found[t].item() == pytest.approx(one.value, rel=1e-10)
        gradients[0][t, known], gradients[1][t, known] = one.by_inputs, one.by_targets
        for total, by in zip(
            gradients[2:], (one.by_log_length_scales, one.by_log_output_scale, one.by_log_noise), strict=True
        ):
            total += by
    for tensor, value in zip(given, gradients, strict=True):
        np.testing.assert_allclose(tensor.grad.numpy(), value, rtol=1e-7, atol=1e-9)


def test_what_is_masked_changes_nothing(tasks):
    points, targets, mask = tasks
    hyper = [torch.tensor(h) for h in HYPERPARAMETERS]
    values = []
    for filler in (0.0, 7.5):
        z, y = points.copy(), targets.copy()
        z[~mask], y[~mask] = filler, filler
        values.append(
            likelihood("matern52", *(torch.from_numpy(a) for a in (z, y)), *hyper, torch.from_numpy(mask)).numpy()
        )
    np.testing.assert_allclose(values[0], values[1], rtol=1e-12)


def test_linear_regression_is_a_normal_distribution_of_the_targets():
    rng = np.random.default_rng(0)
    features, targets = rng.standard_normal((2, 7, 4)), rng.standard_normal((2, 7))
    features[1, 5:], targets[1, 5:] = 0.0, 0.0
    alpha, beta, counts = np.array([0.7, 2.0]), np.array([3.0, 0.5]), np.array([7.0, 5.0])
    found = linear_log_likelihood(*(torch.from_numpy(a) for a in (features, targets, alpha, beta, counts))).numpy()
    for t, n in enumerate((7, 5)):
        phi = features[t, :n]
        covariance = phi @ phi.T / alpha[t] + np.eye(n) / beta[t]
        assert found[t] == pytest.approx(multivariate_normal(np.zeros(n), covariance).logpdf(targets[t, :n]), rel=1e-9)


def test_an_unknown_kernel_is_named(tasks):
    with pytest.raises(UnknownName, match="did you mean 'matern52'"):
        kernel_matrix("matern", torch.from_numpy(tasks[0]), *map(torch.tensor, HYPERPARAMETERS[:2]))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_likelihoods_under_one_covariance_are_normal_densities_with_the_right_gradient(missing):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((6, 6))
    covariance = torch.tensor(factor @ factor.T + np.eye(6), requires_grad=True)
    residuals = torch.tensor(rng.standard_normal((4, 6)), requires_grad=True)
    mask = torch.from_numpy(rng.random((4, 6)) >= missing) if missing else None
    if mask is not None:
        mask[1] = True  # of this one nothing is missing, and it takes another way
    found = gp_log_likelihood(covariance, residuals, mask)
    for b in range(4):
        known = np.arange(6) if mask is None else np.flatnonzero(mask[b].numpy())
        part = covariance.detach().numpy()[np.ix_(known, known)]
        expected = multivariate_normal(np.zeros(len(known)), part).logpdf(residuals.detach().numpy()[b, known])
        assert found[b].item() == pytest.approx(expected)
    weights = torch.from_numpy(rng.standard_normal(4))

    def total(k, r):  # made symmetric, as every covariance is
        return (gp_log_likelihood(0.5 * (k + k.T), r, mask) * weights).sum()

    assert torch.autograd.gradcheck(total, (covariance, residuals))
