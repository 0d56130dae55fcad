"""PMF: contract, likelihood and gradients against direct computations, recovery of a low-rank matrix."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from headstart.errors import InvalidInput, UnknownName, UnknownPipeline
from headstart.evaluation.recorded import Replay
from headstart.history import History
from headstart.learning.monitor import Monitor, monitored
from headstart.learning.training import Training
from headstart.metadata import MetaDataset
from headstart.methods.pmf import PMF
from headstart.methods.pmf.training import Held, likelihood, loss_and_gradient, train_prior
from headstart.numerics.latent_kernel import LatentKernel
from headstart.optimizers.bayes import Bayes
from headstart.surrogates.latent_prior import LatentPrior, PoolRows
from headstart.surrogates.posterior import Located
from headstart.testing import OptimizerContract, SurrogateContract
from headstart.testing.examples import live_task, pool_task, small_meta
from headstart.trials import Limits, Proposal, Trial

QUICK = {"latent": 3, "steps": 30, "training": {"n_tasks": 4, "n_pipelines": 30, "check_every": 10}}


class TestContract(SurrogateContract):
    live = False

    def make(self):
        return PMF(**QUICK)

    def test_refuses_pipelines_it_does_not_know(self):
        task = live_task()
        with pytest.raises(UnknownPipeline, match="knows only"):
            self.model(task).fit(self.history(task)).predict(self.candidates(task))


class TestPaper(TestContract):
    def make(self):
        return PMF.paper(**QUICK)


class TestUnseen(SurrogateContract):
    @pytest.fixture(autouse=True)
    def short(self, monkeypatch):
        monkeypatch.setattr("headstart.methods.pmf.side_information.MAP_STEPS", 5)

    def make(self):
        pytest.importorskip("torch")
        return PMF(**QUICK, unseen=True)


class TestSearch(OptimizerContract):
    live = False
    seeded = False

    def make(self, task):
        return Bayes(PMF(**{**QUICK, "steps": 0}), n_initial=0)


def told(meta, task, columns):
    """A history of recorded pipelines on one task."""
    pool = pool_task(meta, task)
    history, replay = History(pool.candidates), Replay(meta, task)
    for number, pipeline in enumerate(meta.pipelines.take(columns)):
        proposal = Proposal(number, pipeline)
        history.propose(proposal)
        history.add(Trial(proposal, replay(pipeline, Limits(), 0), 0.0, 0.0))
    return pool, history


class TestLikelihood:
    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(0)
        covariance = np.cov(rng.standard_normal((6, 20)))
        known = rng.random((4, 6)) > 0.3
        known[3] = False
        return covariance, 0.1 + rng.random(6), rng.standard_normal((4, 6)), known

    def test_is_that_of_the_cells_that_are_known(self, problem):
        covariance, noise, residuals, known = problem
        total = 0.0
        for values, there in zip(residuals, known, strict=True):
            if there.any():
                part = covariance[np.ix_(there, there)] + np.diag(noise[there])
                total -= multivariate_normal(np.zeros(there.sum()), part).logpdf(values[there])
        assert likelihood(covariance, noise, residuals, known)[0] == pytest.approx(total, rel=1e-6)

    def test_gradients(self, problem):
        covariance, noise, residuals, known = problem
        _, by_covariance, by_residuals = likelihood(*problem)

        def of_covariance(vector):
            change = vector.reshape(6, 6)
            return likelihood(covariance + (change + change.T) / 2, noise, residuals, known)[0]

        numeric = approx_fprime(np.zeros(36), of_covariance, 1e-6).reshape(6, 6)
        np.testing.assert_allclose(by_covariance, numeric, atol=1e-4)
        numeric = approx_fprime(
            residuals.ravel(), lambda v: likelihood(covariance, noise, v.reshape(4, 6), known)[0], 1e-6
        )
        np.testing.assert_allclose(by_residuals.ravel(), numeric, atol=1e-4)


def example_prior(scaled=True, kind="matern52", n=7):
    rng = np.random.default_rng(3)
    located = Located(
        rng.standard_normal((n, 3)), rng.standard_normal(n), 0.2 + rng.random(n), rng.standard_normal((n, 4))
    )
    kernel = LatentKernel(kind, 0.5 + rng.random(3), 0.7, 0.2 + rng.random(3))
    describe = LatentKernel("matern52", np.full(4, 1.3), 0.4, np.zeros(4))
    return LatentPrior(located, kernel, 0.5, 0.1, np.ones(1), scaled, describe)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("kind", ["matern52", "squared_exponential"])
class TestPrior:
    def test_gradient_of_all_that_is_learned(self, scaled, kind):
        prior = example_prior(scaled, kind)
        rng = np.random.default_rng(0)
        losses, known = rng.standard_normal((3, 7)), rng.random((3, 7)) > 0.2

        def changed(name, values):
            at, kernel, describe = prior.recorded, prior.kernel, prior.describe
            if name == "points":
                at = replace(at, points=values.reshape(7, 3))
            elif name == "means":
                at = replace(at, means=values)
            elif name == "log_noise":
                at = replace(at, noise=np.exp(values))
            elif name == "log_level":
                at = replace(at, noise=at.noise * np.exp(values[0]))
            elif name == "log_describe":
                describe = replace(
                    describe, length_scales=np.full(4, np.exp(values[0])), output_scale=np.exp(values[1])
                )
            else:
                value = np.exp(values) if len(values) > 1 else float(np.exp(values[0]))
                kernel = replace(kernel, **{name.removeprefix("log_"): value})
            return replace(prior, recorded=at, kernel=kernel, describe=describe)

        at_now = {
            "points": prior.recorded.points.ravel(),
            "means": prior.recorded.means,
            "log_noise": np.log(prior.recorded.noise),
            "log_level": np.zeros(1),
            "log_describe": np.log([1.3, 0.4]),
            "log_length_scales": np.log(prior.kernel.length_scales),
            "log_output_scale": np.log([prior.kernel.output_scale]),
            "log_linear": np.log(prior.kernel.linear),
        }
        _, gradient = loss_and_gradient(prior, np.where(known, losses - prior.recorded.means, 0.0), known)
        assert set(gradient) == set(at_now)
        for name, start in at_now.items():

            def loss(values, name=name):
                now = changed(name, values)
                return loss_and_gradient(now, np.where(known, losses - now.recorded.means, 0.0), known)[0]

            numeric = approx_fprime(start, loss, 1e-6)
            np.testing.assert_allclose(gradient[name].ravel(), numeric, rtol=1e-3, atol=1e-4, err_msg=name)

    def test_rows_and_variances_agree_with_the_covariances(self, scaled, kind):
        prior = example_prior(scaled, kind)
        at = prior.recorded
        full = prior.covariance(at, at)
        rows = np.stack([PoolRows(prior).row(place) for place in range(7)])
        np.testing.assert_allclose(rows, full, atol=1e-5)
        np.testing.assert_allclose(prior.variance(at), np.diag(full))


class TestTraining:
    def test_goes_on_where_it_was_stopped(self, tmp_path):
        start = example_prior(n=30)
        rng = np.random.default_rng(0)
        losses = rng.standard_normal((12, 30))
        held = Held(rng.standard_normal((4, 30)), np.ones((4, 30), dtype=bool))
        training = Training(0.02, check_every=10, patience=5, n_tasks=5, n_pipelines=12)

        class Stopped(Exception):
            pass

        def stop(check):
            if check.step == 20:
                raise Stopped

        given = (start, losses, losses < 2, held, 40, training)
        whole, checks = train_prior(*given)
        kept = {"state": tmp_path / "state", "key": "k", "seconds": 0.0}
        with pytest.raises(Stopped), monitored(Monitor(stop, **kept)):
            train_prior(*given)
        seen = []
        with monitored(Monitor(seen.append, resume=True, **kept)):
            rest, again = train_prior(*given)
        assert [(check.step, check.again) for check in seen] == [(k, k < 20) for k in range(0, 50, 10)]
        np.testing.assert_array_equal(whole.recorded.points, rest.recorded.points)
        np.testing.assert_array_equal(checks.checks[:, :2], again.checks[:, :2])

    def test_raises_the_likelihood_of_other_tasks(self):
        meta = low_rank(missing=0.3)
        training = {"n_tasks": 10, "n_pipelines": 40, "check_every": 50}
        model = PMF.paper(latent=3, steps=200, training=training).meta_fit(meta)
        steps, values, _ = model.validation_losses.T
        assert steps[0] == 0
        assert values.min() < values[0] - 0.05

    def test_stops_early_and_keeps_the_best(self):
        meta = low_rank(missing=0.3)
        rng = np.random.default_rng(0)
        noise = rng.standard_normal((5, 50))  # nothing that is learned helps here
        start = LatentPrior(
            Located(rng.standard_normal((50, 2)), np.zeros(50), np.ones(50)),
            LatentKernel("matern52", np.ones(2), 1.0, np.ones(2)),
            0.0,
            1.0,
            np.ones(1),
        )
        losses = np.nan_to_num(np.asarray(meta.losses) * 30)
        training = Training(0.1, check_every=5, patience=3, n_tasks=5, n_pipelines=20)
        _, trained = train_prior(start, losses, np.isfinite(meta.losses), Held(noise, noise < 9), 1000, training)
        assert trained.checks[-1, 0] < 1000
        best = trained.checks[:, 1].argmin()
        assert trained.checks[-1, 0] - trained.checks[best, 0] >= 15

    def test_the_same_seed_gives_the_same_points(self):
        one, two, other = (
            PMF(**QUICK, trained="all", seed=seed).meta_fit(small_meta()).prior.recorded.points for seed in (1, 1, 2)
        )
        np.testing.assert_array_equal(one, two)
        assert not np.array_equal(one, other)

    def test_validation_tasks_decide_when_they_are_given(self):
        meta = small_meta(n_tasks=8)
        part = meta.learning(range(6), [6, 7])
        alone = PMF(**QUICK).meta_fit(part)
        others = PMF(**QUICK).meta_fit(meta.select(range(6)))
        assert not np.array_equal(alone.validation_losses[:, 1], others.validation_losses[:, 1])


class TestFile:
    def test_what_was_saved_predicts_the_same(self, tmp_path):
        meta = small_meta(missing=0.2)
        model = PMF(**QUICK).meta_fit(meta.select([1, 2, 3, 4, 5]))
        model.save(tmp_path / "pmf.npz")
        task, history = told(meta, 0, [0, 5, 9])
        pool = task.candidates.pool
        one, two = (m.start(task).fit(history).predict(pool) for m in (model, PMF.load(tmp_path / "pmf.npz")))
        np.testing.assert_array_equal(one.mean, two.mean)
        np.testing.assert_array_equal(one.std, two.std)


class TestPosterior:
    @pytest.mark.parametrize(("single", "tolerance", "expected"), [(False, 1e-7, 1.0), (True, 1e-4, 0.5)])
    @pytest.mark.parametrize("kernel", ["squared_exponential", "matern52"])
    def test_agrees_with_a_gaussian_process_on_the_same_points(self, monkeypatch, kernel, single, tolerance, expected):
        monkeypatch.setattr(PMF, "single", single)
        meta = small_meta(missing=0.0)
        model = PMF.paper(latent=3, kernel=kernel, mean=expected, steps=0).meta_fit(meta.select([1, 2, 3, 4, 5]))
        prior, at = model.prior, model.prior.recorded
        columns = np.arange(0, 40, 3)
        task, history = told(meta, 0, columns)
        found = model.start(task).fit(history).predict(task.candidates.pool)
        lengths = prior.kernel.length_scales
        shape = RBF(lengths) if kernel == "squared_exponential" else Matern(lengths, nu=2.5)
        oracle = GaussianProcessRegressor(
            ConstantKernel(prior.kernel.output_scale) * shape, alpha=at.noise[0], optimizer=None
        ).fit(at.points[columns], expected - history.targets())  # if 1 is expected: accuracies
        mean, std = oracle.predict(at.points, return_std=True)
        new = np.setdiff1d(np.arange(60), columns)
        np.testing.assert_allclose(expected - found.mean[new], mean[new], atol=tolerance)
        np.testing.assert_allclose(found.std[new] ** 2, std[new] ** 2 + at.noise[0], atol=tolerance)

    def test_a_pipeline_that_nothing_is_known_of_is_expected_to_be_bad_by_the_paper(self):
        meta = small_meta(missing=0.0)
        model = PMF.paper(latent=3, steps=0).meta_fit(meta.select([1, 2, 3, 4, 5]))
        task, history = told(meta, 0, [])
        found = model.start(task).fit(history).predict(task.candidates.pool)
        np.testing.assert_allclose(found.mean, 1.0)

    def test_the_paper_starts_at_principal_components_of_accuracies(self):
        """Without means taken off, so that the first one is what all tasks share."""
        meta = small_meta(missing=0.0, n_tasks=30)
        prior = PMF.paper(latent=3, steps=0).meta_fit(meta.learning(range(24), range(24, 30))).prior
        accuracies = 1.0 - np.asarray(meta.losses[:24], dtype=np.float64)
        expected = np.linalg.svd(accuracies, full_matrices=False)[2][:3].T
        expected /= expected.std(axis=0)
        np.testing.assert_allclose(np.abs(prior.recorded.points), np.abs(expected), atol=1e-3)

    def test_without_observations_it_is_the_prior(self):
        meta = small_meta(missing=0.0)
        model = PMF(**QUICK, metafeatures=None).meta_fit(meta.select([1, 2, 3, 4, 5]))
        prior = model.prior
        task, history = told(meta, 0, [])
        found = model.start(task).fit(history).predict(task.candidates.pool)
        scale = prior.scales.mean()
        np.testing.assert_allclose(found.mean, prior.offset_mean + scale * prior.recorded.means)
        assert (found.std > 0).all()

    def test_recovers_a_low_rank_matrix_of_which_most_is_missing(self):
        meta = low_rank(missing=0.8, n_tasks=150)
        train_tasks = list(range(1, 150))
        settings = {
            "logarithmic": False,
            "encodings": False,
            "trained": "all",
            "training": {"n_tasks": 30, "n_pipelines": 50, "check_every": 50},
        }
        model = PMF(latent=3, kernel="linear", steps=300, **settings)
        model.meta_fit(meta.select(train_tasks))
        task, history = told(meta, 0, range(15))
        truth = meta.loss_row(0)
        found = model.start(task).fit(history).predict(task.candidates.pool).mean
        rest = slice(15, None)
        left = ((found - truth)[rest] ** 2).mean() / truth[rest].var()
        assert left < 0.2


@pytest.mark.parametrize(
    "wrong",
    [
        {"latent": 0},
        {"mean": "none"},
        {"mean": float("nan")},
        {"noise": "x"},
        {"steps": -1},
        {"trained": "x"},
        {"failures": "x"},
        {"training": {"n_pipelines": 0}},
    ],
)
def test_bad_settings(wrong):
    with pytest.raises(InvalidInput):
        PMF(**wrong)


def test_an_unknown_kernel():
    with pytest.raises(UnknownName, match="squared_exponential"):
        PMF(kernel="rbf")


def low_rank(missing, n_tasks=40, n_pipelines=50):
    """Losses of rank 3 and means of pipelines, some cells missing but for the first task."""
    rng = np.random.default_rng(0)
    small = small_meta(n_tasks=1, n_pipelines=n_pipelines, missing=0.0)
    truth = rng.standard_normal((n_tasks, 3)) @ rng.standard_normal((3, n_pipelines)) + rng.standard_normal(n_pipelines)
    losses = 0.5 + 0.1 * truth
    losses[1:][rng.random(losses[1:].shape) < missing] = np.nan
    return MetaDataset(small.pipelines, losses, [f"task {t}" for t in range(n_tasks)])


def test_meta_features_of_tasks_without_losses_do_not_count():
    meta = small_meta()
    losses = meta.losses.copy()
    losses[0] = np.nan
    vectors = np.full((len(meta), 2), np.nan)
    vectors[:3] = np.arange(6).reshape(3, 2)
    described = meta.changed(losses=losses, metafeatures={"known": vectors})
    assert PMF(**QUICK)._metafeatures_of(described) is None
    vectors[3] = 1.0
    assert PMF(**QUICK)._metafeatures_of(described.changed(metafeatures={"known": vectors})) == "known"
    PMF(**QUICK).meta_fit(described)
