"""DeepPipe's experiments, on a small meta-dataset."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import divided_meta

from experiments import deeppipe, new_algorithm
from experiments.catalogue import EXPERIMENTS, run_experiment
from experiments.cluster import Clustered, Clusters, cluster_metric
from experiments.comparison import Compared, Comparison, overall_ranks
from experiments.embedding import Points, latent_points
from experiments.weights import Counts
from headstart.errors import InvalidInput
from headstart.evaluation.recorded import recorded_task
from headstart.metadata import MetaDataset
from headstart.methods.deeppipe import DeepPipe
from headstart.methods.deeppipe.surrogate import links
from headstart.optimizers.bayes import Bayes
from headstart.optimizers.random import RandomSearch
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method
from headstart.replay.results import Results
from headstart.replay.runner import replay
from headstart.replay.variants import share
from headstart.trials import Outcome, Trial

QUICK = "steps=3, training={'n_tasks': 2, 'n_pipelines': 8}, factor=1, outputs=2"


@pytest.fixture
def meta():
    return divided_meta("tensor_oboe")


@pytest.fixture
def partition(meta):
    return Partition.of(meta, "test")


def quick(label, **settings):
    changed = "".join(f", {name}={value}" for name, value in settings.items())
    return Method.called(f"deeppipe-{label}", f"deeppipe_network({QUICK}{changed})")


class TestSettings:
    def test_without_other_tasks_there_are_at_most_500_steps(self):
        surrogate = deeppipe.ALONE.make().surrogate
        assert not surrogate.transfer
        assert len(links(99)) * surrogate.fine_tune_steps == 480
        assert surrogate.looseness is None  # no kernel was learned that it should stay close to
        assert deeppipe.ALONE.text == "deeppipe-alone"

    def test_rates_where_an_algorithm_is_new(self):
        new = deeppipe.NEW_ALGORITHM
        rates = [method.make().surrogate.fine_tune_rate for method in (new.encoded, new.plain, new.untrained)]
        assert rates == [0.001, 0.001, DeepPipe().fine_tune_rate]
        assert new.untrained.make().surrogate.looseness is None

    def test_experiments_on_the_network_have_no_memory_and_short_training(self):
        experiments = [EXPERIMENTS["deeppipe_few_tasks"].kind, deeppipe.LAYERS, deeppipe.FACTOR, deeppipe.ZAP]
        experiments += [deeppipe.NEW_ALGORITHM.comparison(meta) for meta in ("tensor_oboe", "pmf")]
        for experiment in experiments:
            for method in (*experiment.methods, *(m for some in experiment.variants.values() for m in some)):
                surrogate = method.make().surrogate
                assert isinstance(surrogate, DeepPipe)
                assert surrogate.steps == 3000 or not surrogate.transfer

    def test_the_ablations_have_a_method_in_common(self):
        common = [deeppipe.ENCODED[1], deeppipe.LAYERS.methods[0], deeppipe.FACTOR.methods[2]]
        described = [method.make().describe() for method in common]
        assert described[0] == described[1] == described[2]

    def test_the_paper_s_model_is_trained_as_ours(self):
        paper, ours = deeppipe.paper_model("model").make().surrogate, DeepPipe()
        assert paper.training == ours.training
        assert (paper.mean, paper.noise, paper.logarithmic, paper.targets) == ("constant", "shared", False, "accuracy")

    def test_estimators_of_other_meta_datasets(self):
        with pytest.raises(InvalidInput, match="which estimators of 'zap'"):
            deeppipe.NEW_ALGORITHM.comparison("zap")


class TestBorrowing:
    def test_what_a_replay_found_is_used_again_whatever_it_is_called(self, meta, partition, tmp_path, monkeypatch, put):
        replay(meta, ["random", "gp(ard=False)"], partition, evaluations=9, out=tmp_path / "replay_tensor_oboe.json")
        before = Results.load(tmp_path / "replay_tensor_oboe.json")
        methods = ("random", Method.called("gp-plain", "gp(ard=False)"), "random2x")
        put("deeppipe_factor", Comparison(methods), evaluations=9)
        ran = []
        monkeypatch.setattr(RandomSearch, "meta_fit", lambda self, _: ran.append("random") or self)
        monkeypatch.setattr(Bayes, "meta_fit", lambda self, _: ran.append("gp") or self)
        found, _ = run_experiment("deeppipe_factor", meta, tmp_path)
        assert ran == ["random"]  # random2x
        entries = found.results.methods
        assert set(entries) == {"random", "gp-plain", "random2x"}
        assert entries["gp-plain"]["curves"] == before.methods["gp(ard=False)"]["curves"]
        assert entries["random"]["versus"] == {"method": "gp-plain", **found.results.versus("random", "gp-plain", 9)}

    def test_what_is_out_of_date_is_replaced(self, meta, partition, tmp_path, monkeypatch, put):
        put("deeppipe_factor", Comparison((Method.called("gp-x", "gp(ard=False)"),)), evaluations=9)
        run_experiment("deeppipe_factor", meta, tmp_path)
        replay(meta, ["gp"], partition, evaluations=9, out=tmp_path / "replay_tensor_oboe.json")
        put("deeppipe_factor", Comparison((Method.called("gp-x", "gp"),)))
        monkeypatch.setattr(Bayes, "suggest", None)
        found, _ = run_experiment("deeppipe_factor", meta, tmp_path)
        assert found.results.methods["gp-x"]["settings"] == Method.parse("gp").make().describe()

    def test_other_runs_are_not(self, meta, partition, tmp_path, put):
        replay(meta, ["random"], partition, evaluations=8, out=tmp_path / "replay_tensor_oboe.json")
        put("deeppipe_factor", Comparison(("random",)))
        found, path = run_experiment("deeppipe_factor", meta, tmp_path, evaluations=9)
        assert found.results.evaluations == 9
        assert path.name == "deeppipe_factor_9evaluations.json"


class TestSizes:
    def test_an_entry_says_how_many_tasks(self, meta, tmp_path, put):
        put("deeppipe_factor", Comparison(("random",)), evaluations=6, tasks=2)
        found, path = run_experiment("deeppipe_factor", meta, tmp_path)
        assert (path.name, found.results.tasks) == ("deeppipe_factor.json", [5, 6])
        assert found.results.split == "test, first 2"
        found, path = run_experiment("deeppipe_factor", meta, tmp_path, tasks=3)
        assert (path.name, found.results.split) == ("deeppipe_factor_first3.json", "test")
        _, path = run_experiment("deeppipe_factor", meta.changed(name="pmf"), tmp_path, tasks=1)
        assert path.name == "deeppipe_factor_pmf_first1.json"


class TestShares:
    def test_smaller_ones_are_part_of_larger_ones(self, meta, partition):
        parts = [share(p).learning(meta, partition) for p in (0.01, 0.5, 1.0)]
        assert [len(part) for part in parts] == [1, 2, 4]
        assert set(parts[0].tasks) < set(parts[1].tasks) < set(parts[2].tasks)
        assert all(len(part.validation) == 1 for part in parts)
        assert share(0.05).called(Method.parse("gp")).text == "gp-share0.05"
        with pytest.raises(InvalidInput, match="above 0"):
            share(0.0)


class TestRankings:
    def test_ranks_are_among_a_group_and_after_the_initial_ones(self):
        results = Results("m", "test", 7, 1, [0, 1], ["a", "b"])
        ones = np.ones((2, 7))
        first, second, third = ones.copy(), 2 * ones, 3 * ones
        first[1, 6] = 9.0  # the last on one task, after one of two evaluations
        for name, curves in {"x": first, "y": second, "z": third}.items():
            results.add(name, list(curves))
        np.testing.assert_allclose(overall_ranks(results, ["x", "y"]), [[1.0, 1.5], [2.0, 1.5]])
        np.testing.assert_allclose(overall_ranks(results, ["x", "y", "z"]).mean(axis=1), [1.5, 1.75, 2.75])
        ranked = Compared(results, {"a": {"one": "x", "two": "y"}, "b": {"one": "x", "two": "missing"}})
        table = ranked.table()
        assert table.columns == ["", "a"]
        assert [row[0] for row in table.rows] == ["one", "two"]
        assert table.rows[0][1].startswith("1.25 ±")
        assert "evaluations 6 to 7" in table.title

    def test_few_tasks_are_ranked_by_share(self, meta, tmp_path, put):
        few = share(0.5)
        methods = (quick("a", encoder_layers=0), quick("b", encoder_layers=1))
        groups = {
            "50%": {"a": few.called(methods[0]).text, "b": few.called(methods[1]).text},
            "100%": {"a": "deeppipe-a", "b": "deeppipe-b"},
        }
        put("deeppipe_few_tasks", Comparison(methods, {few: methods}, groups))
        found, path = run_experiment("deeppipe_few_tasks", meta, tmp_path, tasks=2, evaluations=7)
        assert found.table().columns == ["", "50%", "100%"]
        facts = Results.load(path).methods["deeppipe-a-share0.5"]["learned_from"]
        assert (facts["tasks"], facts["of"]["tasks"]) == (2, 4)


class TestNewAlgorithm:
    def test_what_is_learned_from_does_not_have_it(self, meta, partition):
        found = new_algorithm.new("svm").learning(meta, partition)
        assert found.pipelines.space.stages[-1].names == ("knn", "naive_bayes")
        kept = np.flatnonzero(meta.pipelines.choice[:, -1] != 1)
        np.testing.assert_array_equal(found.pipelines.ids, meta.pipelines.ids[kept])
        np.testing.assert_array_equal(found.losses, meta.losses[:4][:, kept])
        np.testing.assert_array_equal(found.validation.losses, meta.losses[4:5][:, kept])
        assert [p.algorithms for p in found.pipelines] == [meta.pipelines[int(i)].algorithms for i in kept]
        assert found.pipelines[0].params == meta.pipelines[int(kept[0])].params

    @pytest.mark.parametrize(("layers", "fine_tune"), [(0, "all"), (1, "encoder")])
    def test_the_surrogate_is_extended_on_new_tasks(self, meta, partition, layers, fine_tune):
        variant = new_algorithm.new("svm")
        trained = quick("x", encoder_layers=layers).make().meta_fit(variant.learning(meta, partition))
        ready = variant.made_ready(trained, meta)
        assert ready.surrogate.space == meta.pipelines.space
        assert ready.surrogate.new_algorithms == [("estimator", "svm")]
        assert ready.surrogate.fine_tune == fine_tune

    def test_where_it_is_left_out_nothing_has_it(self, meta, partition):
        variant = new_algorithm.without("svm")
        trained = quick("x").make().meta_fit(variant.learning(meta, partition))
        ready = variant.made_ready(trained, meta)
        run = ready.start(recorded_task(meta, 5), 0)
        assert "svm" in {p.algorithms[-1] for p in recorded_task(meta, 5).initial}
        for _ in range(8):
            (proposal,) = run.ask(1)
            assert proposal.pipeline.algorithms[-1] != "svm"
            (recorded,) = meta.everything.encode([proposal.pipeline])
            assert (recorded.algorithms, recorded.params) == (proposal.pipeline.algorithms, proposal.pipeline.params)

            run.tell(Trial(proposal, Outcome.of(0.5), 0.0, 0.0))

    def test_five_rows_for_each_estimator(self, meta, tmp_path, monkeypatch, put):
        alone = Method.called(
            "deeppipe-alone",
            "deeppipe_network(transfer=False, mean=zero, noise=shared, fine_tune=all, fine_tune_steps=1, factor=1)",
        )
        experiment = replace(
            deeppipe.NEW_ALGORITHM,
            estimators={"tensor_oboe": ("svm", "knn")},
            encoded=quick("encoders1", encoder_layers=1, fine_tune_steps=2),
            plain=quick("encoders0", encoder_layers=0, fine_tune_steps=2),
            untrained=alone,
        )
        put("deeppipe_new_algorithm", experiment)
        found, path = run_experiment("deeppipe_new_algorithm", meta, tmp_path, tasks=2, evaluations=7)
        table = found.table()
        assert [row[0] for row in table.rows] == list(new_algorithm.ROWS)
        assert table.columns == ["", "svm", "knn"]
        assert all(cell for row in table.rows for cell in row)
        methods = Results.load(path).methods
        assert len(methods) == 2 + 2 * 3
        left_out, new = methods["deeppipe-encoders1-without.svm"], methods["deeppipe-encoders1-new.svm"]
        assert left_out["given"] == new["given"]  # the same meta-training
        calls = []
        monkeypatch.setattr(Bayes, "meta_fit", lambda *_: calls.append(1))
        run_experiment("deeppipe_new_algorithm", meta, tmp_path, tasks=2, evaluations=7)
        assert not calls


class TestClusters:
    def test_metric_by_brute_force(self):
        rng = np.random.default_rng(0)
        points, kinds = rng.standard_normal((14, 3)), rng.integers(0, 3, 14)
        closer = triples = 0
        for a in range(14):
            for b in range(14):
                for c in range(14):
                    if a != b and kinds[a] == kinds[b] != kinds[c]:
                        triples += 1
                        closer += np.linalg.norm(points[a] - points[b]) < np.linalg.norm(points[b] - points[c])
        assert cluster_metric(points, kinds) == pytest.approx(closer / triples)
        assert cluster_metric(10.0 * kinds[:, None] + 0.1 * points, kinds) == 1.0
        with pytest.raises(InvalidInput, match="two kinds"):
            cluster_metric(points, np.zeros(14, dtype=int))

    def test_a_file(self, meta, tmp_path, monkeypatch, put):
        put("deeppipe_cluster", Clusters(sample=30, estimators=2, networks=2, factor=2))
        found, path = run_experiment("deeppipe_cluster", meta, tmp_path)
        assert Clustered.load(path) == found
        assert len(found.estimators) == 2
        assert len(found.estimator) == 30
        assert np.shape(found.flat) == (3, 30, 2)
        assert np.shape(found.metrics["with"]) == (3, 2)
        assert len(found.table().rows) == 2
        monkeypatch.setattr("experiments.cluster.cluster_metric", None)
        again, _ = run_experiment("deeppipe_cluster", meta, tmp_path)
        assert again == found

    def test_other_pipelines_of_the_same_space_are_not_known_already(self, meta, tmp_path, put):
        put("deeppipe_cluster", Clusters(sample=20, estimators=2, networks=2, factor=2))
        found, _ = run_experiment("deeppipe_cluster", meta, tmp_path)
        kept = np.arange(len(meta.pipelines)) % 3 > 0
        other = MetaDataset(
            meta.pipelines.take(np.flatnonzero(kept)),
            meta.losses[:, kept],
            meta.tasks,
            splits=meta.splits,
            name=meta.name,
        )
        assert other.pipelines.space.key == meta.pipelines.space.key
        again, path = run_experiment("deeppipe_cluster", other, tmp_path)
        assert again.metrics != found.metrics
        assert again.key == other.key != found.key
        assert Clustered.load(path) == again


class TestEmbedding:
    @pytest.fixture(autouse=True)
    def cheap(self, put):
        method = f"deeppipe_network({QUICK})"
        cheap = replace(deeppipe.EMBEDDING, method=method, sample=40, stages=("reducer", "no such"))
        put("deeppipe_embedding", cheap)

    def test_points_of_a_network(self, meta, tmp_path):
        found, path = run_experiment("deeppipe_embedding", meta, tmp_path)
        assert Points.load(path).table() == found.table()
        assert np.shape(found.points) == (40, 2)
        assert np.shape(found.flat) == (40, 2)
        assert found.task == meta.tasks[5]
        assert list(found.other_losses) == [meta.tasks[6]]
        first = meta.pipelines.space.stages[0].name
        assert set(found.stages) <= {first}
        assert len(found.table().rows) == 1 + len(found.stages) + 2

    def test_in_units_of_length_scales(self, meta, partition):
        surrogate = Method.parse(f"deeppipe_network({QUICK})").make().meta_fit(partition.learning(meta)).surrogate
        points = latent_points(surrogate, meta.pipelines)
        outputs = surrogate.network(surrogate.learned, meta.pipelines.features()).points
        np.testing.assert_allclose(points, outputs / np.exp(surrogate.learned["kernel.length_scales"]))


def test_weights_are_counted_beside_the_numbers_of_the_paper(tmp_path):
    meta = divided_meta("tensor_oboe")
    found, path = run_experiment("deeppipe_weights", meta, tmp_path)
    assert found == Counts.load(path)
    space = meta.pipelines.space
    inputs, widths = (
        space.width,
        [max(1, *(sum(p.width for p in a.params) for a in s.algorithms)) for s in space.stages],
    )
    units = 6 * sum(widths)
    assert found.counted[0][1] == inputs * units + 3 * units**2
    assert found.printed[2][1] == 161 * 6 + (271 + 2 * 144) * 36
    assert found.table().rows[1][3].endswith("(28,936)")
    with pytest.raises(InvalidInput, match="prints no weights for 'other'"):
        run_experiment("deeppipe_weights", meta.changed(name="other"), tmp_path)
