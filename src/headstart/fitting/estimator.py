"""What `HeadstartClassifier` and `HeadstartRegressor` share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from headstart.data.dataset import Dataset
from headstart.data.errors import TableError
from headstart.errors import InvalidInput, check_positive, warn_user
from headstart.files import replace_file, writable_file
from headstart.fitting import reports
from headstart.fitting.checks import check_features, check_pair
from headstart.fitting.clock import within
from headstart.fitting.model import Model
from headstart.fitting.progress import Lines, Progress
from headstart.fitting.settings import Parameters, Settings

if TYPE_CHECKING:
    from headstart.fitting.evidence import Record
    from headstart.fitting.explain import Explanation
    from headstart.fitting.run import Run
    from headstart.fitting.summary import Summary
    from headstart.history import History
    from headstart.report.tree import TreeView

_LEAST_REPORT_SECONDS = 0.01
"""For a report when the time is up: enough for what is known already."""


class HeadstartEstimator(BaseEstimator, Parameters):  # type: ignore[misc]
    """What both estimators share.

    Attributes
    ----------
    n_features_in_, feature_names_in_
        Columns of the table.
    classes_
        The labels, sorted; of a classifier.
    model_
        The `headstart.fitting.model.Model` that predicts.
    score_
        Score of the model in validation, in scikit-learn's direction as on the leaderboard; None for a simple model.
    summary_
        That score as people write it, with an interval, the scores of a constant and of a linear model, and more: a
        `headstart.fitting.summary.Summary`; ``print`` it. None for a simple model.
    leaderboard_
        The pipelines that were tried, best first.
    failures_
        Those that failed: how often, by algorithm, status and reason.
    history_
        All trials.
    notes_
        Plain sentences: what was inferred, left out and chosen.
    """

    model_: Model
    leaderboard_: pd.DataFrame
    failures_: pd.DataFrame
    history_: History
    notes_: list[str]

    _kind: Literal["classification", "regression"]
    _run: Run | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: ArrayLike | str | None = None,
        groups: ArrayLike | str | None = None,
        *,
        times: ArrayLike | str | None = None,
        target: str | None = None,
        resume: bool | str = False,
        progress: Progress | None = None,
        started: float | None = None,
        reserve: float = 0.0,
        report: bool = True,
    ) -> Self:
        """Search for pipelines and make a model of the best.

        Parameters
        ----------
        X
            A DataFrame, an array, a sparse matrix, or the path of a file.
        y
            One value per row; or leave it out and name the column with `target`.
        sample_weight
            How much each row counts; values or the name of a column.
        groups
            Rows of one group are never split between training and validation.
        times
            Training rows are then always before validation rows.
        target
            Name of the column of X to predict.
        resume
            Continue the last fit, of this object or in `store`, with a new time budget. An object that was loaded
            brings its fitted models along; otherwise the best pipelines in `store` are refitted: first or, without a
            time budget, at the end. The name of a study continues that one of several in `store`.
        progress
            Is told what happens; see `headstart.fitting.progress`.
        started
            Unix time when the time budget began; now by default.
        reserve
            Seconds of the time budget to leave for what comes after the fit, such as saving the model.
        report
            Whether to write `report_file`. False is for who saves the model first and calls `write_report` then.
        """
        from headstart.fitting.run import Run  # a model that is loaded needs no search

        started = time.time() if started is None else started
        settings = Settings.of(self)
        with within(settings.seconds if isinstance(X, str | PathLike) else None, "reading the table"):
            dataset = self._dataset(X, y, target, sample_weight, groups, times)
        if progress is None:
            progress = self._shown()
        if resume and self._run is not None and self._run.table.key == dataset.key:
            self._run.restart(settings, started, reserve, progress)
        elif resume and self._run is not None:
            raise InvalidInput("a fit can only be resumed with the same data; leave resume out to start a new fit")
        elif resume and self.store is None:
            raise InvalidInput("nothing to resume: this object has not been fitted and has no store; leave resume out")
        else:
            self._run = None  # its files are removed before there are new ones
            self._run = Run(dataset, settings, resume=resume, started=started, reserve=reserve, progress=progress)
            if resume and "model_" in self.__dict__:  # one that was loaded
                self._run.take(self.model_, self.leaderboard_["trial"].tolist())
        self._forget()
        self._set_columns(dataset)
        self._run.search()
        self._take(self._run, report)
        return self

    def finish(self, *, report: bool = True) -> Self:
        """Make the model of what was found by a `fit` that Ctrl-C stopped; `report` as in `fit`."""
        if self._run is None:
            raise InvalidInput("nothing to finish: fit has not been called, or did not reach the search; call fit")
        self._take(self._run, report)
        return self

    def _dataset(self, X: Any, y: Any, target: str | None, weights: Any, groups: Any, times: Any) -> Dataset:
        """The dataset of what `fit` was given."""
        roles: dict[str, Any] = {"weights": weights, "groups": groups, "times": times, "kinds": self.kinds}
        roles["missing"] = self.missing or None
        task = "regression" if self._kind == "regression" else "classification"
        if isinstance(y, str) and target is None:
            target, y = y, None
        if target is not None:
            if y is not None:
                raise InvalidInput("give y or target, not both")
            return Dataset.from_table(X, target, task=task, **roles)
        if isinstance(X, Dataset):
            given = [name for name, value in {"y": y, **roles}.items() if value is not None]
            if given:
                raise InvalidInput(
                    f"a Dataset already has its target and roles; give {', '.join(given)} to Dataset instead"
                )
            if (X.task == "regression") != (self._kind == "regression"):
                found = f"its task is {X.task}" if X.task else "it has no target"
                raise InvalidInput(f"{type(self).__name__} needs a dataset for {self._kind}, but {found}")
            return X
        X, y = check_pair(X, y, self._kind)
        roles |= {name: np.asarray(roles[name]) for name in ("weights", "groups") if _array_like(roles[name])}
        return Dataset.from_arrays(X, y, task=task, **roles)

    def _shown(self) -> Progress:
        """What shows progress here: in a notebook a picture, elsewhere lines; nothing unless it is wanted."""
        if not self.verbose:
            return Progress()
        from headstart.fitting.notebook import NotebookProgress, in_notebook

        return NotebookProgress() if in_notebook() else Lines()

    def _set_columns(self, dataset: Dataset) -> None:
        self.n_features_in_ = dataset.n_features
        if not dataset.is_sparse and not dataset.schema.by_position:
            self.feature_names_in_ = np.asarray(dataset.schema.names, dtype=object)
        if dataset.classes is not None:
            self.classes_ = dataset.classes

    def _forget(self) -> None:
        for name in ("feature_names_in_", "model_", "_best"):
            self.__dict__.pop(name, None)

    def _take(self, run: Run, report: bool = True) -> None:
        """The model of a run that has searched, and reports about it."""
        try:
            self.model_ = run.finish()
            self.history_ = run.history
            self.leaderboard_ = reports.leaderboard(run.history, run.metric, self.model_.members)
            self.failures_ = reports.failures(run.history)
            self.notes_ = list(self.model_.notes)
            if report and self.report_file is not None:
                self.write_report(run.report_end)
        finally:
            run.progress.end(run)

    def write_report(self, end: float | None = None, record: Record | None = None) -> bool:
        """Write `report_file`, whatever happens: a report that fails is a warning, and costs no model.

        Parameters
        ----------
        end
            Unix time to be done at; what takes longer is left out.
        record
            See `report`.

        Returns
        -------
        Whether it was written.
        """
        from headstart.fitting.evidence import REPORT_SECONDS

        if self._run is not None:
            self._run.progress.phase(self._run, "writing the report")
        left = None if end is None else min(max(end - time.time(), _LEAST_REPORT_SECONDS), REPORT_SECONDS)
        try:
            self.report(self.report_file, time_budget=left, record=record)  # type: ignore[arg-type]
        except Exception as error:
            warn_user(f"the report could not be written, {type(error).__name__}: {error}; the model is not affected")
            return False
        return True

    # -- use --------------------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> NDArray[Any]:
        """Labels, or numbers for a regression, for anything that `fit` takes."""
        return self._fitted.predict(self._checked(X))

    @property
    def score_(self) -> float | None:
        """Score of the model in validation, in scikit-learn's direction."""
        return self._fitted.validation_score

    @property
    def summary_(self) -> Summary | None:
        """How good the model is, in the numbers that one asks for."""
        return self._fitted.summary

    @property
    def _fitted(self) -> Model:
        check_is_fitted(self, "model_")
        return self.model_

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self, "model_")
        X = check_features(X)
        if not hasattr(X, "columns") and hasattr(X, "shape") and X.shape[1] != self.n_features_in_:
            raise TableError(
                f"X has {X.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} features "
                f"as input"
            )
        return X

    @property
    def best_pipeline_(self) -> Any:
        """The best pipeline as a plain scikit-learn `Pipeline`, fitted on all rows when it is first asked for.

        It takes the table that `fit` was given, as a DataFrame, and predicts labels as they were given.
        """
        check_is_fitted(self, "model_")
        if "_best" not in self.__dict__:
            if self._run is None:
                raise InvalidInput(
                    "best_pipeline_ was not fitted before this model was saved, and the file has no training rows; "
                    "access best_pipeline_ before saving, or run the script that export_code returns"
                )
            self._best = _best_pipeline(self._run, self.model_)
        return self._best

    @property
    def tree_(self) -> TreeView:
        """The tree of structures that the search has grown; print it, look at it in a notebook, or `save` it."""
        check_is_fitted(self, "model_")
        if self._run is None:
            raise InvalidInput(
                "a saved model does not keep its search; use 'headstart tree' on the directory of the fit"
            )
        from headstart.report.tree import TreeView

        order = getattr(self._run.study.optimizer, "order", ())
        return TreeView.of(self._run.history, order, self._run.metric)

    def leaderboard(self, X: Any = None, y: Any = None) -> pd.DataFrame:
        """The pipelines that were tried, best first; with a test table also how well the members do on that."""
        check_is_fitted(self, "model_")
        if X is None:
            return self.leaderboard_
        return reports.test_leaderboard(self.leaderboard_, self.model_, *self._test_rows(X, y), self._metric())

    def feature_importance(
        self,
        X: Any,
        y: Any = None,
        *,
        repeats: int = 5,
        seed: int = 0,
        progress: Callable[[int, int], None] | None = None,
        time_budget: float | None = None,
    ) -> pd.DataFrame:
        """How much worse the metric is when a column's values are shuffled: mean and standard deviation.

        Columns that the model does not use, such as ids, are left out.

        Parameters
        ----------
        X, y
            Best a table that the model was not trained on; without y the table must have the target's column.
        repeats
            How many times each column is shuffled.
        progress
            Is told how many columns are done, and of how many.
        time_budget
            Seconds. Where they are too few, columns are shuffled less often and on fewer rows.
        """
        began = time.monotonic()
        check_positive("time_budget", time_budget)
        ready, truth = self._test_rows(X, y)
        until = None if time_budget is None else began + time_budget
        metric = self._metric()
        return reports.permutation_importance(self.model_, ready, truth, metric, repeats, seed, progress, until)

    def report(
        self,
        path: str | PathLike[str],
        X: Any = None,
        y: Any = None,
        *,
        time_budget: float | None = None,
        record: Record | None = None,
    ) -> None:
        """Write a report about the fit and its model: one HTML file that needs no network.

        Parameters
        ----------
        path
            An existing file is replaced.
        X, y
            A test table, to score the model on; without y it must have the target's column.
        time_budget
            Seconds; 60 by default. What would take longer is left out, and the report says so.
        record
            What is known of the fit, where this object has been loaded from a file; see
            `headstart.fitting.evidence.Record`.
        """
        from headstart.fitting.evidence import REPORT_SECONDS, Record, write_report

        began = time.monotonic()
        check_positive("time_budget", time_budget)
        check_is_fitted(self, "model_")
        writable_file(path)
        test = None if X is None else self._test_rows(X, y)
        seconds = REPORT_SECONDS if time_budget is None else time_budget
        if record is None:
            record = Record(seed=self.random_state or 0)
            if self._run is not None:
                record = Record.of(self._run)
                if self.report_file is None:
                    self._compare(self._run, 0.4 * seconds)
        until = began + seconds
        page = write_report(self.model_, record, self._metric(), test, until)
        replace_file(path, lambda new: new.write_text(page, encoding="utf-8"))

    def _compare(self, run: Run, seconds: float) -> None:
        """Add scores of simple models to the summary, which a fit without a report has not."""
        from headstart.fitting.assembly import Assembly
        from headstart.fitting.references import LIGHTGBM, LINEAR

        summary = self.model_.summary
        if summary is None or summary.lightgbm is not None:
            return
        try:
            run.compare(seconds)
        finally:
            run.release()
        found = Assembly(run).reference_scores()
        summary = replace(summary, linear=found.get(LINEAR), lightgbm=found.get(LIGHTGBM))
        self.model_ = replace(self.model_, summary=summary)

    def explain(self, X: Any, *, background: Any = None) -> Explanation:
        """How much each column of the table contributes to each prediction, by shap; needs ``headstart[explain]``.

        Parameters
        ----------
        X
            Rows to explain.
        background
            A table of rows to compare with; contributions sum to the difference from their mean prediction. By default
            values that the model keeps of its training table, see `headstart.fitting.explain`.
        """
        from headstart.fitting.explain import explain

        model = self._fitted
        given = None if background is None else model.schema.apply(self._checked(background))
        return explain(model, model.schema.apply(self._checked(X)), given)

    def _with_target(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Features and target, which may be a column of X; then rows without one are left out."""
        if y is not None:
            return X, y
        frame, values = reports.with_target(self._fitted, X)
        known = values.notna().to_numpy()
        truth = reports.codes(self.model_, values[known].to_numpy())
        features = frame.drop(columns=self.model_.target)[known]
        return features, truth if self.model_.classes is None else self.model_.classes[truth]

    def _metric(self) -> Any:
        from headstart.evaluation.scoring import Metric

        given = self.get_params(deep=False)["metric"]
        return Metric(given if given is not None else self.model_.metric, self.model_.task)

    def _test_rows(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        """Test rows in the form of the training rows, and their target as codes or numbers."""
        check_is_fitted(self, "model_")
        return reports.test_rows(self.model_, X, y)

    def save(self, path: str | PathLike[str], *, safe: bool = True) -> None:
        """Write the model to a file; see `headstart.fitting.saving`.

        Parameters
        ----------
        path
            An existing file is replaced if it is a model, and left alone otherwise.
        safe
            Write data only, which `load` reads without running code from the file. ``False`` writes a pickle, which
            can also contain algorithms and metrics of your own, and which only those should load who trust you.
        """
        from headstart.fitting.saving import save

        check_is_fitted(self, "model_")
        save(self, path, safe=safe)

    @classmethod
    def load(cls, path: str | PathLike[str], *, trusted: bool = False) -> Self:
        """Read a model that was saved.

        Parameters
        ----------
        trusted
            Also read a pickle. Loading a pickle runs code that its writer chose: say True only for a file whose writer
            you trust as you trust the programs that you run.
        """
        from headstart.fitting.saving import load

        found: Self = load(path, (cls,), trusted=trusted)
        return found

    def export_code(self, table: str = "table.csv") -> str:
        """A Python script that builds the best pipeline and fits it to `table`, without Headstart."""
        from headstart.fitting.export import export_code

        check_is_fitted(self, "model_")
        return export_code(self, table)

    def export_onnx(self, path: str | PathLike[str], *, best: bool = False) -> None:
        """Write the fitted model as an ONNX file, from raw columns to probabilities; needs ``headstart[onnx]``.

        See `headstart.fitting.onnx_export` for the inputs.

        Parameters
        ----------
        best
            The best pipeline alone instead of the ensemble.
        """
        from headstart.fitting.onnx_export import export_onnx

        export_onnx(self._fitted, path, best)

    def serve(self, host: str = "127.0.0.1", port: int = 8000) -> None:
        """Answer requests for predictions over HTTP, until interrupted; see `headstart.fitting.serving`."""
        from headstart.fitting.serving import Server

        with Server(self._fitted, host, port) as server:
            server.serve_forever()

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        state.pop("_run", None)  # open files and processes
        state.pop("history_", None)
        return state

    def _html_repr(self) -> str:
        """What a notebook shows: how good the model is once there is one, before that scikit-learn's diagram."""
        if "model_" not in self.__dict__:
            return str(super()._html_repr())
        from headstart.fitting.notebook import estimator_html

        return estimator_html(self)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags


def _array_like(value: Any) -> bool:
    return value is not None and not isinstance(value, str | pd.Series)


def _best_pipeline(run: Run, model: Model) -> Any:
    """The best member's pipeline, fitted on all rows with the labels as they were given."""
    from headstart.evaluation.live import fit_model
    from headstart.fitting.refit import build_for_all_rows, changes_for_all_rows

    best = model.best
    data = run.dataset
    assert data.y is not None
    if best.number < 0:  # the simple fallback model
        pipeline = clone(best.models[0])
    else:
        seed, changes = run.seed_of(best.number), changes_for_all_rows(best.models)
        pipeline = build_for_all_rows(run.space, best.pipeline, seed, data.preparation, changes)
    y = data.y if data.classes is None else data.classes[data.y]
    return fit_model(pipeline, data.X, y, data.weights)
