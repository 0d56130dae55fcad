"""Reptile by hand on parabolas, and what tasks are drawn and judged by."""

import numpy as np
import pytest

from headstart.errors import NumericalError
from headstart.learning.training import Training, train
from headstart.methods.dmfbs.network import regressor
from headstart.methods.dmfbs.surrogate import _another, _validation_loss
from headstart.methods.dmfbs.training import KnownTask, Reptile, adapted, known_tasks, sample
from headstart.testing.examples import small_meta

CENTERS = np.array([1.0, 3.0, -2.0])


def reptile(rng, rate=0.5, steps=1, outer=1.0, gradient=None):
    """Tasks are (x - c)² with three centers."""

    def adapt(parameters, task, stream):
        slope = gradient or (lambda at, _: {"x": 2 * (at["x"] - CENTERS[task])})
        return adapted(parameters, slope, steps, rate, stream)

    return Reptile({"x": np.array([0.0])}, adapt, 3, 4, lambda p: float((p["x"][0] - 1.0) ** 2), outer, rng)


def test_a_step_goes_a_share_of_the_way_to_the_mean_of_what_tasks_reach():
    rng, same = np.random.default_rng(5), np.random.default_rng(5)
    model = reptile(rng, outer=2.0)
    model.step(0, 0.1)
    drawn = same.integers(3, size=4)
    # One step of Adam with β₁ = 0 goes rate · g / |g|.
    reached = 0.5 * np.sign(CENTERS[drawn])
    assert model.adam.parameters["x"][0] == pytest.approx(2.0 * 0.1 * reached.mean())


def test_several_inner_steps_are_those_of_adam_without_momentum():
    at, second, x = 0.3, 0.999, 2.0
    square = 0.0
    for t in range(1, 4):
        slope = 2 * (x - 1.0)
        square = second * square + (1 - second) * slope**2
        x -= at * slope / (np.sqrt(square / (1 - second**t)) + 1e-8)
    given = {"x": np.array([2.0])}
    rng = np.random.default_rng(0)
    found = adapted(given, lambda p, _: {"x": 2 * (p["x"] - 1.0)}, 3, at, rng)
    assert found["x"][0] == pytest.approx(x)
    assert given["x"][0] == 2.0


def test_what_has_no_derivative_stays():
    given = {"x": np.ones(1), "y": np.ones(2)}
    found = adapted(given, lambda p, _: {"x": p["x"]}, 2, 0.1, np.random.default_rng(0))
    np.testing.assert_array_equal(found["y"], 1.0)
    assert found["x"][0] < 1.0


def test_training_finds_where_all_tasks_are_soon_reached():
    rng = np.random.default_rng(0)
    found = train(reptile(rng, rate=0.1, steps=5), 200, Training(0.1, final_rate=1.0, check_every=10), rng)
    assert found.parameters["x"][0] == pytest.approx(1.0, abs=0.3)


def test_parameters_that_are_not_finite_end_the_training():
    model = reptile(np.random.default_rng(0), gradient=lambda p, _: {"x": np.array([np.nan])})
    with pytest.raises(NumericalError, match="not finite"):
        model.step(0, 0.1)


def test_a_negative_is_never_the_task_itself():
    rng = np.random.default_rng(0)
    for known in (2, 3, 7):
        for place in range(known):
            drawn = {_another(place, known, rng) for _ in range(200)}
            assert drawn == set(range(known)) - {place}


def test_few_observations_are_drawn_more_than_once_and_many_never():
    rng = np.random.default_rng(0)
    assert len(set(sample(rng, 100, 16))) == 16
    few = sample(rng, 3, 16)
    assert len(few) == 16
    assert set(few) <= {0, 1, 2}


def test_the_validation_loss_is_the_squared_error_of_the_first_predictions():
    rng = np.random.default_rng(0)
    tasks = [KnownTask(rng.standard_normal(3), np.array([0, 2]), rng.standard_normal(2)) for _ in range(2)]
    network, points = regressor(3, 4), rng.standard_normal((3, 4))
    parameters = network.initial(rng)
    errors = [
        (network(parameters, np.append(task.about, points[column])[None])[0, 0] - target) ** 2
        for task in tasks
        for column, target in zip(task.columns, task.targets, strict=True)
    ]
    found = _validation_loss(network, parameters, tasks, [task.about for task in tasks], points)
    assert found == pytest.approx(np.mean(errors))


def test_tasks_are_standardised_and_those_without_a_table_left_out():
    meta = small_meta()
    found = known_tasks(meta, ["a", None, "c", "d", None, "f"])
    assert [task.about for task in found] == ["a", "c", "d", "f"]
    for task in found:
        assert task.targets.mean() == pytest.approx(0.0, abs=1e-12)
        assert task.targets.std() == pytest.approx(1.0)
    row = meta.loss_row(2)
    np.testing.assert_array_equal(found[1].columns, np.flatnonzero(np.isfinite(row)))
    np.testing.assert_array_equal(np.argsort(row[found[1].columns]), np.argsort(found[1].targets))
