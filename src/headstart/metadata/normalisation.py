"""Losses of different tasks on one scale.

=============  ============  ==============================================================================
name           in [0, 1]     equation, over the pipelines observed on the task
=============  ============  ==============================================================================
``"rank"``     yes           (r - 1) / (n - 1), r the rank among n, ties averaged
``"regret"``   yes           (y - min y) / (max y - min y)
``"none"``     –             y itself
=============  ============  ==============================================================================

A task on which all pipelines are equal says nothing: its ranks are all ½ and its regrets all 0.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from headstart.errors import UnknownName, suggestion
from headstart.metadata.metadataset import MetaDataset

Normalisation = Literal["rank", "regret", "none"]
Single = NDArray[np.float32]


def check_normalisation(name: str) -> None:
    """Raise `UnknownName` unless there is a normalisation of that name."""
    if name not in get_args(Normalisation):
        raise UnknownName(f"no normalisation of losses is named {name!r}; {suggestion(name, get_args(Normalisation))}")


def normalised_row(losses: NDArray[np.floating[Any]], how: Normalisation) -> Single:
    """Losses (P,) of one task, normalised; NaN stays NaN. Single precision, which is what recorded losses have."""
    row = np.array(losses, dtype=np.float64)
    seen = np.flatnonzero(np.isfinite(row))
    if how == "none" or not len(seen):
        return row.astype(np.float32)
    observed = row[seen]
    if how == "rank":
        row[seen] = (rankdata(observed) - 1) / (len(seen) - 1) if len(seen) > 1 else 0.5
    else:
        low, high = observed.min(), observed.max()
        row[seen] = (observed - low) / (high - low) if high > low else 0.0
    return row.astype(np.float32)


def normalised_losses(meta: MetaDataset, how: Normalisation) -> Single:
    """(T, P) losses of a meta-dataset, each task on its own; NaN where nothing was observed."""
    check_normalisation(how)
    result = np.empty((len(meta), len(meta.pipelines)), dtype=np.float32)
    for task in range(len(meta)):
        result[task] = normalised_row(meta.loss_row(task), how)
    return result


def mean_ranks(meta: MetaDataset, prior_tasks: float) -> NDArray[np.float64]:
    """(P,) mean of the normalised ranks over tasks, drawn to the middle where a pipeline was observed on few of them.

    (Σ r_t + c/2) / (n + c) over the n tasks on which a pipeline was observed, c being `prior_tasks`.
    """
    total = np.zeros(len(meta.pipelines))
    count = np.zeros(len(meta.pipelines))
    for task in range(len(meta)):
        ranks = normalised_row(meta.loss_row(task), "rank").astype(np.float64)
        seen = np.isfinite(ranks)
        total[seen] += ranks[seen]
        count += seen
    return (total + 0.5 * prior_tasks) / (count + prior_tasks)
