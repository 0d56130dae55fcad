import numpy as np
import pytest
from scipy.stats import kendalltau

from headstart.numerics import ranking
from headstart.numerics.ranking import bootstrap_losses, discordant_share, left_out_losses


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    return rng.standard_normal((7, 12)).round(1), rng.integers(0, 6, 12).astype(float)


def brute_force(predicted, targets, drawn):
    loss = 0.0
    for j in drawn:
        for k in drawn:
            if targets[j] < targets[k]:
                loss += 1.0 if predicted[j] > predicted[k] else 0.5 if predicted[j] == predicted[k] else 0.0
    return loss


def test_share_equals_brute_force(data):
    predicted, targets = data
    everything = range(len(targets))
    pairs = sum(targets[j] < targets[k] for j in everything for k in everything)
    expected = [brute_force(row, targets, everything) / pairs for row in predicted]
    np.testing.assert_allclose(discordant_share(predicted, targets), expected)


def test_share_without_ties_is_kendalls_tau():
    rng = np.random.default_rng(1)
    predicted, targets = rng.standard_normal((4, 20)), rng.standard_normal(20)
    expected = [(1 - kendalltau(row, targets).statistic) / 2 for row in predicted]
    np.testing.assert_allclose(discordant_share(predicted, targets), expected)
    np.testing.assert_array_equal(discordant_share(np.stack([targets, -targets, 0 * targets]), targets), [0, 1, 0.5])


def test_nothing_to_order_says_nothing():
    np.testing.assert_array_equal(discordant_share(np.ones((3, 2)), np.ones(2)), 0.5)
    np.testing.assert_array_equal(discordant_share(np.ones((3, 0)), np.ones(0)), 0.5)


def test_bootstrap_losses_equal_brute_force(data, monkeypatch):
    predicted, targets = data
    rng = np.random.default_rng(2)
    drawn = rng.integers(0, 12, (9, 12))
    counts = np.stack([np.bincount(row, minlength=12) for row in drawn])
    expected = [[brute_force(row, targets, sample) for sample in drawn] for row in predicted]
    np.testing.assert_allclose(bootstrap_losses(predicted, targets, counts), expected)
    monkeypatch.setattr(ranking, "_MOST_ELEMENTS", 300)
    np.testing.assert_allclose(bootstrap_losses(predicted, targets, counts), expected)


def test_left_out_losses_equal_brute_force():
    rng = np.random.default_rng(3)
    targets, left_out = rng.integers(0, 5, 9).astype(float), rng.integers(0, 5, (9, 9)).astype(float)
    drawn = rng.integers(0, 9, (6, 9))
    counts = np.stack([np.bincount(row, minlength=9) for row in drawn])

    def wrong(model, j, k):
        at_j, at_k = left_out[model, j], left_out[model, k]
        return 1.0 if at_j > at_k else 0.5 if at_j == at_k else 0.0

    expected = []
    for sample in drawn:
        pairs = [(j, k) for j in sample for k in sample if targets[j] < targets[k]]
        expected.append(sum(0.5 * (wrong(j, j, k) + wrong(k, j, k)) for j, k in pairs))
    np.testing.assert_allclose(left_out_losses(left_out, targets, counts), expected)


def test_a_model_without_skill_is_no_better_and_no_worse_than_chance():
    targets = np.random.default_rng(4).standard_normal(50)
    means = (targets.sum() - targets) / 49
    constant = np.repeat(means[:, None], 50, axis=1)  # each model predicts the mean of what it saw, whatever the input
    everything = np.ones((1, 50), dtype=int)
    assert left_out_losses(constant, targets, everything)[0] == 0.5 * 50 * 49 / 2
    assert bootstrap_losses(means[None], targets, everything)[0, 0] == 50 * 49 / 2
