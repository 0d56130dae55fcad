"""`PipelineSpace`: stages → algorithms → hyper-parameters, as data."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, SpaceError, suggestion
from headstart.space.candidates import Given
from headstart.space.encoded import Encoded
from headstart.space.layout import Clause, Layout, combinations
from headstart.space.parameters import Categorical
from headstart.space.pipeline import Pipeline, Value
from headstart.space.stages import Algorithm, Stage, selected

Array = NDArray[np.float64]
Forbidden = Mapping[str, Sequence[Value]]
"""A combination that must not occur: ``{"stage": [algorithms], "stage.parameter": [choices]}``, all at once."""

FORMAT = 1
_ATTEMPTS, _BATCH = 10, 1000
MOST_LISTED = 50_000
"""Most pipelines of a space that are listed, and then scored at every step of a search."""


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
        if isinstance(forbidden, Mapping):
            raise SpaceError("forbidden must be a list of combinations, got one; use forbidden=[{...}]")
        self.forbidden: tuple[dict[str, Any], ...] = tuple(
            {k: v if isinstance(v, str) else tuple(v) for k, v in clause.items()} for clause in forbidden
        )
        self.free_order = free_order
        names = [stage.name for stage in self.stages]
        if not names or len(set(names)) != len(names):
            raise SpaceError(f"a space needs at least one stage and no two of one name, got {names}")
        self._layout = Layout(self.stages)
        self.width = self._layout.width
        self._clauses = [Clause(self._layout, clause) for clause in self.forbidden]
        steps = [s for s, stage in enumerate(self.stages) if stage.kind == "step"]
        self._movable = [s for s in steps[:-1] if self.stages[s].columns == "all"] if free_order else []

    # -- structure ----------------------------------------------------------------------------------------------

    @property
    def space(self) -> PipelineSpace:
        return self

    @property
    def pool(self) -> None:
        return None

    @cached_property
    def listed(self) -> Encoded | None:
        """All pipelines, each once; ``None`` if there is no end of them, or more than `MOST_LISTED`.

        Counted before what is forbidden, or differs only in hyper-parameters that are not active, is left out.
        """
        levels = [[[p.levels for p, _ in block] for block in blocks] for blocks in self._layout.blocks]
        if any(n is None for of_stage in levels for block in of_stage for n in block):
            return None
        counts = [sum(math.prod(n or 0 for n in block) for block in of_stage) for of_stage in levels]
        if math.prod([len(self.orders), *counts]) > MOST_LISTED:
            return None
        settings = [[self._settings(s, a) for a in range(len(blocks))] for s, blocks in enumerate(self._layout.blocks)]
        rows = combinations([*(sum(len(of) for of in of_stage) for of_stage in settings), len(self.orders)])
        values, choice = np.zeros((len(rows), self.width)), np.zeros((len(rows), len(self.stages)), dtype=np.int64)
        for s, of_stage in enumerate(settings):
            choice[:, s] = np.repeat(np.arange(len(of_stage)), [len(of) for of in of_stage])[rows[:, s]]
            values += np.concatenate(of_stage)[rows[:, s]]
        order = np.array(self.orders)[rows[:, -1]] if self.free_order else None
        return self._allowed_only(self._encoded(values, choice, order))

    def _settings(self, stage: int, algorithm: int) -> Array:
        """All hyper-parameters of an algorithm, each combination once: (k, D), 0 in the columns of others."""
        block = self._layout.blocks[stage][algorithm]
        rows = combinations([parameter.levels or 0 for parameter, _ in block])
        values, choice = np.zeros((len(rows), self.width)), np.full((len(rows), len(self.stages)), -1)
        choice[:, stage] = algorithm
        for k, (parameter, columns) in enumerate(block):
            values[:, columns] = parameter.grid()[rows[:, k]]
        values, _ = self._layout.activate(values, choice)
        return values[np.sort(np.unique(values, axis=0, return_index=True)[1])]

    @cached_property
    def orders(self) -> list[tuple[int, ...]]:
        """All orders that the stages may have, the usual one first."""
        usual = tuple(range(len(self.stages)))
        moved = [dict(zip(self._movable, places, strict=True)) for places in itertools.permutations(self._movable)]
        return [tuple(change.get(place, place) for place in usual) for change in moved]

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

    def _options(self, given: Given | None) -> list[list[int]]:
        """Positions of the algorithms that a partial structure leaves, for each stage."""
        for name in given or {}:
            self.stage_position(name)  # raises, naming what there is
        return [stage.positions((given or {}).get(stage.name)) for stage in self.stages]

    def allowed(self, given: Given | None = None) -> dict[str, tuple[str, ...]]:
        """Algorithms of each stage, by its name, that a pipeline of the given structure may still have.

        Combinations that also name hyper-parameters forbid no algorithm: another value avoids them.
        """
        options = self._options(given)
        found = {}
        for s, stage in enumerate(self.stages):
            rest = [t for t in range(len(self.stages)) if t != s]
            empty = np.full((1, len(self.stages)), -1, dtype=np.int64)
            names = [
                stage.names[a] for a in self._open(s, options, empty) if self._completes(s, a, rest, options, empty)
            ]
            found[stage.name] = tuple(names)
        return found

    def _open(self, stage: int, options: list[list[int]], choice: NDArray[np.int64]) -> list[int]:
        """Algorithms of a stage with which no forbidden combination would be complete; choices to come are -1."""
        refused = {
            a for c in self._clauses for rows, found in [c.completed_by(stage, choice)] if len(rows) for a in found
        }
        return [a for a in options[stage] if a not in refused]

    def _completes(
        self, stage: int, algorithm: int, rest: list[int], options: list[list[int]], choice: NDArray[np.int64]
    ) -> bool:
        """Whether the other stages can still be chosen after this one."""
        if not rest:
            return True
        chosen = choice.copy()
        chosen[0, stage] = algorithm
        following, *others = rest
        return any(
            self._completes(following, a, others, options, chosen) for a in self._open(following, options, chosen)
        )

    def restrict(self, given: Given) -> PipelineSpace:
        """The sub-space with only the given algorithms in the stages named."""
        stages = [
            Stage(s.name, tuple(s.algorithms[i] for i in positions), s.kind, s.columns)
            for s, positions in zip(self.stages, self._options(given), strict=True)
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

    def select(self, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> PipelineSpace:
        """The sub-space by names of algorithms: ``"lightgbm"``, or ``"estimator.lightgbm"`` where two stages have it.

        A stage of which algorithms are included keeps only those; the other stages stay as they are. Then what is
        excluded goes.
        """
        chosen = self.restrict(selected(self.stages, include, exclude))
        chosen.default()  # raises where what is left is all forbidden
        return chosen

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
        options = self._options(given)
        for s, stage in enumerate(self.stages):
            for a in options[s]:
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
        return encoded.take(~self._is_forbidden(encoded)) if self._clauses else encoded

    def encode(self, pipelines: Iterable[Pipeline]) -> Encoded:
        """These pipelines as arrays; raises `SpaceError` for one that does not belong to the space."""
        if isinstance(pipelines, Encoded) and pipelines.space == self:
            items: Sequence[Pipeline] = pipelines
            encoded = Encoded(self, pipelines.values, pipelines.active, pipelines.choice, pipelines.order)
        else:
            items = list(pipelines)
            encoded = Encoded(self, *self._layout.encode(items), self._orders(items))
        bad = np.flatnonzero(self._is_forbidden(encoded))
        if len(bad):
            raise SpaceError(f"{items[int(bad[0])]!r} is a combination that space {self.name!r} forbids")
        return encoded

    def _is_forbidden(self, encoded: Encoded) -> NDArray[np.bool_]:
        """Which pipelines hold a forbidden combination; (n,)."""
        bad = np.zeros(len(encoded), dtype=bool)
        for clause in self._clauses:
            bad |= clause.is_met(encoded.values, encoded.active, encoded.choice)
        return bad

    def _orders(self, pipelines: Sequence[Pipeline]) -> NDArray[np.int64] | None:
        usual = tuple(range(len(self.stages)))
        for pipeline in pipelines:
            if pipeline.order is None:
                continue
            if sorted(pipeline.order) != list(usual):
                raise SpaceError(f"order must name each of the {len(usual)} stages once, got {pipeline.order}")
            moved = [place for place, s in enumerate(pipeline.order) if place != s]
            if not self.free_order and moved:
                raise SpaceError(f"space {self.name!r} has a fixed order of stages, got order {pipeline.order}")
            if not {*moved} <= {*self._movable}:
                raise SpaceError(f"only steps before the last may change places, got order {pipeline.order}")
        if not self.free_order:
            return None
        return np.array([p.order or usual for p in pipelines], dtype=np.int64).reshape(len(pipelines), len(usual))

    def decode(
        self, values: Array, active: NDArray[np.bool_], choice: NDArray[np.int64]
    ) -> tuple[list[list[str]], list[list[dict[str, Value]]]]:
        """Algorithms and active hyper-parameters of each row; see `Encoded`."""
        return self._layout.decode(values, active, choice)

    # -- candidates ---------------------------------------------------------------------------------------------

    def sample(self, rng: np.random.Generator, n: int = 1, given: Given | None = None) -> Encoded:
        """`n` random pipelines.

        The algorithms of the last stage by their weights, then those of the stages before it by their weights among
        what the choices so far allow, then each parameter on its own scale.
        """
        options = [np.array(positions) for positions in self._options(given)]
        parts: list[Encoded] = []
        missing = n
        for attempt in range(_ATTEMPTS):
            drawn = self._allowed_only(self._draw(rng, max(missing, _BATCH) if attempt else missing, options))
            parts.append(drawn.take(np.arange(min(missing, len(drawn)))))
            missing -= len(parts[-1])
            if missing == 0:
                return Encoded.concatenate(parts)
        raise SpaceError(f"space {self.name!r} forbids nearly everything with {dict(given or {})!r}: nothing to sample")

    def sample_each(self, rng: np.random.Generator, n: int, givens: Sequence[Given]) -> list[Encoded]:
        """`n` random pipelines of each of several structures: their hyper-parameters are drawn for all at once."""
        options = [[np.array(positions) for positions in self._options(given)] for given in givens]
        parts: list[list[Encoded]] = [[] for _ in givens]
        missing = dict.fromkeys(range(len(givens)), n)
        for _ in range(_ATTEMPTS):
            if not missing:
                return [Encoded.concatenate(found) for found in parts]
            choice = np.concatenate([self._draw_structure(rng, m, options[k]) for k, m in missing.items()])
            drawn = self._filled(rng, choice)
            allowed = ~self._is_forbidden(drawn)
            ends = np.cumsum([*missing.values()])
            for k, end in zip([*missing], ends.tolist(), strict=True):
                begin = end - missing[k]
                parts[k].append(drawn.take(begin + np.flatnonzero(allowed[begin:end])))
                missing[k] -= len(parts[k][-1])
            missing = {k: m for k, m in missing.items() if m}
        return [Encoded.concatenate([*parts[k], self.sample(rng, missing.get(k, 0), g)]) for k, g in enumerate(givens)]

    def _draw(self, rng: np.random.Generator, n: int, options: list[NDArray[np.int64]]) -> Encoded:
        return self._filled(rng, self._draw_structure(rng, n, options))

    def _filled(self, rng: np.random.Generator, choice: NDArray[np.int64]) -> Encoded:
        """Pipelines of these structures, with random hyper-parameters."""
        n = len(choice)
        values = np.zeros((n, self.width))
        for s, blocks in enumerate(self._layout.blocks):
            for a in np.unique(choice[:, s]):
                rows = np.flatnonzero(choice[:, s] == a)
                for parameter, columns in blocks[a]:
                    values[rows, columns] = parameter.sample(rng, len(rows))
        order = None
        if self.free_order:
            order = np.tile(np.arange(len(self.stages)), (n, 1))
            shuffled = np.argsort(rng.random((n, len(self._movable))), axis=1)
            order[:, self._movable] = np.array(self._movable, dtype=np.int64)[shuffled]
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
                chances[rows[:, None], algorithms] = 0.0
            stuck = chances.sum(axis=1) == 0  # it will be rejected and drawn again
            chances[stuck] = weights
            totals = np.cumsum(chances, axis=1)
            drawn = (totals <= (rng.random(n) * totals[:, -1])[:, None]).sum(axis=1)
            choice[:, s] = drawn
        return choice

    def default(self, given: Given | None = None) -> Pipeline:
        """The first algorithm of each stage with its default hyper-parameters.

        The last stage has the first choice; the stages before it take the first algorithm that it allows.
        """
        choice = np.full((1, len(self.stages)), -1, dtype=np.int64)
        options = self._options(given)
        for s in reversed(range(len(self.stages))):
            choice[0, s] = next(iter(self._open(s, options, choice)), options[s][0])
        order = np.arange(len(self.stages))[None, :] if self.free_order else None
        found = self._allowed_only(self._encoded(self._layout.defaults[None, :], choice, order))
        if len(found) == 0:
            found = self.sample(np.random.default_rng(0), 1, given)
        return found[0]

    def neighbours(self, pipeline: Pipeline, rng: np.random.Generator, given: Given | None = None) -> Encoded:
        """Pipelines that differ from `pipeline` in one decision, of the given structure.

        Another algorithm in one stage (with its defaults), another value of one hyper-parameter (what it newly
        activates has its defaults), or two stages changing places.
        """
        return self._allowed_only(self._around(pipeline, rng, given))

    def _around(self, pipeline: Pipeline, rng: np.random.Generator, given: Given | None) -> Encoded:
        """See `neighbours`, with what is forbidden."""
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
        options = self._options(given)
        for s in range(len(self.stages)):
            for a in options[s]:
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
            for one, other in itertools.pairwise(self._movable):
                swapped = order.copy()
                swapped[[one, other]] = swapped[[other, one]]
                add(filled, choice, swapped)
        if not values:
            return here.take([])
        return self._encoded(np.array(values), np.array(choices), np.array(orders) if orders else None)

    def nearest(self, values: Array, given: Given | None = None) -> Encoded:
        """Snap relaxed points to pipelines; stages not given take their first algorithm."""
        points = np.atleast_2d(np.asarray(values, dtype=np.float64))
        snapped = np.zeros_like(points)
        if not np.isfinite(points).all():
            raise InvalidInput("a relaxed point must be finite, got NaN or infinity")
        options = self._options(given)
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

    def __getstate__(self) -> dict[str, Any]:  # the list of all pipelines stays behind
        return {name: value for name, value in self.__dict__.items() if name != "listed"}

    def __eq__(self, other: object) -> bool:
        return self.key == other.key if isinstance(other, PipelineSpace) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        stages = ", ".join(f"{s.name}: {len(s.algorithms)}" for s in self.stages)
        return f"PipelineSpace({self.name!r}; {stages}; {self.width} columns)"
