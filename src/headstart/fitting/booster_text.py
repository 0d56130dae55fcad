"""A strict reader of LightGBM's model text: LightGBM itself takes every number in it for granted.

Children, columns and categories index arrays in LightGBM's code, and lengths say how far it reads: with wrong ones it
runs for ever, or reads and writes memory that is not its own. What passes here has trees that end, and nothing that
LightGBM would not have written for our three objectives.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import ModelFileError

_HEADER = (
    "version",
    "num_class",
    "num_tree_per_iteration",
    "label_index",
    "max_feature_idx",
    "objective",
    "feature_names",
    "feature_infos",
    "tree_sizes",
)
_NODES = (
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "internal_value",
    "internal_weight",
    "internal_count",
)
_LEAVES = ("leaf_value", "leaf_weight", "leaf_count")
_CATEGORIES = ("cat_boundaries", "cat_threshold")
_WHOLE = re.compile(r"-?[0-9]{1,10}")
_NUMBERS = re.compile(r"[-+.0-9eEinfa]+(?: [-+.0-9eEinfa]+)*")
_INDICES = re.compile(r"-?[0-9]{1,10}(?: -?[0-9]{1,10})*")


def check_lightgbm(content: bytes, n_features: int, n_classes: int) -> None:
    """Raise `ModelFileError` unless LightGBM can load and run this text.

    Parameters
    ----------
    n_features
        Columns of the tables that it is to predict.
    n_classes
        How many classes it knows; 0 for a regression.
    """
    try:
        text = content.decode("ascii")
        head, mark, _ = text.partition("\n\n")
        _must(text.startswith("tree\n") and bool(mark), "it has no header")
        header = _pairs(head.split("\n")[1:], _HEADER)
        _must(header.keys() == set(_HEADER), "its header is not complete")
        per_round = n_classes if n_classes > 2 else 1
        objective = {0: "regression", 2: "binary sigmoid:1"}.get(n_classes, f"multiclass num_class:{n_classes}")
        _must(header["objective"] == objective, f"its objective must be {objective!r}, found {header['objective']!r}")
        for key in ("num_class", "num_tree_per_iteration"):
            _must(_whole(header[key]) == per_round, f"{key} must be {per_round}, found {header[key]!r}")
        _must(_whole(header["max_feature_idx"]) == n_features - 1, f"it must have {n_features} columns")
        for key in ("feature_names", "feature_infos"):
            _must(len(header[key].split(" ")) == n_features, f"{key} must have {n_features} entries")
        sizes = [_whole(size) for size in header["tree_sizes"].split()]
        _must(len(sizes) % per_round == 0 and min(sizes, default=0) > 0, "it has not all trees of a round")
        position = len(head) + 2
        for number, size in enumerate(sizes):
            _check_tree(text[position : position + size], number, n_features)
            position += size
        _must(text.startswith("end of trees\n", position), "its trees have other sizes than it says")
    except (ValueError, OverflowError) as error:
        raise ModelFileError(f"a LightGBM model cannot be used: {error}; the file is damaged") from error


def _must(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


def _pairs(lines: list[str], known: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        key, mark, value = line.partition("=")
        _must(bool(mark) and key in known and key not in found, f"the line {line[:40]!r} is out of place")
        found[key] = value
    return found


def _whole(text: str) -> int:
    _must(_WHOLE.fullmatch(text) is not None, f"a whole number is wanted, found {text[:20]!r}")
    return int(text)


def _count(text: str, length: int, what: str) -> None:
    """Numbers that LightGBM only computes with: how many they are is all that matters."""
    _must(_NUMBERS.fullmatch(text) is not None, f"{what} must be numbers")
    _must(text.count(" ") + 1 == length, f"{what} must have {length} numbers, found {text.count(' ') + 1}")


def _indices(text: str, length: int, low: int, high: int, what: str) -> NDArray[np.int64]:
    _must(_INDICES.fullmatch(text) is not None, f"{what} must be whole numbers")
    found = np.fromstring(text, dtype=np.int64, sep=" ")
    _must(len(found) == length, f"{what} must have {length} numbers, found {len(found)}")
    _must(bool(np.all((found >= low) & (found <= high))), f"{what} must be numbers from {low} to {high}")
    return found


def _check_tree(text: str, number: int, n_features: int) -> None:
    lines = text.split("\n")
    _must(lines[0] == f"Tree={number}" and lines[-3:] == ["", "", ""], f"tree {number} is not where it should be")
    known = ("num_leaves", "num_cat", *_NODES, *_LEAVES, *_CATEGORIES, "is_linear", "shrinkage")
    tree: Any = _pairs(lines[1:-3], known)
    _must(tree.keys() >= set(known) - set(_CATEGORIES), f"tree {number} is not complete")
    leaves, categories = _whole(tree["num_leaves"]), _whole(tree["num_cat"])
    _must(leaves >= 1 and 0 <= categories < max(1, leaves), f"tree {number} has {leaves} leaves")
    _must(tree["is_linear"] == "0", f"tree {number} has linear leaves")
    _count(tree["shrinkage"], 1, "shrinkage")
    _count(tree["leaf_value"], leaves, "leaf_value")
    if leaves == 1:
        return
    for key in (*_LEAVES, *(k for k in _NODES if k.startswith("internal") or k == "split_gain")):
        _count(tree[key], leaves if key in _LEAVES else leaves - 1, key)
    _indices(tree["split_feature"], leaves - 1, 0, n_features - 1, "split_feature")
    is_category = _indices(tree["decision_type"], leaves - 1, 0, 15, "decision_type") % 2 == 1
    _count(tree["threshold"], leaves - 1, "threshold")
    _check_children(tree, leaves)
    for place in np.array(tree["threshold"].split(" "))[is_category].tolist():
        _must(0 <= _whole(place) < categories, "a split has unknown categories")
    if categories:
        _must(tree.keys() >= set(_CATEGORIES), f"tree {number} lacks its categories")
        size = len(tree["cat_threshold"].split())
        bounds = _indices(tree["cat_boundaries"], categories + 1, 0, size, "cat_boundaries")
        _indices(tree["cat_threshold"], size, 0, 2**32 - 1, "cat_threshold")
        ordered = bounds[0] == 0 and bounds[-1] == size and bool(np.all(np.diff(bounds) > 0))
        _must(ordered, "cat_boundaries must rise from 0 to the number of categories")


def _check_children(tree: dict[str, str], leaves: int) -> None:
    """Every node but the first, and every leaf (-1, -2, …), is the child of one node before it: every path ends."""
    parents = np.arange(leaves - 1)
    sides = [_indices(tree[key], leaves - 1, -leaves, leaves - 2, key) for key in ("left_child", "right_child")]
    children = np.concatenate(sides)
    _must(bool(np.all((children < 0) | (children > np.tile(parents, 2)))), "children must come after their parents")
    _must(len(np.unique(children)) == 2 * (leaves - 1), "every node and leaf must have one parent")
    _must(not bool(np.any(children == 0)), "the first node must have no parent")
