"""Logarithmic units of losses.

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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.metadata.metadataset import MetaDataset

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
