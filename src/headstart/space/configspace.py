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

import numpy as np

from headstart.errors import MissingDependency, SpaceError
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.pipeline import Pipeline, Value
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage

CHOICE = "__choice__"
ORDER = "__order__"
OURS = "headstart"
_MOST_MOVABLE = 6


def _library() -> ModuleType:
    """ConfigSpace, imported now."""
    try:
        import ConfigSpace
    except ImportError as error:
        raise MissingDependency(
            "ConfigSpace is needed to exchange search spaces with it; install headstart[configspace]"
        ) from error
    module: ModuleType = ConfigSpace
    return module


def _own_meta(hyper: Any) -> dict[str, Any]:
    """What we have written beside a hyper-parameter; nothing for those of others."""
    return dict((hyper.meta or {}).get(OURS, {}))


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


# -- writing ----------------------------------------------------------------------------------------------------------


def to_configspace(space: PipelineSpace) -> Any:
    """The space as a ``ConfigSpace.ConfigurationSpace``; its default is ``space.default()``."""
    lib = _library()
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
    _library()
    hypers = {h.name: h for h in configuration_space.values()}
    order = hypers.pop(ORDER, None)
    owners = _find_owners(hypers)
    names = _stage_names(hypers, owners, stages)
    conditions = _read_conditions(configuration_space, owners)
    made = [_read_stage(stage, hypers, owners, conditions, dict(paths or {})) for stage in names]
    forbidden = [_read_clause(clause, hypers, owners) for clause in _flat(configuration_space.forbidden_clauses)]
    possible = [clause for clause in forbidden if all(clause.values())]  # not two algorithms of one stage at once
    title = name or configuration_space.name or "configuration space"
    return PipelineSpace(title, made, possible, free_order=order is not None)


def _find_owners(hypers: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
    """Stage, algorithm and parameter of each hyper-parameter that is not a choice."""
    chosen = {n.removesuffix(f":{CHOICE}"): list(h.choices) for n, h in hypers.items() if n.endswith(f":{CHOICE}")}
    owners = {}
    for name in hypers:
        if name.endswith(f":{CHOICE}"):
            continue
        fits = [s for s in chosen if name.startswith(f"{s}:")]
        stage = max(fits, key=len, default=None)
        if stage is not None:
            rest = name.removeprefix(f"{stage}:")
            algorithm = max((a for a in chosen[stage] if rest.startswith(f"{a}:")), key=len, default=None)
            if algorithm is None:
                raise SpaceError(f"{name!r} must be named stage:algorithm:parameter; {stage!r} has {chosen[stage]}")
            owners[name] = (stage, algorithm, rest.removeprefix(f"{algorithm}:"))
        else:
            stage, _, parameter = name.rpartition(":")
            stage = stage or "configuration"
            owners[name] = (stage, stage.rpartition(":")[2], parameter)
    return owners


def _stage_names(
    hypers: Mapping[str, Any], owners: Mapping[str, tuple[str, str, str]], wanted: Sequence[str] | None
) -> list[str]:
    found: dict[str, tuple[bool, int]] = {}
    for name, hyper in hypers.items():
        stage = name.removesuffix(f":{CHOICE}") if name.endswith(f":{CHOICE}") else owners[name][0]
        last = stage.rpartition(":")[2] in ("estimator", "classifier", "regressor")
        found.setdefault(stage, (last, len(found)))
        if name.endswith(f":{CHOICE}") and "position" in _own_meta(hyper):
            found[stage] = (False, _own_meta(hyper)["position"])
    if wanted is None:
        return sorted(found, key=lambda stage: found[stage])
    if sorted(wanted) != sorted(found):
        raise SpaceError(f"stages must name each of {sorted(found)} once, got {list(wanted)}")
    return list(wanted)


def _read_stage(
    stage: str,
    hypers: Mapping[str, Any],
    owners: Mapping[str, tuple[str, str, str]],
    conditions: Mapping[str, dict[str, list[Any]]],
    paths: Mapping[str, str],
) -> Stage:
    choice = hypers.get(f"{stage}:{CHOICE}")
    details = _own_meta(choice) if choice is not None else {}
    names = list(choice.choices) if choice is not None else [stage.rpartition(":")[2]]
    weights = getattr(choice, "weights", None) or [1.0] * len(names)
    algorithms = []
    for algorithm, weight in zip(names, weights, strict=True):
        mine = [n for n, (s, a, _) in owners.items() if (s, a) == (stage, algorithm)]
        mine.sort(key=lambda n: _own_meta(hypers[n]).get("position", len(mine)))
        parents = {owners[n][2]: hypers[n] for n in mine}
        params = [_read_parameter(hypers[n], owners[n][2], conditions.get(n, {}), parents) for n in mine]
        extra = details.get("algorithms", {}).get(algorithm, {})
        path = paths.get(f"{stage}:{algorithm}", extra.get("path"))
        algorithms.append(
            Algorithm(str(algorithm), path, params, extra.get("fixed", {}), float(weight), extra.get("note", ""))
        )
    return Stage(stage, algorithms, details.get("kind", "step"), details.get("columns", "all"))


def _read_values(hyper: Any, values: Iterable[Any]) -> list[Value]:
    """Choices as we have them."""
    return [json.loads(v) if _own_meta(hyper).get("json") else _plain(v) for v in values]


def _choices(hyper: Any) -> list[Any] | None:
    """What a categorical, ordinal or constant can be; ``None`` for numbers."""
    for attribute in ("choices", "sequence"):
        if hasattr(hyper, attribute):
            return list(getattr(hyper, attribute))
    return [hyper.value] if hasattr(hyper, "value") else None


def _read_parameter(hyper: Any, name: str, condition: Mapping[str, list[Any]], parents: Mapping[str, Any]) -> Parameter:
    when = {parent: tuple(_read_values(parents[parent], values)) for parent, values in condition.items()}
    choices = _choices(hyper)
    if choices is not None:
        default = getattr(hyper, "default_value", choices[0])
        return Categorical(
            name,
            tuple(_read_values(hyper, choices)),
            _read_values(hyper, [default])[0],
            ordered=hasattr(hyper, "sequence"),
            when=when,
        )
    low, high = getattr(hyper, "lower", None), getattr(hyper, "upper", None)
    if low is None or high is None:
        raise SpaceError(f"{hyper.name!r} must have a lower and an upper bound, got {hyper!r}")
    kind = Integer if "Integer" in type(hyper).__name__ else Float
    numbers = [_plain(number) for number in (low, high, hyper.default_value)]
    exactly = _own_meta(hyper).get("exactly", numbers)
    if not np.allclose(numbers, exactly, rtol=1e-6, atol=1e-12):  # somebody changed them since
        exactly = numbers
    low, high, default = exactly
    return kind(name, low, high, bool(getattr(hyper, "log", False)), default, when)


def _read_conditions(
    configuration_space: Any, owners: Mapping[str, tuple[str, str, str]]
) -> dict[str, dict[str, list[Any]]]:
    """For each hyper-parameter, the values of parameters of its algorithm that make it active."""
    found: dict[str, dict[str, list[Any]]] = {}
    for condition in configuration_space.conditions:
        for part in _parts(condition):
            child, parent = part.child, part.parent
            values = _switching_values(part)
            if parent.name.endswith(f":{CHOICE}"):
                stage, algorithm, _ = owners.get(child.name, ("", "", ""))
                if parent.name == f"{stage}:{CHOICE}" and values == [algorithm]:
                    continue  # a parameter belongs to its algorithm anyway
            elif child.name in owners and owners[child.name][:2] == owners.get(parent.name, ("", "", ""))[:2]:
                found.setdefault(child.name, {})[owners[parent.name][2]] = values
                continue
            raise SpaceError(f"a condition must be on a parameter of the same algorithm, got {part!r}")
    return found


def _parts(condition: Any) -> list[Any]:
    """The conditions that must all hold; several on one parent joined by "or" are one."""
    kind = type(condition).__name__
    if kind == "AndConjunction":
        return [part for component in condition.components for part in _parts(component)]
    if kind == "OrConjunction":
        components = [part for component in condition.components for part in _parts(component)]
        if len({part.parent.name for part in components}) > 1:
            raise SpaceError(f"conditions joined by 'or' must be on one parameter, got {condition!r}")
        values = [value for part in components for value in _switching_values(part)]
        return [_library().InCondition(components[0].child, components[0].parent, list(dict.fromkeys(values)))]
    return [condition]


def _switching_values(condition: Any) -> list[Any]:
    choices = _choices(condition.parent)
    if choices is None:
        raise SpaceError(f"a condition must be on a categorical parameter, got {condition!r}")
    kind = type(condition).__name__
    if kind == "InCondition":
        return list(condition.values)
    if kind == "EqualsCondition":
        return [condition.value]
    if kind == "NotEqualsCondition":
        return [c for c in choices if c != condition.value]
    place = choices.index(condition.value)
    return choices[:place] if kind == "LessThanCondition" else choices[place + 1 :]


def _flat(clauses: Iterable[Any]) -> list[list[Any]]:
    """Each forbidden combination as a list of clauses on single hyper-parameters."""
    found: list[list[Any]] = []
    for clause in clauses:
        kind = type(clause).__name__
        if kind == "ForbiddenAndConjunction":
            for parts in itertools.product(*(_flat([component]) for component in clause.components)):
                found.append([part for group in parts for part in group])
        elif kind == "ForbiddenOrConjunction":
            found += _flat(clause.components)
        elif kind in ("ForbiddenInClause", "ForbiddenEqualsClause"):
            found.append([clause])
        else:
            raise SpaceError(f"only forbidden values of categorical parameters can be read, got {clause!r}")
    return found


def _read_clause(
    parts: Sequence[Any], hypers: Mapping[str, Any], owners: Mapping[str, tuple[str, str, str]]
) -> dict[str, list[Value]]:
    clause: dict[str, list[Value]] = {}
    for part in parts:
        hyper = hypers[part.hyperparameter.name]
        values = list(part.values) if hasattr(part, "values") else [part.value]
        if hyper.name.endswith(f":{CHOICE}"):
            key, kept = hyper.name.removesuffix(f":{CHOICE}"), [str(v) for v in values]
            _narrow(clause, key, [v for v in hyper.choices if v in kept])
        else:
            choices = _choices(hyper)
            if choices is None:
                raise SpaceError(f"only values of categorical parameters can be forbidden, got {part!r}")
            stage, algorithm, parameter = owners[hyper.name]
            _narrow(clause, stage, [algorithm])
            _narrow(clause, f"{stage}.{parameter}", _read_values(hyper, [c for c in choices if c in values]))
    return clause


def _narrow(clause: dict[str, list[Value]], key: str, values: list[Any]) -> None:
    clause[key] = [v for v in values if v in clause[key]] if key in clause else values


# -- points -----------------------------------------------------------------------------------------------------------


def to_configuration(pipeline: Pipeline, space: PipelineSpace, configuration_space: Any) -> Any:
    """A pipeline of `space` as a ``ConfigSpace.Configuration`` of ``to_configspace(space)``."""
    lib = _library()
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
                found[parameter.name] = _value(configuration.config_space[name], parameter, _plain(values[name]))
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
        value = json.loads(value) if _own_meta(hyper).get("json") else value
    elif value in (hyper.lower, hyper.upper):
        value = parameter.low if value == hyper.lower else parameter.high
    return parameter.from_unit(parameter.to_unit([value]))[0]


def _find(names: Any, stage: str, algorithm: str, parameter: str) -> str:
    """The name in use: with the algorithm, of a stage without a choice, or without a stage."""
    for name in (f"{stage}:{algorithm}:{parameter}", f"{stage}:{parameter}", parameter):
        if name in names:
            return name
    return f"{stage}:{algorithm}:{parameter}"
