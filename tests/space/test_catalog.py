"""The catalog: every algorithm of every space fits and predicts; the default spaces sample what is sensible."""

import importlib.util
import json
import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning
from test_properties import differing_decisions

from headstart.errors import UnknownName
from headstart.space import Categorical, Pipeline, PipelineSpace, catalog
from headstart.space.catalog import _live

NAMES = catalog.names()
KINDS = {"x": "numeric", "z": "numeric", "w": "numeric", "count": "numeric", "yes": "boolean", "colour": "categorical"}
ROUNDS = 8
"""Boosters and forests are tried with fewer rounds than the space has: it is about whether they run."""


def table(rows, seed=0):
    """Numbers and categories with missing values."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.standard_normal((rows, 3)), columns=["x", "z", "w"])
    frame["w"] *= 1000
    frame["count"] = rng.integers(0, 5, rows).astype(float)
    frame["yes"] = rng.random(rows) < 0.5
    frame["colour"] = rng.choice(["red", "green", "blue"], rows)
    frame.loc[rng.random(rows) < 0.1, "x"] = np.nan
    frame.loc[rng.random(rows) < 0.1, "colour"] = np.nan
    signal = frame["z"] + (frame["colour"] == "red") + 0.3 * rng.standard_normal(rows)
    return frame, signal.to_numpy()


X, SIGNAL = table(70)
NEW = table(12, seed=1)[0]
NEW.loc[0, "colour"] = "never seen"
TARGETS = {
    "binary": (SIGNAL > 0.3).astype(int),
    "multiclass": np.digitize(SIGNAL, [-0.3, 0.8]) * 2,  # labels 0, 2, 4: some are not there
    "regression": 1000 + 50 * SIGNAL,
}


def most(step, name, limit):
    """Bound a setting, if the step has it."""
    value = step.get_params().get(name)
    if value is not None and value > limit:
        step.set_params(**{name: limit})


def fit_and_predict(space, pipeline, task):
    built = space.build(pipeline, seed=0, kinds=KINDS)
    for step in built:
        most(step, "n_estimators", ROUNDS)
    most(built[-1], "max_iter", 100)
    y = TARGETS[task]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.filterwarnings("ignore", message=".*not in that dtype's categories")  # of the table's preparation
        warnings.simplefilter("ignore", RuntimeWarning)  # overflows in single features
        built.fit(X, y)
        predicted = built.predict(NEW)
        assert predicted.shape == (len(NEW),)
        if task == "regression":
            assert np.isfinite(predicted).all()
            return
        classes = np.unique(y)
        assert set(predicted) <= set(classes)
        proba = built.predict_proba(NEW)
        assert list(built.classes_) == list(classes)
        assert proba.shape == (len(NEW), len(classes))
        assert np.isfinite(proba).all()
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-5)


def tasks(name):
    return ["regression"] if name == "regression" else ["binary", "multiclass"]


def all_algorithms():
    for name in NAMES:
        for stage in catalog.load(name).stages:
            for algorithm in stage.algorithms:
                yield pytest.param(name, stage.name, algorithm.name, id=f"{name}-{stage.name}-{algorithm.name}")


@pytest.mark.parametrize(("name", "stage", "algorithm"), list(all_algorithms()))
def test_every_algorithm_fits_and_predicts(name, stage, algorithm):
    space = catalog.load(name)
    given = {stage: algorithm}
    if stage != space.stages[-1].name and algorithm != "native":  # it is about the step: a quick estimator
        quick = {"decision_tree", "gaussian_nb", "ridge", "lda"} & set(space.stages[-1].names)
        given[space.stages[-1].name] = sorted(quick)
    pipelines = [space.default(given), *space.sample(np.random.default_rng(0), 2, given)]
    for i, pipeline in enumerate(pipelines):
        fit_and_predict(space, pipeline, tasks(name)[i % len(tasks(name))])


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_is_one_that_its_class_has(name):
    """Names only; whether the values work is for the test above."""
    space = catalog.load(name)
    for stage in space.stages:
        for algorithm in stage.algorithms:
            if algorithm.path is None:
                continue
            known = _signature(algorithm.path)
            for parameter in algorithm.params:
                assert parameter.name in known, (algorithm.name, parameter.name)
            assert set(algorithm.fixed) <= set(known), algorithm.name


def _signature(path):
    import inspect

    from headstart.space.build import load

    return inspect.signature(load(path)).parameters


@pytest.mark.parametrize("name", NAMES)
def test_sample_encode_decode_and_json(name):
    space = catalog.load(name)
    sampled = space.sample(np.random.default_rng(0), 300)
    pipelines = list(sampled)
    encoded = space.encode(pipelines)
    np.testing.assert_array_equal(encoded.values, sampled.values)
    np.testing.assert_array_equal(encoded.active, sampled.active)
    assert list(encoded) == pipelines
    again = PipelineSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    assert list(again.encode([Pipeline.from_dict(json.loads(json.dumps(p.to_dict()))) for p in pipelines])) == pipelines


@pytest.mark.parametrize("name", NAMES)
def test_neighbours_differ_in_one_decision(name):
    space = catalog.load(name)
    rng = np.random.default_rng(0)
    for pipeline in [space.default(), *space.sample(rng, 5)]:
        neighbours = list(space.neighbours(pipeline, rng))
        assert neighbours
        for neighbour in neighbours:
            assert differing_decisions(space, pipeline, neighbour) == 1, (pipeline, neighbour)


@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm_comes_up(name):
    space = catalog.load(name)
    sampled = space.sample(np.random.default_rng(0), 5000)
    for s, stage in enumerate(space.stages):
        seen = np.bincount(sampled.choice[:, s], minlength=len(stage.algorithms))
        assert (seen > 0).all(), dict(zip(stage.names, seen, strict=True))


@pytest.mark.parametrize("name", ["classification", "regression"])
def test_sampled_structures_are_sensible(name):
    space = catalog.load(name)
    sampled = list(space.sample(np.random.default_rng(0), 4000))
    stages = [stage.name for stage in space.stages]
    rows = [dict(zip(stages, p.algorithms, strict=True)) for p in sampled]
    plain = np.mean([r["preprocessing"] == "none" for r in rows])
    assert 0.45 < plain < 0.75
    boosted = [r for r in rows if r["estimator"] in _live.BOOSTERS]
    assert 0.25 < len(boosted) / len(rows) < 0.6
    as_it_is = [r for r in boosted if (r["imputation"], r["encoding"]) == ("none", "native")]
    assert len(as_it_is) / len(boosted) > 0.3
    assert Counter(r["encoding"] for r in boosted).most_common(1)[0][0] == "native"
    assert Counter(r["imputation"] for r in boosted).most_common(1)[0][0] == "none"


@pytest.mark.parametrize("name", ["classification", "regression"])
def test_random_pipelines_hold_nothing_forbidden_and_all_build(name):
    space = catalog.load(name)
    for pipeline in space.sample(np.random.default_rng(1), 500):
        chosen = dict(zip([s.name for s in space.stages], pipeline.algorithms, strict=True))
        between = (chosen["scaling"], chosen["preprocessing"])
        if chosen["encoding"] == "native":
            assert chosen["estimator"] in _live.BOOSTERS
            assert between == ("none", "none")
        if chosen["imputation"] == "none":
            assert chosen["estimator"] in _live.TAKES_MISSING
            assert between == ("none", "none")
        if chosen["estimator"] in _live.NEEDS_SCALING:
            assert chosen["scaling"] != "none"
        if chosen["estimator"] in _live.TREES and chosen["preprocessing"] not in _live.REDUCTIONS:
            assert chosen["scaling"] == "none"
        if chosen["estimator"] == "multinomial_nb":
            assert chosen["scaling"] in ("none", "minmax")
        space.build(pipeline, seed=0, kinds=KINDS)


@pytest.mark.parametrize("name", NAMES)
def test_the_default_of_each_estimator_has_its_default_settings(name):
    space = catalog.load(name)
    last = space.stages[-1]
    for algorithm in last.algorithms:
        pipeline = space.default({last.name: algorithm.name})
        assert pipeline.algorithms[-1] == algorithm.name
        for parameter, value in pipeline.params[-1].items():
            assert value == algorithm.param(parameter).default


def test_the_default_pipelines():
    expected = {
        "classification": ("none", "native", "none", "none", "none", "lightgbm"),
        "regression": ("none", "native", "none", "none", "lightgbm"),
        "admm_small": ("simple", "one_hot", "none", "none", "gaussian_nb"),  # "the first pipeline tried is Naive Bayes"
    }
    for name, algorithms in expected.items():
        assert catalog.load(name).default().algorithms == algorithms


def test_tensor_oboe_has_exactly_the_recorded_pipelines():
    def settings(algorithm):
        assert all(isinstance(p, Categorical) for p in algorithm.params)
        return int(np.prod([len(p.choices) for p in algorithm.params]))

    stages = catalog.load("tensor_oboe").stages
    counts = [sum(settings(a) for a in stage.algorithms) for stage in stages]
    assert counts == [4, 2, 2, 8, 183]
    assert np.prod(counts) == 23_424


def test_admm_has_the_printed_numbers():
    large, small = catalog.load("admm_large"), catalog.load("admm_small")
    assert [len(s.algorithms) for s in small.stages[2:]] == [6, 3, 6]
    assert [len(s.algorithms) for s in large.stages[2:]] == [8, 11, 6, 11]
    counted = sum(len(a.params) for s in large.stages[2:] for a in s.algorithms)
    assert counted == 92 - 1  # without the criterion of gradient boosting
    orders = {p.order for p in large.sample(np.random.default_rng(0), 300)}
    assert len(orders) == 6
    assert all(order[:2] == (0, 1) and order[-1] == 5 for order in orders)


def test_auto_sklearn_has_the_components_of_table_a1():
    space = catalog.load("auto_sklearn")
    missing = importlib.util.find_spec("xgboost") is None  # it is left out then
    assert [len(s.algorithms) for s in space.stages] == [2, 3, 6, 2, 13, 16 - missing]


def test_an_algorithm_whose_package_is_missing_is_left_out(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "headstart.space.catalog._parts.find_spec", lambda n: None if n in ("lightgbm", "xgboost") else found(n)
    )
    from headstart.space.catalog import auto_sklearn, classification, pmf

    space = classification.space()
    assert {"lightgbm", "xgboost"} & set(space.stages[-1].names) == set()
    assert space.default().algorithms[-1] == "catboost"
    assert "xgradient_boosting" not in auto_sklearn.space().stages[-1].names
    assert "extreme_gradient_boosting" not in pmf.space().stages[-1].names


def test_an_unknown_name_is_refused():
    with pytest.raises(UnknownName, match="did you mean 'classification'"):
        catalog.load("clasification")


@pytest.mark.parametrize("name", NAMES)
def test_a_matrix_of_numbers_needs_no_kinds(name):
    space = catalog.load(name)
    quick = sorted({"decision_tree", "gaussian_nb", "random_forest"} & set(space.stages[-1].names))[0]
    pipeline = space.default({space.stages[-1].name: quick})
    numbers = X[["z", "w", "count"]].to_numpy()
    built = space.build(pipeline, seed=0)
    assert built.fit(numbers, TARGETS[tasks(name)[0]]).predict(numbers).shape == (len(X),)
