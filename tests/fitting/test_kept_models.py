"""Models that earlier versions saved still load, and predict what they predicted when they were saved.

The files in ``kept`` are never changed. When the format gains something, add a file: ``python -m
tests.fitting.test_kept_models NAME`` fits one of `MODELS` and writes it, and what it predicts, under a new name.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.errors import HeadstartWarning
from headstart.estimators import load

KEPT = Path(__file__).parent / "kept"


def table(rows: int) -> tuple[pd.DataFrame, pd.Series]:
    """All kinds of columns, with missing values."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=rows), "b": rng.normal(size=rows), "k": rng.choice(["x", "y", None], rows)})
    X["d"] = pd.date_range("2020-01-01", periods=rows).strftime("%d.%m.%Y")
    X["t"] = [f"a {w} day {i % 7} of rest and work" for i, w in enumerate(rng.choice(["red", "blue"], rows))]
    X["flag"] = rng.choice(["yes", "no"], rows)
    X.loc[::5, "b"] = np.nan
    return X, X["a"] + (X["k"] == "x") + 0.5 * X["t"].str.contains("red") + 0.2 * rng.normal(size=rows)


SMALL = {"sandbox": False, "n_jobs": 1, "splitter": 3, "random_state": 0}
MODELS = {
    "classes": lambda X, y: HeadstartClassifier(
        **SMALL,
        evaluations=4,
        include=["lightgbm", "logistic_regression", "decision_tree", "knn"],
        metric="neg_log_loss",
        calibrate=True,
    ).fit(X, np.where(y > 1, "high", np.where(y > 0, "mid", "low"))),
    "texts": lambda X, y: HeadstartRegressor(**SMALL, evaluations=1, include=["ridge"]).fit(
        X.assign(t=[f"{text} {i} {i % 9}" for i, text in enumerate(X["t"])]), y
    ),
    "numbers": lambda X, y: HeadstartRegressor(
        **SMALL, evaluations=3, include=["hist_gradient_boosting", "ridge"], refit="full"
    ).fit(X, y),
}


def predicted(model) -> dict[str, list]:
    """All that a model says of some rows."""
    X, _ = table(12)
    if hasattr(model, "predict_proba"):
        found = {"proba": model.predict_proba(X), "set": model.predict_set(X, 0.8)}
    else:
        found = {"interval": model.predict_interval(X, 0.8)}
    return {"predict": model.predict(X).tolist()} | {name: values.tolist() for name, values in found.items()}


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.headstart")), ids=lambda path: path.stem)
def test_a_kept_model_predicts_the_same(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HeadstartWarning)  # of libraries that have other versions now
        model = load(path)
    expected, found = json.loads(path.with_suffix(".json").read_text()), predicted(model)
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        if isinstance(np.ravel(values)[0].item(), float):
            np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-9)
        else:
            assert found[name] == values
    assert len(model.leaderboard()) > 0
    assert model.summary_ is not None
    assert model.model_.reference is not None


def test_there_are_models_of_the_first_version():
    assert {"classes_1", "numbers_1", "texts_1"} <= {path.stem for path in KEPT.glob("*.headstart")}


if __name__ == "__main__":
    name = sys.argv[1]
    made = MODELS[name.rpartition("_")[0]](*table(80))
    KEPT.mkdir(exist_ok=True)
    assert not (KEPT / f"{name}.headstart").exists(), "kept files are never changed"
    made.save(KEPT / f"{name}.headstart")
    (KEPT / f"{name}.json").write_text(json.dumps(predicted(made), indent=1) + "\n")
