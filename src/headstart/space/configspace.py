"""Search spaces to and from ConfigSpace (extra ``configspace``).

A stage is written as auto-sklearn writes it:

=============================  ================================================================================
ours                           ConfigSpace
=============================  ================================================================================
algorithms of a stage          categorical ``stage:__choice__``, their weights as its weights
hyper-parameter                ``stage:algorithm:parameter``, active if the algorithm is chosen
condition (`when`)             a further ``InCondition``
ordered categorical            ordinal
forbidden combination          conjunctions of ``ForbiddenInClause``, one per algorithm that has the parameter
free order of steps            categorical ``__order__``: positions of the stages, such as ``0,2,1,3``
=============================  ================================================================================

Choices of different types, such as ``None`` among texts, are written as JSON texts. What ConfigSpace has no place for
(paths of classes, fixed settings, kinds of stages, order of parameters) goes into the hyper-parameters' ``meta``, so
that `from_configspace` gives back the space that was written, through ConfigSpace's own JSON too.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

from headstart.errors import SpaceError
from headstart.space._configspace_reading import (
    CHOICE,
    ORDER,
    OURS,
    find_owners,
    flat,
    library,
    merged,
    own_meta,
    plain,
    read_clause,
    read_conditions,
    read_stage,
    stage_names,
)
from headstart.space.parameters import Categorical, Float, Parameter
from headstart.space.pipeline import Pipeline, Value
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage

_MOST_MOVABLE = 6


# -- writing ----------------------------------------------------------------------------------------------------------


def to_configspace(space: PipelineSpace) -> Any:
    """The space as a ``ConfigSpace.ConfigurationSpace``; its default is ``space.default()``."""
    lib = library()
    written = lib.ConfigurationSpace(name=space.name)
    default = space.default()
    for s, stage in enumerate(space.stages):
        chosen = _choice(lib, s, stage, default.algorithms[s])
        written.add(chosen)
        for algorithm in stage.algorithms:
            settings = default.params[s] if algorithm.name == default.algorithms[s] else {}
            made: dict[str, Any] = {}
            for k, parameter in enumerate(algorithm.params):
                name = f"{stage.name}:{algorithm.name}:{parameter.name}"
                made[parameter.name] = _hyperparameter(lib, name, parameter, settings.get(parameter.name), k)
            written.add(*made.values())
            written.add(*_conditions(lib, algorithm, made, chosen))
    if space.free_order:
        movable = _movable(space.stages)
        if len(movable) > _MOST_MOVABLE:
            raise SpaceError(f"at most {_MOST_MOVABLE} stages may change places in ConfigSpace, got {len(movable)}")
        written.add(lib.CategoricalHyperparameter(ORDER, _orders(len(space.stages), movable)))
    for clause in space.forbidden:
        written.add(*_forbidden(lib, space, clause, written))
    return written


def _choice(lib: ModuleType, position: int, stage: Stage, default: str) -> Any:
    details: dict[str, Any] = {"position": position, "algorithms": {}}
    if stage.kind != "step":
        details["kind"] = stage.kind
    if stage.columns != "all":
        details["columns"] = stage.columns
    for algorithm in stage.algorithms:
        content = algorithm.to_dict()
        details["algorithms"][algorithm.name] = {k: content[k] for k in ("path", "fixed", "note") if k in content}
    weights = [algorithm.weight for algorithm in stage.algorithms]
    return lib.CategoricalHyperparameter(
        f"{stage.name}:{CHOICE}",
        list(stage.names),
        default_value=default,
        weights=weights if len(set(weights)) > 1 or weights[0] != 1.0 else None,
        meta={OURS: details},
    )


def _hyperparameter(lib: ModuleType, name: str, parameter: Parameter, default: Value, position: int) -> Any:
    meta: dict[str, Any] = {"position": position}
    value = parameter.default if default is None else default
    if isinstance(parameter, Categorical):
        as_text = _needs_text(parameter.choices)
        if as_text:
            meta["json"] = True
        choices = [json.dumps(c) if as_text else c for c in parameter.choices]
        shown = json.dumps(value) if as_text else value
        kind = lib.OrdinalHyperparameter if parameter.ordered else lib.CategoricalHyperparameter
        return kind(name, choices, default_value=shown, meta={OURS: meta})
    number = lib.UniformFloatHyperparameter if isinstance(parameter, Float) else lib.UniformIntegerHyperparameter
    meta["exactly"] = [parameter.low, parameter.high, parameter.default]  # ConfigSpace rounds
    return number(name, parameter.low, parameter.high, default_value=value, log=parameter.log, meta={OURS: meta})


def _needs_text(choices: Iterable[Value]) -> bool:
    """Whether choices are of several types, which ConfigSpace would mix up (``True == 1``) or refuse."""
    kinds = {"number" if isinstance(c, (int, float)) and not isinstance(c, bool) else type(c).__name__ for c in choices}
    return len(kinds) > 1 or kinds == {"NoneType"}


def _conditions(lib: ModuleType, algorithm: Algorithm, made: Mapping[str, Any], chosen: Any) -> list[Any]:
    conditions = []
    for parameter in algorithm.params:
        child = made[parameter.name]
        parts = [lib.EqualsCondition(child, chosen, algorithm.name)]
        for parent, values in parameter.when.items():
            written = [_written(algorithm.param(parent), value) for value in values]
            parts.append(lib.InCondition(child, made[parent], written))
        conditions.append(parts[0] if len(parts) == 1 else lib.AndConjunction(*parts))
    return conditions


def _written(parameter: Parameter, value: Value) -> Value:
    if isinstance(parameter, Categorical):
        exact = parameter.choices[parameter.positions_of([value])[0]]
        return json.dumps(exact) if _needs_text(parameter.choices) else exact
    return value


def _forbidden(lib: ModuleType, space: PipelineSpace, clause: Mapping[str, Any], written: Any) -> list[Any]:
    """One conjunction for each way to choose an algorithm for each parameter that the clause names."""
    options: list[list[Any]] = []
    for key, values in clause.items():
        name, _, wanted = key.partition(".")
        if not wanted:
            options.append([lib.ForbiddenInClause(written[f"{name}:{CHOICE}"], list(values))])
            continue
        places = []
        for algorithm in space.stage(name).algorithms:
            for parameter in algorithm.params:
                if parameter.name == wanted and isinstance(parameter, Categorical):
                    hit = [_written(parameter, v) for v in values if parameter.contains(v)]
                    if hit:
                        hyper = written[f"{name}:{algorithm.name}:{wanted}"]
                        places.append(lib.ForbiddenInClause(hyper, hit))
        options.append(places)
    return [
        parts[0] if len(parts) == 1 else lib.ForbiddenAndConjunction(*parts) for parts in itertools.product(*options)
    ]


def _movable(stages: Sequence[Stage]) -> list[int]:
    steps = [s for s, stage in enumerate(stages) if stage.kind == "step"]
    return [s for s in steps[:-1] if stages[s].columns == "all"]


def _orders(count: int, movable: Sequence[int]) -> list[str]:
    texts = []
    for moved in itertools.permutations(movable):
        order = list(range(count))
        for place, s in zip(movable, moved, strict=True):
            order[place] = s
        texts.append(",".join(map(str, order)))
    return texts


# -- reading ----------------------------------------------------------------------------------------------------------


def from_configspace(
    configuration_space: Any,
    *,
    name: str | None = None,
    stages: Sequence[str] | None = None,
    paths: Mapping[str, str] | None = None,
) -> PipelineSpace:
    """The space that a ``ConfigSpace.ConfigurationSpace`` describes.

    Hyper-parameters are named ``stage:algorithm:parameter`` beside a ``stage:__choice__``, as auto-sklearn does and as
    `to_configspace` writes them. Those of a stage without a choice, ``stage:parameter``, become the parameters of its
    only algorithm, which has the stage's name; those without any colon belong to a stage ``configuration``.

    Parameters
    ----------
    name
        Of the space; otherwise that of the configuration space.
    stages
        Names of the stages in the order they are applied. Otherwise the order in which they were written, if
        `to_configspace` wrote them, or that of ConfigSpace with an estimator, classifier or regressor last.
    paths
        Where classes are: ``{"stage:algorithm": "module:attribute"}``, for spaces that others wrote. Without them
        pipelines can be searched, but not built.

    Raises
    ------
    SpaceError
        For what has no counterpart here: unbounded numbers, conditions on numbers or on another stage's parameters,
        conditions joined by "or" over several parameters, forbidden relations and forbidden numbers.
    """
    library()
    hypers = {h.name: h for h in configuration_space.values()}
    order = hypers.pop(ORDER, None)
    owners = find_owners(hypers)
    names = stage_names(hypers, owners, stages)
    conditions = read_conditions(configuration_space, owners)
    made = [read_stage(stage, hypers, owners, conditions, dict(paths or {})) for stage in names]
    forbidden = [read_clause(clause, hypers, owners) for clause in flat(configuration_space.forbidden_clauses)]
    title = name or configuration_space.name or "configuration space"
    return PipelineSpace(title, made, merged(forbidden), free_order=order is not None)


# -- points -----------------------------------------------------------------------------------------------------------


def to_configuration(pipeline: Pipeline, space: PipelineSpace, configuration_space: Any) -> Any:
    """A pipeline of `space` as a ``ConfigSpace.Configuration`` of ``to_configspace(space)``."""
    lib = library()
    space.encode([pipeline])  # raises if it does not belong to the space
    values: dict[str, Any] = {}
    for stage, algorithm, params in zip(space.stages, pipeline.algorithms, pipeline.params, strict=True):
        if f"{stage.name}:{CHOICE}" in configuration_space:
            values[f"{stage.name}:{CHOICE}"] = algorithm
        declared = stage.algorithms[stage.position(algorithm)]
        for parameter, value in params.items():
            name = _find(configuration_space, stage.name, algorithm, parameter)
            values[name] = _within(configuration_space[name], _written(declared.param(parameter), value))
    if space.free_order:
        values[ORDER] = ",".join(map(str, pipeline.order or range(len(space.stages))))
    return lib.Configuration(configuration_space, values=values)


def from_configuration(configuration: Any, space: PipelineSpace) -> Pipeline:
    """The pipeline of `space` that a configuration stands for, its numbers moved to the nearest of the space."""
    values = dict(configuration)
    algorithms, params = [], []
    for stage in space.stages:
        chosen = str(values.get(f"{stage.name}:{CHOICE}", stage.names[0]))
        found: dict[str, Value] = {}
        for parameter in stage.algorithms[stage.position(chosen)].params:
            name = _find(values, stage.name, chosen, parameter.name)
            if name in values:
                found[parameter.name] = _value(configuration.config_space[name], parameter, plain(values[name]))
        algorithms.append(chosen)
        params.append(found)
    order = [int(s) for s in str(values[ORDER]).split(",")] if ORDER in values else None
    pipeline = Pipeline(algorithms, params, order)
    return space.encode([pipeline])[0]


def _within(hyper: Any, value: Any) -> Any:
    """A number moved between bounds that ConfigSpace has rounded."""
    return min(max(value, hyper.lower), hyper.upper) if hasattr(hyper, "lower") else value


def _value(hyper: Any, parameter: Parameter, value: Any) -> Value:
    if isinstance(parameter, Categorical):
        value = json.loads(value) if own_meta(hyper).get("json") else value
    elif value in (hyper.lower, hyper.upper):
        value = parameter.low if value == hyper.lower else parameter.high
    return parameter.from_unit(parameter.to_unit([value]))[0]


def _find(names: Any, stage: str, algorithm: str, parameter: str) -> str:
    """The name in use: with the algorithm, of a stage without a choice, or without a stage."""
    for name in (f"{stage}:{algorithm}:{parameter}", f"{stage}:{parameter}", parameter):
        if name in names:
            return name
    return f"{stage}:{algorithm}:{parameter}"
