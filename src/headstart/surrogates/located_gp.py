"""`LocatedGP`: a Gaussian process over where pipelines are, whose prior was learned from other tasks.

================  =====================  ==================================================================
symbol            name in code           equation
================  =====================  ==================================================================
y_p               targets                loss of pipeline p on the new task: y = a + b (m + g + ε)
m_p, ψ_p          means, noise           of pipeline p; ε_p ~ N(0, ψ_p)
g                 process                Gaussian process over pipelines
a, b              Levels                 offset and scale, see `headstart.numerics.affine_mixture`
================  =====================  ==================================================================

Failures and pending proposals are decided here. A failure counts as the worst loss observed (``failures="worst"``), or
while there is none as one far above what is usual, so that what is like it is avoided; or it says nothing of others
(``"ignored"``), as a missing cell of the meta-dataset, and only the pipeline itself is known to be bad. Pending
proposals are believed to come out as predicted: the mean stays, the uncertainty around them goes.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from headstart.history import History
from headstart.numerics.affine_mixture import Levels
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded
from headstart.surrogates.base import Prediction
from headstart.surrogates.meta_trained import MetaTrained
from headstart.surrogates.posterior import Fixed, Located, Posterior, Process

Array = NDArray[np.float64]
Places = NDArray[np.int64]
Failures = Literal["worst", "ignored"]
_BAD = 2.0
"""What a failure counts as where nothing has succeeded yet: so many usual deviations above a usual loss."""
_KNOWN = 1e-3
"""Uncertainty of what was tried, relative to what it would be otherwise: never none."""
_LEAST_STD = 1e-6
"""Relative to that of the targets."""


class LocatedGP(MetaTrained):
    """Base of surrogates that tell where pipelines are; `fit` and `predict` are here.

    Over a fixed set observations are added one by one to the posterior of earlier fits where they begin alike; what
    comes out is the same as if all had been added now.
    """

    failures: Failures
    own_noise: ClassVar[bool]
    """Whether ε belongs to the pipeline and the task, so that what was tried is known, or only hides its loss."""

    @property
    @abstractmethod
    def process(self) -> Process:
        """The process on the task at hand."""

    @property
    @abstractmethod
    def fixed(self) -> Fixed | None:
        """Pipelines whose posterior grows by a row with every observation; ``None`` where they may move."""

    @property
    @abstractmethod
    def usual(self) -> Levels | None:
        """What other tasks tell of offset and scale; ``None`` where they were not asked."""

    @abstractmethod
    def locate(self, encoded: Encoded) -> Located:
        """Where these pipelines are."""

    @abstractmethod
    def places(self, encoded: Encoded) -> Places:
        """Of these pipelines in the fixed set, -1 for others."""

    def levels(self, targets: Array) -> Levels:
        """What is known of offset and scale, given these targets; by default the usual ones."""
        assert self.usual is not None
        return self.usual.unless_foreign(targets)

    @property
    def infers_levels(self) -> bool:
        """Whether targets far above the usual ones are held back, so that a few do not decide the scale."""
        return True

    def adapt(self, seen: Encoded, targets: Array) -> None:
        """Adapt parameters to what was observed, before anything is located; by default they stay."""

    _posterior: Posterior
    _tried: tuple[Places, Array, Places]
    """Ids, targets and places in the fixed set of what was observed."""
    _failed: tuple[Places, float]

    def fit(self, history: History) -> Self:
        targets, ok, usual = self.transform_targets(history.targets()), history.ok, self.usual
        if usual is not None and self.infers_levels:
            targets = np.minimum(targets, usual.highest(targets[ok]))
        seen = history.encoded
        known = self.knows(seen)  # of others it can tell nothing, nor they of these
        if not known.all():
            seen, targets, ok = seen.take(known), targets[known], ok[known]
        self._failed = seen.ids[~ok], float(targets[ok].max(initial=-np.inf))
        if self.failures == "ignored" or (usual is None and not ok.any()):
            seen, targets = seen.take(ok), targets[ok]
        else:
            self._failed = seen.ids[:0], -np.inf
            if usual is not None and not ok.any():
                targets = np.full(len(ok), usual.offset_mean + _BAD * float(np.median(usual.scales)))
        with one_blas_thread():
            self.adapt(seen, targets)
        self._condition(seen, targets)
        waiting = history.waiting if history.pending else seen.take([])
        waiting = waiting.take(self.knows(waiting))
        if len(waiting):
            believed = self.predict(waiting).mean
            self._condition(Encoded.concatenate([seen, waiting]), np.concatenate([targets, believed]))
        return self

    def _condition(self, seen: Encoded, targets: Array) -> None:
        """The posterior given losses of these pipelines."""
        with one_blas_thread():
            self._posterior = Posterior(self.process, self.locate(seen), targets, self.levels(targets))
        self._tried = seen.ids, targets, self.places(seen)

    def predict(self, encoded: Encoded) -> Prediction:
        tried, targets, seen = self._tried
        places, fixed, posterior = self.places(encoded), self.fixed, self._posterior
        with one_blas_thread():
            if fixed is None or (places < 0).any() or (seen < 0).any():
                at = self.locate(encoded)
                spread, variance = posterior.at(at)
                means, noise = at.means, at.total_noise
            else:
                spread, variance = posterior.over(fixed, seen)
                spread, variance = spread[:, places], variance[places]
                means, noise = fixed.located.means[places], fixed.located.noise[places]
            variance = np.maximum(variance, 0.0) + (noise if self.own_noise else 0.0)
            mean, std = posterior.mixture.moments(spread, means, variance)
        std = np.maximum(std, _LEAST_STD * max(part.scale for part in posterior.mixture.parts))
        failed, worst = self._failed
        bad = np.isin(encoded.ids, failed)
        mean[bad] = np.maximum(mean[bad], worst)
        if self.own_noise:
            value = dict(zip(tried.tolist(), targets.tolist(), strict=True))  # of those tried twice, the last
            known = np.flatnonzero(np.isin(encoded.ids, tried))
            mean[known] = [value[i] for i in encoded.ids[known].tolist()]
            std[known] *= _KNOWN
            std[bad] *= _KNOWN
        return Prediction(mean, std)
