"""What one optimizer would try first, another begins with."""

from dataclasses import replace

import numpy as np
import pytest
from quick import quick

from headstart import registry
from headstart.errors import InvalidInput, NeedsTable
from headstart.evaluation.recorded import recorded_task
from headstart.metafeatures.tables import with_metafeatures
from headstart.optimizers.nearest import Nearest
from headstart.optimizers.random import RandomSearch
from headstart.optimizers.warm_start import with_warm_start
from headstart.testing.examples import evaluate, live_task, pool_task, small_meta
from headstart.testing.tables import meta_with_tables

LEARNED = small_meta().select([1, 2, 3, 4, 5])


def described(task):
    return replace(task, metafeatures=pool_task().metafeatures)


@pytest.mark.parametrize("make", [pool_task, live_task])
def test_the_first_pipelines_of_the_nearest_datasets(make):
    task = described(make())
    warm = with_warm_start(task, Nearest().meta_fit(LEARNED), 4)
    expected = [p.pipeline for p in Nearest().meta_fit(LEARNED).start(task).ask(4)]
    assert list(warm.initial) == expected
    assert replace(warm, initial=()) == task
    run = RandomSearch().start(warm)
    made = []
    for _ in range(6):
        (proposal,) = run.ask(1)
        made.append(proposal)
        run.tell(evaluate(proposal, task))
    assert [p.pipeline for p in made[:4]] == expected
    assert [p.origin["by"] for p in made] == ["initial"] * 4 + ["random"] * 2
    assert len({p.pipeline for p in made}) == 6


def test_initial_pipelines_of_before_are_replaced():
    task = described(pool_task())
    begun = replace(task, initial=task.candidates.sample(np.random.default_rng(0), 3))
    optimizer = Nearest().meta_fit(LEARNED)
    assert with_warm_start(begun, optimizer, 2).initial == with_warm_start(task, optimizer, 2).initial


def test_the_seed_decides_what_is_drawn():
    task, optimizer = described(pool_task()), Nearest(order="drawn").meta_fit(LEARNED)
    first, again, other = (with_warm_start(task, optimizer, 5, seed).initial for seed in (0, 0, 1))
    assert first == again != other


def test_mistakes():
    with pytest.raises(InvalidInput, match="n_initial must be a positive whole number, got 0"):
        with_warm_start(pool_task(), RandomSearch(), 0)
    with pytest.raises(NeedsTable, match="no meta-features 'example'"):
        with_warm_start(replace(pool_task(), metafeatures={}), Nearest().meta_fit(LEARNED))


@pytest.mark.parametrize("name", registry.names("optimizer"))
def test_every_optimizer_can_be_a_warm_start(name):
    """What it asks for before any result is known: that many different pipelines, at least one."""
    train = [1, 2, 3, 4, 5]
    optimizer = quick("optimizer", name)
    meta, _ = with_metafeatures(meta_with_tables(), optimizer.needs.metafeatures, train)
    optimizer = optimizer.meta_fit(meta.learning(train))
    task = with_warm_start(recorded_task(meta, 0), optimizer, 3)
    assert 1 <= len(set(task.initial)) == len(task.initial) <= 3
