"""Crafted numbers in saved models: an error in one line, never a crash.

Each case runs in a process of its own, for which this file is the program.
"""

import subprocess
import sys

import numpy as np
import pytest

CASES = {}
REBUILT = "rows_of_neighbours_that_are_not_there", "bounds_of_nodes_that_are_too_large", "no_distance"
"""Cases whose crafted part is not used: it is made anew from what it was made of."""
ROWS = 60


def case(make):
    """Register a function that returns a fitted and crafted model, and what a table for it looks like."""
    CASES[make.__name__] = make
    return make


def table(columns=3, seed=0):
    return np.random.default_rng(seed).normal(size=(ROWS, columns))


def labels(X, classes=2):
    return np.digitize(X[:, 0], np.linspace(-0.5, 0.5, classes - 1))


def neighbours():
    from headstart.components.neighbours import KNeighborsClassifier

    X = table()
    return KNeighborsClassifier().fit(X, labels(X)), X


def with_state(model, place, value):
    state = list(model.model_._tree.__getstate__())
    state[place] = value(state[place])
    model.model_._tree.__setstate__(tuple(state))


@case
def rows_of_neighbours_that_are_not_there():
    model, X = neighbours()
    with_state(model, 1, lambda rows: np.full_like(rows, 10**12))
    return model, X


@case
def bounds_of_nodes_that_are_too_large():
    model, X = neighbours()

    def far(nodes):
        nodes = nodes.copy()
        nodes["idx_end"] = 10**12
        nodes["is_leaf"] = 1
        return nodes

    with_state(model, 2, far)
    return model, X


@case
def no_distance():
    model, X = neighbours()
    with_state(model, 11, lambda _: None)
    return model, X


def boosted():
    from headstart.components.boosting import HistGradientBoostingRegressor

    X = table()
    return HistGradientBoostingRegressor(n_estimators=2).fit(X, X[:, 0]).model_, X


def first_nodes(model):
    return model._predictors[0][0].nodes


@case
def a_split_by_category_without_categories():
    model, X = boosted()
    tree = model._predictors[0][0]
    tree.nodes["is_categorical"][0] = 1
    tree.nodes["bitset_idx"][0] = 0
    tree.raw_left_cat_bitsets = np.zeros((1, 8), dtype=np.uint32)
    tree.binned_left_cat_bitsets = np.zeros((1, 8), dtype=np.uint32)
    model._predictors = [[tree]]
    return model, abs(X)


@case
def sets_of_categories_that_are_too_small():
    model, X = boosted()
    first_nodes(model)["is_categorical"][0] = 1
    first_nodes(model)["bitset_idx"][0] = 10**7
    for tree in (tree for one in model._predictors for tree in one):
        tree.raw_left_cat_bitsets = np.zeros((10**7 + 1, 0), dtype=np.uint32)
        tree.binned_left_cat_bitsets = np.zeros((10**7 + 1, 0), dtype=np.uint32)
    return model, abs(X)


@case
def a_set_of_categories_that_is_not_there():
    model, X = boosted()
    first_nodes(model)["is_categorical"][0] = 1
    first_nodes(model)["bitset_idx"][0] = 2**31
    return model, abs(X)


@case
def columns_of_histogram_boosting_that_are_not_there():
    model, X = boosted()
    first_nodes(model)["feature_idx"][0] = 10**12
    del model.n_features_in_
    return model, X


@case
def a_preparation_that_drops_columns():
    from sklearn.compose import ColumnTransformer

    model, X = boosted()
    model.n_features_in_ = 10**9
    first_nodes(model)["feature_idx"][0] = 10**8
    model._preprocessor = ColumnTransformer([("all", "passthrough", [0, 1, 2])]).fit(X)
    return model, X


@case
def a_preparation_that_looks_at_nothing():
    from sklearn.preprocessing import FunctionTransformer

    model, X = boosted()
    model.n_features_in_ = 10**6
    first_nodes(model)["feature_idx"][0] = 10**6 - 1
    model._preprocessor = FunctionTransformer().fit(X)
    return model, X


def a_tree(**settings):
    from sklearn.tree import DecisionTreeRegressor

    X = table()
    return DecisionTreeRegressor(max_depth=3, **settings).fit(X, X[:, 0]), X


def with_tree(model, change):
    from sklearn.tree._tree import Tree

    state = model.tree_.__getstate__()
    shape = change(state) or (model.tree_.n_features, model.tree_.n_classes, model.tree_.n_outputs)
    model.tree_ = Tree(*shape)
    model.tree_.__setstate__(state)
    return model


@case
def a_child_that_is_almost_none():
    model, X = a_tree()

    def change(state):
        state["nodes"]["left_child"][0] = -(10**10)

    return with_tree(model, change), X


@case
def columns_that_nobody_counts():
    model, X = a_tree()

    def change(state):
        state["nodes"]["feature"][0] = 10**10
        return 10**11, model.tree_.n_classes, 1

    with_tree(model, change)
    del model.n_features_in_
    return model, X


@case
def a_tree_that_is_deeper_than_it_says():
    model, X = a_tree()

    def change(state):
        state["max_depth"] = 0

    with_tree(model, change)
    return model, np.repeat(X, 10**4, axis=0), "decision_path"


@case
def more_trees_in_a_round_than_classes():
    from sklearn.ensemble import GradientBoostingRegressor

    X = table()
    model = GradientBoostingRegressor(n_estimators=1).fit(X, X[:, 0])
    model.estimators_ = np.repeat(model.estimators_, 2000, axis=1)
    return model, X


def machine(kind="SVC", classes=3, **settings):
    from sklearn import svm

    X = table()
    y = labels(X, classes) if kind == "SVC" else X[:, 0]
    return getattr(svm, kind)(**settings).fit(X, y), X


@case
def support_vectors_of_one_class_only():
    model, X = machine()
    model._n_support = np.array([2**30, -(2**30), model._n_support.sum()], dtype=np.int32)
    return model, X


@case
def more_classes_than_intercepts():
    model, X = machine()
    more = 3000
    model._n_support = np.concatenate([model._n_support, np.zeros(more, dtype=np.int32)])
    return model, X


@case
def more_support_vectors_than_there_are():
    model, X = machine()
    model.support_ = np.arange(10**7, dtype=np.int32)
    return model, X


@case
def a_regression_with_more_support_vectors_than_there_are():
    model, X = machine("SVR")
    model.support_ = np.arange(10**7, dtype=np.int32)
    return model, X


@case
def a_kernel_that_is_looked_up():
    model, X = machine("SVR")
    model.kernel = "precomputed"
    model.support_vectors_ = np.zeros((len(model.support_), 3))
    model.support_[:] = 2**31 - 1
    model.shape_fit_ = (3, 3)
    return model, X


@case
def a_sparse_matrix_with_columns_that_are_not_there():
    from sklearn.random_projection import SparseRandomProjection

    X = table(20)
    model = SparseRandomProjection(5, random_state=0).fit(X)
    model.components_.indices[:] = 2**31 - 1
    return model, X, "transform"


def encoder(**settings):
    from sklearn.preprocessing import OneHotEncoder

    X = np.repeat(np.arange(12)[:, None], 5, axis=0).astype(float)
    X[:2] = [[100.0], [101.0]]
    return OneHotEncoder(sparse_output=False, **settings).fit(X), X


@case
def categories_that_are_not_in_order():
    model, X = encoder()
    model.categories_ = [model.categories_[0][::-1].copy()]
    return model, X, "transform"


@case
def rare_categories_far_away():
    model, X = encoder(min_frequency=2, handle_unknown="infrequent_if_exist")
    model._default_to_infrequent_mappings[0][:] = 2**40
    return model, X, "transform"


@case
def rare_categories_that_are_not_mapped():
    model, X = encoder(min_frequency=2, handle_unknown="infrequent_if_exist")
    model._default_to_infrequent_mappings[0] = None
    model._infrequent_indices[0] = model._infrequent_indices[0] + 2**40
    return model, X + 0.5, "transform"


@case
def a_dropped_category_that_is_not_there():
    model, X = encoder(drop="first")
    model._drop_idx_after_grouping[:] = 2**40
    return model, X, "transform"


def text(**settings):
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    words = [f"word{i % 7} other{i % 5} a" for i in range(ROWS)]
    return make_pipeline(TfidfVectorizer(use_idf=False, **settings), TruncatedSVD(2)).fit(words), words


@case
def words_without_columns():
    model, words = text()
    model[0].vocabulary_ = {word: 2**31 - 1 - place for word, place in model[0].vocabulary_.items()}
    return model, words, "transform"


@case
def a_pattern_that_takes_for_ever():
    model, _ = text()
    model[0].token_pattern = r"(?:\w+)+!"
    return model, ["a" * 60], "transform"


@case
def a_generator_past_its_end():
    from sklearn.dummy import DummyClassifier

    X = table()
    model = DummyClassifier(strategy="stratified", random_state=np.random.RandomState(0)).fit(X, labels(X))
    name, key, _, *rest = model.random_state.get_state()
    model.random_state.set_state((name, key, 10**9, *rest))
    return model, X


def run(name):
    """Save, load and use the crafted model of a case; a line about how it ended."""
    from headstart.errors import ModelFileError
    from headstart.fitting import trusted

    model, X, *method = CASES[name]()
    try:
        content = trusted.dump_models([model])
    except Exception as error:  # such a file cannot be written this way
        return f"not written: {error}"
    if sys.argv[2:] == ["unchecked"]:
        trusted.check_compiled = lambda _: []
    try:
        (again,) = trusted.load_models(content)
    except ModelFileError as error:
        return f"refused: {error}"
    try:
        getattr(again, method[0] if method else "predict")(X)
    except Exception as error:
        return f"failed: {error}"
    return "used"


@pytest.mark.parametrize("name", CASES)
def test_crafted_models_are_refused(name):
    done = subprocess.run([sys.executable, __file__, name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    said = done.stdout.splitlines()
    assert len(said) == 1
    if name in REBUILT:
        assert said == ["used"]
        return
    assert said[0].startswith("refused: "), said
    assert "the file is damaged" in said[0]


def test_neighbours_are_what_they_were():
    from headstart.components.neighbours import KNeighborsClassifier, KNeighborsRegressor
    from headstart.fitting import trusted

    for columns, settings in ((3, {}), (3, {"p": 1, "weights": "distance"}), (20, {"n_neighbors": 40})):
        X = table(columns)
        for model in (KNeighborsRegressor(**settings), KNeighborsClassifier(**settings)):
            model.fit(X, np.array([3, 7])[labels(X)])
            (again,) = trusted.load_models(trusted.dump_models([model]))
            np.testing.assert_array_equal(again.predict(table(columns, 1)), model.predict(table(columns, 1)))
            assert again.model_._fit_method == model.model_._fit_method
            assert vars(again.model_).keys() == vars(model.model_).keys()


if __name__ == "__main__":
    print(run(sys.argv[1]))
