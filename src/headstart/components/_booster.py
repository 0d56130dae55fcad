"""What boosters of all libraries share; see `headstart.components.boosting`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from headstart.components._shared import Adapted, MostProbable, row_weights

_MEASURED_ROUNDS = 5
"""After the first one, which may be slower; by them the time of the others is told."""
STEPS = 20.0
"""Rounds times learning rate that there should be time for.

On three tables of 40,000 to 70,000 rows LightGBM was stopped early after 13 to 126.
"""
MOST_RATE = 0.3
_MUCH = 1.2


def rate_for(rate: float, rounds: float) -> float:
    """The learning rate for as many rounds as there is time for: higher where these are few, up to `MOST_RATE`."""
    return max(rate, min(MOST_RATE, STEPS / max(rounds, 1.0)))


@dataclass
class Clock:
    """Ends training when time is up, or after a few rounds if a much higher learning rate suits the time better.

    Parameters
    ----------
    until
        Time (monotonic) at which it is up.
    rate
        The learning rate that it is trained with; None if it may not be changed any more.

    Attributes
    ----------
    better_rate
        What to begin again with, if that ended it.
    """

    until: float
    rate: float | None = None
    better_rate: float | None = field(default=None, init=False)
    _rounds: int = field(default=0, init=False)
    _first: float = field(default=0.0, init=False)

    def is_over(self) -> bool:
        """Whether to end; called after each round."""
        now = time.monotonic()
        self._rounds += 1
        if self._rounds == 1:
            self._first = now
        if self._rounds == 1 + _MEASURED_ROUNDS and self.rate is not None:
            rounds = self._rounds + (self.until - now) * _MEASURED_ROUNDS / max(now - self._first, 1e-9)
            wanted = rate_for(self.rate, rounds)
            if wanted > _MUCH * self.rate:
                self.better_rate = wanted
                return True
        return now > self.until


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
    learning_rate
        Lower is better and takes more rounds.
    """

    n_estimators: int = 1000
    early_stopping_rounds: int = 50
    class_weight: Any = None
    random_state: Any = None
    learning_rate: float = 0.05

    def fit(
        self, X: Any, y: Any, sample_weight: Any = None, eval_set: Any = None, max_seconds: float | None = None
    ) -> Self:
        """Fit; with `eval_set` stop when its loss has not fallen for `early_stopping_rounds` rounds.

        `max_seconds` ends the rounds in time, after one at least. Where it is too short for the learning rate, that is
        raised, see `rate_for`; `learning_rate_` has what was used. scikit-learn's booster does not know it.
        """
        until = np.inf if max_seconds is None else time.monotonic() + max_seconds
        self.n_features_in_ = X.shape[1]
        self.categories_ = self._learn_categories(X)
        matrix = self._matrix(X)
        target, weight = self._learn_target(np.asarray(y), sample_weight)
        self.best_iteration_ = int(self.n_estimators)
        self.model_: Any = None
        self.constant_ = self._prior(target, weight)
        self.learning_rate_ = self.learning_rate
        if len(np.unique(target)) > 1 and _varies(matrix):  # libraries differ in what they do otherwise
            rows = matrix, target, weight, self._validation(eval_set)
            clock = Clock(until, None if max_seconds is None else self.learning_rate)
            self.model_ = self._train(*rows, clock)
            if clock.better_rate is not None:
                self.learning_rate_ = clock.better_rate
                self.model_ = self._train(*rows, Clock(until))
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
        """Numbers, and codes of categories with NaN where missing or unknown; (n, d) floats.

        In single precision if that is what all numbers are in.
        """
        if issparse(X):
            return X.toarray()
        if not isinstance(X, pd.DataFrame) or not self.categories_:
            single = all(kind == np.float32 for kind in (X.dtypes if isinstance(X, pd.DataFrame) else [X.dtype]))
            return np.asarray(X, dtype=np.float32 if single else np.float64)
        numbers = [i for i in range(X.shape[1]) if i not in self.categories_]
        single = all(X.dtypes.iloc[i] == np.float32 for i in numbers)
        matrix = np.empty(X.shape, dtype=np.float32 if single else np.float64)
        for i in numbers:
            matrix[:, i] = X.iloc[:, i].to_numpy(dtype=matrix.dtype, na_value=np.nan)
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
        own = ("n_estimators", "early_stopping_rounds", "class_weight", "random_state")
        return self._settings(*own, learning_rate=self.learning_rate_)

    @abstractmethod
    def _learn_target(self, y: Any, sample_weight: Any) -> tuple[Any, Any]: ...

    @abstractmethod
    def _codes(self, y: Any) -> tuple[Any, Any]: ...

    @abstractmethod
    def _prior(self, target: Any, weight: Any) -> Any: ...

    @abstractmethod
    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, clock: Clock) -> Any: ...

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
    few = matrix[:100]
    if ((few != first) & ~(np.isnan(few) & np.isnan(first))).any():
        return True
    return any(((c != c[0]) & ~(np.isnan(c) & np.isnan(c[0]))).any() for c in matrix.T)
