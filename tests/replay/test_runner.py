"""Many methods on many tasks: files, resuming, jobs."""

import json

import numpy as np
import pytest
from fakes import TableSurrogate, divided_meta

from headstart import registry
from headstart.errors import InvalidInput
from headstart.metadata import MetaDataset
from headstart.metadata.tables import TableFile
from headstart.metafeatures.base import MetaFeatures
from headstart.optimizers.random import RandomSearch
from headstart.replay.partition import Partition
from headstart.replay.protocol import expected_random
from headstart.replay.results import Results, out_of_runs, ranks, wilcoxon
from headstart.replay.runner import Reporter, replay
from headstart.testing.examples import small_meta


@pytest.fixture
def meta():
    return divided_meta("small")


@pytest.fixture
def partition(meta):
    return Partition.of(meta, "test")


METHODS = ["random", "random2x", "linear_factors(rank=2)"]


class TestReplay:
    def test_what_is_saved(self, meta, partition, tmp_path):
        out = tmp_path / "small.json"
        results = replay(meta, METHODS, partition, evaluations=12, seeds=2, out=out)
        content = json.loads(out.read_text())
        assert (content["meta"], content["split"]) == ("small", "test")
        assert (content["evaluations"], content["seeds"], content["tasks"]) == (12, 2, [5, 6, 7])
        for entry in content["methods"].values():
            curves = [out_of_runs(row) for row in entry["curves"]]
            assert np.shape(curves) == (3, 12)
            np.testing.assert_allclose(entry["regret_mean"], np.mean(curves, axis=0), rtol=1e-5)
            assert {"regret_ci", "seconds_per_suggestion", "settings", "versions"} <= entry.keys()
        assert content["methods"]["random2x"]["rank_mean"] is None
        assert Results.load(out) == results
        assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == ["small.json"]
        json.dumps(content, allow_nan=False)

    def test_results_do_not_depend_on_jobs(self, meta, partition):
        one, two = (replay(meta, METHODS, partition, evaluations=10, seeds=2, jobs=jobs) for jobs in (1, 2))
        for method in METHODS:
            np.testing.assert_array_equal(one.curves(method), two.curves(method))

    def test_learning_that_was_stopped_is_shown_and_goes_on(self, meta, partition, tmp_path):
        class Impatient(Reporter):
            steps: list[int]

            def __init__(self, patience):
                self.patience, self.steps = patience, []

            def learning(self, method, check=None):
                if check is not None:
                    self.steps.append(check.step)
                    if len(self.steps) > self.patience:
                        raise KeyboardInterrupt

        method = "pmf(latent=3, steps=60, training={'n_tasks': 2, 'n_pipelines': 10, 'check_every': 10, 'patience': 9})"
        out = tmp_path / "small.json"
        first, second = Impatient(3), Impatient(99)
        with pytest.raises(KeyboardInterrupt):
            replay(meta, [method], partition, evaluations=12, out=out, progress=first)
        assert first.steps == [0, 10, 20, 30]
        found = replay(meta, [method], partition, evaluations=12, out=out, progress=second)
        assert second.steps[0] > 0
        assert second.steps[-1] == 60
        fresh = replay(meta, [method], partition, evaluations=12)
        np.testing.assert_array_equal(found.curves(method), fresh.curves(method))
        assert [p.name for p in tmp_path.iterdir() if not p.name.endswith(".lock")] == ["small.json"]

    def test_learns_from_the_training_tasks_only(self, meta, partition, monkeypatch):
        seen = []
        monkeypatch.setattr(RandomSearch, "meta_fit", lambda self, given: seen.append(given) or self)
        replay(meta, ["random"], partition, evaluations=4)
        assert seen[0].tasks == meta.tasks[:4]
        assert seen[0].validation.tasks == meta.tasks[4:5]

    def test_a_method_that_is_there_is_used_again(self, meta, partition, tmp_path, monkeypatch):
        out = tmp_path / "r.json"
        first = replay(meta, ["random"], partition, evaluations=8, out=out)
        monkeypatch.setattr(RandomSearch, "suggest", None)
        again = replay(meta, ["random", "linear_factors(rank=2)"], partition, evaluations=8, out=out)
        assert again.methods["random"]["curves"] == first.methods["random"]["curves"]
        assert again.methods["random"]["rank_mean"] != first.methods["random"]["rank_mean"]

    def test_what_was_given_to_a_method_decides_whether_it_is_run_again(self, meta, partition, tmp_path):
        out = tmp_path / "r.json"
        first = replay(meta, ["linear_factors(rank=2)"], partition, evaluations=12, out=out)
        fewer = Partition("test", partition.train[:2], partition.validation, partition.test, partition.initial)
        other = replay(meta, ["linear_factors(rank=2)"], fewer, evaluations=12, out=out)
        assert first.methods["linear_factors(rank=2)"]["curves"] != other.methods["linear_factors(rank=2)"]["curves"]
        cells = np.where(np.isnan(meta.losses), np.nan, 1.0 - meta.losses)
        turned = replay(meta.changed(losses=cells), ["random"], fewer, evaluations=12, out=out)
        assert turned.methods["random"]["given"] != other.methods["linear_factors(rank=2)"]["given"]

    def test_a_method_that_could_not_be_run_is_tried_again_with_other_data(self, meta, partition, tmp_path):
        out = tmp_path / "r.json"
        assert replay(meta, ["nearest"], partition, evaluations=6, out=out).methods["nearest"]["n_tasks"] == 0
        described = meta.changed(metafeatures={"m": np.arange(16.0).reshape(8, 2)})
        assert replay(described, ["nearest"], partition, evaluations=6, out=out).methods["nearest"]["n_tasks"] == 3

    def test_two_replays_of_one_file_lose_nothing(self, meta, partition, tmp_path, monkeypatch):
        out = tmp_path / "r.json"
        suggest, done = RandomSearch.suggest, []

        def meanwhile(self, number, rng):
            if not done:
                done.append(replay(meta, ["linear_factors(rank=2)"], partition, evaluations=6, out=out))
            return suggest(self, number, rng)

        monkeypatch.setattr(RandomSearch, "suggest", meanwhile)
        replay(meta, ["random"], partition, evaluations=6, out=out)
        assert set(Results.load(out).methods) == {"random", "linear_factors(rank=2)"}

    def test_every_task_has_random_numbers_of_its_own(self):
        small = small_meta(n_tasks=60, missing=0.0)
        same = np.tile(small.losses[:1], (60, 1))
        worst = [small.pipelines.ids[np.argsort(same[0])[-3:]]] * 60
        splits = {"train": [0], "test": range(1, 60)}
        meta = MetaDataset(small.pipelines, same, small.tasks, initial=worst, splits=splits)
        curves = replay(meta, ["random"], Partition.of(meta, "test"), evaluations=12).curves("random")
        expected = expected_random(meta, 1, 12)
        spread = curves.std(axis=0)
        assert (spread[6:] > 0).any()
        assert (np.abs(curves.mean(axis=0) - expected) <= 4 * spread / np.sqrt(59) + 1e-3).all()

    def test_other_settings_are_run_anew(self, meta, partition, tmp_path, monkeypatch):
        out = tmp_path / "r.json"
        replay(meta, ["random"], partition, evaluations=8, out=out)
        content = json.loads(out.read_text())
        content["methods"]["random"]["settings"] = {"name": "RandomSearch", "older": True}
        out.write_text(json.dumps(content))
        results = replay(meta, ["random"], partition, evaluations=8, out=out)
        assert results.methods["random"]["settings"] == {"name": "RandomSearch"}

    @pytest.mark.parametrize("torn", [False, True])
    def test_goes_on_where_it_was_stopped(self, meta, partition, tmp_path, monkeypatch, torn):
        out = tmp_path / "r.json"
        whole = replay(meta, ["random"], partition, evaluations=10)
        ask, calls = RandomSearch.suggest, []

        def stopping(self, number, rng):
            calls.append(number)
            if len(calls) > 10:
                raise KeyboardInterrupt
            return ask(self, number, rng)

        monkeypatch.setattr(RandomSearch, "suggest", stopping)
        with pytest.raises(KeyboardInterrupt):
            replay(meta, ["random"], partition, evaluations=10, out=out)
        (kept,) = tmp_path.glob("*.partial")
        if torn:
            kept.write_text(kept.read_text() + '{"task": 6, "see')
        calls.clear()
        monkeypatch.setattr(RandomSearch, "suggest", lambda *a: calls.append(a) or ask(*a))
        resumed = replay(meta, ["random"], partition, evaluations=10, out=out)
        assert resumed.methods["random"]["curves"] == whole.methods["random"]["curves"]
        assert len(calls) == 2 * 7
        assert not list(tmp_path.glob("*.partial"))

    def test_a_file_of_another_replay_is_refused(self, meta, partition, tmp_path):
        out = tmp_path / "r.json"
        replay(meta, ["random"], partition, evaluations=6, out=out)
        with pytest.raises(InvalidInput, match="other evaluations"):
            replay(meta, ["random"], partition, evaluations=7, out=out)

    def test_a_file_that_holds_no_results_is_refused(self, meta, partition, tmp_path):
        (tmp_path / "r.json").write_text("[1]")
        with pytest.raises(InvalidInput, match="must hold the results of a replay"):
            replay(meta, ["random"], partition, out=tmp_path / "r.json")


class TestTables:
    """Methods that need meta-features made of raw tables."""

    @pytest.fixture
    def with_tables(self, meta, tmp_path):
        rng = np.random.default_rng(0)
        paths = []
        for task in range(len(meta)):
            path = tmp_path / f"{task}.csv"
            rows = rng.standard_normal((30, 2)) + task
            text = "\n".join(f"{a},{b},{'yes' if a > task else 'no'}" for a, b in rows)
            path.write_text(f"a,b,answer\n{text}\n")
            paths.append(TableFile(path, "answer") if task not in (3, 6) else None)
        return meta.changed(tables=paths)

    def test_run_on_the_tasks_that_have_one(self, with_tables, partition, monkeypatch):
        learned = []

        class Rows(MetaFeatures):
            def meta_fit(self, meta):
                learned.extend(meta.tasks[t] for t in range(len(meta)) if meta.dataset(t) is not None)
                return self

            def transform(self, dataset, metafeatures=None):
                return np.asarray(dataset.X.mean(), dtype=float)

        monkeypatch.setitem(registry._added["metafeatures"], "rows", Rows)
        results = replay(with_tables, ["tst_d2v(metafeatures=rows)"], partition, evaluations=6)
        entry = results.methods["tst_d2v(metafeatures=rows)"]
        assert [row is not None for row in entry["curves"]] == [True, False, True]
        assert learned == list(with_tables.tasks[:3])
        assert "which the task at hand does not have" in entry["left_out"]

    def test_a_method_that_reads_the_table_is_given_it(self, with_tables, partition, monkeypatch):
        monkeypatch.setitem(registry._added["surrogate"], "by_table", TableSurrogate)
        read = []
        load = TableFile.__call__
        monkeypatch.setattr(TableFile, "__call__", lambda file: [read.append(file.path.stem), load(file)][1])
        results = replay(with_tables, ["random", "by_table"], partition, evaluations=6)
        assert read == [str(task) for task in partition.test if with_tables.tables[task] is not None]
        assert [row is not None for row in results.methods["by_table"]["curves"]] == [True, False, True]
        assert "needs the table" in results.methods["by_table"]["left_out"]

    def test_without_any_table_it_is_said_that_they_could_not_run(self, meta, partition):
        results = replay(meta, ["nearest", "random"], partition, evaluations=6)
        assert results.methods["nearest"]["n_tasks"] == 0
        assert "meta-features are needed" in results.methods["nearest"]["left_out"]
        assert results.ranked() == ["random"]


class TestPartition:
    def test_validation_tasks_are_not_learned_from_when_they_are_replayed(self, meta):
        partition = Partition.of(meta, "validation")
        assert partition.test == (4,)
        assert partition.validation == ()

    def test_from_a_file_with_initial_pipelines_of_the_training_tasks(self, meta, tmp_path):
        path = tmp_path / "other.json"
        path.write_text(json.dumps({"train": [5, 6], "validation": [], "test": [0, 1]}))
        meta = meta.changed(initial=None)
        partition = Partition.read(path, meta)
        designs = partition.initial_designs(meta)
        assert partition.name == "other"
        assert {task: len(ids) for task, ids in designs.items()} == {0: 5, 1: 5}
        for task, ids in designs.items():
            assert np.isfinite(meta.loss_row(task)[meta.everything.rows(ids)]).all()
        assert len(replay(meta, ["random"], partition, evaluations=6).methods["random"]["curves"]) == 2

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("nonsense", "JSON file"),
            ("[]", "object with lists"),
            ('{"train": [1], "test": [1]}', "stands there more than once"),
            ('{"train": [1], "test": [99]}', "from 0 to 7"),
            ('{"train": [1], "test": ["a"]}', "list of task positions"),
            ('{"train": [1], "test": []}', "must not be empty"),
            ('{"train": [1], "test": [2], "tets": [3]}', "'tets' too"),
            ('{"train": [1], "test": [2], "initial": [3]}', "'initial'"),
            ('{"train": [1], "test": [2], "initial": {"2": [7]}}', "'initial'"),
        ],
    )
    def test_bad_files(self, meta, tmp_path, content, message):
        path = tmp_path / "split.json"
        path.write_text(content)
        with pytest.raises(InvalidInput, match=message):
            Partition.read(path, meta)

    def test_a_split_that_is_not_there(self):
        with pytest.raises(InvalidInput, match="has no split 'train'"):
            Partition.of(small_meta(), "test")


class TestStatistics:
    def test_ranks_share_ties(self):
        one, two, three = (np.array([[v]]) for v in (0.1, 0.1, 0.5))
        assert ranks([one, two, three]).ravel().tolist() == [1.5, 1.5, 3.0]

    def test_interval_and_paired_test(self):
        rng = np.random.default_rng(0)
        results = Results("m", "test", 1, 1, list(range(40)), [""] * 40)
        base = rng.random(40)
        results.add("random", [np.array([v + 0.1 + 0.01 * rng.random()]) for v in base])
        results.add("gp", [np.array([v]) for v in base])
        versus = results.versus("gp", "random", 1)
        assert versus["difference"] == pytest.approx(-0.105, abs=0.003)
        assert versus["ci"] < 0.002
        assert versus["p"] < 1e-6
        assert (versus["wins"], versus["losses"]) == (40, 0)
        assert results.methods["gp"]["rank_mean"] == [1.0]
        expected = 1.959964 * results.curves("gp").std(ddof=1) / np.sqrt(40)
        assert results.methods["gp"]["regret_ci"][0] == pytest.approx(expected, rel=1e-5)
        assert wilcoxon(base, base) == 1.0

    def test_a_method_that_ran_on_some_tasks_is_not_ranked(self):
        results = Results("m", "test", 2, 1, [0, 1], ["a", "b"])
        results.add("gp", [np.array([0.5, 0.25]), None])
        assert results.ranked() == []
        assert results.methods["gp"]["regret_mean"] == [0.5, 0.25]
        assert results.methods["gp"]["n_tasks"] == 1

    def test_a_regret_that_stays_is_written_once(self, tmp_path):
        results = Results("m", "test", 5, 1, [0, 1, 2], ["a", "b", "c"])
        curves = [[0.5, 0.25, 0.25, 0.25, 0.0], [1.0] * 5, None]
        results.add("gp", [None if curve is None else np.array(curve) for curve in curves])
        results.save(tmp_path / "new.json")
        text = (tmp_path / "new.json").read_text()
        assert json.loads(text)["methods"]["gp"]["curves"] == [[0.5, [0.25, 3], 0], [[1, 5]], None]
        assert Results.load(tmp_path / "new.json").methods["gp"]["curves"] == curves
        (tmp_path / "old.json").write_text(text.replace("[0.25,3]", "0.25,0.25,0.25"))
        assert Results.load(tmp_path / "old.json").methods == Results.load(tmp_path / "new.json").methods
