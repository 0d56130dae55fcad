"""Spaces: declaration, encoding, candidates."""

import json
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

from headstart.errors import InvalidInput, MissingDependency, SpaceError, UnknownPipeline
from headstart.space import (
    Algorithm,
    Candidates,
    Categorical,
    Encoded,
    Float,
    Integer,
    Pipeline,
    PipelineSpace,
    Pool,
    Stage,
)
from headstart.testing.examples import small_meta, small_space


def one(*params, **options):
    return PipelineSpace("one", [Stage("s", [Algorithm("a", params=params)])], **options)


def test_a_space_and_a_pool_are_candidates():
    assert isinstance(small_space(), Candidates)
    assert isinstance(small_meta().pool(0), Candidates)


def test_log_scale_is_uniform_in_the_exponent():
    values = [p.params[0]["x"] for p in one(Float("x", 1e-4, 1e4, log=True)).sample(np.random.default_rng(0), 4000)]
    share = np.histogram(np.log10(values), bins=8, range=(-4, 4))[0] / 4000
    np.testing.assert_allclose(share, 1 / 8, atol=0.03)


def test_integers_are_uniform_to_their_bounds():
    values = [p.params[0]["x"] for p in one(Integer("x", 1, 5)).sample(np.random.default_rng(0), 5000)]
    assert all(type(v) is int for v in values)
    np.testing.assert_allclose(np.bincount(values)[1:] / 5000, 0.2, atol=0.03)


def test_true_and_one_are_different_choices():
    space = one(Categorical("x", (True, 1, "1", None)))
    for value in (True, 1, "1", None):
        pipeline = Pipeline(["a"], [{"x": value}])
        assert type(space.encode([pipeline])[0].params[0]["x"]) is type(value)


def test_forbidden_combinations_never_come_up():
    space = small_space()
    rng = np.random.default_rng(0)
    sampled = space.sample(rng, 2000)
    assert not any(p.algorithms[0] == "pca" and p.params[1].get("kernel") == "poly" for p in sampled)
    start = Pipeline(["none", "svm"], [{}, {"kernel": "poly", "C": 1.0, "degree": 3}])
    assert all(p.algorithms[0] != "pca" for p in space.neighbours(start, rng))


def test_a_space_that_forbids_everything_says_so():
    space = PipelineSpace("none", [Stage("s", [Algorithm("a")])], forbidden=[{"s": ["a"]}])
    with pytest.raises(SpaceError, match="forbids nearly everything"):
        space.sample(np.random.default_rng(0))


def test_inactive_parameters_never_change_the_encoding():
    space = small_space()
    rbf = space.encode([Pipeline(["none", "svm"], [{}, {"kernel": "rbf", "C": 1.0}])])
    degree = space.columns("estimator", "svm", "degree")
    assert not rbf.active[0, degree].any()
    assert (rbf.values[0, degree] == 0).all()


@pytest.mark.parametrize(
    ("pipeline", "message"),
    [
        (Pipeline(["none"]), "here has 2 stages, got 1"),
        (Pipeline(["nome", "knn"]), "no algorithm 'nome'; did you mean 'none'"),
        (Pipeline(["none", "naive_bayes"], [{}, {"x": 1}]), "no parameter 'x'"),
        (Pipeline(["pca", "naive_bayes"], [{"n_components": 3.0}, {}]), r"cannot be 3.0: .* number in \[0.5, 0.99\]"),
        (Pipeline(["none", "knn"], [{}, {"n_neighbors": 2.5, "weights": "uniform"}]), "cannot be 2.5"),
        (Pipeline(["none", "knn"], [{}, {"n_neighbors": 2, "weights": "far"}]), "one of 'uniform', 'distance'"),
        (Pipeline(["none", "knn"], [{}, {"n_neighbors": 2}]), "weights is missing"),
        (Pipeline(["none", "svm"], [{}, {"kernel": "rbf", "C": 1.0, "degree": 2}]), "degree is not active"),
        (Pipeline(["none", "naive_bayes"], order=[1, 0]), "fixed order"),
    ],
)
def test_a_pipeline_that_does_not_belong_is_refused(pipeline, message):
    with pytest.raises(SpaceError, match=message):
        small_space().encode([pipeline])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Float("x", 1, 1), "low < high"),
        (lambda: Float("x", 0, 1, log=True), "low > 0"),
        (lambda: Float("x", 0, 1, default=2), "default 2"),
        (lambda: Float("x", 0, float("inf")), "finite"),
        (lambda: Integer("x", 0.5, 3), "whole numbers"),
        (lambda: Categorical("x", ()), "at least one"),
        (lambda: Categorical("x", ("a", "a")), "all different"),
        (lambda: Categorical("x", ((1, 2),)), "text, number"),
        (lambda: Categorical("a.b", ("x",)), "without a dot"),
        (lambda: Algorithm("a", "nopath"), "module:attribute"),
        (lambda: Algorithm("a", params=[Float("x", 0, 1), Float("x", 0, 1)]), "two settings named 'x'"),
        (lambda: Algorithm("a", params=[Float("x", 0, 1, when={"y": ("b",)})]), "declared before"),
        (
            lambda: Algorithm("a", params=[Categorical("y", ("b",)), Float("x", 0, 1, when={"y": ("c",)})]),
            "not all choices",
        ),
        (lambda: Stage("s", []), "at least one algorithm"),
        (lambda: Stage("s", [Algorithm("a"), Algorithm("a")]), "two algorithms named 'a'"),
        (lambda: Stage("s", [Algorithm("a")], kind="other"), "'step' or 'fit_option'"),
        (lambda: PipelineSpace("x", []), "at least one stage"),
        (lambda: PipelineSpace("x", [Stage("s", [Algorithm("a")])], forbidden=[{"t": ["a"]}]), "no stage 't'"),
        (lambda: one(Float("x", 0, 1), forbidden=[{"s.x": [0.5]}]), "has that categorical parameter"),
        (lambda: one(forbidden=[{"s.y": [1]}]), "has that categorical parameter"),
        (lambda: small_space().restrict({"estimator": []}), "at least one algorithm"),
        (lambda: small_space().sample(np.random.default_rng(0), 1, {"estimatr": "knn"}), "did you mean 'estimator'"),
        (lambda: PipelineSpace.from_dict({"format": 99}), "format"),
        (lambda: PipelineSpace.from_dict({"format": 1, "name": "x"}), "not well declared"),
    ],
)
def test_a_bad_declaration_is_refused(make, message):
    with pytest.raises(SpaceError, match=message):
        make()


def test_sampling_honours_a_partial_structure():
    sampled = small_space().sample(np.random.default_rng(0), 200, {"estimator": ["knn", "naive_bayes"]})
    assert {p.algorithms[1] for p in sampled} == {"knn", "naive_bayes"}
    assert {p.algorithms[0] for p in sampled} == {"none", "pca"}


def test_the_relaxation_lists_the_numeric_parameters():
    box = small_space().relaxed({"estimator": "svm", "reducer": "none"})
    assert box.names == ("estimator.svm.C", "estimator.svm.degree")
    assert box.levels.tolist() == [0, 4]
    assert small_space().columns("estimator", "svm", "C").start == box.columns[0]


def test_free_order_leaves_the_last_stage_in_place():
    stages = [Stage(n, [Algorithm(n)]) for n in "abcd"]
    sampled = PipelineSpace("free", stages, free_order=True).sample(np.random.default_rng(0), 300)
    orders = {p.order for p in sampled}
    assert len(orders) == 6
    assert {o[-1] for o in orders} == {3}


def test_features_hold_values_choices_and_the_filler():
    space = small_space()
    encoded = space.sample(np.random.default_rng(0), 50)
    features = encoded.features(inactive=-1.0)
    assert features.shape == (50, space.width + 2 + 3)
    assert (features[:, : space.width][~encoded.active] == -1).all()
    np.testing.assert_array_equal(features[:, space.width :].sum(axis=1), 2)


def test_build_makes_the_scikit_learn_pipeline():
    space = PipelineSpace(
        "build",
        [
            Stage("scaler", [Algorithm("none"), Algorithm("standard", "sklearn.preprocessing:StandardScaler")]),
            Stage("estimator", [Algorithm("lr", "sklearn.linear_model:LogisticRegression", [Float("C", 0.1, 10)])]),
            Stage("weighting", [Algorithm("balanced", fixed={"class_weight": "balanced"})], kind="fit_option"),
        ],
    )
    built = space.build(Pipeline(["standard", "lr", "balanced"], [{}, {"C": 2.0}, {}]), seed=3)
    assert [name for name, _ in built.steps] == ["scaler", "estimator"]
    assert built[-1].get_params()["C"] == 2.0
    assert built[-1].get_params()["class_weight"] == "balanced"
    assert built[-1].get_params()["random_state"] == 3
    short = space.build(Pipeline(["none", "lr", "balanced"], [{}, {"C": 2.0}, {}]))
    assert [name for name, _ in short.steps] == ["estimator"]


@pytest.mark.parametrize(
    ("algorithm", "error", "message"),
    [
        (Algorithm("a", "no_such_package:X"), MissingDependency, "not installed"),
        (Algorithm("a", "sklearn.svm:NoSuchThing"), SpaceError, "has no 'NoSuchThing'"),
        (Algorithm("a", "sklearn.svm:SVC", fixed={"nope": 1}), SpaceError, "cannot be made with"),
        (Algorithm("a"), SpaceError, "no step that predicts"),
    ],
)
def test_build_says_what_is_wrong(algorithm, error, message):
    space = PipelineSpace("x", [Stage("s", [algorithm])])
    with pytest.raises(error, match=message):
        space.build(space.default())


def finite_space():
    """24 pipelines."""
    return PipelineSpace(
        "finite",
        [
            Stage("scaler", [Algorithm("none"), Algorithm("other")]),
            Stage(
                "estimator",
                [
                    Algorithm("a", params=[Categorical("x", ["p", "q", "r"]), Integer("n", 1, 3)]),
                    Algorithm("b", params=[Categorical("y", [1, 2, 3], ordered=True)]),
                ],
            ),
        ],
    )


def all_of(space):
    """Every pipeline of a finite space, found by drawing."""
    drawn = space.sample(np.random.default_rng(0), 2_000)
    _, first = np.unique(drawn.ids, return_index=True)
    return drawn.take(np.sort(first))


def recorded(pipelines):
    return Encoded(
        pipelines.space, pipelines.values, pipelines.active, pipelines.choice, ids=100 + np.arange(len(pipelines))
    )


class TestListed:
    @pytest.mark.parametrize(
        ("changes", "count"),
        [
            ({}, 24),
            ({"forbidden": [{"scaler": ["none"], "estimator": ["b"]}]}, 21),
            ({"forbidden": [{"scaler": ["none"], "estimator.x": ["p", "q"]}]}, 18),
            ({"free_order": True}, 24),
        ],
    )
    def test_holds_every_pipeline_once(self, changes, count):
        space = PipelineSpace("finite", finite_space().stages, **changes)
        assert len(space.listed) == count
        assert set(space.listed.ids) == set(all_of(space).ids)
        assert space.encode(list(space.listed)).ids.tolist() == space.listed.ids.tolist()
        assert space.listed is space.listed

    def test_orders_and_conditions_count(self):
        steps = [Stage(name, [Algorithm("none"), Algorithm("some")]) for name in ("first", "second")]
        child = Integer("n", 1, 3, log=True, when={"x": ["p"]})
        last = Stage("estimator", [Algorithm("a", params=[Categorical("x", ["p", "q"]), child])])
        space = PipelineSpace("ordered", [*steps, last], free_order=True)
        assert len(space.listed) == len(all_of(space)) == 2 * 2 * (3 + 1) * 2
        assert set(space.listed.ids) == set(all_of(space).ids)

    def test_none_without_an_end_or_with_too_many(self):
        assert small_space().listed is None
        large = Algorithm("c", params=[Integer("n", 1, 25_000)])
        assert len(PipelineSpace("large", [Stage("estimator", [large])]).listed) == 25_000
        assert finite_space().extend("estimator", large).listed is None

    def test_stays_behind_when_a_space_is_sent_to_a_worker(self):
        space = finite_space()
        assert len(space.listed) == 24
        sent = pickle.loads(pickle.dumps(space))
        assert sent == space
        assert "listed" not in vars(sent)


def test_pipelines_are_found_by_what_they_are():
    everything = all_of(finite_space())
    wanted = np.where(np.arange(24) < 10, np.arange(24), -1)
    for some in (recorded(everything)[:10], everything[:10]):
        np.testing.assert_array_equal(some.find(everything), wanted)
        np.testing.assert_array_equal(some.find(recorded(everything)), wanted)
        # another space
        assert (some.find(all_of(finite_space().select(exclude=["estimator.b"]))) == -1).all()
    # known ids with another content
    others = recorded(everything.take(np.arange(24)[::-1]))
    np.testing.assert_array_equal(recorded(everything)[:10].find(others)[:10], [-1] * 10)


class TestPool:
    def test_samples_without_replacement(self):
        pool = small_meta().pool(0)
        assert len(set(pool.sample(np.random.default_rng(0), 30).ids)) == 30
        assert sorted(pool.sample(np.random.default_rng(0), 10_000).ids) == sorted(pool.pool.ids)

    def test_holds_observed_pipelines_only(self):
        meta = small_meta()
        assert np.isfinite(meta.losses[0][pool_rows(meta)]).all()
        assert len(meta.pool(0)) == np.isfinite(meta.losses[0]).sum() < len(meta.pipelines)

    def test_encodes_by_id(self):
        pool = small_meta().pool(0)
        again = pool.encode([pool.pool[5], pool.pool[2]])
        assert again.ids.tolist() == pool.pool.ids[[5, 2]].tolist()
        assert len(pool.encode([])) == 0

    def test_refuses_strangers(self):
        pool = small_meta().pool(0)
        with pytest.raises(UnknownPipeline, match="with an id"):
            pool.encode([small_space().default()])
        with pytest.raises(UnknownPipeline, match="#7 is not in this pool"):
            pool.encode([Pipeline(["none", "naive_bayes"], id=7)])

    def test_needs_recorded_pipelines(self):
        with pytest.raises(InvalidInput, match="recorded"):
            Pool(small_space().sample(np.random.default_rng(0), 3))
        with pytest.raises(InvalidInput, match="at least one"):
            Pool(small_meta().pipelines[:0])

    def test_neighbours_are_the_closest(self):
        pool = small_meta().pool(0)
        me = pool.pool[0]
        found = pool.neighbours(me, np.random.default_rng(0))
        assert me not in list(found)
        values, choice = pool.pool.values, pool.pool.choice
        distance = ((values - values[0]) ** 2).sum(1) + (choice != choice[0]).sum(1)
        closest = np.sort(distance[1:])[: len(found)]
        rows = pool.rows(found.ids)
        np.testing.assert_allclose(np.sort(distance[rows]), closest)

    def test_nearest_honours_the_structure(self):
        pool = small_meta().pool(0)
        found = pool.nearest(np.full(pool.space.width, 0.5), {"estimator": "knn"})
        assert found[0].algorithms[1] == "knn"
        knn = [i for i, p in enumerate(pool.pool) if p.algorithms[1] == "knn"]
        part = pool.pool.take(knn)
        distance = (np.where(part.active, part.values - 0.5, 0) ** 2).sum(1)
        assert found.ids[0] == part.ids[distance.argmin()]


def pool_rows(meta):
    return meta.pool(0).pool.ids - 100


def test_encoded_refuses_arrays_that_do_not_fit():
    with pytest.raises(ValueError, match="do not fit"):
        Encoded(small_space(), np.zeros((2, 3)), np.zeros((2, 3), bool), np.zeros((2, 2), int))


def test_ids_are_the_same_in_every_process():
    code = (
        "import numpy as np; from headstart.testing.examples import small_space;"
        "print(small_space().sample(np.random.default_rng(0), 50).ids.tolist())"
    )
    here = small_space().sample(np.random.default_rng(0), 50).ids.tolist()
    there = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": "77"}, capture_output=True, check=True
    )
    assert json.loads(there.stdout) == here


def test_ids_do_not_collide():
    sampled = small_space().sample(np.random.default_rng(0), 20_000)
    assert len(sampled.unique()) == len(set(sampled)) > 5000


def test_a_pipeline_cannot_be_changed():
    pipeline = small_space().default()
    with pytest.raises(AttributeError):
        pipeline.order = (0,)
    with pytest.raises(TypeError):
        pipeline.params[1]["n_neighbors"] = 3
