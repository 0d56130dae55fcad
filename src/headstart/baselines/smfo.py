"""`SMFO`: sequential model-free optimisation, adaptive by how alike the training tasks turn out to be.

=========  ============  ===============================================================================
symbol     name in code  equation
=========  ============  ===============================================================================
z          losses        z_pt in [0, 1], normalised loss of pipeline p on training task t; 1 if missing
x_i, y_i                 pipelines tried on the new task, and their losses
b_t        best          min_i z_{x_i t}, 1 before the first
τ_t                      agreement: pairs i, j that y and z_·t order alike less those they order
                         differently, as a share of the pairs that both tell apart
w_t        weights       ((1 + τ_t) / 2) ** sharpness, see `task_weights`
g_p        gains         Σ_t w_t max(0, b_t - z_pt); the largest is tried next
=========  ============  ===============================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.errors import InvalidInput, check_positive
from headstart.metadata.metadataset import MetaDataset
from headstart.metadata.normalisation import Normalisation, check_normalisation, normalised_losses
from headstart.numerics.greedy_cover import CoverGains
from headstart.numerics.threads import one_blas_thread
from headstart.optimizers.recorded import Mask, RecordedOptimizer, Rows

Array = NDArray[np.float64]
Single = NDArray[np.float32]


class Agreement:
    """Pairs of pipelines that the new task and each training task order alike, or not.

    Parameters
    ----------
    losses
        (P, T) on the training tasks; NaN where missing.
    """

    def __init__(self, losses: Single) -> None:
        self._losses = losses
        self._rows: list[int] = []
        self._signs: Single = np.zeros((0, losses.shape[1]), dtype=np.float32)

    def __call__(self, rows: Rows, targets: Array) -> tuple[Array, Array]:
        """Concordant less discordant pairs (T,), and the pairs that neither side has tied or missing (T,).

        Parameters
        ----------
        rows
            (n,) pipelines tried, as rows of the losses; the first 200 are compared.
        targets
            (n,) their losses on the new task.
        """
        rows, targets = rows[:_MOST_COMPARED], targets[:_MOST_COMPARED]
        self._grow(rows.tolist())
        later, earlier = np.tril_indices(len(rows), k=-1)
        here = np.sign(targets[later] - targets[earlier]).astype(np.float32)
        # Sums of -1, 0 and 1, exact in single precision.
        return (here @ self._signs).astype(np.float64), (np.abs(here) @ np.abs(self._signs)).astype(np.float64)

    def _grow(self, rows: list[int]) -> None:
        """Signs of the differences on the training tasks for all pairs; what is known of the first rows is kept."""
        if rows[: len(self._rows)] != self._rows:
            self._rows, self._signs = [], self._signs[:0]
        parts = [self._signs]
        for i in range(len(self._rows), len(rows)):
            signs = np.sign(self._losses[rows[i]] - self._losses[rows[:i]])
            parts.append(np.nan_to_num(signs, nan=0.0))
        self._rows, self._signs = rows, np.concatenate(parts)


class SMFO(RecordedOptimizer):
    """Try what would most lower the loss on the training tasks that are like the new one (Wistuba, Schilling &
    Schmidt-Thieme, ICDM 2015).

    After Wistuba et al. (2015), whose sequence without weights is `Portfolio`'s. What was decided:

    - Losses of the training tasks are normalised (`normalise`); a pipeline that was not observed on a task does not
      help there.
    - A task weighs ((1 + τ) / 2) ** `sharpness`, τ its rank agreement (Kendall) with the new task on the pipelines
      tried so far. τ counts the pairs that both tasks tell apart and is drawn to 0 by `prior_pairs` pairs of no
      opinion, so that all tasks weigh the same at first and little overlap means little knowledge. Failed trials
      count as the worst.
    - When nothing promises a gain any more, the lowest weighted mean over the training tasks is tried.

    Parameters
    ----------
    normalise
        ``"rank"`` or ``"regret"``, see `headstart.metadata.normalisation`.
    sharpness
        How fast weights fall with disagreement; 1 is the share of pairs that agree, as published. 4 did better on
        validation tasks.
    prior_pairs
        How many pairs of no opinion each task has on top.
    """

    keeps = ("_recorded", "_losses")
    adjustable = frozenset({"sharpness", "prior_pairs"})

    def __init__(self, normalise: Normalisation = "regret", sharpness: float = 4.0, prior_pairs: float = 5.0) -> None:
        check_normalisation(normalise)
        check_positive("prior_pairs", prior_pairs)
        if normalise == "none":
            raise InvalidInput("losses of different tasks must be normalised to be summed: use 'rank' or 'regret'")
        if not sharpness >= 0:
            raise InvalidInput(f"sharpness must not be negative, got {sharpness!r}")
        self.normalise: Normalisation = normalise
        self.sharpness = sharpness
        self.prior_pairs = prior_pairs

    def learn(self, meta: MetaDataset) -> None:
        losses = normalised_losses(meta, self.normalise)
        self._losses: Single = np.ascontiguousarray(losses.T)  # (P, T), NaN where missing

    def begin(self) -> None:
        self._candidates: Single = self._losses[self.known.columns]  # (C, T)
        self._agreement = Agreement(self._candidates)
        self._gains = CoverGains(np.where(np.isnan(self._candidates), np.float32(1), self._candidates))

    def choose(self, left: Mask, rng: np.random.Generator) -> tuple[int, dict[str, Any]]:  # noqa: ARG002
        with one_blas_thread():
            weights = self.task_weights(*self._agreement(*self.observed(failures=True)))
            covered = ~left  # what is under way too
            failed = self.known.places(self.history.encoded.ids[~self.history.ok])
            covered[failed[failed >= 0]] = False  # they cover nothing
            scores = self._gains(np.flatnonzero(covered), weights)
            scores[~left] = -np.inf
            by = "smfo"
            if scores.max() <= _LEAST_GAIN * weights.sum():
                by = "mean"
                scores = np.where(left, -self._gains.totals(weights), -np.inf)
        place = int(scores.argmax())
        return place, {"by": by, "score": float(scores[place] / weights.sum())}

    def task_weights(self, difference: Array, pairs: Array) -> Array:
        """Weights (T,) of the training tasks, from what `Agreement` counts."""
        return np.asarray(((1.0 + difference / (pairs + self.prior_pairs)) / 2.0) ** self.sharpness)


_LEAST_GAIN = 1e-6
_MOST_COMPARED = 200
"""Trials of which all pairs are compared; their number grows with the square."""
