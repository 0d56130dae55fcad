import numpy as np
import pytest

from headstart.errors import InvalidInput
from headstart.learning.batches import TaskBatches, training_and_validation
from headstart.metadata import MetaDataset
from headstart.testing.examples import small_meta


def test_a_batch_holds_observed_losses_of_its_tasks_standardised():
    meta = small_meta(missing=0.3)
    points = meta.pipelines.features()
    batches = TaskBatches(meta, points)
    batch = batches.draw(np.random.default_rng(0), 4, 10)
    assert batch.points.shape == (4, 10, points.shape[1])
    assert batch.mask.all()
    for b, task in enumerate(batch.tasks):
        row = meta.loss_row(task).astype(float)
        standardised = (row - np.nanmean(row)) / np.nanstd(row)
        for point, target in zip(batch.points[b], batch.targets[b], strict=True):
            same = np.flatnonzero((points == point).all(axis=1))
            assert np.isclose(standardised[same], target).any()
        assert len(np.unique(batch.points[b], axis=0)) == 10  # none twice
    assert len(np.unique(batch.tasks)) == 4


def test_tasks_with_fewer_observations_are_padded_and_masked():
    meta = small_meta(missing=0.5)
    batch = TaskBatches(meta, meta.pipelines.features()).draw(np.random.default_rng(0), 6, 60)
    seen = [int(np.isfinite(meta.loss_row(task)).sum()) for task in batch.tasks]
    assert len(set(seen)) > 1
    assert max(seen) < 60  # and no column is there for nothing
    np.testing.assert_array_equal(batch.mask, np.arange(max(seen)) < np.array(seen)[:, None])
    assert (batch.points[~batch.mask] == 0).all()
    assert (batch.targets[~batch.mask] == 0).all()


def changed(meta, losses):
    return MetaDataset(meta.pipelines, losses, meta.tasks)


def test_tasks_that_say_nothing_are_left_out():
    meta = small_meta()
    losses = meta.losses.copy()
    losses[1], losses[2] = 0.5, np.nan
    batches = TaskBatches(changed(meta, losses), meta.pipelines.features())
    np.testing.assert_array_equal(batches.tasks, [0, 3, 4, 5])
    losses[:] = 0.5
    with pytest.raises(InvalidInput, match="two different losses"):
        training_and_validation(changed(meta, losses), meta.pipelines.features(), np.random.default_rng(0))


def test_what_is_validated_on_is_not_trained_on():
    meta = small_meta(20)
    points = meta.pipelines.features()
    training, validation = training_and_validation(meta, points, np.random.default_rng(0))
    assert (len(training), len(validation)) == (18, 2)
    assert not set(training.means[training.tasks]) & set(validation.means[validation.tasks])

    beside = meta.learning(range(15), range(15, 20))
    training, validation = training_and_validation(beside, points, np.random.default_rng(0))
    assert (len(training), len(validation)) == (15, 5)
    one = training_and_validation(meta.select([3]), points, np.random.default_rng(0))
    assert [len(part) for part in one] == [1, 1]


def test_a_loss_without_end_is_missing():
    meta = small_meta(missing=0.0)
    losses = meta.losses.copy()
    losses[2, 5] = np.inf
    tasks = TaskBatches(meta.changed(losses=losses), meta.pipelines.features())
    targets, mask = tasks.crossed(np.arange(len(losses)), np.arange(10))
    assert np.argwhere(~mask).tolist() == [[2, 5]]
    assert targets[2, 5] == 0.0
