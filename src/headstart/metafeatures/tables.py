"""Meta-features of the tasks of a meta-dataset, from their raw tables."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.data import Dataset
from headstart.errors import HeadstartError, NeedsTable
from headstart.metadata.metadataset import MetaDataset
from headstart.registry import create

logger = logging.getLogger(__name__)

TARGET = "target_column"
"""Under this name a meta-dataset's `about` says which column of its tables is the target."""


def with_metafeatures(meta: MetaDataset, name: str, train: Sequence[int]) -> MetaDataset:
    """The meta-dataset with the meta-features of an extractor, NaN for tasks whose table is not known.

    Parameters
    ----------
    meta
        Some of its tasks have tables.
    name
        Of the extractor.
    train
        Positions of the tasks that the extractor may learn from.
    """
    if not any(meta.tables[task] is not None for task in train):
        raise NeedsTable(
            f"meta-features {name!r} are computed from raw tables, and meta-dataset {meta.name!r} has none for its "
            "training tasks"
        )
    extractor = create("metafeatures", name)
    datasets = {task: _read(meta, task) for task, path in enumerate(meta.tables) if path is not None}
    known = {task: dataset for task, dataset in datasets.items() if dataset is not None}
    extractor.meta_fit([known[task] for task in train if task in known])
    vectors: dict[int, NDArray[np.float64]] = {task: extractor.transform(dataset) for task, dataset in known.items()}
    width = len(next(iter(vectors.values())))
    missing = np.full(width, np.nan)
    matrix = np.array([vectors.get(task, missing) for task in range(len(meta))])
    return meta.changed(metafeatures={**meta.metafeatures, name: matrix})


def _read(meta: MetaDataset, task: int) -> Any | None:
    path = meta.tables[task]
    assert path is not None
    try:
        return Dataset.from_table(path, meta.about.get(TARGET, "target"), task="classification", name=meta.tasks[task])
    except HeadstartError as error:
        logger.warning("the table of task %r is left out: %s", meta.tasks[task], error)
        return None
