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

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        forest = ensemble.RandomForestClassifier if self.kind == "random" else ensemble.ExtraTreesClassifier
        columns = _features(self.rule, self.max_features, X.shape[1])
        return forest(**self._settings("kind", "rule", max_features=columns), n_jobs=1)


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

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        depth = max(1, round(self.max_depth_factor * X.shape[1]))
        return tree.DecisionTreeClassifier(**self._settings("max_depth_factor", max_depth=depth))


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

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        columns = _features(self.rule, self.max_features, X.shape[1])
        return ensemble.GradientBoostingClassifier(**self._settings("rule", max_features=columns))


@dataclass(eq=False, repr=False)
class AdaBoost(DelegateClassifier):
    """AdaBoost over trees of a given depth."""

    n_estimators: int = 50
    learning_rate: float = 1.0
    max_depth: int = 1

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        stump = tree.DecisionTreeClassifier(max_depth=self.max_depth)
        return ensemble.AdaBoostClassifier(stump, **self._settings("max_depth"))


@dataclass(eq=False, repr=False)
class AdaBoostRegressor(RegressorMixin, Delegate):  # type: ignore[misc]
    """AdaBoost over regression trees of a given depth."""

    n_estimators: int = 50
    learning_rate: float = 1.0
    max_depth: int = 3
    loss: str = "linear"
    random_state: Any = None

    def _make(self, X: Any, y: Any) -> Any:  # noqa: ARG002
        stump = tree.DecisionTreeRegressor(max_depth=self.max_depth)
        return ensemble.AdaBoostRegressor(stump, **self._settings("max_depth"))
