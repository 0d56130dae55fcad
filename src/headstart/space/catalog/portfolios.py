"""Pipelines that are worth a try on any table, cheap ones first.

For the default spaces the lists are our choice: one pipeline of each strong family with settings that are common
practice, then variations of boosters, which win most often. For any other space it is the default pipeline of each
algorithm of the last stage.

Which are cheap and strong depends on the rows. On large tables LightGBM comes first with the settings of its makers:
many rows need less sampling and shrinkage. Forests take several times as long as boosters, and products of columns,
neighbours and scikit-learn's booster may not end in time: they come last. Kernel machines and Gaussian processes, whose
cost grows with the square of the rows or which see a few hundred of them, are left to the search that follows.

With more than `MANY_CLASSES` classes, discriminant analysis, neighbours and linear models come first: a booster makes a
tree for each class in every round, and a forest keeps the share of each class in every leaf.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from headstart.errors import SpaceError
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace

Entry = tuple[Mapping[str, str], Mapping[str, Any]]
"""Algorithms by stage, and what differs from the defaults of the estimator."""

LARGE_ROWS = 10_000
_PLAIN = {"learning_rate": 0.1, "subsample": 1.0, "colsample_bytree": 1.0, "reg_lambda": 1e-6}
_FIRST_ON_LARGE: list[Entry] = [({"estimator": "lightgbm"}, {**_PLAIN, "num_leaves": leaves}) for leaves in (31, 15)]
_SLOW_ON_LARGE = ("random_forest", "extra_trees", "knn", "hist_gradient_boosting", "polynomial")
MANY_CLASSES = 100
_FIRST_WITH_MANY_CLASSES = ("lda", "knn", "logistic_regression", "mlp")
_NOT_ON_LARGE = ("kernel_svm", "gaussian_process")

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


def portfolio(space: PipelineSpace, rows: int = 0, classes: int = 0) -> list[Pipeline]:
    """Pipelines of a space in the order they are worth trying on a table with so many rows and classes.

    >>> from headstart.space import catalog
    >>> [p.algorithms[-1] for p in portfolio(catalog.load("classification"))][:3]
    ['lightgbm', 'logistic_regression', 'random_forest']
    """
    last = space.stages[-1]
    entries = _LISTS.get(space.name) or [({last.name: name}, {}) for name in last.names]
    if space.name in _LISTS and rows > LARGE_ROWS:
        kept = [entry for entry in entries[1:] if not _has(entry, _NOT_ON_LARGE)]
        entries = [*_FIRST_ON_LARGE, *sorted(kept, key=lambda entry: _has(entry, _SLOW_ON_LARGE))]
    if space.name in _LISTS and classes > MANY_CLASSES:
        order = {name: place for place, name in enumerate(_FIRST_WITH_MANY_CLASSES)}
        entries = sorted(entries, key=lambda e: len(order) if "preprocessing" in e[0] else _place(e, order))
    found = [pipeline for entry in entries if (pipeline := _made(space, *entry)) is not None]
    return list(dict.fromkeys(space.encode(found or [space.default()])))


def _place(entry: Entry, order: Mapping[str, int]) -> int:
    return order.get(entry[0].get("estimator", ""), len(order))


def _has(entry: Entry, algorithms: Sequence[str]) -> bool:
    return not set(algorithms).isdisjoint(entry[0].values())


def _made(space: PipelineSpace, algorithms: Mapping[str, str], changes: Mapping[str, Any]) -> Pipeline | None:
    """The default pipeline with these algorithms and changes, unless a part of it is not in the space."""
    try:
        base = space.default({stage: [name] for stage, name in algorithms.items()})
        changed = Pipeline(base.algorithms, (*base.params[:-1], {**base.params[-1], **changes}), base.order)
        space.encode([changed])
    except SpaceError:
        return None
    return changed
