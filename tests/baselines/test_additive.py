"""Additive Gaussian processes against GPyTorch, finite differences and explicit inverses."""

import numpy as np
import pytest

from headstart.baselines.skl import AdditiveProcess, additive_evidence, block_distances, search_additive
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import Hyperparameters
from headstart.numerics.standardisation import Standardisation

BLOCKS = [np.array([0, 1]), np.array([2]), np.array([3, 4])]
LENGTHS = np.array([0.5, 1.0, 0.3, 2.0, 0.7])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    inputs = rng.random((25, 5))
    targets = np.sin(4 * inputs[:, 0]) + inputs[:, 2] ** 2 + 0.05 * rng.standard_normal(25)
    return inputs, (targets - targets.mean()) / targets.std()


def test_distances_are_those_of_the_columns(data):
    inputs, _ = data
    distances = block_distances(inputs, BLOCKS, LENGTHS)
    for block, columns in enumerate(BLOCKS):
        expected = (((inputs[:, None, columns] - inputs[None, :, columns]) / LENGTHS[columns]) ** 2).sum(axis=2)
        np.testing.assert_allclose(distances[block], expected, atol=1e-12)


def test_gradient_equals_finite_differences(data):
    inputs, targets = data
    distances = block_distances(inputs, BLOCKS, LENGTHS)
    vector = np.array([0.1, -0.3, 0.2, -0.5, 0.3, -1.0, -3.0])
    _, gradient = additive_evidence(distances, targets, vector)
    for k in range(len(vector)):
        step = np.zeros(len(vector))
        step[k] = 1e-5
        high, low = (additive_evidence(distances, targets, vector + sign * step)[0] for sign in (1, -1))
        assert gradient[k] == pytest.approx((high - low) / 2e-5, rel=1e-5, abs=1e-6)


def test_evidence_and_posterior_agree_with_gpytorch(data):
    torch = pytest.importorskip("torch")
    gpytorch = pytest.importorskip("gpytorch")
    inputs, targets = data
    vector = np.array([0.1, -0.3, 0.2, -0.5, 0.3, -1.0, -3.0])
    ours, _ = additive_evidence(block_distances(inputs, BLOCKS, LENGTHS), targets, vector)
    process = AdditiveProcess(inputs, targets, BLOCKS, LENGTHS, vector, Standardisation(0.0, 1.0))

    double = {"dtype": torch.float64}
    kernels = []
    for g, columns in enumerate(BLOCKS):
        base = gpytorch.kernels.MaternKernel(
            nu=2.5, ard_num_dims=len(columns), active_dims=torch.tensor(columns)
        ).double()
        kernel = gpytorch.kernels.ScaleKernel(base).double()
        base.lengthscale = torch.tensor(LENGTHS[columns] * np.exp(vector[g]), **double)
        kernel.outputscale = torch.tensor(np.exp(vector[3 + g]), **double)
        kernels.append(kernel)

    class Model(gpytorch.models.ExactGP):
        def __init__(self, likelihood):
            super().__init__(torch.tensor(inputs), torch.tensor(targets), likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = kernels[0] + kernels[1] + kernels[2]

        def forward(self, points):
            return gpytorch.distributions.MultivariateNormal(self.mean_module(points), self.covar_module(points))

    likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
    likelihood.noise = torch.tensor(np.exp(vector[-1]), **double)
    model = Model(likelihood).double()
    model.mean_module.constant = torch.tensor(process.mean, **double)
    model.train()
    likelihood.train()
    theirs = likelihood(model(torch.tensor(inputs))).log_prob(torch.tensor(targets)).item()
    assert ours == pytest.approx(theirs, rel=1e-8)

    candidates = np.random.default_rng(1).random((30, 5))
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        expected = model(torch.tensor(candidates))
    mean, std = process.posterior(candidates)
    np.testing.assert_allclose(mean, expected.mean.numpy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(std**2, expected.variance.numpy(), rtol=1e-6, atol=1e-9)


def test_one_group_is_an_ordinary_gaussian_process(data):
    inputs, targets = data
    plain = GaussianProcess().condition(inputs, 7.0 + 3.0 * targets, Hyperparameters(LENGTHS * 2.0, 1.4, 0.05))
    vector = np.log([2.0, 1.4, 0.05])
    everything = [np.arange(5)]
    process = AdditiveProcess(inputs, 7.0 + 3.0 * targets, everything, LENGTHS, vector, plain.standardisation)
    candidates = np.random.default_rng(1).random((30, 5))
    for one, other in zip(process.posterior(candidates), plain.posterior(candidates), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    more = np.random.default_rng(2).random((3, 5))
    for one, other in zip(
        process.add(more, np.arange(3.0)).posterior(candidates),
        plain.add(more, np.arange(3.0)).posterior(candidates),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-7)


def test_search_prefers_the_structure_that_made_the_data():
    rng = np.random.default_rng(5)
    inputs = rng.random((80, 4))
    targets = np.sin(9 * inputs[:, 0]) * np.cos(7 * inputs[:, 1]) + np.sin(8 * inputs[:, 2]) * np.cos(9 * inputs[:, 3])
    targets = (targets - targets.mean()) / targets.std()
    distances = block_distances(inputs, [np.array([k]) for k in range(4)], np.full(4, 0.4))
    evidence = {
        groups: search_additive(distances, groups, targets, 0.01, 50).log_evidence
        for groups in (((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 1, 2, 3),), ((0,), (1,), (2,), (3,)))
    }
    assert max(evidence, key=evidence.get) == ((0, 1), (2, 3))
