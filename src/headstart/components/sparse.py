"""`Densify`: from a sparse matrix to one that every algorithm takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD


@dataclass(eq=False, repr=False)
class Densify(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A dense matrix: the same one if it has few columns, else its leading singular components.

    Parameters
    ----------
    max_columns
        Up to so many columns are kept as they are; more are reduced.
    n_components
        To how many they are reduced.
    random_state
        Of the reduction.
    """

    max_columns: int = 500
    n_components: int = 100
    random_state: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        self.n_features_in_ = X.shape[1]
        self.reduction_ = None
        if X.shape[1] > self.max_columns:
            self.reduction_ = TruncatedSVD(self.n_components, random_state=self.random_state).fit(X)
        return self

    def transform(self, X: Any) -> np.ndarray:
        if self.reduction_ is not None:
            return np.asarray(self.reduction_.transform(X))
        return X.toarray() if sparse.issparse(X) else np.asarray(X)
