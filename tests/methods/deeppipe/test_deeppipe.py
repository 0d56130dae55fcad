from dataclasses import replace

import numpy as np
import pytest

from headstart.baselines.fsbo import FSBO
from headstart.errors import InvalidInput, ModelFileError, SpaceError, UnknownName
from headstart.history import History
from headstart.learning.deep_kernel import LENGTHS, MEAN, SCALE
from headstart.learning.monitor import Monitor, monitored
from headstart.learning.training import Training
from headstart.methods.deeppipe import DeepPipe
from headstart.methods.deeppipe.growth import belonging_to
from headstart.methods.deeppipe.tuning import KERNEL, located
from headstart.numerics.kernels import kernel_matrix
from headstart.optimizers.bayes import Bayes
from headstart.registry import create
from headstart.space import Algorithm, Categorical, Float, PipelineSpace
from headstart.task import Task
from headstart.testing import SurrogateContract
from headstart.testing.examples import failed, live_task, pool_task, random_trials, small_meta, small_space
from headstart.trials import Outcome, Proposal, Status, Trial

torch = pytest.importorskip("torch")
KNOWN = {}
SMALL = {"factor": 2, "outputs": 5, "steps": 60, "training": {"n_tasks": 4, "n_pipelines": 40}}


class TrainedOnce(DeepPipe):
    """The contract meta-trains for every test."""

    def learn(self, meta, rng):
        key = meta.key, repr({k: v for k, v in self.describe().items() if "tune" not in k and k != "failures"})
        if key not in KNOWN:
            KNOWN[key] = super().learn(meta, rng)
        return dict(KNOWN[key])


class TestDeepPipe(SurrogateContract):
    def make(self):
        return TrainedOnce(**SMALL)


class TestDeepPipeOfThePaper(SurrogateContract):
    def make(self):
        return TrainedOnce.paper(
            **{**SMALL, "fine_tune_steps": 5, "training": {"learning_rate": 1e-2, "n_pipelines": 40}}
        )


class TestDeepPipeWithItsKernelTuned(SurrogateContract):
    def make(self):
        return TrainedOnce(**SMALL, fine_tune="kernel", fine_tune_steps=5, failures="ignored")


class TestDeepPipeWithAllTuned(SurrogateContract):
    def make(self):
        return TrainedOnce(
            **SMALL, mean="linear", encoder_layers=2, fine_tune="all", fine_tune_steps=5, targets="standardised"
        )


class TestDeepPipeWithoutOtherTasks(SurrogateContract):
    def make(self):
        settings = {"mean": "zero", "noise": "shared", "transfer": False, "fine_tune": "all", "fine_tune_rate": 0.02}
        return DeepPipe(**SMALL, **settings, fine_tune_steps=4)


def learned(kind=TrainedOnce, **settings):
    return kind(**{**SMALL, "logarithmic": False, **settings}).meta_fit(small_meta().select([1, 2, 3, 4, 5]))


def history_of(trials, task):
    history = History(task.candidates)
    for trial in trials:
        history.add(trial)
    return history


def succeeded(loss):
    return Outcome(Status.OK, loss=loss)


def rank_correlation(one, other):
    return np.corrcoef(np.argsort(np.argsort(one)), np.argsort(np.argsort(other)))[0, 1]


def test_over_a_pool_with_missing_cells_it_is_the_process_on_single_pipelines():
    """Pipelines are decoded and encoded one by one here, so that no index can be wrong in both ways."""
    meta = small_meta(missing=0.4)
    task = pool_task(meta)
    pool = task.candidates.pool
    assert not np.array_equal(pool.ids, np.arange(len(pool)) + pool.ids[0])  # or a shift could hide
    model = learned(targets="standardised").start(task)
    history = history_of(random_trials(task, 15, failing=0.0), task)
    for n in (3, 9, 15):
        model.fit(history_of(history.trials[:n], task))
    found = model.predict(pool)
    parameters, network, space = model.learned, model.network, small_space()

    def at(pipelines):
        features = np.concatenate([space.encode([p]).features() for p in pipelines])
        return located(network(parameters, features), parameters)

    seen, every, targets = at([t.pipeline for t in history]), at(list(pool)), history.targets()
    scale = float(parameters[SCALE])
    inner = kernel_matrix("matern52", seen.points, None, np.zeros(1), scale) + np.diag(seen.noise)
    cross = kernel_matrix("matern52", every.points, seen.points, np.zeros(1), scale)
    shift, spread = targets.mean(), targets.std()
    residuals = (targets - shift) / spread - seen.means
    mean = shift + spread * (every.means + cross @ np.linalg.solve(inner, residuals))
    variance = np.exp(scale) - np.einsum("ij,ij->i", cross, np.linalg.solve(inner, cross.T).T)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8)
    np.testing.assert_allclose(found.std, spread * np.sqrt(variance), rtol=1e-6)
    shifted = shift + spread * (every.means + np.roll(cross, 1, axis=0) @ np.linalg.solve(inner, residuals))
    assert np.abs(found.mean - shifted).max() > 1e-3 * spread
    some = model.predict(pool.take([3, 7]))  # and what is no pool comes out the same
    np.testing.assert_allclose(some.mean, found.mean[[3, 7]], rtol=1e-9)
    np.testing.assert_allclose(some.std, found.std[[3, 7]], rtol=1e-6)


def test_it_knows_good_pipelines_of_a_task_before_the_first_trial():
    meta = small_meta(n_tasks=12)
    model = DeepPipe(**{**SMALL, "steps": 300}).meta_fit(meta.select(range(1, 12)))
    task = pool_task(meta)
    losses = model.transform_targets(meta.loss_row(0)[np.isfinite(meta.loss_row(0))])
    predicted = model.start(task).fit(History(task.candidates)).predict(task.candidates.pool)
    assert rank_correlation(predicted.mean, losses) > 0.6
    offset, scale = losses.mean(), losses.std()
    assert abs(predicted.mean.mean() - offset) < 3 * scale  # also in their units


def test_losses_in_units_that_no_other_task_had_are_understood():
    task = pool_task()
    trials = random_trials(task, 25, failing=0.0)
    thousands = [Trial(t.proposal, succeeded(5e4 + 1e4 * float(t.outcome.loss)), 0.0, 0.0) for t in trials]
    plain, foreign = (learned().start(task).fit(history_of(one, task)) for one in (trials, thousands))
    usual, other = (model.predict(task.candidates.pool) for model in (plain, foreign))
    assert rank_correlation(usual.mean, other.mean) > 0.8
    assert 0.1 < np.median(other.std / (1e4 * usual.std)) < 10


@pytest.mark.parametrize("mean", ["linear", "constant"])
def test_tuning_the_kernel_raises_the_likelihood_and_leaves_the_network(mean):
    task = pool_task()
    history = history_of(random_trials(task, 30, failing=0.0), task)
    settings = {"fine_tune": "kernel", "fine_tune_steps": 60, "fine_tune_rate": 0.05, "targets": "standardised"}
    settings["mean"] = mean
    losses = {}
    for looseness in (None, 1e-4):
        model = learned(**settings, looseness=looseness).start(task).fit(history)
        for name, value in model.learned.items():
            assert (model._tuned[name] is value) == (name not in KERNEL)
        tuned = [name for name in KERNEL if name in model.learned]
        assert (MEAN in tuned) == (mean == "constant")
        moved = max(np.abs(model._tuned[name] - model.learned[name]).max() for name in tuned)
        seen = located(model.network(model._tuned, model.points(history.encoded)), model._tuned)
        inner = kernel_matrix("matern52", seen.points, None, np.zeros(1), float(model._tuned[SCALE]))
        inner += np.diag(seen.noise)
        targets = history.targets()
        residuals = (targets - targets.mean()) / targets.std() - seen.means
        losses[looseness] = residuals @ np.linalg.solve(inner, residuals) + np.linalg.slogdet(inner)[1]
        assert moved > 0.1 if looseness is None else moved < 1e-2
    assert losses[None] < losses[1e-4] - 0.1


def test_tuning_all_moves_the_network_and_meta_state_stays():
    task = pool_task()
    history = history_of(random_trials(task, 20, failing=0.0), task)
    surrogate = learned(fine_tune="all", fine_tune_steps=3)
    before = {name: value.copy() for name, value in surrogate.learned.items()}
    model = surrogate.start(task).fit(history)
    model.predict(task.candidates.pool)
    changed = {name for name in before if not np.array_equal(model._tuned[name], before[name])}
    assert {"aggregation.0.weight", "points.0.weight", LENGTHS} <= changed
    for name, value in surrogate.learned.items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("logarithmic", [False, True])
def test_a_failure_counts_as_the_worst_or_tells_nothing_of_others(logarithmic):
    task = pool_task()
    trials = random_trials(task, 20, failing=0.0)
    mixed = [failed(t.proposal) if i < 5 else t for i, t in enumerate(trials)]
    history, without = history_of(mixed, task), history_of(trials[5:], task)
    pool = task.candidates.pool
    worst, ignored, never = (
        learned(logarithmic=logarithmic, failures=failures).start(task).fit(one).predict(pool)
        for failures, one in (("worst", history), ("ignored", history), ("ignored", without))
    )
    bad = np.isin(pool.ids, [t.pipeline.id for t in mixed[:5]])
    targets = learned(logarithmic=logarithmic).transform_targets(history.targets())
    assert (ignored.mean[bad] >= targets.max() - 1e-12).all()
    np.testing.assert_allclose(ignored.mean[~bad], never.mean[~bad])
    np.testing.assert_allclose(ignored.std, never.std)
    assert worst.mean[bad].mean() > never.mean[bad].mean()
    assert np.abs(worst.mean[~bad] - never.mean[~bad]).max() > 1e-6


STANDARDISED = {"targets": "standardised", "fine_tune_steps": 3}


@pytest.mark.parametrize(
    "settings",
    [STANDARDISED, {**STANDARDISED, "fine_tune": "kernel"}, {"logarithmic": True}],
    ids=["network", "kernel tuned", "defaults"],
)
def test_proposals_under_way_take_uncertainty_away_around_them(settings):
    task = pool_task()
    trials = random_trials(task, 13, failing=0.0)
    history = history_of(trials[:10], task)
    pool = task.candidates.pool
    before = learned(**settings).start(task).fit(history).predict(pool).std
    for trial in trials[10:]:
        history.propose(trial.proposal)
    after = learned(**settings).start(task).fit(history).predict(pool).std
    waiting = np.isin(pool.ids, [t.pipeline.id for t in trials[10:]])
    assert (after[waiting] < before[waiting]).all()
    assert (after <= before * 1.5).all()


class BlindToPending(TrainedOnce):
    def fit(self, history):
        return super().fit(history_of(history.trials, self.task))


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("make_task", [live_task, pool_task])
def test_several_asks_in_a_row_are_not_those_of_one_that_does_not_see_the_first(logarithmic, make_task):
    """`Bayes` keeps from what is under way anyway, so that they differ from each other says nothing of `fit`."""
    asked = []
    for kind in (TrainedOnce, BlindToPending):
        task = make_task()
        run = Bayes(learned(kind, logarithmic=logarithmic), n_initial=0, n_samples=50).start(task, 0)
        for trial in random_trials(task, 12, failing=0.0):
            run.history.add(trial)
        asked.append([run.ask(1)[0].pipeline for _ in range(6)])
    seeing, blind = asked
    assert len(set(seeing)) == 6
    assert seeing[0] == blind[0]
    assert seeing != blind


NEW = Algorithm(
    "new", params=[Float("x", 0, 1), Categorical("k", ("a", "b", "c")), *[Float(f"y{i}", 0, 1) for i in range(6)]]
)


@pytest.mark.parametrize("encoder_layers", [0, 1, 2])
def test_a_new_algorithm_gets_an_encoder_and_only_that_is_trained(encoder_layers):
    surrogate = learned(encoder_layers=encoder_layers, fine_tune_rate=0.05)
    space = small_space().extend("estimator", NEW)
    wider = surrogate.extended(space)
    assert wider.new_algorithms == [("estimator", "new")]
    assert surrogate.new_algorithms == []
    assert wider.fine_tune == "encoder"
    masks = belonging_to(wider.network, "estimator", "new", wider.learned)
    for name, value in surrogate.learned.items():
        kept = wider.learned[name][~masks[name]] if name in masks else wider.learned[name]
        np.testing.assert_array_equal(kept.ravel(), value.ravel())  # bit for bit

    task = Task(space, key="wider")
    model, before = wider.start(task), surrogate.start(live_task())
    old = random_trials(live_task(), 12, failing=0.0)
    known = small_space().sample(np.random.default_rng(1), 20)
    # Without an observation of the new algorithm nothing changes for the others.
    one = model.fit(history_of(old, task)).predict(known.to(space))
    other = before.fit(history_of(old, live_task())).predict(known)
    np.testing.assert_allclose(one.mean, other.mean)
    np.testing.assert_allclose(one.std, other.std, rtol=1e-6)
    assert model._tuned is model._parameters
    # With some, only what belongs to it is trained, and its observations become likelier.
    new = space.sample(np.random.default_rng(2), 20, given={"estimator": "new"})
    shown = [
        Trial(Proposal(100 + i, pipeline), succeeded(float(0.2 + 0.6 * new.values[i].sum() / 9)), 0.0, 0.0)
        for i, pipeline in enumerate(new)
    ]
    model.fit(history_of(old + shown, task))
    changed = [name for name in model.learned if not np.array_equal(model._tuned[name], model.learned[name])]
    assert changed
    assert set(changed) <= set(masks)
    for name in changed:
        np.testing.assert_array_equal(model._tuned[name][~masks[name]], model.learned[name][~masks[name]])
    truth = [float(trial.outcome.loss) for trial in shown]
    tuned = model.predict(new).mean
    plain = wider.extended(space, fine_tune="none").start(task).fit(history_of(old + shown, task)).predict(new).mean
    assert np.square(tuned - truth).mean() < np.square(plain - truth).mean()


def test_algorithms_can_be_added_again_and_again_and_the_file_remembers(tmp_path):
    surrogate = learned(DeepPipe)
    once = surrogate.extended(small_space().extend("estimator", NEW))
    twice = once.extended(once.space.extend("reducer", Algorithm("other", params=[Float("z", 0, 1)])))
    assert twice.new_algorithms == [("estimator", "new"), ("reducer", "other")]
    assert twice.network.units == surrogate.network.units
    twice.save(tmp_path / "wider.npz")
    again = DeepPipe.load(tmp_path / "wider.npz")
    assert again.new_algorithms == twice.new_algorithms
    task = Task(twice.space, key="twice")
    trials = random_trials(task, 15, failing=0.0)
    candidates = twice.space.sample(np.random.default_rng(0), 20)
    one, other = (m.start(task).fit(history_of(trials, task)).predict(candidates) for m in (twice, again))
    np.testing.assert_array_equal(one.mean, other.mean)
    with pytest.raises(SpaceError, match="must have all"):
        once.extended(small_space())
    with pytest.raises(InvalidInput, match="aggregation"):
        learned(aggregation_layers=0).extended(once.space)


def test_saved_and_loaded_it_predicts_the_same(tmp_path):
    surrogate = learned(DeepPipe, fine_tune="kernel", fine_tune_steps=3, failures="ignored")
    surrogate.save(tmp_path / "d.npz")
    again = DeepPipe.load(tmp_path / "d.npz")
    assert again.describe() == surrogate.describe()
    assert again.space == surrogate.space
    np.testing.assert_array_equal(again.validation_losses, surrogate.validation_losses)
    task = pool_task()
    history = history_of(random_trials(task, 12), task)
    one, other = (m.start(task).fit(history).predict(task.candidates.pool) for m in (surrogate, again))
    np.testing.assert_array_equal(one.mean, other.mean)
    np.testing.assert_array_equal(one.std, other.std)


def test_files_that_are_damaged_or_of_others_are_refused(tmp_path):
    surrogate, path = learned(DeepPipe), tmp_path / "d.npz"
    surrogate.save(path)
    content = path.read_bytes()
    middle = len(content) // 2
    path.write_bytes(content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :])
    with pytest.raises(ModelFileError):
        DeepPipe.load(path)
    path.write_bytes(content[:-200])
    with pytest.raises(ModelFileError):
        DeepPipe.load(path)
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="must hold a FSBO"):
        FSBO.load(path)
    with pytest.raises(ModelFileError, match="no file"):
        DeepPipe.load(tmp_path / "nothing.npz")


class Killed(Exception):
    pass


def test_meta_training_that_was_killed_goes_on_to_the_same_parameters(tmp_path):
    settings = {**SMALL, "factor": 1, "steps": 250, "training": {"n_tasks": 2, "n_pipelines": 10}}
    meta = small_meta()
    whole = DeepPipe(**settings).meta_fit(meta)

    def kill(check):
        if check.step == 200:
            raise Killed

    with pytest.raises(Killed), monitored(Monitor(kill, tmp_path / "state", "k", seconds=0.0)):
        DeepPipe(**settings).meta_fit(meta)
    with monitored(Monitor(None, tmp_path / "state", "k", resume=True)):
        resumed = DeepPipe(**settings).meta_fit(meta)
    for name, value in whole.learned.items():
        if name != "training.checks":
            np.testing.assert_array_equal(resumed.learned[name], value)
    np.testing.assert_array_equal(resumed.validation_losses[:, :2], whole.validation_losses[:, :2])


def test_a_space_that_does_not_fit_is_named_with_what_to_do():
    surrogate = learned()
    wider = small_space().extend("estimator", NEW)
    with pytest.raises(SpaceError, match=r"estimator\.new: unknown.*exclude new.*extended"):
        surrogate.start(Task(wider, key="wider"))
    surrogate.start(Task(small_space().restrict({"estimator": ["svm", "knn"]}), key="narrower"))
    with pytest.raises(InvalidInput, match="meta_fit or load"):
        DeepPipe().start(live_task())


def test_a_part_of_the_space_gives_the_same_predictions():
    surrogate = learned()
    part = small_space().restrict({"estimator": ["svm", "naive_bayes"]})
    task = Task(part, key="narrower")
    trials = random_trials(task, 12, failing=0.0)
    candidates = part.sample(np.random.default_rng(0), 15)
    narrow = surrogate.start(task).fit(history_of(trials, task)).predict(candidates)
    whole = surrogate.start(live_task()).fit(history_of(trials, live_task())).predict(candidates.to(small_space()))
    np.testing.assert_allclose(narrow.mean, whole.mean)
    np.testing.assert_allclose(narrow.std, whole.std, rtol=1e-6)


def test_the_recipe_of_the_paper_has_a_name():
    paper = create("surrogate", "deeppipe_paper")
    assert isinstance(paper, DeepPipe)
    assert paper.training == Training(1e-4, 1e-3, 500, 100, n_tasks=1, n_pipelines=1000, epochs=True)
    changed = create("surrogate", "deeppipe_paper(training={'learning_rate': 0.001})").training
    assert changed == replace(paper.training, learning_rate=0.001)
    assert (paper.mean, paper.fine_tune, paper.fine_tune_steps, paper.outputs) == ("constant", "kernel", 100, 20)
    for name, encoders in (("tensor_oboe", 0), ("zap_recorded", 1)):
        network = paper._new_network(PipelineSpace(name, small_space().stages))
        assert (network.factor, network.encoder_layers, network.aggregation_layers) == (8, encoders, 4 - encoders)


def test_ten_thousand_epochs_are_each_of_all_training_tasks():
    settings = {"factor": 1, "steps": 3, "training": {"n_pipelines": 20, "check_every": 4}}
    model = DeepPipe.paper(**settings).meta_fit(small_meta().learning([0, 1, 2, 3], [4]))
    assert model.trained_steps == {"DeepPipe": (12, 12)}
    assert create("optimizer", "bayes", surrogate=model).trained_steps == {"DeepPipe": (12, 12)}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"fine_tune": "everything"}, "fine_tune has no"),
        ({"mean": "one"}, "mean has no"),
        ({"targets": "ranked"}, "targets has no"),
    ],
)
def test_settings_that_cannot_be_meant(settings, message):
    with pytest.raises(UnknownName, match=message):
        DeepPipe(**settings)
    for wrong in ({"factor": 0}, {"looseness": -1.0}, {"training": {"n_tasks": 1.5}}):
        with pytest.raises(InvalidInput, match="must be a positive"):
            DeepPipe(**wrong)
