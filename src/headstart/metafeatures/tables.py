"""Meta-features of the tasks of a meta-dataset, and of a table at hand."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headstart.errors import NeedsTable, suggestion
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.sources import cache_directory
from headstart.metafeatures.base import MetaFeatures
from headstart.registry import create, names, parsed

if TYPE_CHECKING:
    from headstart.data import Dataset

Array = NDArray[np.float64]


def with_metafeatures(
    meta: MetaDataset, wanted: Iterable[str] | Mapping[str, MetaFeatures], train: Sequence[int]
) -> tuple[MetaDataset, dict[str, MetaFeatures]]:
    """The meta-dataset with meta-features, and the extractors that made them; what it has already stays as it is.

    A task that lacks what an extractor reads, such as a table, has a row of NaN.

    Parameters
    ----------
    meta
        Some of its tasks have tables, or meta-features that others are made of.
    wanted
        Names of extractors; or extractors by the names that their vectors are to have. One that has learned before is
        used as it is.
    train
        Positions of the tasks that extractors may learn from.
    """
    given = dict(wanted) if isinstance(wanted, Mapping) else {}
    made: dict[str, MetaFeatures] = {}
    for name in sorted(wanted):
        if name in meta.metafeatures:
            continue
        extractor = given.get(name) or _registered(name, meta.metafeatures)
        meta, more = with_metafeatures(meta, extractor.needs.metafeatures, train)
        if extractor.needs.table and not any(meta.tables[task] is not None for task in train):
            raise NeedsTable(
                f"meta-features {name!r} are made of raw tables, and meta-dataset {meta.name!r} has none for its "
                "training tasks"
            )
        if extractor.meta_key is None:
            extractor = extractor.meta_fit(meta.select(train))
        vectors = [_of_task(extractor, meta, task) for task in range(len(meta))]
        width = next((len(vector) for vector in vectors if vector is not None), 0)
        matrix = np.array([np.full(width, np.nan) if vector is None else vector for vector in vectors])
        meta = meta.changed(metafeatures={**meta.metafeatures, name: matrix})
        made |= {**more, name: extractor}
    return meta, made


def _of_task(extractor: MetaFeatures, meta: MetaDataset, task: int) -> Array | None:
    needs = extractor.needs
    dataset = meta.dataset(task) if needs.table else None
    vectors = {name: np.asarray(meta.metafeatures[name][task]) for name in needs.metafeatures}
    if (needs.table and dataset is None) or not all(np.isfinite(vector).any() for vector in vectors.values()):
        return None
    return extractor.transform(dataset, vectors)


def _registered(name: str, known: Iterable[str] = ()) -> MetaFeatures:
    if parsed(name)[0] not in names("metafeatures"):
        raise NeedsTable(
            f"no meta-features {name!r} are recorded, and no extractor of that name can make them; "
            f"{suggestion(name, [*known, *names('metafeatures')])}"
        )
    extractor: MetaFeatures = create("metafeatures", name)
    return extractor


def table_metafeatures(
    dataset: Dataset, wanted: Iterable[str], extractors: Mapping[str, MetaFeatures]
) -> dict[str, Array]:
    """Meta-features of a table by name; computed once, then read from the user's cache directory.

    Parameters
    ----------
    dataset
        The table.
    wanted
        Names of the meta-features.
    extractors
        By name, those that have learned. Others are made by their registered names, if there is nothing to learn.
    """
    found: dict[str, Array] = {}
    for name in sorted(wanted):
        extractor = extractors[name] if name in extractors else _registered(name)
        if extractor.learns and extractor.meta_key is None:
            raise NeedsTable(
                f"meta-features {name!r} of the table are needed, and their extractor has to learn from other tables: "
                "give knowledge that 'headstart metatrain' wrote with --data DIR, which keeps the extractor too"
            )
        found |= table_metafeatures(dataset, extractor.needs.metafeatures, extractors)
        found[name] = _cached(extractor, dataset, found)
    return found


def _cached(extractor: MetaFeatures, dataset: Dataset, known: Mapping[str, Array]) -> Array:
    read = {name: np.asarray(known[name]).tolist() for name in sorted(extractor.needs.metafeatures)}
    key = hashlib.sha256(json.dumps([dataset.key, extractor.describe(), read], sort_keys=True).encode()).hexdigest()
    file = cache_directory() / "metafeatures" / f"{key[:32]}.npy"
    try:
        return np.asarray(np.load(file, allow_pickle=False), dtype=np.float64)
    except (OSError, ValueError, EOFError):  # not there, or damaged
        vector = extractor.transform(dataset, known)
    temporary = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as stream:
            np.save(stream, vector)
        os.replace(temporary, file)
    except OSError:  # a cache that cannot be written is no reason to fail
        with contextlib.suppress(OSError):
            temporary.unlink()
    return vector
