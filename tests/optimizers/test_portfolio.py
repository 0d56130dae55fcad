"""What is promoted after a first look."""

import numpy as np

from headstart.constraints import Constraint
from headstart.optimizers.portfolio import Portfolio
from headstart.task import Task
from headstart.testing.examples import small_space
from headstart.trials import Fidelity, Outcome, Trial


def test_promotes_what_satisfies_the_constraints_first():
    space = small_space()
    pipelines = list(space.sample(np.random.default_rng(0), 40).unique()[:5])
    optimizer = Portfolio(pipelines, screen=Fidelity(0.5), promote=4).start(
        Task(space, constraints=[Constraint("size", 10.0)])
    )
    seen = [(0.1, 30.0), (0.9, 5.0), (0.2, 12.0), (0.5, 10.0), (None, 1.0)]
    for proposal, (loss, size) in zip(optimizer.ask(5), seen, strict=True):
        assert not proposal.fidelity.is_full
        outcome = Outcome.failed("crashed", "no") if loss is None else Outcome.of(loss, constraints={"size": size})
        optimizer.tell(Trial(proposal, outcome, 0.0, 0.0))
    assert [pipelines.index(p.pipeline) for p in optimizer.ask(4)] == [3, 1, 2, 0]
