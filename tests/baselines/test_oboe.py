"""OBOE and Tensor-OBOE: the contract, their factors, their predictions, their rounds, time."""

import numpy as np
import pytest

from headstart.baselines.oboe import Oboe, relative_seconds
from headstart.baselines.tensor_oboe import TensorOboe, stage_grid
from headstart.errors import InvalidInput, UnknownName
from headstart.metadata.metadataset import MetaDataset
from headstart.space import Algorithm, Categorical, Encoded, PipelineSpace, Stage
from headstart.space.candidates import Pool
from headstart.task import Task
from headstart.testing import OptimizerContract
from headstart.testing.examples import small_meta
from headstart.trials import Outcome, Trial


class TestOboe(OptimizerContract):
    seeded = False

    def make(self, task):
        return Oboe(max_rank=4)


class TestGreedyOboe(OptimizerContract):
    seeded = False

    def make(self, task):
        return Oboe(max_rank=3, observations_per_factor=1.0, first_round=2, design_share=1.0, design="greedy")


class TestTensorOboe(OptimizerContract):
    seeded = False

    def make(self, task):
        return TensorOboe(max_rank=4)


def grid_meta(n_tasks=12, rank=2, seconds=None, missing=0.0):
    """Losses of low rank over all combinations of three stages."""
    rng = np.random.default_rng(0)
    stages = [
        Stage("a", [Algorithm(f"a{i}") for i in range(3)]),
        Stage("b", [Algorithm("b", params=[Categorical("v", ("p", "q", "r", "s"))])]),
        Stage("c", [Algorithm(f"c{i}") for i in range(5)]),
    ]
    space = PipelineSpace("grid", stages)
    drawn = space.sample(rng, 5000).unique()
    assert len(drawn) == 60
    recorded = Encoded(space, drawn.values, drawn.active, drawn.choice, ids=np.arange(60) + 7)
    grid = stage_grid(recorded)
    assert grid is not None
    assert grid[0] == (3, 4, 5)
    core = rng.random((n_tasks, rank)) @ np.stack(
        [np.einsum("i,j,k->ijk", rng.random(3), rng.random(4), rng.random(5)).ravel() for _ in range(rank)]
    )
    losses = np.empty((n_tasks, 60))
    losses[:, grid[1]] = core
    losses[rng.random(losses.shape) < missing] = np.nan
    return MetaDataset(recorded, losses, [str(t) for t in range(n_tasks)], seconds=seconds)


def start(optimizer, meta, test=0):
    train = meta.select(np.arange(1, len(meta)))
    return optimizer.meta_fit(train).start(Task(Pool(meta.pipelines), key="t"))


def drive(run, losses, n):
    trials = []
    for _ in range(n):
        (proposal,) = run.ask(1)
        loss = losses[proposal.pipeline.id - 7]
        outcome = Outcome.of(float(loss)) if np.isfinite(loss) else Outcome.failed("crashed", "no value")
        trials.append(Trial(proposal, outcome, 0.0, 0.0))
        run.tell(trials[-1])
    return trials


@pytest.mark.parametrize("method", [Oboe, TensorOboe])
def test_a_low_rank_task_is_known_after_a_few_observations(method):
    meta = grid_meta(rank=2)
    settings = {"max_rank": 2, "observations_per_factor": 1.0, "first_round": 4, "design_share": 0.5}
    run = start(method(**settings), meta)
    trials = drive(run, meta.losses[0], 3)
    assert [t.proposal.origin["by"] for t in trials] == ["design", "design", "prediction"]
    assert trials[2].outcome.loss == pytest.approx(meta.losses[0].min(), abs=1e-3)
    predicted, rank = run.predict()
    assert rank == 2
    np.testing.assert_allclose(predicted, meta.losses[0][run.known.columns], atol=1e-2)


def test_missing_cells_do_not_spoil_the_factors():
    whole, part = grid_meta(rank=2), grid_meta(rank=2, missing=0.2)
    for method in (Oboe, TensorOboe):
        run = start(method(max_rank=2, observations_per_factor=1.0), part)
        drive(run, whole.losses[0], 6)
        predicted, _ = run.predict()
        error = np.abs(predicted - whole.losses[0][run.known.columns]).mean()
        assert error < 0.25 * whole.losses[0].std()


def test_the_tensor_is_turned_back_into_the_order_of_the_pipelines():
    meta = grid_meta(rank=3)
    found = TensorOboe(max_rank=3).factorise(meta)
    np.testing.assert_allclose(found.matrix(), meta.losses, atol=1e-4)
    np.testing.assert_allclose(found.right @ found.right.T, np.eye(len(found.values)), atol=1e-5)


def test_what_is_no_grid_is_factorised_as_a_matrix():
    meta = small_meta()
    assert stage_grid(meta.pipelines) is None
    part = grid_meta()
    assert stage_grid(part.pipelines[:59]) is None
    one, other = Oboe(max_rank=3).factorise(meta), TensorOboe(max_rank=3).factorise(meta)
    np.testing.assert_array_equal(one.right, other.right)


def test_before_any_observation_the_mean_is_predicted():
    meta = grid_meta(rank=2)
    run = start(Oboe(max_rank=2, design_share=0.0), meta)
    predicted, _ = run.predict()
    np.testing.assert_allclose(predicted, meta.losses[1:].mean(axis=0), atol=1e-4)


def test_failed_trials_do_not_bend_the_prediction():
    meta = grid_meta(rank=2)
    losses = meta.losses[0].copy()
    run = start(Oboe(max_rank=2, observations_per_factor=1.0, first_round=8, design_share=1.0), meta)
    first = drive(run, losses, 1)[0].proposal.pipeline.id
    assert np.isfinite(losses[first - 7])
    (proposal,) = run.ask(1)
    run.tell(Trial(proposal, Outcome.failed("crashed", "no value"), 0.0, 0.0))
    drive(run, losses, 3)
    np.testing.assert_allclose(run.predict()[0], losses[run.known.columns], atol=1e-2)


def test_rounds_double_and_begin_with_a_design():
    run = start(Oboe(max_rank=5, first_round=4, design_share=0.5), grid_meta(rank=4))
    by = [t.proposal.origin["by"] for t in drive(run, grid_meta(rank=4).losses[0], 12)]
    assert by == ["design"] * 2 + ["prediction"] * 2 + ["design"] * 4 + ["prediction"] * 4


def test_rank_grows_with_observations():
    run = start(Oboe(max_rank=5, observations_per_factor=3.0, design_share=0.0), grid_meta(rank=5))
    ranks = [t.proposal.origin["rank"] for t in drive(run, grid_meta(rank=5).losses[0], 20)]
    assert ranks == [5, *(min(5, max(1, n // 3)) for n in range(1, 20))]


def test_relative_seconds():
    seconds = np.outer([1.0, 10.0, 100.0], [1.0, 2.0, 4.0])
    seconds[2, 1] = np.nan
    meta = small_meta(n_tasks=3, n_pipelines=3)
    timed = MetaDataset(meta.pipelines, meta.losses, meta.tasks, seconds=seconds)
    found = relative_seconds(timed)
    assert found[2] / found[0] == pytest.approx(4.0)
    assert found[0] < found[1] < found[2]


def test_time_constrained_designs_are_cheap():
    rng = np.random.default_rng(3)
    seconds = np.tile(np.exp(rng.normal(0, 2, 60)), (12, 1))
    meta = grid_meta(rank=4, seconds=seconds)
    costs = seconds[0] / np.median(seconds[0])

    def spent(time_constrained):
        run = start(Oboe(max_rank=4, first_round=8, design_share=1.0, time_constrained=time_constrained), meta)
        return np.mean([costs[t.proposal.pipeline.id - 7] for t in drive(run, meta.losses[0], 5)])

    assert spent(True) < 0.5 * spent(False)


def test_settings_and_seconds_that_do_not_fit():
    with pytest.raises(InvalidInput, match="has no seconds"):
        Oboe(time_constrained=True).meta_fit(small_meta())
    with pytest.raises(UnknownName, match="did you mean 'greedy'"):
        Oboe(design="greedi")
    with pytest.raises(InvalidInput, match="design_share"):
        Oboe(design_share=1.5)
