"""Acquisitions: how promising is a candidate.

=========================  ==============================  =========================
symbol                     name in code                    meaning
=========================  ==============================  =========================
y*                         –                               lowest target observed
ξ                          xi                              least improvement counted
u                          `Surrogate.transform_targets`        targets in the unit of predictions f
EI(x)                      exp of `LogEI`'s score          E[max(0, u(y* − ξ) − f)]
=========================  ==============================  =========================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput

if TYPE_CHECKING:
    from headstart.history import History
    from headstart.space.encoded import Encoded
    from headstart.surrogates.base import Surrogate

Array = NDArray[np.float64]


class Acquisition(Protocol):
    """Scores candidates; the highest is tried next."""

    def __call__(self, surrogate: Surrogate, history: History, encoded: Encoded) -> Array:
        """Scores (n,) of n candidates under a fitted surrogate."""
        ...


class LogEI:
    """Logarithm of the expected improvement over the best target so far; never underflows (Ament et al., NeurIPS 2023).

    For a surrogate without a standard deviation it is `Greedy`.

    Parameters
    ----------
    xi
        Least improvement that counts, in the unit of the loss.
    """

    def __init__(self, xi: float = 0.0) -> None:
        if not xi >= 0:
            raise InvalidInput(f"xi must not be negative, got {xi!r}")
        self.xi = xi

    def __call__(self, surrogate: Surrogate, history: History, encoded: Encoded) -> Array:
        from headstart.numerics.expected_improvement import log_expected_improvement

        prediction = surrogate.predict(encoded)
        if prediction.std is None:
            return -prediction.mean  # the order of the scores as a deviation that all share goes to 0
        std = prediction.std
        targets = history.targets()[history.ok]  # a failure is no loss to improve on
        if not len(targets):
            return log_expected_improvement(prediction.mean, std, float(prediction.mean.max()))
        wanted = surrogate.transform_targets(np.array([targets.min() - self.xi]))
        return log_expected_improvement(prediction.mean, std, float(wanted[0]))


class LogEIPerSecond(LogEI):
    """Logarithm of the expected improvement for each second that an evaluation is expected to take (Snoek, Larochelle &
    Adams, NeurIPS 2012).

    A surrogate that knows from other tasks how long pipelines take is asked. Otherwise the logarithm of the seconds is
    learned from the trials by a forest, failed ones included; what is suggested then depends on how fast the machine
    was, so runs are not the same each time.

    Parameters
    ----------
    xi
        See `LogEI`.
    power
        Of the seconds; 0 leaves them out, 1 is improvement by the second. In between, slow pipelines have to promise
        more, but cheap ones that promise little do not crowd them out.
    """

    def __init__(self, xi: float = 0.0, power: float = 0.5) -> None:
        super().__init__(xi)
        if not power >= 0:
            raise InvalidInput(f"power must not be negative, got {power!r}")
        self.power = power
        self._known: tuple[bytes, Any] = (b"", None)

    def __call__(self, surrogate: Surrogate, history: History, encoded: Encoded) -> Array:
        gain = super().__call__(surrogate, history, encoded)
        told = surrogate.log_seconds(encoded)
        if told is not None:
            return np.asarray(gain - self.power * told)
        if not len(history):
            return gain
        mean, _ = self._cost(history).posterior(encoded.features(_INACTIVE))
        score: Array = gain - self.power * mean
        return score

    def _cost(self, history: History) -> Any:
        """The forest of the logarithm of seconds; fitted once for each history, since hill climbing asks often."""
        from headstart.numerics.forest import Forest

        seconds = np.array([trial.outcome.seconds for trial in history])
        key = seconds.tobytes() + history.encoded.ids.tobytes()
        if self._known[0] != key:
            forest = Forest(n_trees=10, min_samples_leaf=2, seed=0)
            fitted = forest.fit(history.encoded.features(_INACTIVE), np.log(seconds + OVERHEAD_SECONDS))
            self._known = (key, fitted)
        return self._known[1]


_INACTIVE = -1.0
OVERHEAD_SECONDS = 0.3
"""What a suggestion and the start of its evaluation take, about."""


class Greedy:
    """The lowest predicted mean; needs no uncertainty."""

    def __call__(self, surrogate: Surrogate, history: History, encoded: Encoded) -> Array:  # noqa: ARG002
        return -surrogate.predict(encoded).mean
