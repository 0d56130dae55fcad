"""Fast scores are those of scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import f1_score, get_scorer

from headstart.evaluation.fast_scores import fast_score
from headstart.evaluation.scoring import Metric, _stored

NAMES = [
    ("roc_auc", "binary"),
    ("neg_log_loss", "binary"),
    ("accuracy", "binary"),
    ("f1", "binary"),
    ("f1_macro", "binary"),
    ("balanced_accuracy", "binary"),
    ("roc_auc_ovr", "multiclass"),
    ("f1_macro", "multiclass"),
    ("balanced_accuracy", "multiclass"),
    ("neg_log_loss", "multiclass"),
    ("accuracy", "multiclass"),
    ("neg_mean_squared_error", "regression"),
    ("neg_root_mean_squared_error", "regression"),
    ("neg_mean_absolute_error", "regression"),
    ("r2", "regression"),
]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("name", "task"), NAMES)
@pytest.mark.parametrize("decimals", [1, 12])
def test_agrees_with_scikit_learn(name: str, task: str, weighted: bool, decimals: int) -> None:
    rng = np.random.default_rng(3)
    n, k = 200, {"binary": 2, "multiclass": 4}.get(task, 0)
    if k:
        truth = rng.integers(0, k, n)
        predictions = np.clip(rng.dirichlet(np.ones(k), n).round(decimals), 0.0, 1.0)  # ties, zeros and ones
        predictions /= predictions.sum(axis=1, keepdims=True)
    else:
        truth = rng.normal(size=n)
        predictions = (truth + rng.normal(size=n)).round(decimals)
    weights = rng.random(n) if weighted else None
    expected = get_scorer(name)(_stored(predictions, task), np.zeros((n, 1)), truth, sample_weight=weights)
    fast = fast_score(name, task)
    assert fast is not None
    assert fast(truth, predictions, weights) == pytest.approx(expected, rel=1e-12)
    assert Metric(name, task).score(truth, predictions, weights) == fast(truth, predictions, weights)


def test_one_class_has_no_roc_auc() -> None:
    fast = fast_score("roc_auc", "binary")
    assert fast is not None
    assert np.isnan(fast(np.zeros(3, dtype=int), np.full((3, 2), 0.5), None))


def test_a_constant_truth_has_the_r2_of_scikit_learn() -> None:
    fast = fast_score("r2", "regression")
    assert fast is not None
    assert fast(np.ones(3), np.ones(3), None) == 1.0
    assert fast(np.ones(3), np.zeros(3), None) == 0.0


def test_f1_of_a_class_that_is_neither_there_nor_chosen_is_none_or_left_out() -> None:
    truth, predictions = np.array([0, 0, 1]), np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0], [0.1, 0.9, 0.0]])
    f1, macro = fast_score("f1", "binary"), fast_score("f1", "multiclass")
    assert f1 is not None
    assert macro is not None
    assert f1(np.zeros(3, dtype=int), predictions[[0, 0, 0], :2], None) == 0.0
    assert macro(truth, predictions, None) == pytest.approx(
        f1_score(truth, predictions.argmax(axis=1), average="macro")
    )


def test_others_have_none() -> None:
    assert fast_score("recall", "binary") is None
    assert fast_score("r2", "binary") is None


def test_classes_that_are_not_there_are_left_out() -> None:
    fast = fast_score("roc_auc", "multiclass")
    assert fast is not None
    predictions = np.array([[0.7, 0.2, 0.1], [0.6, 0.3, 0.1], [0.2, 0.7, 0.1], [0.5, 0.4, 0.1]])
    truth = np.array([0, 0, 1, 1])
    binary = fast_score("roc_auc", "binary")
    assert binary is not None
    assert fast(truth, predictions, None) == pytest.approx(
        (binary(1 - truth, predictions[:, [1, 0]], None) + binary(truth, predictions[:, [0, 1]], None)) / 2
    )
