"""DMFBS on a new task: zero-shot, fine-tuned, from a file, without torch, without tables."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from headstart import registry
from headstart.errors import InvalidInput, ModelFileError, NeedsTable, UnknownName
from headstart.history import History
from headstart.learning.base import Needs
from headstart.learning.checkpoints import load_arrays, save_arrays
from headstart.learning.networks import dense, initial_dense
from headstart.metafeatures import MetaFeatures
from headstart.methods.dmfbs import DMFBS
from headstart.methods.dmfbs.network import predicted
from headstart.optimizers.bayes import Bayes
from headstart.optimizers.warm_start import with_warm_start
from headstart.registry import create
from headstart.task import Task
from headstart.testing.examples import evaluate, pool_task, random_trials, small_meta
from headstart.testing.tables import meta_with_tables
from headstart.trials import Proposal

EXTRACTOR = "dataset2vec(outputs=4, units=8, blocks=1, depth=1)"
QUICK = {"extractor": EXTRACTOR, "steps": 3, "training": {"n_tasks": 2}}
FIXED = {"metafeatures": "example", "steps": 3, "training": {"n_tasks": 2}}


def at_hand(meta):
    return replace(pool_task(meta), dataset=meta.dataset(0))


def others(meta):
    return meta.select(range(1, len(meta)))


def history_of(task, trials):
    history = History(task.candidates)
    for trial in trials:
        history.add(trial)
    return history


@pytest.fixture(scope="module")
def meta():
    pytest.importorskip("torch")
    return meta_with_tables()


@pytest.fixture(scope="module")
def task(meta):
    return at_hand(meta)


@pytest.fixture(scope="module")
def learned(meta):
    return DMFBS(**QUICK).meta_fit(others(meta))


@pytest.mark.parametrize("fine_tune", ["none", "regressor", "all"])
def test_the_first_pick_is_the_lowest_zero_shot_prediction(learned, task, fine_tune):
    zero_shot = learned.adjusted(fine_tune="none").start(task).fit(history_of(task, []))
    pool = task.candidates.listed
    order = np.argsort(zero_shot.predict(pool).mean)
    run = Bayes(learned.adjusted(fine_tune=fine_tune)).start(task)
    assert run.ask(1)[0].pipeline == pool[int(order[0])]
    warm = with_warm_start(task, Bayes(learned.adjusted(fine_tune=fine_tune)), 5).initial
    assert list(warm) == [pool[int(i)] for i in order[:5]]


def test_after_a_result_the_lowest_prediction_of_the_tuned_network_is_next(learned, task):
    run = Bayes(learned).start(task)
    for _ in range(4):
        (proposal,) = run.ask()
        run.tell(evaluate(proposal, task))
    pool = task.candidates.listed
    mean = learned.start(task).fit(run.history).predict(pool).mean
    tried = np.isin(pool.ids, run.history.encoded.ids)
    assert run.ask()[0].pipeline == pool[int(np.flatnonzero(~tried)[mean[~tried].argmin()])]


def test_fine_tuning_changes_the_regressor_alone_or_all_of_it(learned, task):
    history = history_of(task, random_trials(task, 10, failing=0.0))
    before = learned.start(task)._members[0]
    changed = {}
    for fine_tune in ("none", "regressor", "all"):
        model = learned.adjusted(fine_tune=fine_tune).start(task).fit(history)
        ((after, vector, _, _),) = model._models
        changed[fine_tune] = {name for name, value in before.items() if (after[name] != value).any()}
        assert (vector == model._vectors[0]).all() == (fine_tune != "all")
    networks = {name.partition(".")[0]: name for name in before}
    assert set(networks) == {"dataset2vec", "regressor"}
    assert changed["none"] == set()
    assert {name.partition(".")[0] for name in changed["regressor"]} == {"regressor"}
    assert {name.partition(".")[0] for name in changed["all"]} == {"dataset2vec", "regressor"}


def test_more_steps_fit_what_was_observed_better(learned, task):
    history = history_of(task, random_trials(task, 30, failing=0.0))
    errors = []
    for steps in (1, 200):
        model = learned.adjusted(fine_tune_steps=steps).start(task).fit(history)
        errors.append(float(((model.predict(history.encoded).mean - history.targets()) ** 2).mean()))
    assert errors[1] < 0.6 * errors[0]


@pytest.mark.parametrize("fine_tune", ["none", "regressor", "all"])
def test_a_file_has_all_that_a_new_task_needs(learned, task, fine_tune, tmp_path):
    made = Bayes(learned.adjusted(fine_tune=fine_tune))
    made.meta_key = learned.meta_key
    made.save(tmp_path / "dmfbs.npz")
    loaded = Bayes.load(tmp_path / "dmfbs.npz")
    history = history_of(task, random_trials(task, 12))
    pool = task.candidates.listed
    found = [part.part("surrogate").start(task).fit(history).predict(pool).mean for part in (made, loaded)]
    np.testing.assert_array_equal(*found)


def test_a_file_whose_arrays_do_not_fit_is_refused(learned, tmp_path):
    learned.save(tmp_path / "whole.npz")
    arrays, about = load_arrays(tmp_path / "whole.npz")
    for name, value in {"_parameters.0/regressor.3.weight": np.ones((2, 2)), "_parameters.levels.scales": None}.items():
        changed = {**arrays, name: value} if value is not None else {k: v for k, v in arrays.items() if k != name}
        save_arrays(tmp_path / "part.npz", changed, about)
        with pytest.raises(ModelFileError):
            DMFBS.load(tmp_path / "part.npz")


@pytest.mark.parametrize("settings", [{"fine_tune": "none"}, {"fine_tune": "regressor"}])
def test_a_new_task_needs_no_torch(learned, settings, tmp_path):
    learned.adjusted(**settings).save(tmp_path / "dmfbs.npz")
    program = f"""
import sys
sys.modules["torch"] = None
from headstart.history import History
from headstart.learning.base import Learner
from headstart.task import Task
from headstart.testing.examples import pool_task, random_trials
from headstart.testing.tables import meta_with_tables
from dataclasses import replace
meta = meta_with_tables()
task = replace(pool_task(meta), dataset=meta.dataset(0))
history = History(task.candidates)
for trial in random_trials(task, 5):
    history.add(trial)
model = Learner.load({str(tmp_path / "dmfbs.npz")!r}).start(task).fit(history)
print(len(model.predict(task.candidates.listed)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 10


def test_fixed_meta_features_take_the_place_of_the_table():
    meta = small_meta()
    made = DMFBS(**FIXED)
    assert made.needs == Needs(metafeatures=frozenset({"example"}))
    model = made.meta_fit(meta.learning([1, 2, 3, 4], [5])).start(pool_task(meta))
    rows = meta.metafeatures["example"]
    low, high = rows[1:5].min(axis=0), rows[1:5].max(axis=0)
    expected = np.clip((rows[0] - low) / (high - low), -1, 2)
    np.testing.assert_allclose(model._vectors[0], expected)
    zero_shot = model.fit(history_of(model.task, []))
    pool = model.task.candidates.listed
    plain = predicted(model._mlp, model._members[0], expected, pool.features())
    assert (np.argsort(zero_shot.predict(pool).mean) == np.argsort(plain)).all()


def test_a_missing_meta_feature_stands_at_the_mean_of_the_others():
    meta = small_meta()
    vectors = np.array(meta.metafeatures["example"])
    vectors[0, 1] = vectors[3, 1] = np.nan
    vectors[2] = np.nan  # a task that nothing is known of is not learned from
    meta = meta.changed(metafeatures={"example": vectors})
    model = DMFBS(**FIXED).meta_fit(meta.learning([1, 2, 3, 4], [5])).start(pool_task(meta))
    known = vectors[[1, 4], 1]
    assert model._vectors[0][1] == pytest.approx((known.mean() - known.min()) / np.ptp(known))
    assert len(model._parameters["0/others"]) == 3


def test_without_steps_it_is_the_random_start():
    meta = small_meta()
    begun = [DMFBS(**{**FIXED, "steps": 0, "seed": seed}).meta_fit(others(meta)) for seed in (0, 0, 1)]
    first = [made.learned["0/regressor.0.weight"] for made in begun]
    np.testing.assert_array_equal(first[0], first[1])
    assert (first[0] != first[2]).any()
    assert begun[0].trained_steps == {"DMFBS": (0, 0)}


def test_members_differ_and_their_spread_is_the_deviation():
    meta = small_meta()
    task = pool_task(meta)
    model = DMFBS(**FIXED, members=3).meta_fit(others(meta)).start(task)
    model.fit(history_of(task, random_trials(task, 5)))
    pool = task.candidates.listed
    single = [
        shift + scale * predicted(model._mlp, known, vector, pool.features())
        for known, vector, shift, scale in model._models
    ]
    found = model.predict(pool)
    np.testing.assert_allclose(found.mean, np.mean(single, axis=0))
    np.testing.assert_allclose(found.std, np.std(single, axis=0, ddof=1))
    assert found.std.min() > 0


def test_any_unit_of_losses_gives_the_same_order(learned, task):
    """Offset and scale of a task are inferred; losses in thousandths are those of another metric."""
    trials = random_trials(task, 20, failing=0.0)
    plain = history_of(task, trials)
    scaled = plain.where(lambda _: True, lambda t: 1e5 + 1e4 * float(t.outcome.loss))
    pool = task.candidates.listed
    one, other = (learned.adjusted(fine_tune_steps=100).start(task).fit(h).predict(pool).mean for h in (plain, scaled))
    assert np.corrcoef(one, other)[0, 1] > 0.9
    assert abs(float(other.mean()) - 1e5) < 1e5


def test_what_it_needs_is_asked_for(learned, meta):
    with pytest.raises(NeedsTable, match="reads the table itself"):
        learned.start(pool_task(meta))
    with pytest.raises(NeedsTable, match=r"dmfbs\(metafeatures=NAME\)"):
        DMFBS(**QUICK).meta_fit(small_meta())
    with pytest.raises(NeedsTable, match="'mf1'"):
        DMFBS(metafeatures="mf1", steps=1).meta_fit(small_meta())
    with pytest.raises(NeedsTable, match="'example'"):
        DMFBS(**FIXED).meta_fit(small_meta()).start(Task(small_meta().pool(0)))


def test_settings_that_make_no_sense_are_refused():
    with pytest.raises(UnknownName, match="fine_tune"):
        DMFBS(fine_tune="some")
    with pytest.raises(InvalidInput, match="fixed meta-features"):
        DMFBS(metafeatures="mf1", fine_tune="all")
    with pytest.raises(InvalidInput, match="network that can be trained"):
        DMFBS(extractor="mf1")
    with pytest.raises(InvalidInput, match="manifold"):
        DMFBS(manifold=-1.0)
    assert create("surrogate", "dmfbs(fine_tune=none)").fine_tune == "none"


def test_proposals_that_wait_are_not_proposed_again(learned, task):
    run = Bayes(learned).start(task)
    asked = run.ask(6)
    assert len({p.pipeline for p in asked}) == 6
    assert isinstance(asked[0], Proposal)


class Moments:
    """A network that reads tables in another way than Dataset2Vec: a linear layer over moments of columns."""

    outputs = 3

    def initial(self, rng):
        return initial_dense(rng, "moments", 4, self.outputs)

    def batches(self, tables, rng):
        return [self.whole(table.batch(rng, 16, 2, 2)) for table in tables]

    def whole(self, table):
        numbers = [of(part) for part in (table.features, table.targets) for of in (np.mean, np.std)]
        return np.array(numbers, dtype=np.float64)

    def __call__(self, parameters, batches):
        stacked = np.stack(batches)
        if not isinstance(parameters["moments.bias"], np.ndarray):
            import torch

            stacked = torch.from_numpy(stacked)
        return dense(parameters, "moments", stacked)


class MomentsExtractor(MetaFeatures):
    network = Moments()

    def transform(self, dataset, metafeatures=None):
        raise NotImplementedError


@pytest.mark.parametrize("fine_tune", ["none", "regressor", "all"])
def test_any_network_that_reads_tables_takes_the_place_of_dataset2vec(meta, task, fine_tune, monkeypatch):
    monkeypatch.setitem(registry._added, "metafeatures", {"moments": MomentsExtractor})
    made = DMFBS(**{**QUICK, "extractor": "moments"}, fine_tune=fine_tune).meta_fit(others(meta))
    assert made.learned["0/moments.weight"].shape == (4, 3)
    model = made.start(task).fit(history_of(task, random_trials(task, 8)))
    assert np.isfinite(model.predict(task.candidates.listed).mean).all()
    ((after, vector, _, _),) = model._models
    np.testing.assert_allclose(vector, Moments()(after, [model._whole])[0])
