"""Derivative-free search around a point: `DirectSearch` polls along the axes, `TrustRegion` fits quadratic models.

Both work in the unit cube of the hyper-parameters of one structure, that of the best trial or of the first one. Points
snap to the nearest candidate, so categorical hyper-parameters are one-hot columns of which the largest counts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headstart.errors import check_positive
from headstart.optimizers.base import Optimizer
from headstart.optimizers.random import draw_untried, tried_ids, untried
from headstart.space.encoded import Encoded
from headstart.trials import Proposal

Array = NDArray[np.float64]


def _given(encoded: Encoded) -> dict[str, str]:
    """Structure of the first of some pipelines."""
    stages = encoded.space.stages
    return {stage.name: stage.names[a] for stage, a in zip(stages, encoded.choice[0].tolist(), strict=True)}


def _ordered(found: Encoded, like: Encoded) -> Encoded:
    """Pipelines with the order of stages of another one, where that is free."""
    return found if like.order is None or found.recorded else found.with_order(like.order[0].tolist())


class DirectSearch(Optimizer):
    """Coordinate search: steps along the axes from the best trial, halved when none is left to try (Kolda, Lewis &
    Torczon, SIAM Review 2003).

    Which point is polled next follows from the best trial and from what was tried, so nothing else is remembered. When
    steps get too small, a random candidate begins anew.

    Parameters
    ----------
    step
        The first step, on the unit interval.
    least
        The smallest.
    """

    def __init__(self, step: float = 0.25, least: float = 1e-3) -> None:
        check_positive("step", step)
        check_positive("least", least)
        self.step = step
        self.least = least

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        tried = tried_ids(self.history)
        if self.history.ok.any():
            here = self.history.encoded.take(self.history.order()[:1])
            step = self.step
            while step >= self.least:
                left = untried(self._around(here, step), tried)
                if len(left):
                    return Proposal(number, left[int(rng.integers(len(left)))], {"by": "poll", "step": step})
                step /= 2
        return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})

    def _around(self, here: Encoded, step: float) -> Encoded:
        """Candidates a step away along each axis, and those with another choice, without `here` itself."""
        numbers = np.isin(np.arange(here.space.width), here.space.relaxed().columns)
        columns = np.flatnonzero(here.active[0] & numbers)
        points = np.repeat(here.values, 2 * len(columns), axis=0)
        points[np.arange(len(points)), np.repeat(columns, 2)] += np.tile([step, -step], len(columns))
        points = points[((points >= 0) & (points <= 1)).all(axis=1)]
        others = np.flatnonzero(here.active[0] & ~numbers & (here.values[0] < 1))
        chosen = np.repeat(here.values, len(others), axis=0)
        chosen[np.arange(len(others)), others] = 2.0  # the largest of its choices
        polled = np.concatenate([points, chosen])
        if not len(polled):
            return here.take([])
        return untried(_ordered(_snapped(self, polled, here), here), here.ids)


class TrustRegion(Optimizer):
    """Quadratic models in a trust region, by COBYQA (Ragonneau & Zhang, 2024).

    It begins at the first trial that is ok. SciPy's solver is run from its beginning at each suggestion, on the values
    that are known; the first point that is not known is what is suggested. So it is rebuilt from a history like any
    other optimizer. When it has converged, a random candidate is taken.

    Parameters
    ----------
    radius
        Of the first trust region, on the unit interval.
    least
        Of the last.
    """

    def __init__(self, radius: float = 0.25, least: float = 1e-3) -> None:
        check_positive("radius", radius)
        check_positive("least", least)
        self.radius = radius
        self.least = least

    def suggest(self, number: int, rng: np.random.Generator) -> Proposal | None:
        ok = np.flatnonzero(self.history.ok)
        if len(ok):
            wanted = self._wanted(self.history.encoded.take(ok[:1]))
            if wanted is not None and len(untried(wanted, tried_ids(self.history))):
                return Proposal(number, wanted[0], {"by": "trust region"})
        return Proposal(number, draw_untried(self.history, rng)[0], {"by": "random"})

    def _wanted(self, start: Encoded) -> Encoded | None:
        """The first point that the solver asks for and that is not known; ``None`` when it has converged."""
        from scipy.optimize import minimize

        columns = np.flatnonzero(start.active[0])
        if not len(columns):
            return None
        known = dict(zip(self.history.encoded.ids.tolist(), self.history.targets().tolist(), strict=True))
        values, targets = start.values[0], self.history.targets()
        scale = float(np.std(targets)) or 1.0

        def target(point: Array) -> float:
            whole = values.copy()
            whole[columns] = np.clip(point, 0.0, 1.0)
            snapped = _ordered(_snapped(self, whole[None, :], start), start)
            found = known.get(int(snapped.ids[0]))
            if found is None:
                raise _Unknown(snapped)
            return float(found / scale)

        options = {"initial_tr_radius": self.radius, "final_tr_radius": self.least, "maxfev": 100 * len(columns)}
        try:
            minimize(target, values[columns], method="COBYQA", bounds=[(0.0, 1.0)] * len(columns), options=options)
        except _Unknown as unknown:
            return unknown.wanted
        return None


class _Unknown(Exception):
    """The solver wants a value that is not known."""

    def __init__(self, wanted: Encoded) -> None:
        super().__init__("a point is not known")
        self.wanted = wanted


def _snapped(optimizer: Optimizer, points: Array, like: Encoded) -> Encoded:
    """Candidates of a structure nearest to points; those that are forbidden are left out by taking `like` instead."""
    from headstart.errors import SpaceError

    candidates, given = optimizer.task.candidates, _given(like)
    try:
        return candidates.nearest(points, given)
    except SpaceError:
        parts = []
        for point in points:
            try:
                parts.append(candidates.nearest(point, given))
            except SpaceError:
                parts.append(like)
        return Encoded.concatenate(parts)
