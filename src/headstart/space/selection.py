"""Algorithms by name, whichever stage they stand in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headstart.errors import SpaceError, suggestion
from headstart.space.stages import Stage


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
