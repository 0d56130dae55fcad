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

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import ensemble, tree
from sklearn.base import RegressorMixin

from headstart.components._shared import Delegate, DelegateClassifier


def _features(rule: str, value: float, d: int) -> int:
    if rule == "power":
        return max(1, int(d**value))
    if rule == "log":
        return max(1, min(d // 2, int(value * (np.log(d) + 1))))
    return max(1, int(value * d))


@dataclass(eq=False, repr=False)
class SizedForest(DelegateClassifier):
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

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        settings: dict[str, Any] = self.get_params(deep=False)
        kind, rule = settings.pop("kind"), settings.pop("rule")
        forest = ensemble.RandomForestClassifier if kind == "random" else ensemble.ExtraTreesClassifier
        settings["max_features"] = _features(rule, self.max_features, X.shape[1])
        return forest(**settings, n_jobs=1)


@dataclass(eq=False, repr=False)
class SizedTree(DelegateClassifier):
    """Decision tree with a depth relative to the number of columns."""

    criterion: str = "gini"
    max_depth_factor: float = 0.5
    min_samples_split: int = 2
    min_samples_leaf: int = 1
    min_weight_fraction_leaf: float = 0.0
    min_impurity_decrease: float = 0.0
    class_weight: Any = None
    random_state: Any = None

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        settings: dict[str, Any] = self.get_params(deep=False)
        depth = max(1, round(settings.pop("max_depth_factor") * X.shape[1]))
        return tree.DecisionTreeClassifier(**settings, max_depth=depth)


@dataclass(eq=False, repr=False)
class SizedGradientBoosting(DelegateClassifier):
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

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        settings: dict[str, Any] = self.get_params(deep=False)
        settings["max_features"] = _features(settings.pop("rule"), self.max_features, X.shape[1])
        return ensemble.GradientBoostingClassifier(**settings)


@dataclass(eq=False, repr=False)
class AdaBoost(DelegateClassifier):
    """AdaBoost over trees of a given depth."""

    n_estimators: int = 50
    learning_rate: float = 1.0
    max_depth: int = 1
    random_state: Any = None

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        settings: dict[str, Any] = self.get_params(deep=False)
        return ensemble.AdaBoostClassifier(tree.DecisionTreeClassifier(max_depth=settings.pop("max_depth")), **settings)


@dataclass(eq=False, repr=False)
class AdaBoostRegressor(RegressorMixin, Delegate):  # type: ignore[misc]
    """AdaBoost over regression trees of a given depth."""

    n_estimators: int = 50
    learning_rate: float = 1.0
    max_depth: int = 3
    loss: str = "linear"
    random_state: Any = None

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        settings: dict[str, Any] = self.get_params(deep=False)
        return ensemble.AdaBoostRegressor(tree.DecisionTreeRegressor(max_depth=settings.pop("max_depth")), **settings)
