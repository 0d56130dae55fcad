"""Fits as runs of MLflow, in a database of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from headstart import HeadstartRegressor
from headstart.errors import InvalidInput, MissingDependency
from headstart.estimators import load


def test_what_is_missing_is_named():
    try:
        import mlflow  # noqa: F401
    except ImportError:
        from headstart.fitting.mlflow_log import MlflowLog

        with pytest.raises(MissingDependency, match=r"pip install 'headstart\[mlflow\]'"):
            MlflowLog()


def test_trials_and_model_are_logged(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    from headstart.fitting.mlflow_log import MlflowLog

    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=list("abc"))
    log = MlflowLog("fits", (tmp_path / "runs").as_uri(), "first")
    with pytest.raises(InvalidInput, match="give this object to fit as progress first"):
        log.log_model(None)
    model = HeadstartRegressor(evaluations=3, include=["ridge"], sandbox=False, n_jobs=1, splitter=3)
    model.fit(X, X["a"] + rng.normal(size=80), progress=log)
    log.log_model(model)
    client = mlflow.MlflowClient((tmp_path / "runs").as_uri())
    (run,) = client.search_runs([client.get_experiment_by_name("fits").experiment_id])
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "first"
    scores = {m.step: m.value for m in client.get_metric_history(run.info.run_id, "score")}
    assert scores == pytest.approx(dict(zip(model.leaderboard_["trial"], model.leaderboard_["score"], strict=True)))
    best = [m.value for m in client.get_metric_history(run.info.run_id, "best")]
    assert best == sorted(best)
    assert run.data.metrics["model_score"] == pytest.approx(model.score_)
    names = {found.path for found in client.list_artifacts(run.info.run_id)}
    assert {"model.headstart", "leaderboard.csv"} <= names
    path = client.download_artifacts(run.info.run_id, "model.headstart", str(tmp_path))
    np.testing.assert_array_equal(load(path).predict(X), model.predict(X))
