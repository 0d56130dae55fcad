"""Properties that hold for every space."""

import itertools
import json
import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import spaces

from headstart.space import Algorithm, Encoded, Float, Pipeline, PipelineSpace, Pool

seeds = st.integers(0, 2**32 - 1)
quick = settings(max_examples=60, deadline=None)


@quick
@given(spaces(), seeds)
def test_sample_encode_decode_is_the_identity(space, seed):
    sampled = space.sample(np.random.default_rng(seed), 20)
    pipelines = list(sampled)
    encoded = space.encode(pipelines)
    np.testing.assert_array_equal(encoded.values, sampled.values)
    np.testing.assert_array_equal(encoded.active, sampled.active)
    np.testing.assert_array_equal(encoded.choice, sampled.choice)
    np.testing.assert_array_equal(encoded.ids, sampled.ids)
    assert list(encoded) == pipelines


@quick
@given(spaces(), seeds)
def test_values_are_in_the_unit_interval_and_zero_where_inactive(space, seed):
    sampled = space.sample(np.random.default_rng(seed), 20)
    assert sampled.values.min(initial=0.0) >= 0
    assert sampled.values.max(initial=0.0) <= 1
    assert (sampled.values[~sampled.active] == 0).all()


@quick
@given(spaces(), seeds)
def test_equal_ids_mean_equal_pipelines(space, seed):
    sampled = space.sample(np.random.default_rng(seed), 30)
    by_id = {}
    for id, pipeline in zip(sampled.ids.tolist(), sampled, strict=True):
        assert by_id.setdefault(id, pipeline) == pipeline
    assert len(by_id) == len(set(sampled)) == len(sampled.unique())


def decisions(pipeline):
    """What was decided, as a set: chosen algorithms, values, order."""
    return (
        {("algorithm", s, a) for s, a in enumerate(pipeline.algorithms)},
        {(s, n): v for s, p in enumerate(pipeline.params) for n, v in p.items()},
        pipeline.order,
    )


def differing_decisions(space, one, other):
    """Decisions in which two pipelines differ, leaving out what only follows from another decision."""
    count = int(one.order != other.order)
    for s, stage in enumerate(space.stages):
        if one.algorithms[s] != other.algorithms[s]:
            count += 1
            continue
        for name, value in one.params[s].items():
            if name in other.params[s]:
                theirs = other.params[s][name]
                count += int(theirs != value or type(theirs) is not type(value))
        for name in other.params[s].keys() - one.params[s].keys():  # newly active: it has its default
            default = stage.algorithms[stage.position(one.algorithms[s])].param(name).default
            assert other.params[s][name] == default
    return count


@quick
@given(spaces(), seeds)
def test_neighbours_differ_in_one_decision(space, seed):
    rng = np.random.default_rng(seed)
    pipeline = space.sample(rng)[0]
    for neighbour in space.neighbours(pipeline, rng):
        assert differing_decisions(space, pipeline, neighbour) == 1, (pipeline, neighbour)


@quick
@given(spaces(), seeds)
def test_json_and_pickle_round_trips(space, seed):
    again = PipelineSpace.from_dict(json.loads(json.dumps(space.to_dict())))
    assert again == space
    for pipeline in space.sample(np.random.default_rng(seed), 5):
        assert Pipeline.from_dict(json.loads(json.dumps(pipeline.to_dict()))) == pipeline
        assert pickle.loads(pickle.dumps(pipeline)) == pipeline
        again.encode([Pipeline.from_dict(json.loads(json.dumps(pipeline.to_dict())))])


@quick
@given(spaces(), seeds)
def test_a_restricted_space_holds_exactly_the_pipelines_with_that_structure(space, seed):
    rng = np.random.default_rng(seed)
    pipeline = space.sample(rng)[0]
    structure = {stage.name: a for stage, a in zip(space.stages, pipeline.algorithms, strict=True)}
    part = space.restrict(structure)
    assert list(part.encode([pipeline])) == [pipeline]
    inside = part.sample(rng, 5)
    assert {p.algorithms for p in inside} == {pipeline.algorithms}
    assert list(space.encode(list(inside))) == list(inside)  # what is in the part is in the whole


@quick
@given(spaces(), seeds)
def test_an_extended_space_keeps_what_was_there(space, seed):
    sampled = space.sample(np.random.default_rng(seed), 10)
    grown = space.extend("s0", Algorithm("new", params=[Float("x", 0, 1)]))
    encoded = grown.encode(list(sampled))
    assert list(encoded) == list(sampled)
    for s, _, algorithm, columns in space.blocks():
        kept = grown.columns(space.stages[s].name, algorithm.name)
        np.testing.assert_array_equal(encoded.values[:, kept], sampled.values[:, columns])
    np.testing.assert_array_equal(encoded.choice, sampled.choice)


@quick
@given(spaces(), seeds)
def test_nearest_to_a_pipeline_is_the_pipeline(space, seed):
    for pipeline in space.sample(np.random.default_rng(seed), 3):
        structure = {stage.name: a for stage, a in zip(space.stages, pipeline.algorithms, strict=True)}
        found = space.nearest(space.encode([pipeline]).values, structure)[0]
        assert (found.algorithms, found.params) == (pipeline.algorithms, pipeline.params)


@quick
@given(spaces(), seeds)
def test_take_and_slices_agree_with_lists(space, seed):
    sampled = space.sample(np.random.default_rng(seed), 12)
    pipelines = list(sampled)
    assert list(sampled[3:9:2]) == pipelines[3:9:2]
    assert list(sampled.take([5, 1, 1]).take([2, 0])) == [pipelines[1], pipelines[5]]
    assert sampled[-1] == pipelines[-1]
    np.testing.assert_array_equal(sampled.take([5, 1]).ids, sampled.ids[[5, 1]])


@quick
@given(spaces(), st.data())
def test_allowed_algorithms_are_those_of_some_complete_structure(space, data):
    """Against all structures, one by one."""
    names = {stage.name: stage.names for stage in space.stages}
    some = {
        name: st.lists(st.sampled_from(there), min_size=1, max_size=2, unique=True) for name, there in names.items()
    }
    clause = st.fixed_dictionaries({}, optional=some).filter(bool)
    clauses = data.draw(st.lists(clause, max_size=4))
    wanted = data.draw(st.fixed_dictionaries({}, optional={n: st.sampled_from(there) for n, there in names.items()}))
    space = PipelineSpace("strict", space.stages, clauses)
    found = {name: set() for name in names}
    for chosen in itertools.product(*names.values()):
        structure = dict(zip(names, chosen, strict=True))
        fits = all(structure[name] == algorithm for name, algorithm in wanted.items())
        if fits and not any(all(structure[name] in among for name, among in clause.items()) for clause in clauses):
            for name, algorithm in structure.items():
                found[name].add(algorithm)
    assert {name: set(there) for name, there in space.allowed(wanted).items()} == found


@quick
@given(spaces(), seeds)
def test_a_pool_allows_what_its_members_have(space, seed):
    drawn = space.sample(np.random.default_rng(seed), 12)
    recorded = Encoded(space, drawn.values, drawn.active, drawn.choice, drawn.order, ids=np.arange(len(drawn)))
    pool, first = Pool(recorded), drawn[0]
    last = space.stages[-1].name
    fitting = [p for p in drawn if p.algorithms[-1] == first.algorithms[-1]]
    allowed = pool.allowed({last: first.algorithms[-1]})
    for s, stage in enumerate(space.stages):
        assert set(allowed[stage.name]) == {p.algorithms[s] for p in fitting}


@quick
@given(spaces(), seeds)
def test_samples_of_several_structures_are_those_of_each(space, seed):
    last = space.stages[-1]
    possible = space.allowed()[last.name]
    some = space.sample(np.random.default_rng(0), 40).unique()
    pool = Pool(Encoded(space, some.values, some.active, some.choice, some.order, ids=np.arange(len(some))))
    for candidates in (space, pool):
        givens = [{last.name: name} for name in candidates.allowed()[last.name]]
        for part, wanted in zip(candidates.sample_each(np.random.default_rng(seed), 7, givens), givens, strict=True):
            assert {pipeline.algorithms[-1] for pipeline in part} == {wanted[last.name]}
            space.encode(list(part))  # raises for what is forbidden
            assert len(part) == len(candidates.sample(np.random.default_rng(seed), 7, wanted))
    one = {last.name: possible[0]}
    (alone,) = space.sample_each(np.random.default_rng(seed), 7, [one])
    if not space.forbidden:
        assert list(alone) == list(space.sample(np.random.default_rng(seed), 7, one))
