"""`Model`: fitted pipelines whose weighted average predicts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.evaluation.prediction import Predictor, rows_at_once
from headstart.evaluation.scoring import label_of, natural
from headstart.fitting.conformal import Conformity
from headstart.fitting.decisions import Decisions
from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    import pandas as pd

    from headstart.data.schema import Schema
    from headstart.evaluation.scoring import Metric
    from headstart.fitting.summary import Summary

Array = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Member:
    """A pipeline of a model.

    Parameters
    ----------
    number
        Of its trial.
    loss
        On rows that its models had not seen.
    weight
        Its share of the average.
    models
        Fitted scikit-learn pipelines, which count the same: one for each fold, or one.
    rows
        How many rows of the table they were trained on, together; None if that is not known.
    """

    number: int
    pipeline: Pipeline
    loss: float
    weight: float
    models: Sequence[Any]
    rows: int | None = None

    def __repr__(self) -> str:
        return f"<Member {self.pipeline.algorithms[-1]}, trial {self.number}, weight {self.weight:.2g}>"

    def form(self, rows: int) -> str:
        """What it predicts with, by the rows of the table: ``"bag"``, ``"full"`` or ``"single"``.

        See `refit` of `HeadstartClassifier`. A single model of which it is not known counts as one of all rows.
        """
        if len(self.models) > 1:
            return "bag"
        return "full" if self.rows is None or self.rows >= rows else "single"

    def predictor(self, shape: tuple[int, ...]) -> Predictor:
        """From a table that is made ready to the mean prediction of its models."""
        return Predictor(self.models, self.shares(1)[:, 0], shape)

    def shares(self, parts: int) -> Array:
        """How much each model counts in each part of them, (models, parts), see `Decisions`.

        With fewer models than parts, all count in every part.
        """
        n = len(self.models)
        if n < parts:
            return np.full((n, parts), 1 / n)
        belongs = np.equal.outer(np.arange(n) % parts, np.arange(parts)).astype(np.float64)
        shares: Array = belongs / belongs.sum(axis=0)
        return shares


@dataclass(frozen=True, repr=False)
class Model:
    """What a fit gives.

    Parameters
    ----------
    schema
        What a table to predict must look like.
    task
        ``"binary"``, ``"multiclass"`` or ``"regression"``.
    classes
        The labels, sorted; None for a regression.
    members
        At least one; their weights sum to 1.
    metric
        Name of what was optimised.
    target
        Name of the target.
    decisions
        How probabilities are calibrated and classes chosen.
    notes
        Plain sentences about how it came about.
    validation_score
        Of the whole model, on the rows by which its members were selected, counted as on the leaderboard; None for
        the simple model.
    refit
        What the members predict with, see `HeadstartClassifier`; ``"mixed"`` where they differ, as when there was no
        time to fit all of them on all rows; None for the simple model.
    origin
        How the training table was read; see `Dataset`.
    summary
        How good it is; None for the simple model.
    conformity
        How far off predictions for validation rows were; None for the simple model.
    reference
        Values of the columns that explanations compare with, see `headstart.fitting.explain`; None for a sparse matrix.
    """

    schema: Schema
    task: str
    classes: NDArray[Any] | None
    members: tuple[Member, ...]
    metric: str
    target: str = "target"
    decisions: Decisions = field(default_factory=Decisions)
    notes: tuple[str, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)
    validation_score: float | None = None
    refit: str | None = None
    summary: Summary | None = None
    conformity: Conformity | None = None
    reference: pd.DataFrame | None = None

    def __repr__(self) -> str:
        """In a line; the members are in `members` and on the leaderboard."""
        models = sum(len(member.models) for member in self.members)
        what = f"{len(self.members)} pipeline{'s' * (len(self.members) > 1)}, {models} model{'s' * (models > 1)}"
        score = self.validation_score
        scored = "" if score is None else f", {label_of(self.metric)} {natural(self.metric, score):.4g}"
        return f"<Model of {self.target!r}, {self.task}: {what}{scored}>"

    @property
    def best(self) -> Member:
        """The member with the lowest loss; of equals the one that weighs most."""
        return min(self.members, key=lambda m: (m.loss, -m.weight))

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the prediction for one row."""
        return () if self.classes is None else (len(self.classes),)

    def predict_ready(self, X: Any) -> Array:
        """Probabilities (n, classes) or numbers (n,) for a table in the form of `Dataset.X`."""
        parts = self._predictor(X)
        return self.decisions.calibrated(*parts) if self.classes is not None else np.asarray(parts[0])

    def warm_up(self) -> None:
        """Predict for the reference, so that the first call takes no longer than others.

        Libraries import a part of themselves when they are first used.
        """
        if self.reference is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.predict_ready(self.schema.apply(self.reference))

    @cached_property
    def _predictor(self) -> Predictor:
        """Made when it is first needed; it finds out what the members have in common."""
        models = [model for member in self.members for model in member.models]
        weights = [member.weight * member.shares(self.decisions.folds) for member in self.members]
        return Predictor(models, np.concatenate(weights), self.shape)

    def __getstate__(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    def score(self, X: Any, truth: NDArray[Any], metric: Metric) -> float:
        """How good it is on a table in the form of `Dataset.X`, with classes as it chooses them."""
        return self.score_of(self.predict_ready(X), truth, metric)

    def score_of(self, predictions: Array, truth: NDArray[Any], metric: Metric) -> float:
        """How good predictions are that `predict_ready` made."""
        return metric.score(truth, predictions if self.classes is None else self.decisions.judged(predictions))

    def predict_proba(self, source: Any) -> Array:
        """Probabilities of the classes, (n, classes), for anything that `read_table` takes."""
        if self.classes is None:
            raise InvalidInput("a regression has no probabilities; use predict")
        return self._in_parts(source, self.predict_ready)

    def _in_parts(self, source: Any, of: Callable[[Any], NDArray[Any]]) -> NDArray[Any]:
        """What `of` gives for anything that `read_table` takes; it gets tables in the form of `Dataset.X`.

        Large tables are converted in parts, to save memory.
        """
        table = self.schema.read(source)
        size, n = rows_at_once(self.schema.n_features), table.shape[0]
        if self.schema.n_sparse is not None or n <= size:
            return of(self.schema.convert(table))
        parts = [of(self.schema.convert(table.iloc[start : start + size])) for start in range(0, n, size)]
        return np.concatenate(parts)

    def predict(self, source: Any) -> NDArray[Any]:
        """Labels, or numbers for a regression."""
        found = self._in_parts(source, self.predict_ready)
        return found if self.classes is None else self.labels(found)

    def labels(self, probabilities: Array) -> NDArray[Any]:
        """The class chosen for each row of probabilities."""
        if self.classes is None:
            raise InvalidInput("a regression has no classes; use predict")
        chosen: NDArray[Any] = self.classes[self.decisions.choose(probabilities)]
        return chosen

    # -- intervals and sets -------------------------------------------------------------------------------------------

    def predict_interval(self, source: Any, coverage: float = 0.9) -> Array:
        """Bounds (n, 2) between which the share `coverage` of true numbers lies; see `headstart.fitting.conformal`."""
        if self.classes is not None:
            raise InvalidInput("classes have no intervals; use predict_set")
        conformity = self._conformity(coverage)
        return self._in_parts(source, lambda X: conformity.intervals(self._fold_predictor(X), coverage))

    def predict_set(self, source: Any, coverage: float = 0.9) -> NDArray[np.bool_]:
        """Which classes are in the set (n, classes) that has the true one in the share `coverage` of rows."""
        if self.classes is None:
            raise InvalidInput("a regression has no classes; use predict_interval")
        conformity = self._conformity(coverage)
        return self._in_parts(source, lambda X: conformity.sets(self._fold_predictor(X), coverage))

    def _conformity(self, coverage: float) -> Conformity:
        if self.conformity is None:
            why = "a simple one that was not validated" if self.summary is None else "of an older file"
            raise InvalidInput(f"intervals and sets need the residuals of validation, and this model is {why}; refit")
        self.conformity.check(coverage)
        return self.conformity

    @cached_property
    def _fold_predictor(self) -> Predictor:
        """What the models of each fold predict together, (folds, n, ...); a member without them counts in all."""
        assert self.conformity is not None
        models = [model for member in self.members for model in member.models]
        weights = [member.weight * member.shares(self.conformity.folds) for member in self.members]
        return Predictor(models, np.concatenate(weights), self.shape)
