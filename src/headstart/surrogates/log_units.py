"""Logarithmic units of losses, and `LogUnits`: a surrogate that is given them.

Most pipelines are bad, some are very bad, and all that matters is which of the good ones is best. In logarithmic units
a loss of 0.010 is as far from 0.011 as 0.10 is from 0.11, so that a model spends itself on the good end. The units do
not depend on what was observed on a task, so what other tasks have told of losses in them can be used.

======  ============  ========================================================================================
symbol  name in code  equation
======  ============  ========================================================================================
y       losses        0 at best; a few may be negative
c       small         a small loss, see `small_loss`
u       log_units     asinh(y / c): about ln(2 y / c) for y well above c, y / c around 0
======  ============  ========================================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.history import History
from headstart.metadata.metadataset import MetaDataset
from headstart.registry import Kind
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction, Surrogate
from headstart.task import Task

Array = NDArray[np.float64]

_SHARE = 0.1
"""Of what losses are usually like."""
_FEW = 0.01
"""Share of losses that may be negative, as an estimate of an error may."""


def log_units(losses: NDArray[Any], small: float) -> NDArray[Any]:
    """u, of the shape and precision of the losses, at least single; NaN stays."""
    exact = losses.astype(np.result_type(losses.dtype, np.float32), copy=False)
    return np.asarray(np.arcsinh(exact / exact.dtype.type(small)))


def small_loss(meta: MetaDataset) -> float | None:
    """c: a tenth of the median over tasks of the median loss; ``None`` where losses are often negative.

    A loss is at best 0, or these units make no sense: of negative scores they would resolve the bad end.
    """
    observed = [row[np.isfinite(row)] for row in map(meta.loss_row, range(len(meta)))]
    negative = np.mean([np.mean(losses < 0) for losses in observed if len(losses)] or [0.0])
    if negative > _FEW:
        return None
    usual = float(np.median([np.median(np.abs(losses)) for losses in observed if len(losses)] or [0.0]))
    if not usual:  # most losses are 0: take those that are not
        others = np.concatenate([np.abs(losses[losses != 0]) for losses in observed] or [np.zeros(0)])
        usual = float(np.median(others)) if len(others) else 1.0
    return _SHARE * usual


class LogUnits(Surrogate):
    """Another surrogate, on losses in logarithmic units: ``log_units(surrogate=gp)``.

    What a small loss is, other tasks tell; the other surrogate learns from them in the same units. Where their losses
    are often negative, units stay as they are.

    Parameters
    ----------
    surrogate
        The other one, or its name.
    """

    parts: ClassVar[Mapping[str, Kind]] = {"surrogate": "surrogate"}
    keeps = ("_small",)

    def __init__(self, surrogate: Surrogate | str = "gp") -> None:
        self.surrogate = surrogate

    _small: float | None = None
    _model: Surrogate

    def meta_fit(self, meta: MetaDataset) -> Self:
        if not len(meta):
            raise InvalidInput("LogUnits learns from other tasks, got a meta-dataset without any")
        self._small = small_loss(meta)
        super().meta_fit(meta if self._small is None else meta.mapped(partial(log_units, small=self._small)))
        self.meta_key = meta.key
        return self

    def start(self, task: Task) -> Self:
        if self.meta_key is None:
            raise InvalidInput(
                "LogUnits learns from other tasks what a small loss is: call meta_fit or load before start"
            )
        fresh = super().start(task)
        fresh._model = self.part("surrogate").start(task)
        return fresh

    def _units(self, targets: Array) -> Array:
        return targets if self._small is None else log_units(targets, self._small)

    def transform_targets(self, targets: Array) -> Array:
        inner: Surrogate = self.part("surrogate")
        return inner.transform_targets(self._units(targets))

    def fit(self, history: History) -> Self:
        self._model.fit(history.mapped(self._units))
        return self

    def predict(self, encoded: Encoded) -> Prediction:
        return self._model.predict(encoded)

    def knows(self, encoded: Encoded) -> NDArray[np.bool_]:
        return self._model.knows(encoded)

    def log_seconds(self, encoded: Encoded) -> Array | None:
        return self._model.log_seconds(encoded)
