from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from headstart.errors import InvalidInput
from headstart.numerics.forest import Forest
from headstart.numerics.standardisation import Standardisation


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    inputs = rng.random((80, 4))
    return inputs, 50.0 + 10.0 * (np.sin(5 * inputs[:, 0]) + inputs[:, 1] + 0.1 * rng.normal(size=80))


def test_moments_equal_brute_force_over_bootstrap_samples(data):
    inputs, targets = data
    candidates = np.random.default_rng(1).random((60, 4))
    forest = Forest(n_trees=12, seed=5).fit(inputs, targets)
    mean, std = forest.posterior(candidates)

    # The same forest by scikit-learn's public interface, on the same standardised targets so that no split differs.
    standardisation = Standardisation.of(targets)
    reference = RandomForestRegressor(n_estimators=12, min_samples_leaf=3, max_features=5 / 6, random_state=5).fit(
        inputs, standardisation.apply(targets)
    )
    leaf_means, leaf_variances = np.empty((12, 60)), np.empty((12, 60))
    for t, (tree, drawn) in enumerate(zip(reference.estimators_, reference.estimators_samples_, strict=True)):
        assert len(drawn) == 80  # with repetitions
        leaf_of_drawn, leaf_of_candidate = tree.apply(inputs[drawn]), tree.apply(candidates)
        for c in range(60):
            inside = targets[drawn][leaf_of_drawn == leaf_of_candidate[c]]
            assert len(inside) >= 3
            leaf_means[t, c], leaf_variances[t, c] = inside.mean(), inside.var()
    np.testing.assert_allclose(mean, leaf_means.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(mean, standardisation.undo(reference.predict(candidates)), rtol=1e-9)
    total = leaf_variances.mean(axis=0) + leaf_means.var(axis=0)
    assert (total > (1e-3 * targets.std()) ** 2).all()
    np.testing.assert_allclose(std**2, total, rtol=1e-8)


def test_total_variance_is_that_of_the_mixture_of_leaves(data):
    """The two terms are the variance of: draw a tree, then one of its leaf's targets."""
    inputs, targets = data
    forest = Forest(n_trees=3, seed=1).fit(inputs, targets)
    state = forest._state
    point = inputs[:1]
    leaves = [tree.apply(point.astype(np.float32))[0] for tree in state.trees]
    means = np.array([m[leaf] for m, leaf in zip(state.leaf_means, leaves, strict=True)])
    variances = np.array([v[leaf] for v, leaf in zip(state.leaf_variances, leaves, strict=True)])
    second_moment = (variances + means**2).mean()
    expected = np.sqrt(second_moment - means.mean() ** 2) * targets.std()
    np.testing.assert_allclose(forest.posterior(point)[1], expected, rtol=1e-9)


def test_std_never_falls_below_the_floor(data):
    inputs, _ = data
    step = (inputs[:, 0] > 0.5).astype(float)  # every tree and every leaf agrees
    std = Forest(std_floor=0.01).fit(inputs, 1000.0 * step).posterior(inputs)[1]
    assert std.min() == pytest.approx(0.01 * 1000.0 * step.std())
    assert (Forest().fit(inputs, step).posterior(inputs)[1] > 0).all()


def test_same_seed_same_forest_other_seed_another(data):
    first, again, other = (Forest(seed=seed).fit(*data).posterior(data[0]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.abs(first[0] - other[0]).max() > 0


def test_global_random_state_is_left_alone(data):
    np.random.seed(3)  # noqa: NPY002
    expected = np.random.random()  # noqa: NPY002
    np.random.seed(3)  # noqa: NPY002
    Forest().fit(*data).posterior(data[0])
    assert np.random.random() == expected  # noqa: NPY002


def test_predicts_better_than_the_average_and_knows_where_it_is_unsure(data):
    inputs, targets = data
    mean, std = Forest().fit(inputs[:60], targets[:60]).posterior(inputs[60:])
    error = np.abs(mean - targets[60:])
    assert np.sqrt(np.mean(error**2)) < 0.6 * targets.std()
    assert np.mean(error < 2 * std) > 0.8


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_units_of_the_targets_do_not_matter(data, scale):
    inputs, targets = data
    mean, std = Forest().fit(inputs, targets).posterior(inputs)
    scaled_mean, scaled_std = Forest().fit(inputs, targets * scale).posterior(inputs)
    # Ties between equally good splits may fall differently, so the forests agree as a whole, not point by point.
    assert np.median(np.abs(scaled_mean / scale - mean)) < 1e-6
    assert np.median(np.abs(scaled_std / scale - std)) < 1e-6


@pytest.mark.parametrize(
    ("inputs", "targets", "expected"),
    [
        (np.zeros((0, 2)), [], 0.0),
        ([[0.1, 0.2]], [7.0], 7.0),
        (np.random.default_rng(0).random((10, 2)), [1e9 / 3] * 10, 1e9 / 3),
    ],
)
def test_targets_that_say_nothing_about_spread(inputs, targets, expected):
    mean, std = Forest().fit(inputs, targets).posterior([[0.5, 0.5], [0.1, 0.2]])
    np.testing.assert_allclose(mean, expected)
    np.testing.assert_array_equal(std, 1.0)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_few_observations(size):
    inputs = np.linspace(0, 1, size)[:, None]
    mean, std = Forest().fit(inputs, np.arange(size)).posterior(inputs)
    assert ((mean >= 0) & (mean <= size - 1)).all()
    assert (std > 0).all()


def test_equal_inputs():
    mean, std = Forest(n_trees=200).fit(np.zeros((6, 2)), [1.0, 2.0, 3.0] * 2).posterior(np.zeros((1, 2)))
    assert mean[0] == pytest.approx(2.0, abs=0.1)
    assert std[0] == pytest.approx(np.std([1.0, 2.0, 3.0]), rel=0.1)


def test_without_dimensions_the_targets_moments_remain():
    mean, std = Forest().fit(np.zeros((4, 0)), [1.0, 2.0, 3.0, 4.0]).posterior(np.zeros((2, 0)))
    np.testing.assert_allclose(mean, 2.5)
    np.testing.assert_allclose(std, np.std([1.0, 2.0, 3.0, 4.0]))


def test_errors_say_what_to_do(data):
    with pytest.raises(InvalidInput, match="call fit"):
        Forest().posterior(data[0])
    with pytest.raises(InvalidInput, match="must have 4 columns"):
        Forest().fit(*data).posterior([[0.0]])
    with pytest.raises(InvalidInput, match="targets must be finite"):
        Forest().fit([[0.0], [1.0]], [np.nan, 1.0])
    with pytest.raises(InvalidInput, match="std_floor must be positive, got 0"):
        Forest(std_floor=0.0)


def test_leaves_that_hold_more_have_the_moments_of_all_their_observations(data):
    """Against brute force: the bootstrap sample of each leaf with the new observations counted once."""
    inputs, targets = data
    rng = np.random.default_rng(2)
    new, candidates, target = rng.random((9, 4)), rng.random((50, 4)), 55.0
    forest = Forest(n_trees=8, seed=3).fit(inputs, targets)
    mean, std = forest.holding(new, target).posterior(candidates)

    standardisation = Standardisation.of(targets)
    reference = RandomForestRegressor(n_estimators=8, min_samples_leaf=3, max_features=5 / 6, random_state=3).fit(
        inputs, standardisation.apply(targets)
    )
    leaf_means, leaf_variances = np.empty((8, 50)), np.empty((8, 50))
    for t, (tree, drawn) in enumerate(zip(reference.estimators_, reference.estimators_samples_, strict=True)):
        of_drawn, of_new, of_candidate = tree.apply(inputs[drawn]), tree.apply(new), tree.apply(candidates)
        for c in range(50):
            held = np.full((of_new == of_candidate[c]).sum(), target)
            inside = np.concatenate([targets[drawn][of_drawn == of_candidate[c]], held])
            leaf_means[t, c], leaf_variances[t, c] = inside.mean(), inside.var()
    np.testing.assert_allclose(mean, leaf_means.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(std**2, leaf_variances.mean(axis=0) + leaf_means.var(axis=0), rtol=1e-8)
    assert np.abs(mean - forest.posterior(candidates)[0]).max() > 0.1  # and the forest itself stays as it was


def test_observations_one_by_one_are_the_same_to_the_last_bit(data):
    inputs, targets = data
    rng = np.random.default_rng(4)
    new, candidates = rng.random((12, 4)), rng.random((40, 4))
    forest = Forest(n_trees=6).fit(inputs, targets)
    together = forest.holding(new, 48.0)
    leaves = forest.leaves(candidates)
    mean, std = (values.copy() for values in forest.at(leaves))
    step = forest
    for point in new:
        before, step = step, step.holding(point[None], 48.0)
        rows = np.flatnonzero(step.differs(before, leaves))
        assert 0 < len(rows) < 40
        mean[rows], std[rows] = step.at(leaves[:, rows])
    np.testing.assert_array_equal(np.stack([mean, std]), np.stack(together.posterior(candidates)))
