"""Boosters: one protocol over four libraries."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from headstart.components import boosting
from headstart.components._booster import MOST_RATE, STEPS, Clock, rate_for

LIBRARIES = {"LightGBM": "lightgbm", "CatBoost": "catboost", "XGBoost": "xgboost", "HistGradientBoosting": "sklearn"}
CLASSIFIERS = [f"{name}Classifier" for name in LIBRARIES]
REGRESSORS = [f"{name}Regressor" for name in LIBRARIES]


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def make(name, **settings):
    pytest.importorskip(next(package for start, package in LIBRARIES.items() if name.startswith(start)))
    return getattr(boosting, name)(**{"n_estimators": 60, "random_state": 0, **settings})


def table(rows=240, seed=0):
    """A table whose columns have names that some libraries refuse, with missing values, and a signal of a category."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"a [<,": rng.standard_normal(rows), 'b"': rng.standard_normal(rows)})
    colour = rng.choice(["red", "green", "blue"], rows)
    X["c{}:"] = pd.Categorical(np.where(rng.random(rows) < 0.1, None, colour))
    X.loc[rng.random(rows) < 0.2, 'b"'] = np.nan
    return X, X.iloc[:, 0].to_numpy() + 2.0 * (colour == "red")


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("labels", [[0, 1], [0, 2], [0, 2, 5], ["no", "yes"]])
def test_a_classifier_learns_and_keeps_its_labels(name, labels):
    X, signal = table()
    y = np.array(labels)[np.digitize(signal, [0.5, 1.5][: len(labels) - 1])]
    model = make(name).fit(X[:160], y[:160])
    assert model.classes_.tolist() == sorted(set(labels))
    proba = model.predict_proba(X[160:])
    assert proba.shape == (80, len(labels))
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)
    predicted = model.predict(X[160:])
    assert predicted.tolist() == model.classes_[proba.argmax(axis=1)].tolist()
    assert np.mean(predicted == y[160:]) > 0.75
    assert model.best_iteration_ == 60


@pytest.mark.parametrize("name", REGRESSORS)
def test_a_regressor_learns(name):
    X, signal = table()
    y = 1000 + 10 * signal
    predicted = make(name).fit(X[:160], y[:160]).predict(X[160:])
    assert predicted.shape == (80,)
    assert np.mean((predicted - y[160:]) ** 2) < 0.3 * y[160:].var()


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_early_stopping_finds_the_rounds_that_a_refit_uses(name):
    X, signal = table(400)
    rng = np.random.default_rng(1)
    noisy = signal + rng.standard_normal(400)
    y = (noisy > 0.5).astype(int) if name in CLASSIFIERS else noisy
    model = make(name, n_estimators=400, learning_rate=0.3, early_stopping_rounds=10)
    model.fit(X[:250], y[:250], eval_set=(X[250:], y[250:]))
    assert 1 <= model.best_iteration_ < 390
    again = clone(model).set_params(n_estimators=model.best_iteration_).fit(X[:250], y[:250])
    assert again.best_iteration_ == model.best_iteration_
    predict = (lambda m: m.predict_proba(X)[:, 1]) if name in CLASSIFIERS else (lambda m: m.predict(X))
    if name.startswith("CatBoost"):  # its noise, and how it counts categories, depend on the number of rounds
        assert np.corrcoef(predict(again), predict(model))[0, 1] > 0.9
    else:
        np.testing.assert_allclose(predict(again), predict(model), atol=1e-6)


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_validation_rows_of_unknown_classes_are_left_out(name):
    X, signal = table()
    y = np.digitize(signal, [0.5, 1.5])
    known = y[:160] != 1
    model = make(name, early_stopping_rounds=5).fit(X[:160][known], y[:160][known], eval_set=(X[160:], y[160:]))
    assert model.classes_.tolist() == [0, 2]
    only = y[160:] == 1
    model.fit(X[:160][known], y[:160][known], eval_set=(X[160:][only], y[160:][only], np.ones(only.sum())))
    assert model.best_iteration_ == 60


@pytest.mark.parametrize("name", [n for n in [*CLASSIFIERS, *REGRESSORS] if not n.startswith("Hist")])
def test_the_rounds_end_when_time_is_up(name):
    X, signal = table()
    y = (signal > 0.5).astype(int)
    made = {"n_estimators": 300, "early_stopping_rounds": 300}
    model = make(name, **made).fit(X[:160], y[:160], eval_set=(X[160:], y[160:]), max_seconds=0.0)
    assert model.best_iteration_ <= 2
    assert np.isfinite(model.predict(X)).all()
    whole = make(name, **made).fit(X[:160], y[:160], eval_set=(X[160:], y[160:]), max_seconds=1000.0)
    same = make(name, **made).fit(X[:160], y[:160], eval_set=(X[160:], y[160:]))
    assert whole.best_iteration_ == same.best_iteration_ > 2
    np.testing.assert_array_equal(whole.predict(X), same.predict(X))


def test_the_learning_rate_suits_the_rounds_that_there_is_time_for():
    assert rate_for(0.1, 1000) == 0.1
    assert rate_for(0.01, 1000) == STEPS / 1000
    assert rate_for(0.1, 100) == STEPS / 100
    assert rate_for(0.1, 1) == MOST_RATE
    assert rate_for(0.5, 1) == 0.5


@pytest.mark.parametrize(("seconds", "rate"), [(1000, None), (100, STEPS / 100), (10, MOST_RATE)])
def test_a_clock_asks_for_a_higher_rate_once(monkeypatch, seconds, rate):
    """Rounds of a second, the first one of ten."""
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    clock, fixed = Clock(10.0 + seconds - 1, 0.05), Clock(10.0 + seconds - 1)
    for number in range(1, 7):
        now = 9.0 + number
        assert not fixed.is_over()
        assert clock.is_over() == (number == 6 and rate is not None)
    assert (clock.better_rate, fixed.better_rate) == (pytest.approx(rate), None)
    now = 10.0 + seconds
    assert fixed.is_over()
    assert Clock(0.0).is_over()


@pytest.mark.parametrize("name", [n for n in CLASSIFIERS + REGRESSORS if not n.startswith("Hist")])
def test_in_short_time_a_booster_begins_again_with_a_higher_rate(name, monkeypatch):
    X, signal = table()
    y = (signal > 0.5).astype(int)
    asked = []

    def is_over(clock):
        if clock.rate is None:
            return False
        asked.append(clock.rate)
        clock.better_rate = 0.2
        return True

    monkeypatch.setattr(Clock, "is_over", is_over)
    model = make(name, learning_rate=0.01).fit(X[:160], y[:160], eval_set=(X[160:], y[160:]), max_seconds=1.0)
    same = make(name, learning_rate=0.2).fit(X[:160], y[:160], eval_set=(X[160:], y[160:]))
    assert (asked, model.learning_rate_, same.learning_rate_) == ([0.01], 0.2, 0.2)
    assert model.best_iteration_ == same.best_iteration_
    np.testing.assert_array_equal(model.predict(X), same.predict(X))
    assert model.learning_rate == 0.01


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_unseen_categories_count_as_missing(name):
    X, signal = table()
    y = (signal > 0.5).astype(int)
    model = make(name).fit(X, y)
    unseen, missing = X.copy(), X.copy()
    unseen["c{}:"] = pd.Categorical(["violet"] * len(X))
    missing["c{}:"] = pd.Categorical([None] * len(X), categories=["red", "green", "blue"])
    np.testing.assert_array_equal(model.predict(unseen), model.predict(missing))
    reordered = X.copy()
    reordered["c{}:"] = X["c{}:"].cat.set_categories(["red", "violet", "blue", "green"])
    np.testing.assert_array_equal(model.predict(reordered), model.predict(X))


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_matrices_copies_and_weights(name):
    X, signal = table()
    matrix = X.iloc[:, :2].to_numpy()
    y = (signal > 0.5).astype(int)
    weight = np.where(y == 1, 5.0, 1.0)
    plain = make(name).fit(matrix, y)
    weighted = clone(plain).fit(matrix, y, sample_weight=weight)
    again = pickle.loads(pickle.dumps(plain))
    np.testing.assert_array_equal(again.predict(matrix), plain.predict(matrix))
    assert weighted.predict(matrix).mean() > plain.predict(matrix).mean()
    validated = clone(plain).fit(matrix, y, sample_weight=weight, eval_set=(matrix, y))
    assert validated.best_iteration_ >= 1


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_balanced_classes(name):
    X, signal = table()
    y = (signal > 2.0).astype(int)
    plain = make(name).fit(X, y).predict_proba(X)[:, 1].mean()
    assert make(name, class_weight="balanced").fit(X, y).predict_proba(X)[:, 1].mean() > plain


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_nothing_to_learn_is_no_error(name):
    X, signal = table(60)
    constant_target = make(name).fit(X, np.full(60, 3))
    assert (constant_target.predict(X) == 3).all()
    y = (signal > 0.5).astype(int)
    constant_table = make(name).fit(np.zeros((60, 2)), y)
    assert len(np.unique(constant_table.predict(np.zeros((5, 2))))) == 1
    if name in CLASSIFIERS:
        np.testing.assert_allclose(constant_table.predict_proba(np.zeros((1, 2)))[0, 1], y.mean())
        assert constant_target.predict_proba(X).shape == (60, 1)


def test_more_categories_than_scikit_learn_takes():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"id": pd.Categorical(rng.permutation(np.arange(600) % 300).astype(str))})
    model = make("HistGradientBoostingRegressor", n_estimators=5).fit(X, rng.standard_normal(600))
    assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_a_copy_predicts_the_same_bit_by_bit_and_its_state_is_plain(name):
    X, signal = table(300)
    y = np.digitize(signal, [0.0, 1.0]) if name in CLASSIFIERS else signal
    model = make(name, n_estimators=200, early_stopping_rounds=5).fit(X[:200], y[:200], eval_set=(X[200:], y[200:]))
    state = model.__getstate__()
    assert all(type(known) is list for known in state["categories_"].values())
    if not name.startswith("Hist"):
        assert type(state["model_"]) is bytes
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(model))))
    predict = "predict_proba" if name in CLASSIFIERS else "predict"
    np.testing.assert_array_equal(getattr(again, predict)(X), getattr(model, predict)(X))
    assert again.best_iteration_ == model.best_iteration_
    assert not hasattr(pickle.loads(pickle.dumps(make(name))), "model_")
