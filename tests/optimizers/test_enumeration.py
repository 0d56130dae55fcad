import itertools

from headstart.optimizers.enumeration import Enumeration
from headstart.optimizers.halving import SuccessiveHalving
from headstart.space import Algorithm, Float, PipelineSpace, Stage
from headstart.study import Study
from headstart.task import Task
from headstart.trials import Outcome


def structures(forbidden=()):
    stages = [Stage(s, [Algorithm(f"{s}{i}", params=[Float("x", 0, 1)]) for i in range(3)]) for s in "ab"]
    return PipelineSpace("structures", stages, forbidden)


def by_x(pipeline, limits, seed, fidelity=None):
    return Outcome.of(sum(params["x"] for params in pipeline.params), fidelity=fidelity)


def test_every_allowed_structure_is_tried_once():
    space = structures(forbidden=[{"a": ["a1"], "b": ["b0", "b2"]}])
    study = Study(Task(space), by_x, Enumeration())
    study.run(evaluations=10)
    expected = {
        s for s in itertools.product(("a0", "a1", "a2"), ("b0", "b1", "b2")) if s not in {("a1", "b0"), ("a1", "b2")}
    }
    first = [t.pipeline.algorithms for t in study.history][: len(expected)]
    assert len(first) == len(set(first)) == 7
    assert set(first) == expected
    assert all(t.proposal.origin["by"] == "random" for t in list(study.history)[7:])


def test_a_third_of_each_rung_is_promoted():
    study = Study(Task(structures()), by_x, SuccessiveHalving(factor=3, rungs=3))
    study.run(evaluations=130)
    rungs = [[t for t in study.history if t.proposal.origin["rung"] == k] for k in range(3)]
    assert [round(t.proposal.fidelity.rows, 6) for t in (r[0] for r in rungs)] == [
        round(1 / 9, 6),
        round(1 / 3, 6),
        1.0,
    ]
    assert abs(len(rungs[1]) - len(rungs[0]) / 3) <= len(rungs[0]) / 6
    losses = sorted(t.outcome.loss for t in rungs[0])
    best = losses[: len(losses) // 3]
    promoted = {t.pipeline for t in rungs[1]}
    assert all(t.pipeline in promoted for t in rungs[0] if t.outcome.loss in best[:-1])
