import numpy as np
import pytest

from headstart.space import Algorithm, Categorical, Float, PipelineSpace, Stage, catalog
from headstart.space.fits import misfit
from headstart.testing.examples import small_space


def test_a_space_fits_itself_and_one_with_more_but_not_the_other_way():
    space = small_space()
    larger = space.extend("estimator", Algorithm("new", params=[Float("x", 0, 1)]))
    assert not misfit(space, space)
    assert not misfit(space, larger)
    assert not misfit(space.restrict({"estimator": "knn"}), space)
    found = misfit(larger, space)
    assert found
    assert found.unknown == (("estimator", "new"),)
    assert str(found) == "estimator.new: unknown"


def test_equal_names_with_other_ranges_do_not_fit_but_other_defaults_and_weights_do():
    def of(*params, **others):
        return PipelineSpace("one", [Stage("s", [Algorithm("a", params=params, **others)])])

    space = of(Float("x", 0, 1))
    assert misfit(of(Float("x", 0, 2)), space).different == (("s", "a"),)
    assert misfit(of(Categorical("x", (0, 1))), space)
    assert misfit(of(), space)
    assert not misfit(of(Float("x", 0, 1, default=0.3), weight=2.0, note="other"), space)


def test_stages_and_their_order_must_be_the_same():
    def of(*names, **others):
        return PipelineSpace("one", [Stage(name, [Algorithm("a")]) for name in names], **others)

    assert misfit(of("s"), of("s", "t")).stages == ("t",)
    assert misfit(of("s", "u"), of("s", "t")).stages == ("t", "u")
    assert "not in both" in str(misfit(of("s"), of("s", "t")))
    assert misfit(of("s", "t", free_order=True), of("s", "t")).order
    assert misfit(of("t", "s"), of("s", "t")).order
    assert "order of stages differs" in str(misfit(of("t", "s"), of("s", "t")))
    assert not misfit(of("t", "s", free_order=True), of("s", "t", free_order=True))


@pytest.mark.parametrize("name", ["tensor_oboe", "classification"])
def test_parts_of_the_catalog_fit(name):
    space = catalog.load(name)
    last = space.stages[-1]
    assert not misfit(space.restrict({last.name: last.names[:2]}), space)
    many = misfit(space, space.restrict({last.name: last.names[:1]}))
    assert len(many.unknown) == len(last.names) - 1
    assert "more: unknown" in str(many) or len(many.unknown) <= 5


def test_pipelines_keep_their_order_in_a_space_with_stages_elsewhere():
    stages = [Stage(name, [Algorithm("a"), Algorithm("b")]) for name in "xyz"]
    space, other = (
        PipelineSpace("one", stages, free_order=True),
        PipelineSpace("other", [stages[1], stages[0], stages[2]], free_order=True),
    )
    drawn = space.sample(np.random.default_rng(0), 20)
    names, others = ([stage.name for stage in s.stages] for s in (space, other))
    moved = drawn.to(other)
    assert drawn.order is not None
    assert moved.order is not None
    for before, after in zip(drawn.order, moved.order, strict=True):
        assert [names[s] for s in before] == [others[s] for s in after]
    np.testing.assert_array_equal(moved.to(space).ids, drawn.ids)
