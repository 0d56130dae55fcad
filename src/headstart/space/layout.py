"""How the pipelines of a space lie in arrays: which columns belong to what, and which of them are active."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import SpaceError, suggestion
from headstart.space.parameters import Categorical, Parameter
from headstart.space.pipeline import Pipeline, Value
from headstart.space.stages import Stage

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Choice = NDArray[np.int64]


class Layout:
    """Columns of every parameter of every algorithm of every stage, side by side.

    Attributes
    ----------
    blocks
        ``blocks[s][a]``: the parameters of algorithm `a` of stage `s`, each with its columns.
    width
        Number of columns, D.
    defaults
        Default of every parameter, (D,).
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = stages
        self.blocks: list[list[list[tuple[Parameter, slice]]]] = []
        column = 0
        for stage in stages:
            blocks = []
            for algorithm in stage.algorithms:
                block = []
                for parameter in algorithm.params:
                    block.append((parameter, slice(column, column + parameter.width)))
                    column += parameter.width
                blocks.append(block)
            self.blocks.append(blocks)
        self.width = column
        self.defaults: Array = np.zeros(column)
        for blocks in self.blocks:
            for block in blocks:
                for parameter, columns in block:
                    self.defaults[columns] = parameter.to_unit([parameter.default])[0]
        self._conditions = [[_conditions(block) for block in blocks] for blocks in self.blocks]

    def span(self, s: int, a: int) -> slice:
        """All columns of an algorithm."""
        block = self.blocks[s][a]
        return slice(block[0][1].start, block[-1][1].stop) if block else slice(0, 0)

    def activate(self, values: Array, choice: Choice) -> tuple[Array, Mask]:
        """The values with 0 where a column is not active, and which are; both (n, D)."""
        active = np.zeros(values.shape, dtype=bool)
        for s, blocks in enumerate(self.blocks):
            for a, block in enumerate(blocks):
                if not block:
                    continue
                rows = np.flatnonzero(choice[:, s] == a)
                if len(rows) == 0:
                    continue
                active[rows, self.span(s, a)] = True
                for columns, parents in self._conditions[s][a]:
                    on = np.ones(len(rows), dtype=bool)
                    for parent, parent_columns, positions in parents:
                        on &= active[rows, parent_columns.start]
                        on &= np.isin(parent.positions(values[rows, parent_columns]), positions)
                    active[rows, columns] = on[:, None]
        return np.where(active, values, 0.0), active

    def encode(self, pipelines: Sequence[Pipeline]) -> tuple[Array, Mask, Choice]:
        """Values, active columns and choices of these pipelines; raises `SpaceError` for one that does not fit."""
        n = len(pipelines)
        choice = np.zeros((n, len(self.stages)), dtype=np.int64)
        values = np.zeros((n, self.width))
        given = np.zeros((n, self.width), dtype=bool)
        cells: dict[tuple[int, int, int], tuple[list[int], list[Value]]] = {}
        lookups = [{name: i for i, name in enumerate(stage.names)} for stage in self.stages]
        slots = [[{p.name: k for k, (p, _) in enumerate(block)} for block in blocks] for blocks in self.blocks]
        for i, pipeline in enumerate(pipelines):
            if len(pipeline.algorithms) != len(self.stages):
                raise SpaceError(f"a pipeline here has {len(self.stages)} stages, got {len(pipeline.algorithms)}")
            for s, algorithm in enumerate(pipeline.algorithms):
                a = lookups[s].get(algorithm)
                if a is None:
                    a = self.stages[s].position(algorithm)  # raises, naming what there is
                choice[i, s] = a
                for name, value in pipeline.params[s].items():
                    if name not in slots[s][a]:
                        self.stages[s].algorithms[a].param(name)  # raises, naming what there is
                    rows, column_values = cells.setdefault((s, a, slots[s][a][name]), ([], []))
                    rows.append(i)
                    column_values.append(value)
        for (s, a, k), (rows, column_values) in cells.items():
            parameter, columns = self.blocks[s][a][k]
            for value in column_values:
                if not parameter.contains(value):
                    raise SpaceError(f"{self._name(s, a, parameter)} cannot be {value!r}: {_range(parameter)}")
            values[rows, columns] = parameter.to_unit(column_values)
            given[rows, columns] = True
        values, active = self.activate(values, choice)
        wrong = np.flatnonzero((active != given).any(axis=1))
        if len(wrong):
            row = int(wrong[0])
            raise SpaceError(
                f"{pipelines[row]!r} must have exactly the hyper-parameters that are active for its algorithms: "
                f"{self._difference(active[row], given[row])}"
            )
        return values, active, choice

    def decode(
        self, values: Array, active: Mask, choice: Choice
    ) -> tuple[list[list[str]], list[list[dict[str, Value]]]]:
        """Algorithms and active hyper-parameters of each row."""
        n = len(choice)
        params: list[list[dict[str, Value]]] = [[{} for _ in self.stages] for _ in range(n)]
        for s, blocks in enumerate(self.blocks):
            for a, block in enumerate(blocks):
                chosen = np.flatnonzero(choice[:, s] == a)
                if len(chosen) == 0:
                    continue
                for parameter, columns in block:
                    rows = chosen[active[chosen, columns.start]]
                    decoded = parameter.from_unit(values[rows, columns])
                    for row, value in zip(rows.tolist(), decoded, strict=True):
                        params[row][s][parameter.name] = value
        names = [stage.names for stage in self.stages]
        return [[names[s][a] for s, a in enumerate(row)] for row in choice.tolist()], params

    def _name(self, s: int, a: int, parameter: Parameter) -> str:
        return f"{self.stages[s].name}.{self.stages[s].names[a]}.{parameter.name}"

    def _difference(self, expected: Mask, found: Mask) -> str:
        words = []
        for s, blocks in enumerate(self.blocks):
            for a, block in enumerate(blocks):
                for parameter, columns in block:
                    if expected[columns.start] != found[columns.start]:
                        what = "missing" if expected[columns.start] else "not active"
                        words.append(f"{self._name(s, a, parameter)} is {what}")
        return ", ".join(words)


def _conditions(block: list[tuple[Parameter, slice]]) -> list[tuple[slice, list[tuple[Categorical, slice, list[int]]]]]:
    """For each conditional parameter its columns, and its parents with the choices that switch it on."""
    places = {parameter.name: (parameter, columns) for parameter, columns in block}
    found = []
    for parameter, columns in block:
        parents = []
        for name, wanted in parameter.when.items():
            parent, parent_columns = places[name]
            assert isinstance(parent, Categorical)  # an Algorithm has no other parents
            parents.append((parent, parent_columns, parent.positions_of(wanted)))
        if parents:
            found.append((columns, parents))
    return found


def combinations(counts: Sequence[int]) -> NDArray[np.int64]:
    """All ways to pick a number below each of these: (product, len(counts)), the last changing fastest."""
    return np.indices(counts).reshape(len(counts), math.prod(counts)).T


class Clause:
    """A forbidden combination, as tests on arrays.

    Parameters
    ----------
    layout
        Of the space.
    content
        ``{"stage": [algorithms], "stage.parameter": [choices]}``; forbidden is what meets all of it.
    """

    def __init__(self, layout: Layout, content: Mapping[str, Sequence[Value]]) -> None:
        positions = {stage.name: s for s, stage in enumerate(layout.stages)}
        self._algorithms: list[tuple[int, list[int]]] = []
        self._among: list[Mask] = []
        """Whether an algorithm of that stage is named, by its position; the last place is for -1, none chosen yet."""
        self._parameters: list[tuple[int, list[Any]]] = []
        for key, values in content.items():
            name, _, parameter = key.partition(".")
            if name not in positions:
                raise SpaceError(f"forbidden combination {key!r}: no stage {name!r}; {suggestion(name, positions)}")
            if isinstance(values, str):
                raise SpaceError(f"forbidden combination {key!r}: give several values, as in [{values!r}]")
            s = positions[name]
            if not parameter:
                self._algorithms.append((s, [layout.stages[s].position(str(v)) for v in values]))
                among = np.zeros(len(layout.stages[s].algorithms) + 1, dtype=bool)
                among[self._algorithms[-1][1]] = True
                self._among.append(among)
                continue
            places = []
            for a, block in enumerate(layout.blocks[s]):
                for p, columns in block:
                    if p.name == parameter and isinstance(p, Categorical):
                        places.append((a, p, columns, p.positions_of(v for v in values if p.contains(v))))
            if not places:
                known = {p.name for block in layout.blocks[s] for p, _ in block if isinstance(p, Categorical)}
                raise SpaceError(
                    f"forbidden combination {key!r}: no algorithm of stage {name!r} has that categorical parameter; "
                    f"{suggestion(parameter, known)}"
                )
            for value in values:
                if not any(p.contains(value) for _, p, _, _ in places):
                    raise SpaceError(f"forbidden combination {key!r}: {value!r} is none of the choices")
            self._parameters.append((s, places))

    @property
    def of_algorithms(self) -> bool:
        """Whether it names no hyper-parameter."""
        return not self._parameters

    def completed_by(self, stage: int, choice: Choice) -> tuple[NDArray[np.int64], list[int]]:
        """Rows, and algorithms of a stage, with which the combination would be complete.

        Stages that are not chosen yet are -1. Combinations that also name parameters are none of algorithms alone.
        """
        mine = [algorithms for s, algorithms in self._algorithms if s == stage]
        if not mine or self._parameters:
            return np.empty(0, dtype=np.int64), []
        met = np.ones(len(choice), dtype=bool)
        for (s, _), among in zip(self._algorithms, self._among, strict=True):
            if s != stage:
                met &= among[choice[:, s]]
        return np.flatnonzero(met), mine[0]

    def is_met(self, values: Array, active: Mask, choice: Choice) -> Mask:
        """Which rows hold the combination; (n,)."""
        met = np.ones(len(choice), dtype=bool)
        for (s, _), among in zip(self._algorithms, self._among, strict=True):
            met &= among[choice[:, s]]
        if self._parameters and not met.any():
            return met
        for s, places in self._parameters:
            here = np.zeros(len(choice), dtype=bool)
            for a, parameter, columns, wanted in places:
                on = (choice[:, s] == a) & active[:, columns.start]
                here |= on & np.isin(parameter.positions(values[:, columns]), wanted)
            met &= here
        return met


def _range(parameter: Parameter) -> str:
    if isinstance(parameter, Categorical):
        return f"it must be one of {', '.join(map(repr, parameter.choices))}"
    return f"it must be a number in [{parameter.low!r}, {parameter.high!r}]"
