import numpy as np
import pytest

from headstart.learning.networks import MLP


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("end_active", [False, True])
def test_numpy_and_torch_give_the_same(activation, end_active):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    network = MLP("net", (5, 8, 8, 3), activation, end_active)
    parameters, points = network.initial(rng), rng.standard_normal((2, 11, 5))
    tensors = {k: torch.from_numpy(v) for k, v in parameters.items()}
    theirs = network(tensors, torch.from_numpy(points)).numpy()
    np.testing.assert_allclose(network(parameters, points), theirs, rtol=1e-10, atol=1e-12)

    layers = []
    for i in range(3):
        linear = torch.nn.Linear(*network.sizes[i : i + 2], dtype=torch.float64)
        linear.weight.data = tensors[f"net.{i}.weight"].T
        linear.bias.data = tensors[f"net.{i}.bias"]
        layers += [linear, torch.nn.ReLU() if activation == "relu" else torch.nn.Tanh()]
    module = torch.nn.Sequential(*(layers if end_active else layers[:-1]))
    np.testing.assert_allclose(theirs, module(torch.from_numpy(points)).detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("end_active", [False, True])
def test_own_derivatives_are_those_of_torch(activation, end_active):
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    network = MLP("net", (4, 6, 2), activation, end_active)
    parameters, points, upstream = network.initial(rng), rng.standard_normal((9, 4)), rng.standard_normal((9, 2))
    outputs, pullback = network.with_pullback(parameters, points)
    by, by_points = pullback(upstream)
    tensors = {k: torch.tensor(v, requires_grad=True) for k, v in parameters.items()}
    inputs = torch.tensor(points, requires_grad=True)
    theirs = network(tensors, inputs)
    (theirs * torch.from_numpy(upstream)).sum().backward()
    np.testing.assert_allclose(outputs, theirs.detach().numpy(), rtol=1e-12)
    np.testing.assert_allclose(by_points, inputs.grad.numpy(), rtol=1e-10, atol=1e-12)
    assert set(by) == set(parameters)
    for name, tensor in tensors.items():
        np.testing.assert_allclose(by[name], tensor.grad.numpy(), rtol=1e-10, atol=1e-12)


def test_what_passes_a_new_network_keeps_its_variance():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((2000, 100))
    for activation in ("relu", "tanh"):
        network = MLP("net", (100, *[200] * 4, 50), activation)
        spread = network(network.initial(rng), points).std()
        assert 0.3 < spread < 3.0
