"""`PipelineSpace`: stages → algorithms → hyper-parameters, as data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import SpaceError, suggestion
from headstart.space.candidates import Given
from headstart.space.encoded import Encoded
from headstart.space.parameters import Categorical, Parameter
from headstart.space.pipeline import Pipeline, Value
from headstart.space.stages import Algorithm, Stage

Array = NDArray[np.float64]
Forbidden = Mapping[str, Sequence[Value]]
"""A combination that must not occur: ``{"stage": [algorithms], "stage.parameter": [choices]}``, all at once."""

FORMAT = 1
_ATTEMPTS = 1000


@dataclass(frozen=True)
class Box:
    """Continuous relaxation of the numeric part of a space.

    Parameters
    ----------
    names
        ``stage.algorithm.parameter`` of each coordinate.
    columns
        Its column in `Encoded.values`.
    levels
        Number of values on the unit interval; 0 for a continuum.
    """

    names: tuple[str, ...]
    columns: NDArray[np.int64]
    levels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.names)


class PipelineSpace:
    """All pipelines that may be searched.

    A space is itself a `Candidates`: it samples, finds neighbours and snaps relaxed points to pipelines.

    Parameters
    ----------
    name
        For people and messages.
    stages
        In the order they are applied.
    forbidden
        Combinations that must not occur, each ``{"stage": [...], "stage.parameter": [...]}``.
    free_order
        Whether the steps before the last may change places.

    Examples
    --------
    >>> from headstart.space import Algorithm, Float, Integer, PipelineSpace, Stage
    >>> space = PipelineSpace("small", [
    ...     Stage("scaler", [Algorithm("none"), Algorithm("standard", "sklearn.preprocessing:StandardScaler")]),
    ...     Stage("estimator", [
    ...         Algorithm("knn", "sklearn.neighbors:KNeighborsClassifier", [Integer("n_neighbors", 1, 50, log=True)]),
    ...         Algorithm("tree", "sklearn.tree:DecisionTreeClassifier", [Float("ccp_alpha", 1e-5, 0.1, log=True)]),
    ...     ]),
    ... ])
    >>> space.default()
    none > knn(n_neighbors=7)
    """

    def __init__(
        self, name: str, stages: Iterable[Stage], forbidden: Iterable[Forbidden] = (), free_order: bool = False
    ) -> None:
        self.name = name
        self.stages = tuple(stages)
        self.forbidden = tuple({k: tuple(v) for k, v in clause.items()} for clause in forbidden)
        self.free_order = free_order
        names = [stage.name for stage in self.stages]
        if not names or len(set(names)) != len(names):
            raise SpaceError(f"a space needs at least one stage and no two of one name, got {names}")
        self._layout: list[list[list[tuple[Parameter, slice]]]] = []
        column = 0
        for stage in self.stages:
            blocks = []
            for algorithm in stage.algorithms:
                block = []
                for parameter in algorithm.params:
                    block.append((parameter, slice(column, column + parameter.width)))
                    column += parameter.width
                blocks.append(block)
            self._layout.append(blocks)
        self.width = column
        self._clauses = [self._read_clause(clause) for clause in self.forbidden]

    # -- structure ----------------------------------------------------------------------------------------------

    @property
    def space(self) -> PipelineSpace:
        return self

    @property
    def pool(self) -> None:
        return None

    def stage_position(self, name: str) -> int:
        for i, stage in enumerate(self.stages):
            if stage.name == name:
                return i
        raise SpaceError(
            f"space {self.name!r} has no stage {name!r}; {suggestion(name, [s.name for s in self.stages])}"
        )

    def stage(self, name: str) -> Stage:
        return self.stages[self.stage_position(name)]

    def columns(self, stage: str, algorithm: str, parameter: str | None = None) -> slice:
        """Columns of an algorithm, or of one of its parameters, in `Encoded.values`."""
        s = self.stage_position(stage)
        a = self.stages[s].position(algorithm)
        block = self._layout[s][a]
        if parameter is not None:
            self.stages[s].algorithms[a].param(parameter)
            return next(columns for p, columns in block if p.name == parameter)
        if not block:
            return slice(0, 0)
        return slice(block[0][1].start, block[-1][1].stop)

    def blocks(self) -> Iterator[tuple[int, int, Algorithm, slice]]:
        """Position of stage and algorithm, the algorithm and its columns, for all of them in order."""
        for s, stage in enumerate(self.stages):
            for a, algorithm in enumerate(stage.algorithms):
                yield s, a, algorithm, self.columns(stage.name, algorithm.name)

    def restrict(self, given: Given) -> PipelineSpace:
        """The sub-space with only the given algorithms in the stages named."""
        for name in given:
            self.stage_position(name)
        stages = [
            Stage(s.name, tuple(s.algorithms[i] for i in s.positions(given.get(s.name))), s.kind) for s in self.stages
        ]
        kept = []
        for clause in self.forbidden:
            left: dict[str, tuple[Value, ...]] = {}
            for key, values in clause.items():
                stage = next(s for s in stages if s.name == key.partition(".")[0])
                if "." not in key:
                    left[key] = tuple(v for v in values if v in stage.names)
                elif any(p.name == key.partition(".")[2] for a in stage.algorithms for p in a.params):
                    left[key] = values
                else:
                    left[key] = ()
            if all(left.values()):  # a clause that can no longer be met says nothing any more
                kept.append(left)
        return PipelineSpace(self.name, stages, kept, self.free_order)

    def extend(self, stage: str, algorithm: Algorithm) -> PipelineSpace:
        """The space with one more algorithm in a stage; what the others are called and hold stays as it is."""
        position = self.stage_position(stage)
        stages = list(self.stages)
        old = stages[position]
        stages[position] = Stage(old.name, (*old.algorithms, algorithm), old.kind)
        return PipelineSpace(self.name, stages, self.forbidden, self.free_order)

    def relaxed(self, given: Given | None = None) -> Box:
        """Continuous relaxation of the numeric parameters, of all algorithms or of those given."""
        names, columns, levels = [], [], []
        for s, stage in enumerate(self.stages):
            for a in stage.positions((given or {}).get(stage.name)):
                for parameter, place in self._layout[s][a]:
                    if isinstance(parameter, Categorical) and not parameter.ordered:
                        continue
                    names.append(f"{stage.name}.{stage.algorithms[a].name}.{parameter.name}")
                    columns.append(place.start)
                    levels.append(parameter.levels or 0)
        return Box(tuple(names), np.array(columns, dtype=np.int64), np.array(levels, dtype=np.int64))

    # -- arrays -------------------------------------------------------------------------------------------------

    def _read_clause(self, clause: Mapping[str, tuple[Value, ...]]) -> list[Any]:
        """A forbidden combination as tests on arrays: (stage, algorithms, [(algorithm, parameter, columns, values)])."""
        tests: list[Any] = []
        for key, values in clause.items():
            name, _, parameter = key.partition(".")
            s = self.stage_position(name)
            stage = self.stages[s]
            if not parameter:
                tests.append((s, [stage.position(str(v)) for v in values], None))
                continue
            places = []
            for a, block in enumerate(self._layout[s]):
                for p, columns in block:
                    if p.name == parameter:
                        if not isinstance(p, Categorical):
                            raise SpaceError(f"forbidden combination {key!r}: only categorical parameters can be used")
                        wanted = [i for i, choice in enumerate(p.choices) if choice in values]
                        places.append((a, p, columns, wanted))
            if not places:
                raise SpaceError(f"forbidden combination {key!r}: no algorithm of stage {name!r} has that parameter")
            tests.append((s, None, places))
        return tests

    def _is_forbidden(self, values: Array, active: NDArray[np.bool_], choice: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows hold a forbidden combination; (n,)."""
        bad = np.zeros(len(choice), dtype=bool)
        for clause in self._clauses:
            met = np.ones(len(choice), dtype=bool)
            for s, algorithms, places in clause:
                if places is None:
                    met &= np.isin(choice[:, s], algorithms)
                    continue
                here = np.zeros(len(choice), dtype=bool)
                for a, parameter, columns, wanted in places:
                    on = (choice[:, s] == a) & active[:, columns.start]
                    here |= on & np.isin(parameter.positions(values[:, columns]), wanted)
                met &= here
            bad |= met
        return bad

    def _activate(self, values: Array, choice: NDArray[np.int64]) -> tuple[Array, NDArray[np.bool_]]:
        """Which columns are active, and the values with 0 elsewhere."""
        active = np.zeros(values.shape, dtype=bool)
        for s, blocks in enumerate(self._layout):
            for a, block in enumerate(blocks):
                rows = np.flatnonzero(choice[:, s] == a)
                if len(rows) == 0:
                    continue
                on_by_name: dict[str, NDArray[np.bool_]] = {}
                place_by_name = {p.name: (p, columns) for p, columns in block}
                for parameter, columns in block:
                    on = np.ones(len(rows), dtype=bool)
                    for parent, wanted in parameter.when.items():
                        p, parent_columns = place_by_name[parent]
                        assert isinstance(p, Categorical)
                        positions = [
                            i for i, c in enumerate(p.choices) if any(p._token(c) == p._token(w) for w in wanted)
                        ]
                        on &= on_by_name[parent] & np.isin(p.positions(values[rows][:, parent_columns]), positions)
                    on_by_name[parameter.name] = on
                    active[rows[:, None], np.arange(columns.start, columns.stop)] = on[:, None]
        return np.where(active, values, 0.0), active

    @cached_property
    def _defaults(self) -> Array:
        """Default of every parameter of every algorithm; (D,)."""
        values = np.zeros(self.width)
        for blocks in self._layout:
            for block in blocks:
                for parameter, columns in block:
                    values[columns] = parameter.to_unit([parameter.default])[0]
        return values

    def _encoded(self, values: Array, choice: NDArray[np.int64], order: NDArray[np.int64] | None) -> Encoded:
        values, active = self._activate(values, choice)
        return Encoded(self, values, active, choice, order)

    def _allowed_only(self, encoded: Encoded) -> Encoded:
        if not self._clauses:
            return encoded
        return encoded.take(~self._is_forbidden(encoded.values, encoded.active, encoded.choice))

    def encode(self, pipelines: Iterable[Pipeline]) -> Encoded:
        """These pipelines as arrays; raises `SpaceError` for one that does not belong to the space."""
        items = list(pipelines)
        n = len(items)
        choice = np.zeros((n, len(self.stages)), dtype=np.int64)
        values = np.zeros((n, self.width))
        active = np.zeros((n, self.width), dtype=bool)
        cells: dict[tuple[int, int, int], tuple[list[int], list[Value]]] = {}
        lookups = [{name: i for i, name in enumerate(stage.names)} for stage in self.stages]
        slots = [[{p.name: k for k, (p, _) in enumerate(block)} for block in blocks] for blocks in self._layout]
        for i, pipeline in enumerate(items):
            if len(pipeline.algorithms) != len(self.stages):
                raise SpaceError(
                    f"a pipeline of space {self.name!r} has {len(self.stages)} stages, got {len(pipeline.algorithms)}"
                )
            for s, algorithm in enumerate(pipeline.algorithms):
                a = lookups[s].get(algorithm)
                if a is None:
                    a = self.stages[s].position(algorithm)  # raises, naming what there is
                choice[i, s] = a
                slot = slots[s][a]
                for name, value in pipeline.params[s].items():
                    k = slot.get(name)
                    if k is None:
                        self.stages[s].algorithms[a].param(name)  # raises, naming what there is
                        raise AssertionError("unreachable")
                    rows, column_values = cells.setdefault((s, a, k), ([], []))
                    rows.append(i)
                    column_values.append(value)
        for (s, a, k), (rows, column_values) in cells.items():
            parameter, columns = self._layout[s][a][k]
            for value in column_values:
                if not parameter.contains(value):
                    where = f"{self.stages[s].name}.{self.stages[s].names[a]}.{parameter.name}"
                    raise SpaceError(f"{where} cannot be {value!r}: {_range(parameter)}")
            values[rows, columns] = parameter.to_unit(column_values)
            active[rows, columns] = True
        order = self._encode_orders(items)
        encoded = self._encoded(values, choice, order)
        wrong = np.flatnonzero((encoded.active != active).any(axis=1))
        if len(wrong):
            pipeline = items[int(wrong[0])]
            raise SpaceError(
                f"{pipeline!r} must have exactly the hyper-parameters that are active for its algorithms: "
                f"{self._difference(encoded.active[wrong[0]], active[wrong[0]])}"
            )
        return encoded

    def _encode_orders(self, items: Sequence[Pipeline]) -> NDArray[np.int64] | None:
        usual = tuple(range(len(self.stages)))
        if not self.free_order:
            for pipeline in items:
                if pipeline.order not in (None, usual):
                    raise SpaceError(f"space {self.name!r} has a fixed order of stages, got order {pipeline.order}")
            return None
        for pipeline in items:
            if pipeline.order is not None and sorted(pipeline.order) != list(usual):
                raise SpaceError(f"order must name each of the {len(usual)} stages once, got {pipeline.order}")
        return np.array([p.order or usual for p in items], dtype=np.int64).reshape(len(items), len(usual))

    def _difference(self, expected: NDArray[np.bool_], found: NDArray[np.bool_]) -> str:
        words = []
        for s, blocks in enumerate(self._layout):
            for a, block in enumerate(blocks):
                for parameter, columns in block:
                    c = columns.start
                    if expected[c] != found[c]:
                        name = f"{self.stages[s].name}.{self.stages[s].names[a]}.{parameter.name}"
                        words.append(f"{name} is {'missing' if expected[c] else 'not active'}")
        return ", ".join(words)

    def decode_row(
        self,
        values: Array,
        active: NDArray[np.bool_],
        choice: NDArray[np.int64],
        order: NDArray[np.int64] | None,
        recorded: int | None,
    ) -> Pipeline:
        """The pipeline that one row of arrays stands for."""
        algorithms, params = [], []
        for s, a in enumerate(choice.tolist()):
            algorithms.append(self.stages[s].names[a])
            params.append(
                {p.name: p.from_unit(values[None, c])[0] for p, c in self._layout[s][a] if active[c.start]},
            )
        return Pipeline(algorithms, params, None if order is None else order.tolist(), recorded)

    # -- candidates ---------------------------------------------------------------------------------------------

    def sample(self, rng: np.random.Generator, n: int = 1, given: Given | None = None) -> Encoded:
        """`n` random pipelines: algorithms uniformly, then each parameter on its own scale."""
        for name in given or {}:
            self.stage_position(name)
        options = [np.array(stage.positions((given or {}).get(stage.name))) for stage in self.stages]
        parts: list[Encoded] = []
        missing = n
        for _ in range(_ATTEMPTS):
            drawn = self._allowed_only(self._draw(rng, missing, options))
            parts.append(drawn)
            missing -= len(drawn)
            if missing == 0:
                return Encoded.concatenate(parts)
        raise SpaceError(f"space {self.name!r} forbids nearly everything with {dict(given or {})!r}: nothing to sample")

    def _draw(self, rng: np.random.Generator, n: int, options: list[NDArray[np.int64]]) -> Encoded:
        choice = np.stack([rng.choice(o, n) for o in options], axis=1)
        values = np.zeros((n, self.width))
        for s, blocks in enumerate(self._layout):
            for a in options[s]:
                rows = np.flatnonzero(choice[:, s] == a)
                for parameter, columns in blocks[a]:
                    values[rows, columns] = parameter.sample(rng, len(rows))
        order = None
        if self.free_order:
            last = len(self.stages) - 1
            order = np.argsort(rng.random((n, last)), axis=1)
            order = np.concatenate([order, np.full((n, 1), last)], axis=1)
        return self._encoded(values, choice, order)

    def default(self, given: Given | None = None) -> Pipeline:
        """The first algorithm of each stage with its default hyper-parameters (or the first that is not forbidden)."""
        options = [stage.positions((given or {}).get(stage.name)) for stage in self.stages]
        choice = np.array([[o[0] for o in options]])
        order = np.arange(len(self.stages))[None, :] if self.free_order else None
        found = self._allowed_only(self._encoded(self._defaults[None, :], choice, order))
        if len(found) == 0:
            found = self.sample(np.random.default_rng(0), 1, given)
        return found[0]

    def neighbours(self, pipeline: Pipeline, rng: np.random.Generator) -> Encoded:
        """Pipelines that differ from `pipeline` in one decision.

        Another algorithm in one stage (with its defaults), another value of one hyper-parameter (what it newly
        activates has its defaults), or two stages changing places.
        """
        here = self.encode([pipeline])
        filled = np.where(here.active[0], here.values[0], self._defaults)
        values: list[Array] = []
        choices: list[NDArray[np.int64]] = []
        orders: list[NDArray[np.int64]] = []

        def add(row: Array, choice: NDArray[np.int64], order: NDArray[np.int64] | None) -> None:
            values.append(row)
            choices.append(choice)
            if order is not None:
                orders.append(order)

        choice = here.choice[0]
        order = None if here.order is None else here.order[0]
        for s, stage in enumerate(self.stages):
            for a in range(len(stage.algorithms)):
                if a != choice[s]:
                    changed = choice.copy()
                    changed[s] = a
                    add(filled, changed, order)
            for parameter, columns in self._layout[s][choice[s]]:
                if here.active[0, columns.start]:
                    for moved in parameter.neighbours(filled[columns], rng):
                        row = filled.copy()
                        row[columns] = moved
                        add(row, choice, order)
        if order is not None:
            for k in range(len(order) - 2):  # the last stage keeps its place
                swapped = order.copy()
                swapped[[k, k + 1]] = swapped[[k + 1, k]]
                add(filled, choice, swapped)
        if not values:
            return here.take([])
        return self._allowed_only(
            self._encoded(np.array(values), np.array(choices), np.array(orders) if orders else None)
        )

    def nearest(self, values: Array, given: Given | None = None) -> Encoded:
        """Snap relaxed points to pipelines; stages not given take their first algorithm."""
        points = np.atleast_2d(np.asarray(values, dtype=np.float64))
        snapped = np.zeros_like(points)
        options = [stage.positions((given or {}).get(stage.name)) for stage in self.stages]
        for s, blocks in enumerate(self._layout):
            for parameter, columns in blocks[options[s][0]]:
                snapped[:, columns] = parameter.to_unit(parameter.from_unit(points[:, columns]))
        choice = np.tile([o[0] for o in options], (len(points), 1))
        order = np.tile(np.arange(len(self.stages)), (len(points), 1)) if self.free_order else None
        found = self._encoded(snapped, choice, order)
        if len(self._allowed_only(found)) < len(found):
            raise SpaceError(f"the structure {dict(given or {})!r} snaps to a forbidden combination")
        return found

    # -- exchange -----------------------------------------------------------------------------------------------

    def build(self, pipeline: Pipeline, seed: int | None = None) -> Any:
        """A plain, unfitted scikit-learn pipeline for this point of the space; see `headstart.space.build`."""
        from headstart.space.build import build

        return build(self, pipeline, seed)

    def to_dict(self) -> dict[str, Any]:
        content: dict[str, Any] = {"format": FORMAT, "name": self.name, "stages": [s.to_dict() for s in self.stages]}
        if self.forbidden:
            content["forbidden"] = [{k: list(v) for k, v in clause.items()} for clause in self.forbidden]
        if self.free_order:
            content["free_order"] = True
        return content

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> PipelineSpace:
        if content.get("format") != FORMAT:
            raise SpaceError(f"a space must have format {FORMAT}, got {content.get('format')!r}")
        try:
            stages = [Stage.from_dict(s) for s in content["stages"]]
            return cls(content["name"], stages, content.get("forbidden", ()), content.get("free_order", False))
        except (KeyError, TypeError, AttributeError) as error:
            raise SpaceError(f"a space is not well declared: {error!r} is missing or has the wrong type") from None

    @cached_property
    def key(self) -> str:
        """Hash of the content: equal for equal spaces, in every process."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, PipelineSpace) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        stages = ", ".join(f"{s.name}: {len(s.algorithms)}" for s in self.stages)
        return f"PipelineSpace({self.name!r}; {stages}; {self.width} columns)"


def _range(parameter: Parameter) -> str:
    if isinstance(parameter, Categorical):
        return f"it must be one of {', '.join(map(repr, parameter.choices))}"
    return f"it must be a number in [{parameter.low!r}, {parameter.high!r}]"
