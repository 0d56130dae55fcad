"""Every surrogate, and the fakes that stand for the kinds to come, under the public contract."""

import pytest
from fakes import TableSurrogate, TransductiveSurrogate

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


class TestTable(SurrogateContract):
    learns = False

    def make(self):
        return TableSurrogate()

    def test_refuses_a_task_without_a_table(self):
        with pytest.raises(NeedsTable, match="needs the table"):
            self.make().start(live_task())
