"""The formulas of the splitting, against brute force and by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from headstart.constraints import Constraint
from headstart.methods.admm.splitting import (
    BOUND,
    FAR,
    FARTHEST,
    Rounding,
    Split,
    Structure,
    best_slacks,
    constraint_penalty,
    in_bounds,
    nearest_value,
)
from headstart.space import Algorithm, Categorical, Float, Integer, PipelineSpace, Stage

PARAMETERS = [
    Integer("n", 1, 50, log=True),
    Integer("n", -3, 7),
    Integer("n", 100, 101),
    Categorical("n", (1, 10, 100, 1000), ordered=True),
]


def numbers():
    params = [
        Integer("i", 0, 4),
        Float("c", 0, 1),
        Categorical("o", ("a", "b", "c"), ordered=True),
        Categorical("k", (1, 2)),
    ]
    return PipelineSpace("numbers", [Stage("one", [Algorithm("all", params=params), Algorithm("none")])])


@pytest.mark.parametrize("parameter", PARAMETERS)
@settings(max_examples=50, deadline=None)
@given(point=st.floats(-0.5, 1.5))
def test_projection_is_the_nearest_of_all_values(parameter, point):
    ordered = isinstance(parameter, Categorical)
    values = parameter.choices if ordered else list(range(parameter.low, parameter.high + 1))
    units = parameter.to_unit(values)[:, 0]
    found = nearest_value(parameter, np.array([point]))[0]
    assert found in units
    assert abs(found - point) == pytest.approx(np.abs(units - point).min(), abs=1e-12)


def test_only_finite_numbers_and_ordered_choices_are_relaxed():
    rounding = Rounding(numbers())
    np.testing.assert_array_equal(rounding.relaxed, [True, False, True, False, False])
    np.testing.assert_allclose(rounding(np.array([0.4, 0.4, 0.4, 0.4, 0.6])), [0.5, 0.4, 0.5, 0.4, 0.6])


def test_multipliers_by_hand():
    """Two iterations of equations 8, 11 and A17 on one integer with values 0, ¼, ½, ¾, 1 and ρ = 2."""
    space, rho, columns = numbers(), 2.0, np.arange(5)
    rounding = Rounding(space)
    split = Split.at(Structure(("all",)), np.array([0.25, 0.1, 0.0, 1.0, 0.0]), rounding, 0)
    split = split.after_theta(np.array([0.35, 0.7, 0.0, 1.0, 0.0]), columns, rounding, rho)
    # a = 0.35, δ = 0.25, λ = 2 (0.35 − 0.25)
    assert split.rounded[0] == pytest.approx(0.25)
    assert split.multipliers[0] == pytest.approx(0.2)
    assert split.target(rho)[0] == pytest.approx(0.25 - 0.1)
    point = np.array([0.3, 0.7, 0.0, 1.0, 0.0])
    assert split.distance_penalty(point, columns, rounding, rho) == pytest.approx((0.3 - 0.15) ** 2)
    split = split.after_theta(point, columns, rounding, rho)
    # a = 0.3 + 0.1 = 0.4, δ = 0.5, λ = 0.2 + 2 (0.3 − 0.5)
    assert split.rounded[0] == pytest.approx(0.5)
    assert split.multipliers[0] == pytest.approx(-0.2)
    np.testing.assert_array_equal(split.multipliers[[1, 3, 4]], 0.0)


def test_inactive_hyper_parameters_are_projected_and_carried_over():
    """Equation 9: an inactive integer goes to b, inside of its interval; a real number stays."""
    rounding = Rounding(numbers())
    split = Split.at(Structure(("none",)), np.array([0.25, 0.1, 0.5, 1.0, 0.0]), rounding, 0)
    split.multipliers[0] = 0.6
    after = split.after_theta(np.zeros(0), np.zeros(0, dtype=int), rounding, 1.0)
    assert after.theta[0] == 0.0  # 0.25 − 0.6 is outside
    np.testing.assert_allclose(after.theta[1:], split.theta[1:])


@settings(max_examples=100, deadline=None)
@given(value=st.floats(0, 2 * BOUND), price=st.floats(-30, 30), rho=st.floats(0.1, 10))
def test_slacks_are_in_their_box_and_best(value, price, rho):
    values, prices = np.array([value]), np.array([price])
    slacks = best_slacks(values, prices, rho)
    assert 0 <= slacks[0] <= BOUND

    def penalty(u):
        return constraint_penalty(values, np.array([u]), prices, rho)

    found = minimize_scalar(penalty, bounds=(0, BOUND), method="bounded").fun
    assert penalty(slacks[0]) <= found + 1e-9 * (1 + found)


def test_prices_by_hand():
    """Equation A29 with ρ = 2: a bound that is exceeded by a tenth raises its price, one that holds does not."""
    rounding = Rounding(numbers())
    split = Split.at(Structure(("none",)), np.zeros(5), rounding, 2)
    constraints = [Constraint("latency", 0.01), Constraint("size", 1000)]
    values = in_bounds(constraints, {"latency": 0.011, "size": 600})
    np.testing.assert_allclose(values, [11, 6])
    slacks = best_slacks(values, split.prices, 2.0)
    np.testing.assert_allclose(slacks, [0, 4])
    split = split.after_theta(np.zeros(0), np.zeros(0, dtype=int), rounding, 2.0)
    split = split.after_z(split.structure, values, 2.0)
    np.testing.assert_allclose(split.prices, [2, 0])
    # The same violation costs more now: ρ/2 (1 + 2/ρ)².
    assert constraint_penalty(values, best_slacks(values, split.prices, 2.0), split.prices, 2.0) == pytest.approx(4)


def test_measured_values_are_counted_from_one_bound_below_the_bound():
    bounds = [Constraint("a", 0.0), Constraint("b", -2.0), Constraint("c", 5.0), Constraint("d", 1.0)]
    values = in_bounds(bounds, {"a": 0.1, "b": -3.0, "c": 1e9})
    farthest = BOUND + FAR + np.log(FARTHEST / FAR)
    np.testing.assert_allclose(values, [11, 5, farthest, farthest])


def test_what_exceeds_a_bound_by_far_counts_by_its_logarithm():
    counted = [in_bounds([Constraint("a", 2.0)], {"a": 2.0 * k})[0] for k in (1, 1.3, 1.6, 7)]
    np.testing.assert_allclose(counted, [10, 13, 13 + np.log(2), 13 + np.log(20)])


def test_prices_follow_the_multiplier_of_an_inequality():
    """With the best slack the update is μ ← max(0, μ + ρ (g − ε)), as long as the slack is not at its other end."""
    rounding = Rounding(numbers())
    split = replace(Split.at(Structure(("none",)), np.zeros(5), rounding, 3), prices=np.array([0.5, 0.5, 0.5]))
    values = np.array([10.25, 9.9, 2.0])
    np.testing.assert_allclose(best_slacks(values, split.prices, 2.0), [0.0, 0.0, 7.75])
    np.testing.assert_allclose(split.after_z(split.structure, values, 2.0).prices, [1.0, 0.3, 0.0])
