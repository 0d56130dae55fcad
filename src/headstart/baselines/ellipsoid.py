"""`Ellipsoid`: search only where the best pipelines of other tasks lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import ClassVar, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import NDArray

from headstart.errors import Exhausted, InvalidInput, UnknownName, check_positive, suggestion
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.enclosing_ellipsoid import enclosing_ellipsoid
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried
from headstart.optimizers.recorded import best_columns
from headstart.registry import Kind
from headstart.space.candidates import Candidates, Given, Pool
from headstart.space.encoded import Encoded
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.trials import Proposal, Trial

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Shape = Literal["ellipsoid", "box"]

_SLACK = 1e-9
_ATTEMPTS, _BATCH = 20, 1000


class Region(Protocol):
    """A part of a space."""

    def contains(self, encoded: Encoded) -> Mask:
        """Which of the pipelines lie in it; (n,)."""
        ...


class BoxRegion:
    """Algorithms that the given pipelines use, and hyper-parameters between the least and the largest they have.

    A hyper-parameter counts where it is active; one that none of them has active is free.
    """

    def __init__(self, pipelines: Encoded) -> None:
        stages = range(pipelines.choice.shape[1])
        self._choices = [np.unique(pipelines.choice[:, s]) for s in stages]
        self._low = np.where(pipelines.active, pipelines.values, np.inf).min(axis=0)
        self._high = np.where(pipelines.active, pipelines.values, -np.inf).max(axis=0)
        free = ~pipelines.active.any(axis=0)
        self._low[free], self._high[free] = -np.inf, np.inf

    def contains(self, encoded: Encoded) -> Mask:
        values = encoded.values
        within = ~encoded.active | ((values >= self._low - _SLACK) & (values <= self._high + _SLACK))
        inside: Mask = within.all(axis=1)
        for s, seen in enumerate(self._choices):
            inside &= np.isin(encoded.choice[:, s], seen)
        return inside


class EllipsoidRegion:
    """The smallest ellipsoid around given pipelines in the plane in which they vary most, and a tube around that plane.

    A pipeline is a vector of hyper-parameters (0 where inactive) and one-hot choices. These vectors lie on a few
    corners and edges of their cube, and no ellipsoid of full dimension fits a few hundred of them, so they are
    projected on their leading principal components first. Off that plane a pipeline may be as far as the farthest of
    the given ones.

    Parameters
    ----------
    pipelines
        To be enclosed.
    components
        Most principal components; fewer where fewer make up all the variance.
    """

    def __init__(self, pipelines: Encoded, components: int) -> None:
        features = np.unique(pipelines.features(), axis=0)
        self._mean = features.mean(axis=0)
        _, values, directions = np.linalg.svd(features - self._mean, full_matrices=False)
        count = min(components, int((values > 1e-9 * max(1.0, float(values[0]))).sum()))
        self._directions: Array = directions[:count]
        self._ellipsoid = None
        projected = (features - self._mean) @ self._directions.T
        if count:
            self._ellipsoid = enclosing_ellipsoid(projected)
        self._tube = float(self._residuals(features, projected).max())

    def _residuals(self, features: Array, projected: Array) -> Array:
        """Squared distances from the plane."""
        return np.asarray(((features - self._mean) ** 2).sum(axis=1) - (projected**2).sum(axis=1))

    def contains(self, encoded: Encoded) -> Mask:
        features = encoded.features()
        projected = (features - self._mean) @ self._directions.T
        inside: Mask = self._residuals(features, projected) <= self._tube + _SLACK
        if self._ellipsoid is not None:
            inside &= self._ellipsoid.distance(projected) <= 1.0 + _SLACK
        return inside


class RestrictedCandidates:
    """Candidates inside of a region; where it holds none of them, all candidates.

    It still encodes pipelines outside, for a history may have them.
    """

    def __init__(self, candidates: Candidates, region: Region) -> None:
        self._all = candidates
        self._region = region
        self._pool: Pool | None = None
        if candidates.pool is not None:
            inside = region.contains(candidates.pool)
            self._pool = Pool(candidates.pool.take(inside) if inside.any() else candidates.pool)

    @property
    def space(self) -> PipelineSpace:
        return self._all.space

    @property
    def pool(self) -> Encoded | None:
        return None if self._pool is None else self._pool.pool

    def encode(self, pipelines: Iterable[Pipeline]) -> Encoded:
        return self._all.encode(pipelines)

    def allowed(self, given: Given | None = None) -> dict[str, tuple[str, ...]]:
        return (self._pool or self._all).allowed(given)

    def sample(self, rng: np.random.Generator, n: int = 1, given: Given | None = None) -> Encoded:
        """From a whole space they are drawn and rejected; where nearly all are rejected, the last ones lie outside."""
        if self._pool is not None:
            return self._pool.sample(rng, n, given)
        parts: list[Encoded] = []
        missing = n
        for attempt in range(_ATTEMPTS):
            drawn = self._all.sample(rng, n if attempt == 0 else max(2 * missing, _BATCH), given)
            inside = drawn.take(self._region.contains(drawn)) if attempt < _ATTEMPTS - 1 else drawn
            parts.append(inside.take(np.arange(min(missing, len(inside)))))
            missing -= len(parts[-1])
            if missing == 0:
                break
        return Encoded.concatenate(parts)

    def neighbours(self, pipeline: Pipeline, rng: np.random.Generator, given: Given | None = None) -> Encoded:
        near = self._all.neighbours(pipeline, rng, given)
        return near.take(self._region.contains(near)) if len(near) else near

    def nearest(self, values: Array, given: Given | None = None) -> Encoded:
        """In a whole space what is nearest to a point may lie outside."""
        return (self._pool or self._all).nearest(values, given)


class Ellipsoid(Optimizer):
    """Restrict the candidates to where the best pipelines of the training tasks lie, then search there.

    After Perrone et al. (2019), who learn boxes and ellipsoids of continuous spaces. For pipelines it was decided:

    - Enclosed are the `best_of_each` best pipelines of each training task (one is what was published); of equally good
      ones those with the better mean rank over all tasks.
    - ``"ellipsoid"``: see `EllipsoidRegion`. ``"box"``: see `BoxRegion`.
    - On a pool the candidates inside are searched; when they are used up, the others follow at random. On a whole space
      samples and neighbours outside are rejected.

    On spaces with many algorithms the regions are large: the best pipelines of some hundred tasks are spread over
    most of them.

    Parameters
    ----------
    search
        An optimizer, or the name of one or of a surrogate, that searches inside; ``"random"`` for random search.
    shape
        ``"ellipsoid"`` or ``"box"``.
    components
        Of the ellipsoid: most principal components.
    best_of_each
        How many pipelines of each training task are enclosed.
    """

    def __init__(
        self,
        search: Optimizer | str = "gp",
        shape: Shape = "ellipsoid",
        components: int = 10,
        best_of_each: int = 1,
    ) -> None:
        if shape not in get_args(Shape):
            raise UnknownName(f"no shape of a region is named {shape!r}; {suggestion(shape, get_args(Shape))}")
        check_positive("components", components, whole=True)
        check_positive("best_of_each", best_of_each, whole=True)
        self.search = search
        self.shape: Shape = shape
        self.components = components
        self.best_of_each = best_of_each

    parts: ClassVar[Mapping[str, Kind]] = {"search": "optimizer"}
    keeps = ("_enclosed",)
    _enclosed: Encoded | None = None

    def meta_fit(self, meta: MetaDataset) -> Self:
        best = [columns for columns in best_columns(meta, self.best_of_each) if len(columns)]
        if not best:
            raise InvalidInput(f"{type(self).__name__} learns from other tasks, got a meta-dataset without any loss")
        super().meta_fit(meta)
        self._enclosed = meta.pipelines.take(np.unique(np.concatenate(best)))
        self.meta_key = meta.key
        return self

    def prepare(self) -> None:
        enclosed = self._enclosed
        if enclosed is None:
            raise InvalidInput(f"{type(self).__name__} learns from other tasks: call meta_fit before start")
        if self.task.space != enclosed.space:
            raise InvalidInput(
                f"a region of space {enclosed.space.name!r} says nothing of space {self.task.space.name!r}"
            )
        region = BoxRegion(enclosed) if self.shape == "box" else EllipsoidRegion(enclosed, self.components)
        inside = RestrictedCandidates(self.task.candidates, region)
        task = replace(self.task, candidates=inside, initial=())
        self._search: Optimizer = self.part("search").start(task, self.seed, self.history.view(inside))

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        try:
            return self._search.suggest(number, rng)
        except Exhausted:
            return Proposal(number, draw_untried(self.history, rng)[0], {"by": "outside"})

    def proposed(self, proposal: Proposal) -> None:
        self._search.proposed(proposal)

    def observe(self, trial: Trial) -> None:
        self._search.observe(trial)
