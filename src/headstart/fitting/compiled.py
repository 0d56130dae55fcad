"""What compiled code of scikit-learn and SciPy takes for granted is checked before a model of a file is used.

Python and NumPy answer a wrong index with an exception. The compiled parts do not look: a crafted file would make them
read or write memory that is not theirs, or never come to an end.

==============================  ====================================================================================
trees of all kinds              nodes, columns and sets of categories that there are; every path ends
gradient boosting               as many first predictions as there are trees in a round
histogram boosting              a preparation that returns all columns; splits by category on columns that have some
nearest neighbours              are fitted again: the tree of a file is not used
support vector machines         arrays of the sizes that follow from one another
sparse matrices, encoders and   columns that there are
vocabularies
generators of random numbers    a position within their state
==============================  ====================================================================================
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from headstart.components._booster import Booster
from headstart.errors import ModelFileError

_KERNELS = ("linear", "poly", "rbf", "sigmoid")
_WORDS_OF_BITSET = 8
_LAST_OF_MERSENNE = 624


def check_compiled(models: Any) -> list[Any]:
    """The boosters of other libraries; `ModelFileError` if what compiled code will use does not fit together."""
    try:
        return _walk(models)
    except ModelFileError:
        raise
    except Exception as error:  # what is not even of the right type, and whatever fitting and trying again objects to
        said = " ".join(str(error).split())
        raise ModelFileError(f"a part of a model is not what it must be ({said}); the file is damaged") from error


def _walk(models: Any) -> list[Any]:
    boosters = []
    last: list[Callable[[], None]] = []  # what uses parts of a model, which are checked by then
    checks = _checks()
    left: list[tuple[Any, int | None]] = [(models, None)]
    seen: set[tuple[int, int | None]] = set()
    while left:
        item, columns = left.pop()
        if item is None or isinstance(item, str | int | float | bytes) or (id(item), columns) in seen:
            continue
        seen.add((id(item), columns))
        _check_methods(item)
        for kind, check in checks:
            if isinstance(item, kind) and (then := check(item, columns)) is not None:
                last.append(then)
        if isinstance(item, dict):
            left += [(value, columns) for value in item.values()]
        elif isinstance(item, list | tuple):
            left += [(value, columns) for value in item]
        elif isinstance(item, np.ndarray):
            if item.dtype == object:
                left += [(value, columns) for value in item.ravel().tolist()]
        elif not isinstance(item, type) and hasattr(item, "__dict__"):
            content = vars(item)
            if isinstance(item, Booster) and "packed_" in content:
                boosters.append(item)
            left += [(value, _columns_of(item, content, columns)) for value in content.values()]
    for then in last:
        then()
    return boosters


def _check_methods(item: Any) -> None:
    """An object must not have values in place of methods, such as those that look at the table first."""
    for name in getattr(item, "__dict__", {}):
        if not isinstance(item, type) and callable(getattr(type(item), name, None)):
            raise _damaged(f"{type(item).__name__} has a value in place of its {name}")


def _damaged(what: str) -> ModelFileError:
    return ModelFileError(f"{what}; the file is damaged")


_Check = Callable[[Any, int | None], Callable[[], None] | None]


def _checks() -> list[tuple[type, _Check]]:
    """Classes, and what is checked of their objects; of classes that are not loaded there are none."""
    table: list[tuple[_Check, str, str]] = [
        (_check_tree, "sklearn.tree._tree", "Tree"),
        (_check_predictor, "sklearn.ensemble._hist_gradient_boosting.predictor", "TreePredictor"),
        (_check_histogram, "sklearn.ensemble._hist_gradient_boosting.gradient_boosting", "BaseHistGradientBoosting"),
        (_check_stages, "sklearn.ensemble._gb", "BaseGradientBoosting"),
        (_check_neighbours, "sklearn.neighbors._base", "NeighborsBase"),
        (_check_machine, "sklearn.svm._base", "BaseLibSVM"),
        (_check_one_hot, "sklearn.preprocessing._encoders", "OneHotEncoder"),
        (_check_words, "sklearn.feature_extraction.text", "CountVectorizer"),
        (_check_sparse, "scipy.sparse", "spmatrix"),
        (_check_sparse, "scipy.sparse", "sparray"),
        (_check_generator, "numpy.random", "RandomState"),
    ]
    found = [(check, getattr(sys.modules.get(module), name, None)) for check, module, name in table]
    return [(kind, check) for check, kind in found if kind is not None]


def _columns_of(item: Any, content: dict[str, Any], outer: int | None) -> int | None:
    """How many columns a table has that comes to the trees of an estimator; None if it does not look."""
    own = content.get("n_features_in_")
    if not type(item).__module__.startswith(("sklearn.ensemble", "sklearn.tree")) or not isinstance(own, int):
        return None
    return own if outer is None else min(own, outer)


def _check_tree(tree: Any, columns: int | None) -> None:
    # Its arrays are views of as many nodes as it says, so that comes first.
    if not 0 < tree.node_count <= tree.capacity or not tree.value.size or columns is None:
        raise _damaged("a tree refers to nodes or columns that do not exist")
    lefts, rights = tree.children_left, tree.children_right
    _check_nodes(lefts, rights, tree.feature, lefts == -1, min(tree.n_features, columns))
    level, depth = np.zeros(1, dtype=np.int64), -1
    while len(level):
        depth += 1
        level = level[lefts[level] != -1]
        level = np.concatenate([lefts[level], rights[level]])
    if depth > tree.max_depth:  # it decides how much memory the path of a row gets
        raise _damaged("a tree is deeper than it says")


def _check_predictor(tree: Any, columns: int | None) -> None:
    nodes = tree.nodes
    _check_nodes(nodes["left"], nodes["right"], nodes["feature_idx"], nodes["is_leaf"] != 0, columns)
    split = _by_category(tree)
    for sets in (tree.binned_left_cat_bitsets, tree.raw_left_cat_bitsets):
        if len(split) and (int(split["bitset_idx"].max()) >= len(sets) or sets.shape[1:] != (_WORDS_OF_BITSET,)):
            raise _damaged("a tree refers to categories that do not exist")


def _by_category(tree: Any) -> Any:
    """Nodes that split by category."""
    return tree.nodes[(tree.nodes["is_categorical"] != 0) & (tree.nodes["is_leaf"] == 0)]


def _check_nodes(lefts: Any, rights: Any, features: Any, is_leaf: Any, n_features: int | None) -> None:
    """Children come after their one parent, so that every path ends, and splits look at columns that there are."""
    if not len(lefts):
        raise _damaged("a tree has no nodes")
    inner = np.flatnonzero(~np.asarray(is_leaf, dtype=bool))
    columns = np.asarray(features)[inner]
    children = [np.asarray(side)[inner].astype(np.int64) for side in (lefts, rights)]
    bad = n_features is None or bool(len(inner) and (columns.min() < 0 or columns.max() >= n_features))
    bad = bad or any(bool((side <= inner).any() or (side >= len(lefts)).any()) for side in children)
    if bad or (len(inner) and np.bincount(np.concatenate(children)).max() > 1):
        raise _damaged("a tree refers to nodes or columns that do not exist")


def _check_histogram(model: Any, _: int | None) -> Callable[[], None] | None:
    if "_predictors" not in vars(model):
        return None
    known, places = model._bin_mapper.make_known_categories_bitsets()
    for tree in (tree for one in model._predictors for tree in one):
        columns = _by_category(tree)["feature_idx"]
        if len(columns) and (columns.max() >= len(places) or places[columns].max() >= len(known)):
            raise _damaged("a tree splits by category where there are none")
    if model._preprocessor is None:
        return None
    return lambda: _check_preparation(model)


def _check_preparation(model: Any) -> None:
    from sklearn.compose import ColumnTransformer

    columns = model.n_features_in_
    if type(model._preprocessor) is not ColumnTransformer or vars(model._preprocessor)["n_features_in_"] != columns:
        raise _damaged("histogram boosting must prepare all of its columns")
    if np.shape(model._preprocessor.transform(np.zeros((1, columns)))) != (1, columns):
        raise _damaged("histogram boosting must prepare all of its columns")


def _check_stages(model: Any, _: int | None) -> Callable[[], None] | None:
    return (lambda: _check_first(model)) if "estimators_" in vars(model) else None


def _check_first(model: Any) -> None:
    """The trees of a round add to as many columns of first predictions, which depend on no row."""
    from sklearn.dummy import DummyClassifier, DummyRegressor

    first = model._raw_predict_init(np.zeros((1, model.n_features_in_), dtype=np.float32))
    constant = isinstance(model.init_, str | DummyClassifier | DummyRegressor)
    if not constant or model.estimators_.ndim != 2 or first.shape != (1, model.estimators_.shape[1]):
        raise _damaged("the trees of a round and the first predictions differ in number")


def _check_neighbours(model: Any, _: int | None) -> Callable[[], None] | None:
    """Fitted again, which is what its tree and all else follows from."""
    if "_fit_X" not in vars(model):
        return None
    if model.metric != "minkowski" or model.metric_params is not None:
        raise _damaged("neighbours must be those by a Minkowski distance")
    if not 0 < model.n_neighbors <= model._fit_X.shape[0]:
        raise _damaged("there are fewer rows than neighbours")
    values = model.classes_[model._y] if hasattr(model, "classes_") else model._y
    model.fit(model._fit_X, values)
    return None


def _check_machine(model: Any, _: int | None) -> None:
    if "support_" not in vars(model):
        return
    if model._sparse or model.kernel not in _KERNELS or "_impl" in vars(model):
        raise _damaged("a support vector machine must have a kernel of rows that are not sparse")
    is_classifier = hasattr(model, "classes_")
    classes = len(model.classes_) if is_classifier else 2
    count, pairs = len(model.support_), classes * (classes - 1) // 2
    each = model._n_support.astype(np.int64)
    shapes = {
        "support_": (count,),
        "support_vectors_": (count, int(model.n_features_in_)),
        "_n_support": (classes,),
        "_dual_coef_": (classes - 1, count),
        "_intercept_": (pairs,),
        "_probB": model._probA.shape,
    }
    bad = any(getattr(model, name).shape != shape for name, shape in shapes.items())
    bad = bad or model._probA.shape not in ((0,), (pairs,)) or not isinstance(model.n_features_in_, int)
    if bad or each.min() < 0 or (each.sum() if is_classifier else each[0]) != count or (is_classifier and not count):
        raise _damaged("the arrays of a support vector machine do not fit together")


def _check_one_hot(model: Any, _: int | None) -> None:
    if "categories_" not in vars(model):
        return
    widths = model._n_features_outs
    bad = widths != model._compute_n_features_outs() or min(widths, default=0) < 0
    for known in model.categories_:  # numbers are looked up in order
        bad = bad or (known.dtype != object and bool((np.searchsorted(known, known) != np.arange(len(known))).any()))
    before = [len(known) for known in model.categories_]
    if model._infrequent_enabled:
        rare, mappings = model._infrequent_indices, model._default_to_infrequent_mappings
        for i, (indices, mapping) in enumerate(zip(rare, mappings, strict=True)):
            bad = bad or (indices is None) != (mapping is None)
            if not bad and mapping is not None:
                bad = len(mapping) != before[i]
                before[i] += 1 - indices.size
                bad = bad or mapping.min() < 0 or mapping.max() >= before[i]
    if model._drop_idx_after_grouping is not None:
        for dropped, width in zip(model._drop_idx_after_grouping, before, strict=True):
            bad = bad or (dropped is not None and not 0 <= dropped < width)
    if bad:
        raise _damaged("an encoder refers to columns that do not exist")


def _check_words(model: Any, _: int | None) -> None:
    if model.token_pattern != type(model)().token_pattern:  # others could take for ever
        raise _damaged("words must be found by the usual pattern")
    places = vars(model).get("vocabulary_", {}).values()
    if sorted(places) != list(range(len(places))):
        raise _damaged("words refer to columns that do not exist")


def _check_sparse(matrix: Any, _: int | None) -> None:
    matrix.check_format(full_check=True)


def _check_generator(generator: Any, _: int | None) -> None:
    if not 0 <= generator.get_state(legacy=False)["state"]["pos"] <= _LAST_OF_MERSENNE:
        raise _damaged("a generator of random numbers is at a position outside of its state")
