"""ADMM and its bandit under the public contract."""

from headstart.methods.admm import ADMM, CombinatorialBandit
from headstart.optimizers.bayes import Bayes
from headstart.testing import OptimizerContract

QUICK = Bayes("gp", n_samples=50, n_starts=1, n_polished=1, n_initial=2)


class TestADMM(OptimizerContract):
    waits = True

    def make(self, task):
        return ADMM(QUICK, budget=3, growth=1)


class TestADMMWithOtherSolvers(OptimizerContract):
    waits = True

    def make(self, task):
        return ADMM("random", QUICK, budget=3, growth=0, loss_scale=1.0)


class TestBandit(OptimizerContract):
    def make(self, task):
        return CombinatorialBandit()


class TestADMMWithDirectSearchAndHalving(OptimizerContract):
    waits = True
    endless = False  # it may try a pipeline again at another fidelity

    def make(self, task):
        return ADMM("direct_search", "successive_halving", budget=5, growth=0)


class TestADMMWithTrustRegionAndEnumeration(OptimizerContract):
    waits = True
    seeded = False

    def make(self, task):
        return ADMM("trust_region", "enumeration", budget=4, growth=0)
