"""What a folder of the user's adds to a meta-dataset: meta-features and raw tables by OpenML id.

================================  =====================================================================================
``meta/pmf_metafeatures.csv``     a row per dataset, its OpenML id first; becomes ``metafeatures["handcrafted"]``
``pmf_tables/<id>.csv.gz``        raw tables, the target in ``__target__``; `MetaDataset.tables` then reads them
================================  =====================================================================================

What is missing stays missing: NaN, and a row of NaN for a task whose dataset has no row. ``about["metafeatures"]`` says
for how many tasks they are known.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.tables import TableFile

FEATURES = "meta/pmf_metafeatures.csv"
TABLES = "pmf_tables"


def with_extras(meta: MetaDataset, data: Path) -> MetaDataset:
    """The meta-dataset with what the folder has for its tasks."""
    if not data.is_dir():
        raise InvalidInput(f"data must be a folder with {FEATURES} or {TABLES}/, and {data} is none")
    if "openml" not in meta.about.get("ids", "").lower():
        return meta
    about, vectors = dict(meta.about), dict(meta.metafeatures)
    if (data / FEATURES).is_file():
        rows = _read(data / FEATURES)
        known = sum(i in rows for i in meta.ids)
        if known:
            missing = np.full(len(next(iter(rows.values()))), np.nan)
            vectors["handcrafted"] = np.array([rows.get(i, missing) for i in meta.ids])
            about["metafeatures"] = f"handcrafted: known for {known} of {len(meta)} tasks"
    files = [TableFile(data / TABLES / f"{i}.csv.gz", "__target__", "classification") for i in meta.ids]
    tables = [file if file.path.is_file() else before for file, before in zip(files, meta.tables, strict=True)]
    found = sum(table is not None for table in tables)
    if found:
        about["tables"] = f"known for {found} of {len(meta)} tasks"
    return meta.changed(metafeatures=vectors, tables=tables, about=about)


def _read(file: Path) -> dict[str, NDArray[np.float64]]:
    try:
        table = np.genfromtxt(file, delimiter=",", skip_header=1, dtype=np.float64, ndmin=2)
        return {str(int(row[0])): row[1:] for row in table}
    except ValueError as error:
        raise InvalidInput(f"{file} must be numbers, with an OpenML id in the first column: {error}") from error
