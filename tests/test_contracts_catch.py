"""The public contract tests catch plug-ins that are broken: a test that cannot fail is a defect."""

import sys

import numpy as np
import pytest

from headstart.optimizers.random import RandomSearch, draw_untried
from headstart.surrogates.base import Prediction
from headstart.surrogates.gp import GPSurrogate
from headstart.testing import OptimizerContract, SurrogateContract
from headstart.trials import Proposal


class GlobalRandom(RandomSearch):
    def suggest(self, number, rng):
        return Proposal(number, self.task.candidates.sample(np.random.default_rng(), 1)[0])


class CountsItsSuggestions(RandomSearch):
    calls = 0

    def suggest(self, number, rng):
        self.calls += 1
        if self.calls % 15 == 0:
            rng.random(3)
        return super().suggest(number, rng)


class ForgetsPending(RandomSearch):
    def suggest(self, number, rng):
        waiting, self.history.pending = self.history.pending, {}
        try:
            found = draw_untried(self.history, np.random.default_rng([self.seed, len(self.history)]))
        finally:
            self.history.pending = waiting
        return Proposal(number, found[0])


class SortsTheHistory(RandomSearch):
    def suggest(self, number, rng):
        self.history.trials.sort(key=lambda t: -t.number)
        return super().suggest(number, rng)


class LeaksBetweenRuns(RandomSearch):
    seen = []  # noqa: RUF012 (that is the defect)

    def observe(self, trial):
        self.seen.append(trial)

    def suggest(self, number, rng):
        if number == 20 and len(self.seen) % 2:
            rng.random(3)
        return super().suggest(number, rng)


class IgnoresTargets(GPSurrogate):
    def fit(self, history):
        return super().fit(history.where(lambda t: True, lambda t: float(t.outcome.loss or 0.0)))


class CountsFailuresAsZero(GPSurrogate):
    def fit(self, history):
        full = history.where(lambda t: True)
        full.targets = lambda: np.where([t.outcome.ok for t in history], history.targets(), 0.0)
        return super().fit(full)


class RemembersFits(GPSurrogate):
    fits = 0

    def fit(self, history):
        self.fits += 1
        return super().fit(history)

    def predict(self, encoded):
        found = super().predict(encoded)
        return Prediction(found.mean, found.std * self.fits)


class ClearsPending(GPSurrogate):
    def fit(self, history):
        history.pending.clear()
        return super().fit(history)


def failures(contract, make, tmp_path):
    """Names of the contract's tests that fail for a part."""
    holder = type("Holder", (contract,), {"make": lambda self, *_: make(), "__test__": False})
    caught = []

    class Catch:
        def pytest_runtest_logreport(self, report):
            if report.failed and report.when == "call":
                caught.append(report.nodeid)

    name = f"plugin_{make.__name__.lower()}"  # modules are remembered by name
    module = type(sys)(name)
    module.TestBroken = type("TestBroken", (holder,), {"__test__": True, "__module__": name})
    sys.modules[name] = module
    (tmp_path / f"test_{name}.py").write_text(f"from {name} import TestBroken\n")
    options = ["-x", "-q", "-p", "no:cacheprovider", "--no-header", "-c", "/dev/null", "--import-mode=importlib"]
    options += [
        "-k",
        "deterministic or suggesting or rebuilt or parallel or disturb or forget or given or targets or failure_is",
    ]  # for speed
    assert pytest.main([*options, str(tmp_path)], [Catch()]) in (0, 1)
    return caught


@pytest.mark.parametrize(
    "broken", [GlobalRandom, CountsItsSuggestions, ForgetsPending, SortsTheHistory, LeaksBetweenRuns]
)
def test_broken_optimizers_are_caught(broken, tmp_path):
    assert failures(OptimizerContract, broken, tmp_path)


@pytest.mark.parametrize("broken", [IgnoresTargets, CountsFailuresAsZero, RemembersFits, ClearsPending])
def test_broken_surrogates_are_caught(broken, tmp_path):
    assert failures(SurrogateContract, broken, tmp_path)


def test_sound_ones_are_not(tmp_path):
    assert not failures(OptimizerContract, RandomSearch, tmp_path)
