"""DeepPipe's memory of recorded pipelines: when it is asked, and what is made of its answer."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from headstart.metadata import MetaDataset
from headstart.methods.deeppipe.memory import mixture
from headstart.methods.deeppipe.surrogate import DeepPipe
from headstart.methods.pmf.surrogate import PMF
from headstart.space import Algorithm, Encoded, Float, Integer, PipelineSpace, Pool, Stage
from headstart.surrogates.base import Prediction
from headstart.task import Task
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, pool_task, random_trials, small_meta, small_space

pytest.importorskip("torch")
QUICK = {"factor": 2, "outputs": 4, "steps": 20, "n_tasks": 3, "n_pipelines": 20}


@pytest.fixture(scope="module")
def learned():
    return DeepPipe(**QUICK).meta_fit(small_meta().select([1, 2, 3, 4, 5]))


def shown(task, n=12):
    return SurrogateContract.history(task, random_trials(task, n, failing=0.1))


def without_memory(learned):
    alone = DeepPipe(**QUICK, memory=False)
    return alone.with_parameters(learned.learned, learned.space)


def test_the_even_mixture_has_the_moments_of_samples():
    rng = np.random.default_rng(0)
    one, other = Prediction(np.array([1.0, -2.0]), np.array([0.5, 0.1])), Prediction(np.array([2.0, 0.0]), np.ones(2))
    found = mixture(one, other)
    drawn = np.concatenate([rng.normal(p.mean, p.std, (200_000, 2)) for p in (one, other)])
    np.testing.assert_allclose(found.mean, drawn.mean(axis=0), atol=0.01)
    np.testing.assert_allclose(found.std, drawn.std(axis=0), atol=0.01)


def test_over_recorded_pipelines_it_is_the_mixture_of_the_network_and_pmf(learned):
    task = replace(pool_task(), metafeatures={})
    history, pool = shown(task), task.candidates.pool
    meta = small_meta().select([1, 2, 3, 4, 5])
    memory = PMF().meta_fit(meta)
    memory.failures = "worst"
    memory = memory.start(task).fit(history).predict(pool)
    network = without_memory(learned).start(task).fit(history).predict(pool)
    found = learned.start(task).fit(history).predict(pool)
    # the seeds of their training differ, which moves the kernel a little
    np.testing.assert_allclose(2 * found.mean - network.mean, memory.mean, atol=0.05 * memory.mean.std())


@pytest.mark.parametrize("where", ["live", "tuned", "extended"])
def test_elsewhere_it_is_the_network(learned, where):
    task, model, plain = pool_task(), learned, without_memory(learned)
    if where == "live":
        task = live_task()
    elif where == "tuned":
        model, plain = (
            DeepPipe(**QUICK, fine_tune="kernel", fine_tune_steps=2, memory=m).with_parameters(
                learned.learned, learned.space
            )
            for m in (True, False)
        )
    else:
        wider = small_space().extend("estimator", Algorithm("other", params=[Float("depth", 0, 1)]))
        model, plain = (m.extended(wider, fine_tune="none") for m in (model, plain))
        assert not any(name.startswith("memory") for name in model.learned)
    history = shown(task)
    candidates = SurrogateContract.candidates(task)
    found, wanted = (m.start(task).fit(history).predict(candidates) for m in (model, plain))
    np.testing.assert_array_equal(found.mean, wanted.mean)
    np.testing.assert_array_equal(found.std, wanted.std)


def finite_meta():
    """Recorded losses of all pipelines of a space."""
    space = PipelineSpace(
        "finite",
        [
            Stage("scaler", [Algorithm("none"), Algorithm("other")]),
            Stage("estimator", [Algorithm(a, params=[Integer("n", 1, 6), Integer("m", 1, 2)]) for a in "abc"]),
        ],
    )
    drawn = space.sample(np.random.default_rng(0), 2_000)
    _, first = np.unique(drawn.ids, return_index=True)
    every = drawn.take(first)
    assert len(every) == space.size
    pipelines = Encoded(space, every.values, every.active, every.choice, ids=np.arange(len(every)))
    rng = np.random.default_rng(1)
    losses = np.exp(rng.normal(size=(8, 3)) @ rng.normal(size=(3, len(every))))
    return MetaDataset(pipelines, losses, [f"t{i}" for i in range(8)])


def test_live_where_the_whole_space_is_on_record_the_memory_is_asked():
    meta = finite_meta()
    learned = DeepPipe(**QUICK).meta_fit(meta.select(range(1, 8)))
    smaller = meta.pipelines.space.select(exclude=["estimator.b"])
    for space in (meta.pipelines.space, smaller):
        task, candidates = Task(space), space.sample(np.random.default_rng(3), 50)
        history = shown(task)
        found = learned.start(task).fit(history).predict(candidates)
        network = without_memory(learned).start(task).fit(history).predict(candidates)
        everything = Pool(meta.pipelines)
        replayed = Task(everything)
        rows = [int(everything.find(space.encode([t.pipeline]).to(meta.pipelines.space))[0]) for t in history]
        trials = [
            replace(trial, proposal=replace(trial.proposal, pipeline=meta.pipelines[row]))
            for trial, row in zip(history, rows, strict=True)
        ]
        memory = learned._memory.start(replayed)
        memory.failures = "worst"
        memory.fit(SurrogateContract.history(replayed, trials))
        here = everything.find(candidates.to(meta.pipelines.space))
        wanted = memory.predict(meta.pipelines.take(here))
        np.testing.assert_allclose(2 * found.mean - network.mean, wanted.mean, rtol=1e-4, atol=1e-5)


def test_a_file_holds_the_memory(learned, tmp_path):
    learned.save(tmp_path / "deeppipe.npz")
    task = pool_task()
    history, pool = shown(task), task.candidates.pool
    found, wanted = (
        m.start(task).fit(history).predict(pool) for m in (DeepPipe.load(tmp_path / "deeppipe.npz"), learned)
    )
    np.testing.assert_array_equal(found.mean, wanted.mean)


def test_training_again_forgets_the_first(learned):
    task = pool_task()
    again = DeepPipe(**QUICK).meta_fit(small_meta(seed=1).select([1, 2, 3]))
    again.start(task)
    again.meta_fit(small_meta().select([1, 2, 3, 4, 5]))
    history, pool = shown(task), task.candidates.pool
    found, wanted = (m.start(task).fit(history).predict(pool) for m in (again, learned))
    np.testing.assert_array_equal(found.mean, wanted.mean)


def test_pipelines_that_are_not_on_record_are_the_networks(learned):
    task = replace(pool_task(), metafeatures={})
    history = shown(task)
    new = small_space().sample(np.random.default_rng(5), 40)
    new = new.take(np.flatnonzero(learned._memory.recorded.find(new) < 0)[:4])
    known = task.candidates.pool.take([0, 3])
    fields = [np.concatenate([getattr(part, name) for part in (known, new)]) for name in ("values", "active", "choice")]
    both = Encoded(known.space, *fields, ids=np.array([*known.ids, 9001, 9002, 9003, 9004]))
    model, plain = (m.start(task).fit(history) for m in (learned, without_memory(learned)))
    found, network, recorded = model.predict(both), plain.predict(both), model.predict(task.candidates.pool)
    np.testing.assert_allclose(found.mean[2:], network.mean[2:])
    np.testing.assert_allclose(found.mean[:2], recorded.mean[[0, 3]])
    np.testing.assert_array_equal(model.predict(new).mean, network.mean[2:])


def test_a_started_surrogate_is_no_larger_when_pickled(learned):
    size = len(pickle.dumps(learned))
    learned.start(pool_task())
    assert len(pickle.dumps(learned)) == size


def test_what_the_memory_is_made_of_is_told():
    """Results are taken up again only if their settings are the same, and PMF's defaults are among them."""
    told = DeepPipe().describe()["memory"]
    assert PMF().describe().items() <= told.items()
    assert DeepPipe(memory=False).describe()["memory"] is False
    assert DeepPipe(fine_tune="kernel").describe()["memory"] is True  # where it is not asked, it is no more than that


def test_meta_features_shift_the_means_of_the_network_too():
    meta = small_meta(n_tasks=40)
    rng = np.random.default_rng(0)
    level = rng.normal(size=len(meta))
    direction = rng.normal(size=len(meta.pipelines))
    losses = np.exp(0.1 * rng.normal(size=meta.losses.shape) + level[:, None] * direction)
    told = MetaDataset(meta.pipelines, losses, meta.tasks, metafeatures={"told": level[:, None]})
    settings = {**QUICK, "steps": 1}
    model = DeepPipe(**settings).meta_fit(told.select(range(1, 40)))
    task = replace(pool_task(told), metafeatures={"told": level[:1]})
    unknown = replace(task, metafeatures={})
    history, pool = SurrogateContract.history(task), task.candidates.pool
    shift = model._memory.start(task).shift(pool)
    rows = meta.everything.rows(pool.ids)
    assert np.corrcoef(shift, level[0] * direction[rows])[0, 1] > 0.9
    assert model._memory.start(unknown).shift(pool) is None
    located = model.start(task).fit(history)._locate(pool), model.start(unknown).fit(history)._locate(pool)
    np.testing.assert_allclose(located[0].means - located[1].means, shift)
    alone = DeepPipe(**settings, memory=False).with_parameters(model.learned, model.space)
    np.testing.assert_array_equal(alone.start(task).fit(history)._locate(pool).means, located[1].means)
