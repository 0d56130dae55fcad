"""Experiments of Metabu on small meta-datasets."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import ndcg_score

from experiments.catalogue import run_experiment
from experiments.draws import Draws, mixture, recorded_nearest
from experiments.landscape import Augmented, Dimension, Importance
from experiments.plots import draw
from experiments.topology import Topology, folds_of, scores, standardised, without_best
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.testing.examples import small_meta
from headstart.testing.tables import meta_with_tables


@pytest.fixture
def meta():
    """Tasks with the columns of mf1, without splits."""
    small = small_meta(n_tasks=30, n_pipelines=80)
    width = len(HandCrafted("mf1").names)
    vectors = np.random.default_rng(0).standard_normal((30, width))
    return small.changed(metafeatures={"handcrafted": vectors}, name="pmf")


def test_ndcg_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    found, truth = rng.permutation(30), rng.permutation(30)
    relevance = np.zeros(30)
    relevance[truth[:10]] = 1.0
    order = np.empty(30)
    order[found] = np.arange(30, 0, -1)
    assert scores(found, truth, (10,))["full"][0] == pytest.approx(ndcg_score([relevance], [order], k=10))
    retrieved = found[:10]
    own = ndcg_score([relevance[retrieved]], [order[retrieved]], k=10)
    assert scores(found, truth, (10,))["retrieved"][0] == pytest.approx(own)


def test_one_task_is_left_out_at_a_time_and_splits_are_kept(meta):
    folds = folds_of(meta)
    assert [test for _, test in folds] == [[t] for t in range(30)]
    assert all(sorted(train + test) == list(range(30)) for train, test in folds)
    split = meta.changed(splits={"train": list(range(20)), "test": list(range(20, 30))})
    assert folds_of(split) == [(list(range(20)), list(range(20, 30)))]


def test_what_is_standardised_is_of_the_training_tasks():
    vectors = np.array([[1.0, 5.0], [3.0, 5.0], [np.nan, 5.0], [100.0, 7.0]])
    np.testing.assert_allclose(standardised(vectors, [0, 1]), [[-1, 0], [1, 0], [0, 0], [98, 0]])


def test_the_best_results_can_be_taken_away(meta):
    left = without_best(meta, 10)
    for task in range(len(meta)):
        before, after = (np.sort(m.losses[task][np.isfinite(m.losses[task])]) for m in (meta, left))
        np.testing.assert_array_equal(after, before[10:])


def test_topology_is_measured_once_and_drawn(meta, tmp_path, put):
    methods = {"metabu": "metabu(steps=3)", "scot": "scot", "all meta-features": "all"}
    put("metabu_topology", Topology(methods, folds=5), meta="pmf")
    found, path = run_experiment("metabu_topology", meta, tmp_path)
    assert len(found.tasks) == 5
    assert found.values("scot").shape == (5, 4)
    assert (found.values("metabu") <= 1).all()
    assert (found.values("scot", "retrieved") >= found.values("scot")).all()
    rows = {row[0]: row for row in found.table().rows}
    assert rows["scot"][1].startswith(f"{found.values('scot')[:, 0].mean():.3f} ± ")
    before = path.read_text()
    put("metabu_topology", Topology({**methods, "landmark": "landmark"}, folds=5), meta="pmf")
    more, _ = run_experiment("metabu_topology", meta, tmp_path)
    assert more.methods["scot"] == found.methods["scot"]
    assert list(more.methods) == [*methods, "landmark"]
    assert path.read_text() != before
    (drawn,) = draw(more, tmp_path / "figure")
    assert drawn.exists()


def test_a_grid_is_drawn_as_one(meta, tmp_path, put):
    grid = {f"α {a}, λ {b}": f"metabu(steps=1, alpha={a}, penalty={b})" for a in (0.3, 0.5) for b in (0.1, 0.001)}
    put("metabu_sensitivity", Topology({"scot": "scot", **grid}, folds=2), meta="pmf")
    found, _ = run_experiment("metabu_sensitivity", meta, tmp_path)
    (drawn,) = draw(found, tmp_path / "grid")
    text = drawn.read_text(encoding="utf-8")
    difference = (found.values("α 0.3, λ 0.1") - found.values("scot"))[:, 0].mean()
    assert f"{difference:+.3f}".replace("-", "−") in text or f"{difference:+.3f}" in text


def test_a_mixture_falls_off_with_the_rank_of_a_neighbour():
    columns, weights = mixture([np.array([3, 4]), np.array([5])])
    np.testing.assert_array_equal(columns, [3, 4, 5])
    shares = np.exp([-1.0, -2.0])
    np.testing.assert_allclose(weights, np.array([0.5, 0.5, 1.0]) * shares[[0, 0, 1]] / shares.sum())


def test_what_was_not_run_is_replaced_by_the_nearest_that_was():
    points = np.array([[0.0], [1.0], [2.0], [2.2], [9.0]])
    found = recorded_nearest(points, np.array([0, 1, 2, 4]), np.array([1, 3]))
    np.testing.assert_array_equal(found, [1, 1, 3, 3])


def test_draws_on_recorded_results(meta, tmp_path, put):
    put("metabu_draws", Draws({"metabu": "metabu(steps=3)", "scot": "scot"}, draws=30, repetitions=3), meta="pmf")
    meta = meta.changed(splits={"train": list(range(12)), "test": list(range(12, 30))})
    found, path = run_experiment("metabu_draws", meta, tmp_path)
    curves = np.array(found.samplers["scot"])
    assert curves.shape == (18, 30)
    assert (np.diff(curves, axis=1) <= 1e-9).all()
    assert (curves[:, -1] >= np.array(found.lowest) - 1e-6).all()
    together = np.sum([found.places[name] for name in found.places], axis=0)
    np.testing.assert_allclose(together, 6.0, atol=1e-3)  # ranks of three
    again, _ = run_experiment("metabu_draws", meta, tmp_path)
    assert again.places == found.places
    assert [row[0] for row in found.table().rows] == ["metabu", "scot", "uniform"]
    assert all(file.exists() for file in draw(found, tmp_path / "figure"))
    assert "lowest" in path.read_text()


def test_dimension_as_it_should_be_and_as_printed(meta, tmp_path, put):
    put("metabu_intrinsic", Dimension(), meta="pmf")
    found, _ = run_experiment("metabu_intrinsic", meta, tmp_path)
    whole = {name: parts[-1][2] for name, parts in found.dimensions.items()}
    *_, normalised, printed = whole.values()
    assert printed == pytest.approx(normalised / 2, abs=1e-3)


@pytest.fixture
def folder(tmp_path):
    """AdaBoost on eight tasks, with the meta-features of pymfe."""
    rng = np.random.default_rng(0)
    (tmp_path / "meta").mkdir()
    n, tasks = 400, np.arange(8) + 3
    kinds = ("base_estimator__max_depth", "learning_rate", "n_estimators")
    runs = pd.DataFrame({f"num__classifier__{kind}": rng.standard_normal(n) for kind in kinds})
    for prefix, names in (("cat__x0_", ("SAMME", "SAMME.R")), ("cat__x1_", ("mean", "median", "most_frequent"))):
        drawn = rng.integers(0, len(names), n)
        for k, name in enumerate(names):
            runs[prefix + name] = (drawn == k).astype(float)
    runs = runs.assign(task_id=rng.choice(tasks, n), num__predictive_accuracy=rng.random(n))
    runs.to_csv(tmp_path / "meta" / "metabu_adaboost_runs.csv", index=False)
    names = [name for name in HandCrafted("full").names if name[0].islower()]
    features = pd.DataFrame(rng.standard_normal((len(tasks), len(names))), columns=names).assign(task_id=tasks)
    features.to_csv(tmp_path / "meta" / "metabu_basic_representations.csv", index=False)
    return tmp_path


def test_importance_of_the_meta_features_that_both_have(folder, tmp_path, put, monkeypatch):
    monkeypatch.setenv("HEADSTART_CACHE", str(tmp_path / "cache"))
    put("metabu_importance", Importance("knn"))
    found, _ = run_experiment("metabu_importance", meta_with_tables(), tmp_path / "out", data=folder)
    assert set(found.importance) == {name for name in HandCrafted("full").names if name[0].islower()}
    assert np.array(list(found.importance.values())).max(axis=0).tolist() == [1.0, 1.0]
    assert found.about["tasks"] == [8, 6]
    first = found.table().rows[0][1].split(", ")[0]
    assert found.importance[first][0] == 1.0
    (drawn,) = draw(found, tmp_path / "figure")
    assert first in drawn.read_text(encoding="utf-8")


def test_bootstraps_lie_near_their_table(folder, tmp_path, put):
    put("metabu_augmented", Augmented(tables=3, bootstraps=4))
    found, _ = run_experiment("metabu_augmented", meta_with_tables(), tmp_path / "out", data=folder)
    assert found.owner == [0] * 5 + [1] * 5 + [2] * 5
    assert found.closest > 0.8  # 4 of 14 by chance
    assert found.seconds["describe a table (full)"] > 0
    assert draw(found, tmp_path / "figure")[0].exists()
