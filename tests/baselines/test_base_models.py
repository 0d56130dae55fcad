"""Models of training tasks and their predictions, against Gaussian processes made one by one."""

import numpy as np
import pytest

from headstart.baselines.task_ensemble import BaseModels, BasePredictions
from headstart.errors import InvalidInput
from headstart.numerics.gaussian_process import GaussianProcess
from headstart.numerics.hyperparameters import spread_over_ranks
from headstart.space import Encoded
from headstart.space.candidates import Pool
from headstart.task import Task
from headstart.testing.examples import live_task, pool_task, small_meta


@pytest.fixture(scope="module")
def meta():
    return small_meta(n_tasks=4, n_pipelines=50, missing=0.3)


@pytest.fixture(scope="module")
def models(meta):
    return BaseModels.learn(meta, n_observations=20)


def alone(meta, task):
    """The model of one task, made here, and the mean and spread of what it saw."""
    losses = meta.losses[task]
    observed = np.flatnonzero(np.isfinite(losses))
    chosen = observed[spread_over_ranks(losses[observed], 20)]
    assert losses[chosen].min() == np.nanmin(losses)
    process = GaussianProcess(max_fit_points=10).fit(meta.pipelines.features()[chosen], losses[chosen])
    return process, losses[chosen].mean(), losses[chosen].std()


def test_recorded_predictions_are_those_of_each_tasks_process(meta, models):
    for task in range(4):
        process, shift, scale = alone(meta, task)
        mean, std = process.posterior(meta.pipelines.features())
        np.testing.assert_allclose(models.means[task], (mean - shift) / scale, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(models.stds[task], std / scale, rtol=1e-4, atol=1e-5)


def test_the_same_for_any_pipeline(meta, models):
    points = meta.pipelines.space.sample(np.random.default_rng(0), 2000).features()
    for task in range(4):
        process, shift, scale = alone(meta, task)
        mean, std = process.posterior(points)
        np.testing.assert_allclose(models.mean(task, points), (mean - shift) / scale, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(models.std(task, points), std / scale, rtol=1e-6)


def test_shared_while_in_use(meta):
    first = BaseModels.of(meta, 20)
    assert BaseModels.of(meta, 20) is first
    assert BaseModels.of(meta, 10) is not first


@pytest.mark.parametrize("where", ["pool", "live", "part"])
def test_weighted_sums(meta, models, where):
    task = live_task() if where == "live" else pool_task(meta)
    base = BasePredictions(models, task)
    assert base.looked_up == (where != "live")
    pool = task.candidates.pool
    encoded = task.candidates.sample(np.random.default_rng(1), 15) if pool is None else pool
    encoded = encoded[3:9] if where == "part" else encoded
    weights, best = np.array([0.2, 0.0, 0.5, 0.3]), np.array([0.1, 0.2, -0.3, 0.4])
    means = np.stack([models.mean(t, encoded.features()) for t in range(4)])
    stds = np.stack([models.std(t, encoded.features()) for t in range(4)])
    close = {"rtol": 1e-4, "atol": 1e-5}  # what is looked up is in single precision
    for _ in range(2):
        np.testing.assert_allclose(base.mean(weights, encoded), weights @ means, **close)
        np.testing.assert_allclose(base.variance(weights, encoded), weights**2 @ stds**2, **close)
        expected = weights @ np.maximum(0.0, best[:, None] - means)
        np.testing.assert_allclose(base.improvement(weights, best, encoded), expected, **close)
        np.testing.assert_allclose(base.at_tried(encoded), means, **close)
    assert base.at_tried(encoded.take([])).shape == (4, 0)
    np.testing.assert_array_equal(base.mean(np.zeros(4), encoded), 0.0)


def test_pools_of_other_pipelines_under_the_same_ids_are_not_mistaken(meta, models):
    other = meta.pipelines.space.sample(np.random.default_rng(5), 30).unique()[:20]
    pool = Pool(Encoded(other.space, other.values, other.active, other.choice, ids=meta.pipelines.ids[:20]))
    base = BasePredictions(models, Task(pool))
    assert not base.looked_up
    expected = models.mean(1, pool.pool.features())
    np.testing.assert_allclose(base.mean(np.array([0.0, 1.0, 0.0, 0.0]), pool.pool), expected, rtol=1e-9)


def test_a_task_without_observations_predicts_nothing(meta):
    losses = meta.losses.copy()
    losses[2] = np.nan
    models = BaseModels.learn(meta.changed(losses=losses), 20)
    np.testing.assert_array_equal(models.means[2], 0.0)
    np.testing.assert_allclose(models.stds[2], 1.0)
    np.testing.assert_array_equal(models.mean(2, meta.pipelines.features()), 0.0)


def test_errors_say_what_to_do(meta):
    with pytest.raises(InvalidInput, match="n_observations must be at least 2, got 1"):
        BaseModels.learn(meta, 1)
