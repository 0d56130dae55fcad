"""Exported files under onnxruntime, against the models that they were made of."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.errors import InvalidInput
from headstart.fitting import onnx_numbers
from headstart.fitting.onnx_export import export_onnx, feed

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("skl2onnx")

QUICK = {"evaluations": 1, "sandbox": False, "n_jobs": 1, "splitter": 0.3}


def table(rows=1200):
    """Numbers, categories, dates and booleans, all with missing values, and categories that training never saw."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=rows), "b": 100 * rng.normal(size=rows), "c": rng.integers(0, 50, rows)})
    X["k"] = rng.choice(list("uvwxyz"), rows)
    X["m"] = rng.choice([f"city {i}" for i in range(30)], rows)
    X["d"] = pd.Timestamp("1999-03-01") + pd.to_timedelta(rng.integers(0, 9 * 10**8, rows), unit="s")
    X["f"] = rng.choice(["yes", "no"], rows)
    for name in "abkmdf":
        X.loc[rng.random(rows) < 0.1, name] = None
    X.loc[rows - 20 :, "k"] = "unheard of"
    signal = X["a"].fillna(0) + (X["k"] == "u") + 0.5 * (X["d"].dt.month > 6) + 0.3 * rng.normal(size=rows)
    return X, signal + X["m"].str[-1:].isin(["1", "3", "5"])


X, SIGNAL = table()
TARGETS = {
    "binary": np.where(SIGNAL - SIGNAL.median() > 0, "p", "q"),
    "multiclass": np.digitize(SIGNAL, SIGNAL.quantile([0.3, 0.6])),
    "regression": 1000 + 50 * SIGNAL,
}


def fitted(task, include, **settings):
    maker = HeadstartRegressor if task == "regression" else HeadstartClassifier
    return maker(**(QUICK | settings), include=include).fit(X[:300], TARGETS[task][:300])


def run(path, model):
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = {known.name for known in session.get_inputs()}
    given = {name: values for name, values in feed(model.model_.schema, X).items() if name in names}
    return session.run(None, given)


def compare(model, path):
    found = run(path, model)
    if model.model_.classes is None:
        wanted = model.predict(X)
        off = np.abs(found[0][:, 0] - wanted) / np.abs(wanted)
    else:
        wanted = model.predict_proba(X)
        off = np.abs(found[0] - wanted).max(axis=1)
        assert np.mean(found[1] == model.predict(X)) > 0.998
    assert (off <= 1e-4).mean() >= 0.999


CASES = [
    ("binary", ["lightgbm"]),
    ("multiclass", ["lightgbm"]),
    ("regression", ["lightgbm"]),
    ("binary", ["lightgbm", "median"]),
    ("binary", ["xgboost"]),
    ("multiclass", ["xgboost"]),
    ("multiclass", ["hist_gradient_boosting"]),
    ("regression", ["hist_gradient_boosting"]),
    ("binary", ["catboost", "ordinal"]),
    ("regression", ["catboost", "target"]),
    ("multiclass", ["random_forest"]),
    ("binary", ["logistic_regression", "one_hot"]),
    ("multiclass", ["mlp", "target", "standard"]),
    ("regression", ["ridge"]),
    ("regression", ["extra_trees"]),
]


@pytest.mark.parametrize(("task", "include"), CASES)
def test_a_pipeline_predicts_the_same_from_raw_columns(task, include, tmp_path):
    if "xgboost" in include:
        pytest.importorskip("xgboost")
    model = fitted(task, include)
    model.export_onnx(tmp_path / "m.onnx")
    compare(model, tmp_path / "m.onnx")


def test_a_calibrated_ensemble_of_folds_with_thresholds_predicts_the_same(tmp_path):
    model = fitted(
        "multiclass",
        ["lightgbm", "logistic_regression", "random_forest"],
        evaluations=3,
        splitter=3,
        calibrate=True,
        tune_threshold=True,
        metric="balanced_accuracy",
    )
    model.export_onnx(tmp_path / "m.onnx")
    compare(model, tmp_path / "m.onnx")
    model.export_onnx(tmp_path / "best.onnx", best=True)
    found = run(tmp_path / "best.onnx", model)[0]
    best = model.model_.best.predictor(model.model_.shape)(model.model_.schema.apply(X))
    if model.model_.decisions.temperature == 1.0:
        assert (np.abs(found - best).max(axis=1) <= 1e-4).mean() >= 0.999
    assert found.shape == best.shape


def test_dates_have_the_parts_that_the_calendar_gives_them(tmp_path):
    days = pd.Series(pd.date_range("1890-01-01", "2110-01-01", freq="67h7min"))
    frame = pd.DataFrame({"d": days})
    y = 500 * (days.dt.month == 2) + 40 * (days.dt.day > 28) + days.dt.year % 4 + days.dt.day_of_week + days.dt.hour / 9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = HeadstartRegressor(**QUICK, include=["lightgbm"]).fit(frame[::60], y[::60])
    model.export_onnx(tmp_path / "m.onnx")
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    found = session.run(None, feed(model.model_.schema, frame))[0][:, 0]
    np.testing.assert_allclose(found, model.predict(frame), rtol=1e-5, atol=1e-4)


def test_what_cannot_be_converted_is_named_with_what_to_leave_out(tmp_path):
    with pytest.raises(InvalidInput, match=r"catboost with categories as they are.*--exclude catboost"):
        fitted("binary", ["catboost"]).export_onnx(tmp_path / "m.onnx")
    texts = pd.DataFrame({"a": X["a"][:120], "t": [f"some words {i} of text here" for i in range(120)]})
    model = HeadstartRegressor(**QUICK, include=["ridge"]).fit(texts, SIGNAL[:120])
    with pytest.raises(InvalidInput, match="text columns cannot be converted to ONNX: t; fit again without them"):
        model.export_onnx(tmp_path / "m.onnx")
    with pytest.raises(InvalidInput, match="directory"):
        fitted("regression", ["ridge"]).export_onnx(tmp_path / "nowhere" / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_what_predicts_otherwise_is_named(tmp_path, monkeypatch):
    """As when a library changes what a fitted part consists of."""
    wrong = fitted("binary", ["logistic_regression", "one_hot"]).model_
    right = fitted("binary", ["lightgbm"]).model_
    both = replace(right, members=tuple(replace(m, weight=0.5) for m in (*right.members, *wrong.members)))
    export_onnx(both, tmp_path / "both.onnx")
    monkeypatch.setitem(
        onnx_numbers._ESTIMATORS,
        "LogisticRegression",
        lambda graph, model, matrix: onnx_numbers._two(graph, onnx_numbers._linear(graph, model, matrix)),
    )
    said = r"otherwise than the model.*because of \w+ > one_hot > \w+ > [\w> ]*logistic_regression\. Fit again with "
    exclude = r"exclude \(--exclude logistic_regression\)"
    with pytest.raises(InvalidInput, match=said + exclude) as raised:
        export_onnx(both, tmp_path / "m.onnx")
    assert ("--best" in str(raised.value)) == (both.best.pipeline == right.best.pipeline)
    with pytest.raises(InvalidInput, match=said + exclude + "$"):
        export_onnx(wrong, tmp_path / "m.onnx")
    assert not (tmp_path / "m.onnx").exists()


def test_the_file_says_what_its_inputs_are(tmp_path):
    fitted("regression", ["ridge"]).export_onnx(tmp_path / "m.onnx")
    about = runtime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"]).get_modelmeta()
    assert about.description.startswith("Predicts target. Inputs are columns of shape (n, 1).")
    assert "d: date" in about.custom_metadata_map["columns"].splitlines()
