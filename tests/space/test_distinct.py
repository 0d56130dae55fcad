"""Pipelines that a table makes equal are one candidate."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_wine
from tied import tied_space

from headstart.data.dataset import Dataset
from headstart.errors import SpaceError
from headstart.evaluation.live import fit_model
from headstart.evaluation.prediction import predict_model
from headstart.space import Candidates, Pipeline, PipelineSpace, catalog
from headstart.space.distinct import distinct

WINE, CLASSES = load_wine(return_X_y=True, as_frame=True)
ROWS = np.arange(0, 178, 2)
TABLES = ("numbers", "gaps", "mixed", "mixed gaps", "numbers first", "categories", "dates", "bad dates", "sparse")


def table(name):
    """Half of the rows of the wine table with some columns more."""
    X = WINE.iloc[ROWS, :4].reset_index(drop=True)
    hue = pd.Series(np.where(WINE["hue"].iloc[ROWS] > 1, "pale", "dark"), name="tone").reset_index(drop=True)
    days = pd.Series(pd.date_range("2020-01-01", periods=len(X), freq="37h").astype(str), name="day")
    if "gaps" in name:
        X.iloc[[3, 50], 1] = np.nan
    if "bad" in name:
        days[7] = "0000-00-00"
    if "mixed" in name:
        X.insert(1, "tone", hue)
    elif name == "numbers first":
        X["tone"] = hue
    elif name == "categories":
        X = pd.DataFrame({"tone": hue, "size": pd.cut(X.iloc[:, 0], 3, labels=["s", "m", "l"]).astype(str)})
    elif "dates" in name:
        X["day"] = days
    elif name == "sparse":
        X = sparse.csr_matrix(np.where(X > 2.0, X, 0.0))
    kinds = {"day": "date"} if "dates" in name else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Dataset.from_arrays(X, CLASSES.to_numpy()[ROWS], kinds=kinds)


DATA = {name: table(name) for name in TABLES}


def test_tables_are_what_their_names_say():
    kinds = {name: list(data.preparation.values()) for name, data in DATA.items()}
    assert kinds["mixed"] == ["numeric", "categorical", "numeric", "numeric", "numeric"]
    assert kinds["numbers first"] == ["numeric"] * 4 + ["categorical"]
    assert kinds["categories"] == ["categorical"] * 2
    assert all(kind.startswith("date") for kind in (kinds["dates"][-1], kinds["bad dates"][-1]))


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("numbers", 2928),
        ("gaps", 11712),
        ("mixed", 5856),
        ("mixed gaps", 23424),
        ("numbers first", 5856),
        ("categories", 5856),
        ("dates", 2928),
        ("bad dates", 11712),
        ("sparse", 2928),
    ],
)
def test_how_many_pipelines_of_tensor_oboe_differ(name, count):
    candidates = distinct(catalog.load("tensor_oboe"), DATA[name])
    assert len(candidates.listed) == count
    assert isinstance(candidates, Candidates)
    assert candidates.listed is candidates.listed


def test_a_space_is_its_own_candidates_where_all_pipelines_differ():
    for name in catalog.names():
        space = catalog.load(name)
        assert distinct(space, DATA["mixed gaps"]) is space


# -- merged if and only if they are equal -------------------------------------------------------------------------


def variant(space, pipeline, seed, keep=()):
    """A pipeline that differs in what is done to numeric and categorical columns, but for the stages to keep."""
    drawn = space.sample(np.random.default_rng(seed))[0]
    other = [stage.columns != "all" and stage.name not in keep for stage in space.stages]
    return Pipeline(
        [(drawn if o else pipeline).algorithms[s] for s, o in enumerate(other)],
        [(drawn if o else pipeline).params[s] for s, o in enumerate(other)],
    )


def is_allowed(space, pipeline):
    try:
        space.encode([pipeline])
    except SpaceError:
        return False
    return True


def what_follows_sees(space, pipeline, data):
    """The table as the first stage on all columns gets it: values of its columns, in their order."""
    model = space.build(pipeline, 0, data.preparation)
    front = model[: sum(name in ("prepare", "columns") for name, _ in model.steps)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pd.DataFrame(front.fit_transform(data.X, data.y)).to_numpy(dtype=object)


def same_tables(one, two):
    return one.shape == two.shape and bool(((one == two) | (pd.isna(one) & pd.isna(two))).all())


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["classification", "tensor_oboe", "auto_sklearn"]),
    st.sampled_from([name for name in TABLES if name != "sparse"]),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_merged_if_and_only_if_what_follows_sees_the_same(name, of, seed, other):
    space, data = catalog.load(name), DATA[of]
    one = space.sample(np.random.default_rng(seed))[0]
    has_categories = "categorical" in data.preparation.values()
    encoders = [stage.name for stage in space.stages if stage.columns == "categorical"]
    two = variant(space, one, other)
    places = [space.stage_position(encoder) for encoder in encoders]
    if has_categories and all(one.algorithms[s] == two.algorithms[s] for s in places):
        two = variant(space, one, other, keep=encoders)  # how many columns they make depends on the table's categories
    assume(is_allowed(space, two))
    candidates = distinct(space, data)
    merged = candidates.encode([one]).ids[0] == candidates.encode([two]).ids[0]
    assert merged == same_tables(what_follows_sees(space, one, data), what_follows_sees(space, two, data))


def fitted(space, pipeline, data):
    """Probabilities of rows that were not fitted to."""
    train, rest = np.arange(0, data.n_rows, 3), np.arange(1, data.n_rows, 3)
    take = (lambda rows: data.X[rows]) if data.is_sparse else (lambda rows: data.X.iloc[rows])
    model = space.build(pipeline, 0, data.preparation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_model(model, take(train), data.y[train])
        return predict_model(model, take(rest), (len(data.classes),))


QUICK = ("decision_tree", "extra_trees", "lda", "gaussian_nb", "lightgbm", "logistic_regression", "knn", "ridge")


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["classification", "tensor_oboe"]),
    st.sampled_from([name for name in TABLES if "gaps" not in name]),
    st.sampled_from(QUICK),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
)
def test_what_is_merged_predicts_the_same(name, of, estimator, seed, other):
    space, data = catalog.load(name), DATA[of]
    assume(estimator in space.stage("estimator").names)
    candidates = distinct(space, data)
    one = space.sample(np.random.default_rng(seed), 1, {"estimator": estimator})[0]
    assume("fast_ica" not in one.algorithms)  # stopped before it converges, it makes much of how sums were rounded
    two = variant(space, one, other)
    assume(is_allowed(space, two))
    stand_in, again = (candidates.encode([pipeline])[0] for pipeline in (one, two))
    found, close = fitted(space, one, data), {"rtol": 1e-6, "atol": 1e-9}  # sums depend on how a table lies in memory
    if stand_in == again:
        np.testing.assert_allclose(found, fitted(space, two, data), **close)
    np.testing.assert_allclose(found, fitted(space, stand_in, data), **close)


# -- candidates ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("of", ["numbers", "mixed", "numbers first", "categories"])
def test_each_class_of_equal_pipelines_has_one_candidate(of):
    """By brute force: pipelines whose algorithms do the same on the table, by hand."""
    space, data = tied_space(), DATA[of]
    candidates = distinct(space, data)
    categories, numbers = of != "numbers", of != "categories"

    def what_it_does(pipeline):
        imputation, encoding = pipeline.algorithms[:2]
        number = "as it is" if imputation in ("none", "mean") else "zero is missing"
        raw = of == "mixed" and imputation == "none" and encoding == "native"
        return (
            number if numbers else "",
            encoding if categories else "",
            raw,
            *pipeline.algorithms[2:],
            pipeline.params[3].get("max_depth"),
        )

    classes = {}
    for pipeline in space.listed:
        classes.setdefault(what_it_does(pipeline), []).append(pipeline)
    assert len(candidates.listed) == len(classes) < len(space.listed)
    for members in classes.values():
        (stand_in,) = {candidates.encode([member])[0] for member in members}
        assert stand_in in members
        assert stand_in in list(candidates.listed)
        assert candidates.encode([stand_in])[0] == stand_in


@pytest.mark.parametrize("of", ["numbers", "mixed", "categories"])
def test_structures_samples_and_neighbours_are_of_candidates(of):
    space = tied_space()
    candidates = distinct(space, DATA[of])
    everything = set(candidates.listed)
    rng = np.random.default_rng(0)
    assert set(candidates.sample(rng, 500)) == everything
    structures = {pipeline.algorithms for pipeline in everything}
    stages = [stage.name for stage in space.stages]
    for depth in range(5):
        for path in {tuple(reversed(s))[:depth] for s in structures}:  # as a tree decides, the estimator first
            partial = dict(zip(reversed(stages), path, strict=False))
            left = {s for s in structures if all(s[stages.index(k)] == v for k, v in partial.items())}
            wanted = {stage: {s[i] for s in left} for i, stage in enumerate(stages)}
            assert {stage: set(names) for stage, names in candidates.allowed(partial).items()} == wanted
            assert {p.algorithms for p in candidates.sample(rng, 200, partial)} == left
    for pipeline in everything:
        near = list(candidates.neighbours(pipeline, rng))
        assert len(set(near)) == len(near)
        assert set(near) < everything - {pipeline}
        if of == "numbers":  # what is equal stands in the way of no step, whatever the other estimator allows before it
            assert {p.algorithms[-1] for p in near} == {"tree", "linear"}
        assert all(p.algorithms[-1] == "tree" for p in candidates.neighbours(pipeline, rng, {"estimator": "tree"}))


def test_samples_are_those_of_the_space():
    space = catalog.load("classification")
    candidates = distinct(space, DATA["numbers"])
    drawn = space.sample(np.random.default_rng(3), 50)
    merged = candidates.sample(np.random.default_rng(3), 50)
    assert merged.ids.tolist() == candidates.encode(drawn).ids.tolist() == candidates.encode(list(drawn)).ids.tolist()
    moved = [space.stage_position(name) for name in ("imputation", "encoding")]
    others = np.delete(np.arange(len(space.stages)), moved)
    np.testing.assert_array_equal(merged.choice[:, others], drawn.choice[:, others])
    assert candidates.nearest(drawn.values[0], {"estimator": "lightgbm"})[0].algorithms[-1] == "lightgbm"


def test_an_imputer_of_other_values_than_missing_ones_is_not_merged():
    space = tied_space()
    candidates = distinct(space, DATA["numbers"])
    zero = {"imputation": "zero", "estimator": "tree"}
    assert {p.algorithms[0] for p in candidates.sample(np.random.default_rng(0), 20, zero)} == {"zero"}


def test_a_stage_whose_hyper_parameters_are_tied_to_others_is_left_alone():
    space = tied_space()
    tied = PipelineSpace("t", space.stages, [{"imputation.add_indicator": [False], "estimator": ["linear"]}])
    candidates = distinct(tied, DATA["numbers"])
    assert {p.algorithms[0] for p in candidates.listed} == {"none", "mean", "zero"}
    assert {p.algorithms[1] for p in candidates.listed} == {"native"}


@pytest.mark.parametrize("name", ["classification", "auto_sklearn"])
def test_samples_of_several_structures(name):
    space = catalog.load(name)
    candidates = distinct(space, DATA[next(of for of in TABLES if "gaps" not in of)])
    assert candidates is not space
    last = space.stages[-1].name
    estimators = candidates.allowed()[last]
    for estimator, part in zip(
        estimators,
        candidates.sample_each(np.random.default_rng(0), 9, [{last: e} for e in estimators]),
        strict=True,
    ):
        assert len(part) == 9
        assert {pipeline.algorithms[-1] for pipeline in part} == {estimator}
        assert candidates.encode(list(part)).ids.tolist() == part.ids.tolist()  # each stands for what it equals
