"""What a report shows, as plain data: `Content` and its parts.

`headstart.fitting.evidence` fills it in, `headstart.report.page` turns it into a page. Texts may be anything that a
table contains: they are escaped when the page is written. Scores are as people write them, "RMSE 53.6".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


@dataclass(frozen=True)
class Score:
    """A score beside others.

    Parameters
    ----------
    name
        Whose: ``"this model"``, ``"constant"``.
    value
        The score.
    interval
        Where 95 % of it lie; None if that is not known.
    role
        ``"model"``, ``"test"`` or ``"reference"``.
    """

    name: str
    value: float
    interval: tuple[float, float] | None = None
    role: str = "reference"


@dataclass(frozen=True)
class Verdict:
    """How good the model is.

    Parameters
    ----------
    metric
        As people call it.
    higher_is_better
        Whether more of it is better.
    scores
        Of the model and the references, all on the same folds; on a test table last.
    others
        Scores of the model in other metrics.
    summary
        In sentences.
    warnings
        What a reader must know before using the model.
    facts
        A few more numbers, with what they are of.
    """

    metric: str
    higher_is_better: bool
    scores: Sequence[Score]
    others: Mapping[str, float] = field(default_factory=dict)
    summary: Sequence[str] = ()
    warnings: Sequence[str] = ()
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Parameters
    ----------
    kind
        As Headstart has inferred it.
    missing
        Share of the rows without a value.
    values
        In words: range, most frequent values.
    shares
        Of the rows in a few bins, for a small picture; empty if there is none.
    """

    name: str
    kind: str
    missing: float = 0.0
    values: str = ""
    shares: Sequence[float] = ()


@dataclass(frozen=True)
class Table:
    """The table that was learned from.

    Parameters
    ----------
    target
        The column to predict; its `values` say what it contains.
    columns
        The features, as many as are shown.
    n_columns
        How many there are.
    left_out
        Names of columns that no pipeline looks at, by the reason.
    notes
        What was inferred and changed, and what looks suspicious.
    """

    name: str
    rows: int
    n_columns: int
    target: Column
    columns: Sequence[Column] = ()
    kinds: Mapping[str, int] = field(default_factory=dict)
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Family:
    """What became of the pipelines with one estimator; scores are None where none worked."""

    name: str
    tried: int
    failed: int
    best: float | None
    median: float | None
    seconds: float


@dataclass(frozen=True)
class Search:
    """How the model was found.

    Parameters
    ----------
    seconds, scores
        When each pipeline that worked was finished, in seconds of search, and its score.
    full
        Which of these were evaluated on all rows.
    families
        By estimator, the best first.
    failures
        How often a reason was given: estimator, status, reason, count.
    phases
        Seconds by what they were spent on.
    facts
        Optimizer, space and the like.
    """

    tried: int
    seconds: Array
    scores: Array
    full: Array
    families: Sequence[Family] = ()
    failures: Sequence[tuple[str, str, str, int]] = ()
    phases: Mapping[str, float] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Step:
    """A step of a pipeline: its stage, its algorithm, its settings."""

    stage: str
    algorithm: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """A pipeline of the model, with its share of the average."""

    weight: float
    score: float | None
    steps: Sequence[Step]
    form: str
    trial: int | None = None


@dataclass(frozen=True)
class Curve:
    """A line of a chart; `note` stands behind its name in the legend."""

    name: str
    x: Array
    y: Array
    note: str = ""


@dataclass(frozen=True)
class Importance:
    """How much the score worsens when a column is shuffled: mean and standard deviation."""

    feature: str
    mean: float
    spread: float


@dataclass(frozen=True)
class Dependence:
    """The mean prediction by the value of one column.

    Parameters
    ----------
    values
        Numbers, or texts for a category.
    curves
        One for each class that is shown, or one; x are positions in `values` for a category, seconds since 1970 for a
        date.
    """

    feature: str
    values: Sequence[str] | None
    curves: Sequence[Curve]
    predicted: str
    is_date: bool = False


@dataclass(frozen=True)
class Behaviour:
    """What the model does, on rows that its models had not seen.

    Parameters
    ----------
    where
        Which rows, in words.
    roc, precision_recall, calibration
        For classes.
    confusion
        (classes, classes) counts, rows by the true class; `labels` are their names.
    actual, predicted
        For numbers, of some rows.
    residual_edges, residual_counts
        A histogram of actual minus predicted.
    error_quantiles
        Absolute errors that a share of the rows stays below, by the share.
    importance_where
        Which rows importance and dependence were measured on.
    """

    where: str = ""
    roc: Sequence[Curve] = ()
    precision_recall: Sequence[Curve] = ()
    calibration: Sequence[Curve] = ()
    labels: Sequence[str] = ()
    confusion: Array = field(default_factory=lambda: np.zeros((0, 0)))
    actual: Array = field(default_factory=lambda: np.zeros(0))
    predicted: Array = field(default_factory=lambda: np.zeros(0))
    residual_edges: Array = field(default_factory=lambda: np.zeros(0))
    residual_counts: Array = field(default_factory=lambda: np.zeros(0))
    error_quantiles: Mapping[float, float] = field(default_factory=dict)
    importance: Sequence[Importance] = ()
    importance_where: str = ""
    dependences: Sequence[Dependence] = ()


@dataclass(frozen=True)
class Bound:
    """A constraint: its value and the score of each pipeline that was measured.

    Parameters
    ----------
    text
        As it was given, ``"latency <= 1 ms"``.
    unit
        Of `values` and `upper`; empty if they have none.
    chosen
        Which of the pipelines is in the model; (n,) booleans.
    """

    text: str
    name: str
    unit: str
    upper: float
    values: Array
    scores: Array
    chosen: Array


@dataclass(frozen=True)
class Content:
    """All that a report shows.

    Parameters
    ----------
    title, made
        What the report is about, and when it was made.
    tree
        The page of a search tree, safe HTML; empty without one.
    card
        Terms and what is to be said about them.
    reproduce
        A command or a script.
    left_out
        What the report lacks, and why, by section.
    """

    title: str
    made: str
    verdict: Verdict
    table: Table | None
    search: Search | None
    members: Sequence[Member]
    behaviour: Behaviour
    bounds: Sequence[Bound] = ()
    constraint_notes: Sequence[str] = ()
    tree: str = ""
    card: Mapping[str, str] = field(default_factory=dict)
    reproduce: str = ""
    left_out: Mapping[str, Sequence[str]] = field(default_factory=dict)
