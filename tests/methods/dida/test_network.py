"""The network of Dida against its equations, its invariances and the paper's propositions."""

from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from headstart.metafeatures.identification import told_apart
from headstart.metafeatures.set_networks import TableArrays
from headstart.methods.dida.network import DidaNetwork, differences_of, near_rows

ALL = DidaNetwork(2, pair_units=5, units=6, outputs=4, neighbours=None)
NEAR = DidaNetwork(2, pair_units=5, units=6, outputs=4, neighbours=4)


def table(rng, n=12, d=3, classes=3, levels=None):
    """Numbers and classes; with levels, whole numbers, of which many are equally far from another."""
    x = rng.standard_normal((n, d)) if levels is None else rng.integers(-levels, levels + 1, (n, d))
    return TableArrays(x.astype(np.float32), np.eye(classes, dtype=np.float32)[rng.integers(0, classes, n)])


def relu(values):
    return np.maximum(values, 0.0)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("number", [None, 5])
def test_the_network_is_its_equations_written_out(layers, number):
    network, rng = DidaNetwork(layers, 5, 6, 4, number), np.random.default_rng(0)
    p, given = network.initial(rng), table(rng)
    x, y = given.features.astype(np.float64), given.targets.argmax(axis=1)
    n, d = x.shape

    def weights(name):
        return p[f"dida.{name}.weight"], p[f"dida.{name}.bias"]

    def phi_1(i, j):
        total = np.zeros(6)
        for k in range(d):
            weight, bias = weights("pairs")
            total += np.append(relu(np.array([x[i, k], x[j, k]]) @ weight + bias), float(y[i] != y[j])) / d
        weight, bias = weights("joint")
        return relu(total @ weight + bias)

    near = [np.argsort(np.linalg.norm(x - x[i], axis=1))[:number] for i in range(n)]
    points = np.array([np.mean([phi_1(i, j) for j in near[i]], axis=0) for i in range(n)])
    if layers == 2:
        weight, bias = weights("second")
        near = [np.argsort(np.linalg.norm(points - points[i], axis=1))[:number] for i in range(n)]
        points = np.array(
            [
                np.mean([relu(np.append(points[i], points[j]) @ weight + bias) for j in near[i]], axis=0)
                for i in range(n)
            ]
        )
    weight, bias = weights("point.0")
    mean = np.mean([relu(point @ weight + bias) for point in points], axis=0)
    (first, b_first), (second, b_second) = weights("last.0"), weights("last.1")
    expected = relu(mean @ first + b_first) @ second + b_second
    np.testing.assert_allclose(network(p, [network.whole(given)])[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("network", [ALL, NEAR], ids=["all rows", "neighbours"])
@pytest.mark.parametrize("levels", [None, 2], ids=["numbers", "many rows equally far"])
def test_the_order_of_rows_features_and_classes_does_not_matter(network, levels):
    rng = np.random.default_rng(1)
    p = network.initial(rng)
    for _ in range(5):
        given = table(rng, n=40, levels=levels)
        rows, columns, classes = (rng.permutation(size) for size in (40, 3, 3))
        other = TableArrays(given.features[np.ix_(rows, columns)], given.targets[np.ix_(rows, classes)])
        one, two = network(p, [network.whole(given), network.whole(other)])
        np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)
        changed = TableArrays(given.features, given.targets[rows])
        assert np.abs(network(p, [network.whole(changed)])[0] - one).max() > 1e-6


def test_rows_that_all_stand_twice_change_nothing_where_all_rows_are_compared():
    rng = np.random.default_rng(2)
    p, given = ALL.initial(rng), table(rng)
    for times in (2, 3):
        copies = TableArrays(*(np.concatenate([part] * times) for part in (given.features, given.targets)))
        one, other = ALL(p, [ALL.whole(given), ALL.whole(copies)])
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def test_a_row_and_its_duplicates_are_its_neighbours():
    x = np.array([[0.0], [0.0], [0.0], [5.0], [6.0], [9.0]])
    near = near_rows(x, np.zeros((6, 6)), 3)
    assert [set(row) for row in near[:3]] == [{0, 1, 2}] * 3
    assert set(near[3]) >= {3, 4}
    assert near_rows(x, np.zeros((6, 6)), 99).shape == (6, 6)


def test_neighbours_are_the_nearest_of_a_slightly_lopsided_distance():
    rng = np.random.default_rng(5)
    x, differences = rng.integers(-2, 3, (30, 3)), rng.integers(0, 2, (30, 30))
    left, right = x[:, None].astype(float), x[None].astype(float)
    apart = ((left - right) ** 2 * (1 + 1e-3 * np.cos(right + 1) + 1e-3 * np.sin(left + 1))).sum(
        axis=2
    ) + 1e-3 * differences
    kth = np.sort(apart, axis=1)[:, 6:7]
    near = np.take_along_axis(apart, near_rows(x, differences, 7), axis=1)
    assert (near <= kth + 1e-12).all()


def test_differences_are_those_of_classes_and_bounded_for_numbers():
    classes = np.eye(3)[[0, 1, 1]]
    np.testing.assert_array_equal(differences_of(classes), [[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    numbers = np.array([[0.0], [1.0], [5.0]])
    np.testing.assert_allclose(differences_of(numbers), [[0, 0.5, 1], [0.5, 0, 1], [1, 1, 0]])


def test_numpy_and_torch_together_and_one_by_one_give_the_same():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    p = NEAR.initial(rng)
    batches = [NEAR.whole(table(rng, n, d)) for n, d in ((12, 3), (20, 2), (12, 3), (3, 1), (20, 2))]
    together = NEAR(p, batches)
    np.testing.assert_allclose(together, np.concatenate([NEAR(p, [b]) for b in batches]), rtol=1e-9, atol=1e-12)
    tensors = {name: torch.from_numpy(value) for name, value in p.items()}
    np.testing.assert_allclose(together, NEAR(tensors, batches).numpy(), rtol=1e-7, atol=1e-9)
    assert np.abs(together[0] - together[2]).max() > 1e-6


def test_identical_tables_have_finite_gradients():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(4)
    batch = NEAR.whole(table(rng))
    tensors = {name: torch.tensor(value, requires_grad=True) for name, value in NEAR.initial(rng).items()}
    told_apart(NEAR(tensors, [batch] * 4), [0, 0, 1, 1]).backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in tensors.values())


def transport(left, right):
    """W₁ of two sets of as many points."""
    apart = cdist(left, right)
    return apart[linear_sum_assignment(apart)].mean()


def transport_in_any_order(left, right):
    return min(transport(left[:, list(order)], right) for order in permutations(range(left.shape[1])))


def layer(p, x):
    """f_φ1 of rows of one class, points (n, r), and a Lipschitz constant of φ1 in each of its arguments."""
    everything = near_rows(x, np.zeros((len(x), len(x))), None)[None]
    points = ALL.first_layer(p, x[None], everything, np.zeros(everything.shape))[0]
    inner = max(np.linalg.norm(row) for row in p["dida.pairs.weight"]) / np.sqrt(x.shape[1])
    return points, inner * np.linalg.norm(p["dida.joint.weight"][:-1], 2)


def random_case(seed, n=15):
    rng = np.random.default_rng(seed)
    p = ALL.initial(rng)
    p["dida.joint.bias"] = np.full(6, 3.0)  # where relu lets everything through, the bound is nearest
    x = rng.standard_normal((n, 3))
    return rng, p, x, x + rng.choice([0.01, 0.3, 3.0]) * rng.standard_normal((n, 3))


@pytest.mark.parametrize("seed", range(10))
def test_an_invariant_layer_is_lipschitz(seed):
    """Proposition 1 has 2 r C; without the r it holds too, and is the harder test."""
    rng, p, x, other = random_case(seed)
    (one, bound), (two, _) = layer(p, x), layer(p, other[:, rng.permutation(3)])
    assert transport(one, two) <= 2.0 * bound * transport_in_any_order(x, other) * (1 + 1e-9)


@pytest.mark.parametrize("seed", range(10))
def test_small_changes_before_and_behind_a_layer_change_little(seed):
    """Proposition 2, again without its r."""
    rng, p, x, other = random_case(seed)

    def before(rows):  # the same for each feature
        return rows + 0.1 * np.sin(2.0 * rows)

    turn = 0.9 * np.linalg.qr(rng.standard_normal((6, 6)))[0]

    def behind(points):
        return points @ turn

    one, bound = layer(p, x)
    changed = layer(p, before(x))[0]
    most = max(np.linalg.norm(behind(changed) - changed, axis=1))
    moved = max(np.linalg.norm(before(x) - x, axis=1))
    assert transport(behind(changed), one) <= (most + 2.0 * bound * moved) * (1 + 1e-9)
    also = behind(layer(p, before(other[:, rng.permutation(3)]))[0])
    assert transport(behind(changed), also) <= 2.0 * bound * 1.2 * 0.9 * transport_in_any_order(x, other) * (1 + 1e-9)
