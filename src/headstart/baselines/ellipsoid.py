"""`Ellipsoid`: search only where the best pipelines of other tasks lie.

The ellipsoid of least volume around them is found by Khachiyan's algorithm:

=========  ============  =====================================================================================
symbol     name in code  equation
=========  ============  =====================================================================================
x_i        points        n points in d dimensions
q_i        lifted        (x_i, 1)
u          weights       maximise log det Σ u_i q_i q_iᵀ over u_i ≥ 0, Σ u_i = 1
κ_i        distances     q_iᵀ (Σ u_j q_j q_jᵀ)⁻¹ q_i; at the optimum at most d + 1, with equality where u_i > 0
c          center        Σ u_i x_i
A          shape         (Σ u_i x_i x_iᵀ - c cᵀ)⁻¹ / d; inside is (x - c)ᵀ A (x - c) ≤ 1
=========  ============  =====================================================================================

It is the dual of a D-optimal design on the lifted points. Each step moves weight to the point farthest out or, which
makes it converge fast (Todd and Yıldırım), away from the one that lies deepest inside of those that carry weight.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve

from headstart.errors import Exhausted, InvalidInput, UnknownName, check_positive, suggestion
from headstart.metadata.metadataset import MetaDataset
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


@dataclass(frozen=True)
class EnclosingEllipsoid:
    """(x - center)ᵀ shape (x - center) ≤ 1.

    Parameters
    ----------
    center
        (d,)
    shape
        (d, d)
    """

    center: Array
    shape: Array

    def distance(self, points: ArrayLike) -> Array:
        """(x - center)ᵀ shape (x - center) of points (n, d): at most 1 inside; (n,)."""
        moved = np.asarray(points, dtype=np.float64) - self.center
        return np.asarray(np.einsum("ij,ij->i", moved @ self.shape, moved))


def enclosing_ellipsoid(points: ArrayLike, *, tolerance: float = 1e-4, iterations: int = 10_000) -> EnclosingEllipsoid:
    """The ellipsoid of least volume around points (n, d), which must not all lie on a plane of lower dimension.

    Parameters
    ----------
    points
        The points.
    tolerance
        The farthest point may stick out by this much (squared radius) before the result is blown up to hold all of
        them.
    iterations
        Most steps.
    """
    given = np.asarray(points, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] < 1:
        raise InvalidInput(f"points must be (n, d) with d at least 1, got shape {given.shape}")
    given = np.unique(given, axis=0)
    n, d = given.shape
    if np.linalg.matrix_rank(given - given.mean(axis=0)) < d:
        raise InvalidInput(f"an ellipsoid of {d} dimensions needs {d + 1} points that span them, got {n} that do not")
    lifted = np.column_stack([given, np.ones(n)])
    weights = np.full(n, 1.0 / n)
    size = d + 1
    for _ in range(iterations):
        distances = _distances(lifted, weights)
        out = int(distances.argmax())
        carrying = np.flatnonzero(weights > 0)
        deep = int(carrying[distances[carrying].argmin()])
        if distances[out] / size - 1 <= tolerance:
            break
        if distances[out] - size >= size - distances[deep] or weights[deep] >= 1.0:
            step = (distances[out] - size) / (size * (distances[out] - 1))
            weights *= 1 - step
            weights[out] += step
        else:
            step = weights[deep] / (1 - weights[deep])  # all that it carries
            if distances[deep] > 1:
                step = min(step, (size - distances[deep]) / (size * (distances[deep] - 1)))
            weights *= 1 + step
            weights[deep] = max(0.0, weights[deep] - step)
    center = weights @ given
    spread = (given * weights[:, None]).T @ given - np.outer(center, center)
    shape = np.linalg.inv(spread) / d
    found = EnclosingEllipsoid(center, (shape + shape.T) / 2)
    largest = float(found.distance(given).max())
    return EnclosingEllipsoid(center, found.shape / largest) if largest > 1 else found


def _distances(lifted: Array, weights: Array) -> Array:
    moment = (lifted * weights[:, None]).T @ lifted
    return np.asarray(np.einsum("ij,ij->i", cho_solve(cho_factor(moment), lifted.T).T, lifted))


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
        self.listed = candidates.listed
        if self.listed is not None:
            inside = region.contains(self.listed)
            self.listed = self.listed.take(inside) if inside.any() else self.listed
        self._pool = None if candidates.pool is None or self.listed is None else Pool(self.listed)

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

    def sample_each(self, rng: np.random.Generator, n: int, givens: Sequence[Given]) -> list[Encoded]:
        return [self.sample(rng, n, given) for given in givens]

    def neighbours(self, pipeline: Pipeline, rng: np.random.Generator, given: Given | None = None) -> Encoded:
        near = self._all.neighbours(pipeline, rng, given)
        return near.take(self._region.contains(near)) if len(near) else near

    def nearest(self, values: Array, given: Given | None = None) -> Encoded:
        """In a whole space what is nearest to a point may lie outside."""
        return (self._pool or self._all).nearest(values, given)


class Ellipsoid(Optimizer):
    """Restrict the candidates to where the best pipelines of the training tasks lie, then search there (Perrone et al.,
    NeurIPS 2019).

    After Perrone et al. (2019), who learn boxes and ellipsoids of continuous spaces. For pipelines it was decided:

    - Enclosed are the `best_of_each` best pipelines of each training task (one is what was published); of equally good
      ones those with the better mean rank over all tasks.
    - ``"ellipsoid"``: see `EllipsoidRegion`. ``"box"``: see `BoxRegion`.
    - Where candidates can be listed, those inside are searched; when they are used up, the others follow at random. In
      a larger space samples and neighbours outside are rejected.

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
            raise self.not_learned()
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
