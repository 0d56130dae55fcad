"""The shape of a decision tree that is grown on `Table.part` until its leaves are pure."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from headstart.metafeatures.handcrafted.columns import attributes
from headstart.metafeatures.handcrafted.declare import Family, shared
from headstart.metafeatures.handcrafted.table import Array, Table, Whole

_family = Family("trees")
_one, _each = _family.one, _family.each


@shared
def grown(table: Table) -> Any:
    """The fitted tree."""
    made = DecisionTreeRegressor if table.regression else DecisionTreeClassifier
    target = table.target if table.regression else table.labels
    return made(random_state=table.seed).fit(attributes(table), target)


@shared
def depths(table: Table) -> Whole:
    """Of all nodes; the root's is 0."""
    nodes = grown(table).tree_
    found = np.zeros(nodes.node_count, dtype=np.int64)
    for parent in range(nodes.node_count):  # parents come before their children
        for child in (nodes.children_left[parent], nodes.children_right[parent]):
            if child >= 0:
                found[child] = found[parent] + 1
    return found


def _leaf(table: Table) -> Any:
    return grown(table).tree_.feature < 0


def _leaf_depths(table: Table) -> Whole:
    return np.asarray(depths(table)[_leaf(table)])


def _n_leaves(table: Table) -> int:
    return int(_leaf(table).sum())


def _n_nodes(table: Table) -> int:
    return int((~_leaf(table)).sum())


def _arrivals(table: Table) -> Array:
    """Probability of each leaf if either child were as likely."""
    return 2.0 ** -_leaf_depths(table).astype(np.float64)


def _shapes(table: Table) -> Array:
    return _arrivals(table) * _leaf_depths(table)


def _homogeneities(table: Table) -> Array:
    shapes = _shapes(table)
    return _n_leaves(table) / shapes[shapes > 0]


def _imbalances(table: Table) -> Array:
    """Of each depth that has leaves: -a log2 a, where a is 2^-(probability of arriving at one of them)."""
    total = np.bincount(_leaf_depths(table), weights=_arrivals(table))
    total = total[total > 0]
    return total * 2.0**-total


def _leaves_by_class(table: Table) -> Array:
    """Shares of the leaves that predict each class; of a regression, that predict a number in each fifth."""
    value = grown(table).tree_.value[_leaf(table)]
    if table.regression:
        highest = [table.target[table.labels == c].max() for c in range(len(table.label_counts))]
        predicted = np.minimum(np.searchsorted(highest, value.ravel()), len(highest) - 1)
    else:
        predicted = value[:, 0].argmax(axis=1)
    counts = np.bincount(predicted)
    return counts[counts > 0] / len(predicted)


def _counts(values: Any) -> Whole:
    return np.unique(values, return_counts=True)[1]


FEATURES = (
    _one("leaves", "leaves", lambda t: _n_leaves(t.part)),
    _each("leaves_branch", "depth of a leaf", lambda t: _leaf_depths(t.part)),
    _each(
        "leaves_corrob",
        "share of the rows in a leaf",
        lambda t: grown(t.part).tree_.n_node_samples[_leaf(t.part)] / t.part.n,
    ),
    _each("leaves_homo", "leaves, over the shape of a leaf", lambda t: _homogeneities(t.part)),
    _each("leaves_per_class", "share of the leaves of a class", lambda t: _leaves_by_class(t.part)),
    _one("nodes", "nodes that are no leaves", lambda t: _n_nodes(t.part)),
    _one("nodes_per_attr", "nodes, over attributes", lambda t: _n_nodes(t.part) / attributes(t.part).shape[1]),
    _one("nodes_per_inst", "nodes, over rows", lambda t: _n_nodes(t.part) / t.part.n),
    _each("nodes_per_level", "nodes of a depth", lambda t: _counts(depths(t.part)[~_leaf(t.part)])),
    _each(
        "nodes_repeated",
        "nodes of an attribute that has any",
        lambda t: _counts(grown(t.part).tree_.feature[~_leaf(t.part)]),
    ),
    _each("tree_depth", "depth of a node", lambda t: depths(t.part)),
    _each("tree_imbalance", "how uneven leaves are over depths", lambda t: _imbalances(t.part)),
    _each("tree_shape", "-p log2 p of the probability p of a leaf, at even odds", lambda t: _shapes(t.part)),
    _each("var_importance", "importance of an attribute", lambda t: grown(t.part).feature_importances_),
)
