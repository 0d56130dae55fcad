"""`Metric`: a scikit-learn scorer applied to given predictions, as a loss."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, UnknownName, suggestion
from headstart.evaluation.fast_scores import fast_score

Array = NDArray[np.float64]
Scorer = Callable[..., float]

SHORT_NAMES = {
    "rmse": "neg_root_mean_squared_error",
    "mse": "neg_mean_squared_error",
    "mae": "neg_mean_absolute_error",
    "mape": "neg_mean_absolute_percentage_error",
    "rmsle": "neg_root_mean_squared_log_error",
    "auc": "roc_auc",
    "logloss": "neg_log_loss",
    "log_loss": "neg_log_loss",
    "brier": "neg_brier_score",
    "mcc": "matthews_corrcoef",
}
"""What people call metrics, and scikit-learn's names; others are the same in both."""
_LABELS = {
    "neg_log_loss": "log loss",
    "neg_brier_score": "Brier score",
    "roc_auc": "ROC AUC",
    "f1": "F1",
    "r2": "R²",
    "matthews_corrcoef": "MCC",
    **{SHORT_NAMES[short]: short.upper() for short in ("rmse", "mse", "mae", "mape", "rmsle")},
}


def full_name(metric: str) -> str:
    """scikit-learn's name of a metric.

    >>> full_name("rmse"), full_name("AUC"), full_name("f1")
    ('neg_root_mean_squared_error', 'roc_auc', 'f1')
    """
    return SHORT_NAMES.get(metric.lower(), metric)


def label_of(metric: str) -> str:
    """What a metric is called in a sentence.

    >>> label_of("neg_root_mean_squared_error"), label_of("balanced_accuracy")
    ('RMSE', 'balanced accuracy')
    """
    return _LABELS.get(metric, metric.removeprefix("neg_").replace("_", " "))


def natural(metric: str, score: float) -> float:
    """A score as people write it: errors, which scikit-learn has as negative numbers, are positive.

    >>> natural("neg_root_mean_squared_error", -53.6), natural("roc_auc", 0.9)
    (53.6, 0.9)
    """
    return -score if metric.startswith("neg_") else score


_FOR_NUMBERS = ("neg_", "max_error", "explained_variance", "d2_absolute", "d2_pinball", "d2_tweedie", "r2")
_OF_ONE_CLASS = ("f1", "precision", "recall", "jaccard", "average_precision")
_OF_PROBABILITIES = ("log_loss", "brier_score_loss", "d2_log_loss_score", "d2_brier_score")


class Metric:
    """How good predictions are.

    Parameters
    ----------
    metric
        Name of a scikit-learn scorer, such as ``"roc_auc"``, a short name such as ``"rmse"``, or a callable
        ``scorer(estimator, X, y)`` that is higher for better predictions.
    task
        ``"binary"``, ``"multiclass"`` or ``"regression"``. A name that only makes sense for two classes is taken for
        what it means with several (``roc_auc`` becomes one class against the rest, ``f1`` the mean over classes).

    Notes
    -----
    The loss is what is missing to the best score there can be: 1 - accuracy, the mean squared error itself for
    ``neg_mean_squared_error``. A callable's loss is its negative score.
    """

    def __init__(self, metric: str | Scorer, task: str) -> None:
        self.task = task
        metric = full_name(metric) if isinstance(metric, str) else metric
        self.name = metric if isinstance(metric, str) else _name(metric)
        self.given = metric
        self._scorer = _scorer(metric, task)
        self._fast = fast_score(metric, task) if isinstance(metric, str) else None
        self._best = self._best_score()
        if isinstance(metric, str):
            self._try()

    @property
    def of_labels(self) -> bool | None:
        """Whether it judges the chosen labels, not probabilities; None for a function that does not say."""
        if self.task == "regression":
            return False
        response = getattr(self._scorer, "_response_method", None)
        return None if response is None else response == "predict"

    @property
    def of_probabilities(self) -> bool:
        """Whether it judges probabilities by their values, not by their order or the labels that they speak for."""
        return self.task != "regression" and _name(self._scorer) in _OF_PROBABILITIES

    @property
    def of_one_class(self) -> bool:
        """Whether it is about the last of two classes, as F1 is, and would be another number for the first."""
        return self.task == "binary" and self.name in _OF_ONE_CLASS

    @property
    def key(self) -> str:
        """The name, for a function with a hash of what it does, so that two of one name are told apart."""
        if isinstance(self.given, str):
            return self.given
        code = getattr(self.given, "__code__", None)
        if code is None:
            content = repr(self.given) if " at 0x" not in repr(self.given) else type(self.given).__qualname__
        else:
            plain = [c for c in code.co_consts if isinstance(c, int | float | str | bytes | bool | None)]
            content = repr((code.co_code, code.co_names, plain))
        return f"{self.name}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"

    def _best_score(self) -> float:
        if not isinstance(self.given, str):
            return 0.0
        sign = getattr(self._scorer, "_sign", 1)
        if self.given.startswith("neg_") or sign < 0:
            return 0.0
        return 1.0

    def _try(self) -> None:
        """Score a toy prediction, to refuse a metric that does not fit the task before anything is trained."""
        n_classes = {"binary": 2, "multiclass": 3}.get(self.task, 0)
        if n_classes:
            truth: NDArray[Any] = np.arange(12) % n_classes
            predictions: Array = np.full((12, n_classes), 0.1)
            predictions[np.arange(12), truth] = 1.0
            predictions /= predictions.sum(axis=1, keepdims=True)
        else:
            truth = np.linspace(1.0, 2.0, 12)
            predictions = truth + 0.01
        try:
            score = self.score(truth, predictions)
        except Exception as error:
            raise InvalidInput(
                f"metric {self.name!r} does not fit a {self.task} task: {error}; {suggestion('', fitting(self.task))}"
            ) from error
        if not np.isfinite(score):
            raise InvalidInput(
                f"metric {self.name!r} does not fit a {self.task} task; {suggestion('', fitting(self.task))}"
            )

    def score(self, truth: NDArray[Any], predictions: Array, sample_weight: Array | None = None) -> float:
        """Score in scikit-learn's direction, higher is better.

        Parameters
        ----------
        truth
            (n,) class codes, or numbers for regression.
        predictions
            (n, k) probabilities, or (n,) numbers for regression.
        """
        if self._fast is not None:
            return self._fast(truth, predictions, sample_weight)
        stored = _stored(predictions, self.task)
        nothing = np.zeros((len(truth), 1))
        if sample_weight is not None:
            try:
                return float(self._scorer(stored, nothing, truth, sample_weight=sample_weight))
            except TypeError:
                pass  # a scorer without weights
        return float(self._scorer(stored, nothing, truth))

    def loss(self, truth: NDArray[Any], predictions: Array, sample_weight: Array | None = None) -> float:
        """What is to be minimised."""
        return self._best - self.score(truth, predictions, sample_weight)

    def to_score(self, loss: float) -> float:
        """The score that a loss stands for, in scikit-learn's direction."""
        return self._best - loss

    def shown(self, loss: float) -> str:
        """The score that a loss stands for, as people write it: ``"RMSE 53.6"``."""
        return f"{label_of(self.name)} {natural(self.name, self.to_score(loss)):.5g}"

    def __reduce__(self) -> tuple[Any, ...]:
        return Metric, (self.given, self.task)

    def __repr__(self) -> str:
        return f"Metric({self.name!r}, {self.task!r})"


def _name(metric: Any) -> str:
    scored = getattr(metric, "_score_func", metric)  # what make_scorer was given
    return str(getattr(scored, "__name__", type(scored).__name__))


@cache
def _stored_types() -> tuple[Any, Any]:
    """Predictions in the clothes of a fitted classifier or regressor, so that any scorer can be used on them."""
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

    class StoredRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
        def __init__(self, predictions: Array) -> None:
            self.predictions = predictions

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict(self, X: Any) -> Array:  # noqa: ARG002
            return self.predictions

    class StoredClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        def __init__(self, predictions: Array) -> None:
            self.predictions = predictions
            self.classes_ = np.arange(predictions.shape[1])

        def __sklearn_is_fitted__(self) -> bool:
            return True

        def predict_proba(self, X: Any) -> Array:  # noqa: ARG002
            return self.predictions

        def predict(self, X: Any) -> NDArray[Any]:  # noqa: ARG002
            chosen: NDArray[Any] = self.predictions.argmax(axis=1)
            return chosen

    return StoredClassifier, StoredRegressor


def _stored(predictions: Array, task: str) -> Any:
    classifier, regressor = _stored_types()
    return regressor(predictions) if task == "regression" else classifier(predictions)


_FOR_SEVERAL_CLASSES = {
    "roc_auc": "roc_auc_ovr",
    "f1": "f1_macro",
    "precision": "precision_macro",
    "recall": "recall_macro",
    "jaccard": "jaccard_macro",
}


def _scorer(metric: str | Scorer, task: str) -> Scorer:
    if not isinstance(metric, str):
        if not callable(metric):
            raise TypeError(f"metric must be the name of a scorer or a callable, got {type(metric).__name__}")
        return metric
    from sklearn.metrics import get_scorer, get_scorer_names

    name = _FOR_SEVERAL_CLASSES.get(metric, metric) if task == "multiclass" else metric
    if name in get_scorer_names() and _is_numeric(name) != (task == "regression"):
        kind = "regression" if _is_numeric(name) else "classification"
        raise InvalidInput(f"metric {metric!r} is for {kind}, not a {task} task; {suggestion('', fitting(task))}")
    if name not in get_scorer_names():
        known = fitting(task)
        short = [name for name, full in SHORT_NAMES.items() if _is_numeric(full) == (task == "regression")]
        raise UnknownName(f"no metric is named {metric!r}; {suggestion(metric, [*known, *short])}")
    scorer: Scorer = get_scorer(name)
    return scorer


def _is_numeric(name: str) -> bool:
    """Whether a metric is for numbers, not for classes."""
    return name.startswith(_FOR_NUMBERS) and name not in ("neg_log_loss", "neg_brier_score")


def fitting(task: str) -> list[str]:
    """Names of metrics commonly used for a task."""
    if task == "regression":
        errors = ("mean_absolute", "mean_squared", "median_absolute", "root_mean_squared")
        return [*(f"neg_{error}_error" for error in errors), "r2"]
    shared = ["accuracy", "balanced_accuracy", "f1", "matthews_corrcoef", "neg_log_loss", "precision", "recall"]
    return [*shared, "roc_auc", *(["average_precision", "neg_brier_score"] if task == "binary" else [])]
