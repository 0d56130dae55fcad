import numpy as np
import pytest
from scipy.optimize import minimize

from headstart.optimizers.bayes import polish
from headstart.optimizers.direct import DirectSearch, TrustRegion
from headstart.space import Algorithm, Categorical, Float, Integer, Pipeline, PipelineSpace, Stage
from headstart.study import Study
from headstart.task import Task
from headstart.testing.examples import small_space
from headstart.trials import Outcome

OPTIMUM = np.array([0.31, 0.77, 0.05])


def box():
    return PipelineSpace("box", [Stage("only", [Algorithm("a", params=[Float(n, 0, 1) for n in "xyz"])])])


def bowl(point):
    apart = np.asarray(point) - OPTIMUM
    return float(apart @ np.diag([1.0, 4.0, 2.0]) @ apart + apart[0] * apart[1])


def evaluate(pipeline, limits, seed, fidelity=None):
    return Outcome.of(bowl([pipeline.params[0][n] for n in "xyz"]))


def searched(optimizer, evaluations):
    start = Pipeline(["a"], [{"x": 0.5, "y": 0.5, "z": 0.5}])
    study = Study(Task(box(), initial=[start]), evaluate, optimizer)
    study.run(evaluations=evaluations)
    return study.history


def test_direct_search_finds_the_bottom_of_a_bowl():
    history = searched(DirectSearch(), 150)
    found = [history.best.pipeline.params[0][n] for n in "xyz"]
    np.testing.assert_allclose(found, OPTIMUM, atol=0.01)


def test_direct_search_polls_a_step_along_each_axis_then_half_of_it():
    history = searched(DirectSearch(step=0.25), 8)
    start = np.full(3, 0.5)
    second = history[1].pipeline.params[0]
    apart = np.array([second[n] for n in "xyz"]) - start
    assert sorted(np.abs(apart)) == [0, 0, 0.25]
    assert {t.proposal.origin.get("step") for t in history} - {None} <= {0.25, 0.125, 0.0625}


def test_trust_region_asks_for_the_points_that_the_solver_evaluates():
    """Rebuilt from the history at each suggestion, it makes the same steps as SciPy's COBYQA in one go."""
    points = []

    def target(point):
        points.append(np.round(point, 7))
        return bowl(point)

    options = {"initial_tr_radius": 0.25, "final_tr_radius": 1e-3}
    minimize(target, np.full(3, 0.5), method="COBYQA", bounds=[(0, 1)] * 3, options=options)
    history = searched(TrustRegion(), 25)
    ours = np.array([[t.pipeline.params[0][n] for n in "xyz"] for t in history])
    # The scale of targets, known values at the time, changes rounding errors and nothing else.
    np.testing.assert_allclose(ours[:7], np.array(points[:7]), atol=1e-5)
    assert history.best.outcome.loss == pytest.approx(bowl(OPTIMUM), abs=1e-3)


def test_searches_around_a_point_take_categories_and_conditions():
    space = small_space()
    start = Pipeline(["none", "svm"], [{}, {"kernel": "poly", "C": 1.0, "degree": 3}])

    def loss(pipeline, limits, seed, fidelity=None):
        good = pipeline.algorithms[1] == "svm" and pipeline.params[1]["kernel"] == "rbf"
        return Outcome.of(0.0 if good else 1.0)

    for optimizer in (DirectSearch(), TrustRegion()):
        study = Study(Task(space, initial=[start]), loss, optimizer)
        study.run(evaluations=40)
        assert len({t.pipeline for t in study.history}) == 40
    study = Study(Task(space, initial=[start]), loss, DirectSearch())
    study.run(evaluations=12)
    assert study.history.best.outcome.loss == 0


def test_polishing_ends_where_an_exact_search_does():
    """On a smooth score with a known maximum; whole numbers and choices stay as they are."""
    params = [Float("x", 0, 1), Integer("n", 0, 10), Float("y", 0, 1), Categorical("k", ("a", "b"))]
    space = PipelineSpace("mixed", [Stage("only", [Algorithm("a", params=params)])])
    drawn = space.sample(np.random.default_rng(0), 5)
    x, y = space.columns("only", "a", "x").start, space.columns("only", "a", "y").start

    def score(encoded):
        values = encoded.values
        return -((values[:, x] - 0.3) ** 2) - 3 * (values[:, y] - 1.4) ** 2 - values[:, x] * values[:, y] * 0.1

    exact = minimize(
        lambda p: (p[0] - 0.3) ** 2 + 3 * (p[1] - 1.4) ** 2 + p[0] * p[1] * 0.1, [0.5, 0.5], bounds=[(0, 1)] * 2
    )
    found = polish(drawn, score)
    np.testing.assert_allclose(found.values[:, [x, y]], np.tile(exact.x, (5, 1)), atol=1e-3)
    rest = [c for c in range(space.width) if c not in (x, y)]
    np.testing.assert_array_equal(found.values[:, rest], drawn.values[:, rest])
    assert (score(found) >= score(drawn)).all()
