"""What PMF can learn from descriptions: of tasks by their meta-features, and of pipelines by their encodings.

=================  =====================  ==================================================================
symbol             name in code           equation
=================  =====================  ==================================================================
w_t (Q,)           weights                what the linear part of the prior says of task t: Σ_k √c_k x_pk w_tk
ŵ_t                –                      Σ_s A_ts w_s, kernel ridge regression on meta-features
r²_k               explained              1 − Σ_t (w_tk − ŵ_tk)² / Σ_t w_tk², each task left out of its own
                                          prediction, at least 0
h(e_p)             PipelineMap            network from an encoding to latent point, mean and ln noise
=================  =====================  ==================================================================

A new task's weights are N(ŵ, 1 − r²) a priori where r² is positive, and N(0, 1) otherwise, as without meta-features.
This is a kernel over datasets times the one over pipelines, restricted to the linear part, for which inference stays
exact and cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from headstart.errors import InvalidInput
from headstart.learning.backend import require_torch
from headstart.learning.networks import MLP, Parameters
from headstart.learning.training import Training, train_network
from headstart.surrogates.latent_prior import LatentPrior
from headstart.surrogates.posterior import Located

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
LEAST_TASKS = 3
_LENGTHS = (0.5, 1.0, 2.0, 4.0, 8.0)
_RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0)
_MOST_PIPELINES = 2000
_UNITS = 128
MAP_STEPS = 3000
"""Of learning the map of pipelines, at most."""
_BATCH = 512


def linear_weights(prior: LatentPrior, losses: Array, known: Mask, rng: np.random.Generator) -> Array:
    """Weights (T, Q) of tasks in the linear part, by ridge regression of their standardised losses (T, P)."""
    chosen = np.sort(rng.permutation(losses.shape[1])[:_MOST_PIPELINES])
    at = prior.recorded.take(chosen)
    loadings = at.points * np.sqrt(prior.kernel.linear)
    noise = at.noise + prior.variance(at) - (loadings**2).sum(axis=1)
    weights = np.zeros((len(losses), loadings.shape[1]))
    for task, there in enumerate(known[:, chosen]):
        part, over = loadings[there], 1.0 / noise[there]
        precision = (part * over[:, None]).T @ part + np.eye(part.shape[1])
        weights[task] = np.linalg.solve(precision, part.T @ (over * (losses[task, chosen[there]] - at.means[there])))
    return weights


@dataclass
class TaskRegression:
    """Kernel ridge regression from meta-features to the weights of tasks; see the notation.

    Parameters
    ----------
    name
        Of the meta-features.
    center, scale
        (k,), of them.
    points
        (T, k), standardised meta-features of the training tasks.
    dual
        (T, Q), what their kernel values are multiplied by.
    length
        Of the kernel.
    explained
        (Q,)
    """

    name: str
    center: Array
    scale: Array
    points: Array
    dual: Array
    length: float
    explained: Array

    @classmethod
    def learn(cls, name: str, features: Array, weights: Array) -> TaskRegression:
        """From meta-features (T, k) and weights (T, Q); length and ridge have the least error on tasks left out."""
        if len(features) < LEAST_TASKS:
            raise InvalidInput(
                f"{LEAST_TASKS} tasks with meta-features are needed to learn from them, got {len(features)}"
            )
        features = np.where(np.isfinite(features), features, np.nan)
        center = np.nanmean(np.where(np.isnan(features).all(axis=0), 0.0, features), axis=0)
        filled = np.where(np.isnan(features), center, features)
        spread = filled.std(axis=0)
        scale = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(center)), spread, np.inf)
        points = np.clip((filled - center) / scale, -3.0, 3.0)  # tails are long, and no task is to be far from all
        distances = _squared(points, points)
        total = np.maximum((weights**2).sum(axis=0), 1e-12)
        best: tuple[float, TaskRegression] | None = None
        for length in _LENGTHS:
            kernel = np.exp(-0.5 * distances / (length**2 * points.shape[1]))
            for ridge in _RIDGES:
                factor = cho_factor(kernel + ridge * np.eye(len(points)))
                inverse = cho_solve(factor, np.eye(len(points)))
                left_out = (inverse @ weights) / np.diag(inverse)[:, None]  # w_t less its prediction from the others
                explained = np.maximum(1.0 - (left_out**2).sum(axis=0) / total, 0.0)
                error = float((total * (1.0 - explained)).sum())
                if best is None or error < best[0]:
                    found = cls(name, center, scale, points, inverse @ weights, length, explained)
                    best = (error, found)
        assert best is not None
        return best[1]

    def __call__(self, vector: Array) -> Array:
        """Expected weights (Q,) of a task with these meta-features."""
        if vector.shape != self.center.shape:
            raise InvalidInput(
                f"the task must have the {len(self.center)} meta-features that were learned from, got {vector.shape}"
            )
        point = np.clip((np.where(np.isfinite(vector), vector, self.center) - self.center) / self.scale, -3.0, 3.0)
        kernel = np.exp(-0.5 * _squared(point[None], self.points)[0] / (self.length**2 * len(point)))
        return np.asarray(kernel @ self.dual)

    def arrays(self) -> Parameters:
        numbers = {f"tasks.{name}": np.asarray(value) for name, value in vars(self).items() if name != "name"}
        return {**numbers, "tasks.name": np.array(list(self.name.encode()), dtype=np.float64)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> TaskRegression | None:
        """What `arrays` gave, if it is there."""
        part: dict[str, Any] = {k.removeprefix("tasks."): v for k, v in arrays.items() if k.startswith("tasks.")}
        if not part:
            return None
        return cls(**{**part, "length": float(part["length"]), "name": bytes(part["name"].astype(np.uint8)).decode()})


def _squared(left: Array, right: Array) -> Array:
    squared = (left**2).sum(axis=1)[:, None] + (right**2).sum(axis=1) - 2.0 * left @ right.T
    return np.asarray(np.maximum(squared, 0.0))


class PipelineMap:
    """From the encodings of pipelines to where they are, learned from those recorded; see the notation.

    What the network gets wrong of the mean and of the linear part, on pipelines that it was not trained on, is added to
    the noise of pipelines that it locates.

    Parameters
    ----------
    parameters
        Of the network, named ``map.…``.
    """

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = {name: value for name, value in parameters.items() if name.startswith("map.")}
        widths = [self.parameters[f"map.network.{i}.weight"].shape for i in range(3)]
        self._network = MLP("map.network", (widths[0][0], widths[0][1], widths[1][1], widths[2][1]))

    @classmethod
    def learn(cls, prior: LatentPrior, features: Array, seconds: Array, rng: np.random.Generator) -> PipelineMap:
        """Train it.

        Parameters
        ----------
        prior
            With P recorded pipelines.
        features
            (P, F), their encodings.
        seconds
            (P,), logarithms of how long they take, up to a constant; NaN where that is not known.
        rng
            Initial parameters, batches, and the tenth of the pipelines to stop by.
        """
        at = prior.recorded
        targets = np.concatenate([at.points, at.means[:, None], np.log(at.noise)[:, None]], axis=1)
        targets = np.concatenate([targets, np.where(np.isfinite(seconds), seconds, 0.0)[:, None]], axis=1)
        center, scale = targets.mean(axis=0), np.maximum(targets.std(axis=0), 1e-9)
        standardised = (targets - center) / scale
        order = rng.permutation(len(targets))
        held, rest = order[: max(1, len(order) // 10)], order[max(1, len(order) // 10) :]
        rest = rest if len(rest) else held
        # Errors count by what they do to predicted losses: those along directions of large variance the most.
        importance = np.concatenate([np.sqrt(prior.kernel.linear + 1e-3), [1.0, 0.1, 0.1]]) * scale
        importance /= np.sqrt((importance**2).mean())
        network = MLP("map.network", (features.shape[1], _UNITS, _UNITS, targets.shape[1]))

        torch = require_torch("the map of pipelines")

        def error(tensors: Mapping[str, Any], rows: NDArray[np.int64]) -> Any:
            over = network(tensors, torch.from_numpy(features[rows])) - torch.from_numpy(standardised[rows])
            return ((over * torch.from_numpy(importance)) ** 2).mean()

        trained = train_network(
            network.initial(rng),
            lambda tensors, stream: error(tensors, stream.choice(rest, min(_BATCH, len(rest)), replace=False)),
            lambda tensors: error(tensors, held),
            MAP_STEPS,
            Training(2e-3, check_every=200, patience=5),
            rng,
            "map of pipelines",
        )
        found = network(trained.parameters, features[held]) * scale + center
        wrong = (found[:, : at.points.shape[1]] - at.points[held]) ** 2 @ prior.kernel.linear
        wrong = wrong + (found[:, at.points.shape[1]] - at.means[held]) ** 2
        return cls(
            {
                **trained.parameters,
                "map.center": center,
                "map.scale": scale,
                "map.wrong": np.array(float(wrong.mean())),
                "map.timed": np.array(bool(np.isfinite(seconds).any())),
            }
        )

    def __call__(self, features: Array) -> tuple[Located, Array | None]:
        """Where pipelines with these encodings are, and the logarithm of their seconds if that was learned."""
        known = self.parameters
        found = self._network(known, features) * known["map.scale"] + known["map.center"]
        q = found.shape[1] - 3
        wrong = np.full(len(found), float(known["map.wrong"]))
        located = Located(found[:, :q], found[:, q], np.exp(found[:, q + 1]), features, wrong)
        return located, found[:, q + 2] if bool(known["map.timed"]) else None
