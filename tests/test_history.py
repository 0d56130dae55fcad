"""Which trial is best, with and without constraints."""

import numpy as np
import pytest

from headstart.constraints import Constraint
from headstart.history import History
from headstart.testing.examples import live_task
from headstart.trials import Fidelity, Outcome, Proposal, Trial

BOUNDS = (Constraint("size", 10.0), Constraint("gap", 0.5))


def history(rows, constraints=BOUNDS):
    task = live_task()
    found = History(task.candidates, constraints=constraints)
    pipelines = task.candidates.sample(np.random.default_rng(0), len(rows))
    for i, (loss, measured) in enumerate(rows):
        outcome = Outcome.failed("crashed", "no") if loss is None else Outcome.of(loss, constraints=measured)
        found.add(Trial(Proposal(i, pipelines[i]), outcome, 0.0, 0.0))
    return found


ROWS = [
    (0.1, {"size": 20.0, "gap": 0.5}),  # twice the size: excess 1
    (None, {}),
    (0.5, {"size": 10.0, "gap": 0.1}),
    (0.0, {"size": 1.0}),  # a gap that was not measured
    (0.3, {"size": 1.0, "gap": 0.5}),
    (0.9, {"size": 11.0, "gap": 0.55}),  # a tenth above both: excess 0.2
    (0.3, {"size": 2.0, "gap": 0.2}),
]


def test_feasible_first_then_by_excess_then_failures():
    found = history(ROWS)
    assert found.order().tolist() == [4, 6, 2, 5, 0, 3, 1]
    ok = [t for t in found if t.outcome.ok]
    assert [t.number for t in sorted(ok, key=found.rank)] == [4, 6, 2, 5, 0, 3]
    assert [found.rank(t)[0] for t in ok] == pytest.approx([1.0, 0.0, np.inf, 0.0, 0.2, 0.0])
    assert found.best.number == 4


def test_without_constraints_order_is_that_of_the_targets():
    found = history(ROWS, ())
    assert found.order().tolist() == np.argsort(found.targets(), kind="stable").tolist()
    assert found.best.number == 3


def test_order_follows_the_targets_of_a_view():
    turned = history(ROWS).view(scalarize=lambda t: -t.outcome.loss)
    assert turned.order().tolist() == [2, 4, 6, 5, 0, 3, 1]


def test_the_best_is_at_full_fidelity():
    found = history(ROWS)
    low = Trial(Proposal(9, found[4].pipeline, fidelity=Fidelity(0.5)), found[4].outcome, 0.0, 0.0)
    found.trials[4] = low
    assert found.best.number == 6
