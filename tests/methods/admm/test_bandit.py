import itertools

import numpy as np
import pytest

from headstart.methods.admm import CombinatorialBandit
from headstart.optimizers.base import Optimizer
from headstart.space import Algorithm, PipelineSpace, Stage
from headstart.study import Study
from headstart.task import Task
from headstart.trials import Outcome, Proposal


def arms(free_order=False, forbidden=()):
    stages = [Stage(s, [Algorithm(f"{s}{i}") for i in range(3)]) for s in "ab"]
    return PipelineSpace("arms", [*stages, Stage("c", [Algorithm("c0"), Algorithm("c1")])], forbidden, free_order)


class Given(Optimizer):
    """Structures in turn, as often as it takes."""

    def suggest(self, number, rng):
        pipelines = [self.task.space.sample(np.random.default_rng(k), 1)[0] for k in range(40)]
        return Proposal(number, pipelines[number])


def losses(pipeline, limits, seed, fidelity=None):
    return Outcome.of(0.1 if pipeline.algorithms[0] == "a1" else 0.6)


def pulls_of(bandit, space, n, rng):
    study = Study(Task(space), losses, Given())
    study.run(evaluations=40)
    started = bandit.start(Task(space), 0, study.history)
    return started, [started.pull(rng) for _ in range(n)]


def test_chances_are_those_of_the_paper():
    started, _ = pulls_of(CombinatorialBandit(upper=0.7), arms(), 0, np.random.default_rng(0))
    expected = [1 - min(max(t.outcome.loss / 0.7, 0), 1) for t in started.history]
    np.testing.assert_allclose(started.chances(), expected)


@pytest.mark.parametrize("drawn", [True, False])
def test_the_better_arm_is_pulled_more_often(drawn):
    """Against the chance that its Beta draw is the largest, by simulation from counts made independently."""
    bandit = CombinatorialBandit(upper=0.7, prior=1.0, drawn=drawn)
    started, pulled = pulls_of(bandit, arms(), 400, np.random.default_rng(0))
    share = np.mean([p.algorithms[0] == "a1" for p in pulled])
    won, lost = np.zeros(3), np.zeros(3)
    for trial in started.history:
        arm = int(trial.pipeline.algorithms[0][1])
        reward = 1 - trial.outcome.loss / 0.7
        if drawn:
            reward = float(started.stream(trial.number).random() < reward)
        won[arm] += reward
        lost[arm] += 1 - reward
    draws = np.random.default_rng(1).beta(1 + won, 1 + lost, size=(20_000, 3))
    assert share == pytest.approx(np.mean(draws.argmax(axis=1) == 1), abs=0.08)
    assert share > 0.6


def test_forbidden_combinations_are_never_pulled():
    space = arms(forbidden=[{"a": ["a0", "a1"], "c": ["c1"]}])
    _, pulled = pulls_of(CombinatorialBandit(), space, 100, np.random.default_rng(0))
    assert not any(p.algorithms[0] in ("a0", "a1") and p.algorithms[2] == "c1" for p in pulled)


def test_an_order_is_an_assignment_of_stages_to_places():
    """Every pull is an order of the space, and one that was rewarded is pulled more often."""
    space = arms(free_order=True)

    def by_order(pipeline, limits, seed, fidelity=None):
        return Outcome.of(0.0 if pipeline.order[:2] == (1, 0) else 1.0)

    study = Study(Task(space), by_order, Given())
    study.run(evaluations=40)
    bandit = CombinatorialBandit(upper=1.0, prior=1.0).start(Task(space), 0, study.history)
    orders = [bandit.pull(np.random.default_rng(k)).order for k in range(50)]
    assert set(orders) <= set(space.orders) <= set(itertools.permutations(range(3)))
    assert np.mean([order[:2] == (1, 0) for order in orders]) > 0.9
