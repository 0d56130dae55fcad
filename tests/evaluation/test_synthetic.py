"""The synthetic objective and the bound of the contract tests."""

import numpy as np
import pytest

from headstart.evaluation.synthetic import Synthetic
from headstart.testing.examples import bounded, live_task, pool_task, random_trials, small_space
from headstart.trials import Limits


def test_a_constraint_changes_nothing_else():
    plain, other = (Synthetic(small_space(), 4, 0.1, 0.2, constraint=name) for name in (None, "cost"))
    for i, pipeline in enumerate(small_space().sample(np.random.default_rng(0), 20)):
        one, two = (f(pipeline, Limits(), i) for f in (plain, other))
        assert (one.status, one.loss) == (two.status, two.loss)
        assert one.constraints == {}
        if two.ok:
            assert two.constraints == other(pipeline, Limits(), i + 1).constraints  # no noise
            assert two.constraints["cost"] == pytest.approx(Synthetic(small_space(), 5)(pipeline, Limits(), 0).loss)


@pytest.mark.parametrize("task", [live_task(), pool_task()])
def test_about_a_third_of_the_pipelines_are_within_the_bound(task):
    (constraint,) = bounded(task).constraints
    trials = random_trials(bounded(task), 400, failing=0.0)
    within = np.mean([t.outcome.constraints[constraint.name] <= constraint.upper for t in trials])
    assert 0.25 < within < 0.5
