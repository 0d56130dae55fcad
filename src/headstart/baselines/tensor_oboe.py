"""`TensorOboe`: as `Oboe`, with factors of the tensor tasks × choices of each stage.

The factors are those of a Tucker decomposition of a tensor with missing cells:

=========  ============  =============================================================================
symbol     name in code  equation
=========  ============  =============================================================================
E          tensor        n_0 × n_1 × … × n_d; NaN where missing
A_i        factors[i]    n_i × k_i, orthonormal columns
G          core          k_0 × … × k_d, G = E ×_0 A_0ᵀ ×_1 A_1ᵀ …
           tensor()      E ≈ G ×_0 A_0 ×_1 A_1 …
E_(i)      unfold        mode i as rows, the others as columns
=========  ============  =============================================================================

Factors start as the leading left singular vectors of each E_(i) and are improved by higher-order orthogonal
iteration: each A_i in turn from the unfolding of E multiplied by all the others. Missing cells are guessed by turns
with that, as in `headstart.numerics.low_rank`; one sweep over the modes for each guess.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headstart.baselines.oboe import Design, Oboe
from headstart.errors import InvalidInput, check_positive
from headstart.metadata.metadataset import MetaDataset
from headstart.numerics.low_rank import LowRank, fill_by_means, truncated_svd
from headstart.numerics.threads import one_blas_thread
from headstart.space.encoded import Encoded

Array = NDArray[np.float64]
Rows = NDArray[np.int64]
Tensor = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Tucker:
    """A core and a factor matrix for each mode; see the notation."""

    core: Array
    factors: tuple[Array, ...]

    def tensor(self) -> Array:
        """The full tensor that they make."""
        return np.asarray(multiply(self.core, [factor.T for factor in self.factors]))

    def item_factors(self) -> Array:
        """(k_0, n_1 · … · n_d): what the first mode's factors are multiplied with to give E_(0)."""
        others = multiply(self.core, [None, *(factor.T for factor in self.factors[1:])])
        return np.asarray(others.reshape(len(others), -1))


def multiply(tensor: Tensor, matrices: list[Tensor | None]) -> Any:
    """`tensor` with mode i multiplied by ``matrices[i].T``, (n_i, k) → k in the place of n_i; ``None`` leaves it."""
    result = tensor
    for mode, matrix in enumerate(matrices):
        if matrix is not None:
            result = np.moveaxis(np.tensordot(result, matrix, axes=(mode, 0)), -1, mode)
    return result


def unfold(tensor: Tensor, mode: int) -> Tensor:
    """(n_mode, product of the others)."""
    return np.moveaxis(tensor, mode, 0).reshape(tensor.shape[mode], -1)


def complete_tucker(tensor: Tensor, ranks: tuple[int, ...], *, iterations: int = 10, tolerance: float = 1e-3) -> Tucker:
    """Tucker decomposition of a tensor with missing cells.

    Parameters
    ----------
    tensor
        NaN where missing; the guesses begin with the means over the first mode and over the others.
    ranks
        Of each mode; lowered to its size, and to what the other ranks can make use of.
    iterations
        Most sweeps over the modes.
    tolerance
        Ends when guesses and reconstruction change by less than this, relative to the standard deviation of the cells
        that are there (root mean squares).
    """
    if len(ranks) != tensor.ndim or min(ranks) < 1 or iterations < 1:
        raise InvalidInput(
            f"a rank of at least 1 is needed for each of the {tensor.ndim} modes, and iterations of at least 1, got "
            f"{ranks!r} and {iterations!r}"
        )
    seen = np.isfinite(tensor)
    filled = fill_by_means(tensor.reshape(len(tensor), -1)).reshape(tensor.shape)
    cells = filled[seen]
    low, high, spread = float(cells.min()), float(cells.max()), float(cells.std(dtype=np.float64)) or 1.0
    whole = bool(seen.all())
    with one_blas_thread():
        factors = [_leading(unfold(filled, mode), rank) for mode, rank in enumerate(ranks)]
        before: Tensor | None = None
        for _ in range(iterations):
            core = _sweep(filled, factors, ranks)
            guess = multiply(core, [factor.T for factor in factors])
            np.clip(guess, low, high, out=guess)
            if before is not None and float(np.mean((guess - before) ** 2)) <= (tolerance * spread) ** 2:
                break
            before = guess
            if not whole:
                filled = np.where(seen, filled, guess)
        core = _sweep(filled, factors, ranks)
    return Tucker(np.asarray(core, dtype=np.float64), tuple(np.asarray(f, dtype=np.float64) for f in factors))


def _sweep(tensor: Tensor, factors: list[Tensor], ranks: tuple[int, ...]) -> Tensor:
    """Improve each factor in turn, in place; returns the core that goes with them."""
    for mode in range(tensor.ndim):
        others = [factor if other != mode else None for other, factor in enumerate(factors)]
        projected = _multiply_largest_first(tensor, others)
        factors[mode] = _leading(unfold(projected, mode), ranks[mode])
    return _multiply_largest_first(tensor, list(factors))


def _multiply_largest_first(tensor: Tensor, matrices: list[Tensor | None]) -> Tensor:
    """`multiply`, in the order in which the tensor shrinks fastest."""
    shrinks = [(1.0 if m is None else m.shape[1] / m.shape[0], mode) for mode, m in enumerate(matrices)]
    for _, mode in sorted(shrinks):
        only: list[Tensor | None] = [None] * len(matrices)
        only[mode] = matrices[mode]
        tensor = multiply(tensor, only)
    return tensor


def _leading(matrix: Tensor, rank: int) -> Tensor:
    """Leading left singular vectors, in the precision of the matrix."""
    return truncated_svd(matrix, min(rank, *matrix.shape)).left.astype(matrix.dtype)


def stage_grid(pipelines: Encoded) -> tuple[tuple[int, ...], Rows] | None:
    """The grid that the pipelines fill: different settings of each stage, and the pipeline at each place of the grid.

    Returns
    -------
    Sizes (n_1, …, n_S), without stages that never differ, and the positions of the pipelines in the order of the
    cells of such an array; ``None`` where pipelines are not all combinations of their stages' settings, each once.
    """
    if pipelines.order is not None or not len(pipelines):
        return None
    sizes: list[int] = []
    places: list[Rows] = []
    for s in range(len(pipelines.space.stages)):
        columns = np.zeros(pipelines.space.width, dtype=bool)
        for stage, _, _, block in pipelines.space.blocks():
            columns[block] |= stage == s
        # Single precision tells settings apart well enough, and sorts faster.
        settings = np.column_stack([pipelines.choice[:, s], pipelines.values[:, columns]]).astype(np.float32)
        _, place = np.unique(settings, axis=0, return_inverse=True)
        size = int(place.max()) + 1
        if size > 1:
            sizes.append(size)
            places.append(place.reshape(-1))
    if int(np.prod(sizes, dtype=object)) != len(pipelines) or not sizes:
        return None
    cells = np.ravel_multi_index(tuple(places), tuple(sizes))
    if len(np.unique(cells)) != len(pipelines):
        return None
    return tuple(sizes), np.argsort(cells)


class TensorOboe(Oboe):
    """Factorise the error tensor of earlier tasks, observe what tells most about the new one, try the predicted best
    (Yang et al., KDD 2020).

    After Yang et al. (2020). What was decided:

    - Where the recorded pipelines are all combinations of their stages' settings (as those of the Tensor-OBOE data
      are), their losses are a tensor tasks × settings of stage 1 × … × settings of stage S, and the factors
      come from its Tucker decomposition, with missing cells guessed by turns. Elsewhere (PMF, ZAP) there is no such
      tensor, and the matrix tasks × pipelines is factorised, as in `Oboe`; what is left of the method is its greedy
      design.
    - Of the decomposition only what pipelines have in common over tasks is kept: core times the factors of the
      stages, turned by a singular value decomposition so that the leading factors say most.
    - Rounds, growing rank and the time-constrained form are those of `Oboe`.

    Parameters
    ----------
    max_rank
        Rank of the mode of the tasks.
    stage_rank
        Largest rank of the mode of a stage; stages with no more settings are kept whole.
    observations_per_factor, first_round, design_share, design, time_constrained
        See `Oboe`; the design is greedy by default, as published.
    """

    def __init__(
        self,
        max_rank: int = 20,
        stage_rank: int = 20,
        observations_per_factor: float = 3.0,
        first_round: int = 4,
        design_share: float = 0.25,
        design: Design = "greedy",
        time_constrained: bool = False,
    ) -> None:
        super().__init__(max_rank, observations_per_factor, first_round, design_share, design, time_constrained)
        check_positive("stage_rank", stage_rank, whole=True)
        self.stage_rank = stage_rank

    def factorise(self, meta: MetaDataset) -> LowRank:
        grid = stage_grid(meta.pipelines)
        if grid is None:
            return super().factorise(meta)
        sizes, order = grid
        tensor = meta.losses[:, order].reshape(len(meta), *sizes)
        found = complete_tucker(tensor, (self.max_rank, *(min(size, self.stage_rank) for size in sizes)))
        items = truncated_svd(found.item_factors(), self.max_rank)
        right = np.empty_like(items.right)
        right[:, order] = items.right
        return LowRank(found.factors[0] @ items.left, items.values, right)
