"""Which tasks are learned from and which are replayed."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest

from headstart.errors import InvalidInput
from headstart.metadata import MetaDataset
from headstart.replay.partition import Partition, difficulty
from headstart.replay.protocol import expected_lowest
from headstart.testing.examples import small_meta


@pytest.fixture
def meta():
    """Twelve tasks: the first has the same loss everywhere, the second has none at all."""
    small = small_meta(n_tasks=12)
    losses = small.losses.copy()
    losses[0] = 0.25
    losses[1] = np.nan
    return MetaDataset(small.pipelines, losses, small.tasks, initial=[(100, 101)] + [()] * 11, name="small")


def test_the_mean_of_the_lowest_by_enumeration():
    values = np.sort(np.random.default_rng(0).random(8))
    for k in range(1, 9):
        found = [min(drawn) for drawn in combinations(values, k)]
        assert expected_lowest(values, k) == pytest.approx(np.mean(found))
    assert expected_lowest(values, 100) == pytest.approx(values[0])


class TestDraw:
    @pytest.mark.parametrize("hard", [False, True])
    def test_each_task_stands_in_one_list(self, meta, hard, monkeypatch):
        short = partial(difficulty, evaluations=10)  # of 60 pipelines, 300 would find the best
        monkeypatch.setattr("headstart.replay.partition.difficulty", short)
        drawn = Partition.draw(meta, 3, 4, 2, hard=hard)
        together = (*drawn.train, *drawn.validation, *drawn.test)
        assert (len(drawn.test), len(drawn.validation)) == (4, 2)
        assert sorted(together) == [0, *range(2, 12)]
        assert 0 not in drawn.test

    def test_the_seed_decides(self, meta):
        assert Partition.draw(meta, 3, 4, 2) == Partition.draw(meta, 3, 4, 2)
        assert len({Partition.draw(meta, seed, 4, 2).test for seed in range(5)}) > 1

    def test_groups_stay_together(self, meta):
        groups = [f"kind {i % 4}" for i in range(12)]
        drawn = Partition.draw(meta, 0, 2, 1, groups=groups)
        lists = (drawn.train, drawn.validation, drawn.test)
        kinds = [{groups[task] for task in tasks} for tasks in lists]
        assert [len(kind) for kind in kinds] == [2, 1, 1]
        assert len(set.union(*kinds)) == 4
        tests = {Partition.draw(meta, seed, 2, 1, groups=groups).test for seed in range(20)}
        assert len(tests) == 4
        assert all(0 not in tasks and 1 not in tasks for tasks in tests)
        with pytest.raises(InvalidInput, match="leave groups"):
            Partition.draw(meta, 0, 5, 6, groups=groups)
        for wrong in ({"groups": groups[:5], "validation": 1}, {"groups": groups, "validation": -1}):
            with pytest.raises(InvalidInput, match="one for each of the 12 tasks"):
                Partition.draw(meta, 0, 2, **wrong)

    def test_groups_have_at_least_as_many_tasks_that_can_be_tested_on(self, meta):
        groups = ["flat"] * 2 + [f"kind {i // 2}" for i in range(2, 12)]
        for seed in range(20):
            drawn = Partition.draw(meta, seed, 3, 1, groups=groups)
            assert len(drawn.test) == 4
            assert 0 not in drawn.test
        with pytest.raises(InvalidInput, match="one of hard and groups"):
            Partition.draw(meta, 0, 2, 1, groups=groups, hard=True)

    def test_hard_tasks_are_drawn_more_often(self, meta, monkeypatch):
        chances = {2: 8.0, 3: 1.0, 4: 1.0}
        monkeypatch.setattr("headstart.replay.partition.difficulty", lambda _meta, task: chances.get(task, 0.0))
        drawn = [Partition.draw(meta, seed, 1, 0, hard=True).test for seed in range(300)]
        share = np.mean([tasks == (2,) for tasks in drawn])
        assert abs(share - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 300)

    def test_difficulty_is_the_regret_of_random_search(self, meta):
        rng = np.random.default_rng(0)
        losses = meta.losses[5][np.isfinite(meta.losses[5])]
        runs = [rng.choice(losses, 10, replace=False).min() - losses.min() for _ in range(4000)]
        assert difficulty(meta, 5, 10) == pytest.approx(np.mean(runs), abs=4 * np.std(runs) / np.sqrt(4000))
        assert difficulty(meta, 0) == 0

    def test_a_file_gives_the_same_back(self, meta, tmp_path):
        drawn = Partition.draw(meta, 3, 4, 2, name="other")
        drawn.write(tmp_path / "other.json", {"seed": 3})
        assert Partition.read(tmp_path / "other.json", meta) == drawn

    @pytest.mark.parametrize(("test", "validation"), [(0, 2), (11, 0), (8, 3), (3, -1)])
    def test_what_cannot_be_drawn(self, meta, test, validation):
        with pytest.raises(InvalidInput, match="test"):
            Partition.draw(meta, 0, test, validation)
