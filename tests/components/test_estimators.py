"""Estimators: probabilities for all, small classes, agreement with scikit-learn."""

import ast
import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn import linear_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import headstart.components
from headstart.components import generative, linear, neighbours, neural, small, svm, trees

CLASSIFIERS = [
    svm.LinearSVM(),
    svm.LinearSVM(loss="hinge"),
    svm.LinearSVM(penalty="l1"),
    svm.KernelSVM(relative=True),
    svm.SGD(),
    svm.SGD(loss="hinge"),
    svm.Perceptron(),
    svm.PassiveAggressive(),
    svm.PassiveAggressive(loss="squared_hinge"),
    linear.LogisticRegression(),
    linear.LogisticRegression(penalty="l1", solver="liblinear"),
    linear.LogisticRegression(penalty="elasticnet", max_iter=50),
    generative.LDA(),
    generative.LDA(shrinkage="manual", n_components=250),
    generative.QDA(),
    generative.GaussianNB(),
    generative.MultinomialNB(),
    neighbours.KNeighborsClassifier(n_neighbors=1000),
    neural.MLPClassifier(max_iter=10, early_stopping=True),
    small.GaussianProcessClassifier(max_rows=30),
    trees.SizedForest(n_estimators=5),
    trees.SizedForest("extra", "log", n_estimators=5, max_features=5.0),
    trees.SizedTree(),
    trees.SizedGradientBoosting(n_estimators=5),
    trees.AdaBoost(n_estimators=5),
]
REGRESSORS = [
    linear.ElasticNet(),
    linear.LinearSVR(),
    linear.KernelSVR(),
    linear.SGDRegressor(),
    neighbours.KNeighborsRegressor(n_neighbors=1000, weights="distance"),
    neural.MLPRegressor(max_iter=30),
    small.GaussianProcessRegressor(max_rows=40),
    trees.AdaBoostRegressor(n_estimators=5),
]


def data(rows=90, classes=3):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((rows, 4))
    return X, np.digitize(X[:, 0] + 0.2 * rng.standard_normal(rows), np.linspace(-0.5, 0.5, classes - 1)) * 2


@pytest.fixture(autouse=True)
def only_known_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def named(models):
    return [pytest.param(model, id=repr(model).replace(" ", "").replace("\n", "")) for model in models]


def check_probabilities(model, X, y):
    proba = model.predict_proba(X)
    assert model.classes_.tolist() == np.unique(y).tolist()
    assert proba.shape == (len(X), len(model.classes_))
    assert np.isfinite(proba).all()
    assert (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("model", named(CLASSIFIERS))
@pytest.mark.parametrize("classes", [2, 3])
def test_a_classifier_has_probabilities(model, classes):
    X, y = data(classes=classes)
    fitted = clone(model).fit(X, y)
    check_probabilities(fitted, X, y)
    assert set(fitted.predict(X)) <= set(y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


@pytest.mark.parametrize("model", named(CLASSIFIERS))
def test_a_class_may_have_a_single_row(model):
    X, y = data(40, 2)
    y[0] = 9
    check_probabilities(clone(model).fit(X, y), X, y)


@pytest.mark.parametrize("model", named(m for m in CLASSIFIERS if not isinstance(m, small.GaussianProcessClassifier)))
def test_most_learn(model):
    if isinstance(model, (neighbours.KNeighborsClassifier, neural.MLPClassifier, generative.MultinomialNB)):
        pytest.skip("its settings here are for another purpose")
    X, y = data(120, 2)
    fitted = clone(model).set_params(**_seeded(model)).fit(X[:80], y[:80])
    assert np.mean(fitted.predict(X[80:]) == y[80:]) > 0.7


@pytest.mark.parametrize("model", named(m for m in CLASSIFIERS if "class_weight" in m.get_params()))
def test_class_weights_reach_the_model(model):
    X, _ = data(120, 2)
    y = (X[:, 0] + np.random.default_rng(1).standard_normal(120) > 1.5).astype(int)
    plain = clone(model).fit(X, y).predict_proba(X)[:, 1].mean()
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y)
    assert balanced.predict_proba(X).shape == (120, 2)
    if isinstance(model, (linear.LogisticRegression, trees.SizedTree)):
        assert balanced.predict_proba(X)[:, 1].mean() > plain


@pytest.mark.parametrize("model", named(REGRESSORS))
def test_a_regressor_is_no_matter_of_units(model):
    X, _ = data()
    y = X @ np.array([1.0, -2.0, 0.5, 0.0])
    one = clone(model).set_params(**_seeded(model)).fit(X[:60], y[:60])
    other = clone(model).set_params(**_seeded(model)).fit(X[:60], 1e4 * y[:60] + 1e6)
    predicted = one.predict(X[60:])
    assert predicted.shape == (30,)
    np.testing.assert_allclose((other.predict(X[60:]) - 1e6) / 1e4, predicted, atol=0.05)
    again = pickle.loads(pickle.dumps(one))
    np.testing.assert_array_equal(again.predict(X), one.predict(X))


def _seeded(model):
    return {"random_state": 0} if "random_state" in model.get_params() else {}


@pytest.mark.parametrize("reg_param", [0.0, 0.3, 1.0])
def test_qda_is_bayes_rule_with_a_normal_distribution_for_each_class(reg_param):
    X, y = data(200)
    joint = []
    for label in np.unique(y):
        rows = X[y == label]
        covariance = (1 - reg_param) * np.cov(rows.T, bias=True) + reg_param * np.eye(X.shape[1])
        joint.append(len(rows) / len(y) * multivariate_normal(rows.mean(axis=0), covariance).pdf(X))
    expected = np.transpose(joint) / np.sum(joint, axis=0)[:, None]
    np.testing.assert_allclose(generative.QDA(reg_param).fit(X, y).predict_proba(X), expected, atol=1e-8)


def test_qda_takes_fewer_rows_than_columns():
    X = np.random.default_rng(0).standard_normal((12, 30))
    y = np.arange(12) % 3
    check_probabilities(generative.QDA().fit(X, y), X, y)


def test_naive_bayes_knows_the_shares_where_it_knows_nothing_else():
    X, y = np.zeros((20, 2)), np.arange(20) % 4 == 0
    np.testing.assert_allclose(generative.GaussianNB().fit(X, y).predict_proba(X[:1]), [[0.75, 0.25]])


def test_liblinear_fits_several_classes_one_against_the_rest():
    X, y = data()
    ours = linear.LogisticRegression(solver="liblinear", random_state=0).fit(X, y).predict_proba(X)
    columns = [
        linear_model.LogisticRegression(solver="liblinear", random_state=0).fit(X, y == k).predict_proba(X)[:, 1]
        for k in np.unique(y)
    ]
    expected = np.column_stack(columns)
    np.testing.assert_allclose(ours, expected / expected.sum(axis=1, keepdims=True), atol=1e-6)


def test_weights_reach_liblinear_with_several_classes():
    X, y = data()
    model = linear.LogisticRegression(solver="liblinear", random_state=0)
    weighted = clone(model).fit(X, y, np.where(y == 2, 50.0, 1.0)).predict_proba(X)[:, 1].mean()
    assert weighted > model.fit(X, y).predict_proba(X)[:, 1].mean() + 0.1


def test_a_gaussian_process_keeps_every_class_among_its_rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 3))
    y = np.zeros(400, dtype=int)
    y[:3] = [1, 2, 3]
    y[3:200] = 1
    model = small.GaussianProcessClassifier(max_rows=20).fit(X, y)
    assert model.classes_.tolist() == [0, 1, 2, 3]
    same = small.GaussianProcessClassifier(max_rows=20).fit(X, y)
    np.testing.assert_array_equal(model.predict_proba(X), same.predict_proba(X))


def test_sizes_follow_the_columns():
    X, y = np.random.default_rng(0).standard_normal((60, 16)), np.arange(60) % 2
    assert trees.SizedForest(n_estimators=2).fit(X, y).model_.max_features == 4
    assert trees.SizedForest(n_estimators=2, rule="log", max_features=1.0).fit(X, y).model_.max_features == 3
    assert trees.SizedForest(n_estimators=2, rule="log", max_features=5.0).fit(X, y).model_.max_features == 8
    assert trees.SizedTree(max_depth_factor=0.5).fit(X, y).model_.max_depth == 8
    assert trees.SizedTree(max_depth_factor=0.0).fit(X, y).model_.max_depth == 1


def test_components_stand_alone():
    """Their folder can be copied: nothing of Headstart is imported but other components."""
    folder = Path(headstart.components.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, path.name
                names = [node.module or ""]
            ours = [name for name in names if name.partition(".")[0] == "headstart"]
            assert all(name.startswith("headstart.components.") for name in ours), path.name


@pytest.mark.parametrize("made", [neural.MLPClassifier, neural.MLPRegressor])
def test_a_perceptron_has_as_many_epochs_as_there_is_time_for(made):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    settings = {"max_iter": 7, "random_state": 0}
    whole, same, short = (made(**settings).fit(X, y, max_seconds=seconds) for seconds in (None, 1e6, 1e-9))
    assert (whole.model_.n_iter_, same.model_.n_iter_, short.model_.n_iter_) == (7, 7, 1)
    np.testing.assert_array_equal(whole.predict(X), same.predict(X))
