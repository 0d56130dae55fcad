"""Structured kernels: contract, blocks, and the walk over partitions."""

from collections import Counter

import numpy as np
import pytest

from headstart.baselines import skl
from headstart.baselines.skl import StructuredKernel, algorithm_blocks, canonical, propose
from headstart.errors import InvalidInput
from headstart.space import Algorithm, Float, PipelineSpace, Stage
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, random_trials, small_space


class TestStructuredKernel(SurrogateContract):
    def make(self):
        return StructuredKernel(n_steps=3, n_iterations=5)


def test_blocks_cover_every_column_once():
    space = small_space()
    blocks, stages = algorithm_blocks(space)
    encoded = space.sample(np.random.default_rng(0), 20)
    assert sorted(np.concatenate(blocks).tolist()) == list(range(encoded.features().shape[1]))
    assert stages == ((0, 1), (2, 3, 4))
    # The last column of a block says whether its algorithm was chosen, and all others are 0 unless it was.
    features = encoded.features()
    for block, (s, a, _, _) in zip(blocks, space.blocks(), strict=True):
        np.testing.assert_array_equal(features[:, block[-1]], encoded.choice[:, s] == a)
        assert (features[np.ix_(encoded.choice[:, s] != a, block)] == 0).all()


def test_a_stage_without_a_choice_has_its_hyperparameters_only():
    space = PipelineSpace(
        "one",
        [
            Stage("first", [Algorithm("a", params=[Float("x", 0, 1)])]),
            Stage("second", [Algorithm("b"), Algorithm("c")]),
        ],
    )
    blocks, stages = algorithm_blocks(space)
    assert [block.tolist() for block in blocks] == [[0], [1], [2]]
    assert stages == ((0,), (1, 2))


def test_the_walk_visits_all_partitions_equally_where_nothing_tells_them_apart():
    rng = np.random.default_rng(0)
    here, visits = ((0, 1, 2, 3),), Counter()
    for _ in range(30_000):
        there, log_ratio = propose(here, rng)
        if np.log(1.0 - rng.random()) < log_ratio:
            here = there
        visits[here] += 1
    assert len(visits) == 15  # Bell's number of 4
    assert all(visits[p] == pytest.approx(2000, rel=0.15) for p in visits)
    assert propose(((0,),), rng) == (((0,),), 0.0)


def test_canonical():
    assert canonical([[3, 1], [], [0, 2]]) == ((0, 2), (1, 3))


def test_a_structure_holds_until_the_next_time_and_follows_from_the_history():
    task = live_task()
    trials = random_trials(task, 21, failing=0.0)
    histories = {n: SurrogateContract.history(task, trials[:n]) for n in (5, 13, 19, 20)}
    model = StructuredKernel(n_steps=15).start(task)
    found = {n: model.fit(history).partition for n, history in histories.items()}
    assert found[5] == model._stages
    assert found[13] == found[19]
    assert len(model._learned) == 2
    assert found[20] == StructuredKernel(n_steps=15).start(task).fit(histories[20]).partition


def test_the_likeliest_partition_of_the_walk_is_used(monkeypatch):
    task, heights, search = live_task(), {}, skl.search_additive

    def recording(distances, groups, targets, noise, iterations):
        found = search(distances, groups, targets, noise, iterations)
        heights[groups] = found.log_evidence
        return found

    monkeypatch.setattr(skl, "search_additive", recording)
    history = SurrogateContract.history(task, random_trials(task, 30, failing=0.0))
    model = StructuredKernel(n_steps=12, n_iterations=10).start(task)
    found = model._walk(history.encoded.features(), history.targets())
    assert len(heights) > 3
    assert heights[found] == max(heights.values())
    assert model.fit(history).partition == found


def test_without_steps_the_groups_are_the_stages():
    task = live_task()
    model = StructuredKernel(n_steps=0).start(task)
    model.fit(SurrogateContract.history(task, random_trials(task, 30)))
    assert model.partition == ((0, 1), (2, 3, 4))
    with pytest.raises(InvalidInput, match="n_iterations at least 1"):
        StructuredKernel(n_iterations=0)
