"""`Model`: fitted pipelines whose weighted average predicts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput
from headstart.evaluation.live import predict_model
from headstart.fitting.decisions import Decisions
from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    from headstart.data.schema import Schema
    from headstart.evaluation.scoring import Metric

Array = NDArray[np.float64]


@dataclass(frozen=True)
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

    def predict(self, X: Any, shape: tuple[int, ...]) -> Array:
        """Mean prediction of its models for a table that is made ready."""
        found: Array = self.predict_parts(X, shape, 1)[0]
        return found

    def predict_parts(self, X: Any, shape: tuple[int, ...], parts: int) -> Array:
        """Mean predictions of parts of its models, see `Decisions`; those of all for each part if there are fewer."""
        found = [predict_model(model, X, shape) for model in self.models]
        if len(found) < parts:
            return np.repeat(np.mean(found, axis=0)[None], parts, axis=0)
        return np.array([np.mean(found[part::parts], axis=0) for part in range(parts)])


@dataclass(frozen=True)
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
        What the members predict with; see `HeadstartClassifier`.
    origin
        How the training table was read; see `Dataset`.
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            parts = np.zeros((self.decisions.folds, X.shape[0], *self.shape))
            for member in self.members:
                parts += member.weight * member.predict_parts(X, self.shape, len(parts))
        return self.decisions.calibrated(*parts) if self.classes is not None else parts[0]

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
        return self.predict_ready(self.schema.apply(source))

    def predict(self, source: Any) -> NDArray[Any]:
        """Labels, or numbers for a regression."""
        found = self.predict_ready(self.schema.apply(source))
        return found if self.classes is None else self.labels(found)

    def labels(self, probabilities: Array) -> NDArray[Any]:
        """The class chosen for each row of probabilities."""
        if self.classes is None:
            raise InvalidInput("a regression has no classes; use predict")
        chosen: NDArray[Any] = self.classes[self.decisions.choose(probabilities)]
        return chosen
