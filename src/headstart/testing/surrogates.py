"""`SurrogateContract`: what every surrogate must do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

import numpy as np
import pytest

from headstart.history import History
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task
from headstart.testing.examples import failed, live_task, pool_task, random_trials, small_meta
from headstart.trials import Proposal, Trial


class SurrogateContract(ABC):
    """Subclass it in a test file, return your surrogate from `make`, and let pytest find the rest.

    ::

        class TestMine(SurrogateContract):
            def make(self):
                return MySurrogate()
    """

    live = True
    """Whether it takes pipelines it has never seen (False for transductive ones, which get pools only)."""
    learns = True
    """Whether its predictions must follow what it was shown."""

    @abstractmethod
    def make(self) -> Surrogate:
        """A new surrogate, before `meta_fit`."""

    @pytest.fixture(params=["live", "pool"])
    def task(self, request: pytest.FixtureRequest) -> Task:
        if request.param == "pool":
            return pool_task()
        if not self.live:
            pytest.skip("works on recorded pipelines only")
        return live_task()

    def model(self, task: Task) -> Surrogate:
        """A surrogate that is meta-trained (on tasks other than the one at hand) and started."""
        return self.make().meta_fit(small_meta().select([1, 2, 3, 4, 5])).start(task)

    @staticmethod
    def history(task: Task, trials: Iterable[Trial] = ()) -> History:
        history = History(task.candidates)
        for trial in trials:
            history.propose(trial.proposal)
            history.add(trial)
        return history

    @staticmethod
    def candidates(task: Task, n: int = 40) -> Encoded:
        return task.candidates.sample(np.random.default_rng(99), n)

    def check(self, prediction: Prediction, n: int) -> None:
        assert prediction.mean.shape == (n,)
        assert np.isfinite(prediction.mean).all()
        if prediction.std is not None:
            assert prediction.std.shape == (n,)
            assert np.isfinite(prediction.std).all()
            assert (prediction.std > 0).all(), "a surrogate is never certain"

    @pytest.mark.parametrize("n", [0, 1, 2, 30, 1000])
    def test_predicts_after_any_number_of_trials(self, task: Task, n: int) -> None:
        model = self.model(task).fit(self.history(task, random_trials(task, n)))
        self.check(model.predict(self.candidates(task)), len(self.candidates(task)))

    def test_predicts_nothing_for_nothing(self, task: Task) -> None:
        model = self.model(task).fit(self.history(task, random_trials(task, 10)))
        assert len(model.predict(self.candidates(task).take([]))) == 0

    def test_is_deterministic(self, task: Task) -> None:
        history = self.history(task, random_trials(task, 20))
        first = self.model(task).fit(history).predict(self.candidates(task))
        second = self.model(task).fit(history).predict(self.candidates(task))
        np.testing.assert_array_equal(first.mean, second.mean)
        if first.std is not None:
            np.testing.assert_array_equal(first.std, second.std)

    def test_fit_forgets_earlier_fits(self, task: Task) -> None:
        trials = random_trials(task, 25)
        model = self.model(task)
        for n in (3, 10, 25):
            model.fit(self.history(task, trials[:n]))
        fresh = self.model(task).fit(self.history(task, trials))
        candidates = self.candidates(task)
        np.testing.assert_array_equal(model.predict(candidates).mean, fresh.predict(candidates).mean)

    def test_start_leaves_other_tasks_alone(self, task: Task) -> None:
        surrogate = self.make().meta_fit(small_meta().select([1, 2, 3, 4, 5]))
        first = surrogate.start(task).fit(self.history(task, random_trials(task, 12, seed=1)))
        before = first.predict(self.candidates(task)).mean.copy()
        surrogate.start(task).fit(self.history(task, random_trials(task, 12, seed=2)))
        np.testing.assert_array_equal(first.predict(self.candidates(task)).mean, before)

    def test_fit_and_predict_change_nothing_they_are_given(self, task: Task) -> None:
        history = self.history(task, random_trials(task, 15))
        candidates = self.candidates(task)
        values, targets = candidates.values.copy(), history.targets()
        self.model(task).fit(history).predict(candidates)
        np.testing.assert_array_equal(candidates.values, values)
        np.testing.assert_array_equal(history.targets(), targets)
        assert len(history) == 15

    def test_a_prediction_does_not_depend_on_its_company(self, task: Task) -> None:
        model = self.model(task).fit(self.history(task, random_trials(task, 20)))
        candidates = self.candidates(task)
        together = model.predict(candidates).mean
        alone = [model.predict(candidates.take([i])).mean[0] for i in range(0, len(candidates), 7)]
        np.testing.assert_allclose(alone, together[::7], rtol=1e-7, atol=1e-9)

    def test_survives_failures_only(self, task: Task) -> None:
        trials = [failed(t.proposal) for t in random_trials(task, 8)]
        model = self.model(task).fit(self.history(task, trials))
        self.check(model.predict(self.candidates(task)), len(self.candidates(task)))

    def test_survives_constant_targets_and_duplicates(self, task: Task) -> None:
        one = random_trials(task, 1, failing=0.0)[0]
        trials = [Trial(Proposal(i, one.pipeline), one.outcome, 0.0, 0.0) for i in range(12)]
        model = self.model(task).fit(self.history(task, trials))
        self.check(model.predict(self.candidates(task)), len(self.candidates(task)))

    def test_survives_pending_proposals(self, task: Task) -> None:
        trials = random_trials(task, 14)
        history = self.history(task, trials[:10])
        for trial in trials[10:]:
            history.propose(trial.proposal)
        self.check(self.model(task).fit(history).predict(self.candidates(task)), len(self.candidates(task)))

    @pytest.mark.parametrize("scale", [1e-9, 1e9])
    def test_survives_any_scale(self, task: Task, scale: float) -> None:
        history = self.history(task, random_trials(task, 20))
        scaled = history.where(lambda _: True, lambda t: scale * float(t.outcome.loss or 0.0))
        self.check(self.model(task).fit(scaled).predict(self.candidates(task)), len(self.candidates(task)))

    def test_follows_what_it_was_shown(self, task: Task) -> None:
        if not self.learns:
            pytest.skip("does not learn from the history")
        history = self.history(task, random_trials(task, 40, failing=0.0))
        predicted = self.model(task).fit(history).predict(history.encoded).mean
        ranks = [np.argsort(np.argsort(v)) for v in (predicted, history.targets())]
        assert np.corrcoef(ranks[0], ranks[1])[0, 1] > 0.5

    def test_describes_itself_as_json(self) -> None:
        import json

        assert json.loads(json.dumps(self.make().describe()))["name"]
