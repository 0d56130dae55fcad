"""`distinct`: the pipelines of a space that differ on a table, each once.

On a table without missing numbers all imputers do nothing, and on one without categories no encoder has anything to do.
Pipelines that differ in nothing else are then equal: fitted to any rows of the table they predict the same, but for
rounding. They are searched as one, under the name of the first that the rest of the pipeline allows, with default
hyper-parameters.

=================================================  ===============================================================
a table without                                    makes equal
=================================================  ===============================================================
categories                                         all algorithms of stages on categorical columns
numbers                                            all algorithms of stages on numeric columns
missing numbers, infinities and bad dates          imputers and doing nothing, in stages on numeric columns
=================================================  ===============================================================

One thing else tells them apart. Where neither side of a table does anything, its columns stay in their order; else
numbers come first. If that order differs, pipelines of the one and the other kind are not merged: it may decide which
columns a booster samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from headstart.errors import SpaceError
from headstart.space.candidates import Candidates, Given
from headstart.space.encoded import Encoded
from headstart.space.layout import Clause, combinations
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.space.stages import Algorithm, Stage

if TYPE_CHECKING:
    from headstart.data.dataset import Dataset

Array = NDArray[np.float64]
Choice = NDArray[np.int64]
Mask = NDArray[np.bool_]
_IMPUTERS = ("sklearn.impute:SimpleImputer", "sklearn.impute:KNNImputer")
"""They leave a table without missing numbers as it is."""
_MOST_STRUCTURES = 1_000_000
_ATTEMPTS = 20


def distinct(space: PipelineSpace, dataset: Dataset) -> Candidates:
    """What is searched on a table: the space itself, unless the table makes some of its pipelines equal."""
    kinds = dataset.preparation
    categories, numbers = "categorical" in kinds.values(), _has_numbers(kinds)
    complete = not _has_missing_numbers(dataset)
    equal = []
    for stage in space.stages:
        if stage.kind != "step" or stage.columns == "all":
            alike = [False] * len(stage.algorithms)
        elif not (categories if stage.columns == "categorical" else numbers):
            alike = [True] * len(stage.algorithms)
        else:
            alike = [complete and stage.columns == "numeric" and _only_imputes(a) for a in stage.algorithms]
        equal.append(np.array(alike))
    found = Distinct(space, equal, reordered=_is_reordered(kinds))
    few = math.prod(len(stage.algorithms) for stage in space.stages) <= _MOST_STRUCTURES
    return found if found.merges and few else space


def _has_numbers(kinds: Mapping[str, str]) -> bool:
    """Whether a prepared table has columns of numbers; a table of ids and constants gets one."""
    used = [kind for kind in kinds.values() if kind not in ("id", "constant")]
    return not used or any(kind != "categorical" for kind in used)


def _is_reordered(kinds: Mapping[str, str]) -> bool:
    """Whether a column of numbers stands after a categorical one."""
    used = [kind == "categorical" for kind in kinds.values() if kind not in ("id", "constant")]
    return used != sorted(used)


def _has_missing_numbers(dataset: Dataset) -> bool:
    """Whether a column of numbers has a gap once the table is prepared; what texts become has none."""
    if dataset.is_sparse:
        return not bool(np.isfinite(dataset.X.data).all())
    from headstart.components.prepare import PrepareTable

    return any(  # one column at a time, for memory, and up to the first that has one
        PrepareTable({name: kind}).fit_transform(dataset.X[[name]]).isna().any(axis=None)
        for name, kind in dataset.preparation.items()
        if kind not in ("categorical", "text", "id", "constant")
    )


def _only_imputes(algorithm: Algorithm) -> bool:
    """Whether it changes nothing but missing numbers, whatever its hyper-parameters are."""
    if algorithm.path is None:
        return True
    named = {*algorithm.fixed, *(parameter.name for parameter in algorithm.params)}
    return algorithm.path in _IMPUTERS and "missing_values" not in named


class Distinct:
    """The pipelines of a space that differ, each once; see `distinct`.

    Parameters
    ----------
    space
        Whose pipelines they are.
    equal
        For each stage which of its algorithms are equal.
    reordered
        Whether doing nothing at all to a table leaves its columns in another order than doing something.
    """

    def __init__(self, space: PipelineSpace, equal: Iterable[Mask], reordered: bool) -> None:
        self.space = space
        # Where combinations with certain hyper-parameters of a stage are forbidden, its defaults may be too.
        tied = {key.partition(".")[0] for clause in space.forbidden for key in clause if "." in key}
        self._equal = {
            s: alike
            for s, (stage, alike) in enumerate(zip(space.stages, equal, strict=True))
            if stage.name not in tied and _are_several(stage, alike)
        }
        named = {space.stages[s].name for s in self._equal}
        self._clauses = [c for c, keys in zip(space._clauses, space.forbidden, strict=True) if named & keys.keys()]
        self._acts = {
            s: np.array([algorithm.path is not None for algorithm in stage.algorithms])
            for s, stage in enumerate(space.stages)
            if stage.kind == "step" and stage.columns != "all"
        }
        self._reordered = reordered

    @property
    def merges(self) -> bool:
        """Whether any pipelines are equal."""
        return bool(self._equal)

    def over(self, space: PipelineSpace) -> Candidates:
        """The same for a space with these stages and algorithms, such as one without hyper-parameters."""
        nothing = [np.zeros(len(stage.algorithms), dtype=bool) for stage in space.stages]
        found = Distinct(space, [self._equal.get(s, none) for s, none in enumerate(nothing)], self._reordered)
        return found if found.merges else space

    # -- from a pipeline to the one that stands for it ------------------------------------------------------------

    def _merged(self, encoded: Encoded) -> Encoded:
        """The pipelines that stand for these; one that is forbidden may stay so."""
        layout, values, choice = self.space._layout, encoded.values.copy(), encoded.choice
        for s, alike in self._equal.items():
            rows = np.flatnonzero(alike[choice[:, s]])
            for a in np.flatnonzero(alike).tolist():
                values[rows, layout.span(s, a)] = layout.defaults[layout.span(s, a)]

        def is_forbidden(rows: Choice, changed: Choice) -> Mask:
            met = [c.is_met(encoded.values[rows], encoded.active[rows], changed) for c in self._clauses]
            return np.any(met, axis=0) if met else np.zeros(len(rows), dtype=bool)

        return self.space._encoded(values, self._stand_ins(choice, is_forbidden), encoded.order)

    def _stand_ins(self, choice: Choice, is_forbidden: Callable[[Choice, Choice], Mask]) -> Choice:
        """Choices (n, S) of the pipelines that stand for those with these: the first that are allowed.

        Parameters
        ----------
        choice
            (n, S).
        is_forbidden
            Of some rows and what would be chosen in them.
        """
        found, stages = choice.copy(), list(self._equal)
        equal = np.stack([alike[choice[:, s]] for s, alike in self._equal.items()], axis=1)
        raw, left = self._is_raw(choice), np.flatnonzero(equal.any(axis=1))
        for algorithms in itertools.product(*(np.flatnonzero(alike).tolist() for alike in self._equal.values())):
            if not len(left):
                break
            changed = choice[left]
            changed[:, stages] = np.where(equal[left], algorithms, changed[:, stages])
            good = ~is_forbidden(left, changed)
            if self._reordered:
                good &= self._is_raw(changed) == raw[left]
            found[left[good]] = changed[good]
            left = left[~good]
        return found

    def _is_raw(self, choice: Choice) -> Mask:
        """Which pipelines do nothing to the columns of a table before they are joined."""
        raw = np.ones(len(choice), dtype=bool)
        for s, acts in self._acts.items():
            raw &= ~acts[choice[:, s]]
        return raw

    # -- candidates -----------------------------------------------------------------------------------------------

    @property
    def pool(self) -> None:
        return None

    @cached_property
    def listed(self) -> Encoded | None:
        everything = self.space.listed
        return None if everything is None else self._merged(everything).unique()

    def encode(self, pipelines: Iterable[Pipeline]) -> Encoded:
        return self._merged(self.space.encode(pipelines))

    @cached_property
    def _structures(self) -> Choice:
        """Choices (m, S) of all candidates, each once; as in `PipelineSpace.allowed` hyper-parameters forbid none."""
        choice = combinations([len(stage.algorithms) for stage in self.space.stages])
        nothing = np.zeros((len(choice), 0))

        def is_forbidden(clauses: Iterable[Clause], changed: Choice) -> Mask:
            met = np.zeros(len(changed), dtype=bool)
            for clause in clauses:
                if clause.of_algorithms:
                    met |= clause.is_met(nothing, nothing.astype(bool), changed)
            return met

        choice = choice[~is_forbidden(self.space._clauses, choice)]
        return np.unique(self._stand_ins(choice, lambda _, changed: is_forbidden(self._clauses, changed)), axis=0)

    def allowed(self, given: Given | None = None) -> dict[str, tuple[str, ...]]:
        there = self._structures[self._agrees(self._structures, given)]
        return {
            stage.name: tuple(stage.names[a] for a in np.unique(there[:, s]))
            for s, stage in enumerate(self.space.stages)
        }

    def _agrees(self, choice: Choice, given: Given | None) -> Mask:
        """Which pipelines are of a structure."""
        agrees = np.ones(len(choice), dtype=bool)
        for name, wanted in (given or {}).items():
            s = self.space.stage_position(name)
            agrees &= np.isin(choice[:, s], self.space.stages[s].positions(wanted))
        return agrees

    def _wider(self, given: Given | None) -> Given:
        """A structure with all that its algorithms are equal to."""
        wider = dict(given or {})
        for s, alike in self._equal.items():
            stage = self.space.stages[s]
            if stage.name in wider:
                wanted = stage.positions(wider[stage.name])
                if alike[wanted].any():
                    wider[stage.name] = [stage.names[a] for a in sorted({*wanted, *np.flatnonzero(alike).tolist()})]
        return wider

    def sample(self, rng: np.random.Generator, n: int = 1, given: Given | None = None) -> Encoded:
        """As the space samples them; where what stands for them decides on the structure, others are rejected."""
        wider, parts, missing = self._wider(given), [], n
        for attempt in range(_ATTEMPTS):
            drawn = self._merged(self.space.sample(rng, n if attempt == 0 else max(2 * missing, 64), wider))
            parts.append(drawn.take(np.flatnonzero(self._agrees(drawn.choice, given))[:missing]))
            missing -= len(parts[-1])
            if missing == 0:
                break
        found = Encoded.concatenate(parts)
        if n and not len(found):
            raise SpaceError(f"no pipeline of space {self.space.name!r} was found with {dict(given or {})!r}")
        return found

    def sample_each(self, rng: np.random.Generator, n: int, givens: Sequence[Given]) -> list[Encoded]:
        found = []
        drawn = self.space.sample_each(rng, n, [self._wider(given) for given in givens])
        for part, given in zip(map(self._merged, drawn), givens, strict=True):
            agreeing = part.take(np.flatnonzero(self._agrees(part.choice, given)))
            missing = n - len(agreeing)
            found.append(Encoded.concatenate([agreeing, self.sample(rng, missing, given)]) if missing else agreeing)
        return found

    def neighbours(self, pipeline: Pipeline, rng: np.random.Generator, given: Given | None = None) -> Encoded:
        """As those in the space, but what is equal is no step, and stands in the way of none."""
        here = self.encode([pipeline])
        around = self.space._allowed_only(self._merged(self.space._around(here[0], rng, self._wider(given)))).unique()
        return around.take((around.ids != here.ids[0]) & self._agrees(around.choice, given))

    def nearest(self, values: Array, given: Given | None = None) -> Encoded:
        return self._merged(self.space.nearest(values, given))

    def __repr__(self) -> str:
        stages = ", ".join(self.space.stages[s].name for s in self._equal)
        return f"Distinct pipelines of space {self.space.name!r}, of which some differ only in {stages}"


def _are_several(stage: Stage, alike: Mask) -> bool:
    """Whether there is more than one way to do what is equal."""
    ways = [a for a, same in zip(stage.algorithms, alike, strict=True) if same]
    return len(ways) > 1 or any(p.levels != 1 for a in ways for p in a.params)
