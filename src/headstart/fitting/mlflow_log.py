"""A fit as a run of MLflow: its settings, trials, model and report."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headstart.errors import InvalidInput, MissingDependency
from headstart.fitting.progress import Progress, best_so_far
from headstart.trials import Trial

if TYPE_CHECKING:
    from headstart.fitting.run import Run

_MOST_TEXT = 500
"""Characters of a parameter that every backend of MLflow takes."""


class MlflowLog(Progress):
    """Logs a fit: give it to `fit` as `progress`, and afterwards the model to `log_model`.

    The settings become parameters. Each trial is a step of the metrics ``score``, ``best`` and ``seconds``, in
    scikit-learn's direction as on the leaderboard. Needs ``headstart[mlflow]``.

    Parameters
    ----------
    experiment
        Its name; made if there is none.
    tracking_uri
        Where; by default what MLflow is set to.
    name
        Of the run.

    Attributes
    ----------
    run_id
        Of the run, once a fit has begun.

    Examples
    --------
    ::

        log = MlflowLog("churn", "http://127.0.0.1:5000")
        model = HeadstartClassifier(time_budget=60).fit(X, y, progress=log)
        log.log_model(model)
    """

    def __init__(self, experiment: str = "headstart", tracking_uri: str | None = None, name: str | None = None) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise MissingDependency("logging to MLflow needs it; pip install 'headstart[mlflow]'") from error
        self.client: Any = MlflowClient(tracking_uri)
        found = self.client.get_experiment_by_name(experiment)
        self.experiment_id = self.client.create_experiment(experiment) if found is None else found.experiment_id
        self.name = name
        self.run_id: str | None = None

    def begin(self, run: Run) -> None:
        self.run_id = self.client.create_run(self.experiment_id, run_name=self.name).info.run_id
        for name, value in vars(run.settings).items():
            if value is not None:
                self.client.log_param(self.run_id, name, str(value)[:_MOST_TEXT])
        self.client.set_tag(self.run_id, "table", repr(run.table)[:_MOST_TEXT])
        self.client.set_tag(self.run_id, "metric", run.metric.name)

    def trial(self, run: Run, trial: Trial) -> None:
        step, outcome = trial.number, trial.outcome
        self.client.log_metric(self.run_id, "seconds", outcome.seconds, step=step)
        if outcome.ok and outcome.loss is not None:
            self.client.log_metric(self.run_id, "score", run.metric.to_score(outcome.loss), step=step)
        best = best_so_far(run)
        if best is not None:
            score = run.metric.to_score(float(best.outcome.loss or 0.0))
            self.client.log_metric(self.run_id, "best", score, step=step)

    def log_model(self, estimator: Any, files: Iterable[str | PathLike[str]] = ()) -> None:
        """Log the file of a fitted model, its leaderboard and its report, and end the run.

        Parameters
        ----------
        files
            Others to log with it.
        """
        if self.run_id is None:
            raise InvalidInput("there is no run yet: give this object to fit as progress first")
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder)
            estimator.save(place / "model.headstart")
            estimator.leaderboard_.to_csv(place / "leaderboard.csv", index=False)
            if callable(report := getattr(estimator, "report", None)):
                report(place / "report.html")
            for path in [*sorted(place.iterdir()), *map(Path, files)]:
                self.client.log_artifact(self.run_id, str(path))
        if estimator.score_ is not None:
            self.client.log_metric(self.run_id, "model_score", estimator.score_)
        self.client.set_terminated(self.run_id)
