"""`Variant`: another matrix to learn from or other pipelines to begin with, on the same tasks."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headstart.errors import InvalidInput, NeedsTable
from headstart.evaluation.recorded import recorded_task
from headstart.metadata.metadataset import MetaDataset
from headstart.metafeatures.tables import with_metafeatures
from headstart.optimizers.base import Optimizer
from headstart.optimizers.warm_start import N_INITIAL, with_warm_start
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method

Designs = dict[int, tuple[int, ...]]
"""Ids of initial pipelines by task."""


def _all_of_it(meta: MetaDataset, partition: Partition) -> MetaDataset:
    return partition.learning(meta)


def _common(meta: MetaDataset, partition: Partition) -> Designs:
    return partition.initial_designs(meta)


@dataclass(frozen=True)
class Variant:
    """What methods learn from instead of all training tasks, or begin with instead of the common pipelines.

    Parameters
    ----------
    name
        Is put behind the names of methods: ``gp-sparse(ard=False)``.
    learning
        Makes what is learned from, of the meta-dataset and the partition.
    made_ready
        Makes a method that learned from it ready for tasks of the meta-dataset, where it is not yet.
    initial_designs
        Finds what is begun with; tasks that it leaves out are not replayed.
    """

    name: str
    learning: Callable[[MetaDataset, Partition], MetaDataset] = _all_of_it
    made_ready: Callable[[Optimizer, MetaDataset], Optimizer] | None = None
    initial_designs: Callable[[MetaDataset, Partition], Designs] = _common

    def called(self, method: Method) -> Method:
        """The same method under its name in results."""
        return replace(method, text=method.text.replace(method.written, f"{method.written}-{self.name}", 1))

    def facts(self, meta: MetaDataset, partition: Partition) -> dict[str, Any]:
        """What was learned from, and what it was made of."""
        before, after = partition.learning(meta), self.learning(meta, partition)
        return {"variant": self.name, **_counts(after), "of": _counts(before)}


def _counts(learning: MetaDataset) -> dict[str, Any]:
    parts = [learning] if learning.validation is None else [learning, learning.validation]
    rows = [part.loss_row(task) for part in parts for task in range(len(part))]
    return {
        "tasks": len(learning),
        "validation": 0 if learning.validation is None else len(learning.validation),
        "missing": round(float(np.mean([np.isnan(row).mean() for row in rows])), 4),
    }


def sparse(share: float, seed: int = 0) -> Variant:
    """A variant with this share of all cells missing, in the training and in the validation tasks.

    Known cells are dropped evenly at random, as many as it takes; the seed decides which.
    """
    if not 0 <= share < 1:
        raise InvalidInput(f"the share of missing cells must be at least 0 and less than 1, got {share!r}")

    def learning(meta: MetaDataset, partition: Partition) -> MetaDataset:
        found = partition.learning(meta)
        rng = np.random.default_rng(seed)
        parts = [found] if found.validation is None else [found, found.validation]
        cells = sum(part.losses.size for part in parts)
        known = sum(int(np.isfinite(part.losses).sum()) for part in parts)
        kept = round((1 - share) * cells)
        if kept > known:
            raise InvalidInput(
                f"{1 - known / cells:.1%} of the cells are missing already: the share must be larger, got {share!r}"
            )
        left = np.zeros(known, dtype=bool)
        left[rng.choice(known, kept, replace=False)] = True
        thinned, begin = [], 0
        for part in parts:
            losses = part.losses.copy()
            places = np.flatnonzero(np.isfinite(losses))
            losses.flat[places[~left[begin : begin + len(places)]]] = np.nan
            begin += len(places)
            thinned.append(part.changed(losses=losses, seconds=None, statuses=None))
        thinned[0].validation = thinned[1] if len(thinned) > 1 else None
        return thinned[0]

    return Variant("sparse", learning)


def share(part: float) -> Variant:
    """A variant with a share of the tasks: of the training and of the validation tasks, at least one of each.

    Tasks are drawn evenly at random; those of a smaller share are among those of a larger one.
    """
    if not 0 < part <= 1:
        raise InvalidInput(f"the share of tasks must be above 0 and at most 1, got {part!r}")

    def learning(meta: MetaDataset, partition: Partition) -> MetaDataset:
        rng = np.random.default_rng(0)
        kept = []
        for tasks in (partition.train, partition.validation):
            order = rng.permutation(np.asarray(tasks, dtype=np.int64))
            kept.append(np.sort(order[: max(1, round(part * len(order)))]).tolist())
        return meta.learning(*kept)

    return Variant(f"share{part:g}", learning)


def only(ids: Collection[str]) -> Variant:
    """A variant with these tasks alone, of the training and the validation tasks.

    None is set apart for validation: the others are not to be known, so methods hold out some of these.
    """

    def learning(meta: MetaDataset, partition: Partition) -> MetaDataset:
        known = sorted(task for task in (*partition.train, *partition.validation) if meta.ids[task] in ids)
        if not known:
            raise InvalidInput(f"none of the {len(ids)} tasks is among the training tasks of {meta.name!r}")
        return meta.learning(known)

    return Variant("few", learning)


Learn = Callable[[Method, MetaDataset, Partition], Optimizer]
"""Makes a method that has learned from the training tasks of a partition."""


def _learn(method: Method, meta: MetaDataset, partition: Partition) -> Optimizer:
    optimizer = method.make()
    meta, _ = with_metafeatures(meta, optimizer.needs.metafeatures, partition.train)
    return optimizer.meta_fit(partition.learning(meta))


def warm_started(method: str, n_initial: int = N_INITIAL, name: str | None = None, learn: Learn = _learn) -> Variant:
    """A variant in which all methods begin with the first pipelines that another one would try on the task.

    That one learns from the training tasks. Its choice is the same for all runs on a task. Tasks without the
    meta-features that it needs are left out.

    Parameters
    ----------
    method
        An optimizer by its name and settings, such as ``"nearest(metafeatures=mf1)"``.
    n_initial
        How many pipelines.
    name
        Of the variant; by default the method.
    learn
        Has it learn, where that is not to happen anew.
    """
    called = Method.parse(method)
    called.make()  # a wrong name is told now

    def initial_designs(meta: MetaDataset, partition: Partition) -> Designs:
        optimizer = learn(called, meta, partition)
        meta, _ = with_metafeatures(meta, optimizer.needs.metafeatures, partition.train)
        designs: Designs = {}
        missing = NeedsTable("there are no test tasks")
        for task in partition.test:
            described = recorded_task(meta, task, (), table=optimizer.needs.table)
            try:
                begin = with_warm_start(described, optimizer, n_initial, seed=task).initial
            except NeedsTable as error:
                missing = error
            else:
                designs[task] = tuple(int(pipeline.id or 0) for pipeline in begin)
        if not designs:
            raise NeedsTable(f"no task can begin with {method}: {missing}")
        return designs

    return Variant(method if name is None else name, initial_designs=initial_designs)
