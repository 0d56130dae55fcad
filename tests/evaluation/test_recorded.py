"""Recorded values of constraints."""

import numpy as np
import pytest

from headstart.errors import UnknownName
from headstart.evaluation.recorded import Replay, recorded_task
from headstart.study import Study
from headstart.testing.examples import small_meta
from headstart.trials import Limits


@pytest.fixture
def meta():
    found = small_meta()
    sizes = np.random.default_rng(0).uniform(1, 100, found.losses.shape)
    sizes[:, 5] = np.nan
    return found.changed(constraints={"size": sizes})


def test_a_replay_returns_them(meta):
    replay = Replay(meta, 2)
    for column, pipeline in enumerate(meta.pipelines):
        outcome = replay(pipeline, Limits(), 0)
        known = outcome.ok and column != 5
        assert outcome.constraints == ({"size": meta.constraints["size"][2, column]} if known else {})


def test_a_replay_under_a_bound(meta):
    task = recorded_task(meta, 2, constraints=["size <= 30"])
    assert task.key != recorded_task(meta, 2).key
    row, sizes = meta.loss_row(2), meta.constraints["size"][2]
    best = np.nanmin(row[sizes <= 30])
    assert best > np.nanmin(row)
    history = Study(task, Replay(meta, 2), "forest").run(evaluations=30)
    assert history.best.outcome.loss == best


def test_a_bound_on_what_was_not_recorded(meta):
    with pytest.raises(UnknownName, match="did you mean 'size'"):
        recorded_task(meta, 0, constraints={"sizes": 3})
