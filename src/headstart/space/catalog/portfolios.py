"""Pipelines that are worth a try on any table, cheap ones first.

For the default spaces the lists are our choice: one pipeline of each strong family with settings that are common
practice, then variations of boosters, which win most often. For any other space it is the default pipeline of each
algorithm of the last stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headstart.errors import SpaceError
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace

Entry = tuple[Mapping[str, str], Mapping[str, Any]]
"""Algorithms by stage, and what differs from the defaults of the estimator."""

_BOTH: list[Entry] = [
    ({"estimator": "lightgbm"}, {"learning_rate": 0.1, "num_leaves": 15}),
    ({"estimator": "random_forest"}, {"min_samples_leaf": 2}),
    ({"estimator": "catboost"}, {"learning_rate": 0.1}),
    ({"estimator": "extra_trees"}, {}),
]
_LATER: list[Entry] = [
    ({"estimator": "mlp", "scaling": "quantile"}, {}),
    ({"estimator": "xgboost"}, {}),
    ({"estimator": "lightgbm"}, {"learning_rate": 0.03, "num_leaves": 63, "colsample_bytree": 0.5, "subsample": 0.8}),
    ({"estimator": "kernel_svm"}, {"C": 10.0}),
    ({"estimator": "catboost"}, {"learning_rate": 0.04, "depth": 8, "l2_leaf_reg": 1.0}),
    ({"estimator": "lightgbm"}, {"extra_trees": True, "num_leaves": 127, "min_child_samples": 5}),
    ({"estimator": "knn", "scaling": "standard"}, {}),
    ({"estimator": "hist_gradient_boosting"}, {"learning_rate": 0.1, "max_leaf_nodes": 15, "max_features": 0.5}),
]
_LISTS: dict[str, list[Entry]] = {
    "classification": [
        _BOTH[0],
        ({"estimator": "logistic_regression"}, {}),
        *_BOTH[1:],
        *_LATER,
        ({"estimator": "logistic_regression", "preprocessing": "polynomial"}, {"C": 0.01}),
        ({"estimator": "lda"}, {}),
    ],
    "regression": [
        _BOTH[0],
        ({"estimator": "ridge"}, {}),
        *_BOTH[1:],
        *_LATER,
        ({"estimator": "gaussian_process"}, {}),
    ],
}


def portfolio(space: PipelineSpace) -> list[Pipeline]:
    """Pipelines of a space in the order they are worth trying.

    >>> from headstart.space import catalog
    >>> [p.algorithms[-1] for p in portfolio(catalog.load("classification"))][:3]
    ['lightgbm', 'logistic_regression', 'random_forest']
    """
    last = space.stages[-1]
    entries = _LISTS.get(space.name) or [({last.name: name}, {}) for name in last.names]
    found = [pipeline for entry in entries if (pipeline := _made(space, *entry)) is not None]
    return list(dict.fromkeys(space.encode(found or [space.default()])))


def _made(space: PipelineSpace, algorithms: Mapping[str, str], changes: Mapping[str, Any]) -> Pipeline | None:
    """The default pipeline with these algorithms and changes, unless a part of it is not in the space."""
    try:
        base = space.default({stage: [name] for stage, name in algorithms.items()})
        changed = Pipeline(base.algorithms, (*base.params[:-1], {**base.params[-1], **changes}), base.order)
        space.encode([changed])
    except SpaceError:
        return None
    return changed
