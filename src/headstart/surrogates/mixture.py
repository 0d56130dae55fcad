"""`Mixture`: two surrogates as one.

=========  ============  ==================================================================================
symbol     name in code  equation
=========  ============  ==================================================================================
μ_i, σ_i   means, stds   prediction of surrogate i
w_i        known         1 where surrogate i knows a pipeline, 0 elsewhere
µ          mean          Σ_i w_i μ_i / Σ_i w_i
σ²                       Σ_i w_i (σ_i² + (μ_i − µ)²) / Σ_i w_i
=========  ============  ==================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, UnknownPipeline
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.registry import Kind
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task

Array = NDArray[np.float64]
_PROBE = np.array([-1.0, 0.0, 1e-3, 1e-2, 0.1, 0.5, 1.0, 10.0])


class Mixture(Surrogate):
    """The even mixture of two surrogates for pipelines that both know; for others the one that knows them.

    A surrogate that knows none of the pipelines of a task is left out there. Where one predicts in a unit of its own,
    such as the logarithmic one of other tasks, the other is fitted to targets in that unit; two units are refused.

    Parameters
    ----------
    first, second
        Surrogates, or their names.
    """

    parts: ClassVar[Mapping[str, Kind]] = {"first": "surrogate", "second": "surrogate"}

    def __init__(self, first: Surrogate | str = "gp", second: Surrogate | str = "forest") -> None:
        self.first = first
        self.second = second

    def meta_fit(self, meta: MetaDataset) -> Self:
        super().meta_fit(meta)
        self.restored()
        return self

    def restored(self) -> None:
        self._unit = self._own_unit([self.part(name) for name in self.parts])

    def start(self, task: Task) -> Self:
        fresh, refused = super().start(task), []
        fresh._models = []
        for name in self.parts:
            try:
                fresh._models.append(self.part(name).start(task))
            except UnknownPipeline as error:
                refused.append(error)
        if not fresh._models:
            raise refused[0]
        fresh._unit = self._own_unit(fresh._models)
        return fresh

    _models: list[Surrogate]
    _unit: Surrogate | None = None
    """The one with a unit of its own."""

    @staticmethod
    def _own_unit(models: list[Surrogate]) -> Surrogate | None:
        own = [model for model in models if not _keeps_unit(model)]
        if len(own) > 1:
            one, other = (model.transform_targets(_PROBE) for model in own)
            if not np.allclose(one, other):
                raise InvalidInput(
                    f"{type(own[0]).__name__} and {type(own[1]).__name__} must predict in the same unit to be mixed, "
                    f"but a loss of 0.1 is {one[4]:.6g} to the one and {other[4]:.6g} to the other; train both on the "
                    "same tasks"
                )
        return own[0] if own else None

    def transform_targets(self, targets: Array) -> Array:
        return targets if self._unit is None else self._unit.transform_targets(targets)

    def fit(self, history: History) -> Self:
        for model in self._models:
            moved = self._unit is not None and _keeps_unit(model)
            model.fit(history.mapped(self.transform_targets) if moved else history)
        return self

    def knows(self, encoded: Encoded) -> NDArray[np.bool_]:
        return np.asarray(np.any([model.knows(encoded) for model in self._models], axis=0))

    def predict(self, encoded: Encoded) -> Prediction:
        if len(self._models) == 1:
            return self._models[0].predict(encoded)
        known = np.array([model.knows(encoded) for model in self._models])
        if not known.any(axis=0).all():
            return self._models[0].predict(encoded)  # which says what it does not know
        means, variances = np.zeros(known.shape), np.zeros(known.shape)
        for i, model in enumerate(self._models):
            found = model.predict(encoded if known[i].all() else encoded.take(known[i]))
            means[i, known[i]] = found.mean
            variances[i, known[i]] = 0.0 if found.std is None else found.std**2
        weights = known / known.sum(axis=0)
        mean = (weights * means).sum(axis=0)
        return Prediction(mean, np.sqrt((weights * (variances + (means - mean) ** 2)).sum(axis=0)))

    def log_seconds(self, encoded: Encoded) -> Array | None:
        told = (model.log_seconds(encoded) for model in self._models)
        return next((seconds for seconds in told if seconds is not None), None)


def _keeps_unit(model: Surrogate) -> bool:
    return np.array_equal(model.transform_targets(_PROBE), _PROBE)
