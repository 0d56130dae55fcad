"""The transfer acquisition function: contract, and its score against brute force."""

import numpy as np
import pytest

from headstart.baselines.taf import TAFRanking, TransferImprovement
from headstart.errors import InvalidInput
from headstart.numerics.expected_improvement import log_expected_improvement
from headstart.surrogates.gp import GPSurrogate
from headstart.testing import OptimizerContract
from headstart.testing.examples import feed, pool_task, random_trials, small_meta


class TestTAF(OptimizerContract):
    seeded = False  # on a pool, since it is trusted from the first pipeline on

    def make(self, task):
        return TAFRanking(n_samples=50, n_starts=2, n_observations=20)


def test_score_is_the_weighted_mean_of_improvements():
    task = pool_task()
    run = TAFRanking(bandwidth=1.0).meta_fit(small_meta().select([1, 2, 3, 4, 5])).start(task, 0)
    feed(run, random_trials(task, 10, failing=0.0))
    model, history, pool = run._model.fit(run.history), run.history, task.candidates.pool
    scores = TransferImprovement()(model, history, pool)
    to = model.process.standardisation
    mean, std = model.process.posterior(pool.features())
    expected = model.own_weight * np.exp(log_expected_improvement(mean, std, history.targets().min())) / to.scale
    tried = history.encoded.features()
    for t, weight in enumerate(model.weights):
        base = model._models.mean(t, pool.features())
        expected += weight * np.maximum(0.0, model._models.mean(t, tried).min() - base)
    assert np.count_nonzero(model.weights) > 1
    np.testing.assert_allclose(np.exp(scores), expected, rtol=1e-4, atol=1e-7)


def test_needs_a_surrogate_with_training_tasks():
    task = pool_task()
    with pytest.raises(InvalidInput, match="needs a TSTRanking surrogate, got GPSurrogate"):
        TransferImprovement()(GPSurrogate(), None, task.candidates.pool)
