"""`Algorithm` and `Stage`: what a search space is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from headstart.errors import SpaceError, suggestion
from headstart.space.parameters import Categorical, Float, Integer, Parameter, parameter_from_dict, parameter_to_dict
from headstart.space.pipeline import Value


@dataclass(frozen=True)
class Algorithm:
    """One way to do a stage.

    Parameters
    ----------
    name
        Unique within its stage.
    path
        Where its class is: ``"module:attribute"``, imported only when a pipeline is built. ``None`` does nothing
        (a stage that may be left out has such an algorithm, usually named ``none``).
    params
        Hyper-parameters to search, parents of conditions before their children.
    fixed
        Settings that are not searched.
    weight
        How often it is sampled, relative to the other algorithms of its stage.
    note
        Where it differs from its source, or what to know about it; for people.
    """

    name: str
    path: str | None = None
    params: Sequence[Parameter] = ()
    fixed: Mapping[str, Value] = field(default_factory=dict, hash=False)
    weight: float = 1.0
    note: str = ""

    def __post_init__(self) -> None:
        kinds = (Float, Integer, Categorical)
        if not isinstance(self.params, Iterable) or not all(isinstance(p, kinds) for p in self.params):
            raise SpaceError(f"algorithm {self.name!r}: params must be a list of Float, Integer or Categorical")
        object.__setattr__(self, "params", tuple(self.params))
        if self.path is not None and not isinstance(self.path, str):
            raise SpaceError(
                f"algorithm {self.name!r}: path must read 'module:attribute', got {self.path!r}; a space is data that "
                f"can be stored, without classes"
            )
        if not 0 < self.weight < float("inf"):
            raise SpaceError(f"algorithm {self.name!r}: weight must be positive and finite, got {self.weight!r}")
        if not self.name:
            raise SpaceError("an algorithm needs a name")
        if self.path is not None and self.path.count(":") != 1:
            raise SpaceError(f"algorithm {self.name!r}: path must read 'module:attribute', got {self.path!r}")
        seen: dict[str, Parameter] = {}
        for parameter in self.params:
            if parameter.name in seen or parameter.name in self.fixed:
                raise SpaceError(f"algorithm {self.name!r} has two settings named {parameter.name!r}")
            for parent, values in parameter.when.items():
                if not isinstance(seen.get(parent), Categorical):
                    raise SpaceError(
                        f"algorithm {self.name!r}: {parameter.name!r} depends on {parent!r}, which must be a "
                        f"categorical parameter declared before it"
                    )
                if not all(seen[parent].contains(value) for value in values):
                    raise SpaceError(
                        f"algorithm {self.name!r}: {parameter.name!r} depends on {parent!r} being one of {values!r}, "
                        f"which are not all choices of it"
                    )
            seen[parameter.name] = parameter

    def param(self, name: str) -> Parameter:
        for parameter in self.params:
            if parameter.name == name:
                return parameter
        raise SpaceError(
            f"algorithm {self.name!r} has no parameter {name!r}; {suggestion(name, [p.name for p in self.params])}"
        )

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {"name": self.name}
        if self.path is not None:
            content["path"] = self.path
        if self.params:
            content["params"] = [parameter_to_dict(p) for p in self.params]
        if self.fixed:
            content["fixed"] = dict(self.fixed)
        if self.weight != 1.0:
            content["weight"] = self.weight
        if self.note:
            content["note"] = self.note
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Algorithm:
        params = tuple(parameter_from_dict(p) for p in content.get("params", ()))
        rest = {name: content[name] for name in ("path", "fixed", "weight", "note") if name in content}
        return cls(content["name"], params=params, **rest)


@dataclass(frozen=True)
class Stage:
    """A step of the pipeline, or an option of its fit, with the algorithms to choose from.

    Parameters
    ----------
    kind
        ``"step"`` is a part of the pipeline; ``"fit_option"`` changes how the last step is fitted (such as class
        weighting) and is no step of its own.
    columns
        Which columns of a table it works on. Stages on ``"numeric"`` or ``"categorical"`` columns come first and run
        side by side; what they make is joined for the stages on ``"all"``.
    """

    name: str
    algorithms: Sequence[Algorithm]
    kind: Literal["step", "fit_option"] = "step"
    columns: Literal["all", "numeric", "categorical"] = "all"

    def __post_init__(self) -> None:
        if not isinstance(self.algorithms, Iterable) or not all(isinstance(a, Algorithm) for a in self.algorithms):
            raise SpaceError(f"stage {self.name!r}: algorithms must be a list of Algorithm, got {self.algorithms!r}")
        object.__setattr__(self, "algorithms", tuple(self.algorithms))
        if not self.name or "." in self.name:
            raise SpaceError(f"a stage needs a name without a dot, got {self.name!r}")
        names = self.names
        if not names:
            raise SpaceError(f"stage {self.name!r} needs at least one algorithm")
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise SpaceError(f"stage {self.name!r} has two algorithms named {twice[0]!r}")
        if self.kind not in ("step", "fit_option"):
            raise SpaceError(f"stage {self.name!r}: kind must be 'step' or 'fit_option', got {self.kind!r}")
        if self.columns not in ("all", "numeric", "categorical"):
            raise SpaceError(
                f"stage {self.name!r}: columns must be 'all', 'numeric' or 'categorical', got {self.columns!r}"
            )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.algorithms)

    def position(self, algorithm: str) -> int:
        try:
            return self.names.index(algorithm)
        except ValueError:
            raise SpaceError(
                f"stage {self.name!r} has no algorithm {algorithm!r}; {suggestion(algorithm, self.names)}"
            ) from None

    def positions(self, given: str | Sequence[str] | None) -> list[int]:
        """Positions of the named algorithms, of all for ``None``."""
        if given is None:
            return list(range(len(self.algorithms)))
        names = [given] if isinstance(given, str) else list(given)
        if not names:
            raise SpaceError(f"stage {self.name!r} must keep at least one algorithm; {suggestion('', self.names)}")
        return sorted({self.position(name) for name in names})

    def to_dict(self) -> dict[str, Any]:
        content = {"name": self.name, "kind": self.kind, "algorithms": [a.to_dict() for a in self.algorithms]}
        return content if self.columns == "all" else {**content, "columns": self.columns}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Stage:
        algorithms = tuple(Algorithm.from_dict(a) for a in content["algorithms"])
        return cls(content["name"], algorithms, content.get("kind", "step"), content.get("columns", "all"))


def selected(stages: Sequence[Stage], include: Iterable[str], exclude: Iterable[str]) -> dict[str, list[str]]:
    """What is left of the stages that the names concern; see `PipelineSpace.select`."""
    given: dict[str, list[str]] = {}
    for name in _names("include", include):
        stage, algorithm = _find(stages, name)
        given.setdefault(stage.name, []).append(algorithm)
    for name in _names("exclude", exclude):
        stage, algorithm = _find(stages, name)
        left = given.setdefault(stage.name, list(stage.names))
        if algorithm in left:
            left.remove(algorithm)
        if not left:
            raise SpaceError(f"stage {stage.name!r} has no algorithm left without {name!r}; exclude fewer of it")
    return given


def _names(option: str, names: Iterable[str]) -> list[str]:
    if isinstance(names, str):
        raise SpaceError(f"{option} must be a list of names of algorithms, got the text {names!r}; write [{names!r}]")
    return list(names)


def _find(stages: Sequence[Stage], name: str) -> tuple[Stage, str]:
    stage_name, _, algorithm = str(name).rpartition(".")
    found = [s for s in stages if algorithm in s.names and stage_name in ("", s.name)]
    if not found:
        known = {a for s in stages if stage_name in ("", s.name) for a in s.names} or {s.name for s in stages}
        raise SpaceError(f"no algorithm {name!r} in this space; {suggestion(algorithm, known)}")
    if len(found) > 1:
        ways = " or ".join(f"'{s.name}.{algorithm}'" for s in found)
        raise SpaceError(f"algorithm {algorithm!r} stands in several stages; say {ways}")
    return found[0], algorithm
