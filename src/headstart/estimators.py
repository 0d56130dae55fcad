"""`HeadstartClassifier` and `HeadstartRegressor`: a table in, a model out, within a budget."""

from __future__ import annotations

from inspect import cleandoc
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from headstart.fitting import saving
from headstart.fitting.estimator import HeadstartEstimator
from headstart.fitting.settings import ClassifierParameters, Parameters


def _documentation(summary: str, *described: type) -> str:
    """A docstring with the parameters of some classes and the attributes that estimators share."""
    entries = [cleandoc(str(kind.__doc__)).partition("----------\n")[2] for kind in described]
    attributes = cleandoc(str(HeadstartEstimator.__doc__)).partition("\n\n")[2]
    return "\n".join([summary, "", "Parameters", "----------", *entries, "", attributes])


class HeadstartClassifier(ClassifierMixin, ClassifierParameters, HeadstartEstimator):  # type: ignore[misc]
    __doc__ = (
        _documentation("Finds and fits a classifier for a table within a budget.", Parameters, ClassifierParameters)
        + """

Examples
--------
>>> from sklearn.datasets import load_iris
>>> X, y = load_iris(return_X_y=True, as_frame=True)
>>> model = HeadstartClassifier(evaluations=3, include=["logistic_regression", "lda"], sandbox=False)
>>> model.fit(X, y).predict(X[:2]).tolist()
[0, 0]
"""
    )

    _kind = "classification"

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classes, in the order of `classes_`."""
        return self._fitted.predict_proba(self._checked(X))

    def predict_set(self, X: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Prediction sets (n, classes): True for classes in the set, their columns in the order of `classes_`.

        The true class is in the set of about the share `coverage` of new rows. A set may have several classes, or none
        if the row is unlike all that were seen. See `headstart.fitting.conformal`.
        """
        return self._fitted.predict_set(self._checked(X), coverage)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Accuracy on a table, which must have the target's column if y is left out.

        In the metric that was optimised: `leaderboard`.
        """
        return float(super().score(*self._with_target(X, y), sample_weight))


class HeadstartRegressor(RegressorMixin, HeadstartEstimator):  # type: ignore[misc]
    __doc__ = _documentation("Finds and fits a regressor for a table within a budget.", Parameters)

    _kind = "regression"

    def predict_interval(self, X: Any, coverage: float = 0.9) -> NDArray[np.float64]:
        """Prediction intervals (n, 2): lower and upper bounds.

        The true number is within them for about the share `coverage` of new rows. See `headstart.fitting.conformal`.
        """
        return self._fitted.predict_interval(self._checked(X), coverage)

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R² on a table, which must have the target's column if y is left out.

        In the metric that was optimised: `leaderboard`.
        """
        return float(super().score(*self._with_target(X, y), sample_weight))


def load(path: str | PathLike[str], *, trusted: bool = False) -> HeadstartClassifier | HeadstartRegressor:
    """Read a classifier or a regressor that was saved; see `HeadstartClassifier.load`."""
    found: HeadstartClassifier | HeadstartRegressor = saving.load(
        path, (HeadstartClassifier, HeadstartRegressor), trusted=trusted
    )
    return found
