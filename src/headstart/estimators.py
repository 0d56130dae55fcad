"""`HeadstartClassifier` and `HeadstartRegressor`: a table in, a model out, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, RegressorMixin

from headstart.fitting.estimator import HeadstartEstimator

if TYPE_CHECKING:
    from headstart.optimizers.base import Optimizer
    from headstart.space.space import PipelineSpace

Array = NDArray[np.float64]

_PARAMETERS = """

    Parameters
    ----------
    time_budget
        Seconds for everything: search, ensemble, refit. 60 where neither this nor `evaluations` is given.
    evaluations
        Number of pipelines to try. With this alone the result depends on nothing but the data, `random_state` and
        `n_jobs`.
    patience
        Stop when so many pipelines in a row brought no improvement.
    metric
        Name of a scikit-learn scorer, or a callable ``scorer(estimator, X, y)``, higher is better. By default
        {metric}.
    optimizer
        Name of an optimizer, or an object; ``headstart methods`` lists them.
    knowledge
        File of what an optimizer learned from other tables, written by ``headstart metatrain``; it need not be named
        then. The search space must be the one that it was learned on, or a part of it.
    space
        Name of a search space, or a `PipelineSpace`; ``headstart show-space`` lists them.
    include, exclude
        Names of algorithms, such as ``["lightgbm", "random_forest"]``.
    ensemble
        Whether to combine the best pipelines; otherwise the model is the best one.
    max_members
        Most pipelines of an ensemble.
    refit
        What the members predict with: ``"bag"``, the mean of the models of their folds, which are there already;
        ``"full"``, one model fitted once more on all rows, for which a quarter of the time is kept; ``"single"``, the
        model of one fold, which is the smallest and fastest.{label_options}
    splitter
        Number of folds, share of a hold-out, a scikit-learn splitter, or pairs of training and validation rows. By
        default what suits the table's size and the budget.
    constraints
        Upper bounds of values that are measured for every pipeline, such as ``{{"latency": 1e-3, "size": 1e6}}``; see
        `headstart.evaluation.constraints`. The model is then one pipeline.
    n_jobs
        Evaluations at once; -1 for all cores. By default as many as there are cores and memory for.
    memory_limit
        Bytes for this process and all evaluations, such as ``4e9``. An evaluation that goes beyond its part is ended,
        and members whose fitted models would not fit are left out of the model, but for one.
    evaluation_seconds
        Most seconds for one pipeline. By default a sixth of the time budget.
    kinds
        Kinds of columns that are known better than they can be inferred: numeric, boolean, categorical, date, text,
        id, constant.
    random_state
        Seed of everything.
    store
        Directory or URL where trials are kept, so that a fit can be resumed in another process.
    sandbox
        Evaluate pipelines in processes of their own, with limits. ``False`` evaluates in this process: limits are not
        kept, but nothing has to be started; for debugging.
    verbose
        Whether to print progress.

    Attributes
    ----------
    {classes}n_features_in_, feature_names_in_
        Columns of the table.
    model_
        The `headstart.fitting.model.Model` that predicts.
    leaderboard_
        The pipelines that were tried, best first.
    failures_
        Those that failed: how often, by algorithm, status and reason.
    history_
        All trials.
    notes_
        Plain sentences: what was inferred, left out and chosen.
"""

_LABEL_OPTIONS = """
    calibrate
        Whether to calibrate probabilities, by one temperature.
    tune_threshold
        Whether to choose between classes by thresholds that are best for `metric`, which is one of labels then."""


class HeadstartClassifier(ClassifierMixin, HeadstartEstimator):  # type: ignore[misc]
    __doc__ = (
        "Finds and fits a classifier for a table within a budget."
        + _PARAMETERS.format(
            metric="the area under the ROC curve for two classes, log loss for more",
            label_options=_LABEL_OPTIONS,
            classes="classes_\n        The labels, sorted.\n    ",
        )
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

    def __init__(
        self,
        time_budget: float | None = None,
        *,
        evaluations: int | None = None,
        patience: int | None = None,
        metric: str | Callable[..., float] | None = None,
        optimizer: str | Optimizer = "default",
        knowledge: str | PathLike[str] | None = None,
        space: str | PipelineSpace | None = None,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        ensemble: bool = True,
        max_members: int = 10,
        refit: Literal["bag", "full", "single"] = "bag",
        calibrate: bool = False,
        tune_threshold: bool = False,
        splitter: Any = None,
        constraints: Mapping[str, float] | None = None,
        n_jobs: int | None = None,
        memory_limit: int | None = None,
        evaluation_seconds: float | None = None,
        kinds: Mapping[str, str] | None = None,
        random_state: int | None = 0,
        store: str | PathLike[str] | None = None,
        sandbox: bool = True,
        verbose: bool = False,
    ) -> None:
        super().__init__(
            time_budget,
            evaluations=evaluations,
            patience=patience,
            metric=metric,
            optimizer=optimizer,
            knowledge=knowledge,
            space=space,
            include=include,
            exclude=exclude,
            ensemble=ensemble,
            max_members=max_members,
            refit=refit,
            splitter=splitter,
            constraints=constraints,
            n_jobs=n_jobs,
            memory_limit=memory_limit,
            evaluation_seconds=evaluation_seconds,
            kinds=kinds,
            random_state=random_state,
            store=store,
            sandbox=sandbox,
            verbose=verbose,
        )
        self.calibrate = calibrate
        self.tune_threshold = tune_threshold

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the classes, in the order of `classes_`."""
        return self._fitted.predict_proba(self._checked(X))


class HeadstartRegressor(RegressorMixin, HeadstartEstimator):  # type: ignore[misc]
    __doc__ = "Finds and fits a regressor for a table within a budget." + _PARAMETERS.format(
        metric="the root of the mean squared error", label_options="", classes=""
    )

    _kind = "regression"
