"""Mosaic.MetaLearning: pipelines of the nearest datasets first, then as Mosaic.Vanilla."""

from collections import Counter

from headstart.methods.mosaic import Mosaic, tree_of
from headstart.optimizers.nearest import Nearest
from headstart.optimizers.warm_start import with_warm_start
from headstart.testing.examples import evaluate, pool_task, small_meta


def test_the_nearest_come_first_then_defaults_then_random_ones_then_the_tree():
    task = pool_task(small_meta(missing=0.0))
    near = Nearest(neighbours=5).meta_fit(small_meta(missing=0.0).select([1, 2, 3, 4, 5]))
    warm = with_warm_start(task, near, 6)
    run = Mosaic(random_starts=2, policy_samples=5, playout_samples=10).start(warm)
    made = []
    for _ in range(20):
        (proposal,) = run.ask(1)
        made.append(proposal)
        run.tell(evaluate(proposal, task))
    reasons = [proposal.origin["by"] for proposal in made]
    assert reasons == sorted(reasons, key=["initial", "default", "start", "mosaic"].index)
    counts = Counter(reasons)
    assert counts["initial"] == 6
    assert 1 <= counts["default"] <= 3  # of three estimators, unless it is among the first six
    assert counts["start"] == 6
    assert len({proposal.pipeline for proposal in made}) == 20
    root = tree_of(run.history, run.decisions)
    for pipeline in warm.initial:  # what was begun with counts in the tree
        assert pipeline.algorithms[-1] in root.children
