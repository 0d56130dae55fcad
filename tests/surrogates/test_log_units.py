"""Logarithmic units: what they are, how surrogates learn and predict in them, and that a search compares in them."""

import numpy as np
import pytest

from headstart.errors import InvalidInput
from headstart.methods.pmf import PMF
from headstart.numerics.expected_improvement import log_expected_improvement
from headstart.surrogates.acquisition import LogEI
from headstart.surrogates.base import Prediction, Surrogate
from headstart.surrogates.forest import ForestSurrogate
from headstart.surrogates.gp import GPSurrogate
from headstart.surrogates.log_units import LogUnits, log_units, small_loss
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, pool_task, random_trials, small_meta

QUICK = {"latent": 3, "steps": 0}


def test_units_are_logarithms_of_losses_that_are_not_small():
    losses = np.array([0.02, 0.2, 2.0])
    np.testing.assert_allclose(log_units(losses, 1e-4), np.log(2 * losses / 1e-4), rtol=1e-5)


def test_units_keep_order_sign_precision_and_what_is_missing():
    losses = np.array([-5.0, -1e-6, 0.0, 1e-6, 0.3, np.nan], dtype=np.float32)
    units = log_units(losses, 0.002)
    assert units.dtype == np.float32
    assert np.isnan(units[-1])
    assert (np.diff(units[:-1]) > 0).all()
    assert units[2] == 0.0
    np.testing.assert_allclose(log_units(-losses, 0.002), -units)


def test_a_small_loss_is_a_share_of_the_usual_one_and_follows_the_unit():
    meta = small_meta()
    usual = np.median([np.nanmedian(np.abs(row)) for row in np.asarray(meta.losses, dtype=np.float64)])
    assert small_loss(meta) == pytest.approx(0.1 * usual)
    assert small_loss(meta.mapped(lambda losses: 1000 * losses)) == pytest.approx(100 * usual)


@pytest.mark.parametrize(("value", "small"), [(0.0, 0.1), (2.0, 0.2)])
def test_a_small_loss_is_positive_where_most_losses_are_zero(value, small):
    def mostly_zero(losses):
        found = np.zeros_like(losses)
        found[:, 0] = value
        return found

    assert small_loss(small_meta().mapped(mostly_zero)) == pytest.approx(small)


def test_a_meta_dataset_is_mapped_with_its_validation_tasks():
    meta = small_meta()
    part = meta.learning([0, 1, 2], [3, 4]).mapped(lambda losses: losses + 1)
    np.testing.assert_allclose(part.losses, meta.losses[:3] + 1)
    np.testing.assert_allclose(part.validation.losses, meta.losses[3:5] + 1)
    assert part.pipelines is meta.pipelines


def test_a_surrogate_learns_and_predicts_in_them():
    """The same as one without them that is given losses in these units everywhere."""
    meta = small_meta()
    small = small_loss(meta)
    task = pool_task(meta)
    shown = SurrogateContract.history(task, random_trials(task, 12, failing=0.0))
    units = shown.where(lambda _: True, lambda t: float(log_units(np.array([t.outcome.loss]), small)[0]))
    ours = PMF(**QUICK).meta_fit(meta).start(task)
    plain = PMF(**QUICK, logarithmic=False).meta_fit(meta.mapped(lambda y: log_units(y, small))).start(task)
    pool = task.candidates.pool
    found, wanted = ours.fit(shown).predict(pool), plain.fit(units).predict(pool)
    np.testing.assert_allclose(found.mean, wanted.mean, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(found.std, wanted.std, rtol=1e-6, atol=1e-8)
    np.testing.assert_array_equal(plain.transform_targets(shown.targets()), shown.targets())


def test_units_are_kept_in_a_file(tmp_path):
    learned = PMF(**QUICK).meta_fit(small_meta())
    learned.save(tmp_path / "pmf.npz")
    targets = np.array([0.1, 0.2])
    np.testing.assert_array_equal(
        PMF.load(tmp_path / "pmf.npz").transform_targets(targets), learned.transform_targets(targets)
    )
    assert not np.array_equal(learned.transform_targets(targets), targets)


@pytest.mark.parametrize("xi", [0.0, 0.05])
def test_expected_improvement_is_counted_in_the_units_of_the_surrogate(xi):
    class Cubed(Surrogate):
        def fit(self, history):
            return self

        def transform_targets(self, targets):
            return targets**3

        def predict(self, encoded):
            return Prediction(np.linspace(-1, 1, len(encoded)), np.full(len(encoded), 0.3))

    task = pool_task(small_meta())
    history = SurrogateContract.history(task, random_trials(task, 5, failing=0.0))
    pool = task.candidates.pool
    scores = LogEI(xi)(Cubed().start(task), history, pool)
    best = (history.targets().min() - xi) ** 3
    np.testing.assert_allclose(scores, log_expected_improvement(np.linspace(-1, 1, len(pool)), 0.3, best))


def test_of_negative_scores_there_are_no_logarithms():
    meta = small_meta()
    assert small_loss(meta.mapped(lambda losses: losses - 1)) is None
    learned = PMF(**QUICK).meta_fit(meta.mapped(lambda losses: losses - 1))
    targets = np.array([-0.9, -0.1])
    np.testing.assert_array_equal(learned.transform_targets(targets), targets)


def test_whole_numbers_are_losses_too():
    units = log_units(np.array([1, 2, 8]), 0.4)
    np.testing.assert_allclose(units, np.arcsinh(np.array([2.5, 5.0, 20.0])), rtol=1e-6)


def test_infinite_losses_are_not_observed():
    meta = small_meta()

    def with_infinite(losses):
        found = losses.copy()
        found[0, 0] = np.inf
        return found

    def without(losses):
        found = losses.copy()
        found[0, 0] = np.nan
        return found

    one, other = (PMF(**QUICK).meta_fit(meta.mapped(f)).learned for f in (with_infinite, without))
    np.testing.assert_array_equal(one["prior.points"], other["prior.points"])


class TestWrapper(SurrogateContract):
    def make(self):
        return LogUnits("gp")


class TestWrapperOfOneThatLearns(SurrogateContract):
    live = False

    def make(self):
        return LogUnits(PMF(**QUICK, logarithmic=False))


@pytest.mark.parametrize("inner", [GPSurrogate, ForestSurrogate])
def test_another_surrogate_is_fitted_to_losses_in_them(inner):
    meta = small_meta()
    small, task = small_loss(meta), pool_task(meta)
    shown = SurrogateContract.history(task, random_trials(task, 12))
    units = shown.where(lambda _: True, lambda t: float(np.arcsinh(t.outcome.loss / small)))
    ours = LogUnits(inner()).meta_fit(meta).start(task)
    pool = task.candidates.pool
    found, wanted = ours.fit(shown).predict(pool), inner().start(task).fit(units).predict(pool)
    np.testing.assert_allclose(found.mean, wanted.mean)
    np.testing.assert_allclose(found.std, wanted.std)
    np.testing.assert_allclose(ours.transform_targets(np.array([0.2])), np.arcsinh(0.2 / small))


def test_another_surrogate_learns_from_losses_in_them():
    """The same as its own setting of that kind."""
    meta = small_meta()
    task = pool_task(meta)
    shown = SurrogateContract.history(task, random_trials(task, 12, failing=0.0))
    own, given = PMF(**QUICK), LogUnits(PMF(**QUICK, logarithmic=False))
    one, two = (m.meta_fit(meta).start(task).fit(shown).predict(task.candidates.pool) for m in (own, given))
    np.testing.assert_allclose(one.mean, two.mean, rtol=1e-6)
    np.testing.assert_allclose(one.std, two.std, rtol=1e-6)


def test_without_other_tasks_there_is_no_small_loss():
    with pytest.raises(InvalidInput, match="meta_fit or load"):
        LogUnits().start(live_task())
    with pytest.raises(InvalidInput, match="without any"):
        LogUnits().meta_fit(small_meta().select([]))
