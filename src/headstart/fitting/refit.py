"""Pipelines fitted once more, on all rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.errors import SandboxError
from headstart.evaluation.kept_models import keep
from headstart.evaluation.live import fit_model, inside
from headstart.evaluation.objective import outcome_of
from headstart.evaluation.prediction import predict_model
from headstart.fitting.shelf import Shelf
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset
    from headstart.space.space import PipelineSpace


def last_step(model: Any) -> Any:
    """The estimator at the end of a pipeline, without a wrapper that weights its classes."""
    return inside(model.steps[-1][1])


def stopped_at(models: Sequence[Any]) -> int | None:
    """Rounds at which boosting stopped, on average over the models of the folds; None for other estimators."""
    found = [last_step(m).best_iteration_ for m in models if hasattr(last_step(m), "best_iteration_")]
    return max(1, round(float(np.mean(found)))) if found else None


def more_rounds(rounds: int | None, growth: float) -> int | None:
    """Rounds for a table with `growth` times the rows that boosting was stopped on.

    With 3.3 times the rows 20 boosters on 5 tables of 14,000 to 17,000 rows stopped after 1.8 times the rounds (the
    median), which is the root of it.
    """
    return None if rounds is None else max(1, round(rounds * float(np.sqrt(growth))))


def changes_for_all_rows(models: Sequence[Any], growth: float = 1.0) -> dict[str, Any]:
    """Parameters of a booster for `growth` times the rows: its rounds, for nothing is left to stop it on, and its rate.

    The learning rate is the one that its folds were trained with, which is higher than the pipeline's where time was
    short.
    """
    rounds = more_rounds(stopped_at(models), growth)
    rates = [last_step(m).learning_rate_ for m in models if hasattr(last_step(m), "learning_rate_")]
    changes: dict[str, Any] = {} if rounds is None else {"n_estimators": rounds}
    return changes | ({"learning_rate": float(np.mean(rates))} if rates else {})


def build_for_all_rows(
    space: PipelineSpace, pipeline: Pipeline, seed: int, kinds: Mapping[str, str], changes: Mapping[str, Any]
) -> Any:
    """The pipeline, unfitted, with changed parameters of its estimator."""
    model = space.build(pipeline, seed, dict(kinds))
    last_step(model).set_params(**changes)
    return model


class RefitObjective:
    """Fits pipelines on all rows of a table; the outcome's loss means nothing, its artefact ``models`` has the model.

    Parameters
    ----------
    changes
        Of parameters of the estimator, by seed of the evaluation; see `changes_for_all_rows`.
    seconds
        By seed, after which forests and networks end with fewer trees or epochs; without a limit where it is missing.
    """

    def __init__(
        self,
        space: PipelineSpace,
        dataset: Dataset,
        changes: Mapping[int, Mapping[str, Any]],
        seconds: Mapping[int, float] | None = None,
    ) -> None:
        self.space = space
        self.dataset = dataset
        self.changes = dict(changes)
        self.seconds = dict(seconds or {})

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        del limits
        return outcome_of(lambda: self._fit(pipeline, seed), fidelity)

    def _fit(self, pipeline: Pipeline, seed: int) -> Outcome:
        data = self.dataset
        model = build_for_all_rows(self.space, pipeline, seed, data.preparation, self.changes.get(seed, {}))
        assert data.y is not None
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit_model(model, data.X, data.y, data.weights, max_seconds=self.seconds.get(seed))
        seconds = time.perf_counter() - started
        shape = () if data.classes is None else (len(data.classes),)
        few = data.X[:5] if data.is_sparse else data.X.iloc[:5]
        return Outcome.of(
            0.0, seconds=seconds, artefacts={"models": keep([model], lambda m: predict_model(m, few, shape))}
        )


def evaluate_all(
    shelf: Shelf, wanted: Sequence[tuple[Pipeline, int, Fidelity]], limits: Limits, n_jobs: int
) -> list[int]:
    """Evaluate several pipelines and return the seeds of those whose models are on the shelf now."""

    def evaluate(item: tuple[Pipeline, int, Fidelity]) -> bool:
        try:
            return shelf(item[0], limits, item[1], item[2]).ok
        except SandboxError:  # no worker can be started; what there is already is worth more than an error
            return False

    with ThreadPoolExecutor(n_jobs) as pool:
        try:
            ok = [seed for (_, seed, _), worked in zip(wanted, pool.map(evaluate, wanted), strict=True) if worked]
        except BaseException:  # Ctrl-C: the pool would wait for what runs, and for what is yet to
            pool.shutdown(wait=False, cancel_futures=True)
            shelf.interrupt()
            raise
    return [seed for seed in ok if seed in shelf]
