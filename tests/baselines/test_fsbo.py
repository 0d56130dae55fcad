import numpy as np
import pytest

from headstart.baselines.fsbo import FSBO, batch_loss, scale_labels
from headstart.errors import InvalidInput, UnknownName
from headstart.history import History
from headstart.learning.batches import TaskBatches
from headstart.learning.deep_kernel import initial_kernel, learned_hyperparameters
from headstart.learning.networks import MLP
from headstart.testing import SurrogateContract
from headstart.testing.examples import pool_task, random_trials, small_meta

torch = pytest.importorskip("torch")
KNOWN = {}


class TrainedOnce(FSBO):
    """The contract meta-trains for every test."""

    def learn(self, meta, rng):
        key = meta.key, self.kernel
        if key not in KNOWN:
            KNOWN[key] = super().learn(meta, rng)
        return KNOWN[key]


class TestFSBO(SurrogateContract):
    def make(self):
        return TrainedOnce(units=16, layers=1, width=6, steps=60, training={"n_tasks": 4, "n_pipelines": 30})


class TestFSBOWithItsNetworkTuned(SurrogateContract):
    def make(self):
        return TrainedOnce(
            "squared_exponential",
            16,
            1,
            6,
            fine_tune="all",
            fine_tune_steps=4,
            steps=60,
            training={"n_tasks": 4, "n_pipelines": 30},
        )


def small(**settings):
    return FSBO(
        **{"units": 8, "layers": 1, "width": 4, "steps": 15, "training": {"n_tasks": 3, "n_pipelines": 20}, **settings}
    )


def history_of(task, n=20):
    history = History(task.candidates)
    for trial in random_trials(task, n, failing=0.0):
        history.add(trial)
    return history


def test_scaled_labels_are_the_same_up_to_shift_and_scale():
    rng = np.random.default_rng(0)
    targets, mask = rng.standard_normal((200, 12)), rng.random((200, 12)) < 0.8
    mask[:, :2] = True
    scaled = scale_labels(targets, mask, rng)
    for before, after, known in zip(targets, scaled, mask, strict=True):
        slope, _ = np.polyfit(before[known], after[known], 1)
        assert np.corrcoef(before[known], after[known])[0, 1] == pytest.approx(1.0)
        spread = np.ptp(before[known])
        assert 1.0 <= slope * spread <= 10.0 + 1e-9  # u - l is between a tenth of the range and all of it
        np.testing.assert_array_equal(after[~known], before[~known])
    assert len(np.unique(np.ptp(scaled, axis=1).round(6))) > 100


def test_its_likelihood_is_that_of_gpytorch_on_the_embedded_points():
    gpytorch = pytest.importorskip("gpytorch")
    meta = small_meta()
    points = meta.pipelines.features()
    network = MLP("network", (points.shape[1], 7, 3))
    rng = np.random.default_rng(0)
    parameters = {**network.initial(rng), **initial_kernel(3, 1.3, 0.1)}
    batch = TaskBatches(meta, points).draw(rng, 3, 15)
    tensors = {k: torch.from_numpy(np.asarray(v)) for k, v in parameters.items()}
    found = batch_loss("matern52", network, tensors, batch)
    learned = learned_hyperparameters(parameters)
    expected = []
    for b in range(3):
        kernel = gpytorch.kernels.MaternKernel(2.5, ard_num_dims=3).double()
        kernel.lengthscale = torch.from_numpy(learned.length_scales)
        with torch.no_grad():
            covariance = kernel(torch.from_numpy(network(parameters, batch.points[b]))).to_dense().numpy()
        covariance = learned.output_scale * covariance + learned.noise * np.eye(15)
        solved = np.linalg.solve(covariance, np.ones(15))
        level = solved @ batch.targets[b] / solved.sum()
        normal = gpytorch.distributions.MultivariateNormal(
            torch.full((15,), float(level), dtype=torch.float64), torch.from_numpy(covariance)
        )
        expected.append(normal.log_prob(torch.from_numpy(batch.targets[b])).item() / 15)
    assert found.item() == pytest.approx(-np.mean(expected), rel=1e-8)


def test_training_raises_the_likelihood_of_other_tasks():
    meta = small_meta(20)
    losses = {}
    held = TaskBatches(meta.select([0, 1, 2]), meta.pipelines.features()).draw(np.random.default_rng(0), 3, 40)
    for steps in (0, 150):
        model = small(units=16, steps=steps, augment=False).meta_fit(meta.select(range(3, 20)))
        tensors = {k: torch.from_numpy(np.asarray(v)) for k, v in model._parameters.items()}
        losses[steps] = batch_loss("matern52", model._network(held.points.shape[-1]), tensors, held).item()
    assert losses[150] < losses[0] - 0.1


@pytest.mark.parametrize("kernel", ["matern52", "squared_exponential"])
def test_without_tuning_the_posterior_is_that_of_gpytorch(kernel):
    gpytorch = pytest.importorskip("gpytorch")
    meta = small_meta()
    model = small(kernel=kernel, fine_tune="none").meta_fit(meta.select([1, 2, 3, 4, 5])).start(pool_task(meta))
    history = history_of(model.task)
    targets = history.targets()
    y = (targets - targets.mean()) / targets.std()
    learned = learned_hyperparameters(model._parameters)
    network = model._network(history.encoded.features().shape[1])
    pool = model.task.candidates.pool
    old, new = (network(model._parameters, e.features()) for e in (history.encoded, pool))
    kernels = gpytorch.kernels
    base = kernels.MaternKernel(2.5, ard_num_dims=4) if kernel == "matern52" else kernels.RBFKernel(ard_num_dims=4)
    base = base.double()
    base.lengthscale = torch.from_numpy(learned.length_scales)
    with torch.no_grad():
        together = base(torch.from_numpy(np.concatenate([old, new]))).to_dense().numpy() * learned.output_scale
    n = len(y)
    gram, cross = together[:n, :n] + learned.noise * np.eye(n), together[n:, :n]
    solved = np.linalg.solve(gram, np.ones(n))
    level = solved @ y / solved.sum()
    prediction = model.fit(history).predict(pool)
    expected = level + cross @ np.linalg.solve(gram, y - level)
    np.testing.assert_allclose(prediction.mean, targets.mean() + targets.std() * expected, rtol=1e-5)
    variance = learned.output_scale - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    np.testing.assert_allclose(prediction.std, targets.std() * np.sqrt(variance), rtol=1e-3)


def test_tuning_raises_the_likelihood_of_the_history():
    from headstart.numerics.marginal_likelihood import log_marginal_likelihood

    def likelihood(model, history):
        process = model._process
        known = process.hyperparameters
        y = process.standardisation.apply(history.targets())
        embedded = model._embed(history.encoded.features(), model._tuned)
        logs = (np.log(known.length_scales), np.log(known.output_scale), np.log(known.noise))
        return float(log_marginal_likelihood(model.kernel, embedded, y, *logs).value)

    meta = small_meta()
    trained = small().meta_fit(meta.select([1, 2, 3, 4, 5]))
    values = []
    for tuned in ("none", "kernel", "all"):
        trained.fine_tune = tuned
        model = trained.start(pool_task(meta))
        history = history_of(model.task, 40)
        values.append(likelihood(model.fit(history), history))
    assert values[0] < values[1] < values[2]


def test_bad_settings_are_named():
    with pytest.raises(UnknownName, match="did you mean 'kernel'"):
        FSBO(fine_tune="kernels")
    with pytest.raises(InvalidInput, match="width"):
        FSBO(width=0)
