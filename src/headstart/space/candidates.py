"""`Candidates`: where the next pipeline may come from, and `Pool`, the recorded ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, UnknownPipeline
from headstart.space.encoded import Encoded, find_ids
from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]
Given = Mapping[str, str | Sequence[str]]
"""A partial structure: stage name → algorithm name, or several to choose from."""

POOL_NEIGHBOURS = 20


@runtime_checkable
class Candidates(Protocol):
    """Where the next pipeline may come from.

    A `PipelineSpace` is all of its own pipelines, `headstart.space.distinct` those that differ on a table (both live);
    a `Pool` is the recorded ones (a replay).
    """

    @property
    def space(self) -> PipelineSpace: ...

    @property
    def pool(self) -> Encoded | None:
        """Every candidate, if they are recorded pipelines; ``None`` for those of a space."""
        ...

    @property
    def listed(self) -> Encoded | None:
        """Every candidate, the same object each time; ``None`` where a space has too many of them, or no end."""
        ...

    def encode(self, pipelines: Iterable[Pipeline]) -> Encoded:
        """These pipelines as the candidates that they are, or are equal to; raises if one is no candidate."""
        ...

    def allowed(self, given: Given | None = None) -> dict[str, tuple[str, ...]]:
        """Algorithms of each stage, by its name, that a candidate of the given structure may still have."""
        ...

    def sample(self, rng: np.random.Generator, n: int = 1, given: Given | None = None) -> Encoded:
        """`n` random candidates; a pool draws without replacement and gives all it has when `n` is more."""
        ...

    def sample_each(self, rng: np.random.Generator, n: int, givens: Sequence[Given]) -> list[Encoded]:
        """`n` random candidates of each of several structures, as `sample` gives them but faster."""
        ...

    def neighbours(self, pipeline: Pipeline, rng: np.random.Generator, given: Given | None = None) -> Encoded:
        """Candidates close to `pipeline`, without it; only those of the given structure."""
        ...

    def nearest(self, values: Array, given: Given | None = None) -> Encoded:
        """The candidate nearest to each relaxed point; values (n, D) or (D,) → n pipelines."""
        ...


class Pool:
    """Recorded pipelines as candidates.

    Parameters
    ----------
    pipelines
        With the rows of their meta-dataset as ids.
    """

    def __init__(self, pipelines: Encoded) -> None:
        if not pipelines.recorded:
            raise InvalidInput("a pool needs recorded pipelines: give Encoded(..., ids=rows of the meta-dataset)")
        if len(pipelines) == 0:
            raise InvalidInput("a pool needs at least one pipeline, got none")
        self._pipelines = pipelines
        self._sorted = np.argsort(pipelines.ids, kind="stable")
        repeated = np.flatnonzero(np.diff(pipelines.ids[self._sorted]) == 0)
        if len(repeated):
            raise InvalidInput(f"ids must be unique, got {pipelines.ids[self._sorted[repeated[0]]]} more than once")

    @property
    def space(self) -> PipelineSpace:
        return self._pipelines.space

    @property
    def pool(self) -> Encoded:
        return self._pipelines

    @property
    def listed(self) -> Encoded:
        return self._pipelines

    def rows(self, ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions in the pool of the pipelines with these ids."""
        wanted = np.asarray(ids, dtype=np.int64)
        rows = find_ids(self._pipelines.ids, self._sorted, wanted)
        missing = wanted[rows < 0]
        if len(missing):
            raise UnknownPipeline(f"pipeline #{missing[0]} is not in this pool of {len(self)} recorded pipelines")
        return rows

    def encode(self, pipelines: Iterable[Pipeline]) -> Encoded:
        ids = []
        for pipeline in pipelines:
            if pipeline.id is None:
                raise UnknownPipeline(f"only recorded pipelines (with an id) belong to a pool, got {pipeline!r}")
            ids.append(pipeline.id)
        return self._pipelines.take(self.rows(ids))

    def allowed(self, given: Given | None = None) -> dict[str, tuple[str, ...]]:
        choice = self._pipelines.choice[self._rows_with(given)]
        found = [np.unique(column) for column in choice.T]
        return {s.name: tuple(s.names[a] for a in there) for s, there in zip(self.space.stages, found, strict=True)}

    def _rows_with(self, given: Given | None) -> NDArray[np.int64]:
        """Positions of the pipelines of a structure."""
        allowed = np.ones(len(self._pipelines), dtype=bool)
        for name, wanted in (given or {}).items():
            position = self.space.stage_position(name)
            choices = self.space.stages[position].positions(wanted)
            allowed &= np.isin(self._pipelines.choice[:, position], choices)
        return np.flatnonzero(allowed)

    def sample(self, rng: np.random.Generator, n: int = 1, given: Given | None = None) -> Encoded:
        rows = self._rows_with(given) if given else np.arange(len(self._pipelines))
        return self._pipelines.take(rng.permutation(rows)[:n] if n >= len(rows) else rng.choice(rows, n, replace=False))

    def sample_each(self, rng: np.random.Generator, n: int, givens: Sequence[Given]) -> list[Encoded]:
        return [self.sample(rng, n, given) for given in givens]

    def neighbours(
        self,
        pipeline: Pipeline,
        rng: np.random.Generator,  # noqa: ARG002 (no draw needed)
        given: Given | None = None,
    ) -> Encoded:
        row = int(self.rows([pipeline.id if pipeline.id is not None else -1])[0])
        distances = self._distances(self._pipelines.values[row], self._pipelines.choice[row])
        allowed = self._rows_with(given)
        allowed = allowed[allowed != row]
        closest = allowed[np.argsort(distances[allowed], kind="stable")[:POOL_NEIGHBOURS]]
        return self._pipelines.take(closest)

    def _distances(self, values: Array, choice: NDArray[np.int64]) -> Array:
        """Squared distance of every pipeline, another algorithm counting as much as opposite ends of a parameter."""
        squared: Array = ((self._pipelines.values - values) ** 2).sum(axis=1)
        squared += (self._pipelines.choice != choice).sum(axis=1)
        return squared

    def nearest(self, values: Array, given: Given | None = None) -> Encoded:
        rows = self._rows_with(given)
        if len(rows) == 0:
            raise InvalidInput(f"no recorded pipeline has the structure {dict(given or {})!r}")
        part = self._pipelines.take(rows)
        found = []
        for point in np.atleast_2d(values):
            # Only what a candidate itself uses counts: the relaxed point has a value for every algorithm.
            distances = (np.where(part.active, part.values - point, 0.0) ** 2).sum(axis=1)
            found.append(rows[int(distances.argmin())])
        return self._pipelines.take(np.array(found))

    def __len__(self) -> int:
        return len(self._pipelines)

    def __repr__(self) -> str:
        return f"Pool of {len(self)} recorded pipelines in space {self.space.name!r}"
