"""The simple model, for when nothing better can be had: a small tree, or a constant."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.evaluation.kept_models import keep
from headstart.evaluation.live import fit_model
from headstart.evaluation.objective import Objective, outcome_of
from headstart.space.pipeline import Pipeline
from headstart.trials import FULL, Fidelity, Limits, Outcome

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset

SIMPLE = Pipeline(["simple"])
"""Stands for the simple model in a request to `WithSimple`."""
SIMPLE_ROWS = 2000
"""Most rows that the small tree is fitted to."""
QUICK_ROWS, _QUICK_COLUMNS = 200, 50
"""Of a table without texts, that a tree takes a fraction of a second for on any machine."""


def is_quick(dataset: Dataset) -> bool:
    """Whether a tree on `QUICK_ROWS` rows takes hardly any time."""
    return dataset.n_features <= _QUICK_COLUMNS and "text" not in dataset.preparation.values()


class WithSimple:
    """An objective that also fits the small tree, when asked for `SIMPLE`; the loss of that means nothing.

    Workers that evaluate pipelines of a run can thus make the simple model too. To start others takes longer than the
    time that is left when it is needed.

    Parameters
    ----------
    objective
        Evaluates all other pipelines.
    dataset
        What the tree is fitted to: a share `Fidelity.rows` of `SIMPLE_ROWS` rows.
    """

    def __init__(self, objective: Objective, dataset: Dataset) -> None:
        self.objective = objective
        self.dataset = dataset

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        if pipeline != SIMPLE:
            return self.objective(pipeline, limits, seed, fidelity)
        return outcome_of(lambda: self._tree(seed, fidelity), fidelity)

    def _tree(self, seed: int, fidelity: Fidelity) -> Outcome:
        model = small_tree(self.dataset, seed, max(1, round(fidelity.rows * SIMPLE_ROWS)))
        return Outcome.of(0.0, fidelity=fidelity, artefacts={"models": keep([model], lambda _: None)})


def small_tree(dataset: Dataset, seed: int, n_rows: int = SIMPLE_ROWS) -> Any:
    """A decision tree on some of the rows, a fitted scikit-learn pipeline for tables in the form of `Dataset.X`."""
    from headstart.space import catalog

    assert dataset.y is not None
    y = dataset.y
    rows = np.sort(np.random.default_rng(seed).permutation(dataset.n_rows)[:n_rows])
    if dataset.classes is not None:  # all classes must be there
        rows = np.union1d(rows, np.unique(y, return_index=True)[1])
    X = dataset.X[rows] if dataset.is_sparse else dataset.X.iloc[rows]
    weights = None if dataset.weights is None else dataset.weights[rows]
    space = catalog.load("regression" if dataset.classes is None else "classification")
    tree = space.default({"estimator": ["decision_tree"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return fit_model(space.build(tree, seed, dataset.preparation), X, y[rows], weights)


def constant(dataset: Dataset) -> Any:
    """The shares of the classes or the median, as a fitted scikit-learn pipeline; takes no time."""
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.pipeline import Pipeline as SklearnPipeline

    assert dataset.y is not None
    plain = DummyRegressor(strategy="median") if dataset.classes is None else DummyClassifier()
    weights = {} if dataset.weights is None else {"estimator__sample_weight": dataset.weights}
    return SklearnPipeline([("estimator", plain)]).fit(np.zeros((dataset.n_rows, 1)), dataset.y, **weights)
