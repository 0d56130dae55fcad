"""DeepPipe with a memory of recorded pipelines, as it is called by its name: when both are asked, and what is kept."""

import numpy as np
import pytest

from headstart.errors import InvalidInput
from headstart.learning.state import read
from headstart.metadata import MetaDataset
from headstart.methods.deeppipe import DeepPipe
from headstart.methods.pmf import PMF
from headstart.registry import create
from headstart.space import Algorithm, Encoded, Integer, PipelineSpace, Stage
from headstart.surrogates.mixture import Mixture
from headstart.task import Task
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, pool_task, random_trials, small_meta

pytest.importorskip("torch")
QUICK = {"factor": 2, "outputs": 4, "steps": 20, "training": {"n_tasks": 3, "n_pipelines": 20}}


@pytest.fixture(scope="module")
def learned():
    return create("surrogate", "deeppipe", **QUICK).meta_fit(small_meta().select([1, 2, 3, 4, 5]))


def shown(task, n=12):
    return SurrogateContract.history(task, random_trials(task, n, failing=0.1))


def test_settings_are_those_of_the_network_and_the_memory_has_its_units():
    made = create("surrogate", "deeppipe", factor=3, logarithmic=False, failures="ignored", seed=4)
    assert isinstance(made, Mixture)
    assert made.first.describe() == DeepPipe(factor=3, logarithmic=False, failures="ignored", seed=4).describe()
    assert made.second.describe() == PMF(logarithmic=False, failures="ignored", seed=4).describe()
    with pytest.raises(InvalidInput, match="'deeppipe' has no setting 'factors'; did you mean 'factor'"):
        create("surrogate", "deeppipe", factors=3)


@pytest.mark.parametrize("settings", [{"fine_tune": "kernel"}, {"fine_tune": "all", "transfer": False}])
def test_a_network_that_is_tuned_to_the_task_goes_without(settings):
    assert create("surrogate", "deeppipe", **settings).describe() == DeepPipe(**settings).describe()


def test_over_recorded_pipelines_both_are_asked_and_on_a_space_with_others_the_network(learned):
    for task in (pool_task(), live_task()):
        history, candidates = shown(task), SurrogateContract.candidates(task)
        found = learned.start(task).fit(history).predict(candidates).mean
        network = learned.first.start(task).fit(history).predict(candidates).mean
        if task.candidates.pool is None:
            np.testing.assert_array_equal(found, network)
        else:
            memory = learned.second.start(task).fit(history).predict(candidates).mean
            np.testing.assert_allclose(found, (network + memory) / 2)


def finite_meta():
    """Recorded losses of all pipelines of a space."""
    space = PipelineSpace(
        "finite",
        [
            Stage("scaler", [Algorithm("none"), Algorithm("other")]),
            Stage("estimator", [Algorithm(a, params=[Integer("n", 1, 6), Integer("m", 1, 2)]) for a in "abc"]),
        ],
    )
    every = space.sample(np.random.default_rng(0), 2_000).unique()
    assert len(every) == len(space.listed)
    pipelines = Encoded(space, every.values, every.active, every.choice, ids=np.arange(len(every)))
    rng = np.random.default_rng(1)
    losses = np.exp(rng.normal(size=(8, 3)) @ rng.normal(size=(3, len(every))))
    return MetaDataset(pipelines, losses, [f"t{i}" for i in range(8)])


def test_live_where_the_whole_space_is_on_record_the_memory_is_asked():
    meta = finite_meta()
    learned = create("surrogate", "deeppipe", **QUICK).meta_fit(meta.select(range(1, 8)))
    for space in (meta.pipelines.space, meta.pipelines.space.select(exclude=["estimator.b"])):
        task, candidates = Task(space), space.sample(np.random.default_rng(3), 50)
        history = shown(task)
        found, network, memory = (
            model.start(task).fit(history).predict(candidates).mean
            for model in (learned, learned.first, learned.second)
        )
        np.testing.assert_allclose(found, (network + memory) / 2)
        assert np.abs(network - memory).max() > 1e-3


def test_a_file_holds_both(learned, tmp_path):
    learned.save(tmp_path / "deeppipe.npz")
    task = pool_task()
    history, pool = shown(task), task.candidates.pool
    again, _ = read(tmp_path / "deeppipe.npz")
    assert again.describe() == learned.describe()
    found, wanted = (m.start(task).fit(history).predict(pool) for m in (again, learned))
    np.testing.assert_array_equal(found.mean, wanted.mean)
    np.testing.assert_array_equal(again.transform_targets(np.ones(1)), learned.transform_targets(np.ones(1)))


def test_how_long_pipelines_take_is_known_from_the_memory():
    meta = small_meta()
    seconds = np.exp(np.random.default_rng(0).normal(size=meta.losses.shape))
    timed = MetaDataset(meta.pipelines, meta.losses, meta.tasks, seconds=seconds)
    model = create("surrogate", "deeppipe", **{**QUICK, "steps": 1}).meta_fit(timed.select([1, 2, 3, 4]))
    task = pool_task()
    pool = task.candidates.pool
    known = model.start(task).log_seconds(pool)
    np.testing.assert_array_equal(known, model.second.start(task).log_seconds(pool))
    assert known.shape == (len(pool),)
    assert model.start(live_task()).log_seconds(SurrogateContract.candidates(live_task())) is None
