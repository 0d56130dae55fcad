"""Experiments of Dida on small tables."""

import csv

import numpy as np
import pytest

from experiments import identification, patches, ranking
from experiments.catalogue import run_experiment
from experiments.identification import Identification, shares_right
from experiments.patches import Benchmark, network_of, openml, standardised, toy_table, uci
from experiments.ranking import Ranking, different
from headstart.data.splits import make_splits
from headstart.metafeatures.set_networks import TableArrays
from headstart.testing.examples import small_meta

pytest.importorskip("torch")

NETWORKS = (
    *("Dida, 2 layers", "Dida, 1 layer", "Dataset2Vec", "hand-crafted", "DSS, linear", "DSS, non-linear"),
    *("DSS, equivariant", "No-FInv-DSS", "class shares alone"),
)


def tables(number=9, rows=60):
    rng = np.random.default_rng(0)
    shapes = [rng.standard_normal, rng.standard_exponential, rng.random]
    return {
        f"t{i}": standardised(shapes[i % 3]((rows, 3 + i % 2)), rng.integers(0, 2 + i % 3, rows)) for i in range(number)
    }


@pytest.fixture
def small(monkeypatch):
    """Nine tables, patches of a few rows, and as few steps as there can be."""
    found = tables()
    names = list(found)

    def benchmark(data, seed):
        return Benchmark(found, (names[:5], names[5:7], names[7:]), (20, 30), (2, 4))

    monkeypatch.setitem(patches.BENCHMARKS, "small", benchmark)
    monkeypatch.setattr(ranking, "openml", benchmark)
    monkeypatch.setattr(identification, "N_TABLES", 3)
    monkeypatch.setattr(identification, "_CHECKS", 2)
    monkeypatch.setattr(identification, "_TIMED", 1)
    return benchmark(None, 0)


def test_networks_are_trained_and_tested_once(small, put, tmp_path):
    put("dida_uci", Identification("small", {**dict.fromkeys(NETWORKS, 1), "hand-crafted": 2}), seconds=1e-9)
    found, path = run_experiment("dida_uci", small_meta(), tmp_path)
    assert list(found.runs) == list(NETWORKS)
    assert [len(runs) for runs in found.runs.values()] == [1, 1, 1, 2, 1, 1, 1, 1, 1]
    run = found.runs["Dida, 2 layers"]["0"]
    assert set(run["accuracy"]) == {"t7", "t8"}
    assert run["steps"] == 2
    rows = {row[0]: row for row in found.table().rows}
    assert rows["Dida, 2 layers"][1:3] == ["20,928", f"{100 * np.mean(list(run['accuracy'].values())):.1f}"]
    before = path.read_text()
    run_experiment("dida_uci", small_meta(), tmp_path)
    assert path.read_text() == before
    assert [file.name for file in tmp_path.iterdir()] == [path.name]  # nothing unfinished is left


def test_patches_of_two_classes_say_nothing_of_their_sizes():
    rng = np.random.default_rng(0)
    table = standardised(np.arange(60.0)[:, None], np.repeat([0, 1, 2], [50, 6, 4]))
    even = Benchmark({}, ([], [], []), (200, 300), (2, 4), even=True)
    shares = []
    for patch in even.draw([table] * 50, rng):
        assert patch.targets.shape[1] == 2
        np.testing.assert_array_equal(patch.targets.sum(axis=1), 1)
        first, second = (patch.features[patch.targets[:, c] == 1] for c in (0, 1))
        assert not set(first.ravel()) & set(second.ravel())  # rows keep their classes
        shares.append(patch.targets.mean(axis=0)[0])
    assert abs(np.mean(shares) - 0.5) < 0.03
    assert np.std(shares) < 0.1


def test_hand_crafted_meta_features_of_a_patch_in_which_nothing_varies():
    classes = np.arange(30) % 2
    assert np.isfinite(
        patches.byu(TableArrays(np.ones((30, 3), np.float32), np.eye(2, dtype=np.float32)[classes]))
    ).all()


def test_what_was_stopped_goes_on_with_the_same_steps(small, put, tmp_path, monkeypatch):
    put("dida_uci", Identification("small", {"hand-crafted": 1}), seconds=1e-9)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(identification, "shares_right", stop)
        with pytest.raises(KeyboardInterrupt):
            run_experiment("dida_uci", small_meta(), tmp_path)
    found, _ = run_experiment("dida_uci", small_meta(), tmp_path)
    assert len(found.runs["hand-crafted"]["0"]["validation"]) == 3


def test_the_test_pairs_each_table_with_itself_and_with_another(small):
    """A network that sees which table it is answers everything right, one that sees nothing half of it."""

    class Told:
        outputs = 1

        def __init__(self, known):
            self.known = known

        def whole(self, table):
            return float(table.targets.shape[1]) if self.known else 0.0

        def __call__(self, parameters, batches):
            return parameters["scale"].new_tensor(batches)[:, None] * parameters["scale"]

    chosen = [small.tables["t7"], small.tables["t8"]]
    for known, share in ((True, 1.0), (False, 0.5)):
        right = shares_right(Told(known), {"scale": np.array(9.0)}, chosen, small, np.random.default_rng(0))
        np.testing.assert_allclose(right, share)


@pytest.mark.parametrize("algorithm", ["SGD", "k-NN"])
def test_configurations_are_evaluated_once_and_ranked(small, put, tmp_path, monkeypatch, algorithm):
    monkeypatch.setattr(ranking, "CONFIGURATIONS", 3)
    monkeypatch.setattr(ranking, "PATCHES", 1)
    put("dida_sgd", Ranking(algorithm, {"hand-crafted": 1}), seconds=1e-9)
    found, _ = run_experiment("dida_sgd", small_meta(), tmp_path)
    (kept,) = tmp_path.glob(".dida_sgd.*.npz")
    with np.load(kept) as held:
        accuracies = dict(held)
    assert set(accuracies) == set(small.tables)
    assert all(((a >= 0) & (a <= 1)).all() and a.shape == (1, 3) for a in accuracies.values())
    assert max(a.max() for a in accuracies.values()) > 0.3
    assert set(found.runs["hand-crafted"]["0"]["accuracy"]) <= {"t7", "t8"}
    put("dida_sgd", Ranking(algorithm, {"hand-crafted": 1, "DSS, linear": 1}), seconds=1e-9)
    monkeypatch.setattr(ranking, "accuracies", lambda *_: 1 / 0)
    more, _ = run_experiment("dida_sgd", small_meta(), tmp_path)
    assert list(more.runs) == ["hand-crafted", "DSS, linear"]


def test_an_accuracy_is_that_of_scikit_learn():
    from sklearn.neighbors import KNeighborsClassifier

    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((240, 2)), rng.integers(0, 2, 240)
    table = standardised(x + y[:, None], y)
    pipeline = ranking.SPACES["k-NN"].sample(np.random.default_rng(1), 1)[0]
    scores = [
        KNeighborsClassifier(**pipeline.params[0])
        .fit(table.features[train], y[train])
        .score(table.features[valid], y[valid])
        for train, valid in make_splits(patches.dataset_of(table), folds=3, repeats=1)
    ]
    assert len(scores) == 3
    (found,) = ranking.accuracies(ranking.SPACES["k-NN"], [pipeline], table)
    assert found == pytest.approx(np.mean(scores))


def test_tables_are_read_and_split_by_name_and_group(tmp_path):
    import pandas as pd

    (tmp_path / "uci_tables").mkdir()
    (tmp_path / "meta").mkdir()
    rng = np.random.default_rng(0)
    for name in "abc":
        np.savez(tmp_path / "uci_tables" / f"{name}.npz", X=rng.random((20, 3)), y=rng.integers(0, 2, 20))
    with (tmp_path / "meta" / "dmfbs_splits.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerows([["", "train-0", "test-0", "valid-0"], [0, "b", "c", "a"], [1, "missing", "", ""]])
    assert uci(tmp_path, 0).split == (["b"], ["a"], ["c"])
    (tmp_path / "tables" / "classification").mkdir(parents=True)
    rows = []
    for i in range(14):
        frame = pd.DataFrame({"x": rng.random(1000), "target": rng.choice(["u", "v"], 1000)})
        frame.to_parquet(tmp_path / "tables" / "classification" / f"n{i}.parquet")
        rows.append({"name": f"n{i}", "group": f"g{i // 2}", "task": "classification", "rows": 1000})
    pd.DataFrame(rows).to_csv(tmp_path / "tables" / "index.csv", index=False)
    split = openml(tmp_path, 0).split
    assert sorted(len(part) for part in split) == [1, 1, 5]
    assert len({int(name[1:]) // 2 for part in split for name in part}) == 7


def test_generated_tables_have_all_shapes():
    rng = np.random.default_rng(0)
    made = [toy_table(rng, 300) for _ in range(30)]
    assert {len(np.unique(classes)) for _, classes in made} >= {2, 4, 6}
    assert all(points.shape == (300, 2) and np.isfinite(points).all() for points, _ in made)


def test_pairs_that_are_equally_good_are_left_out():
    assert len(different(np.array([0.5, 0.5]))) == 0
    assert different(np.array([0.1, 0.2])).tolist() == [[0, 1], [1, 0]]


def test_unknown_networks_are_refused(small):
    with pytest.raises(ValueError, match="there is no network 'other'"):
        network_of("other", small, np.random.default_rng(0))
