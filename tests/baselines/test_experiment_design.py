"""Experiment designs: against brute force, and the relaxation against a general optimiser."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from headstart.baselines.oboe import (
    greedy_design,
    information,
    leverages,
    relaxed_design,
    relaxed_shares,
)

NONE = np.zeros(0, dtype=np.int64)


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def log_det(factors, rows, known):
    return np.linalg.slogdet(known + factors[list(rows)].T @ factors[list(rows)])[1]


def test_leverage_is_what_a_row_adds_to_the_log_determinant(rng):
    factors = rng.normal(size=(10, 3))
    known = information(factors, np.array([1, 4, 7, 8]))
    gains = [log_det(factors, [j], known) - log_det(factors, [], known) for j in range(10)]
    np.testing.assert_allclose(np.log1p(leverages(factors, known)), gains, rtol=1e-6)


def test_every_greedy_step_is_the_best_one(rng):
    factors = rng.normal(size=(20, 4))
    costs = rng.uniform(0.5, 2.0, 20)
    known = information(factors, np.array([3]))
    allowed = np.ones(20, dtype=bool)
    allowed[3] = False
    chosen = greedy_design(factors, known, costs, 6.0, allowed)
    assert costs[chosen].sum() <= 6.0
    left, spent = set(range(20)) - {3}, 0.0
    for step, j in enumerate(chosen):
        fits = [i for i in left if costs[i] <= 6.0 - spent]
        before = log_det(factors, chosen[:step], known)
        best = max(fits, key=lambda i: (log_det(factors, [*chosen[:step], i], known) - before) / costs[i])
        assert j == best
        left.remove(j)
        spent += costs[j]
    assert all(costs[i] > 6.0 - spent for i in left)


@pytest.mark.parametrize("search", [greedy_design, relaxed_design])
def test_designs_are_close_to_the_best_of_all(rng, search):
    for _ in range(5):
        factors = rng.normal(size=(12, 3))
        known = information(factors, np.array([0, 1]))
        allowed = np.ones(12, dtype=bool)
        allowed[:2] = False
        best = max(log_det(factors, rows, known) for rows in itertools.combinations(range(2, 12), 4))
        worst = min(log_det(factors, rows, known) for rows in itertools.combinations(range(2, 12), 4))
        chosen = search(factors, known, np.ones(12), 4.0, allowed)
        assert len(chosen) == len(set(chosen)) == 4
        assert not {0, 1} & set(chosen)
        assert log_det(factors, chosen, known) >= worst + 0.9 * (best - worst)


def test_relaxed_shares_solve_the_relaxed_problem(rng):
    factors = rng.normal(size=(8, 3))
    costs = rng.uniform(0.5, 1.5, 8)
    known = information(factors, np.array([0]))

    def value(shares):
        return np.linalg.slogdet(known + (factors * shares[:, None]).T @ factors)[1]

    reference = minimize(
        lambda v: -value(v),
        np.full(8, 0.3),
        bounds=[(0, 1)] * 8,
        constraints={"type": "ineq", "fun": lambda v: 3.0 - costs @ v},
        method="SLSQP",
    )
    shares = relaxed_shares(factors, known, costs, 3.0, steps=2000)
    assert (shares >= 0).all()
    assert (shares <= 1).all()
    assert costs @ shares <= 3.0 + 1e-9
    assert value(shares) == pytest.approx(-reference.fun, abs=5e-3)


def test_nothing_fits_the_budget(rng):
    factors, allowed = rng.normal(size=(5, 2)), np.ones(5, dtype=bool)
    known = information(factors, NONE)
    for search in (greedy_design, relaxed_design):
        assert search(factors, known, np.full(5, 2.0), 1.0, allowed) == []


def test_fewer_observations_than_factors_and_equal_rows():
    factors = np.repeat(np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]), 4, axis=0)
    known = information(factors, NONE)
    for search in (greedy_design, relaxed_design):
        chosen = search(factors, known, np.ones(12), 3.0, np.ones(12, dtype=bool))
        assert {j // 4 for j in chosen} == {0, 1, 2}
