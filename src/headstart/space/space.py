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
from headstart.space.layout import Clause, Layout
from headstart.space.parameters import Categorical
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
        self._layout = Layout(self.stages)
        self.width = self._layout.width
        self._clauses = [Clause(self._layout, clause) for clause in self.forbidden]

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
        if parameter is not None:
            self.stages[s].algorithms[a].param(parameter)  # raises, naming what there is
            return next(columns for p, columns in self._layout.blocks[s][a] if p.name == parameter)
        return self._layout.span(s, a)

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
            Stage(s.name, tuple(s.algorithms[i] for i in s.positions(given.get(s.name))), s.kind, s.columns)
            for s in self.stages
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
        stages[position] = Stage(old.name, (*old.algorithms, algorithm), old.kind, old.columns)
        return PipelineSpace(self.name, stages, self.forbidden, self.free_order)

    def relaxed(self, given: Given | None = None) -> Box:
        """Continuous relaxation of the numeric parameters, of all algorithms or of those given."""
        names, columns, levels = [], [], []
        for s, stage in enumerate(self.stages):
            for a in stage.positions((given or {}).get(stage.name)):
                for parameter, place in self._layout.blocks[s][a]:
                    if isinstance(parameter, Categorical) and not parameter.ordered:
                        continue
                    names.append(f"{stage.name}.{stage.algorithms[a].name}.{parameter.name}")
                    columns.append(place.start)
                    levels.append(parameter.levels or 0)
        return Box(tuple(names), np.array(columns, dtype=np.int64), np.array(levels, dtype=np.int64))

    # -- arrays -------------------------------------------------------------------------------------------------

    def _encoded(self, values: Array, choice: NDArray[np.int64], order: NDArray[np.int64] | None) -> Encoded:
        values, active = self._layout.activate(values, choice)
        return Encoded(self, values, active, choice, order)

    def _allowed_only(self, encoded: Encoded) -> Encoded:
        if not self._clauses:
            return encoded
        arrays = encoded.values, encoded.active, encoded.choice
        return encoded.take(~np.logical_or.reduce([clause.is_met(*arrays) for clause in self._clauses]))

    def encode(self, pipelines: Iterable[Pipeline]) -> Encoded:
        """These pipelines as arrays; raises `SpaceError` for one that does not belong to the space."""
        items = list(pipelines)
        return Encoded(self, *self._layout.encode(items), self._orders(items))

    def _orders(self, pipelines: Sequence[Pipeline]) -> NDArray[np.int64] | None:
        usual = tuple(range(len(self.stages)))
        for pipeline in pipelines:
            if pipeline.order is not None and sorted(pipeline.order) != list(usual):
                raise SpaceError(f"order must name each of the {len(usual)} stages once, got {pipeline.order}")
            if not self.free_order and pipeline.order not in (None, usual):
                raise SpaceError(f"space {self.name!r} has a fixed order of stages, got order {pipeline.order}")
        if not self.free_order:
            return None
        return np.array([p.order or usual for p in pipelines], dtype=np.int64).reshape(len(pipelines), len(usual))

    def decode_row(
        self,
        values: Array,
        active: NDArray[np.bool_],
        choice: NDArray[np.int64],
        order: NDArray[np.int64] | None,
        recorded: int | None,
    ) -> Pipeline:
        """The pipeline that one row of arrays stands for."""
        algorithms, params = self._layout.decode(values, active, choice)
        return Pipeline(algorithms, params, None if order is None else order.tolist(), recorded)

    # -- candidates ---------------------------------------------------------------------------------------------

    def sample(self, rng: np.random.Generator, n: int = 1, given: Given | None = None) -> Encoded:
        """`n` random pipelines.

        The algorithms of the last stage by their weights, then those of the stages before it by their weights among
        what the choices so far allow, then each parameter on its own scale.
        """
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
        choice = self._draw_structure(rng, n, options)
        values = np.zeros((n, self.width))
        for s, blocks in enumerate(self._layout.blocks):
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

    def _draw_structure(self, rng: np.random.Generator, n: int, options: list[NDArray[np.int64]]) -> NDArray[np.int64]:
        """Algorithms of `n` pipelines, last stage first; combinations of algorithms that are forbidden are avoided.

        Rejecting whole pipelines instead would make an algorithm rarer the more combinations with it are forbidden.
        """
        choice = np.full((n, len(self.stages)), -1, dtype=np.int64)
        for s in reversed(range(len(self.stages))):
            weights = np.zeros(len(self.stages[s].algorithms))
            weights[options[s]] = [self.stages[s].algorithms[a].weight for a in options[s]]
            chances = np.tile(weights, (n, 1))
            for clause in self._clauses:
                rows, algorithms = clause.completed_by(s, choice)
                chances[np.ix_(rows, algorithms)] = 0.0
            stuck = chances.sum(axis=1) == 0  # it will be rejected and drawn again
            chances[stuck] = weights
            totals = np.cumsum(chances, axis=1)
            drawn = (totals <= (rng.random(n) * totals[:, -1])[:, None]).sum(axis=1)
            choice[:, s] = drawn
        return choice

    def default(self, given: Given | None = None) -> Pipeline:
        """The first algorithm of each stage with its default hyper-parameters (or the first that is not forbidden)."""
        options = [stage.positions((given or {}).get(stage.name)) for stage in self.stages]
        choice = np.array([[o[0] for o in options]])
        order = np.arange(len(self.stages))[None, :] if self.free_order else None
        found = self._allowed_only(self._encoded(self._layout.defaults[None, :], choice, order))
        if len(found) == 0:
            found = self.sample(np.random.default_rng(0), 1, given)
        return found[0]

    def neighbours(self, pipeline: Pipeline, rng: np.random.Generator) -> Encoded:
        """Pipelines that differ from `pipeline` in one decision.

        Another algorithm in one stage (with its defaults), another value of one hyper-parameter (what it newly
        activates has its defaults), or two stages changing places.
        """
        here = self.encode([pipeline])
        filled = np.where(here.active[0], here.values[0], self._layout.defaults)
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
            for parameter, columns in self._layout.blocks[s][choice[s]]:
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
        for s, blocks in enumerate(self._layout.blocks):
            for parameter, columns in blocks[options[s][0]]:
                snapped[:, columns] = parameter.to_unit(parameter.from_unit(points[:, columns]))
        choice = np.tile([o[0] for o in options], (len(points), 1))
        order = np.tile(np.arange(len(self.stages)), (len(points), 1)) if self.free_order else None
        found = self._encoded(snapped, choice, order)
        if len(self._allowed_only(found)) < len(found):
            raise SpaceError(f"the structure {dict(given or {})!r} snaps to a forbidden combination")
        return found

    # -- exchange -----------------------------------------------------------------------------------------------

    def build(self, pipeline: Pipeline, seed: int | None = None, kinds: Mapping[str, str] | None = None) -> Any:
        """A plain, unfitted scikit-learn pipeline for this point of the space; see `headstart.space.build`."""
        from headstart.space.build import build

        return build(self, pipeline, kinds, seed)

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
