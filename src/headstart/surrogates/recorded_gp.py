"""`RecordedGP`: a Gaussian process over the recorded pipelines of a meta-dataset, see `LatentPrior`."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from headstart.errors import UnknownPipeline
from headstart.learning.networks import Parameters
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.affine_mixture import Levels
from headstart.numerics.pool_posterior import PoolPosterior
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.surrogates.acquisition import OVERHEAD_SECONDS
from headstart.surrogates.latent_prior import LatentPrior, PoolRows
from headstart.surrogates.located_gp import Failures, LocatedGP
from headstart.surrogates.posterior import Fixed, Located
from headstart.task import Task

Array = NDArray[np.float64]
Places = NDArray[np.int64]
_PIPELINE_ARRAYS = ("values", "active", "choice", "order", "ids")


class RecordedGP(LocatedGP):
    """Base of surrogates with a Gaussian process over the recorded pipelines of a meta-dataset.

    A subclass writes `learn_prior`. What was tried of pipelines that it does not know tells it nothing.
    """

    seed = 0
    revision = 2
    failures: Failures = "ignored"
    own_noise = True
    single: ClassVar[bool] = True
    """Whether the posterior over a pool is kept in single precision: at half the time, and some 1e-5 of a loss."""

    @property
    def locates_new(self) -> bool:
        """Whether it can tell where pipelines are that were never recorded."""
        return False

    @abstractmethod
    def learn_prior(self, meta: MetaDataset) -> tuple[LatentPrior, Parameters]:
        """The prior, in the order of the pipelines of the meta-dataset, and what else is to be kept."""

    def learn(self, meta: MetaDataset, rng: np.random.Generator) -> Parameters:  # noqa: ARG002
        pipelines = meta.pipelines
        recorded = {name: np.asarray(getattr(pipelines, name)) for name in _PIPELINE_ARRAYS if name != "order"}
        if pipelines.order is not None:
            recorded["order"] = np.asarray(pipelines.order)
        if meta.seconds is not None:
            seconds = np.asarray(meta.seconds, dtype=np.float64)
            if np.isfinite(seconds).any():
                recorded["log_seconds"] = relative_log_seconds(seconds)
        for made in ("prior", "recorded", "_rows"):  # of what was learned before
            self.__dict__.pop(made, None)
        prior, others = self.learn_prior(meta)
        return {**prior.arrays(), **others, **{f"recorded.{name}": array for name, array in recorded.items()}}

    @cached_property
    def recorded(self) -> Encoded:
        """The recorded pipelines."""
        arrays = self.learned
        return Encoded(self.space, *(arrays.get(f"recorded.{name}") for name in _PIPELINE_ARRAYS))  # type: ignore[arg-type]

    @cached_property
    def prior(self) -> LatentPrior:
        """What was learned from other tasks."""
        arrays = {name: value for name, value in self.learned.items() if name.startswith("prior.")}
        return LatentPrior.from_arrays(arrays, self.recorded.features())

    @cached_property
    def _rows(self) -> PoolRows:
        return PoolRows(self.prior, np.float32 if self.single else np.float64)

    def adapted(self, task: Task) -> tuple[LatentPrior, PoolRows]:  # noqa: ARG002
        """The prior for one task: the same for all, unless a subclass knows better."""
        return self.prior, self._rows

    def covers(self, task: Task) -> bool:
        """Whether all candidates of a task are on record; its space is one of those that `check_space` lets pass."""
        listed = task.candidates.listed
        return listed is not None and bool((self._find(listed) >= 0).all())

    def _find(self, encoded: Encoded) -> Places:
        return self.recorded.find(encoded if encoded.space == self.space else encoded.to(self.space))

    def start(self, task: Task) -> Self:
        self.check_space(task.space)
        if task.candidates.pool is None and not self.locates_new and not self.covers(task):
            raise UnknownPipeline(
                f"{type(self).__name__} knows only the recorded pipelines of its meta-dataset, and space "
                f"{task.space.name!r} has others; PMF can learn where those are: headstart metatrain META --method "
                "'pmf(unseen=True)'"
            )
        with one_blas_thread():
            prior, rows = self.adapted(task)
        fresh = super().start(task)
        fresh.prior, fresh._listed = prior, None
        at = prior.recorded
        fresh._fixed = Fixed(at, PoolPosterior(rows.row, prior.variance(at), at.noise, single=self.single))
        return fresh

    _listed: tuple[Encoded, Places] | None
    _fixed: Fixed

    @property
    def process(self) -> LatentPrior:
        return self.prior

    @property
    def fixed(self) -> Fixed:
        return self._fixed

    @property
    def usual(self) -> Levels:
        return Levels(self.prior.offset_mean, self.prior.offset_std, self.prior.scales, np.ones(1))

    def places(self, encoded: Encoded) -> Places:
        """Of these pipelines among those recorded, -1 for others; kept for all candidates, which come every time."""
        if self._listed is not None and self._listed[0] is encoded:
            return self._listed[1]
        places = self._find(encoded)
        if encoded is self.task.candidates.listed:
            self._listed = (encoded, places)
        return places

    def knows(self, encoded: Encoded) -> NDArray[np.bool_]:
        return np.ones(len(encoded), dtype=bool) if self.locates_new else self.places(encoded) >= 0

    def log_seconds(self, encoded: Encoded) -> Array | None:
        known = self.learned.get("recorded.log_seconds")
        places = self.places(encoded)
        return None if known is None or (places < 0).any() else np.asarray(known[places])

    def locate_new(self, encoded: Encoded) -> Located:
        """Where pipelines are that were never recorded; refused unless a subclass can tell."""
        raise UnknownPipeline(
            f"{type(self).__name__} knows only the recorded pipelines of its meta-dataset, not {encoded[0]!r}"
        )

    def locate(self, encoded: Encoded) -> Located:
        places = self.places(encoded)
        recorded = self.prior.recorded.take(np.maximum(places, 0))
        new = np.flatnonzero(places < 0)
        if not len(new):
            return recorded
        found = self.locate_new(encoded.take(new))
        recorded.points[new], recorded.means[new], recorded.noise[new] = found.points, found.means, found.noise
        recorded.extra = np.zeros(len(recorded))
        recorded.extra[new] = found.extra
        if recorded.descriptions is not None:
            recorded.descriptions[new] = found.descriptions
        return recorded


def relative_log_seconds(seconds: Array) -> Array:
    """How long pipelines take compared with others, (P,), from seconds (T, P) with NaN where none is known.

    Logarithms, averaged over tasks after each task's mean is taken off; 0 for a pipeline never timed.
    """
    return relative_to_tasks(np.log(seconds + OVERHEAD_SECONDS))


def relative_to_tasks(values: Array) -> Array:
    """Means (P,) over tasks of values (T, P), NaN where missing, after each task's mean is taken off; 0 without any."""
    there = np.isfinite(values)
    of_tasks = np.where(there, values, 0.0).sum(axis=1) / np.maximum(there.sum(axis=1), 1)
    over = np.where(there, values - of_tasks[:, None], 0.0)
    return np.asarray(over.sum(axis=0) / np.maximum(there.sum(axis=0), 1))
