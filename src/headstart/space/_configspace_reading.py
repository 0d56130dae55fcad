"""How a ConfigSpace is read: its names, conditions and forbidden clauses; see `headstart.space.configspace`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from headstart.errors import MissingDependency, SpaceError
from headstart.space.parameters import Categorical, Float, Integer, Parameter
from headstart.space.pipeline import Value
from headstart.space.stages import Algorithm, Stage

CHOICE = "__choice__"
ORDER = "__order__"
OURS = "headstart"


def library() -> ModuleType:
    """ConfigSpace, imported now."""
    try:
        import ConfigSpace
    except ImportError as error:
        raise MissingDependency(
            "ConfigSpace is needed to exchange search spaces with it; install headstart[configspace]"
        ) from error
    module: ModuleType = ConfigSpace
    return module


def own_meta(hyper: Any) -> dict[str, Any]:
    """What we have written beside a hyper-parameter; nothing for those of others."""
    return dict((hyper.meta or {}).get(OURS, {}))


def find_owners(hypers: Mapping[str, Any]) -> dict[str, tuple[str, str, str]]:
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


def stage_names(
    hypers: Mapping[str, Any], owners: Mapping[str, tuple[str, str, str]], wanted: Sequence[str] | None
) -> list[str]:
    found: dict[str, tuple[bool, int]] = {}
    for name, hyper in hypers.items():
        stage = name.removesuffix(f":{CHOICE}") if name.endswith(f":{CHOICE}") else owners[name][0]
        last = stage.rpartition(":")[2] in ("estimator", "classifier", "regressor")
        found.setdefault(stage, (last, len(found)))
        if name.endswith(f":{CHOICE}") and "position" in own_meta(hyper):
            found[stage] = (False, own_meta(hyper)["position"])
    if wanted is None:
        return sorted(found, key=lambda stage: found[stage])
    if sorted(wanted) != sorted(found):
        raise SpaceError(f"stages must name each of {sorted(found)} once, got {list(wanted)}")
    return list(wanted)


def read_stage(
    stage: str,
    hypers: Mapping[str, Any],
    owners: Mapping[str, tuple[str, str, str]],
    conditions: Mapping[str, dict[str, list[Any]]],
    paths: Mapping[str, str],
) -> Stage:
    choice = hypers.get(f"{stage}:{CHOICE}")
    details = own_meta(choice) if choice is not None else {}
    names = list(choice.choices) if choice is not None else [stage.rpartition(":")[2]]
    weights = getattr(choice, "weights", None) or [1.0] * len(names)
    algorithms = []
    for algorithm, weight in zip(names, weights, strict=True):
        mine = [n for n, (s, a, _) in owners.items() if (s, a) == (stage, algorithm)]
        mine.sort(key=lambda n: own_meta(hypers[n]).get("position", len(mine)))
        parents = {owners[n][2]: hypers[n] for n in mine}
        params = [_read_parameter(hypers[n], owners[n][2], conditions.get(n, {}), parents) for n in mine]
        extra = details.get("algorithms", {}).get(algorithm, {})
        path = paths.get(f"{stage}:{algorithm}", extra.get("path"))
        algorithms.append(
            Algorithm(str(algorithm), path, params, extra.get("fixed", {}), float(weight), extra.get("note", ""))
        )
    return Stage(stage, algorithms, details.get("kind", "step"), details.get("columns", "all"))


def plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _read_values(hyper: Any, values: Iterable[Any]) -> list[Value]:
    """Choices as we have them."""
    return [json.loads(v) if own_meta(hyper).get("json") else plain(v) for v in values]


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
    numbers = [plain(number) for number in (low, high, hyper.default_value)]
    exactly = own_meta(hyper).get("exactly", numbers)
    if not np.allclose(numbers, exactly, rtol=1e-6, atol=1e-12):  # somebody changed them since
        exactly = numbers
    low, high, default = exactly
    return kind(name, low, high, bool(getattr(hyper, "log", False)), default, when)


def read_conditions(
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
        return [library().InCondition(components[0].child, components[0].parent, list(dict.fromkeys(values)))]
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


def flat(clauses: Iterable[Any]) -> list[list[Any]]:
    """Each forbidden combination as a list of clauses on single hyper-parameters."""
    found: list[list[Any]] = []
    for clause in clauses:
        kind = type(clause).__name__
        if kind == "ForbiddenAndConjunction":
            for parts in itertools.product(*(flat([component]) for component in clause.components)):
                found.append([part for group in parts for part in group])
        elif kind == "ForbiddenOrConjunction":
            found += flat(clause.components)
        elif kind in ("ForbiddenInClause", "ForbiddenEqualsClause"):
            found.append([clause])
        else:
            raise SpaceError(f"only forbidden values of categorical parameters can be read, got {clause!r}")
    return found


def read_clause(
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


def merged(clauses: Iterable[dict[str, list[Value]]]) -> list[dict[str, list[Value]]]:
    """Without combinations that cannot occur, such as two algorithms of one stage at once."""
    return [clause for clause in clauses if all(clause.values())]
