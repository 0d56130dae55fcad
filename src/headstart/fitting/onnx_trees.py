"""Trees of four libraries in one form, from which a node of ONNX is made.

The converters of other projects leave out splits by sets of categories, which most boosters of ours have, and where
forests send missing values. Here a split by categories looks at an input of its own, which is 1 where the category is
in the set. Thresholds are kept in double precision, or in single precision where the library itself rounds its inputs
to that.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class NotConvertible(Exception):
    """Says which part cannot be converted; `step` is the class of the step of the pipeline that it belongs to."""

    step = ""


@dataclass
class Trees:
    """A sum of trees.

    Parameters
    ----------
    outputs
        How many sums there are: 1, or one for each class.
    single
        Whether inputs are rounded to single precision first.
    strict
        Whether a split asks for less than its threshold; less or equal otherwise.
    bias
        Added to the sums; (outputs,).
    """

    outputs: int
    single: bool = False
    strict: bool = False
    bias: Array = field(default_factory=lambda: np.zeros(1))
    sets: dict[int, dict[frozenset[int], int]] = field(default_factory=dict)
    """For each column of categories, the sets that splits ask for, numbered."""
    nodes: list[tuple[int, int, tuple[str, int, int], float, int, int, bool]] = field(default_factory=list)
    """Tree, node, input (kind, column, set), threshold, node if it holds, node if not, whether it holds for missing."""
    leaves: list[tuple[int, int, int, float]] = field(default_factory=list)
    """Tree, node, output, value."""
    trees: int = 0

    def split(self, node: int, column: int, threshold: float, yes: int, no: int, missing: bool) -> None:
        """Node of the last tree that compares a number."""
        self.nodes.append((self.trees - 1, node, ("number", column, 0), threshold, yes, no, missing))

    def split_set(self, node: int, column: int, values: frozenset[int], inside: int, outside: int) -> None:
        """Node of the last tree that asks whether a category is in a set; -1 stands for a missing one."""
        known = self.sets.setdefault(column, {})
        place = known.setdefault(values, len(known))
        self.nodes.append((self.trees - 1, node, ("set", column, place), 0.5, outside, inside, False))

    def leaf(self, node: int, output: int, value: float) -> None:
        """Leaf of the last tree."""
        self.leaves.append((self.trees - 1, node, output, value))

    def sums(self, row: Array) -> Array:
        """The sums for a row of numbers and codes, NaN where missing, without the bias."""
        inner = {(tree, node): (what, threshold, ways) for tree, node, what, threshold, *ways in self.nodes}
        ends: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for tree, node, output, value in self.leaves:
            ends.setdefault((tree, node), []).append((output, value))
        values = row.astype(np.float32).astype(np.float64) if self.single else row
        names = {(c, place): s for c, known in self.sets.items() for s, place in known.items()}
        total = np.zeros(self.outputs)
        for tree in range(self.trees):
            here = 0
            while (tree, here) in inner:
                (kind, column, place), threshold, (yes, no, missing) = inner[tree, here]
                found = float(values[column])
                if kind == "set":
                    found = float((-1 if math.isnan(found) else int(found)) in names[column, place])
                holds = missing if math.isnan(found) else found < threshold if self.strict else found <= threshold
                here = yes if holds else no
            for output, value in ends[tree, here]:
                total[output] += value
        return total


def trees_of(booster: Any) -> Trees:
    """The trees of a fitted `Booster`; their sums are numbers, or logits. `NotConvertible` where there is no way."""
    library = type(booster).__name__
    for begin, read in _READERS.items():
        if library.startswith(begin):
            found: Trees = read(booster, 1 if booster._n_classes <= 2 else booster._n_classes)
            return found
    raise NotConvertible(library)


def _lightgbm(booster: Any, outputs: int) -> Trees:
    found = Trees(outputs, bias=np.zeros(outputs))
    described = booster.model_.dump_model(num_iteration=booster.best_iteration_)
    for i, tree in enumerate(described["tree_info"]):
        found.trees += 1
        left: list[tuple[int, Any]] = [(0, tree["tree_structure"])]
        count = 1
        while left:
            node, content = left.pop()
            if "split_feature" not in content:
                found.leaf(node, i % outputs, content["leaf_value"])
                continue
            first, second = count, count + 1
            count += 2
            left += [(first, content["left_child"]), (second, content["right_child"])]
            column, threshold = content["split_feature"], content["threshold"]
            if content["decision_type"] == "==":
                values = frozenset(int(value) for value in str(threshold).split("||"))
                found.split_set(node, column, values, first, second)
            else:
                missing = {"NaN": content["default_left"], "None": threshold >= 0}.get(content["missing_type"])
                if missing is None:
                    raise NotConvertible("lightgbm with zeros as missing values")
                found.split(node, column, threshold, first, second, missing)
    return found


def _xgboost(booster: Any, outputs: int) -> Trees:
    model = booster.model_[: booster.best_iteration_]
    content = json.loads(bytes(model.save_raw("json")))["learner"]["gradient_booster"]
    weights = content.get("weight_drop")
    content = content["gbtree"]["model"] if "gbtree" in content else content["model"]
    found = Trees(outputs, single=True, strict=True)
    for i, (tree, output) in enumerate(zip(content["trees"], content["tree_info"], strict=True)):
        found.trees += 1
        weight = 1.0 if weights is None else weights[i]
        sets = {
            node: frozenset(tree["categories"][first : first + size])
            for node, first, size in zip(
                tree["categories_nodes"], tree["categories_segments"], tree["categories_sizes"], strict=True
            )
        }
        for node, (yes, no) in enumerate(zip(tree["left_children"], tree["right_children"], strict=True)):
            column, value = tree["split_indices"][node], tree["split_conditions"][node]
            if yes < 0:
                found.leaf(node, output, weight * value)
            elif node in sets:
                inside = sets[node] | ({-1} if not tree["default_left"][node] else frozenset())
                found.split_set(node, column, frozenset(inside), no, yes)
            else:
                found.split(node, column, _single(value), yes, no, bool(tree["default_left"][node]))
    row = np.zeros((1, booster.n_features_in_))
    margin = model.predict(booster._rows(row), output_margin=True).reshape(-1).astype(np.float64)
    found.bias = margin - found.sums(row[0])
    return found


def _histogram(booster: Any, outputs: int) -> Trees:
    model = booster.model_
    found = Trees(outputs, bias=np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1))
    columns = _places(model, booster.n_features_in_)
    for rounds in model._predictors:
        for output, tree in enumerate(rounds):
            found.trees += 1
            for node, content in enumerate(tree.nodes):
                if content["is_leaf"]:
                    found.leaf(node, output, float(content["value"]))
                    continue
                column = columns[int(content["feature_idx"])]
                first, second = int(content["left"]), int(content["right"])
                missing = bool(content["missing_go_to_left"])
                if content["is_categorical"]:
                    words = tree.raw_left_cat_bitsets[content["bitset_idx"]]
                    values = {
                        32 * i + bit for i, word in enumerate(words.tolist()) for bit in range(32) if word >> bit & 1
                    }
                    found.split_set(node, column, frozenset(values | ({-1} if missing else set())), first, second)
                else:
                    found.split(node, column, float(content["num_threshold"]), first, second, missing)
    return found


def _places(model: Any, columns: int) -> list[int]:
    """Columns of the table in the order that the trees know them: categories come first."""
    is_category = model.is_categorical_
    if is_category is None:
        return list(range(columns))
    if model._preprocessor is None:
        return list(range(columns))
    marked = np.asarray(model._is_categorical_remapped, dtype=bool)
    steps = [np.asarray(names) for *_, names in model._preprocessor.transformers_]
    order = np.concatenate([np.flatnonzero(s) if s.dtype == bool else s for s in steps if len(s)]).astype(int)
    if len(order) != columns or marked.shape != (columns,):
        raise NotConvertible("hist_gradient_boosting with these columns")
    return [int(place) for place in order]


def _catboost(booster: Any, outputs: int) -> Trees:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        try:
            booster.model_.save_model(str(path), format="json", pool=None)
        except Exception as error:
            raise NotConvertible("catboost with categories as they are") from error
        content = json.loads(path.read_text())
    info = content["features_info"]
    if info.get("categorical_features") or "oblivious_trees" not in content:
        raise NotConvertible("catboost with categories as they are")
    columns = [feature["flat_feature_index"] for feature in info["float_features"]]
    missing_yes = [feature.get("nan_value_treatment", "AsIs") != "AsTrue" for feature in info["float_features"]]
    scale, bias = content["scale_and_bias"]
    found = Trees(outputs, single=True, bias=np.broadcast_to(np.asarray(bias, dtype=np.float64), (outputs,)).copy())
    for tree in content["oblivious_trees"]:
        found.trees += 1
        splits, values = tree["splits"] or [], tree["leaf_values"]
        for node, level, leaf in _oblivious(len(splits)):
            if level == len(splits):
                for output in range(outputs):
                    found.leaf(node, output, scale * values[leaf * outputs + output])
            else:
                split = splits[level]
                column = split["float_feature_index"]
                yes, no = 2 * node + 1, 2 * node + 2
                found.split(node, columns[column], _single(split["border"]), yes, no, missing_yes[column])
    return found


def _single(value: float) -> float:
    """A number of single precision: its text has the fewest digits that name it, which is another one in double."""
    return float(np.float32(value))


def forest(trees: Sequence[Any], outputs: int) -> Trees:
    """The mean of decision trees of scikit-learn: numbers, or shares of classes."""
    found = Trees(outputs, single=True, bias=np.zeros(outputs))
    for tree in trees:
        found.trees += 1
        values = tree.value[:, 0, :]
        values = values / values.sum(axis=1, keepdims=True) if outputs > 1 else values
        for node, (yes, no) in enumerate(zip(tree.children_left.tolist(), tree.children_right.tolist(), strict=True)):
            if yes < 0:
                for output in range(outputs):
                    found.leaf(node, output, float(values[node, output]) / len(trees))
            else:
                missing = bool(tree.missing_go_to_left[node])
                found.split(node, int(tree.feature[node]), float(tree.threshold[node]), yes, no, missing)
    return found


def _oblivious(depth: int) -> Iterator[tuple[int, int, int]]:
    """Nodes of a full tree, their levels, and the index of the leaf: bit i is set where split i does not hold."""
    left = [(0, 0, 0)]
    while left:
        node, level, index = left.pop()
        yield node, level, index
        if level < depth:
            left += [(2 * node + 1, level + 1, index), (2 * node + 2, level + 1, index | 1 << level)]


_READERS: Mapping[str, Any] = {
    "LightGBM": _lightgbm,
    "XGBoost": _xgboost,
    "HistGradientBoosting": _histogram,
    "CatBoost": _catboost,
}
