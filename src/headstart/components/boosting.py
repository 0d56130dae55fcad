"""Gradient boosting of four libraries behind one small protocol.

========================================================  ==========================
class                                                     library
========================================================  ==========================
`LightGBMClassifier`, `LightGBMRegressor`                 lightgbm
`CatBoostClassifier`, `CatBoostRegressor`                 catboost
`XGBoostClassifier`, `XGBoostRegressor`                   xgboost
`HistGradientBoostingClassifier`, ``…Regressor``          scikit-learn
========================================================  ==========================

``fit(X, y, sample_weight=None, eval_set=None)`` stops early when it is given a validation set
``(X_valid, y_valid)`` or ``(X_valid, y_valid, weights)``; `best_iteration_` then says how many rounds were best and
``set_params(n_estimators=model.best_iteration_)`` makes a refit on all rows use as many.

Tables may hold numbers and pandas categories, both with missing values; matrices of numbers are taken too. Categories
that were not there at the fit count as missing. One thread, no output, no files.

The libraries' own interfaces are used rather than their scikit-learn ones: names of columns need no cleaning, and a
training fold that lacks a class is no special case.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


class _Booster(BaseEstimator, ABC):  # type: ignore[misc]
    """What all boosters share: tables become matrices of codes, labels become 0, 1, …, one thread."""

    n_estimators: int
    early_stopping_rounds: int
    class_weight: Any
    random_state: Any

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
        for i, (_, column) in enumerate(X.items()):
            if i in self.categories_:
                here = column.astype("category").cat
                known = pd.Index(self.categories_[i], dtype=object)
                places = np.append(known.get_indexer(here.categories.astype(object)), -1)  # code -1 is missing
                codes = places[here.codes]
                matrix[:, i] = np.where(codes < 0, np.nan, codes)
            else:
                matrix[:, i] = column.to_numpy(dtype=np.float64, na_value=np.nan)
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

    def _settings(self) -> dict[str, Any]:
        """The parameters that a library knows by the same name."""
        ours = ("n_estimators", "early_stopping_rounds", "class_weight", "random_state")
        return {name: value for name, value in self.get_params(deep=False).items() if name not in ours}

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
        if state.get("model_") is not None:
            state["model_"] = self._packed()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if state.get("model_") is not None:
            self.model_ = self._unpacked(state["model_"])


class _Classifier(ClassifierMixin):  # type: ignore[misc]
    """The part of a booster that is about labels."""

    def _learn_target(self, y: Any, sample_weight: Any) -> tuple[Any, Any]:
        self.classes_, target = np.unique(y, return_inverse=True)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, y)
            weight = own if weight is None else own * weight
        return target, weight

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

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class _Regressor(RegressorMixin):  # type: ignore[misc]
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


def _seed(random_state: Any) -> int:
    return 0 if random_state is None else int(random_state)


class _LightGBMClock:
    """A callback that ends the training of LightGBM when time is up."""

    order = 100  # after early stopping, which may end it with an earlier round

    def __init__(self, until: float) -> None:
        self.until = until

    def __call__(self, env: Any) -> None:
        if time.monotonic() > self.until:
            from lightgbm.callback import EarlyStopException

            raise EarlyStopException(env.iteration, env.evaluation_result_list)


class _CatBoostClock:
    """A callback that ends the training of CatBoost when time is up."""

    def __init__(self, until: float) -> None:
        self.until = until

    def after_iteration(self, info: Any) -> bool:  # noqa: ARG002
        return time.monotonic() <= self.until


def _xgboost_clock(until: float) -> Any:
    """A callback that ends the training of XGBoost when time is up."""
    from xgboost.callback import TrainingCallback

    class Clock(TrainingCallback):  # type: ignore[misc,unused-ignore]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
            return time.monotonic() > until

    return Clock()


@dataclass(eq=False, repr=False)
class _LightGBM(_Booster):
    """LightGBM; see the library for the meaning of the parameters.

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
    learning_rate: float = 0.05
    num_leaves: int = 31
    min_child_samples: int = 20
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    reg_alpha: float = 0.0
    reg_lambda: float = 0.0
    extra_trees: bool = False
    early_stopping_rounds: int = 50
    class_weight: Any = None
    random_state: Any = None

    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, until: float) -> Any:
        import lightgbm

        k = self._n_classes
        settings = {
            **self._settings(),
            "objective": "regression" if k == 0 else "binary" if k == 2 else "multiclass",
            "bagging_freq": 1 if self.subsample < 1 else 0,
            "num_threads": 1,
            "seed": _seed(self.random_state),
            "deterministic": True,
            "force_col_wise": True,
            "verbosity": -1,
        }
        if k > 2:
            settings["num_class"] = k
        own: dict[str, Any] = {
            "categorical_feature": list(self.categories_),
            "params": {"verbosity": -1, "max_bin": 255},
        }
        rows = lightgbm.Dataset(X, y, weight=weight, **own)
        if validation is None:
            return lightgbm.train(settings, rows, self.n_estimators)
        Xv, yv, wv = validation
        model = lightgbm.train(
            settings,
            rows,
            self.n_estimators,
            valid_sets=[lightgbm.Dataset(Xv, yv, weight=wv, reference=rows, params=own["params"])],
            callbacks=[
                lightgbm.early_stopping(self.early_stopping_rounds, verbose=False),
                _LightGBMClock(until),
            ],
        )
        self.best_iteration_ = max(1, model.best_iteration)
        return model

    def _raw(self, X: Any) -> Any:
        return self.model_.predict(X, num_iteration=self.best_iteration_, num_threads=1)

    def _packed(self) -> Any:
        return self.model_.model_to_string(num_iteration=self.best_iteration_).encode()

    def _unpacked(self, packed: Any) -> Any:
        import lightgbm

        return lightgbm.Booster(model_str=packed.decode())


class LightGBMClassifier(_Classifier, _LightGBM):
    __doc__ = _LightGBM.__doc__


class LightGBMRegressor(_Regressor, _LightGBM):
    __doc__ = _LightGBM.__doc__


@dataclass(eq=False, repr=False)
class _CatBoost(_Booster):
    """CatBoost; a missing category is a category of its own. See `LightGBMClassifier` for what is common."""

    n_estimators: int = 1000
    learning_rate: float = 0.06
    depth: int = 6
    l2_leaf_reg: float = 3.0
    random_strength: float = 1.0
    bagging_temperature: float = 1.0
    rsm: float = 1.0
    one_hot_max_size: int = 2
    border_count: int = 254
    early_stopping_rounds: int = 50
    class_weight: Any = None
    random_state: Any = None

    def _pool(self, X: Any, y: Any = None, weight: Any = None) -> Any:
        import catboost

        if not self.categories_:
            return catboost.Pool(X, y, weight=weight, thread_count=1)
        table = pd.DataFrame(X)
        for i in self.categories_:
            table[i] = np.where(np.isnan(X[:, i]), -1, X[:, i]).astype(np.int64)
        return catboost.Pool(table, y, weight=weight, cat_features=list(self.categories_), thread_count=1)

    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, until: float) -> Any:
        import catboost

        k = self._n_classes
        model = catboost.CatBoost(
            {
                **self._settings(),
                "loss_function": "RMSE" if k == 0 else "Logloss" if k == 2 else "MultiClass",
                "iterations": self.n_estimators,
                "bootstrap_type": "Bayesian",
                "boosting_type": "Plain",
                "random_seed": _seed(self.random_state),
                "thread_count": 1,
                "logging_level": "Silent",
                "allow_writing_files": False,
            }
        )
        if validation is None:
            return model.fit(self._pool(X, y, weight))
        model.fit(
            self._pool(X, y, weight),
            eval_set=self._pool(*validation),
            early_stopping_rounds=self.early_stopping_rounds,
            use_best_model=True,
            callbacks=[_CatBoostClock(until)] if np.isfinite(until) else None,
        )
        self.best_iteration_ = max(1, model.tree_count_)
        return model

    def _raw(self, X: Any) -> Any:
        kind = "Probability" if self._n_classes else "RawFormulaVal"
        return self.model_.predict(self._pool(X), prediction_type=kind, thread_count=1)

    def _packed(self) -> Any:
        return self.model_._serialize_model()

    def _unpacked(self, packed: Any) -> Any:
        import catboost

        return catboost.CatBoost({"logging_level": "Silent", "allow_writing_files": False}).load_model(blob=packed)


class CatBoostClassifier(_Classifier, _CatBoost):
    __doc__ = _CatBoost.__doc__


class CatBoostRegressor(_Regressor, _CatBoost):
    __doc__ = _CatBoost.__doc__


@dataclass(eq=False, repr=False)
class _XGBoost(_Booster):
    """XGBoost on histograms. See `LightGBMClassifier` for what is common."""

    n_estimators: int = 1000
    learning_rate: float = 0.05
    max_depth: int = 6
    min_child_weight: float = 1.0
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    colsample_bylevel: float = 1.0
    reg_alpha: float = 0.0
    reg_lambda: float = 1.0
    gamma: float = 0.0
    booster: str = "gbtree"
    sample_type: str = "uniform"
    normalize_type: str = "tree"
    rate_drop: float = 0.0
    early_stopping_rounds: int = 50
    class_weight: Any = None
    random_state: Any = None

    def _rows(self, X: Any, y: Any = None, weight: Any = None) -> Any:
        import xgboost

        kinds = ["c" if i in self.categories_ else "float" for i in range(X.shape[1])]
        return xgboost.DMatrix(X, y, weight=weight, feature_types=kinds, enable_categorical=True, nthread=1)

    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, until: float) -> Any:
        import xgboost

        k = self._n_classes
        settings: dict[str, Any] = {
            **self._settings(),
            "objective": "reg:squarederror" if k == 0 else "binary:logistic" if k == 2 else "multi:softprob",
            "tree_method": "hist",
            "nthread": 1,
            "seed": _seed(self.random_state),
            "verbosity": 0,
        }
        if k > 2:
            settings["num_class"] = k
        if self.booster != "dart":
            for name in ("sample_type", "normalize_type", "rate_drop"):
                del settings[name]
        rows = self._rows(X, y, weight)
        if validation is None:
            return xgboost.train(settings, rows, self.n_estimators)
        model = xgboost.train(
            settings,
            rows,
            self.n_estimators,
            evals=[(self._rows(*validation), "valid")],
            early_stopping_rounds=self.early_stopping_rounds,
            verbose_eval=False,
            callbacks=[_xgboost_clock(until)],
        )
        best = model.attr("best_iteration")  # not there if time was up in the first round
        self.best_iteration_ = model.num_boosted_rounds() if best is None else int(best) + 1
        return model

    def _raw(self, X: Any) -> Any:
        return self.model_.predict(self._rows(X), iteration_range=(0, self.best_iteration_))

    def _packed(self) -> Any:
        return bytes(self.model_.save_raw("ubj"))

    def _unpacked(self, packed: Any) -> Any:
        import xgboost

        model = xgboost.Booster({"nthread": 1, "verbosity": 0})
        model.load_model(bytearray(packed))
        return model


class XGBoostClassifier(_Classifier, _XGBoost):
    __doc__ = _XGBoost.__doc__


class XGBoostRegressor(_Regressor, _XGBoost):
    __doc__ = _XGBoost.__doc__


def _without_functions(model: Any) -> Any:
    """The model without a generator that only a warm start needs, and without functions that check our own matrix."""
    model._feature_subsample_rng = None
    steps = getattr(model, "_preprocessor", None)
    if steps is not None:
        for _, step, *_ in [*steps.transformers, *steps.transformers_]:
            if hasattr(step, "func"):
                step.func = None
    return model


@dataclass(eq=False, repr=False)
class _HistGradientBoosting(_Booster):
    """Histogram gradient boosting of scikit-learn. See `LightGBMClassifier` for what is common.

    Categories of a column with more than 255 of them are taken as numbers, which is all that it can do with them.
    """

    n_estimators: int = 1000
    learning_rate: float = 0.05
    max_leaf_nodes: int = 31
    min_samples_leaf: int = 20
    l2_regularization: float = 0.0
    max_features: float = 1.0
    early_stopping_rounds: int = 50
    class_weight: Any = None
    random_state: Any = None

    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, until: float) -> Any:  # noqa: ARG002
        from sklearn import ensemble

        kind = ensemble.HistGradientBoostingClassifier if self._n_classes else ensemble.HistGradientBoostingRegressor
        model = kind(
            **self._settings(),
            max_iter=self.n_estimators,
            categorical_features=[i for i, known in self.categories_.items() if len(known) <= 255],
            early_stopping=validation is not None,
            n_iter_no_change=self.early_stopping_rounds,
            random_state=_seed(self.random_state),
        )
        with threadpool_limits(1):  # the only one of them that cannot be told
            return _without_functions(self._fit(model, X, y, weight, validation))

    def _fit(self, model: Any, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None) -> Any:
        if validation is None:
            return model.fit(X, y, weight)
        Xv, yv, wv = validation
        if weight is not None and wv is None:  # it asks for both or none
            wv = np.ones(len(yv))
        if weight is None and wv is not None:
            weight = np.ones(len(y))
        model.fit(X, y, weight, X_val=Xv, y_val=yv, sample_weight_val=wv)
        # Position 0 of the scores is the loss before the first round.
        self.best_iteration_ = max(1, int(np.argmax(model.validation_score_)))
        del model._predictors[self.best_iteration_ :]  # it would predict with the rounds after the best, too
        return model

    def _raw(self, X: Any) -> Any:
        with threadpool_limits(1):
            return self.model_.predict_proba(X) if self._n_classes else self.model_.predict(X)


class HistGradientBoostingClassifier(_Classifier, _HistGradientBoosting):
    __doc__ = _HistGradientBoosting.__doc__


class HistGradientBoostingRegressor(_Regressor, _HistGradientBoosting):
    __doc__ = _HistGradientBoosting.__doc__
