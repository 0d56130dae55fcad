"""The objective of DMFBS against sums written out, and its derivatives against each other and finite differences."""

import math

import numpy as np
import pytest

from headstart.metafeatures.set_networks import Dataset2VecNetwork, TableArrays
from headstart.methods.dmfbs.network import (
    full_gradient,
    identity_loss,
    manifold_loss,
    objective,
    predicted,
    regressor,
    regressor_gradient,
    similarity,
)

torch = pytest.importorskip("torch")
K, L, N = 4, 3, 5
EXTRACTOR = Dataset2VecNetwork(units=6, outputs=K, blocks=1, depth=1)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def network():
    return regressor(K, L)


def case(rng):
    return rng.standard_normal((3, K)), rng.random((N, L)), rng.standard_normal(N)


def tensors_of(parameters):
    return {name: torch.from_numpy(value) for name, value in parameters.items()}


def tables(rng, n=3):
    return [
        TableArrays(
            rng.standard_normal((30, 4)).astype(np.float32), np.eye(3, dtype=np.float32)[rng.integers(0, 3, 30)]
        )
        for _ in range(n)
    ]


def test_the_regressor_has_the_layers_of_table_1(network):
    assert network.sizes == (K + L, 128, 64, 32, 16, 16, 16, 16, 16, 1)


def test_the_objective_is_the_sum_written_out(network, rng):
    vectors, points, targets = case(rng)
    parameters = network.initial(rng)
    here = [float(network(parameters, np.concatenate([vectors[0], point]))[0]) for point in points]
    there = [float(network(parameters, np.concatenate([vectors[2], point]))[0]) for point in points]

    def distance(i, j):
        return math.sqrt(sum((a - b) ** 2 for a, b in zip(vectors[i], vectors[j], strict=True)))

    fit = sum((a - y) ** 2 for a, y in zip(here, targets, strict=True)) / N
    near = math.exp(-distance(0, 2)) * sum((a - b) ** 2 for a, b in zip(here, there, strict=True)) / N
    told_apart = distance(0, 1) - math.log(1 - math.exp(-distance(0, 2)))
    found = [
        float(objective(network, tensors_of(parameters), torch.from_numpy(vectors), points, targets, *weights))
        for weights in ((0.0, 0.0), (10.0, 0.0), (10.0, 0.1))
    ]
    np.testing.assert_allclose(found, [fit, fit + 10 * near, fit + 10 * near + 0.1 * told_apart], rtol=1e-9)
    np.testing.assert_allclose(predicted(network, parameters, vectors[0], points), here)
    assert similarity(vectors[0], vectors[2]) == pytest.approx(math.exp(-distance(0, 2)))


def test_numpy_and_torch_have_the_same_derivatives_by_the_regressor(network, rng):
    vectors, points, targets = case(rng)
    parameters = network.initial(rng)
    tensors = {name: value.requires_grad_() for name, value in tensors_of(parameters).items()}
    objective(network, tensors, torch.from_numpy(vectors), points, targets, 10.0, 0.0).backward()
    found = regressor_gradient(network, parameters, vectors[0], points, targets, vectors[2], 10.0)
    assert found.keys() == parameters.keys()
    for name, slope in found.items():  # the distance in torch has a tiny constant under its root
        np.testing.assert_allclose(slope, tensors[name].grad.numpy(), rtol=1e-7, atol=1e-10)


def test_derivatives_of_all_parameters_are_those_of_finite_differences(network, rng):
    parameters = {**EXTRACTOR.initial(rng), **network.initial(rng)}
    batches = EXTRACTOR.batches(tables(rng), rng)
    _, points, targets = case(rng)

    def value(changed):
        tensors = tensors_of(changed)
        vectors = EXTRACTOR(tensors, batches)
        return float(objective(network, tensors, vectors, points, targets, 10.0, 0.1))

    found = full_gradient(EXTRACTOR, network, parameters, batches, points, targets, 10.0, 0.1)
    assert found.keys() == parameters.keys()
    for name in ("regressor.0.weight", "dataset2vec.within.first.weight", "dataset2vec.last.last.bias"):
        at = tuple(0 for _ in parameters[name].shape)
        ends = []
        for step in (1e-6, -1e-6):
            changed = {**parameters, name: parameters[name].copy()}
            changed[name][at] += step
            ends.append(value(changed))
        assert found[name][at] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-4, abs=1e-7)


def test_identical_tables_have_finite_derivatives(network, rng):
    """A norm has none at 0; two tables that are the same row by row are where that would be seen."""
    table = tables(rng, 1)[0]
    parameters = {**EXTRACTOR.initial(rng), **network.initial(rng)}
    _, points, targets = case(rng)
    batches = [EXTRACTOR.whole(table)] * 3
    found = full_gradient(EXTRACTOR, network, parameters, batches, points, targets, 10.0, 0.1)
    assert all(np.isfinite(slope).all() for slope in found.values())
    assert any(np.abs(slope).max() > 0 for slope in found.values())


def test_the_manifold_term_ignores_tables_that_are_far_apart_and_predictions_that_agree(rng):
    one, here, there = (torch.from_numpy(rng.standard_normal(n)) for n in (K, N, N))
    assert float(manifold_loss(one, one + 1e3, here, there)) == 0.0
    assert float(manifold_loss(one, one, here, here)) == 0.0
    same = float(manifold_loss(one, one, here, there))
    assert same == pytest.approx(float(((here - there) ** 2).mean()), rel=1e-5)


def test_identification_wants_batches_of_one_table_close_and_others_far():
    close, far = torch.zeros((3, K), dtype=torch.float64), torch.zeros((3, K), dtype=torch.float64)
    close[2], far[1] = 5.0, 5.0
    assert float(identity_loss(close)) < 0.1 < 5.0 < float(identity_loss(far))


def test_batches_give_the_same_together_and_one_by_one(rng):
    parameters = EXTRACTOR.initial(rng)
    batches = EXTRACTOR.batches(tables(rng, 4), rng)
    together = EXTRACTOR(parameters, batches)
    for i, batch in enumerate(batches):
        np.testing.assert_allclose(EXTRACTOR(parameters, [batch])[0], together[i], rtol=1e-10)
    as_tensors = EXTRACTOR(tensors_of(parameters), batches)
    np.testing.assert_allclose(as_tensors.numpy(), together, rtol=1e-10)
