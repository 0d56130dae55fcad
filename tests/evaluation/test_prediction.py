"""One pass for many pipelines gives what each of them gives by itself."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from headstart.components.boosting import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from headstart.components.prepare import PrepareTable
from headstart.data.dataset import Dataset
from headstart.evaluation import prediction
from headstart.evaluation.live import fit_model
from headstart.evaluation.prediction import Predictor, fingerprint, predict_model
from headstart.space import catalog

FAMILIES = ("logistic_regression", "random_forest", "extra_trees", "hist_gradient_boosting", "knn", "decision_tree")
NUMBERS = ("ridge", "random_forest", "extra_trees", "hist_gradient_boosting", "lightgbm")


def table(n: int = 150, text: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    found = pd.DataFrame(rng.normal(size=(n, 4)), columns=list("abcd"))
    found.loc[::7, "b"] = np.nan
    found["colour"] = rng.choice(["red", "green", "blue"], n)
    if text:
        words = np.array([f"word{i}" for i in range(40)])
        found["text"] = [" ".join(rng.choice(words, 12)) for _ in range(n)]
    return found


def fitted(task: str, names: tuple[str, ...], folds: int = 3, **options: Any) -> tuple[Any, list[Any]]:
    """A table in the form of `Dataset.X`, and models of several families fitted on parts of it."""
    frame = table(**options)
    numbers = frame["a"] + frame["b"].fillna(0) ** 2 + (frame["colour"] == "red")
    y = numbers if task == "regression" else pd.cut(numbers, 3, labels=["low", "mid", "top"])
    data = Dataset.from_arrays(frame, np.asarray(y), task=task)
    kinds = data.preparation | ({"text": "text"} if options.get("text") else {})
    space = catalog.load(task)
    models = []
    for seed, name in enumerate(names):
        for fold in range(folds):
            rows = np.flatnonzero(np.arange(len(frame)) % folds != fold)
            model = space.build(space.default({"estimator": [name]}), seed, kinds)
            if name == "hist_gradient_boosting":
                model.steps[-1][1].set_params(n_estimators=30)
            assert data.y is not None
            models.append(fit_model(model, data.X.iloc[rows], data.y[rows]))
    return data.X, models


def by_themselves(models: list[Any], weights: list[float], X: Any, k: int) -> Any:
    """The oracle: scikit-learn's own pipelines, one after the other."""
    total = 0.0
    for model, weight in zip(models, weights, strict=True):
        if k == 0:
            total = total + weight * model.predict(X)
            continue
        every = np.zeros((len(X), k))
        every[:, model.classes_] = model.predict_proba(X)
        total = total + weight * every
    return total


@pytest.mark.parametrize(("task", "names", "k"), [("classification", FAMILIES, 3), ("regression", NUMBERS, 0)])
def test_predictions_are_those_of_the_pipelines(task: str, names: tuple[str, ...], k: int) -> None:
    X, models = fitted(task, names)
    weights = np.random.default_rng(1).dirichlet(np.ones(len(models))).tolist()
    predict = Predictor(models, weights, (k,) if k else ())
    for rows in (X, X.iloc[[3]], X.iloc[:0]):
        if len(rows):
            assert np.abs(predict(rows) - by_themselves(models, weights, rows, k)).max() < 1e-12
        else:
            assert predict(rows).shape == ((0, k) if k else (0,))


def test_what_is_fitted_alike_is_done_once(monkeypatch: pytest.MonkeyPatch) -> None:
    X, models = fitted("classification", FAMILIES, text=True)
    calls = []
    plain = PrepareTable.transform

    def counted(self: Any, X: Any) -> Any:
        calls.append(len(X))
        return plain(self, X)

    monkeypatch.setattr(PrepareTable, "transform", counted)
    Predictor(models, [1 / len(models)] * len(models), (3,))(X)
    assert len(calls) == 3  # a text is prepared with the words of its fold: 18 pipelines, 3 folds


def test_rows_are_predicted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    X, models = fitted("regression", NUMBERS[:2])
    whole = predict_model(models[0], X, ())
    sizes = []
    plain = PrepareTable.transform

    def counted(self: Any, X: Any) -> Any:
        sizes.append(len(X))
        return plain(self, X)

    monkeypatch.setattr(PrepareTable, "transform", counted)
    monkeypatch.setattr(prediction, "LARGEST_PART", 40)
    assert np.abs(predict_model(models[0], X, ()) - whole).max() < 1e-12
    assert sizes == [40, 40, 40, 30]


def test_a_class_that_a_fold_lacks_has_probability_zero() -> None:
    X = np.arange(12.0)[:, None]
    model = make_pipeline(StandardScaler(), DecisionTreeClassifier()).fit(X, np.repeat([0, 2], 6))
    assert np.array_equal(predict_model(model, X[[0, 11]], (3,)), [[1, 0, 0], [0, 0, 1]])


class Spoiler(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer of a user that changes its input in place."""

    def fit(self, X: Any, y: Any = None) -> Spoiler:
        return self

    def transform(self, X: Any) -> Any:
        X *= -1
        return X


def test_a_step_that_changes_its_input_spoils_nothing() -> None:
    X = np.arange(12.0)[:, None]
    y = (X[:, 0] > 5).astype(int)
    models = [
        Pipeline([("own", Spoiler()), ("last", DecisionTreeClassifier())]).fit(X.copy(), y),
        Pipeline([("last", DecisionTreeClassifier())]).fit(X, y),
    ]
    found = Predictor(models, [0.5, 0.5], (2,))(X.copy())
    assert np.array_equal(found.argmax(axis=1), y)
    assert set(found.ravel()) == {0.0, 1.0}


def test_fingerprints_tell_what_was_fitted() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    one, same, other = StandardScaler().fit(X), StandardScaler().fit(X), StandardScaler().fit(X[:10])
    assert fingerprint(one) == fingerprint(same) == fingerprint(pickle.loads(pickle.dumps(one)))
    assert fingerprint(one) != fingerprint(other)
    assert fingerprint(one) != fingerprint(StandardScaler(with_mean=False).fit(X))
    assert fingerprint(Spoiler()) != fingerprint(Spoiler())  # who knows what it does


@pytest.mark.parametrize("k", [0, 2, 3])
def test_few_rows_of_histogram_boosting(k: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 5))
    X[::5, 1] = np.nan
    target = X[:, 0] + np.nan_to_num(X[:, 1])
    y = target if k == 0 else np.digitize(target, [0.0] if k == 2 else [-0.5, 0.5])
    kind = HistGradientBoostingClassifier if k else HistGradientBoostingRegressor
    model = kind(n_estimators=40, random_state=0).fit(X, y)
    own = model.model_.predict_proba(X[:20]) if k else model.model_.predict(X[:20])
    found = model.predict_proba(X[:20]) if k else model.predict(X[:20])
    assert "_flat" in vars(model)
    assert np.abs(found - own).max() < 1e-12
    again = pickle.loads(pickle.dumps(model))
    assert "_flat" not in vars(again)
    assert np.array_equal(again._raw(X[:20]), model._raw(X[:20]))
