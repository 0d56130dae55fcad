import numpy as np
import pytest

from headstart.baselines.ablr import ABLR
from headstart.baselines.fsbo import FSBO
from headstart.errors import InvalidInput, ModelFileError
from headstart.history import History
from headstart.numerics.bayesian_linear import likeliest_precisions
from headstart.testing import SurrogateContract
from headstart.testing.examples import live_task, pool_task, random_trials, small_meta
from headstart.trials import Outcome, Proposal, Trial

torch = pytest.importorskip("torch")
KNOWN = {}


class TrainedOnce(ABLR):
    """The contract meta-trains for every test."""

    def learn(self, meta, rng):
        if meta.key not in KNOWN:
            KNOWN[meta.key] = super().learn(meta, rng)
        return KNOWN[meta.key]


class TestABLR(SurrogateContract):
    def make(self):
        return TrainedOnce(units=12, layers=2, steps=100, training={"n_tasks": 4, "n_pipelines": 40})


def small(**settings):
    return ABLR(**{"units": 8, "layers": 2, "steps": 20, "training": {"n_tasks": 4, "n_pipelines": 30}, **settings})


def histories(task, n=25):
    history = History(task.candidates)
    for trial in random_trials(task, n, failing=0.0):
        history.add(trial)
    return history


def test_meta_training_is_deterministic_and_names_what_it_learned_from():
    meta = small_meta()
    one, other, third = small().meta_fit(meta), small().meta_fit(meta), small(seed=1).meta_fit(meta)
    for name, value in one._parameters.items():
        np.testing.assert_array_equal(value, other._parameters[name])
    assert any((value != third._parameters[name]).any() for name, value in one._parameters.items())
    assert one.meta_key == other.meta_key == meta.key


def test_the_network_predicts_in_numpy_what_it_does_in_torch():
    model = small().meta_fit(small_meta())
    points = small_meta().pipelines.features()
    tensors = {k: torch.from_numpy(v) for k, v in model._parameters.items()}
    theirs = model._network(points.shape[1])(tensors, torch.tensor(points)).numpy()
    np.testing.assert_allclose(model._features(points)[:, :-1], theirs, atol=1e-9)
    np.testing.assert_array_equal(model._features(points)[:, -1], 1.0)


def test_the_posterior_is_that_of_a_gaussian_process_with_the_kernel_of_its_features():
    meta = small_meta()
    model = small().meta_fit(meta.select([1, 2, 3, 4, 5])).start(pool_task(meta))
    history = histories(model.task)
    model.fit(history)
    targets = history.targets()
    y = (targets - targets.mean()) / targets.std()
    phi, new = (model._features(e.features()) for e in (history.encoded, model.task.candidates.pool))
    center, spread = model._parameters["log_ratio"]
    alpha, beta = likeliest_precisions(phi, y, prior=(center, spread))
    gram = phi @ phi.T / alpha + np.eye(len(y)) / beta
    cross = new @ phi.T / alpha
    prediction = model.predict(model.task.candidates.pool)
    np.testing.assert_allclose(prediction.mean, targets.mean() + targets.std() * cross @ np.linalg.solve(gram, y))
    variance = np.einsum("ij,ij->i", new, new) / alpha - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T))
    np.testing.assert_allclose(prediction.std, targets.std() * np.sqrt(variance), rtol=1e-6)


def test_other_tasks_help():
    """Tasks that share most of their losses: with eight trials it predicts the rest of a new one."""
    meta = small_meta(20, missing=0.0)
    task, row = pool_task(meta), meta.loss_row(0)
    history = History(task.candidates)
    for i in np.random.default_rng(0).permutation(len(row))[:8]:
        history.add(Trial(Proposal(int(i), meta.pipelines[int(i)]), Outcome.of(float(row[i])), 0.0, 0.0))
    agreement = []
    for steps in (0, 150):
        trained = ABLR(units=16, layers=2, steps=steps, training={"n_tasks": 8, "n_pipelines": 40}).meta_fit(
            meta.select(range(1, 20))
        )
        predicted = trained.start(task).fit(history).predict(task.candidates.pool).mean
        agreement.append(np.corrcoef(predicted, row)[0, 1])
    assert agreement[1] > max(0.7, agreement[0])


@pytest.mark.parametrize(
    "make", [small, lambda: FSBO(units=8, layers=1, width=4, steps=10, training={"n_tasks": 3, "n_pipelines": 20})]
)
def test_it_comes_back_from_a_file(tmp_path, make):
    surrogate = make().meta_fit(small_meta())
    surrogate.save(tmp_path / "model.npz")
    again = type(surrogate).load(tmp_path / "model.npz")
    assert again.describe() == surrogate.describe()
    task = live_task()
    history = histories(task)
    candidates = task.candidates.sample(np.random.default_rng(0), 30)
    predictions = [s.start(task).fit(history).predict(candidates) for s in (surrogate, again)]
    np.testing.assert_array_equal(predictions[0].mean, predictions[1].mean)
    np.testing.assert_array_equal(predictions[0].std, predictions[1].std)
    other = FSBO if isinstance(surrogate, ABLR) else ABLR
    with pytest.raises(ModelFileError, match=f"must hold a {other.__name__}"):
        other.load(tmp_path / "model.npz")


def test_it_must_be_meta_trained():
    with pytest.raises(InvalidInput, match="call meta_fit"):
        small().start(live_task())
    with pytest.raises(InvalidInput, match="call meta_fit"):
        small().save("nowhere")
    with pytest.raises(InvalidInput, match="without any"):
        small().meta_fit(small_meta().select([]))


def test_a_pool_goes_through_the_network_once(monkeypatch):
    model = small().meta_fit(small_meta()).start(pool_task())
    pool = model.task.candidates.pool
    history = histories(model.task)
    first = model.fit(history).predict(pool)
    sizes = []
    features = ABLR._features
    monkeypatch.setattr(ABLR, "_features", lambda self, points: sizes.append(len(points)) or features(self, points))
    again = model.fit(history).predict(pool)
    np.testing.assert_array_equal(first.mean, again.mean)
    assert sizes == [len(history)]
    fresh = pool.take(np.arange(len(pool)))
    np.testing.assert_array_equal(model.predict(fresh).mean, first.mean)
    assert sizes == [len(history), len(pool)]
