"""Every surrogate, and the fakes that stand for the kinds to come, under the public contract."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import TableSurrogate, TransductiveSurrogate

from headstart.data import Dataset
from headstart.errors import NeedsTable, UnknownPipeline
from headstart.surrogates.forest import ForestSurrogate
from headstart.surrogates.gp import GPSurrogate
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, small_meta


class TestGP(SurrogateContract):
    def make(self):
        return GPSurrogate()


class TestGPWithSharedLengthScale(SurrogateContract):
    def make(self):
        return GPSurrogate(kernel="squared_exponential", ard=False)


class TestForest(SurrogateContract):
    def make(self):
        return ForestSurrogate()


class TestTransductive(SurrogateContract):
    live = False

    def make(self):
        return TransductiveSurrogate()

    def test_refuses_pipelines_it_does_not_know(self):
        task = live_task()
        model = self.make().meta_fit(small_meta()).start(task)
        with pytest.raises(UnknownPipeline, match="knows only"):
            model.fit(self.history(task)).predict(self.candidates(task))


def with_table(task):
    rng = np.random.default_rng(0)
    table = Dataset.from_arrays(rng.standard_normal((20, 2)), np.arange(20) % 2, task="classification")
    return replace(task, dataset=table)


class TestTable(SurrogateContract):
    learns = False

    def make(self):
        return TableSurrogate()

    def model(self, task):
        return super().model(with_table(task))

    def test_start_leaves_other_tasks_alone(self, task):
        super().test_start_leaves_other_tasks_alone(with_table(task))

    def test_refuses_a_task_without_a_table(self):
        with pytest.raises(NeedsTable, match="needs the table"):
            self.make().start(live_task())
