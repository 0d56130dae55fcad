"""What PMF learns from descriptions of tasks and pipelines, and from how long pipelines take."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from headstart.errors import InvalidInput
from headstart.evaluation.recorded import Replay
from headstart.history import History
from headstart.metadata import MetaDataset
from headstart.methods.pmf import PMF
from headstart.methods.pmf.side_information import PipelineMap, TaskRegression, linear_weights
from headstart.surrogates.acquisition import OVERHEAD_SECONDS, LogEI, LogEIPerSecond
from headstart.surrogates.gp import GPSurrogate
from headstart.surrogates.recorded_gp import relative_log_seconds
from headstart.task import Task
from headstart.testing.examples import pool_task, small_meta
from headstart.trials import Limits, Proposal, Trial

QUICK = {
    "latent": 3,
    "logarithmic": False,
    "steps": 20,
    "training": {"n_tasks": 10, "n_pipelines": 40, "check_every": 10},
}


def described_meta(n_tasks=80, n_pipelines=60):
    """Losses of rank 3 whose weights are functions of two meta-features; the third says nothing."""
    rng = np.random.default_rng(0)
    small = small_meta(n_tasks=1, n_pipelines=n_pipelines, missing=0.0)
    features = rng.standard_normal((n_tasks, 3))
    weights = np.stack([features[:, 0], np.sin(features[:, 1]), features[:, 0] * 0.5], axis=1)
    weights[:, 2] = rng.standard_normal(n_tasks)
    losses = 0.5 + 0.1 * (weights @ rng.standard_normal((3, n_pipelines)) + rng.standard_normal(n_pipelines))
    losses += 0.005 * rng.standard_normal(losses.shape)
    return MetaDataset(
        small.pipelines, losses, [f"task {t}" for t in range(n_tasks)], metafeatures={"described": features}
    )


def history_of(meta, task, pool, columns):
    history, replay = History(pool.candidates), Replay(meta, task)
    for number, pipeline in enumerate(meta.pipelines.take(columns)):
        proposal = Proposal(number, pipeline)
        history.propose(proposal)
        history.add(Trial(proposal, replay(pipeline, Limits(), 0), 0.0, 0.0))
    return history


class TestTasks:
    def test_each_task_is_left_out_of_its_own_prediction(self):
        rng = np.random.default_rng(0)
        features, weights = rng.standard_normal((25, 2)), rng.standard_normal((25, 2))
        weights[:, 0] += 3 * np.sin(features[:, 0])
        found = TaskRegression.learn("described", features, weights)
        best = np.inf
        for length in (0.5, 1.0, 2.0, 4.0, 8.0):
            for ridge in (0.1, 0.3, 1.0, 3.0, 10.0):
                model = KernelRidge(alpha=ridge, kernel="rbf", gamma=0.5 / (length**2 * 2))
                points = np.clip((features - features.mean(axis=0)) / features.std(axis=0), -3, 3)
                predicted = cross_val_predict(model, points, weights, cv=LeaveOneOut())
                share = np.maximum(1 - ((weights - predicted) ** 2).sum(axis=0) / (weights**2).sum(axis=0), 0)
                error = ((weights**2).sum(axis=0) * (1 - share)).sum()
                if error < best:
                    best, explained = error, share
                    expected = model.fit(points, weights).predict(points[:1])[0]
        np.testing.assert_allclose(found.explained, explained, atol=1e-8)
        np.testing.assert_allclose(found(features[0]), expected, atol=1e-8)

    def test_weights_are_those_the_losses_were_made_of(self):
        meta = described_meta()
        model = PMF(latent=3, logarithmic=False, kernel="linear", encodings=False, steps=0).meta_fit(meta)
        losses = np.asarray(meta.losses)
        standardised = (losses - losses.mean(axis=1, keepdims=True)) / losses.std(axis=1, keepdims=True)
        prior = model.prior
        found = linear_weights(prior, standardised, np.isfinite(losses), np.random.default_rng(0))
        again = prior.recorded.means + found @ (prior.recorded.points * np.sqrt(prior.kernel.linear)).T
        assert ((again - standardised) ** 2).mean() < 0.05

    def test_they_tell_of_a_task_before_anything_is_tried(self):
        meta = described_meta()
        errors, spread = {}, {}
        for name in (None, "described"):
            model = PMF(**QUICK, metafeatures=name).meta_fit(meta.select(range(10, 80)))
            errors[name], spread[name] = [], []
            for row in range(10):
                vector = {"described": meta.metafeatures["described"][row]}
                task = Task(pool_task(meta, row).candidates, metafeatures=vector)
                found = model.start(task).fit(History(task.candidates)).predict(task.candidates.pool)
                errors[name].append(1 - np.corrcoef(found.mean, meta.loss_row(row))[0, 1])
                spread[name].append(found.std.mean())
        assert np.mean(errors["described"]) < 0.7 * np.mean(errors[None])
        assert np.mean(spread["described"]) < 0.8 * np.mean(spread[None])

    def test_a_task_without_any_is_expected_to_be_like_the_others(self):
        meta = described_meta(30)
        pool = Task(pool_task(meta, 0).candidates)
        with_them, without = (PMF(**QUICK, metafeatures=name).meta_fit(meta) for name in ("any", None))
        history = history_of(meta, 0, pool, [1, 2, 3])
        one, two = (m.start(pool).fit(history).predict(pool.candidates.pool) for m in (with_them, without))
        np.testing.assert_array_equal(one.mean, two.mean)

    def test_they_are_kept_in_a_file(self, tmp_path):
        meta = described_meta(30)
        model = PMF(**QUICK).meta_fit(meta)
        assert "tasks.dual" in model.learned
        model.save(tmp_path / "m.npz")
        pool = pool_task(meta, 0)
        task = Task(pool.candidates, metafeatures={"described": meta.metafeatures["described"][0]})
        one, two = (
            m.start(task).fit(History(task.candidates)).predict(task.candidates.pool)
            for m in (model, PMF.load(tmp_path / "m.npz"))
        )
        np.testing.assert_array_equal(one.mean, two.mean)

    def test_what_must_hold(self):
        with pytest.raises(InvalidInput, match="linear=True"):
            PMF.paper(metafeatures="described")
        with pytest.raises(InvalidInput, match="3 tasks"):
            TaskRegression.learn("described", np.zeros((2, 3)), np.zeros((2, 1)))
        with pytest.raises(InvalidInput, match="the 3 meta-features"):
            TaskRegression.learn("described", np.eye(3), np.ones((3, 1)))(np.zeros(4))

    def test_a_task_without_losses_is_left_out(self):
        meta = described_meta(30)
        losses = np.array(meta.losses)
        losses[4] = np.nan
        meta = MetaDataset(meta.pipelines, losses, meta.tasks, metafeatures=dict(meta.metafeatures))
        assert "tasks.dual" in PMF(**QUICK).meta_fit(meta).learned


class TestPipelines:
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch):
        monkeypatch.setattr("headstart.methods.pmf.side_information.MAP_STEPS", 1000)

    @pytest.fixture
    def meta(self):
        """Losses are smooth functions of the encodings, so that the place of a pipeline can be told from its own."""
        rng = np.random.default_rng(1)
        small = small_meta(n_tasks=1, n_pipelines=500, missing=0.0)
        features = small.pipelines.features()
        directions = rng.standard_normal((features.shape[1], 3)) / np.sqrt(features.shape[1])
        basis = np.tanh(2 * features @ directions)
        losses = 0.5 + 0.1 * rng.standard_normal((40, 3)) @ basis.T
        return MetaDataset(small.pipelines, losses, [f"task {t}" for t in range(40)])

    def test_unseen_pipelines_are_ranked(self, meta):
        pytest.importorskip("torch")
        known = MetaDataset(meta.pipelines.take(range(400)), np.asarray(meta.losses)[1:, :400], meta.tasks[1:])
        model = PMF(**QUICK, unseen=True).meta_fit(known)
        task = pool_task(meta, 0)
        history = history_of(meta, 0, task, [*range(10), *range(400, 410)])
        found = model.start(task).fit(history).predict(task.candidates.pool)
        new = slice(410, 500)
        assert np.corrcoef(found.mean[new], meta.loss_row(0)[new])[0, 1] > 0.8
        assert np.corrcoef(found.mean[10:400], meta.loss_row(0)[10:400])[0, 1] > 0.9

    def test_meta_features_tell_of_unseen_pipelines_too(self, meta):
        pytest.importorskip("torch")
        features = np.random.default_rng(0).standard_normal((40, 3))
        basis = np.asarray(meta.losses)[:3] - 0.5
        losses = 0.5 + features @ basis
        described = MetaDataset(meta.pipelines, losses, meta.tasks, metafeatures={"d": features})
        known = MetaDataset(
            meta.pipelines.take(range(400)), losses[1:, :400], meta.tasks[1:], metafeatures={"d": features[1:]}
        )
        model = PMF(**QUICK, unseen=True).meta_fit(known)
        task = Task(pool_task(described, 0).candidates, metafeatures={"d": features[0]})
        found = model.start(task).fit(History(task.candidates)).predict(task.candidates.pool)
        for part in (slice(0, 400), slice(400, 500)):
            assert np.corrcoef(found.mean[part], losses[0][part])[0, 1] > 0.7

    def test_its_own_errors_make_it_less_sure(self, meta):
        pytest.importorskip("torch")
        model = PMF(**QUICK, unseen=True).meta_fit(meta)
        located, seconds = PipelineMap(model.learned)(meta.pipelines.features())
        assert seconds is None
        assert (located.total_noise > float(model.learned["map.wrong"])).all()
        assert float(model.learned["map.wrong"]) > 0


class TestSeconds:
    def test_relative_to_what_else_was_run_on_the_task(self):
        base = np.array([1.0, 2.0, 4.0, 8.0])
        seconds = np.stack([base, 10 * base, 0.1 * base])
        seconds[0, 3] = np.nan
        found = relative_log_seconds(seconds[1:] - OVERHEAD_SECONDS)
        np.testing.assert_allclose(np.diff(found), np.log(2.0))
        assert np.isfinite(relative_log_seconds(seconds)).all()
        assert (relative_log_seconds(np.full((2, 3), np.nan)) == 0).all()

    def test_expected_improvement_for_a_second(self):
        small = small_meta(missing=0.0)
        seconds = np.random.default_rng(0).random(small.losses.shape) + 0.1
        meta = MetaDataset(small.pipelines, np.asarray(small.losses), small.tasks, seconds=seconds)
        model = PMF(**QUICK).meta_fit(meta.select([1, 2, 3, 4, 5]))
        task = pool_task(meta, 0)
        history = history_of(meta, 0, task, [3, 4])
        started, pool = model.start(task).fit(history), task.candidates.pool
        plain, timed = LogEI()(started, history, pool), LogEIPerSecond(power=1.0)(started, history, pool)
        np.testing.assert_allclose(plain - timed, relative_log_seconds(seconds[1:]), atol=1e-5)

    def test_seconds_of_another_task_are_not_taken_for_those_of_this_one(self):
        meta = small_meta(missing=0.0)
        task, shared, scores = pool_task(meta, 0), LogEIPerSecond(), []
        for order in (1, -1):
            history = history_of(meta, 0, task, list(range(12)))
            seconds = np.geomspace(0.1, 10.0, 12)[::order]
            timed = zip(history, seconds, strict=True)
            history.trials[:] = [replace(t, outcome=replace(t.outcome, seconds=s)) for t, s in timed]
            model = GPSurrogate().start(task).fit(history)
            scores.append([made(model, history, task.candidates.pool) for made in (shared, LogEIPerSecond())])
        for one, fresh in scores:
            np.testing.assert_array_equal(one, fresh)
        assert not np.allclose(scores[0][0], scores[1][0])
