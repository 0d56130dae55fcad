"""Every method searches pipelines that a table makes equal as one."""

import numpy as np
import pandas as pd
import pytest
from quick import quick
from tied import tied_space

from headstart.data.dataset import Dataset
from headstart.errors import Exhausted
from headstart.metadata import MetaDataset
from headstart.metadata.tables import InMemory
from headstart.optimizers.bayes import Bayes
from headstart.optimizers.recorded import KnownCandidates
from headstart.registry import names
from headstart.space import Encoded
from headstart.space.distinct import distinct
from headstart.task import Task
from headstart.testing.tables import small_tables
from headstart.trials import Outcome, Trial

SPACE = tied_space()
N = len(SPACE.listed)


def candidates():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
    return distinct(SPACE, Dataset.from_arrays(table, np.arange(30) % 2))


def recorded(metafeatures=("example",)):
    rng = np.random.default_rng(1)
    listed = SPACE.listed
    pipelines = Encoded(SPACE, listed.values, listed.active, listed.choice, ids=np.arange(N))
    losses = 0.3 + 0.1 * np.tanh(rng.normal(size=(6, 3)) @ rng.normal(size=(3, N)))
    vectors = {name: rng.normal(size=(6, 3)) for name in metafeatures}
    meta = MetaDataset(pipelines, losses, [f"task {t}" for t in range(6)], vectors)
    return meta.changed(tables=[InMemory(table) for table in small_tables()[:6]])


@pytest.mark.parametrize("name", sorted({*names("optimizer"), *names("surrogate")}))
def test_no_pipeline_is_proposed_under_two_names(name):
    there, optimizer = candidates(), quick("optimizer", name)
    known = ("example", *sorted(optimizer.needs.metafeatures - {"example"}))
    task = Task(there, metafeatures={name: np.zeros(3) for name in known}, dataset=small_tables()[0])
    run = optimizer.meta_fit(recorded(known)).start(task, 3)
    made = []
    while len(made) < 3 * len(there.listed):
        try:
            (proposal,) = run.ask(1)
        except Exhausted:
            break
        made.append((proposal.pipeline, proposal.fidelity))
        loss = float(np.random.default_rng(len(made)).random())
        run.tell(Trial(proposal, Outcome.of(loss, seconds=1.0, fidelity=proposal.fidelity), 0.0, 0.0))
    assert len(set(made)) == len(made)
    assert {pipeline for pipeline, _ in made} == set(there.listed)


def test_what_is_recorded_of_equal_pipelines_is_that_of_the_one_that_stands_for_them():
    meta, there = recorded(), candidates()
    known = KnownCandidates(meta.pipelines, there)
    assert sorted(known.encoded.ids.tolist()) == sorted(there.listed.ids.tolist())
    own = SPACE.encode(meta.pipelines.take(known.columns))
    np.testing.assert_array_equal(own.ids, known.encoded.ids)
    # where it is not recorded itself, the first of those equal to it
    (place,) = np.flatnonzero(meta.pipelines.find(there.listed[:1]) >= 0)
    stand_in = int(meta.pipelines.find(there.listed[:1])[place])
    rest = meta.pipelines.take(np.delete(np.arange(N), stand_in))
    again = KnownCandidates(rest, there)
    assert sorted(again.encoded.ids.tolist()) == sorted(there.listed.ids.tolist())
    equal = np.flatnonzero(there.encode(list(SPACE.encode(rest))).ids == there.listed.ids[0])
    assert again.columns[again.places(there.listed.ids[:1])[0]] == equal[0]


def test_where_candidates_can_be_listed_the_best_of_all_is_suggested():
    there = candidates()
    run = Bayes("gp", n_initial=2).start(Task(there), 0)
    rng = np.random.default_rng(5)
    for _ in range(6):
        (proposal,) = run.ask(1)
        run.tell(Trial(proposal, Outcome.of(float(rng.random()), seconds=1.0), 0.0, 0.0))
    (proposal,) = run.ask(1)
    scores = run._acquisition(run._model, run.history, there.listed)
    left = ~np.isin(there.listed.ids, [*run.history.encoded.ids])
    chosen = there.listed.find(there.encode([proposal.pipeline]))[0]
    assert left[chosen]
    assert scores[chosen] == scores[left].max() == proposal.origin["acquisition"]
