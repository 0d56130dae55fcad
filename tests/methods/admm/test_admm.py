"""What the splitting does as a whole."""

import numpy as np
import pytest

from headstart.constraints import Constraint
from headstart.errors import InvalidInput
from headstart.evaluation.synthetic import Artificial, Synthetic
from headstart.methods.admm import ADMM
from headstart.methods.admm.search import Box, Structures
from headstart.methods.admm.splitting import Structure
from headstart.optimizers.bayes import Bayes
from headstart.space import Algorithm, Categorical, Encoded, Float, Integer, Pipeline, PipelineSpace, Stage
from headstart.space.candidates import Pool
from headstart.space.catalog import load as load_space
from headstart.study import Study
from headstart.task import Task
from headstart.testing.examples import small_space
from headstart.trials import Limits, Outcome, Trial

QUICK = Bayes("gp", n_samples=50, n_starts=1, n_polished=1)
ANY = ADMM("random", budget=6, growth=2)


def searched(space, objective, evaluations=60, optimizer=None, seed=0, constraints=(), n_jobs=1):
    task = Task(space, constraints=constraints)
    study = Study(task, objective, optimizer or ADMM(QUICK, budget=6, growth=2), seed=seed)
    study.run(evaluations=evaluations, n_jobs=n_jobs)
    return study


def test_with_one_algorithm_per_stage_it_is_bayesian_optimisation_of_the_box():
    """Real-valued hyper-parameters alone: nothing is relaxed, nothing to choose, so the sub-solver decides all."""
    params = [Float("x", 0, 1), Float("y", 0, 1)]
    space = PipelineSpace("one", [Stage("only", [Algorithm("a", params=params)])])
    objective = Synthetic(space, 3)
    found = searched(space, objective, 12, ADMM(QUICK, budget=12, most=12, loss_scale=1.0)).history
    task = Task(space, initial=[found[0].pipeline])
    alone = Study(task, objective, QUICK)
    alone.run(evaluations=12)
    assert [t.pipeline for t in found] == [t.pipeline for t in alone.history]


def test_phases_follow_their_budgets():
    history = searched(small_space(), Synthetic(small_space(), 1), 60, ANY).history
    assert history[0].proposal.origin["by"] == "first"
    for iteration in range(2):
        for phase in ("theta", "z"):
            made = [
                t
                for t in history
                if t.proposal.origin.get("iteration") == iteration and t.proposal.origin["by"] == phase
            ]
            assert len(made) <= 6 + 2 * iteration


def test_finds_better_pipelines_than_random_search():
    space = load_space("admm_small")
    ours, theirs = [], []
    for seed in range(5):
        objective = Synthetic(space, seed)
        ours.append(searched(space, objective, 60, seed=seed).history.best.outcome.loss)
        theirs.append(searched(space, objective, 60, "random", seed=seed).history.best.outcome.loss)
    assert np.mean(ours) < np.mean(theirs)


def test_no_pipeline_is_evaluated_twice():
    history = searched(small_space(), Synthetic(small_space(), 1), 60, ANY).history
    assert len({t.pipeline for t in history}) == len(history)


def test_what_is_evaluated_is_the_relaxed_point_rounded():
    space = small_space()
    history = searched(space, Synthetic(space, 1), 50, ANY).history
    relaxed = [t for t in history if t.proposal.origin.get("relaxed")]
    assert relaxed
    between = 0
    for trial in relaxed:
        structure = Structure(trial.pipeline.algorithms)
        box = Box(space, structure)
        point = np.zeros(space.width)
        point[box.columns] = trial.proposal.origin["relaxed"]
        assert space.nearest(point, structure.given(space))[0] == trial.pipeline
        between += not np.allclose(space.encode([trial.pipeline]).values[0, box.columns], point[box.columns])
    assert between > 0


def test_the_box_has_the_columns_of_its_structure():
    space = small_space()
    box = Box(space, Structure(("none", "svm")))
    assert [p.name for s in box.space.stages for a in s.algorithms for p in a.params] == ["kernel", "C", "degree"]
    assert len(box.columns) == box.space.width == 4
    kernel, c, degree = box.space.stages[1].algorithms[0].params
    assert isinstance(kernel, Categorical)
    assert isinstance(degree, Float)
    assert degree.when == {"kernel": ("poly",)}
    assert (c.low, c.high) == (0, 1)
    assert Box(space, Structure(("pca", "svm"))).space.forbidden  # as in the whole space


def test_recorded_structures_are_the_candidates_of_z():
    space = small_space()
    drawn = space.sample(np.random.default_rng(0), 6)
    pool = Pool(Encoded(space, drawn.values, drawn.active, drawn.choice, ids=np.arange(6)))
    found = Structures(pool).candidates
    assert {p.algorithms for p in found.pool} == {p.algorithms for p in pool.pool}


def test_an_order_is_searched_with_the_rest():
    stages = [Stage(s, [Algorithm(f"{s}0"), Algorithm(f"{s}1", params=[Integer("n", 0, 9)])]) for s in "abc"]
    space = PipelineSpace("orders", stages, free_order=True)

    def loss(pipeline, limits, seed, fidelity=None):
        best = pipeline.order[:2] == (1, 0) and pipeline.algorithms[2] == "c1"
        return Outcome.of(0.0 if best else 0.5 + 0.1 * (pipeline.order[0] == 0))

    history = searched(space, loss, 50, ANY).history
    assert history.best.outcome.loss == 0
    assert {t.pipeline.order for t in history} == set(space.orders)


def bounded(space, upper, seed=1, evaluations=60, n_jobs=1):
    objective = Synthetic(space, seed, constraint="cost")
    bound = [Constraint("cost", upper)]
    return searched(space, objective, evaluations, ANY, seed, bound, n_jobs).history


def test_a_constraint_that_all_pipelines_meet_changes_nothing_for_the_worse():
    space = small_space()
    free = searched(space, Synthetic(space, 1, constraint="cost"), 60, ANY, seed=1).history
    history = bounded(space, 10.0)
    assert all(history.is_feasible(t) for t in history)
    assert history.best.outcome.loss <= free.best.outcome.loss + 0.02


def test_a_constraint_that_no_pipeline_meets_ends_well():
    """The search goes on and comes near to the bound."""
    history = bounded(small_space(), 1e-6)
    assert history.best is None
    assert len(history) == 60
    costs = [t.outcome.constraints["cost"] for t in history]
    assert np.mean(costs[30:]) < np.mean(costs[:30])


def test_more_pipelines_satisfy_a_bound_than_without_it():
    space, shares, best = load_space("admm_small"), [], []
    for seed in range(3):
        objective = Synthetic(space, seed, constraint="cost")
        drawn = space.sample(np.random.default_rng(0), 300)
        costs = [objective(p, Limits(), 0).constraints["cost"] for p in drawn]
        bound = Constraint("cost", float(np.quantile(costs, 0.1)))
        row = []
        for constraints in ([bound], []):
            history = searched(space, objective, 60, constraints=constraints, seed=seed).history
            kept = [t for t in history if t.outcome.constraints["cost"] <= bound.upper]
            row.append((len(kept) / len(history), min((t.outcome.loss for t in kept), default=1.0)))
        shares.append([r[0] for r in row])
        best.append([r[1] for r in row])
    constrained, filtered = np.mean(shares, axis=0)
    assert constrained > 2.5 * filtered
    assert np.mean(best, axis=0)[0] <= np.mean(best, axis=0)[1] + 0.02


def test_prices_rise_as_long_as_a_bound_is_exceeded():
    space = small_space()
    task = Task(space, constraints=[Constraint("cost", 1e-6)])
    optimizer = ADMM(QUICK, budget=4, growth=0).start(task, 0)
    objective = Synthetic(space, 1, constraint="cost")
    prices = []
    for _ in range(40):
        (proposal,) = optimizer.ask(1)
        optimizer.tell(Trial(proposal, objective(proposal.pipeline, Limits(), 0), 0.0, 0.0))
        if optimizer._problem is not None:
            prices.append(float(optimizer._problem.split.prices[0]))
    assert prices == sorted(prices)
    assert prices[-1] > prices[0] == 0


def test_parallel_runs_find_the_same_as_often_as_they_are_repeated():
    space = small_space()
    first = bounded(space, 0.2, n_jobs=3, evaluations=40)
    second = bounded(space, 0.2, n_jobs=3, evaluations=40)
    assert [t.proposal for t in first] == [t.proposal for t in second]


@pytest.mark.parametrize("settings", [{"rho": 0}, {"budget": 0}, {"growth": -1}, {"budget": 20, "most": 10}])
def test_settings_are_checked(settings):
    with pytest.raises(InvalidInput):
        ADMM(**settings)


# -- the artificial objective --------------------------------------------------------------------------------------


def test_artificial_objective_by_hand():
    stages = [
        Stage("a", [Algorithm("a0", params=[Float("x", 0, 1), Float("y", 0, 1)])]),
        Stage("b", [Algorithm("none"), Algorithm("b1", params=[Integer("n", 0, 4)])]),
    ]
    space = PipelineSpace("two", stages)
    objective = Artificial(space, seed=5, draws=10)
    rng = np.random.default_rng(5)
    weights, draws = [], []
    for size in (2, 1, 1):
        weights.append(rng.standard_normal(size))
        draws.append(rng.standard_normal(10))
    for values, algorithm in (((0.2, 0.6), "b1"), ((0.0, 0.0), "none")):
        second = {"n": 3} if algorithm == "b1" else {}
        pipeline = Pipeline(["a0", algorithm], [{"x": values[0], "y": values[1]}, second])
        v1 = abs(weights[0] @ values / 0.8) if algorithm == "b1" else abs(weights[0].mean())
        f1 = max(abs(v1 * d) for d in draws[0])
        k = 2 if algorithm == "b1" else 1
        expected = max(abs(f1 + abs(weights[k][0]) * d) for d in draws[k])
        assert objective(pipeline, Limits(), 0).loss == pytest.approx(expected)


def test_artificial_objective_is_finite_on_the_papers_space():
    space = load_space("admm_large")
    objective = Artificial(space)
    losses = [objective(p, Limits(), 0).loss for p in space.sample(np.random.default_rng(0), 200)]
    assert np.isfinite(losses).all()
    assert len(set(losses)) > 150
