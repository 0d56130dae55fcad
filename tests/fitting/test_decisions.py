"""Calibration and thresholds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.metrics import balanced_accuracy_score, brier_score_loss, f1_score, log_loss

from headstart.fitting.decisions import Decisions, fit_factors, fit_temperature

RNG = np.random.default_rng(0)


def sample(k: int, n: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities and labels drawn from them."""
    probabilities = softmax(2 * RNG.normal(size=(n, k)), axis=1)
    truth = np.array([RNG.choice(k, p=p) for p in probabilities])
    return probabilities, truth


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("sharpness", [0.3, 3.0])
def test_temperature_undoes_overconfidence(k: int, sharpness: float) -> None:
    probabilities, truth = sample(k)
    distorted = softmax(np.log(probabilities) * sharpness, axis=1)
    found = fit_temperature(distorted, lambda p: log_loss(truth, p))
    assert found == pytest.approx(sharpness, rel=0.1)
    oracle = minimize_scalar(
        lambda t: log_loss(truth, softmax(np.log(distorted) / t, axis=1)), bounds=(0.05, 20), method="bounded"
    )
    assert found == pytest.approx(oracle.x, rel=1e-3)


def test_temperature_one_changes_nothing() -> None:
    probabilities, _ = sample(3, 10)
    assert Decisions().calibrated(probabilities) is probabilities
    np.testing.assert_allclose(Decisions(2.0).calibrated(probabilities).sum(axis=1), 1.0)


def test_temperature_is_the_best_for_the_loss_that_is_given() -> None:
    probabilities, truth = sample(2)
    distorted = softmax(np.log(probabilities) * 2.0, axis=1)
    found = fit_temperature(distorted, lambda p: brier_score_loss(truth, p[:, 1]))
    grid = np.geomspace(1.0, 4.0, 301)
    losses = [brier_score_loss(truth, softmax(np.log(distorted) / t, axis=1)[:, 1]) for t in grid]
    assert found == pytest.approx(grid[np.argmin(losses)], rel=0.01)


def test_parts_are_pooled_as_logarithms() -> None:
    parts = [sample(4, 50)[0] for _ in range(3)]
    truth = RNG.integers(0, 4, 50)
    pooled = Decisions(0.7).calibrated(*parts)
    np.testing.assert_allclose(pooled, softmax(np.mean(np.log(parts), axis=0) / 0.7, axis=1), rtol=1e-9)

    def surprise(probabilities: np.ndarray) -> np.ndarray:
        return -np.log(probabilities[np.arange(50), truth])

    singly = [surprise(Decisions(0.7).calibrated(part)) for part in parts]
    assert (surprise(pooled) <= np.mean(singly, axis=0) + 1e-12).all()  # for every row


def test_thresholds_of_two_classes_are_the_best_there_are() -> None:
    n = 400
    truth = (RNG.random(n) < 0.15).astype(int)
    score = np.clip(0.15 + 0.25 * truth + 0.12 * RNG.normal(size=n), 0.01, 0.99)
    probabilities = np.column_stack([1 - score, score])
    factors = fit_factors(probabilities, lambda p: 1 - f1_score(truth, p.argmax(axis=1)))
    assert factors is not None
    chosen = Decisions(factors=factors).choose(probabilities)
    best = max(f1_score(truth, (score > t).astype(int)) for t in np.unique(score))
    assert f1_score(truth, chosen) >= best - 0.01
    assert f1_score(truth, chosen) > f1_score(truth, probabilities.argmax(axis=1))


def test_thresholds_of_several_classes_help_the_rare_one() -> None:
    prior = np.array([0.9, 0.07, 0.03])
    truth = RNG.choice(3, size=2000, p=prior)
    likelihood = np.exp(1.5 * np.eye(3)[truth] + 0.7 * RNG.normal(size=(2000, 3)))
    probabilities = likelihood * prior
    probabilities /= probabilities.sum(axis=1, keepdims=True)

    def loss(p: np.ndarray) -> float:
        return 1 - balanced_accuracy_score(truth, p.argmax(axis=1))

    factors = fit_factors(probabilities, loss)
    assert factors is not None
    chosen = Decisions(factors=factors).choose(probabilities)
    by_prior = (probabilities / prior).argmax(axis=1)  # what theory says is best
    assert balanced_accuracy_score(truth, chosen) >= balanced_accuracy_score(truth, by_prior) - 0.02


def test_nothing_better_than_plain_probabilities() -> None:
    probabilities = np.array([[0.9, 0.1], [0.2, 0.8]])
    assert fit_factors(probabilities, lambda p: float((p.argmax(axis=1) != [0, 1]).mean())) is None
