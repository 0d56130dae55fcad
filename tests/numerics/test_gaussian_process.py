from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from headstart.errors import InvalidInput, NumericalError, UnknownName
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import Hyperparameters
from headstart.numerics.kernels import kernel_matrix
from headstart.numerics.standardisation import Standardisation

KNOWN = Hyperparameters(np.array([0.4, 0.9, 0.6]), 1.3, 0.05)


def wavy(size, dimensions=3, noise=0.05, seed=0):
    rng = np.random.default_rng(seed)
    inputs = rng.random((size, dimensions))
    return inputs, np.sin(5 * inputs[:, 0]) + inputs[:, -1] ** 2 + noise * rng.normal(size=size)


def dense_posterior(kernel, inputs, targets, candidates, known, mean):
    """By explicit inverse, on the targets as they are."""
    lengths, scale = np.log(known.length_scales), np.log(known.output_scale)
    covariance = kernel_matrix(kernel, inputs, None, lengths, scale) + known.noise * np.eye(len(inputs))
    inverse = np.linalg.inv(covariance)
    if mean is None:
        mean = inverse.sum(axis=0) @ targets / inverse.sum()
    cross = kernel_matrix(kernel, candidates, inputs, lengths, scale)
    joint = kernel_matrix(kernel, candidates, None, lengths, scale) - cross @ inverse @ cross.T
    return mean + cross @ inverse @ (targets - mean), joint


@pytest.mark.parametrize("mean", [None, 0.3])
@pytest.mark.parametrize("kernel", ["matern52", "squared_exponential", "linear"])
def test_posterior_equals_explicit_inverse(kernel, mean):
    inputs, targets = wavy(25)
    candidates = np.random.default_rng(1).random((40, 3))
    known = Hyperparameters(KNOWN.length_scales, KNOWN.output_scale, KNOWN.noise, mean)
    as_is = Standardisation(0.0, 1.0)
    process = GaussianProcess(kernel=kernel).condition(inputs, targets, known, standardisation=as_is)
    expected_mean, expected_covariance = dense_posterior(kernel, inputs, targets, candidates, known, mean)
    means, std = process.posterior(candidates)
    np.testing.assert_allclose(means, expected_mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(std**2, np.diag(expected_covariance), rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("kernel", ["matern52", "squared_exponential"])
def test_posterior_agrees_with_botorch(kernel):
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from botorch.models import SingleTaskGP
    from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
    from gpytorch.likelihoods import GaussianLikelihood

    inputs, targets = wavy(30)
    candidates = np.random.default_rng(1).random((50, 3))
    ours = GaussianProcess(kernel=kernel).fit(inputs, 40.0 + 7.0 * targets)
    learned = ours.hyperparameters
    base = MaternKernel(nu=2.5, ard_num_dims=3) if kernel == "matern52" else RBFKernel(ard_num_dims=3)
    model = SingleTaskGP(
        torch.tensor(inputs),
        torch.tensor(ours.standardisation.apply(40.0 + 7.0 * targets))[:, None],
        outcome_transform=None,
        likelihood=GaussianLikelihood(),
        covar_module=ScaleKernel(base),
    ).double()
    double = {"dtype": torch.float64}
    base.lengthscale = torch.tensor(learned.length_scales, **double)
    model.covar_module.outputscale = torch.tensor(learned.output_scale, **double)
    model.likelihood.noise = torch.tensor(learned.noise, **double)
    model.mean_module.constant = torch.tensor(learned.mean, **double)
    theirs = model.eval().posterior(torch.tensor(candidates))
    scale, shift = ours.standardisation.scale, ours.standardisation.shift
    mean, std = ours.posterior(candidates)
    np.testing.assert_allclose(mean, theirs.mean.detach().numpy()[:, 0] * scale + shift, rtol=1e-6)
    np.testing.assert_allclose(std**2, theirs.variance.detach().numpy()[:, 0] * scale**2, rtol=1e-6, atol=1e-8)


def test_blocks_do_not_change_the_result(monkeypatch):
    inputs, targets = wavy(20)
    candidates = np.random.default_rng(1).random((1001, 3))
    process = GaussianProcess().fit(inputs, targets)
    whole = process.posterior(candidates)
    monkeypatch.setattr("headstart.numerics.gaussian_process._BLOCK_ELEMENTS", 1)
    for one, other in zip(whole, process.posterior(candidates), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10)


def test_memory_of_the_posterior_stays_bounded():
    inputs, targets = wavy(1000, 5)
    candidates = np.random.default_rng(1).random((8_000, 5))
    process = GaussianProcess().condition(inputs, targets, Hyperparameters(np.full(5, 0.5), 1.0, 1e-2))
    tracemalloc.start()
    process.posterior(candidates)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16e6  # the full matrix of cross-covariances has 64 MB


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("start", [0, 20])
def test_adding_points_equals_conditioning_anew(count, start):
    inputs, targets = wavy(start + count)
    candidates = np.random.default_rng(1).random((30, 3))
    process = GaussianProcess().fit(inputs[:start], targets[:start])
    before = process.posterior(candidates)
    grown = process.add(inputs[start:], targets[start:])
    anew = GaussianProcess().condition(
        inputs, targets, process.hyperparameters, standardisation=process.standardisation
    )
    for one, other in zip(grown.posterior(candidates), anew.posterior(candidates), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)
    for one, other in zip(before, process.posterior(candidates), strict=True):
        np.testing.assert_array_equal(one, other)
    one_by_one = process
    for i in range(start, start + count):
        one_by_one = one_by_one.add(inputs[i : i + 1], targets[i : i + 1])
    np.testing.assert_allclose(one_by_one.posterior(candidates)[1], grown.posterior(candidates)[1], rtol=1e-8)


def test_a_fantasy_at_the_mean_only_takes_uncertainty_away():
    process = GaussianProcess().fit(*wavy(15))
    point = np.array([[0.9, 0.1, 0.9]])
    mean, std = process.posterior(point)
    after_mean, after_std = process.add(point, mean).posterior(point)
    np.testing.assert_allclose(after_mean, mean, rtol=1e-9)
    assert after_std < 0.9 * std


def test_leave_one_out_equals_leaving_out():
    inputs, targets = wavy(12)
    process = GaussianProcess().fit(inputs, 3.0 + 5.0 * targets)
    means = process.leave_one_out()
    for i in range(12):
        others = np.arange(12) != i
        rest = GaussianProcess().condition(
            inputs[others],
            3.0 + 5.0 * targets[others],
            process.hyperparameters,
            standardisation=process.standardisation,
        )
        np.testing.assert_allclose(means[i], rest.posterior(inputs)[0], rtol=1e-8)
    assert GaussianProcess().fit(np.zeros((0, 2)), []).leave_one_out().shape == (0, 0)


def test_weights_give_the_mean():
    inputs, targets = wavy(15)
    process = GaussianProcess().fit(inputs, targets)
    known = process.hyperparameters
    cross = kernel_matrix("matern52", inputs[:4] + 0.1, inputs, np.log(known.length_scales), np.log(known.output_scale))
    expected = process.standardisation.undo(known.mean + cross @ process.weights)
    np.testing.assert_allclose(process.posterior(inputs[:4] + 0.1)[0], expected, rtol=1e-9)


def test_interpolates_with_tiny_noise():
    inputs, targets = wavy(20, noise=0.0)
    process = GaussianProcess().condition(inputs, targets, Hyperparameters(np.full(3, 0.5), 1.0, 1e-10))
    mean, std = process.posterior(inputs)
    np.testing.assert_allclose(mean, targets, atol=1e-6)
    assert (std < 1e-4).all()


def test_far_from_data_returns_to_the_prior():
    process = GaussianProcess().fit(*wavy(20))
    mean, std = process.posterior(np.full((1, 3), 1e6))
    known, to = process.hyperparameters, process.standardisation
    assert mean[0] == pytest.approx(float(to.undo(np.array(known.mean))))
    assert std[0] == pytest.approx(np.sqrt(known.output_scale) * to.scale)


def test_predicts_and_is_calibrated_on_held_out_data():
    inputs, targets = wavy(160, noise=0.02)
    mean, std = GaussianProcess().fit(inputs[:60], targets[:60]).posterior(inputs[60:])
    assert np.sqrt(np.mean((mean - targets[60:]) ** 2)) < 0.06
    inside = np.abs(mean - targets[60:]) < 1.96 * np.sqrt(std**2 + 0.02**2)
    assert 0.85 <= inside.mean() <= 1.0


def test_relevant_dimensions_get_short_length_scales():
    inputs, targets = wavy(80, 10)
    lengths = GaussianProcess().fit(inputs, targets).hyperparameters.length_scales
    assert set(np.argsort(lengths)[:2]) == {0, 9}
    assert GaussianProcess(ard=False).fit(inputs, targets).hyperparameters.length_scales.shape == (1,)


def test_same_data_give_the_same_result_and_inputs_are_not_kept():
    inputs, targets = wavy(30)
    first = GaussianProcess().fit(inputs, targets)
    second = GaussianProcess().fit(inputs.tolist(), targets.tolist())
    candidates = np.random.default_rng(1).random((10, 3))
    expected = first.posterior(candidates)
    inputs[:] = targets[:] = 0.0
    for one, other in zip(expected, first.posterior(candidates), strict=True):
        np.testing.assert_array_equal(one, other)
    for one, other in zip(expected, second.posterior(candidates), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("scale", [1e-12, 1e12, 1e-150, 1e150])
@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_units_of_the_targets_do_not_matter(scale, shift):
    inputs, targets = wavy(25)
    candidates = np.random.default_rng(1).random((10, 3))
    mean, std = GaussianProcess().fit(inputs, targets).posterior(candidates)
    scaled_mean, scaled_std = GaussianProcess().fit(inputs, (targets + shift) * scale).posterior(candidates)
    np.testing.assert_allclose(scaled_mean / scale - shift, mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(scaled_std / scale, std, rtol=1e-3)


def test_no_observations_leave_the_prior():
    process = GaussianProcess().fit(np.zeros((0, 4)), [])
    mean, std = process.posterior(np.random.default_rng(0).random((5, 4)))
    np.testing.assert_array_equal(mean, 0.0)
    np.testing.assert_allclose(std, 1.0)
    assert process.posterior(np.zeros((0, 4)))[0].shape == (0,)


@pytest.mark.parametrize("prior", ["dimension_scaled", None])
@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("kernel", ["matern52", "squared_exponential", "linear"])
@pytest.mark.parametrize(
    ("inputs", "targets"),
    [
        pytest.param([[0.2, 0.3]], [5.0], id="one"),
        pytest.param([[0.2, 0.3], [0.6, 0.1]], [5.0, 4.0], id="two"),
        pytest.param(np.random.default_rng(0).random((9, 2)), np.full(9, 1e9 / 3), id="constant targets"),
        pytest.param([[0.5, 0.5]] * 6, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0], id="equal inputs"),
        pytest.param([[0.0, 0.0]] * 6, [1.0] * 6, id="everything equal"),
        pytest.param([[0.1, 0.1], [0.1, 0.1], [0.9, 0.2], [0.9, 0.2]], [0.0, 1.0, 5.0, 6.0], id="duplicates"),
        pytest.param(np.random.default_rng(0).random((20, 2)), [*np.linspace(0, 1, 19), 1e6], id="outlier"),
        pytest.param(np.zeros((3, 0)), [1.0, 2.0, 3.0], id="no dimensions"),
        pytest.param(1e5 * np.random.default_rng(0).random((9, 2)), np.arange(9.0), id="unscaled inputs"),
        pytest.param([[0.1, 0.1], [0.1 + 1e-12, 0.1], [0.5, 0.5]], [0.0, 1.0, -1.0], id="almost duplicates"),
    ],
)
def test_awkward_data(kernel, ard, prior, inputs, targets):
    inputs = np.asarray(inputs, dtype=float)
    process = GaussianProcess(kernel=kernel, ard=ard, prior=prior).fit(inputs, targets)
    mean, std = process.posterior(np.vstack([inputs, np.random.default_rng(1).random((20, inputs.shape[1]))]))
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert (std >= 0).all()
    spread = max(np.ptp(targets), 1.0)
    margin = 20 if kernel == "linear" else 1
    assert (np.abs(mean - np.mean(targets)) <= margin * spread + 1e-6 * np.abs(np.mean(targets))).all()


def test_constant_targets_stay_uncertain_away_from_data():
    mean, std = GaussianProcess().fit([[0.0], [0.05]], [3.0, 3.0]).posterior([[0.0], [1.0]])
    np.testing.assert_allclose(mean, 3.0)
    assert std[0] < 0.2 < 0.8 < std[1]


def test_duplicates_average():
    inputs = np.array([[0.2], [0.2], [0.2], [0.8], [0.8], [0.8]])
    targets = np.array([0.9, 1.0, 1.1, -1.1, -1.0, -0.9])
    mean, std = GaussianProcess().fit(inputs, targets).posterior([[0.2], [0.8]])
    np.testing.assert_allclose(mean, [1.0, -1.0], atol=0.05)
    assert (std > 0.01).all()


def test_an_outlier_does_not_blow_up_the_rest():
    inputs, targets = wavy(40, noise=0.01)
    targets[7] += 50.0
    mean, std = GaussianProcess().fit(inputs, targets).posterior(inputs)
    assert np.abs(np.delete(mean, 7)).max() < 25.0
    assert std.max() < 50.0


@pytest.mark.parametrize(("size", "dimensions"), [(60, 300), (5, 300)])
def test_many_dimensions(size, dimensions):
    inputs, targets = wavy(size, dimensions)
    mean, std = GaussianProcess().fit(inputs, targets).posterior(np.random.default_rng(1).random((50, dimensions)))
    assert np.isfinite(mean).all()
    assert (std > 0).all()


def test_many_observations_use_all_of_them():
    inputs, targets = wavy(2000, 2, noise=0.01)
    process = GaussianProcess(max_fit_points=100).fit(inputs, targets)
    mean, std = process.posterior(inputs)
    assert np.sqrt(np.mean((mean - targets) ** 2)) < 0.02
    assert std.max() < GaussianProcess().fit(inputs[:100], targets[:100]).posterior(inputs)[1].max()


def test_errors_say_what_to_do():
    process = GaussianProcess()
    with pytest.raises(InvalidInput, match="call fit or condition"):
        process.posterior([[0.0]])
    with pytest.raises(InvalidInput, match=r"targets must have shape \(2,\)"):
        process.fit([[0.0], [1.0]], [1.0])
    with pytest.raises(InvalidInput, match="targets must be finite"):
        process.fit([[0.0], [1.0]], [1.0, np.nan])
    with pytest.raises(InvalidInput, match="inputs must be finite"):
        process.fit([[0.0], [np.inf]], [1.0, 2.0])
    with pytest.raises(InvalidInput, match=r"inputs must have shape \(n, d\)"):
        process.fit([0.0, 1.0], [1.0, 2.0])
    with pytest.raises(InvalidInput, match="must have 1 columns"):
        process.fit([[0.0], [1.0]], [1.0, 2.0]).posterior([[0.0, 1.0]])
    with pytest.raises(InvalidInput, match=r"length_scales must have shape \(1,\) or \(3,\)"):
        process.condition(np.zeros((1, 3)), [0.0], Hyperparameters(np.ones(2), 1.0, 1.0))
    with pytest.raises(NumericalError, match="finite"):
        process.condition([[0.0], [1.0]], [1.0, 2.0], Hyperparameters(np.ones(1), np.inf, 1.0))
    with pytest.raises(UnknownName, match="did you mean 'matern52'"):
        GaussianProcess(kernel="matern")
    with pytest.raises(UnknownName, match="no prior is called 'gamma'"):
        GaussianProcess(prior="gamma")
    with pytest.raises(InvalidInput, match="n_starts must be at least 1, got 0"):
        GaussianProcess(n_starts=0)
