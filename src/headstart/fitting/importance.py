"""Permutation importance: how much a model's score falls when a column tells nothing any more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.errors import InvalidInput, check_positive
from headstart.evaluation.scoring import Metric
from headstart.fitting.model import Model


def permutation_importance(
    model: Model, ready: Any, truth: NDArray[Any], metric: Metric, repeats: int = 5, seed: int = 0
) -> pd.DataFrame:
    """Mean and standard deviation of the fall of the score, by column, largest first (Breiman, 2001).

    Parameters
    ----------
    ready
        A table in the form of `Dataset.X`.
    truth
        Class codes, or numbers.
    """
    check_positive("repeats", repeats, whole=True)
    if model.schema.n_sparse is not None:
        raise InvalidInput("importance needs a table with columns, this model was fitted to a sparse matrix")
    base = model.score(ready, truth, metric)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(ready)) for _ in range(repeats)]
    rows = []
    for name in ready.columns:
        falls = []
        for order in orders:
            shuffled = ready.copy(deep=False)
            shuffled[name] = ready[name].array[order]
            falls.append(base - model.score(shuffled, truth, metric))
        rows.append((name, float(np.mean(falls)), float(np.std(falls))))
    found = pd.DataFrame(rows, columns=["feature", "importance", "std"])
    return found.sort_values("importance", ascending=False, ignore_index=True, kind="stable")
