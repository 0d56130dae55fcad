"""Small tables, and a meta-dataset that has them, for contract tests and for trying a plug-in out."""

from __future__ import annotations

import numpy as np
import pandas as pd

from headstart.data import Dataset
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.tables import InMemory
from headstart.testing.examples import small_meta


def small_tables(n: int = 6, seed: int = 0) -> list[Dataset]:
    """Different tables: two, three or many classes or a number to predict, categories, missing values."""
    rng = np.random.default_rng(seed)
    shapes = (rng.standard_normal, rng.standard_exponential, rng.random)
    found = []
    for i in range(n):
        rows, columns = 50 + 10 * i, 2 + i % 3
        frame = pd.DataFrame(shapes[i % 3]((rows, columns)), columns=[f"c{c}" for c in range(columns)])
        score = frame.sum(axis=1).to_numpy() + 0.5 * rng.standard_normal(rows)
        frame["level"] = rng.choice(["a", "b", "c"], rows)
        frame.loc[:: 7 + i, "c0"] = np.nan
        if i % 4 == 3:
            found.append(Dataset.from_arrays(frame, score, task="regression", name=f"table {i}"))
        else:
            parts = np.searchsorted(np.quantile(score, np.linspace(0, 1, 3 + i % 2)[1:-1]), score)
            found.append(Dataset.from_arrays(frame, parts.astype(str), name=f"table {i}"))
    return found


def meta_with_tables() -> MetaDataset:
    """`small_meta` with a table for each task, in memory."""
    return small_meta().changed(tables=[InMemory(table) for table in small_tables()])
