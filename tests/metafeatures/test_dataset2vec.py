import warnings

import numpy as np
import pandas as pd
import pytest

from headstart.data import Dataset
from headstart.data.errors import DataWarning
from headstart.errors import InvalidInput, ModelFileError, NeedsTable
from headstart.learning.networks import MLP
from headstart.metadata.tables import InMemory
from headstart.metafeatures.dataset2vec import Dataset2Vec
from headstart.metafeatures.set_networks import (
    Dataset2VecNetwork,
    TableArrays,
    distance,
    identification_loss,
    table_pairs,
)
from headstart.testing import MetaFeaturesContract
from headstart.testing.examples import small_meta
from headstart.testing.tables import meta_with_tables, small_tables

torch = pytest.importorskip("torch")


class TestDataset2Vec(MetaFeaturesContract):
    def make(self):
        return Dataset2Vec(outputs=6, units=8, blocks=1, depth=1, steps=5, n_tables=3)


@pytest.fixture(scope="module")
def extractor():
    return Dataset2Vec(outputs=6, units=16, blocks=1, depth=1, steps=5, n_tables=3).meta_fit(meta_with_tables())


def dataset(X, y, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return Dataset.from_arrays(X, y, **settings)


def mixed(rng, n=70):
    frame = pd.DataFrame(
        {
            "number": rng.standard_normal(n),
            "level": rng.choice(["p", "q", "r"], n),
            "many": rng.choice([f"m{i}" for i in range(25)], n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D"),
        }
    )
    frame.loc[3:9, "number"] = np.nan
    frame.loc[5:6, "level"] = None
    return frame, np.repeat(["one", "two"], [25, n - 25])


def test_the_order_of_rows_columns_and_classes_and_all_names_do_not_matter(extractor):
    rng = np.random.default_rng(1)
    frame, y = mixed(rng)
    vector = extractor.transform(dataset(frame, y))
    rows = rng.permutation(len(frame))
    variants = {
        "rows": (frame.iloc[rows].reset_index(drop=True), y[rows]),
        "columns": (frame[["day", "many", "number", "level"]], y),
        "classes": (frame, np.where(y == "one", "zzz", "aaa")),
        "levels": (frame.assign(level=frame["level"].map({"p": "zz", "q": "b", "r": "a"})), y),
        "names": (frame.rename(columns={"number": "other"}), y),
        "units": (frame.assign(number=1000.0 * frame["number"] + 5.0), y),
    }
    for what, table in variants.items():
        np.testing.assert_allclose(extractor.transform(dataset(*table)), vector, rtol=1e-5, atol=1e-6, err_msg=what)
    changed = frame.assign(number=frame["number"].to_numpy()[rows])
    assert np.abs(extractor.transform(dataset(changed, y)) - vector).max() > 1e-4


def test_numpy_and_torch_give_the_same():
    rng = np.random.default_rng(0)
    network = Dataset2VecNetwork(units=8, outputs=4, blocks=2, depth=3)
    parameters = network.initial(rng)
    pairs = [rng.standard_normal((q, n, 2)) for q, n in ((3, 10), (1, 40000), (6, 4))]
    own = network(parameters, pairs)
    theirs = network({k: torch.from_numpy(v) for k, v in parameters.items()}, [torch.from_numpy(p) for p in pairs])
    assert own.shape == (3, 4)
    np.testing.assert_allclose(own, theirs.numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("architecture", ["dmfbs", "dida"])
def test_the_network_is_equation_10_written_out(architecture):
    rng = np.random.default_rng(0)
    network = Dataset2VecNetwork(units=5, outputs=3, blocks=1, depth=2, architecture=architecture)
    known = network.initial(rng)
    x, y = rng.standard_normal((7, 2)), rng.standard_normal((7, 3))
    inner = []
    for f in range(2):
        for c in range(3):
            rows = [network.within(known, np.array([x[i, f], y[i, c]])) for i in range(7)]
            inner.append(network.between(known, np.mean(rows, axis=0)))
    expected = network.last(known, np.mean(inner, axis=0))
    np.testing.assert_allclose(network(known, [table_pairs(x, y)])[0], expected, rtol=1e-10)


def test_architectures_are_those_of_the_papers():
    """Table 1 of DMFBS, and appendix B.4.2 of the thesis on Dida, by their numbers of weights."""
    dense, first = 32 * 32 + 32, 2 * 32 + 32
    of_dmfbs = Dataset2VecNetwork(32, 32, blocks=8, depth=4).initial(np.random.default_rng(0))
    assert sum(v.size for v in of_dmfbs.values()) == (first + 33 * dense) + 4 * dense + (dense + 33 * dense)
    dense, first = 128 * 128 + 128, 2 * 128 + 128
    of_dida = Dataset2VecNetwork(128, 128, 1, 3, architecture="dida").initial(np.random.default_rng(0))
    assert sum(v.size for v in of_dida.values()) == (first + 4 * dense) + 5 * dense + 2 * dense
    with pytest.raises(InvalidInput, match="architecture must be 'dmfbs' or 'dida', got 'other'"):
        Dataset2Vec(architecture="other")


def test_tables_together_are_as_one_by_one():
    rng = np.random.default_rng(0)
    network = Dataset2VecNetwork(units=6, outputs=3, blocks=1, depth=2)
    parameters = network.initial(rng)
    pairs = [rng.standard_normal((q, n, 2)) for q, n in ((3, 10), (1, 1), (6, 4), (2, 40_000))]
    alone = np.concatenate([network(parameters, [each]) for each in pairs])
    np.testing.assert_allclose(network(parameters, pairs), alone, rtol=1e-9, atol=1e-12)


def test_a_large_table_is_the_mean_of_its_parts(extractor):
    rng = np.random.default_rng(0)
    large = dataset(rng.random((1500, 60)), rng.integers(0, 3, 1500).astype(str))
    network = extractor.network
    parts = [network.part(TableArrays.of(large, 1000, draw), draw) for draw in range(4)]
    assert all(p.features.shape[0] == 1000 and p.features.shape[1] * p.targets.shape[1] <= 100 for p in parts)
    vectors = [network(extractor.parameters, [network.whole(part)])[0] for part in parts]
    np.testing.assert_allclose(extractor.transform(large), np.mean(vectors, axis=0), rtol=1e-9)
    assert np.std(vectors, axis=0).max() > 1e-6


def test_a_residual_block_adds_its_input():
    network = Dataset2VecNetwork(units=3, outputs=2, blocks=1, depth=2).last
    rng = np.random.default_rng(0)
    known = network.initial(rng)
    x = rng.standard_normal(3)

    def layer(name, value):
        return value @ known[f"{network.name}.{name}.weight"] + known[f"{network.name}.{name}.bias"]

    first = np.maximum(layer("first", x), 0)
    block = first + np.maximum(layer("0.1", np.maximum(layer("0.0", first), 0)), 0)
    np.testing.assert_allclose(network(known, x), layer("last", block))


def test_the_loss_is_that_of_a_coin_and_has_gradients_everywhere():
    left, right = (torch.tensor(v, requires_grad=True) for v in ([[1.0, 2.0], [0.3, 0.0]], [[1.0, 2.0], [0.0, 0.4]]))
    found = distance(left, right)
    assert found.tolist() == pytest.approx([1e-6, 0.5], rel=1e-5)
    for same in (True, False):
        losses = identification_loss(distance(left, right), torch.tensor([same, same]))
        probability = np.exp(-0.5)
        assert losses[1].item() == pytest.approx(-np.log(probability if same else 1 - probability))
        gradients = torch.autograd.grad(losses.sum(), (left, right))
        assert all(torch.isfinite(g).all() for g in gradients)


def test_batches_of_different_tables_are_told_apart_after_training():
    rng = np.random.default_rng(0)
    shapes = [rng.standard_normal, rng.standard_exponential, rng.standard_cauchy, rng.random]
    kinds = [dataset(shapes[i % 4]((150, 4)), rng.integers(0, 2, 150).astype(str)) for i in range(4)]
    meta = small_meta(4).changed(tables=[InMemory(kind) for kind in kinds])
    extractor = Dataset2Vec(8, 16, 1, 1, steps=60, learning_rate=3e-3, n_tables=4).meta_fit(meta)
    arrays = [TableArrays.of(k) for k in kinds]
    right = []
    for _ in range(40):
        pairs, owners = extractor.draw(arrays, rng)
        vectors = extractor.network(extractor.parameters, pairs)
        apart = np.linalg.norm(vectors[:, None] - vectors[None], axis=-1)
        first, second = np.triu_indices(len(owners), 1)
        same = np.array(owners)[first] == np.array(owners)[second]
        near = np.exp(-apart[first, second]) > 0.5
        right.append(0.5 * (near[same].mean() + (~near[~same]).mean()))
    assert np.mean(right) > 0.7


def test_large_tables_are_described_by_a_part_of_them():
    rng = np.random.default_rng(0)
    table = TableArrays.of(dataset(rng.random((300, 40)), rng.integers(0, 7, 300).astype(str)), max_rows=100)
    assert table.features.shape == (100, 40)
    part = table.most_pairs(30)
    assert part.features.shape[1] * part.targets.shape[1] <= 30
    assert len(part.features) == 100
    assert table.most_pairs(280) is table
    for _ in range(20):
        batch = table.batch(rng, 64, 5, 2)
        assert len(batch.features) in (16, 32, 64)
        assert 1 <= batch.features.shape[1] <= 5
        assert 1 <= batch.targets.shape[1] <= 2


def test_numbers_are_standardised_and_nothing_is_missing():
    frame, y = mixed(np.random.default_rng(2))
    table = TableArrays.of(dataset(frame, y))
    assert table.features.shape[1] == 1 + 3 + 1 + 1
    assert np.isfinite(table.features).all()
    number = frame["number"].to_numpy()
    expected = np.nan_to_num((number - np.nanmean(number)) / np.nanstd(number))
    np.testing.assert_allclose(table.features[:, 0], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(table.targets.sum(axis=1), 1.0)
    with pytest.raises(InvalidInput, match="must have a target"):
        TableArrays.of(dataset(frame, None))


def test_a_file_of_something_else_is_refused(extractor, tmp_path):
    with pytest.raises(ModelFileError, match="no trained parameters"):
        Dataset2Vec.load(__file__)


def test_it_must_be_trained_on_two_tables():
    table = small_tables(1)[0]
    with pytest.raises(InvalidInput, match="call meta_fit"):
        Dataset2Vec().transform(table)
    with pytest.raises(NeedsTable, match="at least 2, got 1"):
        Dataset2Vec().meta_fit(small_meta().changed(tables=[InMemory(table), *[None] * 5]))


def test_a_method_can_train_the_network_further_as_a_part_of_its_own(extractor):
    """A regressor from a table's vector to its mean loss, trained jointly with the network through the contract."""
    meta, network, rng = meta_with_tables(), extractor.network, np.random.default_rng(0)
    tables = [TableArrays.of(meta.dataset(task)) for task in range(len(meta))]
    levels = torch.tensor(np.nanmean(meta.losses, axis=1))
    head = MLP("head", (network.outputs, 1))
    own = {**extractor.parameters, **head.initial(rng)}
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in own.items()}

    def error(batches):
        return ((head(tensors, network(tensors, batches))[:, 0] - levels) ** 2).mean()

    whole = [network.whole(table) for table in tables]
    before = error(whole).item()
    optimiser = torch.optim.Adam(tensors.values(), lr=1e-2)
    for _ in range(30):
        optimiser.zero_grad()
        error(network.batches(tables, rng)).backward()
        optimiser.step()
    assert all(np.abs(tensors[name].grad.numpy()).max() > 0 for name in extractor.parameters if "weight" in name)
    assert error(whole).item() < 0.5 * before
    trained = {name: tensor.detach().numpy() for name, tensor in tensors.items()}
    np.testing.assert_allclose(network(trained, whole), network(tensors, whole).detach().numpy(), rtol=1e-8)
    assert np.abs(network(trained, whole) - network(extractor.parameters, whole)).max() > 1e-3
