"""`meta_from_store`: what stores hold, as a meta-dataset."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, warn_user
from headstart.metadata.metadataset import NOT_TRIED, STATUSES, MetaDataset
from headstart.space.encoded import Encoded
from headstart.space.space import PipelineSpace
from headstart.store import Store
from headstart.trials import Outcome, Status, Trial


@dataclass
class _Cell:
    """All results of one pipeline on one task."""

    losses: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    constraints: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    status: Status | None = None

    def add(self, outcome: Outcome) -> None:
        if outcome.ok and self.status is not Status.OK:
            self.seconds.clear()  # those of failures say little about one that ended well
        if outcome.ok and outcome.loss is not None:
            self.losses.append(outcome.loss)
            for name, value in outcome.constraints.items():
                self.constraints[name].append(value)
        if outcome.ok or self.status is not Status.OK:
            self.seconds.append(outcome.seconds)
            self.status = outcome.status


def meta_from_store(
    *stores: Store, space: PipelineSpace | str | None = None, metric: str | None = None, name: str = "store"
) -> MetaDataset:
    """All that was evaluated over one space: tasks × pipelines.

    Pipelines are those of all studies, each once, in the order in which they were first tried; their ids are their
    positions. Only results at full fidelity count. Where a pipeline has several on one task (other studies, other
    seeds, other stores), loss, seconds and values of constraints are means over those that ended well; one that only
    failed has the status of its last result, and no loss. Tasks keep the order of the stores, and are named by their
    keys.

    Parameters
    ----------
    stores
        One or more. A task that several have is one task.
    space
        The space, its name or its key; not needed where all studies are over one.
    metric
        Take only the tasks of this metric. By default all, each with losses of its own metric.
    name
        Of the meta-dataset.

    Raises
    ------
    InvalidInput
        There are no such results, or they are over several spaces and none was named.
    """
    infos: dict[str, Mapping[str, Any]] = {}
    studies: dict[str, list[tuple[Store, str]]] = defaultdict(list)
    for store in stores:
        for task in store.tasks():
            infos.setdefault(task.key, task.info)
        for summary in store.studies():
            if summary.n_trials and (metric is None or infos[summary.task_key].get("metric") == metric):
                studies[summary.task_key].append((store, summary.name))
    tasks_by_space: dict[str, list[str]] = defaultdict(list)
    spaces: dict[str, PipelineSpace] = {}
    for key in infos:
        if key in studies:
            its_space = PipelineSpace.from_dict(infos[key]["space"])
            spaces[its_space.key] = its_space
            tasks_by_space[its_space.key].append(key)
    places = ", ".join(store.location for store in stores)
    of_metric = "" if metric is None else f" with the metric {metric!r}"
    if not spaces:
        raise InvalidInput(f"there are no finished trials{of_metric} in {places}")
    chosen = _chosen(spaces, tasks_by_space, space, places)
    results: dict[str, list[Trial]] = defaultdict(list)
    for key in tasks_by_space[chosen.key]:
        for trial in (trial for store, name in studies[key] for trial in store.read_study(name).trials()):
            if trial.outcome.fidelity.is_full:
                results[key].append(trial)
    if not results:
        raise InvalidInput(f"there are no trials at full fidelity{of_metric} in {places}")
    return _assembled(chosen, results, infos, name, places)


def _chosen(
    spaces: Mapping[str, PipelineSpace],
    tasks: Mapping[str, list[str]],
    wanted: PipelineSpace | str | None,
    places: str,
) -> PipelineSpace:
    if wanted is None:
        found = list(spaces)
    elif isinstance(wanted, PipelineSpace):
        found = [key for key in spaces if key == wanted.key]
    else:
        found = [key for key, space in spaces.items() if wanted in (key, space.name)]
    if len(found) == 1:
        return spaces[found[0]]
    listed = ", ".join(f"{spaces[key].name!r} with key {key} ({len(tasks[key])} tasks)" for key in spaces)
    problem = (
        "there are studies over several spaces, name one" if len(found) > 1 else "there are no studies over that space"
    )
    raise InvalidInput(f"{problem}: {listed}, in {places}")


def _assembled(
    space: PipelineSpace,
    results: Mapping[str, list[Trial]],
    infos: Mapping[str, Mapping[str, Any]],
    name: str,
    places: str,
) -> MetaDataset:
    everything = space.encode([trial.pipeline for trials in results.values() for trial in trials])
    hashes = everything.ids
    unique = everything.unique()
    column = {int(content): i for i, content in enumerate(unique.ids)}
    shape = (len(results), len(unique))
    losses, seconds = np.full(shape, np.nan), np.full(shape, np.nan)
    statuses = np.full(shape, NOT_TRIED, dtype=np.uint8)
    ok = [trial.outcome for trials in results.values() for trial in trials if trial.outcome.ok]
    measured = sorted({name for outcome in ok for name in outcome.constraints})
    constraints = {name: np.full(shape, np.nan) for name in measured}
    start = 0
    for t, trials in enumerate(results.values()):
        cells: dict[int, _Cell] = defaultdict(_Cell)
        for content, trial in zip(hashes[start : start + len(trials)], trials, strict=True):
            cells[column[int(content)]].add(trial.outcome)
        start += len(trials)
        for p, cell in cells.items():
            if cell.losses:
                losses[t, p] = np.mean(cell.losses)
            for name, values in cell.constraints.items():
                constraints[name][t, p] = np.mean(values)
            seconds[t, p] = np.mean(cell.seconds)
            statuses[t, p] = STATUSES.index(cell.status)
    pipelines = Encoded(
        space, unique.values, unique.active, unique.choice, unique.order, ids=np.arange(len(unique), dtype=np.int64)
    )
    metrics = Counter(str(infos[key].get("metric")) for key in results)
    told = ", ".join(f"{metric} ({n} task{'s' * (n > 1)})" for metric, n in sorted(metrics.items()))
    if len(metrics) > 1:
        warn_user(f"losses are of different metrics, {told}; methods learn most of one: name it with metric (--metric)")
    return MetaDataset(
        pipelines,
        losses,
        list(results),
        _metafeatures([infos[key] for key in results]),
        seconds=seconds,
        constraints=constraints,
        statuses=statuses,
        name=name,
        about={
            "title": "Own evaluations",
            "source": f"store {places}",
            "loss": f"of the metric {told}",
            "pipelines": f"points of the space {space.name}",
        },
    )


def _metafeatures(infos: list[Mapping[str, Any]]) -> dict[str, NDArray[np.float64]]:
    """Vectors of the extractors that every task has, with one length."""
    vectors: list[Mapping[str, Any]] = [info.get("metafeatures", {}) for info in infos]
    shared = {name for name in vectors[0] if all(len(v.get(name, ())) == len(vectors[0][name]) for v in vectors)}
    return {name: np.array([v[name] for v in vectors], dtype=np.float64) for name in sorted(shared)}
