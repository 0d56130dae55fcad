"""Other matrices to learn from."""

import numpy as np
import pytest

from headstart.errors import InvalidInput, NeedsTable, UnknownName
from headstart.evaluation.recorded import recorded_task
from headstart.metadata import MetaDataset
from headstart.optimizers.nearest import Nearest
from headstart.optimizers.random import RandomSearch
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method
from headstart.replay.runner import given_to, replay
from headstart.replay.variants import only, sparse, warm_started
from headstart.testing.examples import small_meta


@pytest.fixture
def meta():
    small = small_meta(n_tasks=8)
    initial = [small.pipelines.ids[np.isfinite(row)][:3] for row in small.losses]
    splits = {"train": [0, 1, 2, 3], "validation": [4, 5], "test": [6, 7]}
    ids = [str(10 * task) for task in range(8)]
    return MetaDataset(small.pipelines, small.losses, small.tasks, initial=initial, splits=splits, name="m", ids=ids)


@pytest.fixture
def partition(meta):
    return Partition.of(meta, "test")


class TestSparse:
    def test_so_many_cells_are_missing_and_the_others_are_as_before(self, meta, partition):
        found = sparse(0.7).learning(meta, partition)
        whole = partition.learning(meta)
        parts = [(found, whole), (found.validation, whole.validation)]
        cells = np.concatenate([part.losses.ravel() for part, _ in parts])
        assert np.isnan(cells).mean() == pytest.approx(0.7, abs=0.5 / len(cells))
        for thinned, before in parts:
            known = np.isfinite(thinned.losses)
            np.testing.assert_array_equal(thinned.losses[known], before.losses[known])
            assert thinned.tasks == before.tasks
            assert np.isnan(thinned.losses).mean() > 0.5

    def test_the_seed_decides_and_nothing_else_is_changed(self, meta, partition):
        before = meta.losses.copy()
        first, again, other = (sparse(0.5, seed).learning(meta, partition) for seed in (0, 0, 1))
        np.testing.assert_array_equal(first.losses, again.losses)
        assert first.key == again.key != other.key
        np.testing.assert_array_equal(meta.losses, before)

    def test_more_than_are_there_cannot_be_kept(self, meta, partition):
        with pytest.raises(InvalidInput, match="missing already"):
            sparse(0.01).learning(meta, partition)
        with pytest.raises(InvalidInput, match="less than 1"):
            sparse(1.0)


class TestOnly:
    def test_listed_tasks_are_all_that_is_known(self, meta, partition):
        found = only(["10", "30", "40", "60", "99"]).learning(meta, partition)
        assert found.tasks == ("task 1", "task 3", "task 4")  # 6 is tested on
        assert found.validation is None

    def test_none_is_not_enough(self, meta, partition):
        with pytest.raises(InvalidInput, match="none of the 1 tasks"):
            only(["60"]).learning(meta, partition)


@pytest.mark.parametrize(
    ("text", "called"), [("gp", "gp-few"), ("gp(ard=False)", "gp-few(ard=False)"), ("random4x", "random4x-few")]
)
def test_names_of_methods(text, called):
    method = only(["1"]).called(Method.parse(text))
    assert method.text == called
    again = Method.parse(method.text.replace("-few", ""))
    assert (method.name, method.settings, method.per_step) == (again.name, again.settings, again.per_step)


def test_replay_of_a_variant(meta, partition, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(RandomSearch, "meta_fit", lambda self, learning: seen.append(learning) or self)
    out = tmp_path / "r.json"
    variant = only(["0", "20"])
    replay(meta, ["random"], partition, evaluations=6, out=out)
    results = replay(meta, ["random"], partition, evaluations=6, out=out, variant=variant)
    assert set(results.methods) == {"random", "random-few"}
    assert [learned.tasks for learned in seen] == [meta.tasks[:4], ("task 0", "task 2")]
    assert results.methods["random"]["curves"] == results.methods["random-few"]["curves"]  # the same tasks and start
    facts = results.methods["random-few"]["learned_from"]
    assert (facts["variant"], facts["tasks"], facts["validation"], facts["of"]["tasks"]) == ("few", 2, 0, 4)
    assert set(results.ranked()) == {"random", "random-few"}
    replay(meta, ["random"], partition, evaluations=6, out=out, variant=variant)
    assert len(seen) == 2
    replay(meta, ["random"], partition, evaluations=6, out=out, variant=only(["0"]))
    assert len(seen) == 3


def test_what_was_given_is_as_before_without_a_variant(meta, partition):
    designs = partition.initial_designs(meta)
    plain, few, fewer = (given_to(meta, partition, designs, v) for v in (None, only(["0", "10"]), only(["0"])))
    assert len({plain, few, fewer}) == 3
    assert plain == given_to(meta, partition, designs)


class TestWarmStarted:
    @pytest.fixture
    def meta(self, meta):
        vectors = np.random.default_rng(0).normal(size=(8, 3))
        vectors[7] = np.nan
        return meta.changed(metafeatures={"given": vectors})

    def test_all_methods_begin_with_what_another_would_try_first(self, meta, partition):
        variant = warm_started("nearest(neighbours=2)", 4)
        designs = variant.initial_designs(meta, partition)
        assert designs.keys() == {6}  # task 7 is not described
        (begin,) = designs.values()
        learned = Nearest(neighbours=2).meta_fit(partition.learning(meta))
        expected = learned.start(recorded_task(meta, 6, ())).ask(4)
        assert list(begin) == [proposal.pipeline.id for proposal in expected]
        assert variant.learning(meta, partition).key == partition.learning(meta).key
        losses = meta.loss_row(6)
        found = losses[meta.everything.rows(begin)].min() - np.nanmin(losses)
        results = replay(meta, ["random", "gp"], partition, evaluations=5, variant=variant)
        for method in ("random-nearest(neighbours=2)", "gp-nearest(neighbours=2)"):
            entry = results.methods[method]
            assert entry["n_tasks"] == 1
            assert results.curves(method)[0, 3] == pytest.approx(found, abs=1e-5)
            assert np.isnan(results.curves(method)[1]).all()

    def test_nothing_of_the_test_tasks_decides(self, meta, partition):
        changed = meta.losses.copy()
        changed[6:] = changed[6:, ::-1]
        changed[6:][np.isnan(meta.losses[6:])] = np.nan
        other = meta.changed(losses=np.where(np.isnan(meta.losses), np.nan, np.nan_to_num(changed, nan=0.5)))
        variant = warm_started("nearest")
        assert variant.initial_designs(meta, partition) == variant.initial_designs(other, partition)

    def test_runs_with_another_start_are_not_taken_for_these(self, meta, partition, tmp_path):
        out = tmp_path / "r.json"
        replay(meta, ["random"], partition, evaluations=5, out=out)
        both = replay(meta, ["random"], partition, evaluations=5, out=out, variant=warm_started("nearest", name="near"))
        assert list(both.methods) == ["random", "random-near"]
        given = [both.methods[method]["given"] for method in both.methods]
        more = replay(meta, ["random"], partition, evaluations=5, out=out, variant=warm_started("nearest", 2, "near"))
        assert more.methods["random-near"]["given"] not in given
        assert more.methods["random"]["given"] == given[0]

    def test_mistakes(self, meta, partition):
        with pytest.raises(UnknownName, match="did you mean 'nearest'"):
            warm_started("nearst")
        with pytest.raises(NeedsTable, match="has none"):
            warm_started("nearest").initial_designs(meta.changed(metafeatures={}), partition)
