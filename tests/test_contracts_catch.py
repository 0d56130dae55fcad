"""The public contract tests catch plug-ins that are broken: a test that cannot fail is a defect."""

import sys
from types import MappingProxyType

import numpy as np
import pytest
from fakes import ColumnMeans

from headstart.constraints import total_excess
from headstart.learning.base import Needs
from headstart.metafeatures.base import MetaFeatures
from headstart.optimizers.random import RandomSearch, draw_untried, tried_ids, untried
from headstart.surrogates.base import Prediction
from headstart.surrogates.gp import GPSurrogate
from headstart.testing import MetaFeaturesContract, OptimizerContract, SurrogateContract
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
        if number == 12 and len(self.seen) % 2:
            rng.random(3)
        return super().suggest(number, rng)


class TakesABestForGranted(RandomSearch):
    """Under a bound there may be trials that are ok and none of them feasible."""

    def suggest(self, number, rng):
        if any(trial.outcome.ok for trial in self.history):
            near = self.task.candidates.neighbours(self.history.best.pipeline, rng)
            return Proposal(number, untried(near, tried_ids(self.history))[0])
        return super().suggest(number, rng)


class ReadsTheTableInSecret(RandomSearch):
    def suggest(self, number, rng):
        if self.task.dataset is not None:
            rng.random(self.task.dataset.n_rows)
        return super().suggest(number, rng)


class ReadsMetaFeaturesInSecret(RandomSearch):
    def prepare(self):
        self._seen = self.task.metafeatures["example"]


class FillsTheTable(RandomSearch):
    def prepare(self):
        if self.task.dataset is not None:
            self.task.dataset.X["c0"] = self.task.dataset.X["c0"].fillna(0.0)


class NeverMissesTheTable(RandomSearch):
    """Says that it needs one, and starts without."""

    needs = Needs(table=True)


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


class WeighsTheBoundToo(GPSurrogate):
    def fit(self, history):
        def weighed(trial):
            return float(trial.outcome.loss) + 10 * total_excess(history.constraints, trial.outcome.constraints)

        return super().fit(history.where(lambda _: True, weighed))


class FollowsItsSearch(GPSurrogate):
    """Less and less certain with each fit, as one is that goes on where the fit before ended."""

    fits = 0

    def fit(self, history):
        self.fits += 1
        return super().fit(history)

    def predict(self, encoded):
        found = super().predict(encoded)
        return Prediction(found.mean, found.std * 2.0**self.fits)


class LearnsFromWhatItIsNotTold(GPSurrogate):
    """Counts the rows of the table among the targets."""

    def fit(self, history):
        rows = 0 if self.task.dataset is None else self.task.dataset.n_rows
        return super().fit(history.where(lambda t: True, lambda t: float(t.outcome.loss) + rows))


class SpoilsTheTable(GPSurrogate):
    def start(self, task):
        if task.dataset is not None:
            task.dataset.X["c0"] = 0.0
        return super().start(task)


class GoesWithoutMetaFeatures(GPSurrogate):
    needs = Needs(metafeatures=frozenset({"example"}))


class TakesLearningForGranted(GPSurrogate):
    def meta_fit(self, meta):
        self._tasks = len(meta)
        return self

    def predict(self, encoded):
        found = super().predict(encoded)
        return Prediction(found.mean, found.std + 0.0 * self._tasks)


class TakesTheSpaceForGranted(GPSurrogate):
    _slopes = None

    def meta_fit(self, meta):
        self._slopes = np.zeros(meta.pipelines.features().shape[1])
        return self

    def predict(self, encoded):
        found = super().predict(encoded)
        return found if self._slopes is None else Prediction(found.mean + encoded.features() @ self._slopes, found.std)


class NoTwoAlike(MetaFeatures):
    """Describes a table by what was described before."""

    calls = 0

    def transform(self, dataset, metafeatures=MappingProxyType({})):
        self.calls += 1
        return np.array([float(dataset.n_rows), float(self.calls)])


class WantsAllTables(MetaFeatures):
    def meta_fit(self, meta):
        self._rows = np.mean([meta.dataset(task).n_rows for task in range(len(meta))])
        self.meta_key = meta.key
        return self

    def transform(self, dataset, metafeatures=MappingProxyType({})):
        return np.array([dataset.n_rows / self._rows, 1.0])


OPTIMIZERS = {
    GlobalRandom: "test_is_deterministic",
    CountsItsSuggestions: "test_is_rebuilt_from_its_log",
    ForgetsPending: "test_answers_parallel_asks",
    SortsTheHistory: "test_suggesting_changes_nothing",
    LeaksBetweenRuns: "test_runs_do_not_disturb_each_other",
    TakesABestForGranted: "test_searches_under_a_bound_that_bites",
    ReadsTheTableInSecret: "test_reads_of_a_task_what_it_says_and_no_more",
    ReadsMetaFeaturesInSecret: "test_reads_of_a_task_what_it_says_and_no_more",
    FillsTheTable: "test_reads_of_a_task_what_it_says_and_no_more",
    NeverMissesTheTable: "test_reads_of_a_task_what_it_says_and_no_more",
}
SURROGATES = {
    IgnoresTargets: "test_learns_the_targets_of_the_history_not_the_losses",
    CountsFailuresAsZero: "test_a_failure_is_no_success",
    RemembersFits: "test_fit_forgets_earlier_fits",
    ClearsPending: "test_fit_and_predict_change_nothing_they_are_given",
    HidesItsUnit: "test_predicts_in_the_unit_that_it_says",
    CountsBackwards: "test_predicts_in_the_unit_that_it_says",
    WeighsTheBoundToo: "test_a_bound_does_not_change_what_is_predicted",
    FollowsItsSearch: "test_is_searched_under_a_bound_that_bites",
    LearnsFromWhatItIsNotTold: "test_reads_of_a_task_what_it_says_and_no_more",
    SpoilsTheTable: "test_reads_of_a_task_what_it_says_and_no_more",
    TakesLearningForGranted: "test_says_so_where_it_has_not_learned",
    TakesTheSpaceForGranted: "test_says_so_in_a_space_that_it_did_not_learn",
    GoesWithoutMetaFeatures: "test_reads_of_a_task_what_it_says_and_no_more",
}
META_FEATURES = {
    NoTwoAlike: "test_what_it_says_is_known_of_a_task_with_a_bound_and_a_table",
    WantsAllTables: "test_learns_though_a_table_is_missing",
}
"""What is broken, and the contract's test that has to catch it."""


CONTRACTS = {OptimizerContract: OPTIMIZERS, SurrogateContract: SURROGATES, MetaFeaturesContract: META_FEATURES}
SOUND = {OptimizerContract: RandomSearch, SurrogateContract: GPSurrogate, MetaFeaturesContract: ColumnMeans}
BROKEN = [(contract, part, test) for contract, parts in CONTRACTS.items() for part, test in parts.items()]
CASES = [*BROKEN, *((contract, SOUND[contract], test) for contract, _, test in BROKEN)]


@pytest.fixture(scope="module")
def failures(tmp_path_factory):
    """Kinds of tasks on which tests of a contract fail, ``""`` for a test without a task, by part and test: all in one
    run of pytest."""
    module = type(sys)("plugins_under_test")
    for contract, part, _ in CASES:
        about = {"make": lambda self, *_, part=part: part(), "__module__": module.__name__}
        setattr(module, f"Test{part.__name__}", type(f"Test{part.__name__}", (contract,), about))
    found = {}

    class Catch:
        def pytest_runtest_logreport(self, report):
            if report.when == "call":
                holder, _, test = report.nodeid.partition("::")[2].partition("::")
                test, _, case = test.partition("[")
                caught = found.setdefault((holder.removeprefix("Test"), test), set())
                if report.failed:
                    caught.add(case.rstrip("]"))

    file = tmp_path_factory.mktemp("plugins") / "test_plugins.py"
    file.write_text("from plugins_under_test import *\n")
    options = ["-q", "-p", "no:cacheprovider", "--no-header", "--tb=no", "-c", "/dev/null", "--import-mode=importlib"]
    tests = dict.fromkeys(f"{file}::Test{part.__name__}::{test}" for _, part, test in CASES)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        assert pytest.main([*options, *tests], [Catch()]) == 1
    return found


@pytest.mark.parametrize(("contract", "broken", "test"), BROKEN)
def test_broken_parts_are_caught(contract, broken, test, failures):
    expected = {""} if contract is MetaFeaturesContract else {"live", "pool"}
    assert failures[broken.__name__, test] == expected


@pytest.mark.parametrize("contract", CONTRACTS)
def test_sound_ones_are_not(contract, failures):
    for test in CONTRACTS[contract].values():
        assert failures[SOUND[contract].__name__, test] == set()
