"""`Candidates`: where the next pipeline may come from, and `Pool`, the recorded ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, UnknownPipeline
from headstart.space.encoded import Encoded
from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]
Given = Mapping[str, str | Sequence[str]]
"""A partial structure: stage name → algorithm name, or several to choose from."""

POOL_NEIGHBOURS = 20


def find_ids(known: NDArray[np.int64], order: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of `wanted` in `known`, -1 for what is not there; `order` sorts `known`."""
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    places = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[places] == wanted, places, -1)


@runtime_checkable
class Candidates(Protocol):
    """Where the next pipeline may come from.

    A `PipelineSpace` is all of its own pipelines (a live table); a `Pool` is the recorded ones (a replay).
    """

    @property
    def space(self) -> PipelineSpace: ...

    @property
    def pool(self) -> Encoded | None:
        """Every candidate, where they can be listed; ``None`` for a whole space."""
        ...

    def encode(self, pipelines: Iterable[Pipeline]) -> Encoded:
        """These pipelines as arrays; raises if one is not a candidate."""
        ...

    def allowed(self, given: Given | None = None) -> dict[str, tuple[str, ...]]:
        """Algorithms of each stage, by its name, that a candidate of the given structure may still have."""
        ...

    def sample(self, rng: np.random.Generator, n: int = 1, given: Given | None = None) -> Encoded:
        """`n` random candidates; a pool draws without replacement and gives all it has when `n` is more."""
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

    def rows(self, ids: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """Positions in the pool of the pipelines with these ids."""
        wanted = np.asarray(ids, dtype=np.int64)
        rows = find_ids(self._pipelines.ids, self._sorted, wanted)
        missing = wanted[rows < 0]
        if len(missing):
            raise UnknownPipeline(f"pipeline #{missing[0]} is not in this pool of {len(self)} recorded pipelines")
        return rows

    def find(self, encoded: Encoded) -> NDArray[np.int64]:
        """Positions in the pool of pipelines, -1 for those that are not in it.

        Recorded ones are found by their ids. Those are rows of a meta-dataset, and another one may use the same: one
        whose content differs is not in the pool. Others are found by what they are.
        """
        positions = np.full(len(encoded), -1, dtype=np.int64)
        if encoded.space != self.space:
            return positions
        known, order = (self._pipelines.ids, self._sorted) if encoded.recorded else self._contents
        rows = find_ids(known, order, encoded.ids)
        found = np.flatnonzero(rows >= 0)
        there, here = self._pipelines.take(rows[found]), encoded.take(found)
        same = (there.choice == here.choice).all(axis=1) & (there.values == here.values).all(axis=1)
        if there.order is not None and here.order is not None:
            same &= (there.order == here.order).all(axis=1)
        positions[found[same]] = rows[found[same]]
        return positions

    def covers(self, space: PipelineSpace) -> bool:
        """Whether all pipelines of a space are in the pool; false too where they cannot be counted.

        Parameters
        ----------
        space
            With algorithms of the pool's alone.
        """
        if space.size is None or space.size > len(self):
            return False
        inside = np.ones(len(self), dtype=bool)
        for s, stage in enumerate(self.space.stages):
            known = [stage.position(name) for name in space.stage(stage.name).names]
            inside &= np.isin(self._pipelines.choice[:, s], known)
        return len(np.unique(self._contents[0][inside])) == space.size

    @cached_property
    def _contents(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Hashes of the pipelines, and their order."""
        hashes = self._pipelines.contents()
        return hashes, np.argsort(hashes, kind="stable")

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
