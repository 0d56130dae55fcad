"""What a fit says in the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import f1_score, log_loss, mean_absolute_error, r2_score, roc_auc_score, root_mean_squared_error

from headstart import HeadstartClassifier, HeadstartRegressor
from headstart.evaluation.scoring import Metric, full_name
from headstart.fitting.assembly import predictions_of
from headstart.fitting.summary import Summary, _units, constant_loss

ORDERS = [np.random.default_rng(seed).permutation(120) for seed in range(3)]


@pytest.fixture(scope="module")
def regression() -> tuple[HeadstartRegressor, pd.DataFrame, Any]:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc"))
    y = 50 + 10 * X["a"] + X["b"] ** 2 + rng.normal(size=200)
    quick: dict[str, Any] = {"evaluations": 2, "splitter": 4, "sandbox": False, "n_jobs": 1}
    model = HeadstartRegressor(**quick, include=["ridge", "decision_tree"], metric="rmse", ensemble=False)
    return model.fit(X, y), X, y.to_numpy()


def test_the_numbers_of_a_regression(regression: Any) -> None:
    model, _, y = regression
    found = model.summary_
    best = predictions_of(model.history_.best)
    folds = [valid for _, valid in model._run.plan.splits]
    assert found.metric == "neg_root_mean_squared_error"
    assert found.score == pytest.approx(np.mean([root_mean_squared_error(y[v], best[v]) for v in folds]))
    assert model.score_ == pytest.approx(-found.score)
    constant = []
    for train, valid in model._run.plan.splits:
        dummy = DummyRegressor().fit(np.zeros((len(train), 1)), y[train])
        constant.append(root_mean_squared_error(y[valid], dummy.predict(np.zeros((len(valid), 1)))))
    assert found.constant == pytest.approx(np.mean(constant), rel=0.02)  # or with the median, if that is better
    assert found.constant <= np.mean(constant) + 1e-12
    [linear] = [t for t in model.history_ if t.pipeline.algorithms[-1] == "ridge"]
    assert found.linear == pytest.approx(linear.outcome.loss)
    assert found.others["r2"] == pytest.approx(np.mean([r2_score(y[v], best[v]) for v in folds]))
    assert found.others["neg_mean_absolute_error"] == pytest.approx(
        np.mean([mean_absolute_error(y[v], best[v]) for v in folds])
    )
    assert (found.rows, found.trained_rows) == (200, 150)


def test_the_interval_is_that_of_drawn_rows(regression: Any) -> None:
    """By the normal approximation of the error of a root mean square, which is close for 200 rows."""
    model, _, y = regression
    low, high = model.summary_.interval
    squares = (y - predictions_of(model.history_.best)) ** 2
    error = squares.std() / np.sqrt(len(y)) / (2 * np.sqrt(squares.mean()))
    assert low < model.summary_.score < high
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.3)


def test_it_is_written_as_people_write(regression: Any) -> None:
    model, _, _ = regression
    text = str(model.summary_)
    assert text.startswith(f"RMSE {model.summary_.score:.4g} (95 %: ")
    assert "neg_" not in text
    assert "-" not in text
    assert "a constant has" in text
    assert "the best linear model" in text
    assert "R² 0.9" in text
    assert "each model was fitted to 150 of 200 rows" in text


def test_it_is_saved(regression: Any, tmp_path: Path) -> None:
    model, _, _ = regression
    model.save(tmp_path / "model")
    again = HeadstartRegressor.load(tmp_path / "model")
    assert again.summary_ == model.summary_
    assert again.score_ == model.score_
    assert Summary.from_dict(model.summary_.to_dict()) == model.summary_


def test_a_model_is_printed_in_a_line(regression: Any) -> None:
    model, _, _ = regression
    text = str(model.model_)
    assert text == f"<Model of 'target', regression: 1 pipeline, 4 models, RMSE {model.summary_.score:.4g}>"
    assert len(repr(model.model_.members)) < 80


def test_the_numbers_of_a_classification(frame: pd.DataFrame, quick: dict[str, Any]) -> None:
    model = HeadstartClassifier(**quick, metric="AUC", ensemble=False).fit(frame, target="label")
    found = model.summary_
    assert found is not None
    assert found.metric == "roc_auc"
    assert found.constant == 0.5
    y = (frame["label"] == "yes").to_numpy()
    best = predictions_of(model.history_.best)
    assert model._run is not None
    folds = list(model._run.plan.splits)
    assert found.score == pytest.approx(np.mean([roc_auc_score(y[v], best[v, 1]) for _, v in folds]))
    assert list(found.others) == ["accuracy", "neg_log_loss"]
    assert found.others["accuracy"] == pytest.approx(
        np.mean([(best[v].argmax(axis=1) == y[v]).mean() for _, v in folds])
    )
    by_loss = HeadstartClassifier(**quick, metric="logloss").fit(frame, target="label").summary_
    assert by_loss is not None
    shares = [DummyClassifier().fit(np.zeros((len(t), 1)), y[t]).predict_proba([[0.0]])[0] for t, _ in folds]
    wanted = [-np.log(share[y[v].astype(int)]).mean() for share, (_, v) in zip(shares, folds, strict=True)]
    assert by_loss.constant == pytest.approx(np.mean(wanted))


@pytest.fixture(scope="module")
def rare() -> tuple[pd.DataFrame, Any]:
    """A class that is rare, and that no model gives a probability of a half."""
    rng = np.random.default_rng(3)
    X = pd.DataFrame(rng.normal(size=(600, 3)), columns=list("abc"))
    return X, (X["a"] + rng.normal(size=600) > 2.2).astype(int).to_numpy()


def test_a_linear_model_has_a_threshold_of_its_own(rare: Any, quick: dict[str, Any]) -> None:
    """The only pipeline is linear, so that the model and the linear model are the same."""
    X, y = rare
    model = HeadstartClassifier(**quick | {"include": ["logistic_regression"]}, metric="f1", ensemble=False).fit(X, y)
    assert any("thresholds between classes are tuned for F1" in note for note in model.notes_)
    found = model.summary_
    assert found is not None
    best = predictions_of(model.history_.best)
    assert model._run is not None
    plain = np.mean([f1_score(y[v], best[v].argmax(axis=1)) for _, v in model._run.plan.splits])
    assert found.linear == pytest.approx(found.score)
    assert found.score > plain + 0.02


def test_a_linear_model_is_calibrated_too(rare: Any, quick: dict[str, Any]) -> None:
    """Columns without meaning make it too sure of itself."""
    X, y = rare
    noise = {f"n{i}": column for i, column in enumerate(np.random.default_rng(0).normal(size=(40, 600)))}
    settings = quick | {"evaluations": 1, "include": ["lda"], "metric": "logloss"}
    model = HeadstartClassifier(**settings).fit(X.assign(**noise), y)
    assert model.summary_ is not None
    assert model.summary_.linear == pytest.approx(model.summary_.score)
    assert model.summary_.linear < float(model.history_.best.outcome.loss) - 1e-3


def test_a_constant_may_be_the_rarer_class(rare: Any, quick: dict[str, Any]) -> None:
    X, y = rare
    model = HeadstartClassifier(**quick, metric="f1").fit(X, y)
    assert model._run is not None
    ones = [f1_score(y[v], np.ones(len(v))) for _, v in model._run.plan.splits]
    assert model.summary_ is not None
    assert model.summary_.constant == pytest.approx(np.mean(ones))


def test_a_constant_where_each_part_lacks_a_class(frame: pd.DataFrame, quick: dict[str, Any]) -> None:
    """Then all rows count together, for it as for the model."""
    yes = np.flatnonzero(frame["label"] == "yes")
    no = np.flatnonzero(frame["label"] == "no")
    pairs = [(np.setdiff1d(np.arange(120), rows), rows) for rows in (yes[:9], no[:9])]
    model = HeadstartClassifier(**quick | {"splitter": pairs}, metric="AUC", ensemble=False).fit(frame, target="label")
    assert model.summary_ is not None
    assert model.summary_.constant == 0.5
    assert np.isfinite(model.summary_.score)


def test_a_constant_knows_weights(frame: pd.DataFrame, quick: dict[str, Any]) -> None:
    """There is one definition of it: what pipelines must gain upon is what the summary shows."""
    weights = np.where(frame["label"] == "yes", 5.0, 1.0)
    settings = {**quick, "metric": "logloss"}
    model = HeadstartClassifier(**settings).fit(frame, target="label", sample_weight=weights)
    assert model._run is not None
    y = (frame["label"] == "yes").to_numpy().astype(int)
    wanted = []
    for train, valid in model._run.plan.splits:
        dummy = DummyClassifier().fit(np.zeros((len(train), 1)), y[train], weights[train])
        found = dummy.predict_proba(np.zeros((len(valid), 1)))
        wanted.append(log_loss(y[valid], found, sample_weight=weights[valid]))
    assert constant_loss(model._run) == pytest.approx(np.mean(wanted))
    assert model.summary_ is not None
    assert model.summary_.constant == pytest.approx(np.mean(wanted))


def test_groups_are_drawn_whole() -> None:
    groups = np.array(["a", "b", "b", "c", "c", "c"])
    assert _units(groups, np.arange(1, 6), 6).tolist() == [-1, 0, 0, 1, 1, 1]
    assert _units(None, np.arange(1, 6), 6).tolist() == [-1, 0, 1, 2, 3, 4]


def test_repeated_folds_do_not_count_rows_twice(frame: pd.DataFrame, quick: dict[str, Any]) -> None:
    """A constant is the same in all rows of a fold, and rows that are validated twice are no more rows."""
    folds = [(np.flatnonzero(order % 3 != k), np.flatnonzero(order % 3 == k)) for order in ORDERS for k in range(3)]
    widths = []
    for splits in (folds[:3], folds):
        model = HeadstartClassifier(**quick | {"splitter": splits}, ensemble=False).fit(frame, target="label")
        assert model.summary_ is not None
        assert model.summary_.interval is not None
        assert model.summary_.constant == 0.5
        widths.append(float(np.diff(model.summary_.interval)[0]))
    assert widths[1] > 0.8 * widths[0]


@pytest.mark.parametrize(
    ("short", "task", "name"),
    [
        ("rmse", "regression", "neg_root_mean_squared_error"),
        ("mae", "regression", "neg_mean_absolute_error"),
        ("r2", "regression", "r2"),
        ("auc", "binary", "roc_auc"),
        ("logloss", "multiclass", "neg_log_loss"),
        ("accuracy", "binary", "accuracy"),
    ],
)
def test_short_names_of_metrics(short: str, task: str, name: str) -> None:
    assert full_name(short) == Metric(short, task).name == Metric(short, task).key == name
    assert Metric(short, task).given == name
