"""Prediction intervals and prediction sets from what validation left behind: CV+.

A fit has predicted every validation row with models that had not seen it. How far off those predictions were says how
far off the next one may be. Nothing is fitted again.

==================  ======================================  ===================================
symbol              here                                    equation
==================  ======================================  ===================================
R_i, s_i            `Conformity.scores`                     Barber et al. (2021), section 1.3;
                                                            Romano et al. (2020), section 2.2
S_k(i)              `Conformity.groups`, `held_out`         the folds that row i was left out of
mu_-S_k(i)(x)       ``centres[groups[i]]``                  the prediction of those folds' models
1 - alpha           ``coverage``
==================  ======================================  ===================================

With folds and the models of all of them (``refit="bag"``) this is CV+, which covers at least 1 - 2 alpha of new rows
whatever the data, and close to 1 - alpha in practice (Barber et al., 2021, theorem 4). With a hold-out it is split
conformal prediction. Members that were refitted on all rows count as if they had been left out of every fold.

Rows must be exchangeable: with `groups` or `times`, coverage holds for new rows of the groups and times that were seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput

if TYPE_CHECKING:
    from headstart.data.folds import Pair

Array = NDArray[np.float64]

MOST_SCORES = 2_000
"""Most validation rows whose scores are kept; with so many, coverage varies by 0.7 points at 0.9."""
BYTES_PER_SCORE = 8
"""Of a score and its group, in a file."""
_CELLS = 4_000_000
"""Most pairs of a new row and a score that are looked at at once."""


@dataclass(frozen=True, eq=False)
class Conformity:
    """How far off predictions for validation rows were.

    Parameters
    ----------
    scores
        (n,): the absolute residual of a number; 1 minus the probability of the true class.
    groups
        (n,) rows of `held_out`.
    held_out
        (groups, folds) which folds a row was validated in; with repeated folds there are several.
    """

    scores: NDArray[np.float32]
    groups: NDArray[np.int32]
    held_out: NDArray[np.bool_]

    def __post_init__(self) -> None:
        n, (groups, folds) = len(self.scores), self.held_out.shape
        if not n or not folds or self.groups.shape != (n,) or not np.isfinite(self.scores).all():
            raise ValueError("scores of validation rows do not fit together")
        if self.groups.min() < 0 or self.groups.max() >= groups or not self.held_out.any(axis=1).all():
            raise ValueError("scores of validation rows refer to folds that do not exist")

    @classmethod
    def of(
        cls, predictions: Array, y: NDArray[Any], rows: NDArray[np.int64], pairs: Sequence[Pair], seed: int = 0
    ) -> Conformity | None:
        """The scores of validation rows, or of some of them; None where there are none.

        Parameters
        ----------
        predictions
            For `rows`: numbers (n,), or probabilities (n, classes).
        y
            Of all rows of the table: numbers, or positions of classes.
        pairs
            Training and validation rows of each fold.
        """
        if not len(rows):
            return None
        some = np.arange(len(rows))
        if len(rows) > MOST_SCORES:
            some = np.sort(np.random.default_rng(seed).choice(some, MOST_SCORES, replace=False))
        truth = y[rows[some]]
        off = (
            np.abs(truth - predictions[some])
            if predictions.ndim == 1
            else 1 - predictions[some, truth.astype(np.int64)]
        )
        validated = np.zeros((len(y), len(pairs)), dtype=np.bool_)
        for fold, (_, valid) in enumerate(pairs):
            validated[valid, fold] = True
        held_out, groups = np.unique(validated[rows[some]], axis=0, return_inverse=True)
        return cls(off.astype(np.float32), groups.reshape(-1).astype(np.int32), held_out)

    @property
    def folds(self) -> int:
        """How many folds there are."""
        return int(self.held_out.shape[1])

    def intervals(self, folds: Array, coverage: float) -> Array:
        """Bounds (n, 2) for numbers.

        Parameters
        ----------
        folds
            (folds, n) what the models of each fold predict.
        """
        rank = self.check(coverage)
        centres, n = self._centres(folds), folds.shape[1]
        bounds = np.empty((n, 2))
        scores = self.scores.astype(np.float64)
        size = max(1, _CELLS // len(scores))
        for start in range(0, n, size):
            part = slice(start, start + size)
            about = centres[self.groups, part].T
            bounds[part, 0] = np.partition(about - scores, len(scores) - rank, axis=1)[:, len(scores) - rank]
            bounds[part, 1] = np.partition(about + scores, rank - 1, axis=1)[:, rank - 1]
        return bounds

    def sets(self, folds: Array, coverage: float) -> NDArray[np.bool_]:
        """Which classes are in the set of each row, (n, classes).

        Parameters
        ----------
        folds
            (folds, n, classes) probabilities by the models of each fold.
        """
        rank = self.check(coverage)
        strange = (1 - self._centres(folds)).astype(np.float32)
        below = np.zeros(folds.shape[1:], dtype=np.int64)
        for group, own in enumerate(strange):
            known = np.sort(self.scores[self.groups == group])
            below += np.searchsorted(known, own, side="left")
        return np.asarray(below < rank)

    def _centres(self, folds: Array) -> Array:
        """(groups, n, ...) the mean prediction of the models that had not seen the rows of a group."""
        shares = self.held_out / self.held_out.sum(axis=1, keepdims=True)
        return np.asarray(np.tensordot(shares, folds, axes=1))

    def check(self, coverage: float) -> int:
        """Position, from 1 on, of the score that so large a share of n + 1 scores does not exceed.

        `InvalidInput` for a share that there is no such score for.
        """
        if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage < 1:
            raise InvalidInput(f"coverage must be between 0 and 1, such as 0.9, got {coverage!r}")
        n = len(self.scores)
        rank = math.ceil(round(coverage * (n + 1), 9))
        if rank > n:
            raise InvalidInput(
                f"coverage must be at most {math.floor(1000 * n / (n + 1)) / 1000:g} with {n} validation rows, got "
                f"{coverage}"
            )
        return rank
