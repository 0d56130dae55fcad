"""What boosters of all libraries share; see `headstart.components.boosting`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from headstart.components._shared import Adapted, MostProbable, row_weights


@dataclass(eq=False, repr=False, kw_only=True)
class Booster(Adapted, ABC):
    """What all boosters share: tables become matrices of codes, labels become 0, 1, …, one thread.

    Parameters
    ----------
    n_estimators
        Rounds, at most these with a validation set.
    early_stopping_rounds
        Rounds without a better validation loss before it stops.
    class_weight
        ``"balanced"`` or ``None``; has no meaning for a regressor.
    """

    n_estimators: int = 1000
    early_stopping_rounds: int = 50
    class_weight: Any = None
    random_state: Any = None

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None, max_seconds: float | None = None
    ) -> Self:
        """Fit; with `eval_set` stop when its loss has not fallen for `early_stopping_rounds` rounds.

        `max_seconds` ends the rounds in time, after one at least; scikit-learn's booster does not know it.
        """
        until = np.inf if max_seconds is None else time.monotonic() + max_seconds
        self.n_features_in_ = X.shape[1]
        self.categories_ = self._learn_categories(X)
        matrix = self._matrix(X)
        target, weight = self._learn_target(np.asarray(y), sample_weight)
        self.best_iteration_ = int(self.n_estimators)
        self.model_: Any = None
        self.constant_ = self._prior(target, weight)
        if len(np.unique(target)) > 1 and _varies(matrix):  # libraries differ in what they do otherwise
            self.model_ = self._train(matrix, target, weight, self._validation(eval_set), until)
        return self

    def _learn_categories(self, X: Any) -> dict[int, list[Any]]:
        if not isinstance(X, pd.DataFrame):
            return {}
        return {
            i: c.cat.categories.tolist()
            for i, (_, c) in enumerate(X.items())
            if isinstance(c.dtype, pd.CategoricalDtype)
        }

    def _matrix(self, X: Any) -> Any:
        """Numbers, and codes of categories with NaN where missing or unknown; (n, d) floats."""
        if issparse(X):
            return X.toarray()
        if not isinstance(X, pd.DataFrame) or not self.categories_:
            return np.asarray(X, dtype=np.float64)
        matrix = np.empty(X.shape)
        numbers = [i for i in range(X.shape[1]) if i not in self.categories_]
        matrix[:, numbers] = X.iloc[:, numbers].to_numpy(dtype=np.float64, na_value=np.nan)
        for i, known in self.categories_.items():
            here = X.iloc[:, i].astype("category").array
            codes = np.asarray(here.codes, dtype=np.float64)
            if here.categories.tolist() != known:
                order = pd.Index(known, dtype=object).get_indexer(here.categories.astype(object))
                codes = np.append(order, -1)[here.codes]  # code -1 is missing
            matrix[:, i] = np.where(codes < 0, np.nan, codes)
        return matrix

    def _validation(self, eval_set: Any) -> tuple[Any, Any, Any] | None:
        if eval_set is None:
            return None
        X, y, *rest = eval_set
        weight = None if not rest or rest[0] is None else np.asarray(rest[0], dtype=np.float64)
        target, known = self._codes(np.asarray(y))
        if not known.any():
            return None
        return self._matrix(X)[known], target[known], None if weight is None else weight[known]

    def _of_library(self) -> dict[str, Any]:
        """The parameters that a library knows by the same name."""
        return self._settings("n_estimators", "early_stopping_rounds", "class_weight", "random_state")

    @abstractmethod
    def _learn_target(self, y: Any, sample_weight: Any) -> tuple[Any, Any]: ...

    @abstractmethod
    def _codes(self, y: Any) -> tuple[Any, Any]: ...

    @abstractmethod
    def _prior(self, target: Any, weight: Any) -> Any: ...

    @abstractmethod
    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, until: float) -> Any: ...

    @abstractmethod
    def _raw(self, X: Any) -> Any:
        """Regression: predictions (n,). Two classes: of the second one (n,), or of both (n, 2). More: (n, k)."""

    @property
    def _n_classes(self) -> int:
        return 0

    def _packed(self) -> Any:
        """The fitted model as bytes, in its library's own format, or as plain scikit-learn."""
        return self.model_

    def _unpacked(self, packed: Any) -> Any:
        """Inverse of `_packed`."""
        return packed

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        packed = state.pop("packed_", None)
        if packed is not None:
            state["model_"] = packed
        elif state.get("model_") is not None:
            state["model_"] = self._packed()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        packed = state.get("model_")
        if not isinstance(packed, bytes):
            super().__setstate__(state)
            if packed is not None:
                self.model_ = self._unpacked(packed)
            return
        super().__setstate__({name: value for name, value in state.items() if name != "model_"})
        self.packed_ = packed  # its library sees it when it is first used

    def __getattr__(self, name: str) -> Any:
        if name == "model_" and "packed_" in self.__dict__:
            self.model_ = self._unpacked(self.packed_)
            del self.packed_
            return self.model_
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class BoostedClassifier(MostProbable):
    """The part of a booster that is about labels."""

    def _learn_target(self, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        self.classes_, target = np.unique(y, return_inverse=True)
        return target, row_weights(self.class_weight, y, sample_weight)

    def _codes(self, y: Any) -> tuple[Any, Any]:
        """Labels as positions in `classes_`, and which of them the training rows had."""
        positions = np.clip(np.searchsorted(self.classes_, y), 0, len(self.classes_) - 1)
        return positions, self.classes_[positions] == y

    def _prior(self, target: Any, weight: Any) -> Any:
        counts = np.bincount(target, weight, minlength=len(self.classes_))
        return counts / counts.sum()

    @property
    def _n_classes(self) -> int:
        return len(self.classes_)

    def predict_proba(self, X: Any) -> Any:
        """Probabilities, their columns in the order of `classes_`."""
        check_is_fitted(self, "constant_")
        if self.model_ is None:
            return np.tile(self.constant_, (X.shape[0], 1))
        raw = np.asarray(self._raw(self._matrix(X)), dtype=np.float64)
        return np.column_stack([1 - raw, raw]) if raw.ndim == 1 else raw


class BoostedRegressor(RegressorMixin):  # type: ignore[misc]
    """The part of a booster that is about numbers to predict."""

    def _learn_target(self, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        return y.astype(np.float64), None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)

    def _codes(self, y: Any) -> tuple[Any, Any]:
        return y.astype(np.float64), np.ones(len(y), dtype=bool)

    def _prior(self, target: Any, weight: Any) -> Any:
        return float(np.average(target, weights=weight))

    def predict(self, X: Any) -> Any:
        check_is_fitted(self, "constant_")
        if self.model_ is None:
            return np.full(X.shape[0], self.constant_)
        return np.asarray(self._raw(self._matrix(X)), dtype=np.float64)


def _varies(matrix: Any) -> bool:
    """Whether some column is not the same in all rows."""
    first = matrix[:1]
    return bool(((matrix != first) & ~(np.isnan(matrix) & np.isnan(first))).any())
