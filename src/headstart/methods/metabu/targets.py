"""A task as the distribution of its best pipelines, and how far apart such distributions are.

=========  ===============  ==================================================================================
symbol     name in code     equation
=========  ===============  ==================================================================================
L          top              how many pipelines of a task are kept
Θ_i        representation   (L, a) encodings of the L best pipelines of task i
z_i                         uniform distribution on Θ_i
d_W¹       distances        min over plans γ of Σ γ ‖θ - θ'‖, exact (section 6.2, q = 1)
=========  ===============  ==================================================================================

A number of a pipeline is in units of its standard deviation over the pipelines that were tried, so that one unit means
the same in all pairs of tasks; a choice is a column of 0 and 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from headstart.errors import MissingDependency
from headstart.metadata.metadataset import MetaDataset
from headstart.optimizers.recorded import best_columns
from headstart.space.encoded import Encoded
from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]


def target_representations(meta: MetaDataset, top: int) -> list[Array]:
    """Encodings (up to `top`, a) of the best pipelines of each task; an empty array for a task without results.

    Among equally good pipelines those that do well on the other tasks come first.
    """
    tried = np.logical_or.reduce(np.isfinite(meta.losses), axis=0)
    encoded = scaled(meta.pipelines, tried)
    return [encoded[columns] for columns in best_columns(meta, top)]


def scaled(pipelines: Encoded, tried: NDArray[np.bool_]) -> Array:
    """Pipelines as points (P, a): numbers are standardised over those `tried` that have them, and 0 where inactive."""
    points = pipelines.features().copy()
    for column in _numbers(pipelines.space):
        active = pipelines.active[:, column]
        seen = points[active & tried, column]
        spread = seen.std() if len(seen) else 0.0
        points[active, column] = (points[active, column] - seen.mean()) / spread if spread > 1e-12 else 0.0
    return points


def _numbers(space: PipelineSpace) -> list[int]:
    """Columns that hold a number; several columns of one parameter are choices."""
    found = []
    for s, _, algorithm, _ in space.blocks():
        for parameter in algorithm.params:
            columns = space.columns(space.stages[s].name, algorithm.name, parameter.name)
            found += [columns.start] if columns.stop - columns.start == 1 else []
    return found


def wasserstein_distances(representations: Sequence[Array]) -> Array:
    """1-Wasserstein distances (n, n) between uniform distributions on points (L_i, a)."""
    n = len(representations)
    distances = np.zeros((n, n))
    for i in range(n):
        for j in range(i):
            distances[i, j] = distances[j, i] = _wasserstein(representations[i], representations[j])
    return distances


def _wasserstein(one: Array, other: Array) -> float:
    """1-Wasserstein distance of two uniform distributions.

    Where both have as many points, one of the best plans is a permutation, which takes a fifth of the time.
    """
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    cost = cdist(one, other)
    if len(one) == len(other):
        return float(cost[linear_sum_assignment(cost)].mean())
    try:
        import ot
    except ImportError as error:
        raise MissingDependency(
            "training Metabu on tasks of which some have fewer results than others needs POT: "
            'pip install "headstart[transport]"'
        ) from error
    return float(ot.emd2([], [], cost, numItermax=_ITERATIONS))


_ITERATIONS = 1_000_000
