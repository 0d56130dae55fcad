import numpy as np
import pytest

from headstart.learning.adam import Adam

START = {
    "a.weight": np.random.default_rng(0).standard_normal((3, 2)),
    "a.bias": np.array([0.3, -1.0]),
    "c": np.ones(()),
}


def started(**settings):
    return Adam({name: value.copy() for name, value in START.items()}, **settings)


def slopes(parameters):
    return {name: 2 * value + 3 * np.cos(3 * value) for name, value in parameters.items()}


@pytest.mark.parametrize(("decay", "betas", "clip"), [(0.0, (0.9, 0.999), np.inf), (0.1, (0.5, 0.99), 2.0)])
def test_steps_are_those_of_torch(decay, betas, clip):
    torch = pytest.importorskip("torch")
    adam = started(weight_decay=decay, betas=betas)
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in START.items()}
    groups = [
        {"params": [tensor], "weight_decay": decay if name.endswith("weight") else 0.0}
        for name, tensor in theirs.items()
    ]
    reference = torch.optim.AdamW(groups, lr=0.03, betas=betas)
    for _ in range(20):
        adam.step(slopes(adam.parameters), 0.03, clip)
        for tensor in theirs.values():
            tensor.grad = (2 * tensor + 3 * torch.cos(3 * tensor)).detach()
        torch.nn.utils.clip_grad_norm_(theirs.values(), clip)
        reference.step()
    for name, value in adam.parameters.items():
        np.testing.assert_allclose(value, theirs[name].detach().numpy(), rtol=1e-5)


def test_a_row_goes_as_if_it_were_alone():
    """However many steps the other rows make in between."""
    whole, rng = {"x": np.arange(8.0).reshape(4, 2)}, np.random.default_rng(1)
    adam = Adam({"x": whole["x"].copy()})
    alone = [Adam({"x": row.copy()}) for row in whole["x"]]
    for _ in range(30):
        rows = rng.permutation(4)[:2]
        gradient = rng.standard_normal((2, 2))
        adam.step({"x": gradient}, 0.1, rows=rows)
        for row, slope in zip(rows, gradient, strict=True):
            alone[row].step({"x": slope}, 0.1)
    np.testing.assert_allclose(adam.parameters["x"], [one.parameters["x"] for one in alone], rtol=1e-12)


def test_arrays_change_in_place_and_those_without_a_gradient_stay():
    arrays = {name: value.copy() for name, value in START.items()}
    adam = Adam(arrays)
    adam.step({"a.bias": np.ones(2)}, 0.1)
    np.testing.assert_allclose(arrays["a.bias"], START["a.bias"] - 0.1)
    np.testing.assert_array_equal(arrays["a.weight"], START["a.weight"])


def test_it_goes_on_from_its_state():
    whole, first, second = started(), started(), started()
    for number in range(10):
        for adam in (whole, first) if number < 5 else (whole, second):
            adam.step(slopes(adam.parameters), 0.1)
        if number == 4:
            second.restore({name: value.copy() for name, value in first.state().items()})
    for name, value in whole.parameters.items():
        np.testing.assert_array_equal(second.parameters[name], value)
