"""Intervals and sets: against MAPIE, by hand, and as a fit makes them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.model_selection import KFold

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.errors import InvalidInput
from headstart.estimators import load
from headstart.fitting.conformal import MOST_SCORES, Conformity

mapie_regression = pytest.importorskip("mapie.regression")
mapie_classification = pytest.importorskip("mapie.classification")


def regression_rows(n=203):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, 3))
    return X, X @ [1.0, -2.0, 0.5] + rng.standard_t(3, size=n)


def out_of_fold(maker, X, y, pairs, method, shape=()):
    """Predictions for all rows, and what the models of each fold predict for new ones."""
    models = [maker().fit(X[train], y[train]) for train, _ in pairs]
    found = np.empty((len(y), *shape))
    for model, (_, valid) in zip(models, pairs, strict=True):
        found[valid] = getattr(model, method)(X[valid])
    return found, lambda new: np.array([getattr(model, method)(new) for model in models])


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_intervals_are_those_of_mapie(coverage):
    X, y = regression_rows()
    new = np.random.default_rng(2).normal(size=(60, 3))
    cv = KFold(5, shuffle=True, random_state=0)
    pairs = list(cv.split(X))
    predictions, of_folds = out_of_fold(LinearRegression, X, y, pairs, "predict")
    ours = Conformity.of(predictions, y, np.arange(len(y)), pairs).intervals(of_folds(new), coverage)
    oracle = mapie_regression.CrossConformalRegressor(LinearRegression(), confidence_level=coverage, cv=cv)
    _, bounds = oracle.fit_conformalize(X, y).predict_interval(new)
    np.testing.assert_allclose(ours, bounds[:, :, 0], atol=1e-5)


@pytest.mark.parametrize("coverage", [0.6, 0.9])
def test_sets_are_those_of_mapie(coverage):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 2))
    y = np.argmax(X @ rng.normal(size=(2, 3)) + rng.gumbel(size=(240, 3)), axis=1)
    new = rng.normal(size=(80, 2))
    cv = KFold(4, shuffle=True, random_state=0)
    pairs = list(cv.split(X))
    predictions, of_folds = out_of_fold(LogisticRegression, X, y, pairs, "predict_proba", (3,))
    ours = Conformity.of(predictions, y, np.arange(len(y)), pairs).sets(of_folds(new), coverage)
    oracle = mapie_classification.CrossConformalClassifier(LogisticRegression(), confidence_level=coverage, cv=cv)
    _, sets = oracle.fit_conformalize(X, y).predict_set(new, agg_scores="crossval")
    np.testing.assert_array_equal(ours, sets[:, :, 0])
    assert 0 < ours.mean() < 1


def test_repeated_folds_average_the_models_that_had_not_seen_a_row():
    X, y = regression_rows(61)
    pairs = [pair for seed in (0, 1) for pair in KFold(3, shuffle=True, random_state=seed).split(X)]
    models = [LinearRegression().fit(X[train], y[train]) for train, _ in pairs]
    unseen = [[k for k, (_, valid) in enumerate(pairs) if i in valid] for i in range(len(y))]
    predictions = np.array([np.mean([models[k].predict(X[[i]])[0] for k in unseen[i]]) for i in range(len(y))])
    new = X[:7] + 0.1
    at = np.array([model.predict(new) for model in models])
    ours = Conformity.of(predictions, y, np.arange(len(y)), pairs).intervals(at, 0.8)
    for j in range(len(new)):
        centre = np.array([np.mean(at[unseen[i], j]) for i in range(len(y))])
        off = np.abs(y - predictions)
        k = int(np.ceil(0.8 * (len(y) + 1)))
        assert ours[j] == pytest.approx([np.sort(centre - off)[len(y) - k], np.sort(centre + off)[k - 1]], abs=1e-5)


def test_few_scores_are_kept_of_many_rows():
    y = np.arange(10_000.0)
    kept = Conformity.of(y + 1.0, y, np.arange(10_000), [(np.arange(0), np.arange(10_000))])
    assert len(kept.scores) == MOST_SCORES
    np.testing.assert_allclose(kept.intervals(np.zeros((1, 2)), 0.9), [[-1, 1], [-1, 1]])


@pytest.mark.parametrize("coverage", [0, 1, 1.5, -0.1, "high", True, None, float("nan")])
def test_a_coverage_that_is_none(coverage):
    kept = Conformity.of(np.zeros(9), np.arange(9.0), np.arange(9), [(np.arange(0), np.arange(9))])
    with pytest.raises(InvalidInput, match="coverage must be between 0 and 1"):
        kept.intervals(np.zeros((1, 1)), coverage)


def test_more_coverage_than_the_rows_allow():
    kept = Conformity.of(np.zeros(9), np.arange(9.0), np.arange(9), [(np.arange(0), np.arange(9))])
    assert kept.intervals(np.zeros((1, 1)), 0.9).tolist() == [[-8, 8]]
    with pytest.raises(InvalidInput, match=r"coverage must be at most 0\.9 with 9 validation rows, got 0\.91"):
        kept.intervals(np.zeros((1, 1)), 0.91)


def test_arrays_that_do_not_fit_together():
    good = Conformity.of(np.zeros(4), np.arange(4.0), np.arange(4), [(np.arange(0), np.arange(4))])
    for change in (
        {"groups": good.groups + 1},
        {"groups": good.groups[:-1]},
        {"scores": good.scores * np.nan},
        {"held_out": ~good.held_out},
    ):
        with pytest.raises(ValueError, match="scores of validation rows"):
            Conformity(**(vars(good) | change))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=900), "b": rng.normal(size=900), "k": rng.choice(["u", "v"], 900)})
    X.loc[::9, "a"] = np.nan
    return X, X["a"].fillna(0) + (X["k"] == "u") + 0.5 * rng.normal(size=900)


QUICK = {"evaluations": 3, "sandbox": False, "n_jobs": 1, "splitter": 3}


@pytest.mark.parametrize("refit", ["bag", "full", "single"])
def test_intervals_of_a_fit_cover_new_rows_and_survive_saving(rows, refit, tmp_path):
    X, y = rows
    model = HeadstartRegressor(**QUICK, refit=refit, include=["ridge", "random_forest"]).fit(X[:400], y[:400])
    bounds = model.predict_interval(X[400:], 0.9)
    assert bounds.shape == (500, 2)
    covered = np.mean((bounds[:, 0] <= y[400:]) & (y[400:] <= bounds[:, 1]))
    assert 0.84 < covered < 0.96  # four standard deviations of 500 rows, and of 400 scores
    wider = model.predict_interval(X[400:], 0.99)
    assert (wider[:, 0] <= bounds[:, 0]).all()
    assert (wider[:, 1] >= bounds[:, 1]).all()
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_interval(X[400:], 0.9), bounds)


def test_the_folds_of_a_bag_predict_apart(rows):
    X, y = rows
    model = HeadstartRegressor(**QUICK, include=["ridge"], ensemble=False).fit(X[:400], y[:400]).model_
    (member,) = model.members
    ready = model.schema.apply(X[400:405])
    np.testing.assert_allclose(model._fold_predictor(ready), [m.predict(ready) for m in member.models])


def test_sets_of_a_fit_cover_new_rows(rows, tmp_path):
    X, y = rows
    labels = np.where(y > 1, "high", np.where(y > 0, "mid", "low"))
    model = HeadstartClassifier(**QUICK, include=["logistic_regression", "random_forest"], calibrate=True)
    model.fit(X[:400], labels[:400])
    sets = model.predict_set(X[400:], 0.9)
    place = np.searchsorted(model.classes_, labels[400:])
    assert 0.84 < sets[np.arange(500), place].mean() < 0.96
    assert (model.predict_set(X[400:], 0.99) >= sets).all()
    model.save(tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict_set(X[400:], 0.9), sets)
    with pytest.raises(InvalidInput, match=r"coverage must be between 0 and 1, such as 0\.9, got 2"):
        model.predict_set(X[400:], 2)


def test_what_has_no_intervals(rows):
    X, y = rows
    model = HeadstartRegressor(**QUICK, include=["ridge"]).fit(X[:100], y[:100])
    with pytest.raises(InvalidInput, match="use predict_interval"):
        model.model_.predict_set(X)
    with pytest.warns(UserWarning, match="simple"):
        simple = HeadstartRegressor(time_budget=0.01, sandbox=False).fit(X[:100], y[:100])
    with pytest.raises(InvalidInput, match="a simple one that was not validated"):
        simple.predict_interval(X)


def test_a_hold_out_gives_split_conformal_intervals(rows):
    X, y = rows
    model = HeadstartRegressor(**(QUICK | {"splitter": 0.5}), include=["ridge"], ensemble=False).fit(X, y)
    (bounds,) = model.predict_interval(X[:1], 0.8)
    off = np.sort(model.model_.conformity.scores)
    half = off[int(np.ceil(0.8 * (len(off) + 1))) - 1]
    assert bounds == pytest.approx(model.predict(X[:1])[0] + np.array([-half, half]), rel=1e-5)
