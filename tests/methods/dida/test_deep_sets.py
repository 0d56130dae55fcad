"""DSS and its lesion against their equations."""

import numpy as np
import pytest

from headstart.metafeatures.set_networks import TableArrays
from headstart.methods.dida.deep_sets import DSSNetwork, OrderedFeaturesNetwork

VARIANTS = ["linear", "nonlinear", "equivariant"]


def table(rng, n=9, d=4, classes=3):
    x = rng.standard_normal((n, d)).astype(np.float32)
    return TableArrays(x, np.eye(classes, dtype=np.float32)[rng.integers(0, classes, n)])


@pytest.mark.parametrize("variant", VARIANTS)
def test_dss_is_its_equations_written_out(variant):
    rng = np.random.default_rng(0)
    network = DSSNetwork(variant, units=5, outputs=3)
    p, given, other = network.initial(rng), table(rng), table(rng, 6, 2, 2)
    joined = []
    for of, values in (("features", given.features), ("classes", given.targets)):
        each, total = network.inner(of)
        n, d = values.shape
        if variant == "equivariant":
            mixing = p[f"dss.{of}.equivariant"] = rng.standard_normal((2, 2))
            identity, ones = np.eye(d), np.ones((d, d)) / d
            first, second = (m[0] * identity + m[1] * ones for m in mixing)
            rest = [(values.sum(axis=0) - values[j]) / (n - 1) for j in range(n)]
            values = np.array([first @ values[j] + second @ rest[j] for j in range(n)])
        rows = [total(p, sum(each(p, np.array([values[j, k]])) for k in range(d))) for j in range(n)]
        joined.append(np.mean(rows, axis=0))
    expected = network.last(p, np.concatenate(joined))
    np.testing.assert_allclose(network(p, [other, given])[1], expected, rtol=1e-5, atol=1e-6)


def test_a_linear_one_depends_on_sums_alone():
    rng = np.random.default_rng(1)
    network = DSSNetwork("linear", units=5, outputs=3)
    p, given = network.initial(rng), table(rng)
    mixed = TableArrays(rng.permutation(given.features.ravel()).reshape(given.features.shape), given.targets)
    np.testing.assert_allclose(*network(p, [given, mixed]), rtol=1e-5)


@pytest.mark.parametrize("network", [*(DSSNetwork(v, 6, 3) for v in VARIANTS), OrderedFeaturesNetwork(6, 3)])
def test_what_it_is_invariant_to_and_torch_gives_the_same(network):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(2)
    p, given = network.initial(rng), table(rng)
    rows, columns = rng.permutation(9), np.array([1, 2, 3, 0])
    moved = TableArrays(given.features[rows], given.targets[rows])
    turned = TableArrays(given.features[:, columns], given.targets[:, [1, 2, 0]])
    one, same, other = network(p, [given, moved, turned])
    np.testing.assert_allclose(one, same, rtol=1e-5, atol=1e-7)
    if isinstance(network, OrderedFeaturesNetwork):
        assert np.abs(one - other).max() > 1e-4
    else:
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-7)
    tensors = {name: torch.from_numpy(value) for name, value in p.items()}
    np.testing.assert_allclose(network(tensors, [given]).numpy()[0], one, rtol=1e-5, atol=1e-7)


def test_patches_are_of_one_size():
    rng = np.random.default_rng(3)
    patches = DSSNetwork().batches([table(rng), table(rng, 300, 40)], rng)
    assert len({patch.features.shape for patch in patches}) == 1
    assert DSSNetwork().whole(table(rng, 600, 40)).features.shape == (500, 15)
