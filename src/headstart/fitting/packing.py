"""Forests, boosters and vocabularies as a few arrays instead of thousands of objects, by which saving takes its time.

Steps of pipelines that were fitted alike, such as the preparation of columns in one fold, become one object.

==============================  ====================================================================================
decision trees in a list        one tree without its nodes, which has all that they share, and the nodes of all
or an array
rounds of histogram boosting    the nodes and the sets of categories of all trees
a vocabulary                    one text, with a word on each line
==============================  ====================================================================================

Each becomes a dictionary with a mark.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from headstart.evaluation.prediction import fingerprint

_TREES, _ROUNDS, _WORDS = "packed trees", "packed rounds", "packed words"
_LEAST_WORDS = 20
_ARRAYS = ("nodes", "binned_left_cat_bitsets", "raw_left_cat_bitsets")
"""What a tree of histogram boosting holds, in the order of its arguments."""


def pack(models: Any) -> Any:
    """A copy in which trees and words are packed; all else is shared with the original, which stays as it is."""
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
    from sklearn.pipeline import Pipeline
    from sklearn.tree import BaseDecisionTree

    steps: dict[str, Any] = {}

    def with_shared_steps(value: Any) -> Any:
        if type(value) is not Pipeline:
            return value
        other = copy.copy(value)
        *before, last = value.steps
        other.steps = [*((name, steps.setdefault(fingerprint(step), step)) for name, step in before), last]
        return other

    def packed(value: Any) -> Any:
        if isinstance(value, dict):
            return _pack_words(value) if _is_vocabulary(value) else value
        if isinstance(value, np.ndarray) and value.dtype == object and value.size > 1:
            trees = list(value.flat)
            if not all(isinstance(v, BaseDecisionTree) for v in trees):
                return value
            found = _pack_trees(trees)
            return value if found is trees else {**found, "shape": np.array(value.shape, dtype=np.int64)}
        if not isinstance(value, list) or not value:
            return value
        if len(value) > 1 and all(isinstance(v, BaseDecisionTree) for v in value):
            return _pack_trees(value)
        if all(isinstance(v, list) and v and all(isinstance(p, TreePredictor) for p in v) for v in value):
            return _pack_rounds(value)
        return value

    return _mapped(_mapped(models, with_shared_steps, {}), packed, {})


def unpack(models: Any) -> Any:
    """Inverse of `pack`."""

    def unpacked(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        if _TREES in value:
            return _unpack_trees(value)
        if _ROUNDS in value:
            return _unpack_rounds(value)
        return _unpack_words(value) if _WORDS in value else value

    return _mapped(models, unpacked, {})


def _mapped(value: Any, change: Callable[[Any], Any], known: dict[int, tuple[Any, Any]]) -> Any:
    """The value with `change` applied to it and to what it holds; what does not change is not copied.

    What is one object stays one: `known` has what became of each, by its address, and keeps it from being reused.
    """
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if id(value) not in known:
        known[id(value)] = value, _newly_mapped(value, change, known)
    return known[id(value)][1]


def _newly_mapped(value: Any, change: Callable[[Any], Any], known: dict[int, tuple[Any, Any]]) -> Any:
    changed = change(value)
    if changed is not value:
        return changed
    if isinstance(value, list | tuple):
        items = [_mapped(item, change, known) for item in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        held = {key: _mapped(item, change, known) for key, item in value.items()}
        return value if all(held[key] is value[key] for key in held) else held
    if not hasattr(value, "get_params") or isinstance(value, type) or not hasattr(value, "__dict__"):
        return value
    new = {name: _mapped(item, change, known) for name, item in vars(value).items()}
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
    seeds = [tree.random_state for tree in trees]
    return {
        _TREES: 1,
        "tree": first,
        "seeds": seeds[:1] if all(seed is seeds[0] for seed in seeds) else seeds,
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


def _unpack_trees(packed: dict[str, Any]) -> Any:
    from sklearn.tree import BaseDecisionTree
    from sklearn.tree._tree import Tree

    first, counts = packed["tree"], packed["counts"].tolist()
    if not isinstance(first, BaseDecisionTree) or sum(counts) != len(packed["nodes"]) or min(counts) < 1:
        raise ValueError("packed trees do not fit together")
    ends = np.cumsum(counts)
    seeds = packed["seeds"] * len(counts) if len(packed["seeds"]) == 1 else packed["seeds"]
    trees = []
    for seed, count, depth, end in zip(seeds, counts, packed["depths"].tolist(), ends.tolist(), strict=True):
        tree = copy.copy(first)
        tree.random_state = seed
        tree.tree_ = Tree(int(first.n_features_in_), packed["classes"], int(first.n_outputs_))
        part = slice(end - count, end)
        state = {"max_depth": depth, "node_count": count}
        tree.tree_.__setstate__(state | {"nodes": packed["nodes"][part], "values": packed["values"][part]})
        trees.append(tree)
    if "shape" not in packed:
        return trees
    found = np.empty(len(trees), dtype=object)
    found[:] = trees
    return found.reshape(packed["shape"])


def _pack_rounds(rounds: list[list[Any]]) -> dict[str, Any]:
    trees = [tree for one in rounds for tree in one]
    found: dict[str, Any] = {_ROUNDS: 1, "trees": np.array([len(one) for one in rounds], dtype=np.int64)}
    for name in _ARRAYS:
        parts = [getattr(tree, name) for tree in trees]
        found[name] = np.concatenate(parts)
        found[f"{name} of each"] = np.array([len(part) for part in parts], dtype=np.int64)
    return found


def _unpack_rounds(packed: dict[str, Any]) -> list[list[Any]]:
    from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor

    columns = [_split(packed[name], packed[f"{name} of each"]) for name in _ARRAYS]
    trees = [TreePredictor(*arrays) for arrays in zip(*columns, strict=True)]
    counts = packed["trees"]
    if len(counts) and (int(counts.sum()) != len(trees) or counts.min() < 1):
        raise ValueError("packed trees do not fit together")
    ends = np.cumsum(counts).tolist()
    return [trees[end - count : end] for count, end in zip(counts.tolist(), ends, strict=True)]


def _split(whole: Any, counts: Any) -> list[Any]:
    """Parts of an array, each of its own memory as a tree wants it."""
    if int(counts.sum()) != len(whole) or (len(counts) and counts.min() < 0):
        raise ValueError("packed trees do not fit together")
    return [np.ascontiguousarray(part).copy() for part in np.split(whole, np.cumsum(counts)[:-1])]


def _is_vocabulary(value: dict[Any, Any]) -> bool:
    """Whether it numbers words from 0 on, as those do that turn text into columns."""
    if len(value) < _LEAST_WORDS:
        return False
    if not all(isinstance(word, str) and "\n" not in word for word in value):
        return False
    if not all(isinstance(place, int | np.integer) and not isinstance(place, bool) for place in value.values()):
        return False
    return sorted(value.values()) == list(range(len(value)))


def _pack_words(vocabulary: dict[str, int]) -> dict[str, Any]:
    return {_WORDS: 1, "words": "\n".join(sorted(vocabulary, key=lambda word: vocabulary[word]))}


def _unpack_words(packed: dict[str, Any]) -> dict[str, int]:
    words = packed["words"].split("\n")
    found = {word: place for place, word in enumerate(words)}
    if len(found) != len(words):
        raise ValueError("packed words are not all different")
    return found
