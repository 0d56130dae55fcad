import numpy as np
import pytest

from headstart.learning.batches import TaskBatches
from headstart.learning.deep_kernel import LENGTHS, MEAN, NOISE, SCALE, initial_kernel
from headstart.learning.training import Training
from headstart.methods.deeppipe.network import PipelineNetwork
from headstart.methods.deeppipe.training import (
    batch_loss,
    draw,
    log_likelihoods,
    train_pipeline_network,
    validation_loss,
)
from headstart.space import Encoded
from headstart.testing.examples import small_meta, small_space

torch = pytest.importorskip("torch")


def made(seed=0, **shape):
    network = PipelineNetwork(small_space(), factor=2, outputs=3, **shape)
    rng = np.random.default_rng(seed)
    parameters = {k: v + 0.2 * rng.standard_normal(v.shape) for k, v in network.initial(rng).items()}
    return network, {**parameters, **initial_kernel(3, 1.3, 0.1)}


def tensors_of(parameters, grad=False):
    return {k: torch.tensor(v, dtype=torch.float64, requires_grad=grad) for k, v in parameters.items()}


def test_batches_hold_values_choices_and_losses_of_the_same_pipelines_where_cells_are_missing():
    """A pipeline's loss here is a function of its own features, so a shifted index anywhere shows."""
    meta = small_meta(n_tasks=5, n_pipelines=50, missing=0.5)
    points = meta.pipelines.features()
    weights = np.random.default_rng(0).standard_normal(points.shape[1])
    told = np.where(np.isfinite(meta.losses), points @ weights, np.nan)
    meta = meta.changed(losses=told)
    tasks = TaskBatches(meta, points)
    stds = {float(s) for s in tasks.stds[tasks.tasks]}
    for kind in ("crossed", "separate"):
        batch = draw(tasks, np.random.default_rng(1), 5, 30, kind)
        assert not batch.mask.all()
        for b in range(len(batch)):
            features = batch.points if kind == "crossed" else batch.points[b]
            known = batch.mask[b]
            assert known.sum() > 5
            seen, targets = (features @ weights)[known], batch.targets[b][known]
            slope, offset = np.polyfit(seen, targets, 1)
            np.testing.assert_allclose(slope * seen + offset, targets, atol=1e-9)
            assert min(abs(1 / slope - s) for s in stds) < 1e-9
            shifted = (np.roll(features, 1, axis=0) @ weights)[known]
            assert np.abs(np.polyval(np.polyfit(shifted, targets, 1), shifted) - targets).max() > 1e-3


@pytest.mark.parametrize("kind", ["crossed", "separate"])
@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("heads", [{}, {"mean": "linear", "noise": "network"}])
@pytest.mark.parametrize("constant", [None, 0.7])
def test_the_likelihood_is_that_of_gpytorch_on_each_task(kind, missing, heads, constant):
    gpytorch = pytest.importorskip("gpytorch")
    meta = small_meta(missing=missing)
    network, parameters = made(**heads)
    parameters |= {} if constant is None else {MEAN: np.array(constant)}
    batch = draw(TaskBatches(meta, meta.pipelines.features()), np.random.default_rng(2), 3, 20, kind)
    found = log_likelihoods(network, tensors_of(parameters), batch)
    for b in range(len(batch)):
        known = batch.mask[b]
        features = (batch.points if kind == "crossed" else batch.points[b])[known]
        outputs = network(parameters, features)
        kernel = gpytorch.kernels.MaternKernel(2.5, ard_num_dims=3).double()
        kernel.lengthscale = torch.from_numpy(np.exp(parameters[LENGTHS]))
        with torch.no_grad():
            covariance = kernel(torch.from_numpy(outputs.points)).to_dense().numpy() * np.exp(parameters[SCALE])
        log_noise = parameters[NOISE] + (0.0 if outputs.log_noise is None else outputs.log_noise)
        covariance += np.diag(np.broadcast_to(np.exp(log_noise), len(features)))
        mean = np.zeros(len(features)) if outputs.mean is None else outputs.mean
        mean = mean + (constant or 0.0)
        normal = gpytorch.distributions.MultivariateNormal(torch.from_numpy(mean), torch.from_numpy(covariance))
        expected = normal.log_prob(torch.from_numpy(batch.targets[b][known])).item() / known.sum()
        assert found[b].item() == pytest.approx(expected, rel=1e-8)
    assert validation_loss(network, tensors_of(parameters), batch) == pytest.approx(-found.mean().item())


@pytest.mark.parametrize("kind", ["crossed", "separate"])
def test_gradients_agree_with_finite_differences(kind):
    meta = small_meta()
    network, parameters = made(mean="linear", noise="network", encoder_layers=2, aggregation_layers=2)
    parameters[MEAN] = np.array(0.4)
    batch = draw(TaskBatches(meta, meta.pipelines.features()), np.random.default_rng(3), 3, 20, kind)
    tensors = tensors_of(parameters, grad=True)
    batch_loss(network, tensors, batch).backward()
    rng = np.random.default_rng(4)
    for name, value in parameters.items():
        place = tuple(rng.integers(0, n) for n in value.shape)
        ends = []
        for step in (1e-6, -1e-6):
            changed = value.copy()
            changed[place] += step
            ends.append(batch_loss(network, tensors_of({**parameters, name: changed}), batch).item())
        gradient = tensors[name].grad.numpy()[place]
        assert gradient == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-6), name


def test_the_error_of_the_mean_counts_over_all_cells_that_are_known():
    meta = small_meta(missing=0.4)
    network, parameters = made(mean="linear")
    tensors = tensors_of(parameters)
    for kind in ("crossed", "separate"):
        batch = draw(TaskBatches(meta, meta.pipelines.features()), np.random.default_rng(5), 4, 25, kind)
        errors = batch.targets - network(parameters, batch.points.reshape(-1, network.features)).mean.reshape(
            batch.points.shape[:-1]
        )
        plain, weighted = (batch_loss(network, tensors, batch, w).item() for w in (0.0, 3.0))
        assert weighted - plain == pytest.approx(1.5 * np.square(errors[batch.mask]).mean())
    plain_network, plain_parameters = made()
    losses = [batch_loss(plain_network, tensors_of(plain_parameters), batch, w).item() for w in (0.0, 3.0)]
    assert losses[0] == losses[1]


def test_what_is_masked_changes_nothing():
    meta = small_meta(missing=0.4)
    network, parameters = made(mean="linear")
    batch = draw(TaskBatches(meta, meta.pipelines.features()), np.random.default_rng(5), 4, 25, "crossed")
    before = log_likelihoods(network, tensors_of(parameters), batch)
    batch.targets[~batch.mask] = 123.0
    np.testing.assert_allclose(log_likelihoods(network, tensors_of(parameters), batch), before)


@pytest.mark.parametrize("n_tasks", [4, 1])
def test_training_raises_the_likelihood_of_other_tasks(n_tasks):
    meta = small_meta(16)
    points = meta.pipelines.features()
    network, parameters = made(mean="linear")
    training, validation = (TaskBatches(meta.select(rows), points) for rows in (range(4, 16), range(4)))
    trained = train_pipeline_network(
        network,
        parameters,
        training,
        validation,
        100,
        Training(1e-2, check_every=20, n_tasks=n_tasks, n_pipelines=30),
        np.random.default_rng(0),
    )
    assert trained.validation_loss < trained.checks[0, 1] - 0.2


def test_pipelines_of_a_task_are_the_same_whichever_way_they_are_encoded():
    """Embeddings do not depend on the order or number of what is embedded together."""
    meta = small_meta()
    network, parameters = made()
    whole = network(parameters, meta.pipelines.features()).points
    rows = np.flatnonzero(np.isfinite(meta.loss_row(0)))
    part = meta.pipelines.take(rows)
    np.testing.assert_allclose(network(parameters, part.features()).points, whole[rows], atol=1e-12)
    again = Encoded(meta.pipelines.space, part.values, part.active, part.choice, ids=part.ids)
    np.testing.assert_array_equal(
        network(parameters, again.features()).points, network(parameters, part.features()).points
    )
