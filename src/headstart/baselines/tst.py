"""`TSTRanking` and `TSTDataset2Vec`: two-stage transfer surrogates, after Wistuba, Schilling & Schmidt-Thieme (2016).

=============  ==================  ============================================================================
symbol         name in code        equation
=============  ==================  ============================================================================
μ_t            base.mean           model of training task t, the first stage; μ_0, σ_0 that of the task at hand
δ_t            distances (T,)      how far training task t is from the task at hand
ρ              bandwidth
κ(δ)           epanechnikov        ¾ (1 - (δ/ρ)²) for δ < ρ, else 0
μ(x)           mean                (κ(0) μ_0(x) + Σ_t κ(δ_t) μ_t(x)) / (κ(0) + Σ_t κ(δ_t)), the second stage
σ(x)           std                 σ_0(x)
=============  ==================  ============================================================================

``tst_r`` compares tasks by how their models rank what was tried: δ is the share of pairs of observations that model t
puts in the other order (Kendall's distance). ``tst_d2v`` compares them by meta-features.

Decided here: models predict standardised targets; pairs of equal targets do not count, and as long as no two targets
differ all training tasks are near. Meta-features are standardised over the training tasks, missing ones stand at their
mean, and δ is the Euclidean distance divided by the median distance between training tasks, so that a bandwidth means
the same for any number of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
from scipy.spatial.distance import pdist

from headstart.baselines.task_ensemble import Array, TaskEnsemble
from headstart.errors import InvalidInput, NeedsTable
from headstart.learning.base import Needs
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.ranking import discordant_share
from headstart.space.encoded import Encoded
from headstart.task import Task


def epanechnikov(distances: Array, bandwidth: float) -> Array:
    """κ, any shape."""
    return 0.75 * np.maximum(1.0 - (distances / bandwidth) ** 2, 0.0)


class TSTRanking(TaskEnsemble):
    """Two-stage transfer by how training tasks rank what was tried (Wistuba, Schilling & Schmidt-Thieme, ECML PKDD
    2016).

    Parameters
    ----------
    bandwidth
        Distance from which on a training task does not count: a share of pairs in the other order.
    n_observations, n_live
        See `TaskEnsemble`.
    """

    adjustable = frozenset({"bandwidth", "n_live"})

    def __init__(self, bandwidth: float = 0.3, n_observations: int = 200, n_live: int = 10) -> None:
        super().__init__(n_observations, n_live)
        if not bandwidth > 0:
            raise InvalidInput(f"bandwidth must be positive, got {bandwidth!r}")
        self.bandwidth = bandwidth

    def distances(self, predicted: Array, observed: Array) -> Array:
        """δ, shape ``(T,)``; arguments as in `weigh`."""
        if not len(observed) or observed.min() == observed.max():
            return np.zeros(len(predicted))
        return discordant_share(predicted, observed)

    def weigh(self, predicted: Array, observed: Array) -> tuple[Array, float]:
        own = float(epanechnikov(np.zeros(()), self.bandwidth))
        return epanechnikov(self.distances(predicted, observed), self.bandwidth), own

    def spread(self, own_std: Array, encoded: Encoded) -> Array:  # noqa: ARG002
        return own_std


class TSTDataset2Vec(TSTRanking):
    """Two-stage transfer by how alike the datasets are (Wistuba, Schilling & Schmidt-Thieme, ECML PKDD 2016).

    Parameters
    ----------
    bandwidth
        Distance from which on a training task does not count, relative to the median between training tasks.
    metafeatures
        Name of the extractor.
    n_observations, n_live
        See `TaskEnsemble`.
    """

    keeps = (*TSTRanking.keeps, "_vectors")

    def __init__(
        self,
        bandwidth: float = 0.5,
        metafeatures: str = "dataset2vec",
        n_observations: int = 200,
        n_live: int = 10,
    ) -> None:
        super().__init__(bandwidth, n_observations, n_live)
        self.metafeatures = metafeatures

    def meta_fit(self, meta: MetaDataset) -> Self:
        self._check_metafeatures(meta.metafeatures, f"meta-dataset {meta.name!r}")
        vectors = np.asarray(meta.metafeatures[self.metafeatures], dtype=np.float64)
        described = np.flatnonzero(np.isfinite(vectors).any(axis=1))  # the others cannot be compared
        self._vectors = vectors[described]
        return super().meta_fit(meta if len(described) == len(meta) else meta.select(described))

    def start(self, task: Task) -> Self:
        fresh = super().start(task)
        self._check_metafeatures(task.metafeatures, "the task at hand")
        vector = np.asarray(task.metafeatures[self.metafeatures], dtype=np.float64).reshape(-1)
        if len(vector) != self._vectors.shape[1]:
            raise InvalidInput(
                f"meta-features {self.metafeatures!r} must have {self._vectors.shape[1]} values as those of the "
                f"training tasks, got {len(vector)}"
            )
        fresh._distances = relative_distances(self._vectors, vector)
        return fresh

    def _check_metafeatures(self, known: Mapping[str, Array], where: str) -> None:
        if self.metafeatures not in known:
            raise NeedsTable(
                f"{type(self).__name__} compares tasks by meta-features {self.metafeatures!r}, which {where} does not "
                f"have; it has {', '.join(sorted(known)) or 'none'}"
            )

    def distances(self, predicted: Array, observed: Array) -> Array:  # noqa: ARG002
        return self._distances

    _vectors: Array
    _distances: Array

    @property
    def needs(self) -> Needs:
        return super().needs | Needs(metafeatures=frozenset({self.metafeatures}))


def relative_distances(vectors: Array, vector: Array) -> Array:
    """Distances ``(T,)`` of a vector ``(k,)`` from vectors ``(T, k)``, relative to the median among the latter."""
    present = np.where(np.isfinite(vectors), vectors, np.nan)
    known = np.isfinite(present).any(axis=0)
    mean = np.zeros(vectors.shape[1])
    mean[known] = np.nanmean(present[:, known], axis=0)
    filled = np.where(np.isnan(present), mean, present) - mean
    scale = filled.std(axis=0)
    scale[scale == 0.0] = np.inf  # says nothing about the training tasks
    scaled = filled / scale
    own = np.where(np.isfinite(vector), vector - mean, 0.0) / scale
    typical = float(np.median(pdist(scaled))) if len(scaled) > 1 else 0.0
    return np.asarray(np.linalg.norm(scaled - own, axis=1) / (typical if typical > 0.0 else 1.0), dtype=np.float64)
