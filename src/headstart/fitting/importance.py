"""Permutation importance: how much a model's score falls when a column tells nothing any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data.columns import Kind
from headstart.errors import InvalidInput, check_positive
from headstart.evaluation.scoring import Metric
from headstart.fitting.model import Model

BATCH_ROWS = 20_000
"""Most rows that are predicted at once where a small table is shuffled several times."""


def permutation_importance(
    model: Model,
    ready: Any,
    truth: NDArray[Any],
    metric: Metric,
    repeats: int = 5,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> pd.DataFrame:
    """Mean and standard deviation of the fall of the score, by column, largest first (Breiman, 2001).

    Columns that no pipeline looks at, such as ids, have the importance 0 without being shuffled.

    Parameters
    ----------
    ready
        A table in the form of `Dataset.X`.
    truth
        Class codes, or numbers.
    progress
        Is told how many columns are done, and of how many.
    """
    check_positive("repeats", repeats, whole=True)
    if model.schema.n_sparse is not None:
        raise InvalidInput("importance needs a table with columns, but this model was fitted to a sparse matrix")
    base = model.score(ready, truth, metric)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(ready)) for _ in range(repeats)]
    at_once = max(1, min(repeats, BATCH_ROWS // max(1, len(ready))))
    several = pd.concat([ready] * at_once, ignore_index=True) if at_once > 1 else ready
    rows = []
    for done, name in enumerate(ready.columns):
        if progress is not None:
            progress(done, ready.shape[1])
        if model.schema.columns[name].kind in (Kind.ID, Kind.CONSTANT):
            rows.append((name, 0.0, 0.0))
            continue
        falls: list[float] = []
        for first in range(0, repeats, at_once):
            some = orders[first : first + at_once]
            shuffled = several.iloc[: len(some) * len(ready)].copy(deep=False)
            shuffled[name] = ready[name].array[np.concatenate(some)]
            found = np.split(model.predict_ready(shuffled), len(some))
            falls += [base - model.score_of(part, truth, metric) for part in found]
        rows.append((name, float(np.mean(falls)), float(np.std(falls))))
    found_rows = pd.DataFrame(rows, columns=["feature", "importance", "std"])
    return found_rows.sort_values("importance", ascending=False, ignore_index=True, kind="stable")
