"""Two-stage transfer: contract, and formulas against brute force."""

import numpy as np
import pytest
from scipy.stats import kendalltau

from headstart.baselines.tst import TSTDataset2Vec, TSTRanking, epanechnikov, relative_distances
from headstart.errors import HeadstartError, InvalidInput
from headstart.testing import SurrogateContract
from headstart.testing.examples import pool_task, random_trials, small_meta


class TestRanking(SurrogateContract):
    def make(self):
        return TSTRanking()


class TestMetafeatures(SurrogateContract):
    def make(self):
        return TSTDataset2Vec(metafeatures="example", bandwidth=0.5)


def test_epanechnikov():
    np.testing.assert_allclose(epanechnikov(np.array([0.0, 0.1, 0.2, 0.3]), 0.2), [0.75, 0.5625, 0.0, 0.0])


def fitted(model, n=14):
    task = pool_task()
    history = SurrogateContract.history(task, random_trials(task, n, failing=0.0))
    return model.meta_fit(small_meta().select([1, 2, 3, 4, 5])).start(task).fit(history), history, task


def test_mean_is_the_kernel_weighted_one_and_std_that_of_the_own_model():
    model, history, task = fitted(TSTRanking(bandwidth=0.6))
    pool = task.candidates.pool
    tried = history.encoded.features()
    own_mean, own_std = model.process.posterior(pool.features())
    to = model.process.standardisation
    above, below = 0.75 * (own_mean - to.shift) / to.scale, 0.75
    used = 0
    for t in range(5):
        tau = kendalltau(model._models.mean(t, tried), history.targets()).statistic
        distance = (1 - tau) / 2
        weight = 0.75 * max(0.0, 1 - (distance / 0.6) ** 2)
        used += weight > 0
        above = above + weight * model._models.mean(t, pool.features())
        below = below + weight
    assert used >= 2
    predicted = model.predict(pool)
    np.testing.assert_allclose(predicted.mean, to.shift + to.scale * above / below, rtol=1e-5)
    np.testing.assert_allclose(predicted.std, own_std)


def test_without_near_tasks_the_own_model_remains():
    model, _, task = fitted(TSTRanking(bandwidth=1e-6))
    pool = task.candidates.pool
    np.testing.assert_allclose(model.predict(pool).mean, model.process.posterior(pool.features())[0], rtol=1e-9)


def test_equal_targets_make_all_tasks_near():
    model, _, _ = fitted(TSTRanking(), n=1)
    np.testing.assert_allclose([*model.weights, model.own_weight], 1 / 6)


def test_distances_of_metafeatures_are_relative_to_those_between_training_tasks():
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((6, 3)) * [1.0, 100.0, 1e-3]
    vectors[:, 2] = 5.0
    vectors[1, 0] = np.nan
    vector = np.array([0.3, np.inf, 7.0])
    filled = vectors.copy()
    filled[1, 0] = np.nanmean(vectors[:, 0])
    scaled = (filled[:, :2] - filled[:, :2].mean(axis=0)) / filled[:, :2].std(axis=0)
    own = np.array([(0.3 - filled[:, 0].mean()) / filled[:, 0].std(), 0.0])
    between = [np.linalg.norm(scaled[i] - scaled[j]) for i in range(6) for j in range(i)]
    expected = [np.linalg.norm(row - own) / np.median(between) for row in scaled]
    np.testing.assert_allclose(relative_distances(vectors, vector), expected)
    np.testing.assert_array_equal(relative_distances(np.ones((1, 2)), np.ones(2)), [0.0])


def test_metafeatures_decide_and_not_the_ranking():
    model, _, _ = fitted(TSTDataset2Vec(metafeatures="example", bandwidth=1.2))
    expected = epanechnikov(relative_distances(model._vectors, pool_task().metafeatures["example"]), 1.2)
    np.testing.assert_allclose(model.weights / model.own_weight, expected / 0.75)


def test_missing_metafeatures_are_named():
    with pytest.raises(
        HeadstartError, match=r"meta-features 'dataset2vec', which meta-dataset 'meta' .* it has example"
    ):
        TSTDataset2Vec().meta_fit(small_meta())
    from dataclasses import replace

    model = TSTDataset2Vec(metafeatures="example").meta_fit(small_meta())
    with pytest.raises(HeadstartError, match=r"meta-features 'example', which the task at hand does not have"):
        model.start(replace(pool_task(), metafeatures={}))
    with pytest.raises(InvalidInput, match="must have 3 values"):
        model.start(replace(pool_task(), metafeatures={"example": np.zeros(2)}))
    with pytest.raises(InvalidInput, match="bandwidth must be positive"):
        TSTRanking(bandwidth=0.0)
