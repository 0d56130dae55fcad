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

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]

from headstart.components._booster import BoostedClassifier, BoostedRegressor, Booster, Clock
from headstart.components._shared import seed_of


@dataclass(eq=False)  # LightGBM keeps its callbacks in a set
class _Callback:
    """A callback of LightGBM, which calls it, and of CatBoost."""

    clock: Clock
    order = 100  # after early stopping, which may end it with an earlier round

    def __call__(self, env: Any) -> None:
        if self.clock.is_over():
            from lightgbm.callback import EarlyStopException

            raise EarlyStopException(env.iteration, env.evaluation_result_list)

    def after_iteration(self, info: Any) -> bool:  # noqa: ARG002
        return not self.clock.is_over()


def _xgboost_callback(clock: Clock) -> Any:
    """A callback of XGBoost."""
    from xgboost.callback import TrainingCallback

    class Callback(TrainingCallback):  # type: ignore[misc,unused-ignore]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:  # noqa: ARG002
            return clock.is_over()

    return Callback()


@dataclass(eq=False, repr=False)
class _LightGBM(Booster):
    """LightGBM; see the library for the meaning of the parameters, and `Booster` for those that all have."""

    num_leaves: int = 31
    min_child_samples: int = 20
    subsample: float = 1.0
    colsample_bytree: float = 1.0
    reg_alpha: float = 0.0
    reg_lambda: float = 0.0
    extra_trees: bool = False

    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, clock: Clock) -> Any:
        import lightgbm

        k = self._n_classes
        settings = {
            **self._of_library(),
            "objective": "regression" if k == 0 else "binary" if k == 2 else "multiclass",
            "bagging_freq": 1 if self.subsample < 1 else 0,
            "num_threads": 1,
            "seed": seed_of(self.random_state),
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
                _Callback(clock),
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


class LightGBMClassifier(BoostedClassifier, _LightGBM):
    __doc__ = _LightGBM.__doc__


class LightGBMRegressor(BoostedRegressor, _LightGBM):
    __doc__ = _LightGBM.__doc__


@dataclass(eq=False, repr=False)
class _CatBoost(Booster):
    """CatBoost; a missing category is a category of its own. See `Booster` for what is common."""

    learning_rate: float = 0.06
    depth: int = 6
    l2_leaf_reg: float = 3.0
    random_strength: float = 1.0
    bagging_temperature: float = 1.0
    rsm: float = 1.0
    one_hot_max_size: int = 2
    border_count: int = 254

    def _pool(self, X: Any, y: Any = None, weight: Any = None) -> Any:
        import catboost

        if not self.categories_:
            return catboost.Pool(X, y, weight=weight, thread_count=1)
        table = pd.DataFrame(X)
        for i in self.categories_:
            table[i] = np.where(np.isnan(X[:, i]), -1, X[:, i]).astype(np.int64)
        return catboost.Pool(table, y, weight=weight, cat_features=list(self.categories_), thread_count=1)

    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, clock: Clock) -> Any:
        import catboost

        k = self._n_classes
        model = catboost.CatBoost(
            {
                **self._of_library(),
                "loss_function": "RMSE" if k == 0 else "Logloss" if k == 2 else "MultiClass",
                "iterations": self.n_estimators,
                "bootstrap_type": "Bayesian",
                "boosting_type": "Plain",
                "random_seed": seed_of(self.random_state),
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
            callbacks=[_Callback(clock)] if np.isfinite(clock.until) else None,
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


class CatBoostClassifier(BoostedClassifier, _CatBoost):
    __doc__ = _CatBoost.__doc__


class CatBoostRegressor(BoostedRegressor, _CatBoost):
    __doc__ = _CatBoost.__doc__


@dataclass(eq=False, repr=False)
class _XGBoost(Booster):
    """XGBoost on histograms. See `Booster` for what is common."""

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

    def _rows(self, X: Any, y: Any = None, weight: Any = None) -> Any:
        import xgboost

        kinds = ["c" if i in self.categories_ else "float" for i in range(X.shape[1])]
        return xgboost.DMatrix(X, y, weight=weight, feature_types=kinds, enable_categorical=True, nthread=1)

    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, clock: Clock) -> Any:
        import xgboost

        k = self._n_classes
        settings: dict[str, Any] = {
            **self._of_library(),
            "objective": "reg:squarederror" if k == 0 else "binary:logistic" if k == 2 else "multi:softprob",
            "tree_method": "hist",
            "nthread": 1,
            "seed": seed_of(self.random_state),
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
            callbacks=[_xgboost_callback(clock)],
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


class XGBoostClassifier(BoostedClassifier, _XGBoost):
    __doc__ = _XGBoost.__doc__


class XGBoostRegressor(BoostedRegressor, _XGBoost):
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
class _HistGradientBoosting(Booster):
    """Histogram gradient boosting of scikit-learn. See `Booster` for what is common.

    Categories of a column with more than 255 of them are taken as numbers, which is all that it can do with them.
    """

    max_leaf_nodes: int = 31
    min_samples_leaf: int = 20
    l2_regularization: float = 0.0
    max_features: float = 1.0

    def _train(self, X: Any, y: Any, weight: Any, validation: tuple[Any, Any, Any] | None, clock: Clock) -> Any:  # noqa: ARG002
        from sklearn import ensemble

        kind = ensemble.HistGradientBoostingClassifier if self._n_classes else ensemble.HistGradientBoostingRegressor
        model = kind(
            **self._of_library(),
            max_iter=self.n_estimators,
            categorical_features=[i for i, known in self.categories_.items() if len(known) <= 255],
            early_stopping=validation is not None,
            n_iter_no_change=self.early_stopping_rounds,
            random_state=seed_of(self.random_state),
        )
        with _controller().limit(limits=1):  # the only one of them that cannot be told
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
        if not self.categories_ and len(X) * len(self.model_._predictors) <= _FEW_PATHS:
            return self._raw_of_few(X)
        with _controller().limit(limits=1, user_api="openmp"):
            return self.model_.predict_proba(X) if self._n_classes else self.model_.predict(X)

    def _raw_of_few(self, X: Any) -> Any:
        """The same for a few rows, through all trees at once: scikit-learn's calls of each tree would take longer."""
        if "_flat" not in self.__dict__:
            self._flat = _Flat([tree.nodes for round_ in self.model_._predictors for tree in round_])
        found = self._flat.leaves(X).reshape(len(X), len(self.model_._predictors), -1).sum(axis=1)
        found += self.model_._baseline_prediction
        loss = self.model_._loss
        return loss.predict_proba(found) if self._n_classes else loss.link.inverse(found.ravel())

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        state.pop("_flat", None)
        return state


_FEW_PATHS = 5_000
"""Most pairs of a row and a round of boosting that are followed through the trees with NumPy."""


class _Flat:
    """The nodes of many trees of histogram boosting, without categories, in one array."""

    def __init__(self, trees: Sequence[Any]) -> None:
        sizes = [len(nodes) for nodes in trees]
        self.roots = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
        nodes = np.concatenate(trees)
        first = np.repeat(self.roots, sizes)
        self.is_leaf = nodes["is_leaf"].astype(bool)
        here = np.arange(len(nodes))
        self.left = np.where(self.is_leaf, here, first + nodes["left"].astype(np.int64))
        self.right = np.where(self.is_leaf, here, first + nodes["right"].astype(np.int64))
        self.feature = np.where(self.is_leaf, 0, nodes["feature_idx"].astype(np.int64))
        self.threshold, self.value = nodes["num_threshold"].copy(), nodes["value"].copy()
        self.missing_left = nodes["missing_go_to_left"].astype(bool)

    def leaves(self, X: Any) -> Any:
        """The value of each row's leaf in each tree; (n, trees)."""
        rows = np.arange(len(X))[:, None]
        at = np.broadcast_to(self.roots, (len(X), len(self.roots)))
        while not self.is_leaf[at].all():
            values = X[rows, self.feature[at]]
            goes_left = np.where(np.isnan(values), self.missing_left[at], values <= self.threshold[at])
            at = np.where(goes_left, self.left[at], self.right[at])
        return self.value[at]


@cache
def _controller() -> Any:
    """Looking for the loaded libraries takes longer than a prediction, so it happens once."""
    return ThreadpoolController()


class HistGradientBoostingClassifier(BoostedClassifier, _HistGradientBoosting):
    __doc__ = _HistGradientBoosting.__doc__


class HistGradientBoostingRegressor(BoostedRegressor, _HistGradientBoosting):
    __doc__ = _HistGradientBoosting.__doc__
