"""Ranking-weighted ensembles: contract, and formulas against brute force."""

import numpy as np
import pytest

from headstart.baselines.rgpe import RGPE, ranking_weights
from headstart.errors import InvalidInput
from headstart.evaluation.recorded import Replay, recorded_task
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, pool_task, random_trials, small_meta
from headstart.trials import Limits, Proposal, Trial


class TestRGPE(SurrogateContract):
    def make(self):
        return RGPE(n_samples=32)


def started(task, **settings):
    return RGPE(**settings).meta_fit(small_meta().select([1, 2, 3, 4, 5])).start(task)


def test_weights_are_shares_of_samples_won():
    losses = np.array([[1.0, 5.0, 2.0, 0.0], [3.0, 5.0, 2.0, 4.0], [9.0, 9.0, 9.0, 9.0]])
    own = np.array([2.0, 5.0, 6.0, 1.0])
    weights, own_weight = ranking_weights(losses, own, 1.0)
    # Sample by sample: model 0; own (a tie is its win); models 0 and 1 share; model 0.
    np.testing.assert_allclose(weights, [2.5 / 4, 0.5 / 4, 0.0])
    assert own_weight == pytest.approx(1 / 4)


def test_a_task_that_ranks_worse_than_the_own_model_is_left_out():
    own = np.linspace(1.0, 2.0, 101)  # its 95 % quantile is 1.95
    losses = np.stack([np.where(np.arange(101) < 40, 0.0, level) for level in (1.94, 1.96)])
    weights, own_weight = ranking_weights(losses, own, 0.95)
    # Both win the first 40 samples, where only the first is admitted, and it wins those where own is above 1.94.
    np.testing.assert_allclose(weights, [46 / 101, 0.0])
    assert own_weight == pytest.approx(55 / 101)


def test_without_training_tasks_that_help_the_own_model_remains():
    weights, own = ranking_weights(np.full((3, 8), 7.0), np.zeros(8), 0.95)
    assert (weights.tolist(), own) == ([0.0, 0.0, 0.0], 1.0)


def replayed(meta, row, n):
    """A task of a meta-dataset and its history of n random pipelines, with the recorded losses."""
    task, replay = recorded_task(meta, row), Replay(meta, row)
    tried = task.candidates.sample(np.random.default_rng(0), n)
    trials = [Trial(Proposal(i, p), replay(p, Limits(), 0), 0.0, 0.0) for i, p in enumerate(tried)]
    return task, SurrogateContract.history(task, trials)


def test_mean_and_variance_are_those_of_the_weighted_sum():
    task, history = replayed(small_meta(), 0, 7)
    model = started(task, dilution=1.0).fit(history)
    assert model.weights.sum() + model.own_weight == pytest.approx(1.0)
    assert np.count_nonzero(model.weights) > 1
    assert model.own_weight > 0
    pool = task.candidates.pool
    own_mean, own_std = model.process.posterior(pool.features())
    to = model.process.standardisation
    mean, variance = model.own_weight * (own_mean - to.shift) / to.scale, (model.own_weight * own_std / to.scale) ** 2
    for t, weight in enumerate(model.weights):
        mean = mean + weight * model._models.mean(t, pool.features())
        variance = variance + (weight * model._models.std(t, pool.features())) ** 2
    predicted = model.predict(pool)
    np.testing.assert_allclose(predicted.mean, to.shift + to.scale * mean, rtol=1e-5)
    np.testing.assert_allclose(predicted.std, to.scale * np.sqrt(variance), rtol=1e-5)


def test_a_training_task_with_the_same_losses_gets_the_weight():
    meta = small_meta(n_tasks=8, n_pipelines=80, missing=0.0)
    task, history = replayed(meta, 3, 20)
    model = RGPE().meta_fit(meta).start(task).fit(history)
    assert model.weights.argmax() == 3
    assert model.weights[3] > 0.7


def test_few_observations_let_all_training_tasks_count():
    task = pool_task()
    model = started(task).fit(SurrogateContract.history(task, random_trials(task, 2)))
    np.testing.assert_allclose(model.weights, 0.2)
    assert model.own_weight == 0.0


def test_a_whole_space_uses_few_training_tasks():
    task = live_task()
    model = started(task, n_live=2).fit(SurrogateContract.history(task, random_trials(task, 2)))
    assert sorted(model.weights.tolist()) == [0.0, 0.0, 0.0, 0.5, 0.5]


def test_errors_say_what_to_do():
    with pytest.raises(InvalidInput, match=r"headstart metatrain.*call meta_fit or load before start"):
        RGPE().start(live_task())
    with pytest.raises(InvalidInput, match="at least one of them"):
        RGPE().meta_fit(small_meta().select([]))
    with pytest.raises(InvalidInput, match="dilution in"):
        RGPE(dilution=0.0)
    with pytest.raises(InvalidInput, match="n_live must be at least 1, got 0"):
        RGPE(n_live=0)
