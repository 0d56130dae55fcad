"""Trees and forests whose sizes follow the table, and AdaBoost over trees of a given depth.

auto-sklearn (Feurer et al., 2015) states some sizes relative to the number of columns d:

===================  ==========================================================
setting              meaning
===================  ==========================================================
``rule="power"``     ``max_features`` f: d ** f columns are looked at per split
``rule="log"``       ``max_features`` f: f · (log d + 1), at most d / 2
``rule="share"``     ``max_features`` f: f · d, as in scikit-learn
``max_depth_factor``  depth of a tree: factor · d, at least 1
===================  ==========================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn import ensemble, tree
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin


def _features(rule: str, value: float, d: int) -> int:
    if rule == "power":
        return max(1, int(d**value))
    if rule == "log":
        return max(1, min(d // 2, int(value * (np.log(d) + 1))))
    return max(1, int(value * d))


class _Delegate(ClassifierMixin, BaseEstimator, ABC):  # type: ignore[misc]
    @abstractmethod
    def _make(self, d: int) -> Any: ...

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.n_features_in_ = X.shape[1]
        self.model_ = self._make(X.shape[1]).fit(X, y, sample_weight)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)

    def predict_proba(self, X: Any) -> Any:
        return self.model_.predict_proba(X)


@dataclass(eq=False, repr=False)
class SizedForest(_Delegate):
    """Random forest (``kind="random"``) or extremely randomised trees (``"extra"``)."""

    kind: str = "random"
    rule: str = "power"
    n_estimators: int = 100
    criterion: str = "gini"
    max_features: float = 0.5
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    bootstrap: bool = True
    class_weight: Any = None
    random_state: Any = None

    def _make(self, d: int) -> Any:
        forest = ensemble.RandomForestClassifier if self.kind == "random" else ensemble.ExtraTreesClassifier
        return forest(
            self.n_estimators,
            criterion=self.criterion,
            max_features=_features(self.rule, self.max_features, d),
            min_samples_split=self.min_samples_split,
            min_samples_leaf=self.min_samples_leaf,
            bootstrap=self.bootstrap,
            class_weight=self.class_weight,
            n_jobs=1,
            random_state=self.random_state,
        )


@dataclass(eq=False, repr=False)
class SizedTree(_Delegate):
    """Decision tree with a depth relative to the number of columns."""

    criterion: str = "gini"
    max_depth_factor: float = 0.5
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_weight_fraction_leaf: float = 0.0
    min_impurity_decrease: float = 0.0
    class_weight: Any = None
    random_state: Any = None

    def _make(self, d: int) -> Any:
        return tree.DecisionTreeClassifier(
            criterion=self.criterion,
            max_depth=max(1, round(self.max_depth_factor * d)),
            min_samples_split=self.min_samples_split,
            min_samples_leaf=self.min_samples_leaf,
            min_weight_fraction_leaf=self.min_weight_fraction_leaf,
            min_impurity_decrease=self.min_impurity_decrease,
            class_weight=self.class_weight,
            random_state=self.random_state,
        )


@dataclass(eq=False, repr=False)
class SizedGradientBoosting(_Delegate):
    """Gradient boosting of scikit-learn with `max_features` by a rule."""

    rule: str = "log"
    n_estimators: int = 100
    learning_rate: float = 0.1
    max_depth: int = 3
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    subsample: float = 1.0
    max_features: float = 1.0
    random_state: Any = None

    def _make(self, d: int) -> Any:
        settings = {k: v for k, v in self.get_params(deep=False).items() if k not in ("rule", "max_features")}
        return ensemble.GradientBoostingClassifier(**settings, max_features=_features(self.rule, self.max_features, d))


@dataclass(eq=False, repr=False)
class AdaBoost(_Delegate):
    """AdaBoost over trees of a given depth."""

    n_estimators: int = 50
    learning_rate: float = 1.0
    max_depth: int = 1
    random_state: Any = None

    def _make(self, d: int) -> Any:  # noqa: ARG002
        return ensemble.AdaBoostClassifier(
            tree.DecisionTreeClassifier(max_depth=self.max_depth),
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            random_state=self.random_state,
        )


@dataclass(eq=False, repr=False)
class AdaBoostRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """AdaBoost over regression trees of a given depth."""

    n_estimators: int = 50
    learning_rate: float = 1.0
    max_depth: int = 3
    loss: str = "linear"
    random_state: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.n_features_in_ = X.shape[1]
        model = ensemble.AdaBoostRegressor(
            tree.DecisionTreeRegressor(max_depth=self.max_depth),
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            loss=self.loss,
            random_state=self.random_state,
        )
        self.model_ = model.fit(X, y, sample_weight)
        return self

    def predict(self, X: Any) -> Any:
        return self.model_.predict(X)
