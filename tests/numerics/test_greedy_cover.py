"""The lazy greedy cover: against the plain one, which looks at everything in every step."""

import numpy as np
import pytest

from headstart.numerics.greedy_cover import CoverGains, gains, greedy_cover


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def plain(losses, size):
    losses = losses.astype(np.float64)
    best, taken = np.ones(losses.shape[1]), []
    while len(taken) < size:
        lowering = np.maximum(best - losses, 0).sum(axis=1)
        lowering[taken] = -1
        if lowering.max() <= 1e-6:
            break
        taken.append(int(lowering.argmax()))
        best = np.minimum(best, losses[taken[-1]])
    return taken


@pytest.mark.parametrize("shape", [(40, 5), (1000, 30), (3000, 200)])
def test_is_the_plain_greedy_one(rng, shape):
    losses = rng.random(shape).astype(np.float32)
    assert greedy_cover(losses, 12).tolist() == plain(losses, 12)


def test_ends_when_nothing_is_gained(rng):
    losses = rng.random((50, 4)).astype(np.float32)
    losses[7] = 0.0
    assert greedy_cover(losses, 10).tolist() == [7]


def test_of_equal_gains_the_better_mean_is_taken():
    losses = np.array([[0.75, 0.5], [0.0, 1.0], [0.5, 0.5]], dtype=np.float32)  # after [1] the others gain the same
    assert greedy_cover(losses, 3).tolist() == [1, 2]


def test_gains_are_weighted(rng):
    losses, best, weights = rng.random((500, 7)).astype(np.float32), rng.random(7), rng.random(7)
    expected = (np.maximum(best - losses.astype(float), 0) * weights).sum(axis=1)
    np.testing.assert_allclose(gains(losses, best, weights), expected, rtol=1e-6)


def test_the_list_of_cells_shrinks_and_changes_nothing(rng):
    losses = rng.random((300, 9)).astype(np.float32)
    kept = CoverGains(losses)
    taken = rng.permutation(300)
    for n in (0, 1, 5, 60, 300, 2):  # the last one starts over
        weights = rng.random(9)
        best = losses[taken[:n]].min(axis=0, initial=1.0).astype(np.float64)
        found = kept(taken[:n], weights)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, gains(losses, best, weights), rtol=1e-6, atol=1e-12)
        np.testing.assert_array_equal(found, CoverGains(losses)(taken[:n], weights))  # to the last bit
    np.testing.assert_allclose(kept.totals(weights), losses @ weights, rtol=1e-5)
