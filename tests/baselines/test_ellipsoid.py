"""Restricted search: the contract, the regions, and that nothing outside is tried while something inside is left."""

import numpy as np
import pytest

from headstart.baselines.ellipsoid import BoxRegion, Ellipsoid, EllipsoidRegion, RestrictedCandidates
from headstart.errors import InvalidInput, UnknownName
from headstart.optimizers.bayes import Bayes
from headstart.optimizers.recorded import best_columns
from headstart.space import Algorithm
from headstart.task import Task
from headstart.testing import OptimizerContract
from headstart.testing.examples import evaluate, live_task, pool_task, small_meta, small_space


class TestEllipsoid(OptimizerContract):
    def make(self, task):
        return Ellipsoid(search=Bayes("gp", n_samples=50, n_starts=1), components=2)


class TestRandomInABox(OptimizerContract):
    def make(self, task):
        return Ellipsoid(search="random", shape="box", best_of_each=3)


@pytest.fixture
def meta():
    return small_meta().select([1, 2, 3, 4, 5])


@pytest.mark.parametrize("shape", ["box", "ellipsoid"])
def test_the_best_of_all_training_tasks_are_inside(meta, shape):
    best = meta.pipelines.take(np.unique(np.concatenate(best_columns(meta, 10))))
    region = BoxRegion(best) if shape == "box" else EllipsoidRegion(best, 3)
    assert region.contains(best).all()
    drawn = small_space().sample(np.random.default_rng(0), 500)
    assert 0 < region.contains(drawn).sum() < 500


def test_a_box_holds_what_lies_between(meta):
    space = small_space()
    rng = np.random.default_rng(1)
    given = space.sample(rng, 4, given={"reducer": "none", "estimator": "knn"})
    region = BoxRegion(given)
    columns = space.columns("estimator", "knn", "n_neighbors")
    low, high = given.values[:, columns].min(), given.values[:, columns].max()
    drawn = space.sample(rng, 300)
    inside = region.contains(drawn)
    weights = space.columns("estimator", "knn", "weights")
    seen = {tuple(row) for row in given.values[:, weights]}
    for pipeline, values, found in zip(drawn, drawn.values, inside, strict=True):
        between = low - 1e-9 <= values[columns][0] <= high + 1e-9
        if pipeline.algorithms != ("none", "knn") or not between:
            assert not found
        elif tuple(values[weights]) in seen:
            assert found


def test_one_pipeline_is_a_region_of_its_own(meta):
    region = EllipsoidRegion(meta.pipelines[:1], 5)
    assert region.contains(meta.pipelines).tolist() == [True] + [False] * (len(meta.pipelines) - 1)


@pytest.mark.parametrize("shape", ["box", "ellipsoid"])
def test_what_is_outside_comes_last(meta, shape):
    task = pool_task()
    optimizer = Ellipsoid("random", shape, 2).meta_fit(meta)
    best = meta.pipelines.take(np.unique(np.concatenate(best_columns(meta, 1))))
    region = BoxRegion(best) if shape == "box" else EllipsoidRegion(best, 2)
    inside = set(task.candidates.pool.ids[region.contains(task.candidates.pool)].tolist())
    assert 0 < len(inside) < len(task.candidates.pool)
    run = optimizer.start(task)
    chosen = []
    for _ in range(len(task.candidates.pool)):
        (proposal,) = run.ask(1)
        run.tell(evaluate(proposal, task))
        chosen.append(proposal.pipeline.id)
    assert set(chosen[: len(inside)]) == inside
    assert set(chosen) == set(task.candidates.pool.ids.tolist())


def test_samples_and_neighbours_of_a_space_lie_inside(meta):
    region = BoxRegion(meta.pipelines.take(np.unique(np.concatenate(best_columns(meta, 3)))))
    inside = RestrictedCandidates(live_task().candidates, region)
    rng = np.random.default_rng(0)
    drawn = inside.sample(rng, 200)
    assert len(drawn) == 200
    assert region.contains(drawn).all()
    for pipeline in drawn[:5]:
        near = inside.neighbours(pipeline, rng)
        assert len(near) == 0 or region.contains(near).all()


def test_a_region_that_can_hardly_be_hit_still_gives_samples(meta):
    inside = RestrictedCandidates(small_space(), EllipsoidRegion(meta.pipelines[:1], 2))
    assert len(inside.sample(np.random.default_rng(0), 5)) == 5


def test_mistakes_are_named(meta):
    with pytest.raises(UnknownName, match="did you mean 'ellipsoid'"):
        Ellipsoid(shape="elipsoid")
    with pytest.raises(InvalidInput, match="call meta_fit"):
        Ellipsoid().start(pool_task())
    other = small_space().extend("estimator", Algorithm("dummy", "sklearn.dummy:DummyClassifier"))
    with pytest.raises(InvalidInput, match="says nothing of space"):
        Ellipsoid("random").meta_fit(meta).start(Task(other, key="other"))
