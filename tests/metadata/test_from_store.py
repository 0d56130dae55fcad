"""A store's studies as a meta-dataset."""

import numpy as np
import pytest

from headstart.errors import HeadstartWarning, InvalidInput
from headstart.evaluation.synthetic import Synthetic
from headstart.metadata.files import load_meta, save_meta
from headstart.metadata.from_store import meta_from_store
from headstart.metadata.metadataset import NOT_TRIED, STATUSES
from headstart.space import Algorithm, PipelineSpace, Stage
from headstart.store import Store
from headstart.study import Study
from headstart.task import Task
from headstart.testing.examples import small_space
from headstart.trials import Fidelity, Outcome, Proposal, Status, Trial


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "store") as opened:
        yield opened


def task(key, metric="accuracy", space=None, **metafeatures):
    vectors = {name: np.asarray(v, dtype=float) for name, v in metafeatures.items()}
    return Task(space or small_space(), key=key, metric=metric, metafeatures=vectors)


def add(store, name, of, outcomes):
    """A study with these (pipeline, outcome) pairs."""
    store.add_task(of.key, of.describe())
    with store.create_study(name, of.key, seed=0, settings={}) as log:
        for number, (pipeline, outcome) in enumerate(outcomes):
            proposal = Proposal(number, pipeline, fidelity=outcome.fidelity)
            log.ask(proposal)
            log.finish(Trial(proposal, outcome, 0.0, 1.0))


def pipelines(n, seed=0):
    return list(small_space().sample(np.random.default_rng(seed), 5 * n).unique()[:n])


def test_studies_that_were_run(store, tmp_path):
    runs = {}
    for t in range(3):
        objective = Synthetic(small_space(), t, failing=0.2)
        for seed in (0, 1):
            study = Study(
                task(f"task {t}", example=[t, 1]), objective, "random", store=store, name=f"{t} {seed}", seed=seed
            )
            study.run(evaluations=15)
            runs.setdefault(f"task {t}", []).extend(study.history)
    meta = meta_from_store(store, name="own")
    assert meta.tasks == ("task 0", "task 1", "task 2")
    assert meta.pipelines.space == small_space()
    content = list(meta.pipelines)
    keys = [p.to_dict() | {"id": None} for p in content]
    assert len({repr(k) for k in keys}) == len(keys) == len({repr(t.pipeline) for r in runs.values() for t in r})
    assert [p.id for p in content] == list(range(len(content)))
    for t, trials in enumerate(runs.values()):
        for trial in trials:
            column = keys.index(trial.pipeline.to_dict() | {"id": None})
            assert STATUSES[meta.statuses[t, column]] == trial.outcome.status
            if trial.outcome.ok:
                assert meta.losses[t, column] == pytest.approx(trial.outcome.loss)
            else:
                assert np.isnan(meta.losses[t, column])
        assert (meta.statuses[t] != NOT_TRIED).sum() == len({repr(trial.pipeline) for trial in trials})
    np.testing.assert_array_equal(np.isfinite(meta.losses), meta.statuses == 0)
    np.testing.assert_array_equal(np.isfinite(meta.seconds), meta.statuses != NOT_TRIED)
    np.testing.assert_array_equal(meta.metafeatures["example"], [[0, 1], [1, 1], [2, 1]])
    assert meta.about["loss"] == "of the metric accuracy (3 tasks)"
    place = save_meta(meta, tmp_path / "own")
    assert load_meta(place).key == meta.key


def test_several_results_of_one_pipeline(store):
    a, b, c = pipelines(3)
    add(
        store,
        "one",
        task("t"),
        [
            (a, Outcome.of(0.2, seconds=1.0)),
            (b, Outcome.failed(Status.TIMEOUT, "slow", seconds=60.0)),
            (c, Outcome.failed(Status.MEMORY, "large", seconds=2.0)),
        ],
    )
    add(
        store,
        "two",
        task("t"),
        [
            (a, Outcome.of(0.4, seconds=3.0)),
            (a, Outcome.failed(Status.CRASHED, "bad luck", seconds=9.0)),
            (b, Outcome.of(0.1, seconds=5.0)),
            (c, Outcome.failed(Status.CRASHED, "worse", seconds=4.0)),
        ],
    )
    meta = meta_from_store(store)
    np.testing.assert_allclose(meta.losses, [[0.3, 0.1, np.nan]])
    np.testing.assert_allclose(meta.seconds, [[2.0, 5.0, 3.0]])
    assert [STATUSES[s] for s in meta.statuses[0]] == [Status.OK, Status.OK, Status.CRASHED]


def test_only_full_fidelity_counts(store):
    a, b = pipelines(2)
    cheap = Outcome.of(0.9, fidelity=Fidelity(rows=0.1))
    add(store, "one", task("t"), [(a, cheap), (b, Outcome.of(0.3)), (a, Outcome.of(0.5))])
    add(store, "cheap only", task("u"), [(a, cheap)])
    meta = meta_from_store(store)
    assert meta.tasks == ("t",)
    assert meta.losses.tolist() == [[0.3, 0.5]]
    add(store, "other", task("v", metric="r2"), [(a, cheap)])
    with pytest.raises(InvalidInput, match="no trials at full fidelity with the metric 'r2'"):
        meta_from_store(store, metric="r2")


def test_several_spaces(store):
    other = PipelineSpace("other", [Stage("estimator", [Algorithm("one"), Algorithm("two")])])
    add(store, "a", task("t"), [(p, Outcome.of(0.5)) for p in pipelines(2)])
    add(store, "b", task("u", space=other), [(p, Outcome.of(0.5)) for p in other.sample(np.random.default_rng(0), 1)])
    with pytest.raises(
        InvalidInput, match=rf"several spaces, name one: 'small' with key .*'other' with key {other.key}"
    ):
        meta_from_store(store)
    for name in (other, "other", other.key):
        assert meta_from_store(store, space=name).tasks == ("u",)
    assert meta_from_store(store, space="small").tasks == ("t",)
    with pytest.raises(InvalidInput, match="no studies over that space: 'small'"):
        meta_from_store(store, space="pmf")


def test_metrics_and_metafeatures(store):
    (a,) = pipelines(1)
    add(store, "a", task("t", metric="roc_auc", shared=[1, 2], own=[3]), [(a, Outcome.of(0.5))])
    add(store, "b", task("u", metric="accuracy", shared=[4, 5], own=[3, 4]), [(a, Outcome.of(0.25))])
    add(store, "c", task("v", metric="accuracy", shared=[float("nan"), 7], third=[1]), [(a, Outcome.of(0.125))])
    with pytest.warns(HeadstartWarning, match=r"accuracy \(2 tasks\), roc_auc \(1 task\); methods learn most of one"):
        meta = meta_from_store(store)
    assert list(meta.metafeatures) == ["shared"]
    np.testing.assert_array_equal(meta.metafeatures["shared"], [[1, 2], [4, 5], [np.nan, 7]])
    assert meta.about["loss"] == "of the metric accuracy (2 tasks), roc_auc (1 task)"
    assert meta_from_store(store, metric="accuracy").losses.tolist() == [[0.25], [0.125]]
    with pytest.raises(InvalidInput, match="no finished trials with the metric 'f1'"):
        meta_from_store(store, metric="f1")


def test_an_empty_store(store):
    with pytest.raises(InvalidInput, match="no finished trials"):
        meta_from_store(store)


def test_several_stores_are_one(store, tmp_path):
    a, b, c = pipelines(3)
    add(store, "one", task("t", shared=[1, 2]), [(a, Outcome.of(0.2, seconds=1.0)), (b, Outcome.of(0.5, seconds=1.0))])
    with Store.open(tmp_path / "second") as second:
        add(second, "one", task("u", shared=[3, 4]), [(c, Outcome.of(0.1, seconds=1.0))])
        add(second, "two", task("t", shared=[1, 2]), [(a, Outcome.of(0.4, seconds=3.0))])
        meta = meta_from_store(store, second)
        assert meta.tasks == ("t", "u")
        np.testing.assert_allclose(meta.losses, [[0.3, 0.5, np.nan], [np.nan, np.nan, 0.1]])
        np.testing.assert_allclose(meta.seconds[0, :2], [2.0, 1.0])
        np.testing.assert_array_equal(meta.metafeatures["shared"], [[1, 2], [3, 4]])
        assert store.location in meta.about["source"]
        assert second.location in meta.about["source"]
        with pytest.raises(InvalidInput, match=r"no finished trials with the metric 'f1' in .*second"):
            meta_from_store(store, second, metric="f1")


def test_values_of_constraints(store, tmp_path):
    """Means over what ended well; NaN where nothing was measured."""
    one, two, three = pipelines(3)
    outcomes = [
        (one, Outcome.of(0.1, constraints={"size": 10.0, "gap": 0.5})),
        (one, Outcome.of(0.1, constraints={"size": 30.0})),
        (two, Outcome.of(0.2)),
        (three, Outcome.failed("crashed", "no")),
    ]
    add(store, "first", task("table"), outcomes)
    add(store, "second", task("other"), [(two, Outcome.of(0.3, constraints={"size": 7.0}))])
    meta = meta_from_store(store)
    save_meta(meta, tmp_path / "meta")
    for each in (meta, load_meta(tmp_path / "meta")):
        np.testing.assert_array_equal(each.constraints["size"], [[20.0, np.nan, np.nan], [np.nan, 7.0, np.nan]])
        np.testing.assert_array_equal(each.constraints["gap"], [[0.5, np.nan, np.nan], [np.nan] * 3])
    add(store, "third", task("plain", metric="f1"), [(one, Outcome.of(0.1))])
    assert meta_from_store(store, metric="f1").constraints == {}
