"""The order of a portfolio, and what is promoted after a first look."""

import numpy as np

from headstart.constraints import Constraint
from headstart.optimizers.portfolio import Portfolio
from headstart.space.catalog import load
from headstart.space.catalog.portfolios import portfolio
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


def test_promotes_all_along_the_list():
    space = small_space()
    pipelines = list(space.sample(np.random.default_rng(0), 60).unique()[:9])
    optimizer = Portfolio(pipelines, screen=Fidelity(0.5), promote=3).start(Task(space))
    order = []
    for _ in range(12):
        (proposal,) = optimizer.ask(1)
        place = pipelines.index(proposal.pipeline)
        order.append((place, proposal.fidelity.is_full))
        optimizer.tell(Trial(proposal, Outcome.of(abs(place - 4.2)), 0.0, 0.0))  # 4 is the best, then 5, then 3
    screened = [(place, False) for place in range(9)]
    assert order == [*screened[:3], (2, True), *screened[3:6], (4, True), *screened[6:], (5, True)]


def test_forests_come_last_on_large_tables():
    space = load("classification")
    small, large = (portfolio(space, rows) for rows in (10_000, 10_001))
    assert portfolio(space) == small
    assert {p.algorithms[-1] for p in set(small[1:]) - set(large)} == {"kernel_svm"}
    assert [p.algorithms[-1] for p in large[-5:-2]] == ["random_forest", "extra_trees", "knn"]
    first = [dict(p.params[-1]) for p in large[:2]]
    assert [(p["num_leaves"], p["subsample"], p["colsample_bytree"]) for p in first] == [(31, 1.0, 1.0), (15, 1.0, 1.0)]
