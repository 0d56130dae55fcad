"""Acquisitions: how promising is a candidate.

=========================  ==============================  =========================
symbol                     name in code                    meaning
=========================  ==============================  =========================
y*                         best                            lowest target observed
ξ                          xi                              least improvement counted
EI(x) = E[max(0, y*−ξ−f)]  exp of `LogEI`'s score
=========================  ==============================  =========================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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
    """Logarithm of the expected improvement over the best target so far; never underflows.

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
        std = np.zeros(len(prediction)) if prediction.std is None else prediction.std
        targets = history.targets()
        best = float(targets.min()) if len(targets) else float(prediction.mean.max())
        return log_expected_improvement(prediction.mean, std, best, margin=self.xi)


class Greedy:
    """The lowest predicted mean; needs no uncertainty."""

    def __call__(self, surrogate: Surrogate, history: History, encoded: Encoded) -> Array:  # noqa: ARG002
        return -surrogate.predict(encoded).mean
