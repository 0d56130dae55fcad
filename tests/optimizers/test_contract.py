"""Every optimizer, and the fakes that stand for the kinds to come, under the public contract."""

import numpy as np
from fakes import MultiStepOptimizer, TransductiveSurrogate, TreeOptimizer

from headstart.optimizers.bayes import Bayes
from headstart.optimizers.portfolio import Default, Portfolio
from headstart.optimizers.random import RandomSearch
from headstart.surrogates.forest import ForestSurrogate
from headstart.testing import OptimizerContract
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
        return Default()


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
