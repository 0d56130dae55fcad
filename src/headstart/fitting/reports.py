"""Tables about a fit: the leaderboard, failures, test scores, importance of columns."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headstart.data.columns import Kind
from headstart.data.errors import TableError
from headstart.data.read import read_table
from headstart.data.roles import as_column
from headstart.data.values import blanked
from headstart.errors import InvalidInput, check_positive, suggestion, warn_user
from headstart.evaluation.scoring import Metric
from headstart.fitting.model import Member, Model
from headstart.fitting.notebook import Leaderboard
from headstart.history import History
from headstart.trials import Trial

BATCH_ROWS = 20_000
"""Most rows that are predicted at once where a small table is shuffled several times."""
_TIMED_ROWS = 1000
_LEAST_ROWS = 100
_USABLE = 0.8
"""Of the time that importance has: predictions take more or less."""
_COLUMNS = ("rank", "score", "metric", "weight", "estimator", "pipeline", "seconds", "rows", "trial")


def leaderboard(history: History, metric: Metric, members: Iterable[Member]) -> pd.DataFrame:
    """The pipelines that worked, best first, with their share of the model; equals by trial number.

    Each constraint is a column with what was measured. Pipelines that do not satisfy all of them come last.
    """
    weights = {member.number: member.weight for member in members}
    bounds = [constraint.name for constraint in history.constraints]
    names = [stage.name for stage in history.candidates.space.stages]

    def row(rank: int, trial: Trial) -> tuple[Any, ...]:
        estimator = trial.pipeline.algorithms[-1]
        score = metric.to_score(float(trial.outcome.loss or 0.0))
        share = trial.proposal.fidelity.rows
        steps = in_words(trial, names)
        values = [trial.outcome.constraints.get(name, np.nan) for name in bounds]
        weight, seconds = weights.get(trial.number, 0.0), trial.outcome.seconds
        return rank, score, metric.name, weight, estimator, steps, seconds, share, trial.number, *values

    found = [trial for trial in history if trial.outcome.ok]
    found.sort(key=lambda t: (not history.is_feasible(t), -t.proposal.fidelity.rows, *history.rank(t)))
    return Leaderboard([row(i + 1, t) for i, t in enumerate(found)], columns=[*_COLUMNS, *bounds])


def in_words(trial: Trial, stages: list[str]) -> str:
    """The steps of a pipeline that do something, with their settings."""
    parts = []
    pipeline = trial.pipeline
    for i in pipeline.order or range(len(stages)):
        algorithm, params = pipeline.algorithms[i], pipeline.params[i]
        if algorithm in ("none", "native"):
            continue
        settings = ", ".join(f"{k}={v:.4g}" if isinstance(v, float) else f"{k}={v}" for k, v in params.items())
        parts.append(f"{algorithm}({settings})" if settings else algorithm)
    return " > ".join(parts)


def failures(history: History) -> pd.DataFrame:
    """How many evaluations failed, by estimator, status and reason; most first.

    Reasons that differ in numbers only are one; the first of them is shown.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    shown: dict[str, str] = {}
    for trial in history:
        if not trial.outcome.ok:
            first = (trial.outcome.error or "").splitlines()[:1]
            reason = re.sub(r"\d+(\.\d+)?", "#", first[0]) if first else ""
            shown.setdefault(reason, first[0] if first else "")
            counts[trial.pipeline.algorithms[-1], trial.outcome.status.value, reason] += 1
    rows = [(estimator, status, shown[reason], n) for (estimator, status, reason), n in counts.most_common()]
    return pd.DataFrame(rows, columns=["estimator", "status", "reason", "count"])


def with_target(model: Model, X: Any) -> tuple[pd.DataFrame, pd.Series[Any]]:
    """A table, and the column of it that is the target."""
    frame = read_table(X)
    if model.target not in frame.columns:
        raise TableError(
            f"the table must have the target {model.target!r} to be scored; "
            f"{suggestion(model.target, map(str, frame.columns))}; or give y"
        )
    return frame, blanked(frame[model.target], model.schema.missing)


def test_rows(model: Model, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
    """Rows in the form of the training rows, and their target as codes or numbers; rows without a target go."""
    if y is None:
        X, y = with_target(model, X)
    values = as_column(y, "y").astype(object)
    known = values.notna().to_numpy()
    ready = model.schema.apply(X)
    if len(known) != ready.shape[0]:
        raise TableError(f"X and y must have the same number of rows: X has {ready.shape[0]}, y has {len(known)}")
    rows = np.flatnonzero(known)
    if not len(rows):
        raise TableError("at least one row must have a target, found none")
    ready = ready[rows] if model.schema.n_sparse is not None else ready.iloc[rows]
    return ready, codes(model, values[known].to_numpy())


test_rows.__test__ = False  # type: ignore[attr-defined]


def codes(model: Model, values: NDArray[Any]) -> NDArray[Any]:
    """Values of the target as numbers, for classes their positions; `InvalidInput` for what the model does not know."""
    if model.classes is None:
        try:
            return values.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise TableError(f"the target {model.target!r} must contain numbers: {error}") from None
    places = {_plain(label): i for i, label in enumerate(model.classes.tolist())}
    unknown = sorted({str(v) for v in values if _plain(v) not in places})
    if unknown:
        raise InvalidInput(
            f"the target {model.target!r} must have classes that the model knows, found {', '.join(unknown[:5])}; "
            f"it knows {', '.join(map(str, model.classes[:20]))}"
        )
    return np.array([places[_plain(v)] for v in values], dtype=np.int64)


def _plain(label: Any) -> Any:
    """1, 1.0, True and "1" are one label, however a file was read."""
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if isinstance(label, int | float | np.integer | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label)


def test_leaderboard(
    table: pd.DataFrame, model: Model, ready: Any, truth: NDArray[Any], metric: Metric
) -> pd.DataFrame:
    """The members of a model and the model itself, with their scores on test rows; best first."""
    validated = np.nan if model.validation_score is None else model.validation_score
    rows = [("model", validated, model.score(ready, truth, metric), 1.0, "")]
    known = {row["trial"]: (row["score"], row["pipeline"]) for row in table.to_dict("records")}
    for member in model.members:
        score, steps = known.get(member.number, (np.nan, str(member.pipeline)))
        found = metric.score(truth, member.predictor(model.shape)(ready))
        rows.append((member.pipeline.algorithms[-1], float(score), found, member.weight, str(steps)))
    columns = ["estimator", "score", "test_score", "weight", "pipeline"]
    return pd.DataFrame(rows, columns=columns).sort_values("test_score", ascending=False, ignore_index=True)


test_leaderboard.__test__ = False  # type: ignore[attr-defined]


def permutation_importance(
    model: Model,
    ready: Any,
    truth: NDArray[Any],
    metric: Metric,
    repeats: int = 5,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    until: float | None = None,
) -> pd.DataFrame:
    """Mean and standard deviation of the fall of the score, by column, largest first (Breiman, 2001).

    Columns that no pipeline looks at, ids and constants, are left out.

    Parameters
    ----------
    ready
        A table in the form of `Dataset.X`.
    truth
        Class codes, or numbers.
    progress
        Is told how many columns are done, and of how many.
    until
        Moment by `time.monotonic` to be done at; columns are then shuffled less often, on fewer rows, or not at all.
    """
    check_positive("repeats", repeats, whole=True)
    if model.schema.n_sparse is not None:
        raise InvalidInput("importance needs a table with columns, but this model was fitted to a sparse matrix")
    names = [n for n in ready.columns if model.schema.columns[n].kind not in (Kind.ID, Kind.CONSTANT)]
    rng = np.random.default_rng(seed)
    if until is not None:
        repeats, rows = _affordable(model, ready, len(names), repeats, until)
        if rows < len(ready):
            chosen = np.sort(rng.choice(len(ready), rows, replace=False))
            ready, truth = ready.iloc[chosen], truth[chosen]
            warn_user(f"there was not time for all rows: importance was measured on {rows} of them, chosen at random")
    base = model.score(ready, truth, metric)
    orders = [rng.permutation(len(ready)) for _ in range(repeats)]
    at_once = max(1, min(repeats, BATCH_ROWS // max(1, len(ready))))
    several = pd.concat([ready] * at_once, ignore_index=True) if at_once > 1 else ready
    rows_found = []
    for done, name in enumerate(names):
        if progress is not None:
            progress(done, len(names))
        if until is not None and time.monotonic() > until and done:
            warn_user(f"there was time for {done} of {len(names)} columns; give it more, or a smaller table")
            break
        falls: list[float] = []
        for first in range(0, repeats, at_once):
            some = orders[first : first + at_once]
            shuffled = several.iloc[: len(some) * len(ready)].copy(deep=False)
            shuffled[name] = ready[name].array[np.concatenate(some)]
            found = np.split(model.predict_ready(shuffled), len(some))
            falls += [base - model.score_of(part, truth, metric) for part in found]
        rows_found.append((name, float(np.mean(falls)), float(np.std(falls))))
    table = pd.DataFrame(rows_found, columns=["feature", "importance", "std"])
    return table.sort_values("importance", ascending=False, ignore_index=True, kind="stable")


def _affordable(model: Model, ready: Any, columns: int, repeats: int, until: float) -> tuple[int, int]:
    """How often columns can be shuffled until then, and on how many rows, by how long a prediction takes."""
    seconds = []
    for rows in (1, min(len(ready), _TIMED_ROWS)):
        began = time.monotonic()
        model.predict_ready(ready.iloc[:rows])
        seconds.append(time.monotonic() - began)
    per_row = max(0.0, seconds[1] - seconds[0]) / _TIMED_ROWS
    left = _USABLE * max(0.0, until - time.monotonic())
    for times in range(repeats, 0, -1):
        if left > columns * times * (seconds[0] + per_row * len(ready)):
            return times, len(ready)
    affordable = (left / max(1, columns) - seconds[0]) / max(per_row, 1e-12)
    return 1, int(min(len(ready), max(_LEAST_ROWS, affordable)))
