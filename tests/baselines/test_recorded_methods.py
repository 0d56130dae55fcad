"""Optimizers that choose among the pipelines of a meta-dataset: the contract, and what each is meant to choose."""

from dataclasses import replace

import numpy as np
import pytest

from headstart.baselines.average_rank import AverageRank
from headstart.baselines.smfo import SMFO, Agreement
from headstart.errors import InvalidInput, NeedsTable, UnknownName
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.normalisation import mean_ranks, normalised_losses, normalised_row
from headstart.optimizers.nearest import Nearest, Neighbourhood
from headstart.optimizers.portfolio import Portfolio, greedy_portfolio
from headstart.optimizers.recorded import KnownCandidates, best_columns
from headstart.space import Algorithm, Encoded, PipelineSpace
from headstart.testing import OptimizerContract
from headstart.testing.examples import evaluate, live_task, pool_task, small_meta, small_space
from headstart.trials import Outcome, Trial


class TestAverageRank(OptimizerContract):
    seeded = False

    def make(self, task):
        return AverageRank()


class TestLearnedPortfolio(OptimizerContract):
    endless = False
    seeded = False

    def make(self, task):
        return Portfolio(size=20)


class TestLearnedPortfolioThenRandom(OptimizerContract):
    def make(self, task):
        return Portfolio(size=5, then="random")


class TestSMFO(OptimizerContract):
    seeded = False

    def make(self, task):
        return SMFO()


class TestNearest(OptimizerContract):
    seeded = False

    def make(self, task):
        return Nearest(neighbours=3)


class TestNearestDrawn(OptimizerContract):
    def make(self, task):
        return Nearest(neighbours=3, distance="l2", order="drawn", depth=20)


@pytest.fixture
def meta():
    return small_meta().select([1, 2, 3, 4, 5])


def drive(optimizer, losses, n):
    """Ask and tell with recorded losses; ids in the order they were tried."""
    chosen = []
    for _ in range(n):
        (proposal,) = optimizer.ask(1)
        chosen.append(proposal.pipeline.id)
        optimizer.tell(Trial(proposal, Outcome.of(float(losses[proposal.pipeline.id])), 0.0, 0.0))
    return chosen


def test_ranks_and_regrets_of_a_row():
    row = np.array([3.0, np.nan, 1.0, 1.0, 7.0])
    np.testing.assert_allclose(normalised_row(row, "rank"), [2 / 3, np.nan, 1 / 6, 1 / 6, 1])
    np.testing.assert_allclose(normalised_row(row, "regret"), [1 / 3, np.nan, 0, 0, 1], rtol=1e-6)
    np.testing.assert_allclose(normalised_row(np.array([2.0, 2.0]), "rank"), [0.5, 0.5])
    np.testing.assert_allclose(normalised_row(np.array([2.0, 2.0]), "regret"), [0, 0])
    with pytest.raises(UnknownName, match="did you mean 'rank'"):
        normalised_losses(small_meta(), "ranks")


def test_few_observations_are_drawn_to_the_middle(meta):
    ranks = normalised_losses(meta, "rank").astype(float)
    scores = mean_ranks(meta, 2.0)
    for p in range(len(meta.pipelines)):
        seen = ranks[np.isfinite(ranks[:, p]), p]
        assert scores[p] == pytest.approx((seen.sum() + 1.0) / (len(seen) + 2.0), abs=1e-6)


def test_average_rank_goes_by_its_scores(meta):
    task = pool_task()
    run = AverageRank(prior_tasks=2.0).meta_fit(meta).start(task)
    chosen = drive(run, dict.fromkeys(meta.pipelines.ids.tolist(), 0.5), 15)
    scores = dict(zip(meta.pipelines.ids.tolist(), mean_ranks(meta, 2.0), strict=True))
    assert chosen == sorted(task.candidates.pool.ids.tolist(), key=lambda i: scores[i])[:15]


def test_greedy_portfolio_is_the_plain_greedy_one(meta):
    ranks = np.nan_to_num(normalised_losses(meta, "rank").astype(float), nan=1.0)
    best, expected = np.ones(len(meta)), []
    for _ in range(4):
        after = np.minimum(best[:, None], ranks).sum(axis=0)
        expected.append(int(after.argmin()))
        best = np.minimum(best, ranks[:, expected[-1]])
    assert greedy_portfolio(meta, 4).tolist() == meta.pipelines.ids[expected].tolist()
    with pytest.raises(InvalidInput, match="must be normalised"):
        greedy_portfolio(meta, 4, "none")


def test_a_learned_portfolio_passes_over_what_is_not_a_candidate(meta):
    everything = Portfolio(size=6).meta_fit(meta).start(pool_task(small_meta(missing=0.0)))
    losses = dict.fromkeys(meta.pipelines.ids.tolist(), 0.5)
    whole = drive(everything, losses, 60)
    assert whole[:3] == greedy_portfolio(meta, 3).tolist()
    task = pool_task()
    allowed = set(task.candidates.pool.ids.tolist())
    assert drive(Portfolio(size=6).meta_fit(meta).start(task), losses, 20) == [i for i in whole if i in allowed][:20]


def test_a_portfolio_without_pipelines_says_what_it_needs():
    with pytest.raises(InvalidInput, match="learn them by meta_fit"):
        Portfolio().start(pool_task())


def test_what_learns_from_tasks_says_so(meta):
    for optimizer in (AverageRank(), SMFO(), Nearest()):
        with pytest.raises(InvalidInput, match="call meta_fit"):
            optimizer.start(pool_task())
        with pytest.raises(InvalidInput, match="without any"):
            optimizer.meta_fit(meta.select([]))


def test_agreement_counts_pairs():
    rng = np.random.default_rng(0)
    losses = rng.integers(0, 4, (9, 5)).astype(np.float32)
    losses[rng.random(losses.shape) < 0.2] = np.nan
    targets = rng.integers(0, 5, 9).astype(float)
    rows = rng.permutation(9)
    agreement = Agreement(losses)
    for n in (0, 1, 4, 9, 6):  # as trials come, and after a start over
        difference, pairs = agreement(rows[:n], targets[:n])
        for t in range(5):
            signs = [
                np.sign(targets[i] - targets[j]) * np.sign(losses[rows[i], t] - losses[rows[j], t])
                for i in range(n)
                for j in range(i)
                if np.isfinite(losses[rows[i], t]) and np.isfinite(losses[rows[j], t])
            ]
            assert difference[t] == sum(signs)
            assert pairs[t] == sum(s != 0 for s in signs)


def test_smfo_takes_the_largest_weighted_gain(meta):
    task = pool_task()
    run = SMFO(sharpness=2.0, prior_pairs=3.0).meta_fit(meta).start(task)
    ids = meta.pipelines.ids.tolist()
    truth = dict(zip(ids, np.random.default_rng(1).random(len(ids)), strict=True))
    regrets = normalised_losses(meta, "regret").astype(float)
    column = {i: c for c, i in enumerate(ids)}
    tried = []
    for _ in range(12):
        weights = np.empty(len(meta))
        for t in range(len(meta)):
            signs = [
                np.sign(truth[a] - truth[b]) * np.sign(regrets[t, column[a]] - regrets[t, column[b]])
                for k, a in enumerate(tried)
                for b in tried[:k]
            ]
            signs = [s for s in signs if np.isfinite(s) and s != 0]
            weights[t] = ((1 + sum(signs) / (len(signs) + 3.0)) / 2) ** 2
        full = np.nan_to_num(regrets, nan=1.0)
        best = full[:, [column[i] for i in tried]].min(axis=1, initial=1.0)
        gain = {
            i: float(weights @ np.maximum(best - full[:, column[i]], 0))
            for i in task.candidates.pool.ids.tolist()
            if i not in tried
        }
        (chosen,) = drive(run, truth, 1)
        if max(gain.values()) > 1e-4:
            assert gain[chosen] == pytest.approx(max(gain.values()), rel=1e-5)
        tried.append(chosen)


def near_lists(meta, task, neighbours, power=1):
    """Ids by loss of the nearest training tasks, by hand."""
    vectors = meta.metafeatures["example"]
    scaled = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    here = (task.metafeatures["example"] - vectors.mean(axis=0)) / vectors.std(axis=0)
    near = np.linalg.norm(scaled - here, power, axis=1).argsort()[:neighbours]
    allowed = set(task.candidates.pool.ids.tolist())
    by_loss = [meta.pipelines.ids[np.argsort(meta.losses[t])].tolist() for t in near]
    return [[i for i in row if i in allowed] for row in by_loss]


@pytest.mark.parametrize(("distance", "power"), [("l1", 1), ("l2", 2)])
def test_nearest_takes_turns(meta, distance, power):
    task = pool_task()
    run = Nearest(neighbours=2, distance=distance).meta_fit(meta).start(task)
    expected = []
    for pair in zip(*near_lists(meta, task, 2, power), strict=True):
        expected += [i for i in pair if i not in expected]
    assert drive(run, dict.fromkeys(meta.pipelines.ids.tolist(), 0.5), 10) == expected[:10]


def test_the_distances_differ():
    vectors = np.random.default_rng(0).normal(size=(30, 4))
    vectors = (vectors - vectors.mean(axis=0)) / vectors.std(axis=0)
    here = vectors[3]
    for distance, power in (("l1", 1), ("l2", 2)):
        expected = np.linalg.norm(vectors - here, power, axis=1).argsort().tolist()
        assert Neighbourhood(vectors, distance).nearest(here).tolist() == expected
    assert Neighbourhood(vectors, "l1").nearest(here).tolist() != Neighbourhood(vectors, "l2").nearest(here).tolist()


def test_meta_features_as_they_are():
    vectors = np.random.default_rng(0).normal(size=(30, 4)) * [1, 1, 1, 50]
    vectors[:, 2] = 7.0  # says nothing
    expected = np.linalg.norm(vectors - vectors[3], axis=1).argsort().tolist()
    assert Neighbourhood(vectors, "l2", standardise=False).nearest(vectors[3]).tolist() == expected
    assert Neighbourhood(vectors, "l2").nearest(vectors[3]).tolist() != expected


def test_fewer_pipelines_than_were_remembered(meta):
    task = pool_task(small_meta(missing=0.0))
    held = Nearest(neighbours=2, depth=30).meta_fit(meta)
    made = {d: held.adjusted(depth=d).start(task) for d in (4, 30)}
    assert max(map(len, made[4]._lists)) == 4
    assert [row[:4].tolist() for row in made[30]._lists] == [row.tolist() for row in made[4]._lists]


def test_nearest_by_mean_rank(meta):
    task = pool_task()
    run = Nearest(neighbours=3, order="mean_rank", depth=8).meta_fit(meta).start(task)
    allowed = set(task.candidates.pool.ids.tolist())
    best = [
        [i for i in meta.pipelines.ids[best_columns(meta, 8)[t]].tolist() if i in allowed] for t in range(len(meta))
    ]
    lists = [next(row for row in best if row == wanted[: len(row)]) for wanted in near_lists(meta, task, 3)]
    last = max(map(len, lists))
    together = set().union(*lists)
    ranks = {i: np.mean([row.index(i) if i in row else last for row in lists]) for i in together}
    chosen = drive(run, dict.fromkeys(meta.pipelines.ids.tolist(), 0.5), len(together))
    assert set(chosen) == together
    assert [ranks[i] for i in chosen] == sorted(ranks.values())


def test_neighbours_are_drawn_by_their_distance(meta):
    task = pool_task(small_meta(missing=0.0))
    learned = Nearest(neighbours=3, order="drawn", depth=4).meta_fit(meta)
    lists = [set(row[:4]) for row in near_lists(meta, task, 3)]
    drawn = [learned.start(task, seed).ask(1)[0] for seed in range(2000)]
    share = np.bincount([proposal.origin["neighbour"] for proposal in drawn], minlength=3) / len(drawn)
    expected = np.exp(-np.arange(1, 4))
    np.testing.assert_allclose(share, expected / expected.sum(), atol=0.03)
    for neighbour, ids in enumerate(lists):
        found = [p.pipeline.id for p in drawn if p.origin["neighbour"] == neighbour]
        assert set(found) == ids
        assert min(found.count(i) for i in ids) > 0.5 * len(found) / len(ids)
    run = learned.start(task)
    everything = set().union(*lists)
    chosen = drive(run, dict.fromkeys(meta.pipelines.ids.tolist(), 0.5), len(everything))
    assert set(chosen) == everything  # none twice
    assert run.ask(1)[0].origin == {"by": "random"}


def test_settings_of_nearest():
    with pytest.raises(InvalidInput, match="distance must be one of l1, l2, got 'l3'"):
        Nearest(distance="l3")
    with pytest.raises(InvalidInput, match="order must be one of turns, mean_rank, drawn"):
        Nearest(order="best")


def test_meta_features_that_are_missing(meta):
    bare = MetaDataset(meta.pipelines, meta.losses, meta.tasks)
    with pytest.raises(NeedsTable, match="has none"):
        Nearest().meta_fit(bare)
    with pytest.raises(UnknownName, match="Known: example"):
        Nearest(metafeatures="other").meta_fit(meta)
    with pytest.raises(NeedsTable, match="no meta-features 'example'"):
        Nearest().meta_fit(meta).start(replace(pool_task(), metafeatures={}))
    with pytest.raises(InvalidInput, match="the 3 meta-features"):
        Nearest().meta_fit(meta).start(replace(pool_task(), metafeatures={"example": np.zeros(2)}))
    holes = np.array([np.nan, 0.0, np.inf])
    assert len(Nearest().meta_fit(meta).start(replace(pool_task(), metafeatures={"example": holes})).ask(5)) == 5


def test_of_equally_good_pipelines_the_better_elsewhere_come_first():
    meta = small_meta(missing=0.0)
    losses = meta.losses.copy()
    losses[0] = 0.0
    same = MetaDataset(meta.pipelines, losses, meta.tasks)
    ranks = mean_ranks(same, 1.0)
    assert best_columns(same, 4)[0].tolist() == np.argsort(ranks, kind="stable")[:4].tolist()
    assert best_columns(same, 3)[2].tolist() == np.argsort(losses[2], kind="stable")[:3].tolist()


def test_recorded_pipelines_in_a_space_that_has_more_and_less(meta):
    wider = small_space().extend("estimator", Algorithm("dummy", "sklearn.dummy:DummyClassifier"))
    narrower = small_space().restrict({"estimator": ["knn", "svm"]})
    assert len(KnownCandidates(meta.pipelines, wider)) == len(meta.pipelines)
    known = KnownCandidates(meta.pipelines, narrower)
    expected = [c for c, p in enumerate(meta.pipelines) if p.algorithms[1] != "naive_bayes"]
    assert known.columns.tolist() == expected
    assert known.encoded[0].params == meta.pipelines[expected[0]].params
    other = PipelineSpace("other", small_space().stages[1:])
    assert len(KnownCandidates(meta.pipelines, other)) == 0


def test_a_live_run_knows_what_it_tried(meta):
    task = live_task()
    run = AverageRank().meta_fit(meta).start(task)
    for _ in range(len(meta.pipelines)):
        (proposal,) = run.ask(1)
        assert proposal.origin["by"] == "average_rank"
        run.tell(evaluate(proposal, task))
    (proposal,) = run.ask(1)
    assert proposal.origin["by"] == "random"


def test_candidates_that_are_not_recorded_come_last(meta):
    part = MetaDataset(Encoded(*_arrays(meta.pipelines[:30])), meta.losses[:, :30], meta.tasks, dict(meta.metafeatures))
    run = AverageRank().meta_fit(part).start(pool_task(small_meta(missing=0.0)))
    chosen = drive(run, dict.fromkeys(meta.pipelines.ids.tolist(), 0.5), 60)
    assert set(chosen[:30]) == set(part.pipelines.ids.tolist())


def _arrays(encoded):
    return encoded.space, encoded.values, encoded.active, encoded.choice, encoded.order, encoded.ids
