"""DMFBS under the public contract: with tables and with fixed meta-features, zero-shot, tuned, and as an ensemble."""

import pytest

from headstart.methods.dmfbs import DMFBS
from headstart.testing import OptimizerContract, SurrogateContract

pytest.importorskip("torch")
EXTRACTOR = "dataset2vec(outputs=4, units=8, blocks=1, depth=1)"
QUICK = {"extractor": EXTRACTOR, "steps": 3, "training": {"n_tasks": 2}, "fine_tune_steps": 40}


class TestZeroShot(SurrogateContract):
    learns = False

    def make(self):
        return DMFBS(**QUICK, fine_tune="none")


class TestRegressor(SurrogateContract):
    def make(self):
        return DMFBS(**QUICK, fine_tune="regressor")


class TestAll(SurrogateContract):
    def make(self):
        return DMFBS(**QUICK, fine_tune="all")


class TestFixedMetaFeatures(SurrogateContract):
    def make(self):
        return DMFBS(metafeatures="example", steps=3, fine_tune_steps=40)


class TestEnsemble(SurrogateContract):
    def make(self):
        return DMFBS(metafeatures="example", steps=3, members=5, fine_tune_steps=40)


class TestOptimizer(OptimizerContract):
    seeded = False  # a pool is scored as a whole, and the lowest prediction taken

    def make(self, task):
        from headstart.optimizers.bayes import Bayes

        return Bayes(DMFBS(**{**QUICK, "fine_tune_steps": 5}), n_samples=50, n_starts=1)
