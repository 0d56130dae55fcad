"""`meta_from_store`: what stores hold, as a meta-dataset."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, warn_user
from headstart.metadata.metadataset import NOT_TRIED, STATUSES, MetaDataset
from headstart.space.encoded import Encoded
from headstart.space.space import PipelineSpace
from headstart.store import Store
from headstart.trials import Outcome, Trial


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
    unique = everything.unique()
    column = {int(content): i for i, content in enumerate(unique.ids)}
    shape = (len(results), len(unique))
    losses, seconds = np.full(shape, np.nan), np.full(shape, np.nan)
    statuses = np.full(shape, NOT_TRIED, dtype=np.uint8)
    outcomes = [(t, trial.outcome) for t, trials in enumerate(results.values()) for trial in trials]
    measured = sorted({name for _, outcome in outcomes if outcome.ok for name in outcome.constraints})
    constraints = {name: np.full(shape, np.nan) for name in measured}
    cells: dict[tuple[int, int], list[Outcome]] = defaultdict(list)
    for content, (t, outcome) in zip(everything.ids, outcomes, strict=True):
        cells[t, column[int(content)]].append(outcome)
    for cell, found in cells.items():
        ended_well = [outcome for outcome in found if outcome.ok]
        if ended_well:
            losses[cell] = np.mean([outcome.loss for outcome in ended_well])
        for name in measured:
            values = [outcome.constraints[name] for outcome in ended_well if name in outcome.constraints]
            constraints[name][cell] = np.mean(values) if values else np.nan
        # Seconds of failures say little about one that ended well.
        seconds[cell] = np.mean([outcome.seconds for outcome in ended_well or found])
        statuses[cell] = STATUSES.index((ended_well or found)[-1].status)
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
