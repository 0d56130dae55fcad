"""`FMLP`: an ensemble of factorised multilayer perceptrons.

Schilling, Wistuba, Drumond & Schmidt-Thieme (2015), "Hyperparameter optimization with factorized multilayer
perceptrons" and, with ensembles, "Joint model choice and hyperparameter optimization with factorized multilayer
perceptrons".

=========  ==============  ==================================================================================
symbol     name in code    equation
=========  ==============  ==================================================================================
θ_m        task            (a_h, q_h) for the neurons h of member m, then offset o and scale g: (D,)
ŷ_m(x)     _predicted      o + g f_m(x; a, q), standardised target
σ_m²       noise           mean squared error of member m on its training tasks
μ_m, S_m                   mean and covariance of θ_m over the training tasks; o ~ N(0, 1), g ~ N(1, ½²)
θ_m⁰       anchors         a draw from N(μ_m, S_m)
ε_im                       a draw from N(0, σ_m²)
θ̂_m                        argmin Σ_i (y_i + ε_im - ŷ_m(x_i))² / σ_m² + (θ - θ_m⁰)ᵀ S_m⁻¹ (θ - θ_m⁰)
J          jacobian        ∂ŷ_m(x_i) / ∂θ
=========  ==============  ==================================================================================

Decided here. (1) The papers train all networks anew with the trials of the new task; ours are trained on the other
tasks once, and on the new one only what belongs to its indicator is fitted, by Gauss-Newton steps: that is a few
milliseconds. (2) The spread of the members is the uncertainty, and each member is given another draw from the prior and
other noise on the targets (randomised maximum a posteriori), so that without trials the spread is that between tasks
and shrinks where trials are; networks that differ in their initial weights only agree too much. (3) Offset and scale
are fitted too, since the mean and spread of a whole task's losses cannot be known from its first trials. (4) One hidden
layer of 5 rectified neurons as in the papers; 24 members instead of 100. (5) Early stopping on other tasks: their
indicators are fitted to some of their losses, and the error on others counts.

The first layer of each network is a factorisation machine over pipelines and tasks. M members of H
neurons each stand side by side: neuron h = 1 … MH belongs to member ⌈h / H⌉.

=========  ==================  ==============================================================================
symbol     name in code        equation
=========  ==================  ==============================================================================
x          points              (P, F) features of pipelines
t                              a task, one-hot among the inputs; written out here as parameters of its own
w_h, b_h   "first.weight",     weights and bias of neuron h
           "first.bias"
v_jh       "factors.weight"    (F, MH, K) factors of input j
a_th, q_th levels, directions  weight and factors of the task's indicator, (T, MH) and (T, MH, K)
u_h(x)     interactions        Σ_j v_jh x_j
B_h(x)     base                b_h + w_h·x + ½ Σ_k (u_hk(x)² - Σ_j v_jhk² x_j²), the same for every task
z_th(x)                        B_h(x) + a_th + q_th·u_h(x), pre-activation
f_tm(x)    outputs             c_m0 + Σ_{h of m} c_h relu(z_th(x)), the prediction of member m
=========  ==================  ==============================================================================

The ½ Σ_k (…) is Σ_{i<j} (v_ih·v_jh) x_i x_j, all products of two inputs of a pipeline, and q_th·u_h(x) those of the
task with each input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import check_positive
from headstart.history import History
from headstart.learning.backend import require_torch
from headstart.learning.batches import TaskBatches, training_and_validation
from headstart.learning.networks import Parameters, initial_dense
from headstart.learning.training import Training, TrainingLike, train_network
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.standardisation import Standardisation
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction
from headstart.surrogates.meta_trained import MetaTrained

Array = NDArray[np.float64]

_LEVELS, _DIRECTIONS = "levels", "directions"
_ANCHORS, _PRECISIONS, _NOISE = "anchors", "precisions", "noise"
_OFFSET_STD, _SCALE_STD = 1.0, 0.5
_TRAINING = Training(5e-3, weight_decay=1e-4, n_tasks=32)
_GAUSS_NEWTON_STEPS = 12
_LEAST_STD = 1e-3
"""Relative to that of the targets."""
_BLOCK = 2048
_TASK_PENALTY = 1e-3
_SHOWN, _JUDGED, _VALIDATION_TASKS = 32, 128, 30
"""Losses of a validation task that its indicator is fitted to, those it is judged by, and most such tasks."""

FIRST, FACTORS, LAST = "first", "factors.weight", "last"


@dataclass(frozen=True)
class FactorizedEnsemble:
    """The architecture; see the notation.

    Parameters
    ----------
    inputs
        F, features of a pipeline.
    members, neurons, factors
        M, H and K.
    """

    inputs: int
    members: int
    neurons: int
    factors: int

    @property
    def width(self) -> int:
        """Neurons of all members."""
        return self.members * self.neurons

    @property
    def task_size(self) -> int:
        """Numbers that describe a task in one member: H levels and H K directions."""
        return self.neurons * (1 + self.factors)

    def initial(self, rng: np.random.Generator) -> Parameters:
        """Random parameters of everything but the tasks."""
        first = initial_dense(rng, FIRST, self.inputs, self.width, np.sqrt(2.0))
        first[f"{FIRST}.bias"] = 0.1 * rng.standard_normal(self.width)
        spread = (self.inputs * self.factors) ** -0.25
        return {
            **first,
            FACTORS: 0.5 * spread * rng.standard_normal((self.inputs, self.width, self.factors)),
            f"{LAST}.weight": rng.standard_normal(self.width) / np.sqrt(self.neurons),
            f"{LAST}.bias": np.zeros(self.members),
        }

    def interactions(self, parameters: Mapping[str, Any], points: Any) -> Any:
        """u, (P, MH, K)."""
        flat = parameters[FACTORS].reshape(self.inputs, self.width * self.factors)
        return (points @ flat).reshape(len(points), self.width, self.factors)

    def base(self, parameters: Mapping[str, Any], points: Any, interactions: Any = None) -> Any:
        """B, (P, MH); `interactions` where they are known already."""
        u = self.interactions(parameters, points) if interactions is None else interactions
        squares = (points * points) @ (parameters[FACTORS] ** 2).sum(-1)
        linear = points @ parameters[f"{FIRST}.weight"] + parameters[f"{FIRST}.bias"]
        return linear + 0.5 * ((u * u).sum(-1) - squares)

    def crossed(self, parameters: Mapping[str, Any], points: Any, levels: Any, directions: Any) -> Any:
        """z of every task with every pipeline, tensors: (MH, T, P) from levels (T, MH) and directions (T, MH, K)."""
        u = self.interactions(parameters, points)
        base = self.base(parameters, points, u)
        products = directions.permute(1, 0, 2) @ u.permute(1, 2, 0)
        return products + base.T[:, None, :] + levels.T[:, :, None]

    def crossed_outputs(self, parameters: Mapping[str, Any], preactivations: Any) -> Any:
        """f, tensors: (M, T, P) from z (MH, T, P)."""
        active = preactivations.relu() * parameters[f"{LAST}.weight"][:, None, None]
        shape = (self.members, self.neurons, *preactivations.shape[1:])
        return active.reshape(shape).sum(1) + parameters[f"{LAST}.bias"][:, None, None]

    def task_weights(self, parameters: Mapping[str, Array], directions: Array) -> Array:
        """(F, MH) such that x times it is q·u(x): what a task adds to the weights of the first layer."""
        return np.asarray(np.einsum("fhk,hk->fh", parameters[FACTORS], directions, optimize=True))

    def outputs(self, parameters: Mapping[str, Array], preactivations: Array) -> Array:
        """f, (P, M) from z (P, MH)."""
        active = np.maximum(preactivations, 0.0).reshape(len(preactivations), self.members, self.neurons)
        last = parameters[f"{LAST}.weight"].reshape(self.members, self.neurons)
        return np.asarray(np.einsum("pmh,mh->pm", active, last) + parameters[f"{LAST}.bias"])


class FMLP(MetaTrained):
    """Ensemble of factorised perceptrons; on a new task only the factors of its indicator are fitted (Schilling et al.,
    ECML PKDD 2015).

    Meta-training needs torch; everything after it NumPy alone. Proposals under way are added at the median target.

    Parameters
    ----------
    members, neurons, factors
        Networks, hidden neurons of each, and factors of each neuron.
    steps, training, seed
        Of meta-training: most steps, how (see `Training`; a mapping changes some of the defaults), the seed. A batch
        has every one of its pipelines on every one of its tasks.
    """

    def __init__(
        self,
        members: int = 24,
        neurons: int = 5,
        factors: int = 5,
        steps: int = 3000,
        training: TrainingLike = _TRAINING,
        seed: int = 0,
    ) -> None:
        for name, value in {"members": members, "neurons": neurons, "factors": factors}.items():
            check_positive(name, value, whole=True)
        self.members = members
        self.neurons = neurons
        self.factors = factors
        self.set_training(steps, training, _TRAINING, seed)

    def _ensemble(self, inputs: int) -> FactorizedEnsemble:
        return FactorizedEnsemble(inputs, self.members, self.neurons, self.factors)

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:
        torch = require_torch("meta-training of FMLP")
        points = meta.pipelines.features()
        training, validation = training_and_validation(meta, points, rng)
        ensemble = self._ensemble(points.shape[1])
        tasks = len(training)
        initial = ensemble.initial(rng)
        initial[_LEVELS] = np.zeros((tasks, ensemble.width))
        initial[_DIRECTIONS] = 0.1 * rng.standard_normal((tasks, ensemble.width, self.factors))

        def loss(tensors: dict[str, Any], stream: np.random.Generator) -> Any:
            chosen = stream.permutation(tasks)[: self.training.n_tasks]
            columns = stream.permutation(len(points))[: self.training.n_pipelines]
            targets, mask = (torch.from_numpy(a) for a in training.crossed(chosen, columns))
            levels, directions = (tensors[name][torch.from_numpy(chosen)] for name in (_LEVELS, _DIRECTIONS))
            crossed = ensemble.crossed(tensors, torch.from_numpy(points[columns]), levels, directions)
            errors = (ensemble.crossed_outputs(tensors, crossed) - targets) * mask
            penalty = (levels * levels).mean() + (directions * directions).mean()
            return (errors * errors).sum() / (self.members * mask.sum().clamp_min(1)) + _TASK_PENALTY * penalty

        shown = validation.draw(rng, _VALIDATION_TASKS, _SHOWN + _JUDGED)

        def validate(tensors: dict[str, Any]) -> float:
            known = self._with_prior({k: v.numpy() for k, v in tensors.items()}, ensemble, training, rng=None)
            errors = []
            for b in range(len(shown)):
                n = min(_SHOWN, int(shown.mask[b].sum()) // 2)
                judged = np.flatnonzero(shown.mask[b])[n:]
                with one_blas_thread():
                    task = _Adapted(ensemble, known, self.seed).fit(shown.points[b, :n], shown.targets[b, :n])
                    predicted = task.predict(shown.points[b, judged]).mean(axis=1)
                errors.append(float(np.mean((predicted - shown.targets[b, judged]) ** 2)))
            return float(np.mean(errors))

        steps = self.training.number_of_steps(self.steps, tasks)
        trained = train_network(initial, loss, validate, steps, self.training, rng, "FMLP")
        return self._with_prior(trained.parameters, ensemble, training, rng)

    def _with_prior(
        self,
        parameters: Parameters,
        ensemble: FactorizedEnsemble,
        training: TaskBatches,
        rng: np.random.Generator | None,
    ) -> Parameters:
        """Parameters with the prior of a task's indicator, and errors, in place of those of the training tasks.

        Without `rng` anchors are the means of the prior.
        """
        known = dict(parameters)
        levels, directions = known.pop(_LEVELS), known.pop(_DIRECTIONS)
        tasks, size = len(levels), ensemble.task_size
        per_member = np.concatenate(
            [
                levels.reshape(tasks, self.members, self.neurons),
                directions.reshape(tasks, self.members, self.neurons * self.factors),
            ],
            axis=2,
        )
        anchors = np.zeros((self.members, size + 2))
        precisions = np.zeros((self.members, size + 2, size + 2))
        for m in range(self.members):
            mean, covariance = per_member[:, m].mean(axis=0), np.cov(per_member[:, m], rowvar=False, ddof=0)
            # Few tasks say little of how a task's numbers go together; shrunk to their variances.
            shrinkage = size / (size + tasks)
            covariance = (1.0 - shrinkage) * covariance + shrinkage * np.diag(np.diag(covariance))
            covariance += (0.01 * np.diag(covariance).mean() + 1e-6) * np.eye(size)
            whole = np.diag([*np.zeros(size), _OFFSET_STD**2, _SCALE_STD**2])
            whole[:size, :size] = covariance
            anchors[m] = [*mean, 0.0, 1.0]
            if rng is not None:
                anchors[m] += np.linalg.cholesky(whole) @ rng.standard_normal(size + 2)
            precisions[m] = np.linalg.inv(whole)
        noise = self._errors(parameters, ensemble, training)
        return {**known, _ANCHORS: anchors, _PRECISIONS: precisions, _NOISE: noise}

    def _errors(self, parameters: Parameters, ensemble: FactorizedEnsemble, training: TaskBatches) -> Array:
        """Mean squared error (M,) of the members on some losses of the training tasks."""
        torch = require_torch("meta-training of FMLP")
        columns = np.linspace(0, training.n_pipelines - 1, 4 * self.training.n_pipelines).round().astype(np.int64)
        chosen = np.arange(len(training))[: 4 * self.training.n_tasks]
        targets, mask = (torch.from_numpy(a) for a in training.crossed(chosen, columns))
        tensors = {k: torch.from_numpy(v) for k, v in parameters.items()}
        crossed = ensemble.crossed(
            tensors, torch.from_numpy(training.points[columns]), tensors[_LEVELS][chosen], tensors[_DIRECTIONS][chosen]
        )
        errors = (ensemble.crossed_outputs(tensors, crossed) - targets) * mask
        squares = (errors * errors).sum(dim=(1, 2)) / mask.sum().clamp_min(1)
        return np.maximum(np.asarray(squares.numpy(), dtype=np.float64), 1e-3)

    def fit(self, history: History) -> Self:
        encoded, targets = history.with_pending()
        self._standardisation = Standardisation.of(targets)
        points = self.points(encoded)
        with one_blas_thread():
            adapted = _Adapted(self._ensemble(points.shape[1]), self._parameters, self.seed)
            self._adapted = adapted.fit(points, self._standardisation.apply(targets))
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        points = self.points(encoded)
        base = self.cached_for_candidates("base", encoded, self._base)
        mean, std = np.empty(len(points)), np.empty(len(points))
        with one_blas_thread():
            for start in range(0, len(points), _BLOCK):
                block = slice(start, start + _BLOCK)
                members = self._adapted.predict(points[block], base[block])
                mean[block], std[block] = members.mean(axis=1), members.std(axis=1)
        scale = self._standardisation.scale
        return Prediction(self._standardisation.undo(mean), np.maximum(std, _LEAST_STD) * scale)

    def _base(self, points: Array) -> Array:
        ensemble = self._ensemble(points.shape[1])
        with one_blas_thread():
            parts = [
                ensemble.base(self._parameters, points[start : start + _BLOCK])
                for start in range(0, max(len(points), 1), _BLOCK)
            ]
        return np.concatenate(parts)


class _Adapted:
    """The members with the indicator of one task fitted to its trials."""

    def __init__(self, ensemble: FactorizedEnsemble, parameters: Parameters, seed: int) -> None:
        self._ensemble, self._parameters, self._seed = ensemble, parameters, seed
        self._last = parameters[f"{LAST}.weight"].reshape(ensemble.members, ensemble.neurons)
        self._task = parameters[_ANCHORS].copy()  # (M, D)

    def fit(self, points: Array, targets: Array) -> Self:
        """Gauss-Newton from the anchors on trials (n, F), (n,); a step that makes things worse is damped."""
        ensemble, known = self._ensemble, self._parameters
        if not len(targets):
            return self
        members, neurons, n = ensemble.members, ensemble.neurons, len(targets)
        noise, precisions, anchors = known[_NOISE], known[_PRECISIONS], known[_ANCHORS]
        draws = np.random.default_rng(self._seed).standard_normal((n, members))
        noisy = (targets[:, None] + draws * np.sqrt(noise)).T  # (M, n)
        u = ensemble.interactions(known, points)
        base = ensemble.base(known, points, u).reshape(n, members, neurons).transpose(1, 0, 2)
        u = u.reshape(n, members, neurons, ensemble.factors).transpose(1, 0, 2, 3)  # (M, n, H, K)
        task, damping = anchors.copy(), np.full(members, 1.0)
        objective, residuals, jacobian = self._objective(task, base, u, noisy, anchors)
        for _ in range(_GAUSS_NEWTON_STEPS):
            transposed = jacobian.transpose(0, 2, 1)
            curvature = transposed @ jacobian / noise[:, None, None] + precisions
            downhill = (transposed @ residuals[..., None])[..., 0] / noise[:, None]
            downhill -= (precisions @ (task - anchors)[..., None])[..., 0]
            diagonal = np.einsum("mii->mi", curvature)
            diagonal *= 1.0 + damping[:, None]
            step = np.linalg.solve(curvature, downhill[..., None])[..., 0]
            tried = self._objective(task + step, base, u, noisy, anchors)
            better = tried[0] < objective
            task = np.where(better[:, None], task + step, task)
            objective = np.where(better, tried[0], objective)
            residuals = np.where(better[:, None], tried[1], residuals)
            jacobian = np.where(better[:, None, None], tried[2], jacobian)
            damping = np.where(better, damping * 0.3, damping * 10.0)
        self._task = task
        return self

    def _objective(
        self, task: Array, base: Array, u: Array, targets: Array, anchors: Array
    ) -> tuple[Array, Array, Array]:
        """What is minimised (M,), residuals (M, n) and their Jacobian (M, n, D)."""
        members, n, neurons, factors = u.shape
        levels, directions = task[:, :neurons], task[:, neurons:-2].reshape(members, neurons, factors)
        offset, scale = task[:, -2], task[:, -1]
        preactivations = base + levels[:, None, :] + np.einsum("mnhk,mhk->mnh", u, directions)
        on = preactivations > 0.0
        plain = np.einsum("mnh,mh->mn", preactivations * on, self._last) + self._parameters[f"{LAST}.bias"][:, None]
        residuals = targets - offset[:, None] - scale[:, None] * plain
        by_levels = scale[:, None, None] * self._last[:, None, :] * on
        jacobian = np.empty((members, n, task.shape[1]))
        jacobian[..., :neurons] = by_levels
        jacobian[..., neurons:-2] = (by_levels[..., None] * u).reshape(members, n, neurons * factors)
        jacobian[..., -2] = 1.0
        jacobian[..., -1] = plain
        away = task - anchors
        prior = np.einsum("mi,mij,mj->m", away, self._parameters[_PRECISIONS], away, optimize=True)
        value = (residuals**2).sum(axis=1) / self._parameters[_NOISE] + prior
        return value, residuals, jacobian

    def predict(self, points: Array, base: Array | None = None) -> Array:
        """ŷ (n, M) of the members, from features (n, F) and, where it is known, their base (n, MH)."""
        ensemble, known, task = self._ensemble, self._parameters, self._task
        neurons = ensemble.neurons
        if base is None:
            base = ensemble.base(known, points)
        directions = task[:, neurons:-2].reshape(ensemble.width, ensemble.factors)
        preactivations = points @ ensemble.task_weights(known, directions)
        preactivations += base
        preactivations += task[:, :neurons].reshape(-1)
        return task[:, -2] + task[:, -1] * ensemble.outputs(known, preactivations)
