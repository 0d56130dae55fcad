"""Preprocessing steps: they fit themselves to the table, and agree with scikit-learn where it can be asked."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import decomposition, feature_selection
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from headstart.components import encoders, reducers, selection

rng = np.random.default_rng(0)
TALL = rng.standard_normal((50, 4))
TABLES = {
    "tall": TALL,
    "wide": rng.standard_normal((8, 20)),
    "one column": rng.standard_normal((30, 1)),
    "constant": np.ones((20, 3)),
    "two rows": rng.standard_normal((2, 3)),
    "scales": TALL * np.array([1e-3, 1.0, 1e3, 1e6]),
    "dependent columns": np.hstack([TALL, TALL[:, :2], np.zeros((50, 1))]),
}
REDUCERS = [
    reducers.PCA(),
    reducers.PCA(keep_variance=0.6, whiten=True),
    reducers.SharePCA(share=0.25),
    reducers.KernelPCA(n_components=500),
    reducers.KernelPCA(kernel="sigmoid", coef0=-1.0),
    reducers.KernelPCA(kernel="poly", coef0=-1.0),
    reducers.KernelPCA(kernel="cosine"),
    reducers.Nystroem(n_components=500),
    reducers.Nystroem(kernel="poly", degree=2),
    reducers.Nystroem(kernel="cosine"),
    reducers.KitchenSinks(n_components=30),
    reducers.FastICA(n_components=50),
    reducers.FastICA(whiten=False),
    reducers.FastICA(whiten=False, algorithm="deflation", fun="exp"),
    reducers.FactorAnalysis(n_components=50),
    reducers.TruncatedSVD(n_components=50),
    reducers.RandomProjection(n_components=50),
    reducers.RandomProjection(n_components=50, density=0.3),
    reducers.Agglomeration(n_clusters=50),
    reducers.Agglomeration(n_clusters=2, linkage="average", metric="cosine", pooling_func="median"),
    reducers.PolynomialFeatures(),
    reducers.RandomTreesEmbedding(),
    reducers.QuantileTransformer(n_quantiles=5000),
    reducers.RobustScaler(q_min=0.1, q_max=0.9),
    reducers.KBinsDiscretizer(n_bins=40),
]


def named(steps):
    return [pytest.param(step, id=repr(step).replace(" ", "")) for step in steps]


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("step", named(REDUCERS))
def test_a_reducer_takes_any_table(step, table):
    X = TABLES[table]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        fitted = clone(step).fit(X)
        Z = fitted.transform(X)
    assert Z.shape[0] == len(X)
    assert Z.shape[1] >= 1
    assert np.isfinite(Z).all()
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), Z)


def test_pca_agrees_with_scikit_learn():
    ours = reducers.PCA(keep_variance=0.8).fit_transform(TALL)
    theirs = decomposition.PCA(0.8).fit_transform(TALL)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-8)


def test_kernel_pca_learns_from_some_rows_of_a_large_table():
    X = rng.standard_normal((300, 3))
    step = reducers.KernelPCA(n_components=5, max_rows=100, random_state=0).fit(X)
    assert step.step_.X_fit_.shape == (100, 3)
    assert step.transform(X).shape == (300, 5)


def test_polynomial_features_are_never_too_many():
    wide = rng.standard_normal((20, 100)) * np.arange(1, 101)
    made = reducers.PolynomialFeatures().fit(wide).transform(wide)
    assert made.shape[1] <= 1500
    assert made.shape[1] > 1400
    columns = {tuple(column) for column in made.T.tolist()}
    assert all(tuple(column) in columns for column in wide.T.tolist())
    assert tuple((wide[:, 99] * wide[:, 98]).tolist()) in columns
    assert tuple((wide[:, 0] * wide[:, 1]).tolist()) not in columns
    for degree in (2, 3):
        for interaction_only in (False, True):
            step = reducers.PolynomialFeatures(degree, interaction_only, most=10_000).fit(TALL)
            count = step.transform(TALL).shape[1]
            assert (
                reducers.PolynomialFeatures(degree, interaction_only, most=count).fit_transform(TALL).shape[1] == count
            )
            fewer = reducers.PolynomialFeatures(degree, interaction_only, most=count - 1).fit_transform(TALL)
            assert TALL.shape[1] <= fewer.shape[1] < count


Y = (TALL[:, 0] + 0.1 * rng.standard_normal(50) > 0).astype(int)
SELECTIONS = [
    selection.SelectPercentile(percentile=1.0),
    selection.SelectPercentile(score_func="chi2"),
    selection.SelectPercentile(score_func="mutual_info_classif"),
    selection.SelectKBest(share=0.25),
    selection.SelectRates(alpha=1e-9),
    selection.SelectRates(alpha=0.1, mode="fdr", score_func="chi2"),
    selection.SelectRates(alpha=1e-9, mode="fwe"),
    selection.VarianceThreshold(1e9),
    selection.SelectFromTrees(n_estimators=10),
    selection.SelectFromLinearSVM(C=1e-6),
]


@pytest.mark.parametrize("step", named(SELECTIONS))
def test_a_selection_keeps_at_least_one_column(step):
    for X in (TALL, np.ones((50, 3)), TALL[:, :1]):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Z = clone(step).fit(X, Y).transform(X)
        assert 1 <= Z.shape[1] <= X.shape[1]


@pytest.mark.parametrize("mode", ["fpr", "fdr", "fwe"])
@pytest.mark.parametrize("alpha", [0.01, 0.3, 0.8])
def test_select_rates_agrees_with_scikit_learn(mode, alpha):
    X = np.hstack([TALL + 0.4 * Y[:, None], np.random.default_rng(1).standard_normal((50, 10))])
    theirs = feature_selection.GenericUnivariateSelect(feature_selection.f_classif, mode=mode, param=alpha).fit(X, Y)
    ours = selection.SelectRates(alpha, mode).fit(X, Y)
    np.testing.assert_array_equal(ours.support_, theirs.get_support())


def test_the_best_columns_are_kept():
    assert selection.SelectPercentile(25).fit(TALL, Y).support_.tolist() == [True, False, False, False]
    assert selection.SelectPercentile(25, score_func="f_regression").fit(TALL, TALL[:, 2]).support_.tolist()[2]


def target_means(column, y, smooth, value):
    """The smoothed mean of a category, by hand."""
    mask = [v is value or v == value for v in column]
    rows = y[np.array(mask)]
    return (rows.sum() + smooth * y.mean()) / (len(rows) + smooth)


def test_target_encoding_is_the_smoothed_mean():
    X = pd.DataFrame({"c": pd.Categorical(["a", "a", "b", None, "b", "a"])})
    y = np.array([1.0, 2.0, 10.0, 20.0, 30.0, 3.0])
    encoder = encoders.TargetEncoder("regression", smooth=2.0).fit(X, y)
    new = pd.DataFrame({"c": pd.Categorical(["a", "b", None, "never seen"])})
    expected = [(6 + 2 * 11) / 5, (40 + 2 * 11) / 4, (20 + 2 * 11) / 3, 11.0]
    np.testing.assert_allclose(encoder.transform(new)[:, 0], expected)


def test_target_encoding_of_training_rows_leaves_their_own_fold_out():
    rows = 200
    X = pd.DataFrame({"c": np.arange(rows).astype(str)})  # every row its own category: only leaks could tell
    y = np.random.default_rng(0).integers(0, 2, rows)
    encoder = encoders.TargetEncoder(smooth=1.0, random_state=0)
    encoded = encoder.fit_transform(X, y)
    assert abs(np.corrcoef(encoded[:, 0], y)[0, 1]) < 0.35
    assert np.corrcoef(encoder.transform(X)[:, 0], y)[0, 1] > 0.9


def test_target_encoding_has_a_column_per_class():
    X = pd.DataFrame({"c": list("aabbcc"), "d": list("xyxyxy")})
    y = np.array([0, 0, 2, 2, 7, 7])
    encoder = encoders.TargetEncoder(smooth=0.0).fit(X, y)
    encoded = encoder.transform(X)
    assert encoded.shape == (6, 6)
    np.testing.assert_allclose(encoded[:, :3], np.repeat(np.eye(3), 2, axis=0))
    single = encoders.TargetEncoder().fit_transform(X, np.array([0, 0, 0, 0, 0, 1]))  # one row of a class is enough
    assert np.isfinite(single).all()
