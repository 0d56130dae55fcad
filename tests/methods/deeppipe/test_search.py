"""What DeepPipe makes of failures, of odd observations and of files, as it comes by default."""

from dataclasses import replace

import numpy as np
import pytest

from headstart.errors import InvalidInput, ModelFileError
from headstart.learning.batches import TaskBatches
from headstart.learning.checkpoints import load_arrays, save_arrays
from headstart.learning.deep_kernel import LENGTHS
from headstart.metadata import MetaDataset
from headstart.methods.deeppipe.surrogate import DeepPipe
from headstart.testing import SurrogateContract
from headstart.testing.examples import failed, live_task, pool_task, random_trials, small_meta
from headstart.trials import Outcome, Proposal, Status

pytest.importorskip("torch")
QUICK = {"factor": 2, "outputs": 4, "steps": 30, "n_tasks": 3, "n_pipelines": 30}


@pytest.fixture(scope="module")
def learned():
    return DeepPipe(**QUICK).meta_fit(small_meta().select([1, 2, 3, 4, 5]))


def adjusted(learned, **settings):
    return DeepPipe(**{**QUICK, **settings}).with_parameters(learned.learned, learned.space)


def of_estimator(task, name):
    pool = task.candidates.pool
    return np.flatnonzero(pool.choice[:, -1] == pool.space.stages[-1].position(name))


def with_failures(task, rows, trials):
    pool = task.candidates.pool
    more = [failed(Proposal(len(trials) + i, pool[int(row)])) for i, row in enumerate(rows)]
    return SurrogateContract.history(task, [*trials, *more])


@pytest.mark.parametrize("others", [0, 8])
def test_what_is_like_failures_is_expected_to_be_worse_with_the_memory_too(learned, others):
    task = pool_task()
    knn = of_estimator(task, "knn")
    trials = [t for t in random_trials(task, 30, failing=0.0) if t.pipeline.algorithms[-1] != "knn"][:others]
    trials = [replace(t, proposal=replace(t.proposal, number=i)) for i, t in enumerate(trials)]
    history, known = with_failures(task, knn[::2], trials), SurrogateContract.history(task, trials)
    untried, rest = knn[1::2], np.setdiff1d(np.arange(len(task.candidates.pool)), knn)
    rise = {}
    for memory in (False, True):
        model = adjusted(learned, memory=memory)
        before, after = (model.start(task).fit(h).predict(task.candidates.pool).mean for h in (known, history))
        rise[memory] = float((after - before)[untried].mean() - (after - before)[rest].mean())
        ignoring = adjusted(learned, memory=memory, failures="ignored")
        same = ignoring.start(task).fit(history).predict(task.candidates.pool).mean
        np.testing.assert_allclose(same[untried], before[untried], atol=1e-6)
    assert rise[False] > 0.05
    # as long as all have failed, the memory says nothing
    assert rise[True] > (0.6 if others else 0.4) * rise[False]


def test_tuned_in_turn_the_kernel_stays_as_close_to_what_was_learned(learned):
    task = live_task()
    history = SurrogateContract.history(task, random_trials(task, 40, failing=0.0))
    moved = {}
    for looseness in (0.01, None):
        model = adjusted(
            learned, fine_tune="kernel", fine_tune_steps=10, fine_tune_rate=0.05, warm=True, looseness=looseness
        )
        found = model.start(task).fit(history)._tuned[LENGTHS]
        moved[looseness] = float(np.abs(found - learned.learned[LENGTHS]).max())
    assert moved[0.01] < 0.02
    assert moved[None] > 0.1


@pytest.mark.parametrize("n", [1, 4])
def test_equal_losses_tell_no_scale_so_the_usual_one_is_taken(learned, n):
    task = live_task()
    trials = random_trials(task, n, failing=0.0)
    same = [replace(t, outcome=replace(t.outcome, loss=trials[0].outcome.loss)) for t in trials]
    history, candidates = SurrogateContract.history(task, same), SurrogateContract.candidates(task)
    found = adjusted(learned, targets="standardised").start(task).fit(history).predict(candidates)
    usual = adjusted(learned).start(task).fit(history).predict(candidates)
    assert 0.2 < found.std.mean() / usual.std.mean() < 5.0


def test_a_zero_mean_expects_the_worst_of_accuracies_and_the_best_of_losses():
    task = live_task()
    nothing = SurrogateContract.history(task)
    for targets, expected in (("accuracy", 1.0), ("raw", 0.0)):
        model = DeepPipe.paper(**QUICK, targets=targets).meta_fit(small_meta().select([1, 2, 3]))
        found = model.start(task).fit(nothing).predict(SurrogateContract.candidates(task))
        np.testing.assert_allclose(found.mean, expected)


def test_how_long_pipelines_take_is_known_from_the_memory():
    meta = small_meta()
    seconds = np.exp(np.random.default_rng(0).normal(size=meta.losses.shape))
    timed = MetaDataset(meta.pipelines, meta.losses, meta.tasks, seconds=seconds)
    model = DeepPipe(**{**QUICK, "steps": 1}).meta_fit(timed.select([1, 2, 3, 4]))
    task = pool_task()
    known = model.start(task).log_seconds(task.candidates.pool)
    assert known.shape == (len(task.candidates.pool),)
    tuned = model.adjusted(fine_tune="kernel", memory=False).start(task)  # which does not ask it for losses
    assert tuned._recalled is None
    np.testing.assert_array_equal(tuned.log_seconds(task.candidates.pool), known)
    without = DeepPipe(**{**QUICK, "steps": 1}, memory=False).meta_fit(timed.select([1, 2, 3, 4]))
    assert without.start(task).log_seconds(task.candidates.pool) is None


def test_a_loss_without_end_is_missing_also_where_losses_are_clipped():
    meta = small_meta(missing=0.0)
    losses = meta.losses.copy()
    losses[2, 5] = np.inf
    tasks = TaskBatches(MetaDataset(meta.pipelines, losses, meta.tasks), meta.pipelines.features(), clipped=True)
    targets, mask = tasks.crossed(np.arange(len(losses)), np.arange(10))
    assert np.argwhere(~mask).tolist() == [[2, 5]]
    assert targets[2, 5] == 0.0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, about: arrays.pop("points.0.weight"), "must hold an array 'points.0.weight'.*found none"),
        (lambda arrays, about: arrays.update({"points.0.bias": np.zeros(3)}), r"found one of shape \(3,\)"),
        (lambda arrays, about: arrays["points.0.bias"].fill(np.nan), "with finite numbers"),
        (lambda arrays, about: arrays.pop("levels.scales"), "levels.scales"),
        (lambda arrays, about: about.update(surrogate="DeepPipe"), "must hold a DeepPipe"),
        (lambda arrays, about: about.update(space=[]), "holds no DeepPipe that can be read"),
    ],
)
def test_files_with_something_else_in_them_are_refused(learned, tmp_path, change, message):
    path = tmp_path / "deeppipe.npz"
    learned.save(path)
    arrays, about = load_arrays(path)
    arrays = {name: np.array(value) for name, value in arrays.items()}
    change(arrays, about)
    save_arrays(path, arrays, about)
    with pytest.raises(ModelFileError, match=message):
        DeepPipe.load(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transfer": False}, "fine_tune='all'"),
        ({"encoder_layers": 1.5}, "encoder_layers must be a whole number"),
        ({"aggregation_layers": -1}, "aggregation_layers must be a whole number"),
        ({"mean_weight": -1.0}, "mean_weight must be at least 0"),
        ({"weight_decay": float("nan")}, "weight_decay must be at least 0"),
        ({"final_rate": 7.0}, "final_rate is a share"),
        ({"learning_rate": "abc"}, "learning_rate must be a positive number"),
        ({"steps": -3}, "steps must be a positive whole number"),
    ],
)
def test_settings_that_cannot_be_meant(settings, message):
    with pytest.raises(InvalidInput, match=message):
        DeepPipe(**settings)


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("loss", [1e3, 1e6])
def test_one_loss_out_of_all_proportion_does_not_hide_what_the_others_say(learned, memory, loss):
    task = pool_task()
    trials = random_trials(task, 20, failing=0.2)
    worst = max(t.outcome.loss for t in trials if t.outcome.ok)
    huge = [replace(t, outcome=Outcome(Status.OK, loss)) if t.outcome.loss == worst else t for t in trials]
    histories = (SurrogateContract.history(task, one) for one in (trials, huge))
    model, pool = adjusted(learned, memory=memory), task.candidates.pool
    plain, spoiled = (model.start(task).fit(history).predict(pool) for history in histories)
    assert np.corrcoef(plain.mean, spoiled.mean)[0, 1] > 0.98
    assert 0.5 < np.median(spoiled.std / plain.std) < 2.0
