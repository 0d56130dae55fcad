import numpy as np
import pytest

from headstart.errors import InvalidInput, UnknownPipeline
from headstart.learning.base import Needs
from headstart.surrogates.base import Prediction, Surrogate
from headstart.surrogates.forest import ForestSurrogate
from headstart.surrogates.gp import GPSurrogate
from headstart.surrogates.mixture import Mixture
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, pool_task, random_trials


class TestContract(SurrogateContract):
    def make(self):
        return Mixture()


class TestContractOfOneWithAUnitOfItsOwn(SurrogateContract):
    def make(self):
        return Mixture("gp", Told(unit=np.arcsinh))


class Told(Surrogate):
    """Predicts the same of all pipelines that it knows, the mean of the targets if no other is given."""

    def __init__(self, mean=None, std=1.0, least=-np.inf, refuses=False, unit=None, needs=()):
        self.mean, self.std, self.least, self.refuses, self.unit = mean, std, least, refuses, unit
        self.asked = needs

    @property
    def needs(self):
        return Needs(metafeatures=frozenset(self.asked))

    def start(self, task):
        if self.refuses:
            raise UnknownPipeline(f"I know none, {self.refuses}")
        return super().start(task)

    def fit(self, history):
        targets = self.transform_targets(history.targets())
        self.shown, self.learned = targets, targets.mean() if len(targets) else 0.0
        return self

    def transform_targets(self, targets):
        return targets if self.unit is None else self.unit(targets)

    def knows(self, encoded):
        return encoded.ids >= self.least

    def predict(self, encoded):
        if not self.knows(encoded).all():
            raise UnknownPipeline("not these")
        mean = self.learned if self.mean is None else self.mean
        return Prediction(np.full(len(encoded), mean), None if self.std is None else np.full(len(encoded), self.std))

    def log_seconds(self, encoded):
        return None if self.mean is None else np.full(len(encoded), self.mean)

    def describe(self):
        return {"name": "Told"}


def predicted(*parts, trials=6):
    task = pool_task()
    model = Mixture(*parts).start(task).fit(SurrogateContract.history(task, random_trials(task, trials)))
    return model, model.predict(task.candidates.pool), task.candidates.pool


def test_the_even_mixture_has_the_moments_of_samples():
    _, found, _ = predicted(Told(1.0, 0.5), Told(2.5, 1.0))
    rng = np.random.default_rng(0)
    drawn = np.concatenate([rng.normal(1.0, 0.5, 400_000), rng.normal(2.5, 1.0, 400_000)])
    np.testing.assert_allclose(found.mean, drawn.mean(), atol=0.01)
    np.testing.assert_allclose(found.std, drawn.std(), atol=0.01)
    np.testing.assert_allclose(found.std, np.sqrt((0.25 + 1.0) / 2 + 0.75**2))


def test_one_that_is_certain_adds_no_width_of_its_own():
    _, found, _ = predicted(Told(1.0, None), Told(2.0, 1.0))
    np.testing.assert_allclose(found.std, np.sqrt(0.5 + 0.25))


def test_what_one_does_not_know_is_the_others():
    _, found, pool = predicted(Told(1.0, 0.5), Told(2.0, 0.5, least=130))
    known = pool.ids >= 130
    assert 0 < known.sum() < len(pool)
    np.testing.assert_allclose(found.mean, np.where(known, 1.5, 1.0))
    np.testing.assert_allclose(found.std, np.where(known, np.sqrt(0.5), 0.5))


def test_what_both_do_not_know_is_refused_and_can_be_asked():
    task = pool_task()
    model = Mixture(Told(1.0, least=110), Told(2.0, least=120)).start(task).fit(SurrogateContract.history(task))
    pool = task.candidates.pool
    np.testing.assert_array_equal(model.knows(pool), pool.ids >= 110)
    with pytest.raises(UnknownPipeline, match="not these"):
        model.predict(pool)


def test_one_that_cannot_start_is_left_out_and_two_are_an_error():
    model, found, pool = predicted(Told(1.0, refuses="a"), Told(2.0, 0.5))
    np.testing.assert_array_equal(found.mean, 2.0)
    np.testing.assert_array_equal(model.log_seconds(pool), 2.0)
    with pytest.raises(UnknownPipeline, match="I know none, a"):
        Mixture(Told(refuses="a"), Told(refuses="b")).start(live_task())


def test_the_other_is_fitted_in_the_unit_that_one_has():
    task = pool_task()
    history = SurrogateContract.history(task, random_trials(task, 9))
    model = Mixture(Told(), Told(unit=np.arcsinh)).start(task).fit(history)
    for part in model._models:
        np.testing.assert_allclose(part.shown, np.arcsinh(history.targets()))
    np.testing.assert_array_equal(model.transform_targets(np.array([3.0])), np.arcsinh([3.0]))
    turned = history.where(lambda _: True, lambda trial: -float(trial.outcome.loss or 0.0))
    for part in model.fit(turned)._models:
        np.testing.assert_allclose(part.shown, np.arcsinh(turned.targets()))


def test_two_units_are_refused():
    Mixture(Told(unit=np.arcsinh), Told(unit=np.arcsinh)).start(live_task())
    with pytest.raises(InvalidInput, match=r"same unit.*0\.0998.*0\.10016"):
        Mixture(Told(unit=np.arcsinh), Told(unit=np.sinh)).start(live_task())


def test_parts_may_be_named_and_their_needs_are_its_own():
    made = Mixture("gp(ard=False)", ForestSurrogate())
    assert made.part("first").describe() == GPSurrogate(ard=False).describe()
    assert Mixture(Told(needs=["a"]), Told(needs=["b"])).needs == Needs(metafeatures=frozenset("ab"))
