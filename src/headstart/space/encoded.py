"""`Encoded`: many pipelines as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]
Places = NDArray[np.int64]


def find_ids(known: Places, order: Places, wanted: Places) -> Places:
    """Positions of `wanted` in `known`, -1 for what is not there; `order` sorts `known`."""
    if not len(known):
        return np.full(len(wanted), -1, dtype=np.int64)
    places = order[np.minimum(np.searchsorted(known, wanted, sorter=order), len(known) - 1)]
    return np.where(known[places] == wanted, places, -1)


class Encoded(Sequence[Pipeline]):
    """Pipelines of one space, encoded once: a sequence of `Pipeline` that is arrays inside.

    With n pipelines, S stages and D columns (`PipelineSpace.width`):

    ==========  ===============  ==================================================================
    attribute   shape            meaning
    ==========  ===============  ==================================================================
    values      (n, D) float     every hyper-parameter of every algorithm in [0, 1]; 0 where inactive
    active      (n, D) bool      which columns belong to active hyper-parameters
    choice      (n, S) int       chosen algorithm of each stage, as a position in the stage
    order       (n, S) or None   order of the stages, only in spaces that leave it free
    ids         (n,) int64       row in the meta-dataset if `recorded`, else a hash of the content
    ==========  ===============  ==================================================================

    ``encoded[i]`` decodes one `Pipeline`; slices and `take` give another `Encoded` and copy nothing until its arrays
    are looked at.
    """

    def __init__(
        self,
        space: PipelineSpace,
        values: NDArray[Any],
        active: NDArray[np.bool_],
        choice: NDArray[np.integer[Any]],
        order: NDArray[np.integer[Any]] | None = None,
        ids: NDArray[np.integer[Any]] | None = None,
    ) -> None:
        n = len(choice)
        if values.shape != (n, space.width) or active.shape != values.shape or choice.shape != (n, len(space.stages)):
            raise ValueError(
                f"arrays do not fit space {space.name!r} with {len(space.stages)} stages and {space.width} columns: "
                f"values {values.shape}, active {active.shape}, choice {choice.shape}"
            )
        self.space = space
        self.recorded = ids is not None
        self._arrays: dict[str, Any] = {"values": values, "active": active, "choice": choice, "order": order}
        self._ids = None if ids is None else np.asarray(ids, dtype=np.int64)
        self._rows: NDArray[np.int64] | None = None
        self._own: dict[str, Any] = {}

    def _array(self, name: str) -> Any:
        if self._rows is None or self._arrays[name] is None:
            return self._arrays[name]
        if name not in self._own:
            self._own[name] = self._arrays[name][self._rows]
        return self._own[name]

    @property
    def values(self) -> Array:
        array: Array = self._array("values")
        return array

    @property
    def active(self) -> NDArray[np.bool_]:
        array: NDArray[np.bool_] = self._array("active")
        return array

    @property
    def choice(self) -> NDArray[np.int64]:
        array: NDArray[np.int64] = self._array("choice")
        return array

    @property
    def order(self) -> NDArray[np.int64] | None:
        array: NDArray[np.int64] | None = self._array("order")
        return array

    @property
    def ids(self) -> NDArray[np.int64]:
        if self._ids is None:
            self._ids = self.contents()
        return self._ids

    def contents(self) -> NDArray[np.int64]:
        """(n,): a hash of what each pipeline is, whether or not it is recorded."""
        return _content_hash(self.values, self.choice, self.order)

    def find(self, others: Encoded) -> Places:
        """Positions here of other pipelines, -1 for those that are not here.

        Where both are recorded they are found by their ids. Those are rows of a meta-dataset, and another one may use
        the same: one whose content differs is not here. Others are found by what they are.
        """
        positions = np.full(len(others), -1, dtype=np.int64)
        if others.space != self.space:
            return positions
        by_id = self.recorded and others.recorded
        rows = find_ids(*self._index(by_id), others.ids if by_id or not others.recorded else others.contents())
        found = np.flatnonzero(rows >= 0)
        there, here = self.take(rows[found]), others.take(found)
        same = (there.choice == here.choice).all(axis=1) & (there.values == here.values).all(axis=1)
        if there.order is not None and here.order is not None:
            same &= (there.order == here.order).all(axis=1)
        positions[found[same]] = rows[found[same]]
        return positions

    def _index(self, by_id: bool) -> tuple[Places, Places]:
        """Ids, or hashes of the content, and the order that sorts them."""
        key = f"index {by_id}"
        if key not in self._own:
            known = self.ids if by_id or not self.recorded else self.contents()
            self._own[key] = known, np.argsort(known, kind="stable")
        index: tuple[Places, Places] = self._own[key]
        return index

    def take(self, rows: NDArray[Any] | Sequence[int]) -> Encoded:
        """The pipelines at these positions (or under this mask), in this order."""
        index = np.asarray(rows)
        index = np.flatnonzero(index) if index.dtype == bool else index.astype(np.int64)
        part = object.__new__(Encoded)
        part.space, part.recorded, part._arrays = self.space, self.recorded, self._arrays
        part._ids = None if self._ids is None else self._ids[index]
        part._rows = index if self._rows is None else self._rows[index]
        part._own = {}
        return part

    def with_order(self, order: Sequence[int]) -> Encoded:
        """The same algorithms and hyper-parameters, with the stages in another order that the space allows."""
        return Encoded(self.space, self.values, self.active, self.choice, np.tile(np.array(order), (len(self), 1)))

    def pipeline(self, i: int) -> Pipeline:
        """Decode the pipeline at position `i`."""
        (pipeline,) = self.take([i])
        return pipeline

    def to(self, space: PipelineSpace) -> Encoded:
        """The same pipelines in the columns of another space, such as one that was extended.

        Raises `SpaceError` for a pipeline with an algorithm that the other space does not have.
        """
        values = np.zeros((len(self), space.width))
        active = np.zeros((len(self), space.width), dtype=bool)
        choice = np.zeros((len(self), len(space.stages)), dtype=np.int64)
        for s, a, algorithm, columns in self.space.blocks():
            rows = np.flatnonzero(self.choice[:, s] == a)
            if len(rows) == 0:
                continue
            stage = self.space.stages[s].name
            there = space.columns(stage, algorithm.name)
            choice[rows, space.stage_position(stage)] = space.stage(stage).position(algorithm.name)
            values[rows, there] = self.values[rows, columns]
            active[rows, there] = self.active[rows, columns]
        order = self.order
        if order is not None:
            order = np.array([space.stage_position(stage.name) for stage in self.space.stages])[order]
        return Encoded(space, values, active, choice, order, self._ids if self.recorded else None)

    def __len__(self) -> int:
        return len(self._arrays["choice"]) if self._rows is None else len(self._rows)

    @overload
    def __getitem__(self, i: int) -> Pipeline: ...
    @overload
    def __getitem__(self, i: slice) -> Encoded: ...
    def __getitem__(self, i: int | slice) -> Pipeline | Encoded:
        if isinstance(i, slice):
            return self.take(np.arange(len(self))[i])
        if not -len(self) <= i < len(self):
            raise IndexError(f"position {i} is out of range for {len(self)} pipelines")
        return self.pipeline(i % len(self))

    def __iter__(self) -> Iterator[Pipeline]:
        algorithms, params = self.space.decode(self.values, self.active, self.choice)
        orders = [None] * len(self) if self.order is None else self.order.tolist()
        ids = self.ids.tolist() if self.recorded else [None] * len(self)
        return map(Pipeline, algorithms, params, orders, ids)

    def __reduce__(self) -> tuple[Any, ...]:  # what a part was taken from stays behind
        ids = self._ids if self.recorded else None
        return Encoded, (self.space, self.values, self.active, self.choice, self.order, ids)

    def features(self, inactive: float = 0.0) -> Array:
        """One matrix for models that take plain vectors, (n, D + choices).

        The values with `inactive` in place of what is not active, then a one-hot choice for each stage that has more
        than one algorithm, then, where it is free, the place of each stage in the order. Kept after the first call, for
        a pool is asked for it at every suggestion; not to be written to.
        """
        key = f"features {inactive!r}"
        if key not in self._own:
            self._own[key] = self._features(inactive)
            self._own[key].flags.writeable = False
        features: Array = self._own[key]
        return features

    def _features(self, inactive: float) -> Array:
        blocks: list[Array] = [np.where(self.active, self.values, inactive)]
        for s, stage in enumerate(self.space.stages):
            if len(stage.algorithms) > 1:
                blocks.append((self.choice[:, s, None] == np.arange(len(stage.algorithms))).astype(np.float64))
        if self.order is not None:
            blocks.append(np.argsort(self.order, axis=1) / max(1, len(self.space.stages) - 1))
        return np.concatenate(blocks, axis=1)

    @staticmethod
    def concatenate(parts: Sequence[Encoded]) -> Encoded:
        """Pipelines of the same space one after another."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        for part in parts:
            if part.recorded != first.recorded or (part.space is not first.space and part.space != first.space):
                raise ValueError(f"only pipelines of one space go together, got {first.space!r} and {part.space!r}")
        orders = [p.order for p in parts]
        return Encoded(
            first.space,
            np.concatenate([p.values for p in parts]),
            np.concatenate([p.active for p in parts]),
            np.concatenate([p.choice for p in parts]),
            None if orders[0] is None else np.concatenate(orders),  # type: ignore[arg-type]
            np.concatenate([p.ids for p in parts]) if first.recorded else None,
        )

    def unique(self) -> Encoded:
        """Each pipeline once, at its first place."""
        _, first = np.unique(self.ids, return_index=True)
        return self if len(first) == len(self) else self.take(np.sort(first))

    def __repr__(self) -> str:
        shown = "\n".join(f"  {pipeline!r}" for pipeline in self[:5])
        more = f"\n  … {len(self) - 5} more" if len(self) > 5 else ""
        return f"Encoded of {len(self)} pipelines in space {self.space.name!r}" + (f":\n{shown}{more}" if shown else "")


def _content_hash(
    values: Array, choice: NDArray[np.integer[Any]], order: NDArray[np.integer[Any]] | None
) -> NDArray[np.int64]:
    """A 64-bit hash of each row, the same in every process: a sum of mixed words weighted by fixed odd numbers."""
    words = [np.ascontiguousarray(values + 0.0).view(np.uint64), choice.astype(np.uint64)]
    if order is not None:
        words.append(order.astype(np.uint64))
    table = np.concatenate(words, axis=1)
    weights = np.random.Generator(np.random.PCG64(20)).integers(0, 2**63, table.shape[1], dtype=np.uint64) * 2 + 1
    table = (table ^ (table >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    table = (table ^ (table >> np.uint64(29))) * weights
    mixed = (table ^ (table >> np.uint64(32))).sum(axis=1, dtype=np.uint64)
    hashes: NDArray[np.int64] = (mixed >> np.uint64(1)).astype(np.int64)
    return hashes
