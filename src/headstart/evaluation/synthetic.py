"""Losses with known structure on any space, for tests, benchmarks and trying things out: `Synthetic`, `Artificial`."""

from __future__ import annotations

import time

import numpy as np

from headstart.evaluation.objective import outcome_of
from headstart.space.encoded import Encoded
from headstart.space.pipeline import Pipeline
from headstart.space.space import PipelineSpace
from headstart.trials import FULL, Fidelity, Limits, Outcome, Status


class Synthetic:
    """Each algorithm has its own offset and a quadratic bowl over its hyper-parameters; the losses lie in [0, 1].

    Deterministic: the same space and seed make the same function, and a pipeline always has the same loss (plus noise
    that follows from the evaluation's seed).

    Parameters
    ----------
    space
        Whose pipelines it evaluates.
    seed
        Of the offsets and optima.
    noise
        Standard deviation of the noise, larger on a share of the rows.
    failing
        Share of the algorithms' hyper-parameter space that crashes.
    seconds
        How long an evaluation takes.
    constraint
        Name of a value to be bounded that each outcome also has: another function of the same kind, without noise.
    """

    def __init__(
        self,
        space: PipelineSpace,
        seed: int = 0,
        noise: float = 0.0,
        failing: float = 0.0,
        seconds: float = 0.0,
        constraint: str | None = None,
    ) -> None:
        rng = np.random.default_rng(seed)
        self.space = space
        self.noise = noise
        self.failing = failing
        self.seconds = seconds
        self._offsets = [rng.uniform(0, 0.5, len(stage.algorithms)) for stage in space.stages]
        self._optima = rng.uniform(0, 1, space.width)
        self._direction = rng.standard_normal(space.width)
        self._constraint = None if constraint is None else (constraint, Synthetic(space, seed + 1))

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        del limits  # nothing to stop
        return outcome_of(lambda: self._evaluate(pipeline, seed, fidelity), fidelity)

    def _evaluate(self, pipeline: Pipeline, seed: int, fidelity: Fidelity) -> Outcome:
        encoded = self.space.encode([pipeline])
        values, active = encoded.values[0], encoded.active[0]
        if self.seconds:
            time.sleep(self.seconds)
        if self.failing and abs(np.sin(7.0 * (self._direction[active] * values[active]).sum())) < self.failing:
            return Outcome.failed(Status.CRASHED, "a region where pipelines crash", fidelity=fidelity)
        noise = (
            self.noise / np.sqrt(fidelity.rows) * np.random.default_rng(seed).standard_normal() if self.noise else 0.0
        )
        measured = {} if self._constraint is None else {self._constraint[0]: self._constraint[1].value(encoded)}
        return Outcome.of(self.value(encoded) + noise, constraints=measured, fidelity=fidelity)

    def value(self, encoded: Encoded) -> float:
        """The loss of the first of some encoded pipelines, without noise."""
        values, active = encoded.values[0], encoded.active[0]
        bowl = float(((values - self._optima)[active] ** 2).mean()) if active.any() else 0.0
        offset = float(np.mean([o[a] for o, a in zip(self._offsets, encoded.choice[0], strict=True)]))
        return offset + 0.5 * bowl


class Artificial:
    """The artificial objective of Liu et al. (AAAI 2020, appendix 15): stages feed their values to the next one.

    A stage whose algorithm has the hyper-parameters θ, in [0, 1], has the spread v = |wᵀθ / 1ᵀθ|, with weights w of
    that algorithm. Its value is the largest |f + v ξ| over `draws` numbers ξ of that algorithm from a standard normal
    distribution, where f is the value of the stage before it, 0 for the first. The loss is the value of the last
    stage; it is not bounded. For an algorithm without hyper-parameters the paper divides 0 by 0: there v is the
    absolute value of one weight, and where all of θ is 0 it is that of the mean weight.

    Parameters
    ----------
    space
        Whose pipelines it evaluates.
    seed
        Of weights and draws.
    draws
        Numbers for each algorithm; the paper has 10.
    """

    def __init__(self, space: PipelineSpace, seed: int = 0, draws: int = 10) -> None:
        rng = np.random.default_rng(seed)
        self.space = space
        self._parts = {
            (s, a): (columns, rng.standard_normal(max(1, columns.stop - columns.start)), rng.standard_normal(draws))
            for s, a, _, columns in space.blocks()
        }

    def __call__(self, pipeline: Pipeline, limits: Limits, seed: int, fidelity: Fidelity = FULL) -> Outcome:
        del limits, seed  # always the same, at once
        return outcome_of(lambda: Outcome.of(self.value(self.space.encode([pipeline])), fidelity=fidelity), fidelity)

    def value(self, encoded: Encoded) -> float:
        """The loss of the first of some encoded pipelines."""
        found = 0.0
        for s, a in enumerate(encoded.choice[0].tolist()):
            columns, weights, draws = self._parts[s, a]
            values = encoded.values[0, columns]
            total = float(values.sum())
            spread = abs(weights @ values / total) if total > 0 else abs(weights.mean())
            found = float(np.abs(found + spread * draws).max())
        return found
