"""Every optimizer, and the fakes that stand for the kinds to come, under the public contract."""

import numpy as np
from fakes import MultiStepOptimizer, SplittingOptimizer, TransductiveSurrogate, TreeOptimizer

from headstart.optimizers.bayes import Bayes
from headstart.optimizers.direct import DirectSearch, TrustRegion
from headstart.optimizers.enumeration import Enumeration
from headstart.optimizers.halving import SuccessiveHalving
from headstart.optimizers.portfolio import Default, Portfolio
from headstart.optimizers.random import RandomSearch
from headstart.surrogates.forest import ForestSurrogate
from headstart.testing import OptimizerContract
from headstart.testing.examples import evaluate, live_task
from headstart.trials import Fidelity


class TestRandom(OptimizerContract):
    def make(self, task):
        return RandomSearch()


class TestPortfolio(OptimizerContract):
    endless = False
    seeded = False

    def make(self, task):
        return Portfolio(task.candidates.sample(np.random.default_rng(0), 60).unique()[:40])


class TestPortfolioThenRandom(OptimizerContract):
    def make(self, task):
        return Portfolio(task.candidates.sample(np.random.default_rng(0), 4).unique(), then="random")


class TestScreenedPortfolio(OptimizerContract):
    waits = True
    endless = False  # it tries pipelines again at full fidelity

    def make(self, task):
        pipelines = task.candidates.sample(np.random.default_rng(0), 6).unique()
        return Portfolio(pipelines, then="random", screen=Fidelity(0.5), promote=2)


class TestDefault(OptimizerContract):
    def make(self, task):
        optimizer = Default()
        optimizer.then = Bayes(n_samples=100, n_starts=2)
        return optimizer


class TestBayesWithForest(OptimizerContract):
    def make(self, task):
        return Bayes(ForestSurrogate(n_trees=5), n_samples=100, n_starts=2)


class TestBayesWithGP(OptimizerContract):
    def make(self, task):
        return Bayes("gp", n_samples=100, n_starts=1)


class TestBayesWithRandomShare(OptimizerContract):
    def make(self, task):
        surrogate = ForestSurrogate(n_trees=3)
        return Bayes(surrogate, acquisition="greedy", n_samples=50, n_starts=0, n_initial=2, random_share=0.5)


class TestDirectSearch(OptimizerContract):
    def make(self, task):
        return DirectSearch()


class TestTrustRegion(OptimizerContract):
    def make(self, task):
        return TrustRegion()


class TestEnumeration(OptimizerContract):
    seeded = False

    def make(self, task):
        return Enumeration()


class TestSuccessiveHalving(OptimizerContract):
    endless = False  # it tries pipelines again at another fidelity

    def make(self, task):
        return SuccessiveHalving()


class TestTransductive(OptimizerContract):
    live = False

    def make(self, task):
        return Bayes(TransductiveSurrogate(), n_initial=1)


class TestTree(OptimizerContract):
    def make(self, task):
        return TreeOptimizer()


class TestMultiStep(OptimizerContract):
    waits = True
    endless = False  # it may try a pipeline again at another fidelity

    def make(self, task):
        return MultiStepOptimizer()


class TestSplitting(OptimizerContract):
    waits = True

    def make(self, task):
        return SplittingOptimizer(Bayes("gp", n_samples=50, n_starts=1, n_initial=2))


def test_a_sub_solver_sees_the_lagrangian_of_relaxed_values():
    """Targets and encoding of a view, against the formula by hand, after the multipliers have changed."""
    optimizer = SplittingOptimizer(RandomSearch()).start(live_task(), 3)
    for _ in range(9):
        (proposal,) = optimizer.ask(1)
        optimizer.tell(evaluate(proposal, optimizer.task, 3))
    view = optimizer._solver.history
    assert view.trials is optimizer.history.trials
    relaxed = np.array([t.proposal.origin["relaxed"] for t in optimizer.history])
    np.testing.assert_allclose(view.encoded.values, relaxed, atol=1e-8)
    assert np.abs(optimizer._multipliers).sum() > 0
    apart = relaxed - optimizer._snapped
    losses = np.array([t.outcome.loss for t in optimizer.history])
    np.testing.assert_allclose(
        view.targets(), losses + apart @ optimizer._multipliers + 0.5 * (apart**2).sum(axis=1), atol=1e-12
    )
    assert len(optimizer.history.encoded.values[0]) == optimizer.task.space.width
