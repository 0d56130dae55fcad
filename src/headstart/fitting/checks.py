"""What scikit-learn's conventions ask of tables and targets that are given to an estimator."""

from __future__ import annotations

from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import column_or_1d

from headstart.data.errors import TableError


def check_features(X: Any) -> Any:
    """The table as it is, unless it is an array that cannot be one; lists and array-likes become arrays."""
    if isinstance(X, str | PathLike | pd.DataFrame):
        return X
    if sparse.issparse(X):
        if X.dtype.kind == "c":
            raise TableError("Complex data not supported: the table must contain real numbers")
        return X
    if type(X).__module__.partition(".")[0] == "polars":
        return X
    array = np.asarray(X) if not hasattr(X, "iloc") else X
    if isinstance(array, np.ndarray):
        if array.dtype.kind == "c":
            raise TableError("Complex data not supported: the table must contain real numbers")
        if array.ndim != 2:
            raise TableError(
                f"Expected 2D array, got {array.ndim}D array instead. Reshape your data with X.reshape(-1, 1) if it "
                f"has one column, or with X.reshape(1, -1) if it has one row"
            )
        if array.shape[1] == 0:
            raise TableError(
                f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is required: the table "
                "must have a column"
            )
        if array.shape[0] == 0:
            raise TableError(f"Found array with 0 sample(s) (shape={array.shape}): the table must have rows")
    return array


def check_pair(X: Any, y: Any, kind: str) -> tuple[Any, Any]:
    """Features and target as a `Dataset` takes them; raises for what cannot be a table and its target."""
    if y is None:
        raise TableError(
            "fit requires y to be passed, but the target y is None: give y, or the column's name as target=..."
        )
    X = check_features(X)
    y = column_or_1d(y, warn=True)
    if kind == "regression":
        if y.dtype.kind == "c":
            raise TableError("Complex data not supported: the target must contain real numbers")
    elif y.dtype.kind == "f" and np.isfinite(y).all() and type_of_target(y) == "continuous":
        check_classification_targets(y)
    rows = X.shape[0] if hasattr(X, "shape") else None
    if rows == 1:
        raise TableError("the table must have at least 4 rows, found one sample (n_samples = 1)")
    if rows is not None and rows != len(y):
        raise TableError(f"X and y must have the same number of rows: X has {rows}, y has {len(y)}")
    return X, y
