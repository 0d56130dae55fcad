"""Encodings of categories that scikit-learn does not have in this form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, TransformerMixin


@dataclass(eq=False, repr=False)
class TargetEncoder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Mean of the target for each category; training rows get the mean over the other folds.

    Missing is a category of its own, and unseen ones get the overall mean. The encoder of scikit-learn cannot be used
    here: it refuses classes with fewer rows than folds, and how its folds are drawn changes between versions.

    Parameters
    ----------
    task
        ``"classification"`` (a column per class if there are more than two) or ``"regression"``.
    smooth
        Weight of the overall mean, in rows.
    cv
        Number of folds.
    """

    task: str = "classification"
    smooth: float = 10.0
    cv: int = 5
    random_state: Any = None

    def _target(self, y: Any) -> Any:
        """Numbers whose means are the codes; (n, 1), or (n, k) for k > 2 classes."""
        if self.task == "regression":
            return np.asarray(y, dtype=np.float64)[:, None]
        classes, codes = np.unique(np.asarray(y), return_inverse=True)
        if len(classes) <= 2:
            return codes[:, None].astype(np.float64)
        return (codes[:, None] == np.arange(len(classes))).astype(np.float64)

    def _means(self, codes: Any, count: int, target: Any) -> Any:
        """Smoothed mean of each category; (count + 1, k), the last row for unseen ones."""
        overall = target.mean(axis=0)
        sums = np.zeros((count + 1, target.shape[1]))
        np.add.at(sums, codes, target)
        rows = np.bincount(codes, minlength=count + 1)[:, None]
        return (sums + self.smooth * overall) / np.maximum(rows + self.smooth, 1e-9)

    def fit(self, X: Any, y: Any) -> Self:
        self.fit_transform(X, y)
        return self

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Learn the means and encode the training rows, each with the means over the other folds."""
        table, target = pd.DataFrame(X), self._target(y)
        self.n_features_in_ = table.shape[1]
        self.known_ = [column.dropna().unique().tolist() for _, column in table.items()]
        all_codes = self._codes(table)
        self.means_ = [self._means(c, len(k) + 1, target) for c, k in zip(all_codes, self.known_, strict=True)]
        fold = np.random.default_rng(self.random_state).permutation(np.arange(len(target)) % self.cv)
        encoded = np.empty((len(target), len(all_codes) * target.shape[1]))
        for f in range(self.cv):
            here, rest = fold == f, fold != f
            if here.any():
                learn = rest if rest.any() else here
                parts = [
                    self._means(c[learn], len(k) + 1, target[learn])[c[here]]
                    for c, k in zip(all_codes, self.known_, strict=True)
                ]
                encoded[here] = np.hstack(parts)
        return encoded

    def transform(self, X: Any) -> Any:
        codes = self._codes(pd.DataFrame(X))
        return np.hstack([means[c] for means, c in zip(self.means_, codes, strict=True)])

    def _codes(self, table: Any) -> list[Any]:
        """Position of each value among the known ones, then one for missing, then one for unseen."""
        found = []
        for (_, column), known in zip(table.items(), self.known_, strict=True):
            codes = pd.Index(known, dtype=object).get_indexer(column.astype(object))
            codes = np.where(column.isna(), len(known), np.where(codes < 0, len(known) + 1, codes))
            found.append(codes)
        return found
