"""Greedy ensemble selection."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstart.errors import InvalidInput
from headstart.fitting.ensemble import select_ensemble

TRUTH = np.linspace(-1, 1, 40)


def squared(predictions: np.ndarray) -> float:
    return float(np.square(predictions - TRUTH).mean())


def greedy_by_hand(predictions: list[np.ndarray], steps: int, most: int | None) -> tuple[list[int], float]:
    """The same by brute force: every average is made anew from the list of what was chosen."""
    chosen: list[int] = []
    best: tuple[list[int], float] = ([], np.inf)
    for _ in range(steps):
        allowed = range(len(predictions)) if most is None or len(set(chosen)) < most else sorted(set(chosen))
        losses = {i: squared(np.mean([predictions[j] for j in [*chosen, i]], axis=0)) for i in allowed}
        chosen.append(min(losses, key=lambda i: (losses[i], i)))
        if losses[chosen[-1]] < best[1] - 1e-12:
            best = (list(chosen), losses[chosen[-1]])
    return best


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 12), st.sampled_from([None, 1, 2, 3]))
@settings(max_examples=50, deadline=None)
def test_is_what_brute_force_finds(seed: int, candidates: int, steps: int, most: int | None) -> None:
    rng = np.random.default_rng(seed)
    predictions = [TRUTH + rng.normal(size=len(TRUTH)) for _ in range(candidates)]
    weights = select_ensemble(predictions, squared, steps=steps, max_members=most)
    expected, _ = greedy_by_hand(predictions, steps, most)
    counts = np.bincount(expected, minlength=candidates)
    np.testing.assert_allclose(weights, counts / counts.sum())


def test_is_never_worse_than_the_best_candidate() -> None:
    rng = np.random.default_rng(0)
    predictions = [TRUTH + rng.normal(size=len(TRUTH)) for _ in range(8)]
    weights = select_ensemble(predictions, squared)
    together = np.tensordot(weights, np.array(predictions), axes=1)
    assert weights.sum() == pytest.approx(1.0)
    assert squared(together) <= min(map(squared, predictions))


def test_comes_near_the_best_convex_combination() -> None:
    rng = np.random.default_rng(1)
    predictions = [TRUTH + rng.normal(size=len(TRUTH)) for _ in range(3)]
    grid = [w for w in itertools.product(np.linspace(0, 1, 51), repeat=3) if abs(sum(w) - 1) < 1e-9]
    best = min(squared(np.tensordot(np.array(w), np.array(predictions), axes=1)) for w in grid)
    weights = select_ensemble(predictions, squared, steps=100)
    assert squared(np.tensordot(weights, np.array(predictions), axes=1)) <= best * 1.001


def test_a_deadline_in_the_past_gives_the_first_candidate() -> None:
    predictions = [TRUTH + 0.1, TRUTH + 1, TRUTH - 0.1]
    assert select_ensemble(predictions, squared, deadline=time.time() - 1).tolist() == [1, 0, 0]


@pytest.mark.parametrize("deadline", [None, 0.0])
def test_a_loss_that_is_never_defined_gives_the_first(deadline: float | None) -> None:
    assert select_ensemble([TRUTH, TRUTH], lambda _: float("nan"), deadline=deadline).tolist() == [1, 0]


def test_nothing_is_computed_after_the_deadline_but_the_first() -> None:
    calls = []

    def loss(predictions: np.ndarray) -> float:
        calls.append(1)
        return squared(predictions)

    select_ensemble([TRUTH + 1, TRUTH], loss, deadline=time.time() - 1)
    assert len(calls) == 1


def test_nothing_to_choose_from() -> None:
    with pytest.raises(InvalidInput, match="at least one candidate"):
        select_ensemble([], squared)
