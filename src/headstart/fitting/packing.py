"""Forests as a few arrays instead of hundreds of objects: what saving them takes is a matter of objects.

A list of decision trees becomes a dictionary: one tree without its nodes, which has all that they share, and the nodes
of all trees in one array.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

_MARK = "packed trees"


def pack(models: Any) -> Any:
    """A copy in which lists of trees are packed; all else is shared with the original, which stays as it is."""
    from sklearn.tree import BaseDecisionTree

    def packed(value: Any) -> Any:
        if isinstance(value, list) and len(value) > 1 and all(isinstance(v, BaseDecisionTree) for v in value):
            return _pack_trees(value)
        return value

    return _mapped(models, packed)


def unpack(models: Any) -> Any:
    """Inverse of `pack`."""

    def unpacked(value: Any) -> Any:
        return _unpack_trees(value) if isinstance(value, dict) and _MARK in value else value

    return _mapped(models, unpacked)


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """The value with `change` applied to it and to what it holds; what does not change is not copied."""
    changed = change(value)
    if changed is not value:
        return changed
    if isinstance(value, list | tuple):
        items = [_mapped(item, change) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        held = {key: _mapped(item, change) for key, item in value.items()}
        return value if all(held[key] is value[key] for key in held) else held
    if not hasattr(value, "get_params") or isinstance(value, type) or not hasattr(value, "__dict__"):
        return value
    new = {name: _mapped(item, change) for name, item in vars(value).items()}
    if all(new[name] is item for name, item in vars(value).items()):
        return value
    other = copy.copy(value)
    vars(other).update(new)
    return other


def _pack_trees(trees: list[Any]) -> Any:
    """The dictionary, or the list as it is if the trees differ in more than nodes and seeds."""
    first = _without_nodes(trees[0])
    shared = {name for name in vars(first) if name != "random_state"}
    for tree in trees:
        if type(tree) is not type(trees[0]) or vars(tree).keys() != vars(trees[0]).keys():
            return trees
        if any(not _same(vars(tree)[name], vars(first)[name]) for name in shared):
            return trees
    states = [tree.tree_.__getstate__() for tree in trees]
    return {
        _MARK: 1,
        "tree": first,
        "seeds": [tree.random_state for tree in trees],
        "counts": np.array([state["node_count"] for state in states], dtype=np.int64),
        "depths": np.array([state["max_depth"] for state in states], dtype=np.int64),
        "nodes": np.concatenate([state["nodes"] for state in states]),
        "values": np.concatenate([state["values"] for state in states]),
        "classes": np.array(trees[0].tree_.n_classes, dtype=np.int64),
    }


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and np.array_equal(one, other)
    return one is other or bool(one == other)


def _without_nodes(tree: Any) -> Any:
    other = copy.copy(tree)
    del vars(other)["tree_"]
    return other


def _unpack_trees(packed: dict[str, Any]) -> list[Any]:
    from sklearn.tree import BaseDecisionTree
    from sklearn.tree._tree import Tree

    first, counts = packed["tree"], packed["counts"].tolist()
    if not isinstance(first, BaseDecisionTree) or sum(counts) != len(packed["nodes"]) or min(counts) < 1:
        raise ValueError("packed trees do not fit together")
    ends = np.cumsum(counts)
    trees = []
    for seed, count, depth, end in zip(packed["seeds"], counts, packed["depths"].tolist(), ends.tolist(), strict=True):
        tree = copy.copy(first)
        tree.random_state = seed
        tree.tree_ = Tree(int(first.n_features_in_), packed["classes"], int(first.n_outputs_))
        part = slice(end - count, end)
        state = {"max_depth": depth, "node_count": count}
        tree.tree_.__setstate__(state | {"nodes": packed["nodes"][part], "values": packed["values"][part]})
        trees.append(tree)
    return trees
