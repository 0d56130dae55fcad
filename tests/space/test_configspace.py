"""Exchange with ConfigSpace."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import spaces

from headstart.errors import MissingDependency, SpaceError
from headstart.space import Algorithm, Categorical, Float, Integer, Pipeline, PipelineSpace, Stage, catalog
from headstart.space.configspace import from_configspace, from_configuration, to_configspace, to_configuration
from headstart.testing.examples import small_space

ConfigSpace = pytest.importorskip("ConfigSpace")
seeds = st.integers(0, 2**31 - 1)


def same(one, other):
    """Equal but for what ConfigSpace rounds: floats to 13 decimals."""
    assert (one.algorithms, one.order) == (other.algorithms, other.order)
    for mine, theirs in zip(one.params, other.params, strict=True):
        assert mine.keys() == theirs.keys()
        for name, value in mine.items():
            assert type(value) is type(theirs[name])
            if type(value) is float:
                assert value == pytest.approx(theirs[name], rel=1e-7, abs=1e-12)
            else:
                assert value == theirs[name]
    return True


@settings(max_examples=60, deadline=None)
@given(spaces(), seeds)
def test_a_space_and_its_pipelines_come_back(space, seed):
    written = to_configspace(space)
    again = from_configspace(written)
    assert again.stages == space.stages
    assert again.free_order == space.free_order
    assert from_configspace(to_configspace(again)) == again
    for pipeline in space.sample(np.random.default_rng(seed), 5):
        configuration = to_configuration(pipeline, space, written)
        configuration.check_valid_configuration()
        assert same(from_configuration(configuration, again), pipeline)


@settings(max_examples=30, deadline=None)
@given(spaces(), seeds)
def test_what_configspace_draws_is_in_the_space(space, seed):
    written = to_configspace(space)
    written.seed(seed)
    for configuration in written.sample_configuration(5):
        pipeline = from_configuration(configuration, space)
        assert list(space.encode([pipeline])) == [pipeline]


@pytest.mark.parametrize("name", catalog.names())
def test_the_catalog_comes_back(name, tmp_path):
    space = catalog.load(name)
    written = to_configspace(space)
    written.to_json(tmp_path / "space.json")
    again = from_configspace(ConfigSpace.ConfigurationSpace.from_json(tmp_path / "space.json"))
    assert again.stages == space.stages
    assert again.name == space.name
    assert from_configuration(written.get_default_configuration(), space) == space.default()
    sampled = list(space.sample(np.random.default_rng(0), 20))
    assert list(again.encode(sampled)) == sampled
    for pipeline in sampled:
        assert same(from_configuration(to_configuration(pipeline, space, written), again), pipeline)


@pytest.mark.parametrize("name", ["classification", "auto_sklearn"])
def test_the_same_is_forbidden(name):
    space = catalog.load(name)
    again = from_configspace(to_configspace(space))
    everything = PipelineSpace("all", space.stages)
    drawn = list(everything.sample(np.random.default_rng(0), 150))

    def allowed(one):
        kept = []
        for pipeline in drawn:
            try:
                one.encode([pipeline])
                kept.append(pipeline)
            except SpaceError:
                pass
        return kept

    assert 0 < len(allowed(space)) < 150
    assert allowed(space) == allowed(again)


def test_forbidden_parameters_are_read_with_their_algorithm():
    again = from_configspace(to_configspace(small_space()))
    assert again.forbidden == ({"reducer": ("pca",), "estimator": ("svm",), "estimator.kernel": ("poly",)},)


def test_weights_and_what_configspace_has_no_place_for_are_kept():
    space = PipelineSpace(
        "kept",
        [
            Stage("weighting", [Algorithm("none"), Algorithm("on", fixed={"class_weight": "balanced"})], "fit_option"),
            Stage("encoder", [Algorithm("native", weight=3.0, note="as it is"), Algorithm("x")], columns="categorical"),
            Stage("estimator", [Algorithm("knn", "sklearn.neighbors:KNeighborsClassifier", [Integer("k", 1, 9)])]),
        ],
    )
    assert from_configspace(to_configspace(space)) == space


def auto_sklearn_like():
    """A space as auto-sklearn would write it, with the kinds of conditions that can be read."""
    space = ConfigSpace.ConfigurationSpace("theirs")
    choice = ConfigSpace.CategoricalHyperparameter("classifier:__choice__", ["sgd", "knn"])
    loss = ConfigSpace.CategoricalHyperparameter("classifier:sgd:loss", ["log", "huber", "hinge"])
    epsilon = ConfigSpace.UniformFloatHyperparameter("classifier:sgd:epsilon", 1e-5, 0.1, log=True)
    rate = ConfigSpace.UniformFloatHyperparameter("classifier:sgd:rate", 0.1, 1.0)
    size = ConfigSpace.OrdinalHyperparameter("classifier:knn:size", [1, 5, 10])
    p = ConfigSpace.Constant("classifier:knn:p", 2)
    weighting = ConfigSpace.CategoricalHyperparameter("balancing:strategy", ["none", "weighting"])
    space.add(choice, loss, epsilon, rate, size, p, weighting)
    equals, differs = ConfigSpace.EqualsCondition, ConfigSpace.NotEqualsCondition
    space.add(equals(loss, choice, "sgd"), equals(size, choice, "knn"), equals(p, choice, "knn"))
    either = ConfigSpace.OrConjunction(equals(epsilon, loss, "huber"), equals(epsilon, loss, "log"))
    space.add(either, ConfigSpace.AndConjunction(equals(rate, choice, "sgd"), differs(rate, loss, "log")))
    space.add(
        ConfigSpace.ForbiddenAndConjunction(
            ConfigSpace.ForbiddenEqualsClause(weighting, "weighting"), ConfigSpace.ForbiddenInClause(size, [5, 10])
        )
    )
    return space


def test_a_space_of_others_is_read():
    theirs = auto_sklearn_like()
    space = from_configspace(theirs, paths={"classifier:knn": "sklearn.neighbors:KNeighborsClassifier"})
    assert [stage.name for stage in space.stages] == ["balancing", "classifier"]
    assert space.stage("balancing").names == ("balancing",)
    sgd, knn = space.stage("classifier").algorithms
    assert sgd.param("epsilon") == Float("epsilon", 1e-5, 0.1, log=True, when={"loss": ("huber", "log")})
    assert dict(sgd.param("rate").when) == {"loss": ("huber", "hinge")}
    assert knn.param("size") == Categorical("size", (1, 5, 10), ordered=True)
    assert knn.param("p").choices == (2,)
    assert knn.path == "sklearn.neighbors:KNeighborsClassifier"
    rng = np.random.default_rng(0)
    for pipeline in space.sample(rng, 200):
        assert not (pipeline.params[0] == {"strategy": "weighting"} and pipeline.params[1].get("size") in (5, 10))
        configuration = to_configuration(pipeline, space, theirs)
        assert same(from_configuration(configuration, space), pipeline)
    theirs.seed(0)
    for configuration in theirs.sample_configuration(50):
        from_configuration(configuration, space)


def test_a_flat_space_is_one_algorithm():
    theirs = ConfigSpace.ConfigurationSpace({"C": (0.1, 10.0), "kernel": ["rbf", "poly"]})
    space = from_configspace(theirs, name="svm")
    assert space.stages[0].names == ("configuration",)
    pipeline = Pipeline(["configuration"], [{"C": 2.0, "kernel": "poly"}])
    assert from_configuration(to_configuration(pipeline, space, theirs), space) == pipeline


def test_the_order_of_stages_can_be_given():
    theirs = auto_sklearn_like()
    assert from_configspace(theirs, stages=["classifier", "balancing"]).stages[0].name == "classifier"
    with pytest.raises(SpaceError, match="each of"):
        from_configspace(theirs, stages=["classifier"])


def with_condition(condition):
    space = ConfigSpace.ConfigurationSpace()
    number = ConfigSpace.UniformIntegerHyperparameter("a:n", 1, 9)
    child = ConfigSpace.UniformFloatHyperparameter("a:x", 0.0, 1.0)
    other = ConfigSpace.CategoricalHyperparameter("b:c", ["u", "v"])
    space.add(number, child, other)
    space.add(condition(number, child, other))
    return space


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        (lambda number, child, other: ConfigSpace.GreaterThanCondition(child, number, 3), "categorical parameter"),
        (lambda number, child, other: ConfigSpace.EqualsCondition(child, other, "v"), "of the same algorithm"),
        (lambda number, child, other: ConfigSpace.ForbiddenEqualsClause(number, 3), "categorical parameters"),
        (lambda number, child, other: ConfigSpace.ForbiddenLessThanRelation(number, child), "can be read"),
    ],
)
def test_what_has_no_counterpart_is_refused(condition, message):
    with pytest.raises(SpaceError, match=message):
        from_configspace(with_condition(condition))


def test_without_the_package_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "ConfigSpace", None)
    with pytest.raises(MissingDependency, match=r"headstart\[configspace\]"):
        to_configspace(small_space())
