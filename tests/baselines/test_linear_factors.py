"""Linear factors: contract, and the formulas against a Gaussian process of the same covariance."""

import numpy as np
import pytest

from headstart.baselines.linear_factors import LinearFactors
from headstart.errors import HeadstartError, UnknownPipeline
from headstart.evaluation.recorded import Replay
from headstart.history import History
from headstart.metadata import MetaDataset
from headstart.methods.pmf import PMF
from headstart.optimizers.bayes import Bayes
from headstart.surrogates.acquisition import LogEI
from headstart.testing import OptimizerContract, SurrogateContract
from headstart.testing.examples import live_task, pool_task, random_trials, small_meta
from headstart.trials import Limits, Outcome, Proposal, Trial


class TestContract(SurrogateContract):
    live = False

    def make(self):
        return LinearFactors(rank=3)

    def test_refuses_pipelines_it_does_not_know(self):
        task = live_task()
        with pytest.raises(UnknownPipeline, match="knows only"):
            self.model(task).fit(self.history(task)).predict(self.candidates(task))


class TestSearch(OptimizerContract):
    live = False
    seeded = False

    def make(self, task):
        return Bayes(LinearFactors(rank=2), n_initial=0)


def told(task, trials):
    history = History(task.candidates)
    for trial in trials:
        history.propose(trial.proposal)
        history.add(trial)
    return history


@pytest.mark.parametrize(("single", "tolerance"), [(False, 1e-8), (True, 2e-4)])
def test_one_scale_is_a_gaussian_process_with_the_same_covariance(monkeypatch, single, tolerance):
    monkeypatch.setattr(LinearFactors, "single", single)
    model = LinearFactors(rank=4, n_scales=1).meta_fit(small_meta().select([1, 2, 3, 4, 5]))
    task = pool_task()
    history = told(task, random_trials(task, 12, failing=0.0))
    prediction = model.start(task).fit(history).predict(task.candidates.pool)

    known, at_all = model.prior, model.prior.recorded
    (scale,) = known.scales
    started = model.start(task)
    at, seen = started.places(task.candidates.pool), started.places(history.encoded)

    def covariance(left, right):
        return known.offset_std**2 + scale**2 * at_all.points[left] @ at_all.points[right].T

    prior = known.offset_mean + scale * at_all.means
    noisy = covariance(seen, seen) + scale**2 * np.diag(at_all.noise[seen])
    gain = np.linalg.solve(noisy, covariance(seen, at)).T
    mean = prior[at] + gain @ (history.targets() - prior[seen])
    variance = np.diag(covariance(at, at) - gain @ covariance(seen, at)) + scale**2 * at_all.noise[at]
    new = ~np.isin(at, seen)
    np.testing.assert_allclose(prediction.mean[new], mean[new], rtol=tolerance)
    np.testing.assert_allclose(prediction.std[new], np.sqrt(variance[new]), rtol=tolerance)
    shown = model.start(task).fit(history).predict(history.encoded)
    np.testing.assert_allclose(shown.mean, history.targets())


def test_scales_are_weighted_by_their_evidence():
    from scipy.stats import multivariate_normal

    model = LinearFactors(rank=2, n_scales=5).meta_fit(small_meta().select([1, 2, 3, 4, 5]))
    known = model.prior
    task = pool_task()
    history = told(task, random_trials(task, 6, failing=0.0))
    started = model.start(task).fit(history)
    seen, at = started.places(history.encoded), known.recorded
    log_evidence = []
    for scale in known.scales:
        covariance = known.offset_std**2 + scale**2 * (at.points[seen] @ at.points[seen].T + np.diag(at.noise[seen]))
        mean = known.offset_mean + scale * at.means[seen]
        log_evidence.append(multivariate_normal(mean, covariance).logpdf(history.targets()))
    expected = np.exp(np.array(log_evidence) - max(log_evidence))
    expected /= expected.sum()
    found = {part.scale: part.weight for part in started._posterior.mixture.parts}
    for scale, weight in zip(known.scales, expected, strict=True):
        assert found.get(scale, 0.0) == pytest.approx(weight, abs=5e-3)


def test_a_low_rank_matrix_is_completed():
    rng = np.random.default_rng(0)
    small = small_meta(n_tasks=61, n_pipelines=60, missing=0.0)
    truth = 0.5 + 0.1 * (rng.standard_normal((61, 3)) @ rng.standard_normal((3, 60)) + rng.standard_normal(60))
    losses = np.where(rng.random(truth.shape) < 0.3, np.nan, truth)
    losses[0] = truth[0]
    meta = MetaDataset(small.pipelines, losses, small.tasks)
    errors = {}
    for fill in (0, 20):
        model = LinearFactors(rank=3, fill=fill).meta_fit(meta.select(range(1, 61)))
        task = pool_task(meta)
        trials = []
        replay = Replay(meta, 0)
        for i, pipeline in enumerate(task.candidates.pool[:15]):
            trials.append(Trial(Proposal(i, pipeline), replay(pipeline, Limits(), 0), 0.0, 0.0))
        prediction = model.start(task).fit(told(task, trials)).predict(task.candidates.pool)
        rest = slice(15, None)
        errors[fill] = np.sqrt(np.mean((prediction.mean[rest] - truth[0][rest]) ** 2)) / truth[0].std()
    assert errors[20] < 0.2
    assert errors[20] < 0.8 * errors[0]


@pytest.mark.parametrize("n_tasks", [2, 4, 8, 16])
@pytest.mark.parametrize("surrogate", [LinearFactors, PMF])
def test_few_tasks_make_nobody_certain(surrogate, n_tasks):
    meta, errors = small_meta(n_tasks=n_tasks + 4, n_pipelines=80, missing=0.0), []
    losses = np.random.default_rng(0).normal(size=meta.losses.shape)  # nothing that tasks have in common
    random = MetaDataset(meta.pipelines, losses, meta.tasks)
    model = surrogate().meta_fit(random.select(range(4, n_tasks + 4)))
    for task in range(4):
        at = pool_task(random, task)
        shown = at.candidates.pool[:15]
        trials = [Trial(Proposal(i, p), Outcome("ok", float(losses[task, i])), 0.0, 0.0) for i, p in enumerate(shown)]
        found = model.start(at).fit(SurrogateContract.history(at, trials)).predict(at.candidates.pool)
        truth = model.transform_targets(losses[task])
        errors.append(((truth - found.mean) / found.std)[15:])
    assert np.sqrt(np.mean(np.square(errors))) < 4.0


def test_needs_other_tasks():
    with pytest.raises(HeadstartError, match="call meta_fit or load before start"):
        LinearFactors().start(pool_task())


def close_tasks(unit=1.0):
    rng = np.random.default_rng(0)
    small = small_meta(n_tasks=31, n_pipelines=60, missing=0.0)
    truth = 0.4 + 0.05 * (rng.standard_normal((31, 3)) @ rng.standard_normal((3, 60)) + rng.standard_normal(60))
    truth[0] *= unit
    return MetaDataset(small.pipelines, truth, small.tasks)


@pytest.mark.parametrize("unit", [1.0, 100.0])
def test_losses_may_be_in_another_unit(unit):
    meta = close_tasks(unit)
    model = LinearFactors(rank=3).meta_fit(close_tasks().select(range(1, 31)))
    task, replay = pool_task(meta, 0), Replay(meta, 0)
    trials = [Trial(Proposal(i, p), replay(p, Limits(), 0), 0.0, 0.0) for i, p in enumerate(task.candidates.pool[:12])]
    found = model.start(task).fit(told(task, trials)).predict(task.candidates.pool)
    assert np.corrcoef(found.mean[12:], meta.loss_row(0)[12:])[0, 1] > 0.9
    assert (np.abs(found.mean - meta.loss_row(0)) < 4 * found.std + 1e-6 * unit)[12:].mean() > 0.8


def test_failures_alone_do_not_look_good():
    meta = close_tasks()
    model = LinearFactors(rank=3).meta_fit(meta.select(range(1, 31)))
    task = pool_task(meta, 0)
    pool = task.candidates.pool
    before = model.start(task).fit(History(task.candidates))
    trials = [Trial(Proposal(i, p), Outcome("crashed", error="no"), 0.0, 0.0) for i, p in enumerate(pool[:3])]
    history = told(task, trials)
    after = model.start(task).fit(history)
    np.testing.assert_allclose(after.predict(pool).mean, before.predict(pool).mean)
    scores = [LogEI()(before, History(task.candidates), pool), LogEI()(after, history, pool)]
    np.testing.assert_allclose(scores[0][3:], scores[1][3:])


def test_what_is_under_way_is_believed_to_come_out_transform_targets():
    meta = close_tasks()
    model = LinearFactors(rank=3).meta_fit(meta.select(range(1, 31)))
    task = pool_task(meta, 0)
    pool = task.candidates.pool
    before = model.start(task).fit(History(task.candidates)).predict(pool)
    history = History(task.candidates)
    history.propose(Proposal(0, pool[5]))
    after = model.start(task).fit(history).predict(pool)
    np.testing.assert_allclose(after.mean, before.mean, atol=0.02)
    assert after.std.sum() < before.std.sum()
