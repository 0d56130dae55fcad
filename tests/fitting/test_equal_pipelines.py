"""A fit tries pipelines that its table makes equal once, also when it is resumed."""

import numpy as np
import pandas as pd
import pytest
from tied import tied_space

from headstart.data.dataset import Dataset
from headstart.fitting.run import Run
from headstart.fitting.settings import Settings
from headstart.space.distinct import Distinct, distinct


@pytest.fixture
def numbers():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(60, 3)), columns=["a", "b", "c"])
    return Dataset.from_arrays(table, np.where(table["a"] + table["b"] > 0, "high", "low"))


def search(dataset, evaluations, store, resume=False):
    settings = Settings(
        space=tied_space(), optimizer="forest", evaluations=evaluations, sandbox=False, n_jobs=1, store=str(store)
    )
    run = Run(dataset, settings, resume=resume)
    run.search()
    return run


def test_no_pipeline_is_tried_under_two_names(numbers, tmp_path):
    first = search(numbers, 7, tmp_path / "store")
    run = search(numbers, 1000, tmp_path / "store", resume=True)
    there = distinct(tied_space(), numbers)
    assert [t.pipeline for t in run.history][:7] == [t.pipeline for t in first.history]
    assert {t.pipeline for t in run.history} == set(there.listed)
    assert len(run.history) == len(there.listed) < len(tied_space().listed)
    assert all(t.outcome.ok for t in run.history)


def test_a_run_that_tried_equal_pipelines_can_be_resumed(numbers, tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr("headstart.fitting.run.distinct", lambda space, dataset: space)  # as it once was
        first = search(numbers, 15, tmp_path / "store")
    tried = [t.pipeline for t in first.history]
    there = distinct(tied_space(), numbers)
    assert not set(tried) <= set(there.listed)
    run = search(numbers, 1000, tmp_path / "store", resume=True)
    assert isinstance(run.task.candidates, Distinct)
    after = [t.pipeline for t in run.history]
    assert after[:15] == tried
    assert {*there.encode(tried), *after[15:]} == set(there.listed)
    assert len(after[15:]) == len(there.listed) - len(set(there.encode(tried)))
