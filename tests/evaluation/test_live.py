"""Real pipelines on real tables: outcomes, predictions, metrics, constraints, fidelities."""

import io

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from headstart.components.balance import BalancedWeights
from headstart.data import Dataset, DataWarning, make_splits
from headstart.errors import InvalidInput, UnknownName
from headstart.evaluation.kept_models import restore
from headstart.evaluation.live import LiveObjective, fit_model, predict_model
from headstart.evaluation.sandbox import Sandbox
from headstart.evaluation.scoring import Metric
from headstart.space import Algorithm, Float, Integer, Pipeline, PipelineSpace, Stage
from headstart.testing import ObjectiveContract
from headstart.trials import Fidelity, Limits, Status


class OnlyLabels(ClassifierMixin, BaseEstimator):
    """Knows no probabilities and no decisions."""

    def fit(self, X, y):
        self.model_ = LogisticRegression().fit(X, y)
        return self

    def predict(self, X):
        return self.model_.predict(X)


CLASSIFIERS = PipelineSpace(
    "classifiers",
    [
        Stage("scaler", [Algorithm("none"), Algorithm("standard", "sklearn.preprocessing:StandardScaler")]),
        Stage(
            "estimator",
            [
                Algorithm("logistic", "sklearn.linear_model:LogisticRegression", [Float("C", 0.01, 10)]),
                Algorithm("tree", "sklearn.tree:DecisionTreeClassifier", [Integer("max_depth", 1, 20)]),
                Algorithm("broken", "sklearn.linear_model:NoSuchClassifier"),
                Algorithm("naive_bayes", "sklearn.naive_bayes:GaussianNB"),
            ],
        ),
        Stage(
            "balancing",
            [Algorithm("none"), Algorithm("balanced", fixed={"class_weight": "balanced"})],
            kind="fit_option",
        ),
    ],
)
REGRESSORS = PipelineSpace("regressors", [Stage("estimator", [Algorithm("ridge", "sklearn.linear_model:Ridge")])])
LOGISTIC = Pipeline(["standard", "logistic", "none"], [{}, {"C": 1.0}, {}])
TREE = Pipeline(["none", "tree", "none"], [{}, {"max_depth": 3}, {}])
NO_LIMIT = Limits()


def table(loader):
    found = loader(as_frame=True)
    return found.frame


def binary():
    return Dataset.from_table(table(load_breast_cancer), "target", task="binary", name="breast_cancer")


def objective(dataset=None, space=CLASSIFIERS, folds=3, **options):
    dataset = dataset if dataset is not None else binary()
    return LiveObjective(space, dataset, make_splits(dataset, folds=folds, repeats=1), **options)


class TestContract(ObjectiveContract):
    def make(self):
        return objective()

    def pipelines(self):
        broken = Pipeline(["none", "broken", "none"])
        return [LOGISTIC, TREE, broken, Pipeline(["none", "naive_bayes", "balanced"])]


class TestOutcome:
    def test_the_loss_is_that_of_scikit_learn(self):
        made = objective(metric="roc_auc")
        outcome = made(LOGISTIC, NO_LIMIT, 0)
        data, losses = made.dataset, []
        for train, valid in made.splits:
            model = CLASSIFIERS.build(LOGISTIC, 0)
            model.fit(data.X.iloc[train], data.y[train])
            losses.append(1 - roc_auc_score(data.y[valid], model.predict_proba(data.X.iloc[valid])[:, 1]))
        np.testing.assert_allclose(outcome.fold_losses, losses, rtol=1e-9)
        np.testing.assert_allclose(outcome.loss, np.mean(losses), rtol=1e-9)

    def test_every_row_has_a_prediction_of_a_model_that_had_not_seen_it(self):
        made = objective(metric="neg_log_loss")
        predictions = made(LOGISTIC, NO_LIMIT, 0).artefacts["predictions"]
        assert predictions.shape == (made.dataset.n_rows, 2)
        np.testing.assert_allclose(predictions.sum(axis=1), 1)
        assert log_loss(made.dataset.y, predictions) < 0.15

    def test_the_loss_of_its_predictions_is_its_own(self):
        for metric in ("roc_auc", "f1"):  # the mean over folds is not what all rows together have
            made = objective(metric=metric)
            outcome = made(TREE, NO_LIMIT, 0)
            predictions = outcome.artefacts["predictions"]
            assert made.loss_of(predictions) == pytest.approx(outcome.loss, rel=1e-12)
            assert made.metric.loss(made.dataset.y, predictions) != pytest.approx(outcome.loss, rel=1e-6)

    def test_rows_without_a_prediction_do_not_count_in_its_loss(self):
        made = objective(metric="accuracy", folds=4)
        outcome = made(LOGISTIC, NO_LIMIT, 0)
        predictions = outcome.artefacts["predictions"].copy()
        predictions[made.splits[0][1]] = np.nan
        assert made.loss_of(predictions) == pytest.approx(np.mean(outcome.fold_losses[1:]), rel=1e-12)

    def test_rows_outside_of_a_hold_out_have_none(self):
        data = binary()
        made = LiveObjective(CLASSIFIERS, data, make_splits(data, holdout=0.25))
        predictions = made(LOGISTIC, NO_LIMIT, 0).artefacts["predictions"]
        assert 0.2 < np.isfinite(predictions[:, 0]).mean() < 0.3

    def test_regression(self):
        data = Dataset.from_table(table(load_diabetes), "target")
        outcome = objective(data, REGRESSORS)(Pipeline(["ridge"]), NO_LIMIT, 0)
        assert outcome.artefacts["predictions"].shape == (data.n_rows,)
        assert 50 < outcome.loss < 65

    def test_several_classes_with_missing_values_and_categories(self):
        frame = table(load_iris)
        frame["petal length (cm)"] = frame["petal length (cm)"].mask(np.arange(150) % 7 == 0)
        frame["colour"] = pd.Series(["red", "green", None] * 50, dtype="object")
        made = objective(Dataset.from_table(frame, "target", task="multiclass"), metric="accuracy")
        for pipeline in (LOGISTIC, TREE):
            outcome = made(pipeline, NO_LIMIT, 0)
            assert outcome.ok, outcome.error
            assert outcome.loss < 0.1

    def test_sparse_tables(self):
        rng = np.random.default_rng(0)
        X = sparse.random(120, 600, 0.05, format="csr", random_state=0)
        y = (X[:, :50].sum(axis=1).A1 if hasattr(X, "A1") else np.asarray(X[:, :50].sum(axis=1)).ravel()) > 1.2
        outcome = objective(Dataset.from_arrays(X, y.astype(int) ^ (rng.random(120) < 0.05)))(LOGISTIC, NO_LIMIT, 0)
        assert outcome.ok, outcome.error

    def test_a_fold_without_a_class_still_predicts_all_columns(self):
        X = pd.DataFrame({"a": np.arange(40.0), "b": np.arange(40.0) ** 2})
        y = np.array([0] * 20 + [1] * 19 + [2])
        with pytest.warns(DataWarning, match="single row"):
            data = Dataset.from_arrays(X, y, task="multiclass")
        splits = make_splits(data, splitter=[(np.arange(0, 39, 2), np.arange(1, 39, 2))])
        outcome = LiveObjective(CLASSIFIERS, data, splits, metric="accuracy")(TREE, NO_LIMIT, 0)
        assert outcome.artefacts["predictions"].shape == (40, 3)

    def test_a_pipeline_that_cannot_be_built_is_invalid(self):
        outcome = objective()(Pipeline(["none", "broken", "none"]), NO_LIMIT, 0)
        assert outcome.status is Status.INVALID
        assert "NoSuchClassifier" in outcome.error

    def test_models_are_kept_on_request(self):
        outcome = objective(keep_models=True)(LOGISTIC, NO_LIMIT, 0)
        models = restore(io.BytesIO(outcome.artefacts["models"]))
        assert len(models) == 3
        assert isinstance(models[0][-1], LogisticRegression)
        assert "models" not in objective()(LOGISTIC, NO_LIMIT, 0).artefacts

    def test_weights_change_the_fit(self):
        frame = table(load_breast_cancer)
        plain = objective()(LOGISTIC, NO_LIMIT, 0)
        weights = np.where(frame["target"] == 0, 50.0, 0.1)
        data = Dataset.from_table(frame, "target", task="binary", weights=weights)
        weighted = objective(data)(LOGISTIC, NO_LIMIT, 0)
        shift = weighted.artefacts["predictions"][:, 0].mean() - plain.artefacts["predictions"][:, 0].mean()
        assert shift > 0.01

    def test_balancing_works_with_and_without_the_option(self):
        for estimator, params in (("logistic", {"C": 1.0}), ("naive_bayes", {})):
            made = objective()
            plain = made(Pipeline(["standard", estimator, "none"], [{}, params, {}]), NO_LIMIT, 0)
            balanced = made(Pipeline(["standard", estimator, "balanced"], [{}, params, {}]), NO_LIMIT, 0)
            assert not np.array_equal(plain.artefacts["predictions"], balanced.artefacts["predictions"])

    def test_it_works_in_the_sandbox(self):
        made = objective(keep_models=True)
        with Sandbox(made) as sandbox:
            outcome = sandbox(LOGISTIC, Limits(seconds=60), 0)
        assert outcome.loss == made(LOGISTIC, NO_LIMIT, 0).loss


class TestClassifiersWithoutProbabilities:
    def model(self, estimator, loader=load_iris):
        X, y = loader(return_X_y=True)
        return make_pipeline(StandardScaler(), estimator).fit(X, y), X, y

    def test_two_classes_by_the_logistic_function_of_the_decision(self):
        model, X, _ = self.model(SVC(), load_breast_cancer)
        expected = 1 / (1 + np.exp(-model.decision_function(X)))
        np.testing.assert_allclose(predict_model(model, X, (2,))[:, 1], expected)

    def test_several_classes_by_the_softmax_of_the_decisions(self):
        model, X, _ = self.model(SVC())
        powers = np.exp(model.decision_function(X))
        np.testing.assert_allclose(predict_model(model, X, (3,)), powers / powers.sum(axis=1, keepdims=True))

    def test_labels_where_there_is_nothing_else(self):
        model, X, _ = self.model(OnlyLabels())
        found = predict_model(model, X[:100], (4,))  # a fold may lack a class
        assert found.shape == (100, 4)
        np.testing.assert_array_equal(found.sum(axis=1), 1)
        np.testing.assert_array_equal(found.argmax(axis=1), model.predict(X[:100]))

    def test_balanced_weights_have_what_their_classifier_has(self):
        X, y = load_iris(return_X_y=True)
        assert not hasattr(BalancedWeights(SVC()), "predict_proba")
        assert not hasattr(BalancedWeights(OnlyLabels()), "decision_function")
        assert hasattr(BalancedWeights(LogisticRegression()).fit(X, y), "predict_proba")
        wrapped = BalancedWeights(SVC(class_weight=None)).fit(X, y)
        expected = SVC(class_weight="balanced").fit(X, y)
        np.testing.assert_allclose(wrapped.decision_function(X), expected.decision_function(X), atol=1e-3)


class TestForestsInTime:
    def grown(self, forest, seconds):
        X, y = load_breast_cancer(return_X_y=True)
        model = make_pipeline(StandardScaler(), forest)
        return fit_model(model, X[:300], y[:300], None, (X[300:], y[300:], None), seconds), X[300:]

    @pytest.mark.parametrize("kind", [RandomForestClassifier, ExtraTreesClassifier, RandomForestRegressor])
    def test_with_time_enough_it_is_the_same_forest(self, kind):
        whole, rows = self.grown(kind(30, random_state=1), None)
        parts, _ = self.grown(kind(30, random_state=1), 1e9)
        np.testing.assert_array_equal(parts.predict(rows), whole.predict(rows))
        assert parts[-1].get_params() == whole[-1].get_params()

    def test_without_time_it_has_few_trees(self):
        model, rows = self.grown(RandomForestClassifier(30, random_state=1), 0.0)
        assert len(model[-1].estimators_) == model[-1].n_estimators == 3
        assert not model[-1].warm_start
        assert model.predict(rows).shape == (len(rows),)


class TestFidelity:
    def test_fewer_folds_and_rows(self):
        made = objective()
        assert len(made(TREE, NO_LIMIT, 0, Fidelity(folds=1)).fold_losses) == 1
        part = made(TREE, NO_LIMIT, 0, Fidelity(rows=0.1))
        assert len(part.fold_losses) == 3
        assert part.loss != made(TREE, NO_LIMIT, 0).loss


class TestConstraints:
    def test_are_measured(self):
        names = ["latency", "size", "training_seconds", "false_positive_rate", "false_negative_rate"]
        values = objective(constraints=names)(LOGISTIC, NO_LIMIT, 0).constraints
        assert set(values) == set(names)
        assert 0 < values["latency"] < 1
        assert values["size"] > 500
        assert 0 <= values["false_positive_rate"] < 0.2

    def test_rates_are_those_of_all_out_of_fold_predictions(self):
        made = objective(constraints=["false_positive_rate", "false_negative_rate"])
        outcome = made(TREE, NO_LIMIT, 0)
        (tn, fp), (fn, tp) = confusion_matrix(made.dataset.y, outcome.artefacts["predictions"].argmax(axis=1))
        assert outcome.constraints == pytest.approx(
            {"false_positive_rate": fp / (fp + tn), "false_negative_rate": fn / (fn + tp)}
        )

    def test_differences_between_groups(self):
        frame = table(load_breast_cancer)
        frame["group"] = np.where(frame["mean radius"] > 14, "large", "small")
        names = ["parity(group)", "disparity(group)", "disparity(group, accuracy)"]
        made = objective(Dataset.from_table(frame, "target", task="binary"), constraints=names, metric="roc_auc")
        outcome = made(TREE, NO_LIMIT, 0)
        found, y, large = outcome.artefacts["predictions"], made.dataset.y, frame["group"] == "large"
        shares = [found[part].argmax(axis=1).mean() for part in (large, ~large)]
        assert outcome.constraints["parity(group)"] == pytest.approx(abs(shares[0] - shares[1]))
        assert shares[1] - shares[0] > 0.5
        scores = [roc_auc_score(y[part], found[part, 1]) for part in (large, ~large)]
        assert outcome.constraints["disparity(group)"] == pytest.approx(abs(scores[0] - scores[1]))
        right = [(found[part].argmax(axis=1) == y[part]).mean() for part in (large, ~large)]
        assert outcome.constraints["disparity(group, accuracy)"] == pytest.approx(abs(right[0] - right[1]))
        assert made.constraint_values(found) == outcome.constraints

    def test_are_measured_in_a_sandbox(self):
        with Sandbox(objective(constraints=["latency", "size", "false_positive_rate"])) as sandbox:
            values = sandbox(LOGISTIC, Limits(seconds=60), 0).constraints
        assert set(values) == {"latency", "size", "false_positive_rate"}

    def test_a_function_of_the_user(self):
        made = objective(constraints={"rows": lambda model, X, y, predictions: len(X)})
        assert made(LOGISTIC, NO_LIMIT, 0).constraints["rows"] == pytest.approx(569 / 3)

    @pytest.mark.parametrize(
        ("names", "error", "message"),
        [
            (["latencie"], UnknownName, "did you mean 'latency'"),
            (["disparity(sex)"], InvalidInput, "needs a column"),
        ],
    )
    def test_mistakes(self, names, error, message):
        with pytest.raises(error, match=message):
            objective(constraints=names)

    def test_rates_need_two_classes(self):
        data = Dataset.from_table(table(load_iris), "target", task="multiclass")
        with pytest.raises(InvalidInput, match="needs two classes"):
            objective(data, constraints=["false_positive_rate"])


class TestMetric:
    @pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1", "neg_log_loss", "roc_auc", "precision"])
    @pytest.mark.parametrize("task", ["binary", "multiclass"])
    def test_losses_are_better_for_better_predictions(self, name, task):
        metric = Metric(name, task)
        k = 2 if task == "binary" else 3
        truth = np.arange(30) % k
        good, bad = np.full((30, k), 0.1), np.full((30, k), 0.3)
        good[np.arange(30), truth] = 1.0
        bad[np.arange(30), (truth + 1) % k] = 1.0
        good, bad = (p / p.sum(axis=1, keepdims=True) for p in (good, bad))
        assert 0 <= metric.loss(truth, good) < metric.loss(truth, bad)
        assert metric.to_score(metric.loss(truth, bad)) == pytest.approx(metric.score(truth, bad))

    def test_a_callable(self):
        def negative_bias(estimator, X, y):
            return -abs(float((estimator.predict(X) - y).mean()))

        metric = Metric(negative_bias, "regression")
        assert metric.name == "negative_bias"
        assert metric.loss(np.zeros(5), np.full(5, 0.25)) == 0.25

    @pytest.mark.parametrize(
        ("name", "task", "error"),
        [
            ("acuracy", "binary", UnknownName),
            ("neg_root_mean_squared_error", "binary", InvalidInput),
            ("roc_auc", "regression", InvalidInput),
            ("average_precision", "regression", InvalidInput),
        ],
    )
    def test_a_metric_that_does_not_fit_is_refused(self, name, task, error):
        with pytest.raises(error, match="metric"):
            Metric(name, task)

    @pytest.mark.parametrize(
        ("name", "task", "meant", "others"),
        [("acuracy", "binary", "accuracy", "rmse"), ("rmze", "regression", "rmse", "auc")],
    )
    def test_metrics_that_are_proposed_fit_the_task(self, name, task, meant, others):
        with pytest.raises(UnknownName, match=f"did you mean '{meant}'") as refused:
            Metric(name, task)
        assert others not in str(refused.value)
        with pytest.raises(UnknownName) as refused:
            Metric(name, "regression" if task == "binary" else "binary")
        assert meant not in str(refused.value)
