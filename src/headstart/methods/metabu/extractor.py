"""`Metabu`: meta-features under which tables are near whose best pipelines are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from headstart.errors import InvalidInput, ModelFileError, NeedsTable, check_positive
from headstart.learning.base import Needs
from headstart.metafeatures.base import MetaFeatures
from headstart.metafeatures.handcrafted import HandCrafted
from headstart.methods.metabu.alignment import Coupling, align
from headstart.methods.metabu.geometry import intrinsic_dimension, scaling
from headstart.methods.metabu.targets import target_representations, wasserstein_distances
from headstart.numerics.threads import one_blas_thread
from headstart.registry import create

if TYPE_CHECKING:
    from headstart.data import Dataset
    from headstart.metadata.metadataset import MetaDataset

Array = NDArray[np.float64]
_LEAST_TASKS = 4
_CLIP = 3.0
"""Standardised meta-features are cut off here: one odd table must not end up far from all others."""


class Metabu(MetaFeatures):
    """Linear combinations of hand-crafted meta-features under which tasks are near whose best pipelines are near
    (Rakotoarison, Milijaona, Rasoanaivo, Sebag & Schoenauer, ICLR 2022).

    Training needs POT where some tasks have fewer than `top` results; a trained map does not.

    Parameters
    ----------
    metafeatures
        Name of the meta-features that are combined.
    coupling
        ``"matched"``: a task's meta-features are aligned with its own best pipelines. ``"fgw"``: with whatever a
        transport plan pairs them with, as the thesis has it.
    alpha
        Weight of distances between tasks in the alignment; the rest is the weight of their places.
    penalty
        Of the absolute values of the map.
    dimensions
        Length of a vector; the intrinsic dimension of the tasks when omitted.
    top
        How many pipelines of a task stand for it.
    bootstraps
        How many times each raw table is resampled to have more rows to learn from, where it is known.
    steps
        Of training.
    seed
        Of the bootstraps.
    """

    keeps = ("_names", "_medians", "_mean", "_scale", "_weights", "_bias", "_tasks", "_vectors", "_dimension")
    training_only_settings = frozenset({"seed", "steps", "bootstraps"})
    _names: list[str]
    _tasks: list[str]
    _dimension: float
    _weights: Array | None = None

    def __init__(
        self,
        metafeatures: str = "full",
        coupling: Coupling = "matched",
        alpha: float = 0.5,
        penalty: float = 1e-3,
        dimensions: int | None = None,
        top: int = 20,
        bootstraps: int = 0,
        steps: int = 100,
        seed: int = 0,
    ) -> None:
        if coupling not in get_args(Coupling):
            raise InvalidInput(f"coupling must be one of {', '.join(get_args(Coupling))}, got {coupling!r}")
        if not 0.0 <= alpha <= 1.0:
            raise InvalidInput(f"alpha must be between 0 and 1, got {alpha!r}")
        if not penalty >= 0.0:
            raise InvalidInput(f"penalty must not be negative, got {penalty!r}")
        for name, value in {"dimensions": dimensions, "top": top, "steps": steps}.items():
            check_positive(name, value, whole=True)
        if bootstraps != 0:
            check_positive("bootstraps", bootstraps, whole=True)
        self.metafeatures = metafeatures
        self.coupling = coupling
        self.alpha = alpha
        self.penalty = penalty
        self.dimensions = dimensions
        self.top = top
        self.bootstraps = bootstraps
        self.steps = steps
        self.seed = seed

    @property
    def needs(self) -> Needs:
        return Needs(metafeatures=frozenset({self.metafeatures}))

    def meta_fit(self, meta: MetaDataset) -> Self:
        if self.metafeatures not in meta.metafeatures:
            raise NeedsTable(
                f"Metabu combines meta-features {self.metafeatures!r}, and meta-dataset {meta.name!r} has none of that "
                f"name; it has {', '.join(meta.metafeatures) or 'no others'}"
            )
        vectors = np.asarray(meta.metafeatures[self.metafeatures], dtype=np.float64)
        described = np.isfinite(vectors).any(axis=1)
        tried = np.array([np.isfinite(meta.loss_row(task)).any() for task in range(len(meta))], dtype=bool)
        kept = np.flatnonzero(described & tried)
        if len(kept) < _LEAST_TASKS:
            raise InvalidInput(
                f"Metabu needs at least {_LEAST_TASKS} tasks with results and meta-features {self.metafeatures!r}, "
                f"got {len(kept)}"
            )
        with one_blas_thread():
            return self._learn(meta.select(kept))

    def _learn(self, meta: MetaDataset) -> Self:
        vectors = np.asarray(meta.metafeatures[self.metafeatures], dtype=np.float64)
        self._standardise(vectors)
        distances = wasserstein_distances(target_representations(meta, self.top))
        self._dimension = intrinsic_dimension(distances)
        wanted = self.dimensions or int(np.clip(round(min(self._dimension, 1e9)), 1, len(meta) - 1))
        targets = scaling(distances, wanted)
        rows, owner = [vectors], [np.arange(len(meta))]
        for task in range(len(meta)) if self.bootstraps else ():
            more = self._resampled(meta.dataset(task), task)
            rows.append(more)
            owner.append(np.full(len(more), task))
        aligned = align(
            self._standardised(np.concatenate(rows)),
            targets,
            np.concatenate(owner),
            coupling=self.coupling,
            alpha=self.alpha,
            penalty=self.penalty,
            steps=self.steps,
        )
        self._weights, self._bias = aligned.weights, aligned.bias
        self._tasks = list(meta.tasks)
        self._vectors = self._map(vectors)
        self._names = self._column_names(vectors.shape[1])
        digest = hashlib.sha256(b"".join(array.tobytes() for array in (self._weights, self._bias, self._vectors)))
        self.meta_key = f"{meta.name}-{digest.hexdigest()[:16]}"
        return self

    def _standardise(self, vectors: Array) -> None:
        known = np.isfinite(vectors)
        some = known.any(axis=0)
        self._medians = np.zeros(vectors.shape[1])
        self._medians[some] = np.nanmedian(np.where(known, vectors, np.nan)[:, some], axis=0)
        filled = np.where(known, vectors, self._medians)
        self._mean = filled.mean(axis=0)
        deviation = filled.std(axis=0)
        varies = deviation > 1e-12 * np.maximum(1.0, np.abs(self._mean))
        self._scale = np.where(varies, 1.0 / np.where(varies, deviation, 1.0), 0.0)

    def _standardised(self, vectors: Array) -> Array:
        filled = np.where(np.isfinite(vectors), vectors, self._medians)
        found: Array = np.clip((filled - self._mean) * self._scale, -_CLIP, _CLIP)
        return found

    def _map(self, vectors: Array) -> Array:
        if self._weights is None:
            raise InvalidInput("Metabu learns from recorded results: call meta_fit or load first")
        found: Array = self._standardised(vectors) @ self._weights + self._bias
        return found

    def _resampled(self, dataset: Dataset | None, task: int) -> Array:
        """Meta-features of bootstraps of a table, (bootstraps, D); none where there is no table."""
        extractor = create("metafeatures", self.metafeatures)
        if not isinstance(extractor, HandCrafted):
            raise InvalidInput(
                f"bootstraps are described by hand-crafted meta-features, and {self.metafeatures!r} are not; give "
                "bootstraps=0"
            )
        if dataset is None:
            return np.zeros((0, len(extractor.names)))
        rng = np.random.default_rng([self.seed, task])
        n = dataset.n_rows
        drawn = [dataset.take(rng.integers(0, n, n)) for _ in range(self.bootstraps)]
        return np.array([extractor.measure(sample).values for sample in drawn])

    def _column_names(self, width: int) -> list[str]:
        try:
            names = list(create("metafeatures", self.metafeatures).names)
        except (InvalidInput, AttributeError, LookupError):  # recorded ones, or an extractor that does not name them
            names = []
        return names if len(names) == width else [f"{self.metafeatures} {k}" for k in range(width)]

    def transform(self, dataset: Dataset | None, metafeatures: Mapping[str, Array] = {}) -> Array:  # noqa: ARG002
        if self.metafeatures not in metafeatures:
            raise NeedsTable(f"Metabu combines meta-features {self.metafeatures!r}, and the task has none of that name")
        vector = np.asarray(metafeatures[self.metafeatures], dtype=np.float64).reshape(1, -1)
        if self._weights is not None and vector.shape[1] != len(self._weights):
            raise InvalidInput(
                f"there must be {len(self._weights)} meta-features {self.metafeatures!r}, as Metabu was trained with, "
                f"got {vector.shape[1]}"
            )
        found: Array = self._map(vector)[0]
        return found

    @property
    def dimension(self) -> float:
        """Intrinsic dimension of the tasks that it learned from."""
        self._check_trained()
        return self._dimension

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks that it learned from."""
        self._check_trained()
        return tuple(self._tasks)

    @property
    def vectors(self) -> Array:
        """Meta-features (n, d) of the tasks that it learned from."""
        self._check_trained()
        return self._vectors.copy()

    def neighbours(self, vector: ArrayLike, number: int = 10) -> list[tuple[str, float]]:
        """The nearest tasks that it learned from, and their distances, for a vector of `transform`."""
        self._check_trained()
        distances = np.linalg.norm(self._vectors - np.asarray(vector, dtype=np.float64), axis=1)
        return [(self._tasks[i], float(distances[i])) for i in np.argsort(distances, kind="stable")[:number]]

    def importance(self) -> dict[str, float]:
        """How much each meta-feature counts, the largest first (section 6.4.4).

        The absolute weight of a standardised meta-feature along the axis on which tasks differ most: the first column,
        for the target points lie along their principal axes.
        """
        self._check_trained()
        assert self._weights is not None
        weights = np.abs(self._weights[:, 0])
        return {self._names[k]: float(weights[k]) for k in np.argsort(-weights, kind="stable")}

    def _check_trained(self) -> None:
        if self._weights is None:
            raise InvalidInput("Metabu learns from recorded results: call meta_fit or load first")

    def restored(self) -> None:
        self._check_trained()
        assert self._weights is not None
        wide = {len(values) for values in (self._medians, self._mean, self._scale, self._weights, self._names)}
        if len(wide) != 1 or self._vectors.shape != (len(self._tasks), self._weights.shape[1]):
            raise ModelFileError("what Metabu learned does not fit together")
