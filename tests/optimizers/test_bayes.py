"""Constraints inside of the search."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from headstart.baselines.taf import TAFRanking
from headstart.constraints import Constraint
from headstart.evaluation.synthetic import Synthetic
from headstart.optimizers.base import decision_stream
from headstart.optimizers.bayes import Bayes, scores_of
from headstart.space import Algorithm, Float, PipelineSpace, Stage
from headstart.study import Study
from headstart.surrogates.acquisition import LogEI
from headstart.surrogates.base import Prediction
from headstart.surrogates.feasibility import Feasibility
from headstart.task import Task
from headstart.testing.examples import bounded, evaluate, feed, live_task, pool_task, random_trials, small_meta

CANDIDATES = live_task().candidates.sample(np.random.default_rng(1), 40)


def started(acquisition="log_ei", n=25, bound=None, task=None, surrogate="forest"):
    task = bounded(task or live_task())
    if bound is not None:
        task = replace(task, constraints=[Constraint("cost", bound)])
    optimizer = Bayes(surrogate, acquisition, n_samples=50, n_starts=2).start(task)
    feed(optimizer, random_trials(task, n))
    optimizer._model.fit(optimizer.history)
    return optimizer


def test_score_is_the_expected_feasible_improvement():
    """E[max(0, y* - f) 1(c <= b)] with the best feasible y*, by simulation."""
    optimizer = started()
    history = optimizer.history
    best = min(t.outcome.loss for t in history if t.outcome.ok and history.is_feasible(t))
    assert best > min(t.outcome.loss for t in history if t.outcome.ok)
    found = np.exp(scores_of(optimizer._model, optimizer._acquisition, history)(CANDIDATES))
    prediction = optimizer._model.predict(CANDIDATES)
    rng = np.random.default_rng(0)
    gain = np.maximum(0.0, best - rng.normal(prediction.mean, prediction.std, (200_000, 40)))
    feasible = rng.random(gain.shape) < np.exp(Feasibility(history).log_probability(CANDIDATES))
    np.testing.assert_allclose(found, (gain * feasible).mean(axis=0), rtol=0.05, atol=2e-4)


def test_score_agrees_with_botorch():
    torch = pytest.importorskip("torch")
    pytest.importorskip("botorch")
    from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
    from botorch.models.model import Model

    optimizer = started()
    history = optimizer.history
    best = min(t.outcome.loss for t in history if t.outcome.ok and history.is_feasible(t))
    prediction = optimizer._model.predict(CANDIDATES)
    ((forest, bound),) = Feasibility(history)._models
    moments = [(prediction.mean, prediction.std), forest.posterior(CANDIDATES.features(-1.0))]
    means, stds = (torch.as_tensor(np.column_stack(part)) for part in zip(*moments, strict=True))

    class Known(Model):
        """Says of candidate x what we have predicted for it."""

        num_outputs = 2

        def posterior(self, X, *args, **kwargs):
            place = X[..., 0].long()
            return SimpleNamespace(mean=means[place], variance=stds[place] ** 2)

    acquisition = LogConstrainedExpectedImprovement(Known(), best, 0, {1: (None, bound)}, maximize=False)
    expected = acquisition(torch.arange(40, dtype=torch.double).reshape(40, 1, 1)).numpy()
    np.testing.assert_allclose(
        scores_of(optimizer._model, optimizer._acquisition, history)(CANDIDATES), expected, rtol=1e-6
    )


def test_nothing_feasible_yet():
    """Then the probability of feasibility alone decides."""
    optimizer = started(bound=1e-6)
    history = optimizer.history
    expected = Feasibility(history).log_probability(CANDIDATES)
    np.testing.assert_array_equal(scores_of(optimizer._model, optimizer._acquisition, history)(CANDIDATES), expected)


@pytest.mark.parametrize("acquisition", ["log_ei", "log_ei_per_second", "greedy"])
def test_every_acquisition_is_weighed_the_same(acquisition):
    optimizer = started(acquisition)
    history = optimizer.history
    weighed = scores_of(optimizer._model, optimizer._acquisition, history)(CANDIDATES) - Feasibility(
        history
    ).log_probability(CANDIDATES)
    kept = [t for t in history if history.is_feasible(t)]
    best = min(t.outcome.loss for t in kept if t.outcome.ok)
    free = history.view(constraints=(), scalarize=lambda t: max(best, t.outcome.loss))
    np.testing.assert_allclose(weighed, optimizer._acquisition(optimizer._model, free, CANDIDATES), atol=1e-9)


def test_a_transfer_acquisition_too():
    meta = small_meta()
    task = bounded(pool_task(meta))
    optimizer = TAFRanking(n_live=3).meta_fit(meta.select([1, 2, 3, 4, 5])).start(task)
    feed(optimizer, random_trials(task, 20))
    optimizer._model.fit(optimizer.history)
    pool = task.candidates.pool
    free = optimizer._acquisition(optimizer._model, optimizer.history, pool)
    found = scores_of(optimizer._model, optimizer._acquisition, optimizer.history)(pool)
    assert (found != free).all()
    assert np.isfinite(found).all()


def test_a_bound_that_always_holds_changes_no_proposal():
    task = live_task()
    loose = replace(task, constraints=[Constraint("cost", np.inf)])
    runs = []
    for each in (task, loose):
        optimizer = Bayes(n_samples=50, n_starts=2).start(each, 3)
        for _ in range(15):
            (proposal,) = optimizer.ask(1)
            optimizer.tell(evaluate(proposal, loose, 3, 0.2))
        runs.append([t.pipeline for t in optimizer.history])
    assert runs[0] == runs[1]


def test_a_view_without_constraints_is_searched_without_them():
    """A sub-solver whose targets have the constraints already must not count them twice."""
    task = bounded(live_task())
    whole = Bayes(n_samples=50, n_starts=2).start(task)
    feed(whole, random_trials(task, 20))
    part = Bayes(n_samples=50, n_starts=2).start(task, 0, whole.history.view(constraints=()))
    plain = Bayes(n_samples=50, n_starts=2).start(live_task())
    feed(plain, whole.history.trials)
    rngs = [decision_stream(0, 20) for _ in range(3)]
    assert part.suggest(20, rngs[0]) == plain.suggest(20, rngs[1]) != whole.suggest(20, rngs[2])


def test_finds_a_feasible_optimum_that_filtered_random_search_misses():
    """The best loss is out of bounds by far, and one in ten random pipelines is within them."""
    floats = [Float(f"x{i}", 0, 1) for i in range(3)]
    space = PipelineSpace("floats", [Stage("estimator", [Algorithm(n, "sklearn.svm:SVC", floats) for n in "ab"])])
    objective = Synthetic(space, 3, constraint="cost")
    task = Task(space, constraints=[Constraint("cost", 0.3)])
    bayes = Bayes(n_samples=200, n_starts=2)
    runs = {
        name: [Study(task, objective, o, seed=s).run(evaluations=30) for s in range(3)]
        for name, o in (("bayes", bayes), ("random", "random"))
    }
    losses = {name: [1.0 if h.best is None else h.best.outcome.loss for h in run] for name, run in runs.items()}
    shares = {name: np.mean([[h.is_feasible(t) for t in h] for h in run]) for name, run in runs.items()}
    assert np.mean(losses["bayes"]) < np.mean(losses["random"]) - 0.01
    assert shares["bayes"] > 2 * shares["random"]


def test_results_on_record_from_before_polishing_are_known_by_their_settings():
    assert "n_polished" not in Bayes("gp").describe()
    assert Bayes("gp", n_polished=3).describe()["n_polished"] == 3


def test_without_a_deviation_improvement_orders_as_a_vanishing_one_that_all_share():
    mean = np.random.default_rng(0).standard_normal(30)
    history = SimpleNamespace(targets=lambda: np.array([-0.5]), ok=np.array([True]))

    def scores(std):
        surrogate = SimpleNamespace(predict=lambda _: Prediction(mean, std), transform_targets=lambda targets: targets)
        return LogEI()(surrogate, history, CANDIDATES)

    without, vanishing = scores(None), scores(np.full(30, 1e-3))
    np.testing.assert_array_equal(np.argsort(without), np.argsort(vanishing))
    assert np.isfinite(without).all()
