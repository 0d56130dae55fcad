"""`LiveObjective`: train a pipeline on a table and score it on rows it has not seen."""

from __future__ import annotations

import inspect
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, MissingDependency, SpaceError
from headstart.evaluation.constraints import FittedFold, measures, timed
from headstart.evaluation.kept_models import UnusableModel, keep
from headstart.evaluation.objective import outcome_of
from headstart.evaluation.prediction import predict_model
from headstart.evaluation.scoring import Metric
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome, Status

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.data.splits import Splits
    from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]
FITTING_SHARE = 0.7
"""Of the time of an evaluation, what training may use; the rest is for preparation, prediction and storage."""
_FIRST_TREES = 10
"""The first part of a forest, by which the time of the others is told, is one of so many."""
_CAUTION = 0.8
"""Of the trees that should fit into the time that is left, how many are tried."""
_TRIED_ROWS = 5
"""Rows that a model predicts after it was pickled and read back."""


class LiveObjective:
    """Trains a pipeline on each fold of a table and scores it on the fold's validation rows.

    Parameters
    ----------
    space
        Whose pipelines are evaluated.
    dataset, splits
        The table and its folds, the same for all pipelines.
    metric
        Name of a scikit-learn scorer, or a callable ``scorer(estimator, X, y)``; the task's default when omitted.
    constraints
        Names of values to measure, or names with functions; see `headstart.evaluation.constraints`.
    keep_models
        Keep the fitted model of each fold: the artefact ``models`` has the bytes of `headstart.evaluation.kept_models`.

    Notes
    -----
    The artefact ``predictions`` holds what each row was predicted as by models that had not seen it, averaged where it
    was in several validation parts, and NaN where it was in none: (n, classes) probabilities or (n,) numbers.

    The loss is the mean over the folds in which the metric is defined; where it is defined in none, such as ROC AUC in
    folds of one class, it is that of all predictions together.

    An estimator whose ``fit`` takes an ``eval_set`` is stopped early on the validation part of the fold. The number of
    rounds is thus chosen on the rows that it is judged by, which flatters it a little on small tables. One that takes
    ``max_seconds`` ends its rounds or epochs before the limit of the evaluation, and is no timeout. Forests of
    scikit-learn end in time as well, with fewer trees.
    """

    def __init__(
        self,
        space: PipelineSpace,
        dataset: Dataset,
        splits: Splits,
        metric: str | Callable[..., float] | None = None,
        constraints: Iterable[str] | Mapping[str, Callable[..., float] | None] = (),
        keep_models: bool = False,
    ) -> None:
        from headstart.data.target import default_metric

        if dataset.y is None or dataset.task is None:
            raise InvalidInput("the table must have a target to be learned; give Dataset.from_table(..., target=...)")
        self.space = space
        self.dataset = dataset
        self._y = dataset.y
        self.splits = splits
        self.metric = Metric(metric if metric is not None else default_metric(dataset.task), dataset.task)
        validated = np.unique(np.concatenate([valid for _, valid in splits]))
        self._measures = measures(constraints, dataset, self.metric, validated)
        self.keep_models = keep_models

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        seconds = limits.now().seconds  # the sandbox keeps it; boosting is told, to end before
        until = None if seconds is None else time.monotonic() + FITTING_SHARE * seconds
        return outcome_of(lambda: self._evaluate(pipeline, seed, fidelity, until), fidelity)

    def _evaluate(self, pipeline: Pipeline, seed: int, fidelity: Fidelity, until: float | None) -> Outcome:
        started = time.perf_counter()
        folds = self._folds(fidelity)
        total = np.zeros((self.dataset.n_rows, *self._shape))
        count = np.zeros(self.dataset.n_rows)
        losses, values, models = [], [], []
        for i, (train, valid) in enumerate(folds):
            allowed = None if until is None else max(0.0, until - time.monotonic()) / (len(folds) - i)
            try:
                fold = self._fit(pipeline, train, valid, seed, allowed)
            except (SpaceError, MissingDependency) as error:
                return Outcome.failed(Status.INVALID, str(error), fidelity=fidelity)
            if not np.isfinite(fold.predictions).all():
                return Outcome.failed(
                    Status.INVALID, "predictions must be finite, found NaN or infinity", fidelity=fidelity
                )
            weights = None if self.dataset.weights is None else self.dataset.weights[valid]
            losses.append(self.metric.loss(fold.y, fold.predictions, weights))
            values.append({name: measure(fold) for name, measure in self._measures.of_folds.items()})
            total[valid] += fold.predictions
            count[valid] += 1
            if self.keep_models:
                models.append(fold.model)
        predictions = _mean(total, count)
        artefacts: dict[str, Any] = {"predictions": predictions}
        if self.keep_models:
            few = self._rows(folds[-1][1][:_TRIED_ROWS])
            try:
                artefacts["models"] = keep(models, lambda model: predict_model(model, few, self._shape))
            except UnusableModel as error:
                return Outcome.failed(Status.INVALID, str(error), fidelity=fidelity)
        every = np.flatnonzero(is_predicted(predictions))
        fold_losses = defined(losses, lambda: self._loss_on(every, predictions))
        return Outcome.of(
            float(np.mean(fold_losses)),
            fold_losses=tuple(fold_losses),
            constraints=self.constraint_values(predictions, values),
            seconds=time.perf_counter() - started,
            fidelity=fidelity,
            artefacts=artefacts,
        )

    def constraint_values(self, predictions: Array, folds: Sequence[Mapping[str, float]] = ()) -> dict[str, float]:
        """Values that constraints bound: of predictions for all rows, as the artefact, and those measured on folds."""
        rows = np.flatnonzero(is_predicted(predictions))
        return self._measures.values(folds, rows, predictions[rows])

    def loss_of(
        self, predictions: Array, metric: Metric | None = None, parts: Sequence[NDArray[np.int64]] | None = None
    ) -> float:
        """The loss of predictions for all rows, counted as that of a pipeline: the mean over the validation parts.

        Parameters
        ----------
        predictions
            As the artefact of that name; rows with NaN are left out.
        metric
            Another one than that of the objective.
        parts
            Others than the validation parts; a row may be in them several times, and must have a prediction.
        """
        if parts is None:
            known = is_predicted(predictions)
            parts, every = [valid[known[valid]] for _, valid in self.splits], np.flatnonzero(known)
        else:
            every = np.concatenate(parts)
        losses = [self._loss_on(rows, predictions, metric) for rows in parts if len(rows)]
        return float(np.mean(defined(losses, lambda: self._loss_on(every, predictions, metric))))

    def _loss_on(self, rows: NDArray[np.int64], predictions: Array, metric: Metric | None = None) -> float:
        weights = None if self.dataset.weights is None else self.dataset.weights[rows]
        return (metric or self.metric).loss(self._y[rows], predictions[rows], weights)

    def _folds(self, fidelity: Fidelity) -> Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        splits = self.splits if fidelity.rows == 1.0 else self.splits.subsample(fidelity.rows)
        return splits.pairs[: fidelity.folds]

    def _rows(self, rows: NDArray[np.int64]) -> Any:
        """Rows of the table; those that follow each other are not copied."""
        if self.dataset.is_sparse:
            return self.dataset.X[rows]
        follow = len(rows) > 0 and rows[-1] - rows[0] + 1 == len(rows)
        return self.dataset.X.iloc[rows[0] : rows[-1] + 1] if follow else self.dataset.X.iloc[rows]

    @property
    def _shape(self) -> tuple[int, ...]:
        return () if self.dataset.classes is None else (len(self.dataset.classes),)

    def _fit(
        self,
        pipeline: Pipeline,
        train: NDArray[np.int64],
        valid: NDArray[np.int64],
        seed: int,
        max_seconds: float | None = None,
    ) -> FittedFold:
        data = self.dataset
        model = self.space.build(pipeline, seed, data.preparation)
        X, X_valid = self._rows(train), self._rows(valid)
        y, y_valid = self._y[train], self._y[valid]
        weights = None if data.weights is None else data.weights[train]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a search meets thousands; what matters is in the outcome
            started = time.perf_counter()
            held = (X_valid, y_valid, None if data.weights is None else data.weights[valid])
            fit_model(model, X, y, weights, held, max_seconds)
            fitted = time.perf_counter()
            predicted, seconds = timed(
                lambda: predict_model(model, X_valid, self._shape), repeat="latency" in self._measures.of_folds
            )
        return FittedFold(model, X_valid, y_valid, predicted, fitted - started, seconds)


def fit_model(
    model: Any,
    X: Any,
    y: NDArray[Any],
    weights: Array | None = None,
    validation: tuple[Any, NDArray[Any], Array | None] | None = None,
    max_seconds: float | None = None,
) -> Any:
    """Fit a built pipeline; an estimator that can is stopped early, on validation data and when time is up."""
    *_, (name, last) = model.steps
    fit = inside(last).fit
    known = inspect.signature(fit).parameters
    options: dict[str, Any] = {}
    if weights is not None and "sample_weight" in known:
        options["sample_weight"] = weights
    if max_seconds is not None and inside(last) is last and _is_forest(last):
        inner = model[:-1].fit_transform(X, y) if len(model) > 1 else X
        _grow(last, inner, y, options, max_seconds)
        return model
    if max_seconds is not None and "max_seconds" in known:
        options["max_seconds"] = max_seconds
    if validation is None or "eval_set" not in known:
        return model.fit(X, y, **{f"{name}__{key}": value for key, value in options.items()})
    front = model[:-1]
    inner = front.fit_transform(X, y) if len(front) else X
    outer = front.transform(validation[0]) if len(front) else validation[0]
    last.fit(inner, y, eval_set=(outer, *validation[1:]), **options)
    return model


def _is_forest(estimator: Any) -> bool:
    from sklearn import ensemble as known

    extra = known.ExtraTreesClassifier | known.ExtraTreesRegressor
    is_forest = isinstance(estimator, extra | known.RandomForestClassifier | known.RandomForestRegressor)
    return is_forest and not estimator.warm_start and not estimator.oob_score


def _grow(forest: Any, X: Any, y: NDArray[Any], options: Mapping[str, Any], max_seconds: float) -> None:
    """Fit a forest with as many of its trees as there is time for, a few at least.

    scikit-learn grows the same trees in parts as it does at once, so with time enough it is the same forest.
    """
    started = time.monotonic()
    wanted = forest.n_estimators
    grown = max(1, wanted // _FIRST_TREES)
    forest.set_params(warm_start=True, n_estimators=grown)
    forest.fit(X, y, **options)
    while grown < wanted:
        used = time.monotonic() - started
        more = int(min(wanted - grown, _CAUTION * (max_seconds - used) * grown / max(used, 1e-9)))
        if more < 1:
            break
        grown += more
        forest.set_params(n_estimators=grown).fit(X, y, **options)
    forest.set_params(warm_start=False)


def inside(estimator: Any) -> Any:
    """An estimator without the wrapper that weights its classes."""
    return estimator.estimator if type(estimator).__name__ == "BalancedWeights" else estimator


def defined(losses: Sequence[float], together: Callable[[], float]) -> list[float]:
    """The losses of parts that are numbers; if none is, for each part lacks a class, that of all rows together."""
    return [loss for loss in losses if not np.isnan(loss)] or [together()]


def is_predicted(predictions: Array) -> NDArray[np.bool_]:
    """Which rows have a prediction; (n,)."""
    return np.asarray(np.isfinite(predictions.reshape(len(predictions), -1)).all(axis=1), dtype=np.bool_)


def _mean(total: Array, count: Array) -> Array:
    with np.errstate(invalid="ignore", divide="ignore"):
        return (total.T / np.where(count > 0, count, np.nan)).T
