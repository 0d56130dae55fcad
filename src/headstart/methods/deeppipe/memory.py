"""What `DeepPipe` remembers of recorded pipelines, one by one.

A network knows a pipeline by its hyper-parameters alone. What those do not tell, such as that one of two nearly equal
pipelines is always the better one, is in the matrix of recorded losses: `PMF` finds it, and what meta-features tell of
a task with it: by how much the means of pipelines shift, for the network's too. The memory is a `PMF` that learned from
the same tasks in the same units. It knows nothing of pipelines that were never recorded; for those there is the
network.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.learning.networks import Parameters
from headstart.metadata.metadataset import MetaDataset
from headstart.methods.pmf.surrogate import PMF
from headstart.space.encoded import Encoded
from headstart.space.space import PipelineSpace
from headstart.surrogates.base import Prediction
from headstart.surrogates.meta_trained import UNITS

Array = NDArray[np.float64]
_PREFIX = "memory."


def describe() -> dict[str, Any]:
    """What it is, for the record."""
    return {**PMF().describe(), "shift": "both"}


def learned(meta: MetaDataset, rng: np.random.Generator, seed: int) -> Parameters:
    """All that is remembered of tasks whose losses are in the units of predictions already."""
    return {_PREFIX + name: value for name, value in PMF(seed=seed).learn(meta, rng).items()}


def recalled(parameters: Mapping[str, Array], space: PipelineSpace) -> PMF | None:
    """The memory among what a surrogate learned, in its units; ``None`` if it has none."""
    kept = {name.removeprefix(_PREFIX): value for name, value in parameters.items() if name.startswith(_PREFIX)}
    units = {name: value for name, value in parameters.items() if name.startswith(UNITS)}
    return PMF().with_parameters({**kept, **units}, space) if kept else None


def forgotten(parameters: Parameters) -> Parameters:
    """All but the memory."""
    return {name: value for name, value in parameters.items() if not name.startswith(_PREFIX)}


def mixed(found: Prediction, memory: PMF, encoded: Encoded) -> Prediction:
    """What the network found, mixed evenly with what the memory says of those pipelines that are on record."""
    known = memory.places(encoded) >= 0
    if known.all():
        return mixture(found, memory.predict(encoded))
    if not known.any():
        return found
    assert found.std is not None
    part = mixture(Prediction(found.mean[known], found.std[known]), memory.predict(encoded.take(known)))
    assert part.std is not None
    mean, std = found.mean.copy(), found.std.copy()
    mean[known], std[known] = part.mean, part.std
    return Prediction(mean, std)


def mixture(one: Prediction, other: Prediction) -> Prediction:
    """Mean and standard deviation of the even mixture of two predictions."""
    assert one.std is not None
    assert other.std is not None
    mean = (one.mean + other.mean) / 2
    apart = (one.mean - other.mean) / 2
    return Prediction(mean, np.sqrt((one.std**2 + other.std**2) / 2 + apart**2))
