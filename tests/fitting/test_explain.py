"""Explanations: against shap on known trees, against brute force, and as a fit gives them."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.errors import InvalidInput
from headstart.estimators import load
from headstart.fitting import explain as module
from headstart.fitting.explain import REFERENCE_ROWS, explain

shap = pytest.importorskip("shap")

QUICK = {"evaluations": 2, "sandbox": False, "n_jobs": 1, "splitter": 3}


def table(rows=150):
    """All kinds of columns, with missing values."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows), "k": rng.choice(["x", "y", None], rows)})
    X["d"] = pd.date_range("2020-01-01", periods=rows).strftime("%d.%m.%Y")
    X["t"] = [f"a {w} day {i} of rest and work" for i, w in enumerate(rng.choice(["red", "blue"], rows))]
    X["flag"] = rng.choice(["yes", "no"], rows)
    X["row"] = [f"r{i}" for i in range(rows)]  # an id
    X.loc[::5, "b"] = np.nan
    return X, X["a"] + (X["k"] == "x") + X["t"].str.contains("red")


@pytest.fixture(scope="module")
def classifier():
    X, signal = table()
    labels = np.where(signal > 1.5, "high", np.where(signal > 0.3, "mid", "low"))
    return HeadstartClassifier(**QUICK, include=["logistic_regression", "lightgbm"], calibrate=True).fit(X, labels)


@pytest.fixture(scope="module")
def regressor():
    X, signal = table()
    return HeadstartRegressor(**QUICK, include=["ridge", "lightgbm"]).fit(X, signal)


def sums(explanation):
    return explanation.base + explanation.values.sum(axis=1)


@pytest.mark.parametrize("few", [0, 8])
def test_base_and_contributions_are_the_prediction(classifier, regressor, few, monkeypatch):
    monkeypatch.setattr(module, "FEW_COLUMNS", few)  # sampled, or all subsets
    X, _ = table()
    found = classifier.explain(X[:4])
    assert found.columns == ("a", "b", "k", "d", "t", "flag")
    assert found.values.shape == (4, 6, 3)
    assert found.method.startswith("exact: all subsets of 6" if few else "sampled: 12 permutations")
    np.testing.assert_allclose(sums(found), classifier.predict_proba(X[:4]), atol=1e-9)
    found = regressor.explain(X[:3])
    np.testing.assert_allclose(sums(found), regressor.predict(X[:3]), atol=1e-9)
    assert found.base.shape == ()


def test_exact_contributions_are_those_by_definition(regressor):
    X, _ = table()
    background = X[50:53]
    found = regressor.explain(X[:1], background=background)
    names, n = found.columns, len(found.columns)

    def worth(coalition):
        rows = background.copy()
        for name in coalition:
            rows[name] = X[name].iloc[0]
        return regressor.predict(rows).mean()

    for j, name in enumerate(names):
        others = [other for other in names if other != name]
        total = 0.0
        for size in range(n):
            weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
            total += weight * sum(worth([*c, name]) - worth(c) for c in itertools.combinations(others, size))
        assert found.values[0, j] == pytest.approx(total, abs=1e-9)


def test_sampled_contributions_come_near_the_exact_ones(regressor, monkeypatch):
    X, _ = table()
    exact = regressor.explain(X[:5])
    monkeypatch.setattr(module, "FEW_COLUMNS", 0)
    sampled = regressor.explain(X[:5])
    assert np.abs(sampled.values - exact.values).max() < 0.1 * np.abs(exact.values).max()


@pytest.mark.parametrize("algorithm", ["lightgbm", "xgboost", "random_forest", "hist_gradient_boosting"])
def test_trees_on_numbers_are_exact(algorithm, monkeypatch):
    pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 10)), columns=list("abcdefghij"))
    X["k"] = rng.choice(["u", "v", "w"], 200)
    y = X["a"] * X["b"] + X["c"] + (X["k"] == "u")
    model = HeadstartRegressor(**QUICK, include=[algorithm, "target"], ensemble=False, refit="bag").fit(X, y)
    found = model.explain(X[:6])
    assert found.method == f"exact: trees, against {REFERENCE_ROWS} reference rows"
    np.testing.assert_allclose(sums(found), model.predict(X[:6]), rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(module, "_of_trees", lambda *_: None)
    monkeypatch.setattr(module, "FEW_COLUMNS", 11)
    by_subsets = model.explain(X[:2])
    assert by_subsets.method.startswith("exact: all subsets")
    np.testing.assert_allclose(found.values[:2], by_subsets.values, rtol=1e-3, atol=1e-5)


def test_a_forest_of_classes_is_exact():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 10)), columns=list("abcdefghij"))
    labels = np.where(X["a"] + X["b"] > 0.5, "p", np.where(X["a"] > 0, "q", "r"))
    model = HeadstartClassifier(
        **QUICK, include=["random_forest", "extra_trees"], exclude=["pca"], calibrate=False, metric="accuracy"
    ).fit(X, labels)
    found = model.explain(X[:4])
    assert found.method.startswith("exact: trees")
    np.testing.assert_allclose(sums(found), found.predictions, atol=1e-6)


def test_a_saved_model_explains_the_same_and_keeps_no_row_or_text(classifier, tmp_path):
    X, _ = table()
    classifier.save(tmp_path / "m")
    again = load(tmp_path / "m")
    pd.testing.assert_frame_equal(again.model_.reference, classifier.model_.reference)
    ours, theirs = classifier.explain(X[:2]), again.explain(X[:2])
    np.testing.assert_array_equal(ours.values, theirs.values)
    reference = classifier.model_.reference
    assert len(reference) == REFERENCE_ROWS
    assert reference["t"].isna().all()
    assert reference["row"].isna().all()
    rows = {tuple(row) for row in classifier.model_.schema.apply(X)[["a", "b", "d"]].itertuples(index=False)}
    assert not rows & {tuple(row) for row in reference[["a", "b", "d"]].itertuples(index=False)}
    assert reference["a"].mean() == pytest.approx(X["a"].mean(), abs=0.1)
    assert (reference["k"] == "x").mean() == pytest.approx((X["k"] == "x").mean(), abs=0.06)


def test_as_a_table_and_for_the_plots_of_shap(classifier, regressor):
    X, _ = table()
    found = regressor.explain(X[:3])
    frame = found.frame()
    assert list(frame.columns) == ["(base)", *found.columns, "(prediction)"]
    np.testing.assert_allclose(frame.drop(columns="(prediction)").sum(axis=1), frame["(prediction)"])
    of_shap = found.to_shap()
    assert isinstance(of_shap, shap.Explanation)
    np.testing.assert_allclose(of_shap.values.sum(axis=1) + of_shap.base_values, found.predictions)
    found = classifier.explain(X[:3])
    assert found.frame()["(class)"].tolist() == [found.classes[i] for i in found.predictions.argmax(axis=1)]
    np.testing.assert_allclose(found.frame("low")["(prediction)"], found.predictions[:, 1])  # high, low, mid
    assert found.to_shap().output_names == ["high", "low", "mid"]


def test_what_cannot_be_explained(classifier, regressor):
    X, _ = table()
    with pytest.raises(InvalidInput, match=r"label \(--class\) must be one of high, low, mid, got 'deep'"):
        classifier.explain(X[:1]).frame("deep")
    with pytest.raises(InvalidInput, match="a regression has no classes"):
        regressor.explain(X[:1]).frame("deep")
    older = replace(regressor.model_, reference=None)
    with pytest.raises(InvalidInput, match="give background, or refit"):
        explain(older, older.schema.apply(X[:1]))
    from scipy.sparse import csr_matrix

    sparse = HeadstartRegressor(**QUICK, include=["ridge"]).fit(csr_matrix(np.eye(20)), np.arange(20.0))
    assert sparse.model_.reference is None
    with pytest.raises(InvalidInput, match="sparse matrix"):
        sparse.explain(csr_matrix(np.eye(20)))
