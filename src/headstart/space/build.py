"""From a `Pipeline` to a scikit-learn pipeline."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headstart.errors import MissingDependency, SpaceError
from headstart.space.pipeline import Pipeline

if TYPE_CHECKING:
    from headstart.space.space import PipelineSpace


def load(path: str) -> Any:
    """The object at ``"module:attribute"``."""
    module, _, attribute = path.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise MissingDependency(f"{path} needs a package that is not installed: {error}") from error
    except AttributeError:
        raise SpaceError(f"module {module!r} has no {attribute!r}") from None


def build(
    space: PipelineSpace, pipeline: Pipeline, kinds: Mapping[str, str] | None = None, seed: int | None = None
) -> Any:
    """An unfitted ``sklearn.pipeline.Pipeline`` with a step for each stage that does something.

    Parameters
    ----------
    kinds
        Kind of each column of the table it is for. The pipeline then starts from the raw table: it prepares the
        columns and runs stages on numeric and on categorical columns side by side. Where the space has no stage for
        missing numbers or for categories, the median and a one-hot encoding stand in. Without kinds the pipeline
        starts from a matrix of numbers, and its stages simply follow each other, without those on categories; with no
        kind at all, an empty mapping, from a sparse one.
    seed
        Given to every step that takes a ``random_state``.
    """
    from sklearn.pipeline import Pipeline as SklearnPipeline

    space.encode([pipeline])  # raises if it does not belong to the space
    options: dict[str, Any] = {}
    steps: list[tuple[str, str, str, dict[str, Any]]] = []
    for i in pipeline.order or range(len(space.stages)):
        stage = space.stages[i]
        algorithm = stage.algorithms[stage.position(pipeline.algorithms[i])]
        settings = {**algorithm.fixed, **pipeline.params[i]}
        if stage.kind == "fit_option":
            options |= settings
        elif algorithm.path is not None:
            steps.append((stage.name, stage.columns, algorithm.path, settings))
    if not steps or steps[-1][1] != "all":
        raise SpaceError(f"{pipeline!r} has no step that predicts")
    *before, (name, _, path, settings) = steps
    last = _with_options(make(path, settings, seed), options)
    if kinds is None or not kinds:
        numbers = [(n, make(p, s, seed)) for n, columns, p, s in before if columns != "categorical"]
        if kinds is not None:
            numbers = [("prepare", make("headstart.components.sparse:Densify", {}, seed)), *numbers]
        return SklearnPipeline([*numbers, (name, last)])
    front = [(n, make(p, s, seed)) for n, columns, p, s in before if columns == "all"]
    return SklearnPipeline([*_table_steps(space, before, dict(kinds), seed), *front, (name, last)])


def _table_steps(
    space: PipelineSpace, steps: list[tuple[str, str, str, dict[str, Any]]], kinds: dict[str, str], seed: int | None
) -> list[tuple[str, Any]]:
    """What brings a raw table to a matrix: its preparation, then the stages by kind of column."""
    from sklearn.compose import ColumnTransformer, make_column_selector
    from sklearn.pipeline import make_pipeline

    # One seed for all: pipelines that are fitted to the same rows then prepare them alike, and can share the work.
    prepare = ("prepare", make("headstart.components.prepare:PrepareTable", {"kinds": kinds, "random_state": 0}, None))
    declared = {stage.columns for stage in space.stages if stage.kind == "step"}
    sides: list[tuple[str, Any, Any]] = []
    for side, selector, stand_in in (
        ("numeric", make_column_selector(dtype_include="number"), _MEDIAN),
        ("categorical", make_column_selector(dtype_include="category"), _ONE_HOT),
    ):
        if side == "categorical" and "categorical" not in kinds.values():
            continue
        made = [make(p, s, seed) for _, columns, p, s in steps if columns == side]
        if side not in declared:
            made = [make(*stand_in, seed)]
        chain = "passthrough" if not made else made[0] if len(made) == 1 else make_pipeline(*made)
        sides.append((side, chain, selector))
    if all(chain == "passthrough" for _, chain, _ in sides):
        return [prepare]  # numbers and categories go on as they are
    joined = ColumnTransformer(sides, verbose_feature_names_out=False)
    if any(chain == "passthrough" for name, chain, _ in sides if name == "categorical"):
        joined.set_output(transform="pandas")  # an estimator that takes categories knows them by their type
    return [prepare, ("columns", joined)]


_MEDIAN = ("sklearn.impute:SimpleImputer", {"strategy": "median", "keep_empty_features": True})
_ONE_HOT = (
    "sklearn.preprocessing:OneHotEncoder",
    {"handle_unknown": "infrequent_if_exist", "min_frequency": 2, "max_categories": 50, "sparse_output": False},
)


def make(path: str, settings: Mapping[str, Any], seed: int | None) -> Any:
    """An object of the class at `path`."""
    maker = load(path)
    arguments = dict(settings)
    if seed is not None and "random_state" not in arguments and "random_state" in inspect.signature(maker).parameters:
        arguments["random_state"] = seed
    try:
        return maker(**arguments)
    except TypeError as error:
        raise SpaceError(f"{path} cannot be made with {arguments!r}: {error}") from error


def _with_options(estimator: Any, options: dict[str, Any]) -> Any:
    """The estimator with its fit options set, wrapped where it does not know them itself."""
    known = estimator.get_params()
    unknown = {name: value for name, value in options.items() if name not in known}
    estimator.set_params(**{name: value for name, value in options.items() if name in known})
    if unknown == {"class_weight": "balanced"}:
        from headstart.components.balance import BalancedWeights

        return BalancedWeights(estimator)
    if any(value is not None for value in unknown.values()):
        raise SpaceError(f"{type(estimator).__name__} has no option {', '.join(sorted(unknown))}")
    return estimator
