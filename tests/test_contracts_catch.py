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


class HidesItsUnit(GPSurrogate):
    """Learns logarithms, and lets expected improvement compare them with targets."""

    def fit(self, history):
        return super().fit(history.where(lambda t: True, lambda t: float(np.log(1e-4 * float(t.outcome.loss or 1.0)))))


class CountsBackwards(GPSurrogate):
    def transform_targets(self, targets):
        return -targets


OPTIMIZERS = {
    GlobalRandom: "test_is_deterministic",
    CountsItsSuggestions: "test_is_rebuilt_from_its_log",
    ForgetsPending: "test_answers_parallel_asks",
    SortsTheHistory: "test_suggesting_changes_nothing",
    LeaksBetweenRuns: "test_runs_do_not_disturb_each_other",
}
SURROGATES = {
    IgnoresTargets: "test_learns_the_targets_of_the_history_not_the_losses",
    CountsFailuresAsZero: "test_a_failure_is_no_success",
    RemembersFits: "test_fit_forgets_earlier_fits",
    ClearsPending: "test_fit_and_predict_change_nothing_they_are_given",
    HidesItsUnit: "test_predicts_in_the_unit_that_it_says",
    CountsBackwards: "test_predicts_in_the_unit_that_it_says",
}
"""What is broken, and the contract's test that has to catch it."""


def failures(contract, make, tests, tmp_path):
    """Kinds of tasks on which some of these tests of the contract fail for a part."""
    holder = type("Holder", (contract,), {"make": lambda self, *_: make(), "__test__": False})
    ran, caught = set(), set()

    class Catch:
        def pytest_runtest_logreport(self, report):
            if report.when == "call":
                test, _, case = report.nodeid.rpartition("::")[2].partition("[")
                ran.add(test)
                if report.failed:
                    caught.update({"live", "pool"} & set(case.rstrip("]").split("-")))

    name = f"plugin_{make.__name__.lower()}"  # modules are remembered by name
    module = type(sys)(name)
    module.TestBroken = type("TestBroken", (holder,), {"__test__": True, "__module__": name})
    sys.modules[name] = module
    file = tmp_path / f"test_{name}.py"
    file.write_text(f"from {name} import TestBroken\n")
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-c", "/dev/null", "--import-mode=importlib"]
    assert pytest.main([*options, *(f"{file}::TestBroken::{test}" for test in tests)], [Catch()]) in (0, 1)
    assert ran == set(tests)
    return caught


@pytest.mark.parametrize(("broken", "test"), OPTIMIZERS.items())
def test_broken_optimizers_are_caught(broken, test, tmp_path):
    assert failures(OptimizerContract, broken, [test], tmp_path) == {"live", "pool"}


@pytest.mark.parametrize(("broken", "test"), SURROGATES.items())
def test_broken_surrogates_are_caught(broken, test, tmp_path):
    assert failures(SurrogateContract, broken, [test], tmp_path) == {"live", "pool"}


@pytest.mark.parametrize(
    ("contract", "sound", "tests"),
    [
        (OptimizerContract, RandomSearch, OPTIMIZERS.values()),
        (SurrogateContract, GPSurrogate, dict.fromkeys(SURROGATES.values())),
    ],
)
def test_sound_ones_are_not(contract, sound, tests, tmp_path):
    assert failures(contract, sound, tests, tmp_path) == set()
