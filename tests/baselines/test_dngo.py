import numpy as np
import pytest

from headstart.baselines.dngo import DNGO
from headstart.errors import InvalidInput
from headstart.history import History
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, random_trials


class TestDNGO(SurrogateContract):
    def make(self):
        return DNGO(units=20, steps=100)


def fitted(surrogate, n=30):
    task = live_task()
    history = History(task.candidates)
    for trial in random_trials(task, n, failing=0.0):
        history.add(trial)
    return surrogate.start(task).fit(history), history


def test_training_lowers_the_error():
    errors = []
    for steps in (1, 100):
        model, history = fitted(DNGO(units=6, steps=steps))
        errors.append(float(np.mean((model.predict(history.encoded).mean - history.targets()) ** 2)))
    assert errors[1] < 0.5 * errors[0]


def test_its_mean_and_deviation_are_those_of_a_regression_on_its_hidden_layer():
    linear_model = pytest.importorskip("sklearn.linear_model")
    model, history = fitted(DNGO(units=10, layers=2))
    targets = history.targets()
    standardised = (targets - targets.mean()) / targets.std()
    features = model._features(history.encoded.features())
    # The ridge that goes with the precisions found; scikit-learn's own search for them has other priors.
    ridge = linear_model.Ridge(model._regression.alpha / model._regression.beta, fit_intercept=False)
    expected = ridge.fit(features, standardised).predict(features) * targets.std() + targets.mean()
    prediction = model.predict(history.encoded)
    np.testing.assert_allclose(prediction.mean, expected, rtol=1e-6)
    covariance = np.linalg.inv(model._regression.alpha * np.eye(11) + model._regression.beta * features.T @ features)
    np.testing.assert_allclose(
        prediction.std, np.sqrt(np.diag(features @ covariance @ features.T)) * targets.std(), rtol=1e-6
    )


def test_it_is_less_sure_away_from_the_trials():
    model, history = fitted(DNGO(), 15)
    away = live_task().candidates.sample(np.random.default_rng(5), 200)
    assert model.predict(away).std.mean() > model.predict(history.encoded).std.mean()


def test_bad_settings_are_named():
    with pytest.raises(InvalidInput, match="units"):
        DNGO(units=0)
    with pytest.raises(InvalidInput, match="decay"):
        DNGO(decay=-1)
