"""Whether the pipelines of one space are pipelines of another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headstart.space.parameters import parameter_to_dict
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm


@dataclass(frozen=True)
class Misfit:
    """What of a space cannot be said in another.

    Parameters
    ----------
    unknown
        ``(stage, algorithm)`` pairs that the other one does not have.
    different
        Pairs whose hyper-parameters are not those of the other one, so that equal numbers mean different things.
    stages
        Names of stages that only one of the two has.
    order
        Whether the stages are in another order, or their order is free in one of the two only.
    """

    unknown: tuple[tuple[str, str], ...] = ()
    different: tuple[tuple[str, str], ...] = ()
    stages: tuple[str, ...] = ()
    order: bool = False

    def __bool__(self) -> bool:
        return bool(self.unknown or self.different or self.stages or self.order)

    def __str__(self) -> str:
        lines = []
        if self.stages:
            lines.append(f"stages {_list(self.stages)} are not in both")
        if self.order:
            lines.append("the order of stages differs")
        for pairs, what in ((self.unknown, "unknown"), (self.different, "known with other hyper-parameters")):
            if pairs:
                lines.append(f"{_list([f'{stage}.{algorithm}' for stage, algorithm in pairs])}: {what}")
        return "; ".join(lines)


def misfit(space: PipelineSpace, other: PipelineSpace) -> Misfit:
    """What keeps pipelines of `space` from being pipelines of `other`; false if nothing does.

    The other one may have more algorithms. What an algorithm is made of (its path and fixed settings) and its defaults
    do not count: they decide what is trained and sampled, not where it lies.
    """
    if space == other:
        return Misfit()
    names, there = [stage.name for stage in space.stages], {stage.name: stage for stage in other.stages}
    unknown, different = [], []
    for stage in space.stages:
        known = {a.name: a for a in there[stage.name].algorithms} if stage.name in there else {}
        for algorithm in stage.algorithms if stage.name in there else ():
            if algorithm.name not in known:
                unknown.append((stage.name, algorithm.name))
            elif _columns(algorithm) != _columns(known[algorithm.name]):
                different.append((stage.name, algorithm.name))
    stages = tuple(sorted(set(names) ^ there.keys()))
    # where the order is free, a pipeline brings its own
    moved = space.free_order != other.free_order or (not space.free_order and not stages and names != list(there))
    return Misfit(tuple(unknown), tuple(different), stages, moved)


def _columns(algorithm: Algorithm) -> list[dict[str, Any]]:
    return [{k: v for k, v in parameter_to_dict(p).items() if k != "default"} for p in algorithm.params]


def _list(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
