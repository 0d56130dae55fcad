"""What DeepPipe makes of failures, of odd observations and of files, as it comes by default."""

from dataclasses import replace

import numpy as np
import pytest

from headstart.errors import InvalidInput, ModelFileError
from headstart.learning.checkpoints import load_arrays, save_arrays
from headstart.methods.deeppipe import DeepPipe
from headstart.methods.pmf import PMF
from headstart.surrogates.mixture import Mixture
from headstart.testing import SurrogateContract
from headstart.testing.examples import failed, live_task, pool_task, random_trials, small_meta
from headstart.trials import Outcome, Proposal, Status

pytest.importorskip("torch")
TRAINING = {"n_tasks": 3, "n_pipelines": 30}
QUICK = {"factor": 2, "outputs": 4, "steps": 30, "training": TRAINING}


@pytest.fixture(scope="module")
def learned():
    return DeepPipe(**QUICK).meta_fit(small_meta().select([1, 2, 3, 4, 5]))


@pytest.fixture(scope="module")
def remembered():
    return PMF(steps=30).meta_fit(small_meta().select([1, 2, 3, 4, 5]))


def adjusted(learned, remembered=None, failures="worst", **settings):
    network = DeepPipe(**{**QUICK, "failures": failures, **settings})
    network._parameters, network._space = learned.learned, learned.space
    return network if remembered is None else Mixture(network, remembered.adjusted(failures=failures))


def of_estimator(task, name):
    pool = task.candidates.pool
    return np.flatnonzero(pool.choice[:, -1] == pool.space.stages[-1].position(name))


def with_failures(task, rows, trials):
    pool = task.candidates.pool
    more = [failed(Proposal(len(trials) + i, pool[int(row)])) for i, row in enumerate(rows)]
    return SurrogateContract.history(task, [*trials, *more])


@pytest.mark.parametrize("others", [0, 8])
def test_what_is_like_failures_is_expected_to_be_worse_with_the_memory_too(learned, remembered, others):
    task = pool_task()
    knn = of_estimator(task, "knn")
    trials = [t for t in random_trials(task, 30, failing=0.0) if t.pipeline.algorithms[-1] != "knn"][:others]
    trials = [replace(t, proposal=replace(t.proposal, number=i)) for i, t in enumerate(trials)]
    history, known = with_failures(task, knn[::2], trials), SurrogateContract.history(task, trials)
    untried, rest = knn[1::2], np.setdiff1d(np.arange(len(task.candidates.pool)), knn)
    rise = {}
    for memory in (None, remembered):
        model = adjusted(learned, memory)
        before, after = (model.start(task).fit(h).predict(task.candidates.pool).mean for h in (known, history))
        rise[memory is not None] = float((after - before)[untried].mean() - (after - before)[rest].mean())
        ignoring = adjusted(learned, memory, failures="ignored")
        same = ignoring.start(task).fit(history).predict(task.candidates.pool).mean
        np.testing.assert_allclose(same[untried], before[untried], atol=1e-6)
    assert rise[False] > 0.05
    assert rise[True] > 0.6 * rise[False]


@pytest.mark.parametrize("n", [1, 4])
def test_equal_losses_tell_no_scale_so_the_usual_one_is_taken(learned, n):
    task = live_task()
    trials = random_trials(task, n, failing=0.0)
    same = [replace(t, outcome=replace(t.outcome, loss=trials[0].outcome.loss)) for t in trials]
    history, candidates = SurrogateContract.history(task, same), SurrogateContract.candidates(task)
    found = adjusted(learned, targets="standardised").start(task).fit(history).predict(candidates)
    usual = adjusted(learned).start(task).fit(history).predict(candidates)
    assert 0.2 < found.std.mean() / usual.std.mean() < 5.0


def test_a_zero_mean_expects_the_worst_of_accuracies_and_a_constant_one_what_is_usual():
    task = live_task()
    meta = small_meta().select([1, 2, 3])
    for mean in ("zero", "constant"):
        model = DeepPipe.paper(mean=mean, **QUICK).meta_fit(meta)
        found = model.start(task).fit(SurrogateContract.history(task)).predict(SurrogateContract.candidates(task))
        np.testing.assert_allclose(found.mean, 1.0 + model.learned.get("kernel.mean", 0.0))
    usual = np.nanmean(meta.losses)
    assert abs(found.mean[0] - usual) < 0.1 * abs(1.0 - usual)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda held, _: held.pop("_parameters.points.0.weight"), "holds no learner that can be read"),
        (lambda held, _: held.update({"_parameters.points.0.bias": np.zeros(3)}), r"found one of shape \(3,\)"),
        (lambda held, _: held["_parameters.points.0.bias"].fill(np.nan), "with finite numbers"),
        (lambda _, about: about["learned"]["_parameters"]["dict"].pop("levels.scales"), "'levels.scales'.*found none"),
        (lambda _, about: about.update(name="FSBO"), "unexpected keyword argument"),
        (lambda _, about: about["learned"].update(_space={"space": []}), "holds no learner that can be read"),
    ],
)
def test_files_with_something_else_in_them_are_refused(learned, tmp_path, change, message):
    path = tmp_path / "deeppipe.npz"
    learned.save(path)
    arrays, about = load_arrays(path)
    arrays = {name: np.array(value) for name, value in arrays.items()}
    change(arrays, about["learner"])
    save_arrays(path, arrays, about)
    with pytest.raises(ModelFileError, match=message):
        DeepPipe.load(path)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transfer": False}, "fine_tune='all'"),
        ({"encoder_layers": 1.5}, "encoder_layers must be a whole number"),
        ({"aggregation_layers": -1}, "aggregation_layers must be a whole number"),
        ({"training": {"weight_decay": float("nan")}}, "weight_decay must be at least 0"),
        ({"training": {"final_rate": 7.0}}, "final_rate is a share"),
        ({"training": {"learning_rate": "abc"}}, "learning_rate must be a positive number"),
        ({"training": {"rate": 1.0}}, "training has no setting 'rate'"),
        ({"steps": -3}, "steps must be a whole number of at least 0"),
    ],
)
def test_settings_that_cannot_be_meant(settings, message):
    with pytest.raises(InvalidInput, match=message):
        DeepPipe(**settings)


@pytest.mark.parametrize("memory", [False, True])
@pytest.mark.parametrize("loss", [1e3, 1e6])
def test_one_loss_out_of_all_proportion_does_not_hide_what_the_others_say(learned, remembered, memory, loss):
    task = pool_task()
    trials = random_trials(task, 20, failing=0.2)
    worst = max(t.outcome.loss for t in trials if t.outcome.ok)
    huge = [replace(t, outcome=Outcome(Status.OK, loss)) if t.outcome.loss == worst else t for t in trials]
    histories = (SurrogateContract.history(task, one) for one in (trials, huge))
    model, pool = adjusted(learned, remembered if memory else None), task.candidates.pool
    plain, spoiled = (model.start(task).fit(history).predict(pool) for history in histories)
    assert np.corrcoef(plain.mean, spoiled.mean)[0, 1] > 0.98
    assert 0.5 < np.median(spoiled.std / plain.std) < 2.0
