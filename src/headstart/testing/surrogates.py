"""`SurrogateContract`: what every surrogate must do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np
import pytest
from numpy.typing import NDArray

from headstart.history import History
from headstart.optimizers.bayes import Bayes
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task
from headstart.testing.examples import bounded, failed, random_trials
from headstart.testing.learners import LearnerContract, search_with_late_results
from headstart.trials import Proposal, Trial


class SurrogateContract(LearnerContract):
    """Subclass it in a test file, return your surrogate from `make`, and let pytest find the rest.

    ::

        class TestMine(SurrogateContract):
            def make(self):
                return MySurrogate()
    """

    learns = True
    """Whether its predictions must follow what it was shown."""

    @abstractmethod
    def make(self) -> Surrogate:
        """A new surrogate, before `meta_fit`."""

    def new(self, task: Task) -> Surrogate:  # noqa: ARG002
        return self.make()

    def skip_unless_it_learns(self) -> None:
        if not self.learns:
            pytest.skip("does not learn from the history")

    def model(self, task: Task) -> Surrogate:
        """A surrogate that is meta-trained (on tasks other than the one at hand) and started."""
        surrogate = self.learned(task)
        assert isinstance(surrogate, Surrogate), "meta_fit must return the surrogate: return self"
        return surrogate.start(task)

    def answers(self, learner: Surrogate, task: Task) -> list[object]:
        found = learner.start(task).fit(self.history(task, random_trials(task, 10))).predict(self.candidates(task))
        return [found.mean.tolist(), None if found.std is None else found.std.tolist()]

    @staticmethod
    def same(one: Prediction, other: Prediction) -> None:
        np.testing.assert_array_equal(one.mean, other.mean)
        assert (one.std is None) == (other.std is None)
        if one.std is not None and other.std is not None:
            np.testing.assert_array_equal(one.std, other.std)

    @staticmethod
    def history(task: Task, trials: Iterable[Trial] = ()) -> History:
        history = History(task.candidates)
        for trial in trials:
            history.propose(trial.proposal)
            history.add(trial)
        return history

    @staticmethod
    def candidates(task: Task) -> Encoded:
        return task.candidates.sample(np.random.default_rng(99), 40)

    def check(self, model: Surrogate, task: Task) -> None:
        prediction, n = model.predict(self.candidates(task)), len(self.candidates(task))
        assert isinstance(prediction, Prediction), "predict must return a headstart.surrogates.Prediction(mean, std)"
        assert prediction.mean.shape == (n,)
        assert np.isfinite(prediction.mean).all()
        if prediction.std is not None:
            assert prediction.std.shape == (n,)
            assert np.isfinite(prediction.std).all()
            assert (prediction.std > 0).all(), "a surrogate is never certain"

    @pytest.mark.parametrize("n", [0, 1, 30, 1000])
    def test_predicts_after_any_number_of_trials(self, task: Task, n: int) -> None:
        self.check(self.model(task).fit(self.history(task, random_trials(task, n))), task)

    def test_predicts_nothing_for_nothing(self, task: Task) -> None:
        model = self.model(task).fit(self.history(task, random_trials(task, 10)))
        assert len(model.predict(self.candidates(task).take([]))) == 0

    def test_is_deterministic(self, task: Task) -> None:
        history = self.history(task, random_trials(task, 20))
        models = (self.model(task), self.learned_anew(task).start(task))
        self.same(*(model.fit(history).predict(self.candidates(task)) for model in models))

    def test_fit_forgets_earlier_fits(self, task: Task) -> None:
        trials = random_trials(task, 25)
        model = self.model(task)
        for n in (3, 10, 25):
            model.fit(self.history(task, trials[:n]))
        fresh = self.model(task).fit(self.history(task, trials))
        candidates = self.candidates(task)
        self.same(model.predict(candidates), fresh.predict(candidates))

    def test_start_leaves_other_tasks_alone(self, task: Task) -> None:
        surrogate = self.learned_anew(task)
        first = surrogate.start(task).fit(self.history(task, random_trials(task, 12, seed=1)))
        before = first.predict(self.candidates(task))
        surrogate.start(task).fit(self.history(task, random_trials(task, 12, seed=2)))
        self.same(first.predict(self.candidates(task)), before)
        alone = self.model(task).fit(self.history(task, random_trials(task, 12, seed=1)))
        self.same(alone.predict(self.candidates(task)), before)

    def test_fit_and_predict_change_nothing_they_are_given(self, task: Task) -> None:
        trials = random_trials(task, 18)
        history = self.history(task, trials[:15])
        for trial in trials[15:]:
            history.propose(trial.proposal)
        candidates = self.candidates(task)
        values, targets, waiting = candidates.values.copy(), history.targets(), dict(history.pending)
        self.model(task).fit(history).predict(candidates)
        np.testing.assert_array_equal(candidates.values, values)
        np.testing.assert_array_equal(history.targets(), targets)
        assert history.trials == trials[:15]
        assert history.pending == waiting

    def test_a_prediction_does_not_depend_on_its_company(self, task: Task) -> None:
        model = self.model(task).fit(self.history(task, random_trials(task, 20)))
        candidates = self.candidates(task)
        together = model.predict(candidates)
        for i in range(0, len(candidates), 7):
            alone = model.predict(candidates.take([i]))
            np.testing.assert_allclose(alone.mean[0], together.mean[i], rtol=1e-7, atol=1e-9)
            if alone.std is not None and together.std is not None:
                np.testing.assert_allclose(alone.std[0], together.std[i], rtol=1e-5, atol=1e-9)

    def test_survives_failures_only(self, task: Task) -> None:
        trials = [failed(t.proposal) for t in random_trials(task, 8)]
        self.check(self.model(task).fit(self.history(task, trials)), task)

    def test_survives_constant_targets_and_duplicates(self, task: Task) -> None:
        one = random_trials(task, 1, failing=0.0)[0]
        trials = [Trial(Proposal(i, one.pipeline), one.outcome, 0.0, 0.0) for i in range(12)]
        self.check(self.model(task).fit(self.history(task, trials)), task)

    def test_survives_pending_proposals(self, task: Task) -> None:
        trials = random_trials(task, 14)
        history = self.history(task, trials[:10])
        for trial in trials[10:]:
            history.propose(trial.proposal)
        self.check(self.model(task).fit(history), task)

    def test_what_is_under_way_counts_the_same_at_once_or_one_by_one(self, task: Task) -> None:
        """A run that is resumed fits once where the first one did before each proposal."""
        trials, candidates = random_trials(task, 16), self.candidates(task)
        model, history = self.model(task), self.history(task, trials[:10])
        for trial in trials[10:]:
            history.propose(trial.proposal)
            model.fit(history).predict(candidates)
        fresh = self.model(task).fit(history)
        self.same(model.predict(candidates), fresh.predict(self.candidates(task)))
        del history.pending[trials[11].number]
        self.same(model.fit(history).predict(candidates), self.model(task).fit(history).predict(candidates))

    @pytest.mark.parametrize("scale", [1e-9, 1e9])
    def test_survives_any_scale(self, task: Task, scale: float) -> None:
        history = self.history(task, random_trials(task, 20))
        scaled = history.where(lambda _: True, lambda t: scale * float(t.outcome.loss or 0.0))
        self.check(self.model(task).fit(scaled), task)

    def test_follows_what_it_was_shown(self, task: Task) -> None:
        self.skip_unless_it_learns()
        history = self.history(task, random_trials(task, 40, failing=0.0))
        predicted = self.model(task).fit(history).predict(history.encoded).mean
        agreement = _rank_correlation(predicted, history.targets())
        assert agreement > 0.5, (
            f"predictions for trials it was shown agree with them by {agreement:.2f} (rank correlation) only; "
            "set learns = False for a surrogate that does not learn from the history"
        )

    def test_predicts_in_the_unit_that_it_says(self, task: Task) -> None:
        """Expected improvement compares predictions with `transform_targets`: it must increase, and fit them."""
        model = self.model(task)
        history = self.history(task, random_trials(task, 40, failing=0.0))
        model.fit(history)
        targets = np.sort(history.targets())
        steps = np.diff(model.transform_targets(targets))
        assert (steps[np.diff(targets) > 0] > 0).all(), "transform_targets must be an increasing function"
        self.skip_unless_it_learns()
        shown, predicted = model.transform_targets(history.targets()), model.predict(history.encoded).mean
        spread = float(np.ptp(shown))
        assert abs(float(np.median(predicted) - np.median(shown))) < 2 * spread, (
            "predictions for trials it was shown are not in the unit of transform_targets(targets)"
        )

    def test_learns_the_targets_of_the_history_not_the_losses(self, task: Task) -> None:
        self.skip_unless_it_learns()
        history = self.history(task, random_trials(task, 40, failing=0.0))
        turned = history.where(lambda _: True, lambda t: -float(t.outcome.loss or 0.0))
        predicted = self.model(task).fit(turned).predict(turned.encoded).mean
        assert _rank_correlation(predicted, history.targets()) < 0, "use history.targets(), which may be scalarized"

    def test_a_failure_is_no_success(self, task: Task) -> None:
        self.skip_unless_it_learns()
        trials = random_trials(task, 30, failing=0.0)
        worst = max(float(t.outcome.loss or 0.0) for t in trials)
        kept = [t for i, t in enumerate(trials) if i % 2]
        broken = [failed(t.proposal) for i, t in enumerate(trials) if not i % 2]
        history = self.history(task, kept + broken).where(
            lambda _: True, lambda t: float(t.outcome.loss or 0.0) + worst
        )
        predicted = self.model(task).fit(history).predict(history.encoded).mean
        assert predicted[len(kept) :].mean() > predicted[: len(kept)].mean(), "failures must count as bad, never as 0"

    def test_a_bound_does_not_change_what_is_predicted(self, task: Task) -> None:
        """What predicts losses knows nothing of bounds: who searches weighs them, and would do so twice."""
        task = bounded(task)
        trials = random_trials(task, 20)
        free, bound = History(task.candidates), History(task.candidates, constraints=task.constraints)
        for trial in trials:
            free.add(trial)
            bound.add(trial)
        assert {bound.is_feasible(trial) for trial in trials if trial.outcome.ok} == {False, True}
        model, candidates = self.model(task), self.candidates(task)
        self.same(model.fit(free).predict(candidates), model.fit(bound).predict(candidates))

    def test_is_searched_under_a_bound_that_bites(self, task: Task) -> None:
        task = bounded(task, infeasible=2)
        optimizer = Bayes(self.learned(task), n_initial=2, n_samples=40, n_starts=1)
        first, rebuilt = optimizer.start(task, 4), optimizer.start(task, 4)
        trials = search_with_late_results([first], rebuilt, asks=5, failing=0.0)
        assert any(map(first.history.is_feasible, trials)), "nothing that satisfies the bound was found"


def _rank_correlation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    ranks = [np.argsort(np.argsort(v)) for v in (one, other)]
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])
