"""Whatever learns can be kept in a file and goes on as if it had never left memory."""

import numpy as np
import pytest
from quick import quick_text

from headstart import registry
from headstart.errors import InvalidInput, NeedsTable, UnknownPipeline
from headstart.evaluation.recorded import recorded_task
from headstart.history import History
from headstart.knowledge import Knowledge
from headstart.knowledge.files import learner
from headstart.learning.checkpoints import save_arrays
from headstart.learning.state import read
from headstart.metafeatures.tables import table_metafeatures
from headstart.registry import create
from headstart.task import Task
from headstart.testing.examples import evaluate, feed, live_task, random_trials
from headstart.testing.tables import meta_with_tables, small_tables


def every_learner():
    kinds = ("optimizer", "surrogate")
    return sorted(name for kind in kinds for name in registry.names(kind) if registry.create(kind, name).learns)


ALL = every_learner()


def test_these_learn():
    assert {"oboe", "tensor_oboe", "smfo", "portfolio", "nearest", "average_rank", "ellipsoid", "rgpe"} < set(ALL)
    assert {"tst_r", "tst_d2v", "taf_r", "linear_factors", "pmf", "deeppipe", "fsbo", "ablr", "fmlp"} < set(ALL)
    assert not {"skl", "dngo", "gp", "forest", "random", "default", "bayes"} & set(ALL)


def proposals(optimizer, task, n=4):
    """What is proposed after some trials, with the loss of each told."""
    run = optimizer.start(task, 3)
    feed(run, random_trials(task, 6, failing=0.2))
    found = []
    for _ in range(n):
        (proposal,) = run.ask(1)
        found.append((proposal.pipeline, dict(proposal.origin)))
        run.tell(evaluate(proposal, task))
    return found


@pytest.mark.parametrize("name", ALL)
def test_what_was_learned_comes_back_from_a_file(name, tmp_path, monkeypatch):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    meta = meta_with_tables()
    known = Knowledge.learn(learner(quick_text(name)), meta, range(5), [])
    known.save(tmp_path / "known.npz")
    back = Knowledge.load(tmp_path / "known.npz")
    assert back.learner.describe() == known.learner.describe()
    assert back.learner.meta_key is not None
    assert known.learner.needs.metafeatures <= back.extractors.keys() == known.extractors.keys()
    table = small_tables(1, seed=7)[0]
    vectors = table_metafeatures(table, back.learner.needs.metafeatures, back.extractors)
    recorded = recorded_task(meta, 5)
    for candidates in (recorded.candidates, live_task().candidates):
        task = Task(candidates, metafeatures=vectors, dataset=table)
        try:
            expected = proposals(known.optimizer(), task)
        except UnknownPipeline:
            assert task.candidates.pool is None
            continue
        assert proposals(back.optimizer(), task) == expected
        if back.learner.kind == "surrogate":
            history = History(task.candidates)
            for trial in random_trials(task, 6):
                history.add(trial)
            encoded = task.candidates.sample(np.random.default_rng(0), 10)
            one, other = (k.learner.start(task).fit(history).predict(encoded) for k in (known, back))
            np.testing.assert_array_equal(one.mean, other.mean)
            np.testing.assert_array_equal(one.std, other.std)


@pytest.mark.parametrize(
    "text",
    [
        "tst_d2v",
        "nearest(metafeatures=dataset2vec)",
        "ellipsoid(search=tst_d2v)",
        "portfolio(then=tst_d2v)",
        "bayes(surrogate=tst_d2v)",
        "ellipsoid(search='portfolio(then=tst_d2v)')",
    ],
)
def test_needs_compose(text):
    assert create("optimizer", text).needs.metafeatures == {"dataset2vec"}
    assert not create("optimizer", text).needs.table
    with pytest.raises(NeedsTable, match="'dataset2vec' are made of raw tables, and meta-dataset 'meta' has none"):
        Knowledge.learn(learner(text), meta_with_tables().changed(tables=None), range(4), [])


def kept(text, tmp_path):
    Knowledge.learn(learner(text), meta_with_tables(), range(4), [4]).save(tmp_path / "known.npz")
    return Knowledge.load(tmp_path / "known.npz")


def test_settings_of_an_optimizer_and_of_its_parts_may_be_adjusted(tmp_path):
    held = kept("ellipsoid(search=tst_r)", tmp_path)
    found = held.optimizer("ellipsoid(search='tst_r(bandwidth=0.7)')")
    assert found.search.surrogate.bandwidth == 0.7
    assert held.learner.search.surrogate.bandwidth == 0.3
    for asked in ("ellipsoid", "ellipsoid(search=tst_r)"):
        assert held.optimizer(asked).describe() == held.learner.describe()
    for asked, message in (
        ("ellipsoid(search=tst_r, components=3)", "components=3 is decided by training"),
        ("ellipsoid(search='tst_r(n_observations=7)')", "n_observations=7 is decided by training"),
        ("tst_r", "what was trained is Ellipsoid, not Bayes"),
    ):
        with pytest.raises(InvalidInput, match=message):
            held.optimizer(asked)
    assert kept("oboe", tmp_path).optimizer("oboe(design=greedy)").design == "greedy"
    bayes = kept("bayes(surrogate=tst_r, n_initial=3)", tmp_path)
    assert bayes.optimizer("bayes(n_samples=7, surrogate=tst_r)").n_samples == 7
    assert bayes.optimizer("tst_r(n_live=2)").surrogate.n_live == 2


def test_a_surrogate_is_searched_and_an_optimizer_is_used_as_it_is(tmp_path):
    surrogate = kept("tst_r", tmp_path)
    assert surrogate.optimizer().acquisition == "log_ei"
    assert surrogate.optimizer(per_second=True).acquisition == "log_ei_per_second"
    optimizer = kept("smfo", tmp_path)
    assert optimizer.optimizer(per_second=True) is optimizer.learner


def test_files_of_before_are_refused_in_one_line(tmp_path):
    file = tmp_path / "old.npz"
    save_arrays(file, {"x": np.zeros(2)}, {"format": 2, "headstart": "0.1", "surrogate": {"name": "DeepPipe"}})
    with pytest.raises(InvalidInput, match=r"must have format 3, got 2.*train it again") as error:
        Knowledge.load(file)
    assert "\n" not in str(error.value)
    save_arrays(file, {}, {"format": 3, "learner": {"kind": "surrogate", "name": "Gone"}, "extractors": {}})
    with pytest.raises(InvalidInput, match="no surrogate of class 'Gone' is installed"):
        Knowledge.load(file)


def test_validation_tasks_are_described_and_not_learned_from(tmp_path):
    meta, train = meta_with_tables(), [0, 2, 3]
    known = Knowledge.learn(learner(quick_text("nearest")), meta, train, [5])
    (name,) = known.extractors
    alone = create("metafeatures", name).meta_fit(meta.select(train))
    assert known.extractors[name].meta_key == alone.meta_key
    assert len(known.learner._vectors) == 3
    known.save(tmp_path / "known.npz")
    assert read(tmp_path / "known.npz")[1][name].describe() == alone.describe()
