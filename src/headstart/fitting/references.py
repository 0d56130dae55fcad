"""Simple models that a fit is compared with, judged on its own folds: a linear model, LightGBM with its defaults.

They run in the workers of the search, within limits of their own, and are no trials: neither the search nor the model
knows of them. A constant needs no fit; see `headstart.fitting.summary.constant_loss`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import SandboxError
from headstart.evaluation.live import LiveObjective, fit_model
from headstart.evaluation.objective import Objective, outcome_of
from headstart.evaluation.prediction import predict_model
from headstart.fitting.refit import build_for_all_rows
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome

if TYPE_CHECKING:
    from headstart.fitting.run import Run

Array = NDArray[np.float64]

LINEAR, LIGHTGBM = "linear", "lightgbm"
LIGHTGBM_DEFAULTS = {
    "n_estimators": 100,
    "learning_rate": 0.1,
    "num_leaves": 31,
    "min_child_samples": 20,
    "subsample": 1.0,
    "colsample_bytree": 1.0,
    "reg_alpha": 0.0,
    "reg_lambda": 0.0,
    "extra_trees": False,
}
"""As the library has them; nothing is stopped early."""
_REQUESTS = {name: Pipeline(["reference", name]) for name in (LINEAR, LIGHTGBM)}
"""What stands for them in a request to `WithReferences`."""


class WithReferences:
    """An objective that also evaluates references when asked for one.

    Parameters
    ----------
    objective
        Evaluates all other pipelines.
    live
        Whose table and folds they are judged on.
    """

    def __init__(self, objective: Objective, live: LiveObjective) -> None:
        self.objective = objective
        self.live = live

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        name = next((name for name, request in _REQUESTS.items() if request == pipeline), None)
        if name is None:
            return self.objective(pipeline, limits, seed, fidelity)
        return outcome_of(lambda: self._evaluate(name, seed))

    def _evaluate(self, name: str, seed: int) -> Outcome:
        data, splits = self.live.dataset, self.live.splits
        assert data.y is not None
        shape = () if data.classes is None else (len(data.classes),)
        total, count = np.zeros((data.n_rows, *shape)), np.zeros(data.n_rows)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for train, valid in splits:
                X, X_valid = (data.X[rows] if data.is_sparse else data.X.iloc[rows] for rows in (train, valid))
                weights = None if data.weights is None else data.weights[train]
                model = fit_model(_build(name, data, seed), X, data.y[train], weights)
                total[valid] += predict_model(model, X_valid, shape)
                count[valid] += 1
        predictions = np.full_like(total, np.nan)
        known = count > 0
        predictions[known] = (total[known].T / count[known]).T
        return Outcome.of(self.live.loss_of(predictions), artefacts={"predictions": predictions})


def _build(name: str, data: Any, seed: int) -> Any:
    """The reference, unfitted."""
    from headstart.space import catalog

    kind = "regression" if data.classes is None else "classification"
    space = catalog.load(kind)
    linear = "ridge" if data.classes is None else "logistic_regression"
    pipeline = space.default({"estimator": [LIGHTGBM if name == LIGHTGBM else linear]})
    changes = LIGHTGBM_DEFAULTS if name == LIGHTGBM else {}
    return build_for_all_rows(space, pipeline, seed, data.preparation, changes)


def evaluate_references(run: Run, names: Sequence[str], seconds: float) -> dict[str, Array]:
    """What references predict for each row of a run's table, by models that had not seen it; NaN where none had.

    Those that fail, or are not done in so many seconds, are missing.
    """
    limits = Limits(bytes=run.plan.limits.bytes, deadline=time.time() + seconds)
    evaluator = run.evaluator()

    def evaluate(name: str) -> Array | None:
        try:
            outcome = evaluator(_REQUESTS[name], limits, run.settings.seed)
        except SandboxError:
            return None
        if not outcome.ok:
            return None
        found = outcome.artefacts["predictions"]
        return np.load(found, allow_pickle=False) if isinstance(found, Path) else np.asarray(found)

    with ThreadPoolExecutor(max(1, min(len(names), run.plan.n_jobs))) as pool:
        try:
            found = dict(zip(names, pool.map(evaluate, names), strict=True))
        except BaseException:  # Ctrl-C: the pool would wait for what runs
            getattr(evaluator, "interrupt", lambda: None)()
            raise
    return {name: predictions for name, predictions in found.items() if predictions is not None}
