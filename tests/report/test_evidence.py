"""What a report is made of, against other libraries and brute force."""

import time
from types import SimpleNamespace

import lightgbm
import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import auc, confusion_matrix, roc_auc_score, roc_curve, root_mean_squared_error

from headstart import HeadstartClassifier
from headstart.errors import HeadstartWarning
from headstart.estimators import load
from headstart.evaluation.live import is_predicted
from headstart.fitting import behaviour, estimator, evidence
from headstart.fitting.evidence import Record, write_report
from headstart.trials import Outcome


def test_lightgbm_with_its_defaults_is_that_of_the_library(regression):
    run = regression._run
    X, y = run.dataset.X, run.dataset.y
    losses = []
    for train, valid in run.plan.splits:
        theirs = lightgbm.LGBMRegressor(n_jobs=1, verbose=-1, deterministic=True, force_col_wise=True)
        theirs.fit(X.iloc[train], y[train])
        losses.append(root_mean_squared_error(y[valid], theirs.predict(X.iloc[valid])))
    assert regression.summary_.lightgbm == pytest.approx(np.mean(losses), rel=1e-6)
    assert f"LightGBM with its defaults {np.mean(losses):.4g}" in str(regression.summary_)


def test_references_are_no_trials(regression):
    assert len(regression.history_) == 3
    assert {t.pipeline.algorithms[-1] for t in regression.history_} == {"ridge"}


@pytest.mark.parametrize("kind", ["binary", "multiclass", "regression"])
def test_predictions_of_validation_rows_have_the_score_of_the_model(kind, request):
    model = request.getfixturevalue(kind)
    found = behaviour.validation_predictions(model.model_, model.history_)
    assert is_predicted(found).all()
    loss = model._run.objective.loss_of(found)
    assert model._run.metric.to_score(loss) == pytest.approx(model.score_)


def test_no_predictions_of_another_history(binary, multiclass):
    assert behaviour.validation_predictions(binary.model_, multiclass.history_) is None


@pytest.fixture
def guesses():
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 2, 3000)
    second = np.clip(rng.beta(2, 2, 3000) * 0.6 + 0.3 * truth, 0, 1)
    return truth, np.column_stack([1 - second, second])


def test_curves_keep_their_ends_and_area(guesses):
    truth, probabilities = guesses
    (curve,) = behaviour.roc_curves(truth, probabilities, ["no", "yes"])
    x, y, _ = roc_curve(truth, probabilities[:, 1])
    assert len(curve.x) <= behaviour.CURVE_POINTS < len(x)
    assert (curve.x[0], curve.y[0], curve.x[-1], curve.y[-1]) == (0, 0, 1, 1)
    assert auc(curve.x, curve.y) == pytest.approx(auc(x, y), abs=1e-3)
    assert curve.note == f"AUC {roc_auc_score(truth, probabilities[:, 1]):.3f}"
    (curve,) = behaviour.precision_recall_curves(truth, probabilities, ["no", "yes"])
    assert (curve.x[0], curve.x[-1]) == (0, 1)
    assert curve.y[-1] == pytest.approx(truth.mean(), abs=0.01)


def test_calibration_is_that_of_scikit_learn(guesses):
    truth, probabilities = guesses
    (curve,) = behaviour.calibration_curves(truth, probabilities, ["no", "yes"])
    observed, predicted = calibration_curve(truth, probabilities[:, 1], n_bins=10, strategy="quantile")
    assert curve.x == pytest.approx(predicted, abs=1e-3)
    assert curve.y == pytest.approx(observed, abs=1e-2)
    assert behaviour.calibration_curves(truth[:5], probabilities[:5], ["no", "yes"]) == []


def test_confusion_is_that_of_scikit_learn_and_joins_rare_classes():
    rng = np.random.default_rng(0)
    truth, chosen = rng.integers(0, 5, 200), rng.integers(0, 5, 200)
    labels, counts = behaviour.confusion(truth, chosen, list("abcde"))
    assert labels == list("abcde")
    assert (counts == confusion_matrix(truth, chosen)).all()
    truth = np.concatenate([np.repeat(np.arange(12), 5), np.arange(12, 20)])
    labels, counts = behaviour.confusion(truth, truth, [f"c{i}" for i in range(20)])
    assert labels == [*(f"c{i}" for i in range(11)), "others"]
    assert np.diag(counts).tolist() == [5] * 11 + [13]


def test_a_class_that_is_nowhere_has_no_curve():
    probabilities = np.full((10, 2), 0.5)
    assert behaviour.roc_curves(np.zeros(10, dtype=int), probabilities, ["no", "yes"]) == []


def test_the_parts_for_importance_had_not_seen_their_rows(binary):
    run = binary._run
    parts, unseen = behaviour.unseen_parts(binary.model_, run.dataset, run.plan.splits, 0)
    assert unseen
    every = behaviour.validation_predictions(binary.model_, binary.history_)
    for part, (_, valid) in zip(parts, run.plan.splits, strict=True):
        assert part.model.predict_ready(part.X) == pytest.approx(every[valid])


def test_importance_is_by_brute_force(regression):
    """Of one part with one column: the fall of the score when that is shuffled."""
    run = regression._run
    (part,), unseen = behaviour.unseen_parts(regression.model_, run.dataset, None, 0)
    assert not unseen
    found, said = behaviour.importance([part], run.metric, 0, time.monotonic() + 1000)
    assert said == []
    assert {row.feature for row in found} == set(run.dataset.X.columns)
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(part.X)) for _ in range(5)]
    base = run.metric.score(part.truth, part.model.predict_ready(part.X))
    falls = []
    for order in orders:
        shuffled = part.X.assign(bmi=part.X["bmi"].to_numpy()[order])
        falls.append(base - run.metric.score(part.truth, part.model.predict_ready(shuffled)))
    bmi = next(row for row in found if row.feature == "bmi")
    assert (bmi.mean, bmi.spread) == pytest.approx((np.mean(falls), np.std(falls)))


def test_dependence_is_by_brute_force(regression, binary):
    run = regression._run
    parts, _ = behaviour.unseen_parts(regression.model_, run.dataset, run.plan.splits, 0)
    (found,), done = behaviour.dependences(parts[:1], ["bmi"], [], 0, time.monotonic() + 1000)
    assert done == 1
    few = parts[0].X.iloc[behaviour.some(np.arange(len(parts[0].X)), behaviour.DEPENDENCE_ROWS, 0)]
    (curve,) = found.curves
    for value, mean in zip(curve.x, curve.y, strict=True):
        assert mean == pytest.approx(parts[0].model.predict_ready(few.assign(bmi=value)).mean())
    # A category, and a date in seconds
    run = binary._run
    parts, _ = behaviour.unseen_parts(binary.model_, run.dataset, run.plan.splits, 0)
    (plan, day), _ = behaviour.dependences(parts, ["plan", "signed_up"], ["no", "yes"], 0, time.monotonic() + 1000)
    assert sorted(plan.values) == ["<b>pro</b>", "a & b", "basic"]
    assert plan.predicted == "probability of yes"
    assert day.is_date
    assert np.array(day.curves[0].x[0]).astype("datetime64[s]") >= np.datetime64("2024-01-01")


def test_without_time_there_is_a_report_that_says_so(binary):
    page = write_report(binary.model_, Record.of(binary._run), binary._run.metric, until=time.monotonic() - 1)
    assert "importance and partial dependence of columns, for want of time" in page
    assert "columns after the first 1 of 7, for want of time" in page
    assert "ROC curve" in page


def test_a_report_that_fails_costs_no_model(binary, places, monkeypatch):
    def fail(content):
        raise RuntimeError("no ink")

    monkeypatch.setattr(evidence, "render", fail)
    with pytest.warns(HeadstartWarning, match="could not be written, RuntimeError: no ink; the model is not affected"):
        assert not binary.write_report()
    fitted = HeadstartClassifier(**{**binary.get_params(), "report_file": places / "missing" / "report.html"})
    with pytest.warns(HeadstartWarning, match="must exist to write report.html"):
        fitted.fit(binary._run.dataset)
    assert fitted.predict(binary._run.dataset.X).shape == (90,)


def test_the_report_of_a_loaded_model(binary, tmp_path):
    binary.save(tmp_path / "model.headstart")
    loaded = load(tmp_path / "model.headstart")
    loaded.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a saved model has no training rows" in page
    assert f"{binary.summary_.score:.4g}" in page
    table = binary._run.dataset.X.assign(left=binary.classes_[binary._run.dataset.y])
    loaded.report(tmp_path / "report.html", table)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "on the test table" in page
    assert "rows of the test table" in page
    expected = roc_auc_score(table["left"] == "yes", loaded.predict_proba(table.drop(columns="left"))[:, 1])
    assert f"{expected:.4g}" in page


def test_the_simple_model_has_a_report(places, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 2

    def nonsense(estimator, X, y):
        raise ValueError("never")

    model = HeadstartClassifier(
        evaluations=1, metric=nonsense, include=["decision_tree"], sandbox=False, report_file=tmp_path / "report.html"
    )
    with pytest.warns(HeadstartWarning, match="the model is a simple one"):
        model.fit(X, y)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "this is a simple fallback model" in page
    assert "decision_tree" in page


def test_pauses_between_fits_do_not_count():
    trials = [SimpleNamespace(started=s, finished=f) for s, f in ((0, 10), (5, 12), (100, 110))]
    clock = evidence._search_clock(trials)
    assert [clock(t) for t in (0, 10, 12, 50, 105, 110)] == [0, 10, 12, 12, 17, 22]


def test_time_for_a_report_is_kept_only_if_one_is_wanted(binary, monkeypatch):
    run = binary._run
    monkeypatch.setattr(run, "settings", SimpleNamespace(**{**vars(run.settings), "seconds": 60.0, "report_file": "r"}))
    assert run.report_end == run.started + 60
    assert 2 < run.report_seconds < 6
    assert run.report_end - run.report_seconds < run.end < run.report_end
    run.settings.report_file = None
    assert run.report_seconds == 0
    assert run.end == run.report_end


def test_a_report_needs_a_place_and_a_time(binary, tmp_path):
    with pytest.raises(ValueError, match="must be a file, but is a directory"):
        binary.report(tmp_path)
    with pytest.raises(ValueError, match="time_budget must be a positive number"):
        binary.report(tmp_path / "report.html", time_budget=0)
    assert not (tmp_path / "report.html").exists()
    assert estimator._LEAST_REPORT_SECONDS > 0
    assert Outcome.of(1.0).ok
