"""Low-rank factors of matrices with missing cells.

=========  ============  ==========================================================================
symbol     name in code  equation
=========  ============  ==========================================================================
M          matrix        m × n; NaN where missing
F          filled        M with a guess in place of what is missing
U, s, Vᵀ   left, values, M ≈ U diag(s) Vᵀ; columns of U and rows of Vᵀ orthonormal, s descending
           right
=========  ============  ==========================================================================

**Missing cells.** F starts from row and column means (`fill_by_means`). Then its leading singular factors are
computed, their product is the next guess of the missing cells, and so on: expectation-maximisation of the truncated
singular value decomposition.

**Cost.** Factors come from the eigenvectors of the Gram matrix of the smaller side, summed over blocks of the larger
one; products of blocks are in the precision of the matrix (single for F), their sums in double. Singular values far
below s_1 √ε are lost that way, and nothing here needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from headstart.errors import InvalidInput
from headstart.numerics.threads import one_blas_thread

Array = NDArray[np.float64]
Matrix = NDArray[np.floating[Any]]

_BLOCK_CELLS = 1 << 20
_MEAN_SWEEPS = 10


@dataclass(frozen=True)
class LowRank:
    """Leading singular factors; see the notation.

    Parameters
    ----------
    left
        (m, k)
    values
        (k,)
    right
        (k, n)
    """

    left: Array
    values: Array
    right: Array

    def matrix(self) -> Array:
        """The (m, n) matrix that the factors make."""
        return np.asarray((self.left * self.values) @ self.right)


def fill_by_means(matrix: Matrix) -> NDArray[np.float32]:
    """Missing cells at row effect + column effect, single precision.

    The effects are the least-squares ones, found by turns, with half an observation at 0 on top of each. They are also
    kept inside the range of the cells that are there.
    """
    filled = np.array(matrix, dtype=np.float32)
    seen = np.isfinite(filled)
    if not seen.any():
        raise InvalidInput("a matrix without a single cell cannot be filled")
    if seen.all():
        return filled
    low, high = float(filled[seen].min()), float(filled[seen].max())
    center = float(filled[seen].mean(dtype=np.float64))
    cells = np.where(seen, filled - np.float32(center), np.float32(0))
    in_row, in_column = seen.sum(axis=1) + 0.5, seen.sum(axis=0) + 0.5
    sum_row, sum_column = cells.sum(axis=1, dtype=np.float64), cells.sum(axis=0, dtype=np.float64)
    weight = seen.astype(np.float32)
    rows, columns = np.zeros(len(filled)), np.zeros(filled.shape[1])
    for _ in range(_MEAN_SWEEPS):
        rows = (sum_row - weight @ columns.astype(np.float32)) / in_row
        columns = (sum_column - rows.astype(np.float32) @ weight) / in_column
    for block in _blocks(filled.shape):
        guess = np.clip(center + rows[:, None] + columns[None, block], low, high).astype(np.float32)
        filled[:, block] = np.where(seen[:, block], filled[:, block], guess)
    return filled


def truncated_svd(matrix: Matrix, rank: int) -> LowRank:
    """The leading `rank` singular factors of a complete matrix; fewer where it has fewer."""
    if matrix.shape[0] > matrix.shape[1]:
        turned = truncated_svd(matrix.T, rank)
        return LowRank(turned.right.T, turned.values, turned.left.T)
    m, n = matrix.shape
    gram = np.zeros((m, m))
    for block in _blocks(matrix.shape):
        part = matrix[:, block]
        gram += part @ part.T
    k = min(rank, m)
    squares, left = eigh(gram, subset_by_index=(m - k, m - 1))
    squares, left = squares[::-1], left[:, ::-1]
    keep = squares > max(squares[0], 0.0) * m * np.finfo(matrix.dtype).eps
    left, values = np.ascontiguousarray(left[:, keep]), np.sqrt(squares[keep])
    # The sign of a factor is arbitrary; fixed, so that the same data give the same factors everywhere.
    left *= np.sign(left[np.abs(left).argmax(axis=0), np.arange(left.shape[1])])
    right = np.empty((len(values), n))
    scaled = (left / values).T.astype(matrix.dtype)
    for block in _blocks(matrix.shape):
        right[:, block] = scaled @ matrix[:, block]
    return LowRank(left, values, right)


def complete(matrix: Matrix, rank: int, *, iterations: int = 10, tolerance: float = 1e-3) -> LowRank:
    """The leading `rank` singular factors of a matrix with missing cells.

    Parameters
    ----------
    matrix
        (m, n), NaN where missing.
    rank
        k; fewer factors are returned where there are fewer.
    iterations
        Most rounds of guessing the missing cells; 0 leaves them at `fill_by_means`.
    tolerance
        Ends when the guesses change by less than this, relative to the standard deviation of the cells that are there
        (root mean squares).
    """
    if rank < 1 or iterations < 0:
        raise InvalidInput(f"rank must be at least 1 and iterations at least 0, got {rank!r} and {iterations!r}")
    seen = np.isfinite(matrix)
    filled = fill_by_means(matrix)
    with one_blas_thread():
        factors = truncated_svd(filled, rank)
        if seen.all() or not len(factors.values):  # nothing is missing, or nothing is there to factorise
            return factors
        cells = filled[seen]
        spread = float(cells.std(dtype=np.float64)) or 1.0
        low, high = float(cells.min()), float(cells.max())
        missing = int(seen.size - seen.sum())
        for _ in range(iterations):
            scaled = (factors.left * factors.values).astype(np.float32)
            changed = 0.0
            for block in _blocks(filled.shape):
                guess = np.clip(scaled @ factors.right[:, block].astype(np.float32), low, high)
                part, there = filled[:, block], seen[:, block]
                changed += float(((guess - part)[~there] ** 2).sum(dtype=np.float64))
                filled[:, block] = np.where(there, part, guess)
            factors = truncated_svd(filled, rank)
            if changed <= missing * (tolerance * spread) ** 2:
                break
    return factors


def _blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    """Blocks of columns that stay in cache."""
    columns = max(1, _BLOCK_CELLS // max(1, shape[0]))
    for start in range(0, shape[1], columns):
        yield slice(start, start + columns)
