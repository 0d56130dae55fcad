"""`MetaDataset`: what it checks, shares and names."""

import pickle

import numpy as np
import pytest

from headstart.errors import InvalidInput, UnknownName
from headstart.metadata import MetaDataset
from headstart.testing.examples import small_meta


class TestSelection:
    def test_shares_the_matrices(self):
        meta = small_meta()
        part = meta.select([4, 1]).select([1])
        assert part.tasks == ("task 1",)
        assert np.shares_memory(part.loss_row(0), meta.losses)
        np.testing.assert_array_equal(part.losses[0], meta.losses[1])
        np.testing.assert_array_equal(part.metafeatures["example"][0], meta.metafeatures["example"][1])

    def test_splits(self):
        meta = small_meta().changed(splits={"train": [0, 1], "test": [5]})
        assert meta.split("test").tasks == ("task 5",)
        with pytest.raises(UnknownName, match="no split 'validation'"):
            meta.split("validation")

    def test_a_part_is_pickled_without_the_rest(self):
        meta = small_meta(n_tasks=40)
        part = meta.learning([3, 7], [9])
        copy = pickle.loads(pickle.dumps(part))
        assert len(pickle.dumps(part)) < len(pickle.dumps(meta)) / 2
        np.testing.assert_array_equal(copy.losses, part.losses)
        assert copy.validation.tasks == ("task 9",)


class TestConstraints:
    def test_go_where_the_losses_go(self):
        meta = small_meta()
        sizes = np.arange(meta.losses.size, dtype=float).reshape(meta.losses.shape)
        meta = meta.changed(constraints={"size": sizes, "gap": -sizes})
        part = meta.learning([4, 1], [2])
        for each in (part, pickle.loads(pickle.dumps(part)), part.mapped(np.exp), part.changed(name="other")):
            assert list(each.constraints) == each.constraint_names == ["size", "gap"]
            np.testing.assert_array_equal(each.constraints["size"], sizes[[4, 1]])
            np.testing.assert_array_equal(each.constraint_rows(1)["gap"], -sizes[1])
            np.testing.assert_array_equal(each.validation.constraints["size"], sizes[[2]])
        assert np.shares_memory(part.constraint_rows(0)["size"], sizes)

    def test_are_in_the_key_only_where_there_are_any(self):
        meta = small_meta()
        sizes = np.ones(meta.losses.shape)
        keys = [meta.changed(constraints=c).key for c in ({}, {"size": sizes}, {"size": 2 * sizes}, {"gap": sizes})]
        assert keys[0] == meta.key
        assert len(set(keys)) == 4

    def test_must_be_of_the_right_shape(self):
        with pytest.raises(InvalidInput, match="constraint size must be tasks × pipelines"):
            small_meta().changed(constraints={"size": np.zeros((2, 2))})


class TestKey:
    def test_is_the_same_for_the_same(self):
        assert small_meta().key == small_meta().key
        assert small_meta().select([2]).key == small_meta().select([0, 2]).select([1]).key

    @pytest.mark.parametrize("change", ["losses", "seconds", "metafeatures", "pipelines", "validation"])
    def test_changes_with_all_that_can_be_learned_from(self, change):
        meta = small_meta()
        other = {
            "losses": lambda: meta.changed(losses=meta.losses + 1),
            "seconds": lambda: meta.changed(seconds=np.ones(meta.losses.shape)),
            "metafeatures": lambda: meta.changed(metafeatures={"example": meta.metafeatures["example"] + 1}),
            "pipelines": lambda: MetaDataset(reordered(meta.pipelines), meta.losses, meta.tasks, meta.metafeatures),
            "validation": lambda: meta.learning(range(6), [0]),
        }[change]()
        assert other.key != meta.key


def reordered(pipelines):
    """Other pipelines under the same ids."""
    turned = pipelines.take(np.arange(len(pipelines))[::-1])
    return type(pipelines)(
        pipelines.space, turned.values, turned.active, turned.choice, turned.order, ids=pipelines.ids
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"losses": np.zeros((2, 2))}, "tasks × pipelines"),
        ({"seconds": np.zeros((2, 2))}, "seconds must be"),
        ({"initial": [[1]]}, "'initial' must have 6 rows"),
        ({"initial": [[1]] * 6}, "not in this pool"),
        ({"splits": {"holdout": [1]}}, "splits are named"),
        ({"splits": {"train": [6]}}, "positions of the 6 tasks"),
        ({"splits": {"train": [1], "test": [1]}}, "one split only"),
        ({"metafeatures": {"example": np.zeros((2, 3))}}, "'example' must have 6 rows"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    from headstart.errors import HeadstartError

    with pytest.raises(HeadstartError, match=message):
        small_meta().changed(**wrong)


def test_recorded_pipelines_are_matched_by_content_too():
    meta = small_meta()
    pool = meta.pipelines
    np.testing.assert_array_equal(pool.find(meta.pipelines.take([5, 2])), [5, 2])
    assert (pool.find(reordered(meta.pipelines))[:20] == -1).any()
    drawn = meta.pipelines.space.sample(np.random.default_rng(0), 4)
    assert (pool.find(drawn) == -1).all()


class TestHeldOut:
    def test_a_share_where_no_validation_tasks_are_given(self):
        meta = small_meta(n_tasks=10)
        training, validation = meta.held_out(np.random.default_rng(0), 0.3)
        assert (len(training), len(validation)) == (7, 3)
        assert not set(training.tasks) & set(validation.tasks)

    def test_validation_tasks_that_are_given(self):
        meta = small_meta(n_tasks=6).learning([0, 1, 2], [4, 5])
        training, validation = meta.held_out(np.random.default_rng(0))
        assert training.tasks == ("task 0", "task 1", "task 2")
        assert validation.tasks == ("task 4", "task 5")

    def test_tasks_that_say_nothing_are_left_out(self):
        small = small_meta(n_tasks=5)
        losses = small.losses.copy()
        losses[1], losses[2] = np.nan, 0.5
        meta = small.changed(losses=losses).learning([0, 1, 2, 3], [1])
        training, validation = meta.held_out(np.random.default_rng(0))
        assert sorted((*training.tasks, *validation.tasks)) == ["task 0", "task 3"]
        only = small.changed(losses=losses).select([0, 2])
        assert [part.tasks for part in only.held_out(np.random.default_rng(0))] == [("task 0",)] * 2
        with pytest.raises(InvalidInput, match="two different losses"):
            small.changed(losses=losses).select([1, 2]).held_out(np.random.default_rng(0))
