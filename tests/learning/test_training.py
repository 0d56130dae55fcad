import subprocess
import sys

import numpy as np
import pytest

from headstart.errors import InvalidInput, MissingDependency, NumericalError
from headstart.learning.backend import one_torch_thread, require_torch
from headstart.learning.training import Training, train_network

torch = pytest.importorskip("torch")


def bowl(tensors, rng):
    return ((tensors["x"] - torch.from_numpy(rng.normal(3.0, 0.01, 2))) ** 2).sum()


def from_three(tensors):
    return ((tensors["x"] - 3.0) ** 2).sum()


def test_it_descends_and_keeps_the_best():
    start = {"x": np.zeros(2)}
    trained = train_network(start, bowl, from_three, 400, Training(0.05, check_every=50), np.random.default_rng(0))
    np.testing.assert_allclose(trained.parameters["x"], 3.0, atol=0.02)
    assert trained.validation_loss == trained.checks[:, 1].min()
    assert trained.step == trained.checks[trained.checks[:, 1].argmin(), 0]
    np.testing.assert_array_equal(start["x"], 0.0)


def test_it_stops_when_validation_gets_worse_and_gives_what_was_best():
    def away(tensors):
        return (tensors["x"] ** 2).sum()

    trained = train_network(
        {"x": np.zeros(2)}, bowl, away, 1000, Training(0.01, check_every=10, patience=3), np.random.default_rng(0)
    )
    assert trained.step == 0
    assert trained.checks[-1, 0] == 30
    np.testing.assert_array_equal(trained.parameters["x"], 0.0)


def test_the_same_arguments_give_the_same_and_global_seeds_stay():
    torch.manual_seed(5)
    numpy_state, torch_state = np.random.get_state()[1].copy(), torch.get_rng_state().clone()  # noqa: NPY002
    results = [
        train_network({"x": np.ones(2)}, bowl, from_three, 30, Training(0.1), np.random.default_rng(4)).parameters["x"]
        for _ in range(2)
    ]
    np.testing.assert_array_equal(*results)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_state)


def test_threads_are_restored_also_after_an_error():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with pytest.raises(KeyError), one_torch_thread():
            raise KeyError
        with one_torch_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_only_weights_decay():
    start = {"a.weight": np.ones(1), "a.bias": np.ones(1)}
    trained = train_network(
        start, lambda t, _: 0.0 * (t["a.weight"] + t["a.bias"]).sum(), lambda t: t["a.weight"].sum(), 20,
        Training(0.1, check_every=20, weight_decay=0.5),
        np.random.default_rng(0),
    )  # fmt: skip
    assert trained.parameters["a.weight"] < 0.9
    assert trained.parameters["a.bias"] == 1.0


def test_numbers_that_are_not_finite_are_an_error():
    with pytest.raises(NumericalError, match="finite losses"):
        train_network(
            {"x": np.zeros(2)}, lambda t, _: t["x"].sum() / 0, from_three, 5, Training(), np.random.default_rng(0)
        )
    with pytest.raises(NumericalError, match="finite validation"):
        train_network({"x": np.zeros(2)}, bowl, lambda _: np.nan, 5, Training(), np.random.default_rng(0))


@pytest.mark.parametrize(
    "wrong", [{"learning_rate": 0.0}, {"patience": 0}, {"n_tasks": 1.5}, {"final_rate": 2.0}, {"weight_decay": -1.0}]
)
def test_settings_that_cannot_be_meant(wrong):
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        Training(**wrong)


def test_a_mapping_changes_some_of_the_usual_settings():
    usual = Training(0.5, patience=3)
    assert Training.of({"patience": 4}, usual) == Training(0.5, patience=4)
    assert Training.of(Training(), usual) == Training()
    with pytest.raises(InvalidInput, match="did you mean 'patience'"):
        Training.of({"patienc": 4}, usual)
    with pytest.raises(InvalidInput, match="must be a Training or a mapping"):
        Training.of("slow", usual)


def test_the_rate_falls_along_a_cosine():
    training = Training(0.2, final_rate=0.1)
    assert training.rate(0, 40) == pytest.approx(0.2)
    assert training.rate(20, 40) == pytest.approx(0.2 * 0.55)
    assert training.rate(40, 40) == pytest.approx(0.02)
    assert Training(0.2, final_rate=1.0).rate(33, 40) == 0.2


def test_without_torch_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependency, match=r"FSBO needs torch: pip install \"headstart\[neural\]\""):
        require_torch("FSBO")


def test_using_what_was_trained_needs_no_torch(tmp_path):
    from headstart.baselines.fsbo import FSBO
    from headstart.testing.examples import small_meta

    surrogate = FSBO(units=4, layers=1, width=2, steps=3, training={"n_tasks": 2, "n_pipelines": 8}).meta_fit(
        small_meta()
    )
    surrogate.save(tmp_path / "fsbo.npz")
    code = f"""
import sys
import numpy as np
from headstart.history import History
from headstart.baselines.fsbo import FSBO
from headstart.baselines.dngo import DNGO
from headstart.testing.examples import live_task, random_trials
task = live_task()
history = History(task.candidates)
for trial in random_trials(task, 6):
    history.add(trial)
for surrogate in (FSBO.load({str(tmp_path / "fsbo.npz")!r}), DNGO(steps=3)):
    surrogate.start(task).fit(history).predict(task.candidates.sample(np.random.default_rng(0), 5))
print("torch" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("at", [25, 5])
def test_a_covariance_that_breaks_late_ends_it_with_the_best_so_far(at, caplog):
    calls = iter(range(1000))

    def breaking(tensors, rng):
        if next(calls) >= at:
            raise NumericalError("the covariance is not positive definite")
        return bowl(tensors, rng)

    arguments = {"x": np.zeros(2)}, breaking, from_three, 100, Training(0.05, check_every=10), np.random.default_rng(0)
    if at < 10:
        with pytest.raises(NumericalError, match="at step 5 the covariance"):
            train_network(*arguments)
        return
    trained = train_network(*arguments)
    assert trained.step == 20
    assert "ends with the best so far" in caplog.text


def test_a_validation_that_breaks_is_no_best():
    def sometimes(tensors):
        if float(tensors["x"][0].detach()) > 1.0:
            raise NumericalError("broken")
        return from_three(tensors)

    trained = train_network(
        {"x": np.zeros(2)}, bowl, sometimes, 60, Training(0.1, check_every=10), np.random.default_rng(0)
    )
    assert trained.parameters["x"][0] <= 1.0
    assert np.isnan(trained.checks[-1, 1])


def test_epochs_have_room_for_every_task_and_are_told_only_where_they_count():
    by_epochs = Training(n_tasks=4, epochs=True)
    assert [by_epochs.number_of_steps(10, tasks) for tasks in (1, 4, 5, 329)] == [10, 10, 20, 830]
    assert Training(n_tasks=4).number_of_steps(10, 329) == 10
    assert by_epochs.to_dict()["epochs"] is True
    assert "epochs" not in Training().to_dict()
    assert Training(**by_epochs.to_dict()) == by_epochs
