import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from headstart.baselines.fmlp import FACTORS, FIRST, FMLP, LAST, FactorizedEnsemble, _Adapted
from headstart.history import History
from headstart.learning.networks import MLP
from headstart.testing import SurrogateContract
from headstart.testing.examples import pool_task, small_meta
from headstart.trials import Outcome, Proposal, Trial

torch = pytest.importorskip("torch")
KNOWN = {}


class TrainedOnce(FMLP):
    """The contract meta-trains for every test."""

    def learn(self, meta, rng):
        if meta.key not in KNOWN:
            KNOWN[meta.key] = super().learn(meta, rng)
        return KNOWN[meta.key]


class TestFMLP(SurrogateContract):
    def make(self):
        return TrainedOnce(members=6, steps=300, training={"n_tasks": 4, "n_pipelines": 60})


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    ensemble = FactorizedEnsemble(inputs=4, members=2, neurons=3, factors=2)
    parameters = ensemble.initial(rng)
    parameters[f"{LAST}.bias"] = rng.standard_normal(2)
    points, levels, directions = (
        rng.standard_normal((5, 4)),
        rng.standard_normal((3, 6)),
        rng.standard_normal((3, 6, 2)),
    )
    return ensemble, parameters, points, levels, directions


def written_out(ensemble, parameters, x, level, direction):
    """f of one task and one pipeline: the inputs with the task's indicator, all pairs of them, one by one."""
    outputs = []
    for m in range(ensemble.members):
        total = parameters[f"{LAST}.bias"][m]
        for h in range(m * ensemble.neurons, (m + 1) * ensemble.neurons):
            inputs = np.append(x, 1.0)
            weights = np.append(parameters[f"{FIRST}.weight"][:, h], level[h])
            factors = np.concatenate([parameters[FACTORS][:, h], direction[None, h]])
            z = parameters[f"{FIRST}.bias"][h] + weights @ inputs
            for i, j in itertools.combinations(range(len(inputs)), 2):
                z += (factors[i] @ factors[j]) * inputs[i] * inputs[j]
            total += parameters[f"{LAST}.weight"][h] * max(z, 0.0)
        outputs.append(total)
    return outputs


def test_the_first_layer_is_a_factorisation_machine(drawn):
    ensemble, parameters, points, levels, directions = drawn
    tensors = {k: torch.from_numpy(v) for k, v in parameters.items()}
    crossed = ensemble.crossed(tensors, *(torch.from_numpy(a) for a in (points, levels, directions)))
    outputs = ensemble.crossed_outputs(tensors, crossed).numpy()
    for t in range(3):
        expected = [written_out(ensemble, parameters, x, levels[t], directions[t]) for x in points]
        np.testing.assert_allclose(outputs[:, t].T, expected, rtol=1e-10)
        preactivations = (
            ensemble.base(parameters, points) + levels[t] + points @ ensemble.task_weights(parameters, directions[t])
        )
        np.testing.assert_allclose(ensemble.outputs(parameters, preactivations), expected, rtol=1e-10)


def test_without_factors_it_is_a_plain_network(drawn):
    ensemble, parameters, points, _, _ = drawn
    parameters = {**parameters, FACTORS: np.zeros_like(parameters[FACTORS])}
    plain = MLP("net", (4, 3, 1))
    outputs = ensemble.outputs(parameters, ensemble.base(parameters, points))
    for m in range(2):
        part = slice(3 * m, 3 * m + 3)
        known = {
            "net.0.weight": parameters[f"{FIRST}.weight"][:, part],
            "net.0.bias": parameters[f"{FIRST}.bias"][part],
            "net.1.weight": parameters[f"{LAST}.weight"][part, None],
            "net.1.bias": parameters[f"{LAST}.bias"][[m]],
        }
        np.testing.assert_allclose(outputs[:, m], plain(known, points)[:, 0], rtol=1e-10)


def with_prior(ensemble, parameters, rng):
    size = ensemble.task_size + 2
    anchors = 0.3 * rng.standard_normal((ensemble.members, size))
    anchors[:, -1] += 1.0
    precisions = np.stack([np.diag(rng.uniform(1.0, 4.0, size)) for _ in range(ensemble.members)])
    return {**parameters, "anchors": anchors, "precisions": precisions, "noise": np.array([0.1, 0.3])}


def test_the_fit_is_where_a_general_search_ends(drawn):
    ensemble, parameters, _, _, _ = drawn
    rng = np.random.default_rng(5)
    known = with_prior(ensemble, parameters, rng)
    points, targets = rng.standard_normal((12, 4)), rng.standard_normal(12)
    adapted = _Adapted(ensemble, known, seed=3).fit(points, targets)
    noisy = targets[:, None] + np.random.default_rng(3).standard_normal((12, 2)) * np.sqrt(known["noise"])

    def objective(vector, m):
        other = _Adapted(ensemble, known, 0)
        other._task = known["anchors"].copy()
        other._task[m] = vector
        away = vector - known["anchors"][m]
        squares = (noisy[:, m] - other.predict(points)[:, m]) ** 2
        return squares.sum() / known["noise"][m] + away @ known["precisions"][m] @ away

    for m in range(2):
        found = objective(adapted._task[m], m)
        assert found < 0.9 * objective(known["anchors"][m], m)
        search = minimize(objective, adapted._task[m], (m,), method="L-BFGS-B")
        assert found < search.fun + 0.05 * abs(search.fun)


def test_its_jacobian_is_that_of_finite_differences(drawn):
    ensemble, parameters, points, _, _ = drawn
    known = with_prior(ensemble, parameters, np.random.default_rng(5))
    adapted = _Adapted(ensemble, known, 0)
    u = ensemble.interactions(known, points)
    base = ensemble.base(known, points, u).reshape(5, 2, 3).transpose(1, 0, 2)
    arguments = (base, u.reshape(5, 2, 3, 2).transpose(1, 0, 2, 3), np.zeros((2, 5)), known["anchors"])
    task = known["anchors"] + 0.1
    _, residuals, jacobian = adapted._objective(task, *arguments)
    for d in range(task.shape[1]):
        moved = task.copy()
        moved[:, d] += 1e-6
        slope = (adapted._objective(moved, *arguments)[1] - residuals) / 1e-6
        np.testing.assert_allclose(-slope, jacobian[..., d], atol=1e-4)


def test_members_agree_more_the_more_they_are_shown():
    meta = small_meta(12, missing=0.0)
    task, row = pool_task(meta), meta.loss_row(0)
    model = (
        FMLP(members=12, steps=200, training={"n_tasks": 8, "n_pipelines": 40})
        .meta_fit(meta.select(range(1, 12)))
        .start(task)
    )
    spreads, errors = [], []
    for n in (0, 5, 40):
        history = History(task.candidates)
        for i in np.random.default_rng(0).permutation(len(row))[:n]:
            history.add(Trial(Proposal(int(i), meta.pipelines[int(i)]), Outcome.of(float(row[i])), 0.0, 0.0))
        prediction = model.fit(history).predict(task.candidates.pool)
        scale = model._standardisation.scale
        spreads.append(float(np.mean(prediction.std)) / scale)
        errors.append(float(np.mean((prediction.mean - row) ** 2)))
    assert spreads[0] > spreads[1] > spreads[2]
    assert errors[2] < errors[1]
