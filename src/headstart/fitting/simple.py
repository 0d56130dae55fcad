"""The model when time was too short for anything better."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from headstart.evaluation.live import fit_model
from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset

ROWS = 2000


def simple_model(dataset: Dataset, seed: int) -> tuple[Pipeline, Any]:
    """A small tree on some of the rows, or, if even that fails, the share of the classes or the median.

    Returns
    -------
    What it is called, and a fitted scikit-learn pipeline for tables in the form of `Dataset.X`.
    """
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.pipeline import Pipeline as SklearnPipeline

    from headstart.space import catalog

    assert dataset.y is not None
    y = dataset.y
    rows = np.sort(np.random.default_rng(seed).permutation(dataset.n_rows)[:ROWS])
    if dataset.classes is not None:  # all classes must be there
        rows = np.union1d(rows, np.unique(y, return_index=True)[1])
    X = dataset.X[rows] if dataset.is_sparse else dataset.X.iloc[rows]
    weights = None if dataset.weights is None else dataset.weights[rows]
    space = catalog.load("regression" if dataset.classes is None else "classification")
    tree = space.default({"estimator": ["decision_tree"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return tree, fit_model(space.build(tree, seed, dataset.preparation), X, y[rows], weights)
        except Exception:
            plain = DummyRegressor(strategy="median") if dataset.classes is None else DummyClassifier()
            model = SklearnPipeline([("estimator", plain)])
            return Pipeline(["dummy"]), model.fit(np.zeros((len(rows), 1)), y[rows])
