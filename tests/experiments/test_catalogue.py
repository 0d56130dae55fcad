"""Experiments by name, on a small meta-dataset."""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from experiments import pmf
from experiments.catalogue import EXPERIMENTS, run_experiment
from experiments.comparison import Comparison
from experiments.embedding import Embedding, Points, latent_points, nearest
from experiments.model_error import ErrorOverTime, Errors, looked_at, model_of
from headstart.errors import InvalidInput, UnknownName
from headstart.metadata import MetaDataset
from headstart.optimizers.random import RandomSearch
from headstart.registry import create
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method
from headstart.replay.results import Results
from headstart.replay.variants import only
from headstart.surrogates.base import Prediction, Surrogate
from headstart.testing.examples import small_meta

FACTORS = "linear_factors(rank=2)"
FEW = only(pmf.LISTED)


@pytest.fixture
def meta():
    small = small_meta(n_tasks=8)
    initial = [small.pipelines.ids[np.isfinite(row)][:3] for row in small.losses]
    splits = {"train": [0, 1, 2, 3], "validation": [4], "test": [5, 6, 7]}
    ids = ["943", *pmf.LISTED[:3], *"abcd"]
    return MetaDataset(small.pipelines, small.losses, small.tasks, initial=initial, splits=splits, name="pmf", ids=ids)


def test_every_experiment_has_methods_that_exist():
    for name, experiment in EXPERIMENTS.items():
        kind = experiment.kind
        if hasattr(kind, "comparison"):
            kind = kind.comparison(experiment.meta)
        groups = [
            getattr(kind, "methods", [getattr(kind, "method", "random")]),
            *getattr(kind, "variants", {}).values(),
            [method for method, _ in getattr(kind, "runs", ())],
        ]
        make = getattr(kind, "make", lambda method: Method.of(method).make())
        if isinstance(groups[0], Mapping):  # meta-features by what they are called
            groups[0] = set(groups[0].values()) - {"all"}
            make = getattr(kind, "make", partial(create, "metafeatures"))
        assert all(make(method) is not None for methods in groups for method in methods), name
    assert len(set(pmf.LISTED)) == 140


class TestComparison:
    @pytest.fixture(autouse=True)
    def cheap(self, put):
        put("pmf_regret", Comparison((FACTORS, "random", "random2x")))
        put("pmf_few_tasks", Comparison((FACTORS, "random"), {FEW: (FACTORS,)}))

    def test_a_file_of_results(self, meta, tmp_path):
        found, path = run_experiment("pmf_regret", meta, tmp_path)
        results = Results.load(path)
        assert path.name == "pmf_regret.json"
        assert results.evaluations == 200
        assert results == found.results
        table = found.table()
        assert {row[0] for row in table.rows} == {FACTORS, "random", "random2x"}
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert f"| {FACTORS} |" in table.markdown()

    def test_a_quick_look_has_a_file_of_its_own_and_says_what_it_is(self, meta, tmp_path):
        _, path = run_experiment("pmf_regret", meta, tmp_path, tasks=2, evaluations=9)
        assert path.name == "pmf_regret_first2_9evaluations.json"
        content = json.loads(path.read_text())
        assert (content["split"], content["tasks"], content["evaluations"]) == ("test, first 2", [5, 6], 9)
        _, path = run_experiment("pmf_regret", meta.changed(name="other"), tmp_path, evaluations=9)
        assert path.name == "pmf_regret_other_9evaluations.json"

    def test_what_another_experiment_found_is_used_again(self, meta, tmp_path, monkeypatch):
        before, _ = run_experiment("pmf_regret", meta, tmp_path, evaluations=9)
        monkeypatch.setattr(RandomSearch, "suggest", None)
        found, _ = run_experiment("pmf_few_tasks", meta, tmp_path, evaluations=9)
        few = "linear_factors-few(rank=2)"
        assert set(found.results.methods) == {FACTORS, "random", few}
        assert found.results.methods["random"]["curves"] == before.results.methods["random"]["curves"]
        assert found.results.methods[few]["learned_from"]["tasks"] == 3

    def test_also_when_the_other_experiment_was_run_later(self, meta, tmp_path, put, monkeypatch):
        put("pmf_few_tasks", Comparison((FACTORS,), {FEW: (FACTORS,)}))
        run_experiment("pmf_few_tasks", meta, tmp_path, evaluations=9)
        run_experiment("pmf_regret", meta, tmp_path, evaluations=9)
        put("pmf_few_tasks", Comparison((FACTORS, "random"), {FEW: (FACTORS,)}))
        monkeypatch.setattr(RandomSearch, "suggest", None)
        found, _ = run_experiment("pmf_few_tasks", meta, tmp_path, evaluations=9)
        assert set(found.results.methods) == {FACTORS, "random", "linear_factors-few(rank=2)"}

    def test_a_file_of_other_runs_is_left_as_it_is(self, meta, tmp_path):
        run_experiment("pmf_few_tasks", meta, tmp_path, evaluations=9)
        _, path = run_experiment("pmf_regret", meta, tmp_path, evaluations=9)
        content = json.loads(path.read_text()) | {"seeds": 2}
        path.write_text(json.dumps(content))
        with pytest.raises(InvalidInput, match="seeds"):
            run_experiment("pmf_regret", meta, tmp_path, evaluations=9)
        assert json.loads(path.read_text()) == content


class Constant(Surrogate):
    """Predicts 0.5 ± 0.2 for all."""

    def fit(self, history):
        return self

    def predict(self, encoded):
        return Prediction(np.full(len(encoded), 0.5), np.full(len(encoded), 0.2))


def without_seconds(found):
    return {m: {k: v for k, v in entry.items() if k != "meta_seconds"} for m, entry in found.methods.items()}


class TestError:
    @pytest.fixture(autouse=True)
    def cheap(self, put):
        put("pmf_error", ErrorOverTime((FACTORS, "gp"), (5, 8, 12, 300)))

    def test_over_candidates_that_are_left(self, meta):
        from headstart.optimizers.bayes import Bayes

        designs = Partition.of(meta, "test").initial_designs(meta)
        known = meta.losses[6][np.isfinite(meta.losses[6])]
        everything = looked_at(Bayes(Constant()), meta, [1], designs, 6)
        first = meta.losses[6][meta.everything.rows(designs[6][:1])]
        left = (0.5 - known) ** 2
        assert everything["error"][0] == pytest.approx((left.sum() - (0.5 - first[0]) ** 2) / (len(left) - 1))
        assert everything["variance"] == pytest.approx([0.04])

    def test_a_file_with_tasks_means_and_standard_errors(self, meta, tmp_path):
        found, path = run_experiment("pmf_error", meta, tmp_path, evaluations=12)
        assert found.evaluations == [5, 8, 12]
        entry = Errors.load(path).methods[FACTORS]
        for name in ("error", "variance"):
            values = np.array(entry[name])
            assert values.shape == (3, 3)
            assert (values > 0).all()
            np.testing.assert_allclose(entry[f"{name}_mean"], values.mean(axis=0), rtol=1e-3)
            np.testing.assert_allclose(entry[f"{name}_2se"], 2 * values.std(axis=0, ddof=1) / np.sqrt(3), rtol=1e-2)
        assert len(found.table().rows) == 4

    def test_goes_on_where_it_was_stopped(self, meta, tmp_path, monkeypatch):
        from experiments import model_error

        whole, _ = run_experiment("pmf_error", meta, tmp_path / "whole", evaluations=8)
        calls = []

        def stopping(*args):
            calls.append(args[-1])
            if len(calls) == 2:
                raise KeyboardInterrupt
            return looked_at(*args)

        monkeypatch.setattr(model_error, "looked_at", stopping)
        with pytest.raises(KeyboardInterrupt):
            run_experiment("pmf_error", meta, tmp_path, evaluations=8)
        found, path = run_experiment("pmf_error", meta, tmp_path, evaluations=8)
        assert calls == [5, 6, 6, 7, 5, 6, 7]
        assert without_seconds(found) == without_seconds(whole)
        assert not list(tmp_path.glob("*.partial"))
        run_experiment("pmf_error", meta, tmp_path, evaluations=8)
        assert len(calls) == 7
        assert Errors.load(path) == found

    def test_jobs_change_nothing(self, meta, tmp_path):
        one, two = (run_experiment("pmf_error", meta, tmp_path / str(j), evaluations=8, jobs=j)[0] for j in (1, 2))
        assert without_seconds(one) == without_seconds(two)

    def test_too_few_candidates(self, meta, tmp_path, put):
        put("pmf_error", ErrorOverTime((FACTORS,), (100,)))
        with pytest.raises(InvalidInput, match="too few for 100"):
            run_experiment("pmf_error", meta, tmp_path)
        with pytest.raises(InvalidInput, match="at least 100"):
            run_experiment("pmf_error", meta, tmp_path, evaluations=4)

    def test_a_search_without_a_model(self):
        with pytest.raises(InvalidInput, match="search with a model"):
            model_of(RandomSearch())


class TestEmbedding:
    @pytest.fixture(autouse=True)
    def cheap(self, put):
        put("pmf_embedding", replace(EXPERIMENTS["pmf_embedding"].kind, method="pmf(latent=3, steps=2)", sample=40))

    def test_a_sample_of_points(self, meta, tmp_path, monkeypatch):
        found, path = run_experiment("pmf_embedding", meta, tmp_path)
        assert Points.load(path) == found
        assert np.shape(found.points) == (40, 1)  # five tasks have one factor at most
        assert found.task == "task 0"  # its id is 943
        assert found.estimators == ["knn", "svm", "naive_bayes"]
        rows = np.random.default_rng(0).permutation(60)[:40]
        assert found.estimator == meta.pipelines.choice[rows, 1].tolist()
        for row, loss, value in zip(rows, found.losses, found.values, strict=True):
            pipeline, recorded = meta.pipelines[int(row)], meta.losses[0, row]
            assert loss == pytest.approx(recorded, rel=1e-3) if np.isfinite(recorded) else loss is None
            kept = pipeline.params[0].get("n_components")
            assert value is None if kept is None else value == pytest.approx(kept, rel=1e-3)
        same, chance = found.alike()
        assert 0 < chance < same <= 1
        assert len(found.table().rows) == 3
        monkeypatch.setattr("experiments.embedding.latent_points", None)
        again, _ = run_experiment("pmf_embedding", meta, tmp_path)
        assert again == found

    def test_neighbours_by_brute_force(self):
        points = np.random.default_rng(0).standard_normal((40, 3))
        points[7] = points[8]
        distances = ((points[:, None] - points[None]) ** 2).sum(axis=-1)
        np.fill_diagonal(distances, np.inf)
        expected = np.sort(np.argsort(distances, axis=1)[:, :5], axis=1)
        np.testing.assert_array_equal(np.sort(nearest(points, 5), axis=1), expected)

    def test_many_points_at_one_place(self):
        near = nearest(np.zeros((30, 2)), 5)
        assert near.shape == (30, 5)
        with pytest.raises(InvalidInput, match="more than 10"):
            nearest(np.zeros((5, 2)))

    def test_what_neighbours_explain(self):
        rng = np.random.default_rng(0)
        place = rng.random((300, 1))
        told = Points("m", "p", {}, "", 1, place.tolist(), "t", place[:, 0].tolist(), ["a"], [0] * 300, "x", [])
        assert told.explained("losses") > 0.95
        told.losses = rng.random(300).tolist()
        assert told.explained("losses") < 0.1

    def test_what_it_cannot_do(self, meta, tmp_path):
        with pytest.raises(InvalidInput, match="no latent points"):
            latent_points(Constant(), None)
        with pytest.raises(InvalidInput, match="no tasks to choose"):
            run_experiment("pmf_embedding", meta, tmp_path, tasks=2)


def test_an_algorithm_that_is_not_there(meta, tmp_path, put):
    put("pmf_embedding", Embedding("pmf(latent=2, steps=1)", "943", "lda"))
    with pytest.raises(InvalidInput, match="'lda'"):
        run_experiment("pmf_embedding", meta, tmp_path)


def test_the_example_of_the_docs():
    text = (Path(__file__).parents[2] / "docs" / "experiments.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    namespace = {}
    exec(code, namespace)
    assert isinstance(namespace["HALF"], Comparison)
    for name in EXPERIMENTS:
        assert f"| `{name}` " in text


def test_mistakes(meta, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'pmf_regret'"):
        run_experiment("pmf_regrets", meta, tmp_path)
    with pytest.raises(InvalidInput, match="tasks must be a positive"):
        run_experiment("pmf_regret", meta, tmp_path, tasks=0)
