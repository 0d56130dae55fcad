"""Target representations and Wasserstein distances."""

import builtins

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial.distance import cdist

from headstart.errors import MissingDependency
from headstart.methods.metabu.targets import scaled, target_representations, wasserstein_distances
from headstart.testing.examples import small_meta


def by_linear_programme(a, b):
    """The transport problem as it is written down: rows and columns of the plan have given sums."""
    n, m = len(a), len(b)
    rows = np.kron(np.eye(n), np.ones(m))
    columns = np.kron(np.ones(n), np.eye(m))
    sums = np.concatenate([np.full(n, 1 / n), np.full(m, 1 / m)])
    found = linprog(cdist(a, b).ravel(), A_eq=np.concatenate([rows, columns]), b_eq=sums, method="highs")
    return found.fun


def test_wasserstein_distances_are_those_of_a_linear_programme():
    rng = np.random.default_rng(0)
    clouds = [rng.standard_normal((size, 3)) + i for i, size in enumerate((5, 5, 7, 1))]
    found = wasserstein_distances(clouds)
    expected = [[by_linear_programme(a, b) for b in clouds] for a in clouds]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_distances_are_comparable_across_pairs():
    """A pair that is twice as far apart is twice as far, though its largest cost is larger too."""
    rng = np.random.default_rng(1)
    cloud = rng.standard_normal((6, 2))
    distances = wasserstein_distances([cloud + shift * np.array([3.0, 4.0]) for shift in range(3)])
    np.testing.assert_allclose(distances, [[0, 5, 10], [5, 0, 5], [10, 5, 0]], atol=1e-9)


def test_a_task_is_its_best_pipelines():
    meta = small_meta()
    found = target_representations(meta, 7)
    points = scaled(meta.pipelines, np.ones(len(meta.pipelines), dtype=bool))
    for task, representation in enumerate(found):
        losses = meta.losses[task]
        best = np.argsort(np.where(np.isnan(losses), np.inf, losses))[:7]
        assert {tuple(row) for row in representation} == {tuple(points[i]) for i in best}


def test_numbers_are_in_units_of_their_deviation_and_choices_are_0_or_1():
    meta = small_meta()
    pipelines, space = meta.pipelines, meta.pipelines.space
    tried = np.arange(len(pipelines)) % 2 == 0
    points = scaled(pipelines, tried)
    number = space.columns("estimator", "svm", "C").start
    active = pipelines.active[:, number]
    assert points[active & tried, number].mean() == pytest.approx(0.0, abs=1e-12)
    assert points[active & tried, number].std() == pytest.approx(1.0)
    assert (points[~active, number] == 0).all()
    kernel = space.columns("estimator", "svm", "kernel")
    np.testing.assert_array_equal(points[:, kernel], pipelines.values[:, kernel])


def test_without_pot_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "ot":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingDependency, match=r"headstart\[transport\]"):
        wasserstein_distances([np.zeros((1, 1)), np.zeros((2, 1))])
