import numpy as np
import pytest

from headstart.errors import InvalidInput, ModelFileError
from headstart.learning.monitor import Monitor, monitored
from headstart.learning.training import Training, train_network

torch = pytest.importorskip("torch")
TRAINING = Training(0.05, check_every=10, weight_decay=0.01)


def noisy(tensors, rng):
    return ((tensors["a.weight"] - torch.from_numpy(rng.normal(3.0, 0.5, 4))) ** 2).sum() + tensors["b"] ** 2


def distance(tensors):
    return ((tensors["a.weight"] - 3.0) ** 2).sum() + tensors["b"] ** 2


def learn(seed=4, steps=60, training=TRAINING, validate=distance):
    start = {"a.weight": np.zeros(4), "b": np.ones(())}
    return train_network(start, noisy, validate, steps, training, np.random.default_rng(seed), "example")


class Killed(Exception):
    pass


def killed_at(step):
    def progress(check):
        if check.step == step:
            raise Killed

    return progress


@pytest.mark.parametrize("at", [10, 40, 60])
def test_a_training_that_was_killed_goes_on_to_the_same_result(tmp_path, at):
    whole = learn()
    state = tmp_path / "training"
    with pytest.raises(Killed), monitored(Monitor(killed_at(at), state, "k", seconds=0.0)):
        learn()
    seen = []
    with monitored(Monitor(seen.append, state, "k", resume=True, seconds=0.0)):
        resumed = learn()
    again = [check for check in seen if check.again]
    assert [check.step for check in again] == list(range(0, at, 10))
    assert [check.step for check in seen] == list(range(0, 61, 10))  # what was kept was that of the check before
    assert seen[-1].best == whole.validation_loss
    for name, value in whole.parameters.items():
        np.testing.assert_array_equal(resumed.parameters[name], value)
    np.testing.assert_array_equal(resumed.checks[:, :2], whole.checks[:, :2])
    assert (np.diff(resumed.checks[:, 2]) >= 0).all()
    assert (resumed.step, resumed.validation_loss) == (whole.step, whole.validation_loss)


def test_one_whose_time_is_over_gives_the_best_so_far_and_goes_on_to_the_same_result(tmp_path):
    whole = learn()
    steps = []
    for _ in range(7):
        with monitored(Monitor(None, tmp_path / "training", "k", resume=True, limit=0.0)) as monitor:
            found = learn()
        steps.append(int(found.checks[-1, 0]))
        assert found.validation_loss == found.checks[:, 1].min()
        assert monitor.cut == (steps[-1] < 60)
        assert found.steps == 60
    assert steps == [0, 10, 20, 30, 40, 50, 60]
    for name, value in whole.parameters.items():
        np.testing.assert_array_equal(found.parameters[name], value)
    np.testing.assert_array_equal(found.checks[:, :2], whole.checks[:, :2])


def test_a_finished_one_is_not_trained_again(tmp_path):
    monitor = Monitor(None, tmp_path / "training", "k")
    with monitored(monitor):
        first = [learn(seed) for seed in (1, 2)]
    seen = []
    with monitored(Monitor(seen.append, tmp_path / "training", "k", resume=True)):
        again = [learn(seed) for seed in (1, 2)]
    assert seen
    assert all(check.again for check in seen)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.parameters["a.weight"], other.parameters["a.weight"])
        np.testing.assert_array_equal(one.checks, other.checks)
    assert not np.array_equal(first[0].parameters["a.weight"], first[1].parameters["a.weight"])
    assert len(list(tmp_path.iterdir())) == 2
    monitor.remove()
    assert list(tmp_path.iterdir()) == []


def test_early_stopping_is_the_same_after_going_on(tmp_path):
    def away(tensors):
        return (tensors["a.weight"] ** 2).sum()

    settings = {"steps": 1000, "training": Training(0.01, check_every=10, patience=3), "validate": away}
    whole = learn(**settings)
    with pytest.raises(Killed), monitored(Monitor(killed_at(20), tmp_path / "t", seconds=0.0)):
        learn(**settings)
    with monitored(Monitor(None, tmp_path / "t", resume=True)):
        resumed = learn(**settings)
    assert resumed.step == whole.step == 0
    np.testing.assert_array_equal(resumed.checks[:, :2], whole.checks[:, :2])


def test_without_resuming_it_starts_anew_and_other_settings_are_refused(tmp_path):
    with monitored(Monitor(None, tmp_path / "t", "one")):
        learn()
    seen = []
    with monitored(Monitor(seen.append, tmp_path / "t", "two")):
        learn()
    assert len(seen) == 7
    assert seen[-1].best == min(check.loss for check in seen)
    with (
        pytest.raises(InvalidInput, match="other settings"),
        monitored(Monitor(None, tmp_path / "t", "3", resume=True)),
    ):
        learn()


def test_a_damaged_state_is_named(tmp_path):
    (tmp_path / "t.0").write_bytes(b"PK nothing")
    with pytest.raises(ModelFileError, match=r"t\.0"), monitored(Monitor(None, tmp_path / "t", resume=True)):
        learn()


def test_outside_of_a_monitor_nothing_is_kept(tmp_path):
    with monitored(Monitor(None, tmp_path / "t")):
        pass
    learn()
    assert list(tmp_path.iterdir()) == []


def test_one_that_begins_anew_leaves_nothing_of_another(tmp_path):
    state = tmp_path / "training"
    with monitored(Monitor(None, state, "one")):
        learn(1), learn(2)
    (tmp_path / "training.npz").touch()
    with pytest.raises(Killed), monitored(Monitor(killed_at(20), state, "other", seconds=0.0)):
        learn(1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["training.0", "training.npz"]
    with monitored(Monitor(None, state, "other", resume=True)):
        learn(1), learn(2)
