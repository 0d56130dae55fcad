"""The protocol of a replay."""

import time
from typing import ClassVar

import numpy as np
import pytest

from headstart.errors import HeadstartError, InvalidInput, UnknownName
from headstart.metadata import MetaDataset
from headstart.optimizers.base import Optimizer
from headstart.optimizers.portfolio import Portfolio
from headstart.optimizers.random import RandomSearch, draw_untried
from headstart.replay.protocol import Method, expected_random, initial_ids, run_task
from headstart.testing.examples import small_meta
from headstart.trials import Fidelity, Proposal


def with_initial(missing=(), seed=0, n_pipelines=60):
    """A small meta-dataset whose first task begins with five pipelines, some of them without a value."""
    meta = small_meta(n_pipelines=n_pipelines, missing=0.0, seed=seed)
    losses = meta.losses.copy()
    losses[0, list(missing)] = np.nan
    ids = meta.pipelines.ids
    return MetaDataset(meta.pipelines, losses, meta.tasks, initial=[ids[:5]] + [()] * 5)


class Oracle(Optimizer):
    """Tries candidates from the best on; knows the losses."""

    def __init__(self, meta, reverse=False):
        self.meta, self.reverse = meta, reverse

    def suggest(self, number, rng):
        losses = self.meta.loss_row(0)[self.meta.everything.rows(self.task.candidates.pool.ids)]
        tried = {trial.pipeline.id for trial in self.history}
        order = np.argsort(-losses if self.reverse else losses)
        pool = self.task.candidates.pool
        return next(
            Proposal(number, pool[int(i)]) for i in order if pool.ids[i] not in tried and losses[i] == losses[i]
        )


class Watching(RandomSearch):
    """Random search that writes down what it could have seen."""

    seen: ClassVar[set] = set()

    def suggest(self, number, rng):
        self.seen.update(self.task.candidates.pool.ids.tolist())
        return Proposal(number, draw_untried(self.history, rng)[0])


class Halving(RandomSearch):
    """Every other proposal is of half the rows; waits while a result is to come."""

    seen: ClassVar[list] = []

    def suggest(self, number, rng):
        if self.history.pending:
            return None
        fidelity = Fidelity(rows=0.5) if number % 2 == 0 else Fidelity()
        return Proposal(number, draw_untried(self.history, rng, fidelity)[0], fidelity=fidelity)

    def observe(self, trial):
        assert trial.outcome.fidelity == trial.proposal.fidelity
        self.seen.append(trial.outcome.fidelity.rows)


def by_hand(meta, chosen, begin, steps, per_step):
    """The curve of a run, from the ids of what it chose."""
    losses = dict(zip(meta.pipelines.ids.tolist(), meta.loss_row(0).tolist(), strict=True))
    known = [loss for loss in losses.values() if loss == loss]
    curve, found, left = [], max(known), list(chosen)
    for step in range(steps):
        for _ in range(per_step if step >= begin else 1):
            if left:
                loss = losses[left.pop(0)]
                found = loss if loss < found else found
        curve.append(found - min(known))
    return curve


class TestProtocol:
    @pytest.mark.parametrize("method", ["random", "oracle", "worst first", "few", "halving"])
    @pytest.mark.parametrize("per_step", [1, 4])
    def test_the_curve_by_hand(self, method, per_step):
        for seed in range(3):
            meta = with_initial(missing=[0, 3, 17], seed=seed)
            optimizer = {
                "random": RandomSearch(),
                "oracle": Oracle(meta),
                "worst first": Oracle(meta, reverse=True),
                "few": Portfolio([meta.pipelines[i] for i in range(20, 30)]),
                "halving": Halving(),
            }[method]
            run = run_task(optimizer, meta, 0, 40, seed, per_step=per_step)
            assert run.regrets.tolist() == by_hand(meta, run.chosen, 5, 40, per_step)
            assert run.suggestions == max(0, len(run.chosen) - 5)

    def test_fidelities_are_kept(self):
        Halving.seen = []
        run = run_task(Halving(), with_initial(), 0, 12)
        assert Halving.seen == [1.0] * 6 + [0.5, 1.0] * ((len(run.chosen) - 6) // 2) + [0.5] * (len(run.chosen) % 2)
        assert len(run.chosen) > 8

    def test_one_that_waits_for_nothing_is_named(self):
        class Waiting(RandomSearch):
            def suggest(self, number, rng):
                return None

        with pytest.raises(HeadstartError, match=r"Waiting.* waits for results"):
            run_task(Waiting(), with_initial(), 0, 12)

    def test_seconds_are_those_of_suggestions(self, monkeypatch):
        now = iter(range(10_000))
        monkeypatch.setattr(time, "perf_counter", lambda: next(now))
        run = run_task(Oracle(with_initial(), reverse=True), with_initial(), 0, 20)
        assert (run.seconds, run.suggestions) == (15, 15)

    def test_initial_pipelines_come_first_in_their_order(self):
        meta = with_initial()
        run = run_task(RandomSearch(), meta, 0, 12)
        assert list(run.chosen[:5]) == list(meta.initial[0])

    def test_regret_follows_from_what_was_chosen(self):
        meta = with_initial(missing=[1])
        run = run_task(RandomSearch(), meta, 0, 30)
        losses = meta.loss_row(0)[meta.everything.rows(run.chosen)]
        found = np.fmin.accumulate(np.where(np.isnan(losses), np.nanmax(meta.loss_row(0)), losses))
        expected = np.zeros(30)
        expected[: len(found)] = found - np.nanmin(meta.loss_row(0))
        np.testing.assert_allclose(run.regrets, expected)
        assert (run.regrets >= 0).all()
        assert (np.diff(run.regrets) <= 0).all()

    def test_an_initial_pipeline_without_a_value_costs_an_evaluation(self):
        meta = with_initial(missing=[0, 1])
        run = run_task(RandomSearch(), meta, 0, 8)
        worst = np.nanmax(meta.loss_row(0)) - np.nanmin(meta.loss_row(0))
        np.testing.assert_allclose(run.regrets[:2], worst)
        assert run.regrets[2] < worst

    def test_when_all_initial_ones_fail_the_same_random_one_follows_for_all(self):
        meta = with_initial(missing=range(5))
        first, second = (run_task(method, meta, 0, 8, seed=3) for method in (RandomSearch(), Oracle(meta)))
        assert first.chosen[:6] == second.chosen[:6]
        assert np.isfinite(meta.loss_row(0)[meta.everything.rows([first.chosen[5]])]).all()
        np.testing.assert_allclose(first.regrets[:5], first.regrets[0])
        assert initial_ids(meta, 0) == first.chosen[:6]

    def test_a_run_ends_at_the_optimum(self):
        meta = with_initial()
        run = run_task(Oracle(meta), meta, 0, 20)
        assert len(run.chosen) == 6
        assert (run.regrets[5:] == 0).all()
        assert run.suggestions == 1

    def test_unobserved_cells_are_never_seen(self):
        meta = with_initial(missing=[0, 20, 21, 22])
        Watching.seen = set()
        run = run_task(Watching(), meta, 0, 56)
        unobserved = set(meta.pipelines.ids[[20, 21, 22]].tolist())
        assert not unobserved & Watching.seen
        assert not unobserved & set(run.chosen)

    def test_a_run_without_candidates_left_stays_where_it_is(self):
        meta = with_initial()
        run = run_task(Oracle(meta, reverse=True), meta, 0, 80)
        assert len(run.chosen) == 60
        assert run.regrets[-1] == 0

    def test_several_pipelines_a_step_begin_after_the_initial_ones(self):
        meta = with_initial()
        run = run_task(RandomSearch(), meta, 0, 8, per_step=4, seed=1)
        one = run_task(RandomSearch(), meta, 0, 17, seed=1)
        assert run.chosen == one.chosen[: len(run.chosen)]
        np.testing.assert_array_equal(run.regrets[5:], one.regrets[[8, 12, 16]])

    def test_a_task_without_any_value_is_refused(self):
        meta = with_initial(missing=range(60))
        with pytest.raises(InvalidInput, match="has no loss at all"):
            run_task(RandomSearch(), meta, 0, 3)


class TestClosedForm:
    @pytest.mark.parametrize("per_step", [1, 3])
    def test_random_search_agrees_with_its_mean(self, per_step):
        meta = with_initial(missing=[1, 30, 31])
        runs = np.array([run_task(RandomSearch(), meta, 0, 15, s, per_step=per_step).regrets for s in range(400)])
        expected = expected_random(meta, 0, 15, per_step=per_step)
        error = runs.std(axis=0) / np.sqrt(len(runs))
        np.testing.assert_array_less(np.abs(runs.mean(axis=0) - expected), 4 * error + 1e-12)

    def test_by_enumeration(self):
        from itertools import combinations

        meta = with_initial(n_pipelines=9)
        losses = meta.loss_row(0)
        begin = losses[:5].min()
        for k in range(1, 5):
            best = [min(begin, losses[list(drawn)].min()) for drawn in combinations(range(5, 9), k)]
            assert expected_random(meta, 0, 5 + k)[-1] == pytest.approx(np.mean(best) - losses.min())


class TestMethod:
    def test_settings_reach_the_surrogate(self):
        optimizer = Method.parse("gp(kernel=linear, ard=False)").make()
        assert optimizer.surrogate.kernel == "linear"
        assert optimizer.surrogate.ard is False

    @pytest.mark.parametrize("text", ["", "gp(", "gp(kernel)", "a b"])
    def test_what_is_no_method(self, text):
        with pytest.raises(InvalidInput):
            Method.parse(text)

    def test_an_unknown_name_names_what_is_known(self):
        with pytest.raises(UnknownName, match="did you mean 'forest'"):
            Method.parse("forrest").make()
