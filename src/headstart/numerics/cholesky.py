"""Cholesky factors of covariance matrices that may be nearly singular.

=======  =============  ==================================================
symbol   name in code   equation
=======  =============  ==================================================
A        matrix         symmetric, positive definite up to rounding
ε        jitter         relative to the mean of A's diagonal
L        lower          L Lᵀ = A + ε mean(diag A) I
B, C     cross, corner  A grown by k points: [[A, Bᵀ], [B, C]]
M        below          M = B L⁻ᵀ, the new rows under L
S        new_corner     S Sᵀ = C - M Mᵀ
=======  =============  ==================================================
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

from headstart.errors import NumericalError
from headstart.numerics.kernels import Array

JITTERS = (0.0, 1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4)
"""Tried in turn; a matrix that needs more than the last is not a covariance matrix with rounding errors."""


def jittered_cholesky(matrix: Array) -> Array:
    """Lower Cholesky factor, with the smallest of `JITTERS` on the diagonal that makes it exist.

    Parameters
    ----------
    matrix
        Shape ``(n, n)`` or ``(B, n, n)``; symmetric. Each of a batch gets its own jitter.

    Returns
    -------
    lower
        Same shape; zeros above the diagonal. A single factor is in Fortran order, as LAPACK wants it later.

    Raises
    ------
    NumericalError
        When the largest jitter does not help, or the matrix is not finite.
    """
    if matrix.ndim == 2:
        return _single(matrix)
    try:
        return np.asarray(np.linalg.cholesky(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        flat = matrix.reshape(-1, *matrix.shape[-2:])
        return np.stack([_single(one) for one in flat]).reshape(matrix.shape)


def extend_cholesky(lower: Array, cross: Array, corner: Array) -> Array:
    """Factor of a matrix grown by k rows and columns, in O(n² k) instead of O(n³).

    Parameters
    ----------
    lower
        Factor of the old matrix, shape ``(n, n)``.
    cross
        Covariances of the new points with the old ones, shape ``(k, n)``.
    corner
        Covariances among the new points, shape ``(k, k)``.

    Returns
    -------
    lower
        Shape ``(n + k, n + k)``, Fortran order. If the new corner needs jitter, only the new points get it.
    """
    old, new = lower.shape[0], corner.shape[0]
    grown = np.zeros((old + new, old + new), order="F")
    grown[:old, :old] = lower
    below = solve_triangular(lower, cross.T, lower=True, check_finite=False).T if old else cross
    grown[old:, :old] = below
    grown[old:, old:] = _single(corner - below @ below.T, typical=float(np.mean(np.diag(corner))) if new else 1.0)
    return grown


def _single(matrix: Array, typical: float | None = None) -> Array:
    size = matrix.shape[0]
    if size == 0:
        return np.zeros((0, 0), order="F")
    if typical is None:
        typical = float(np.mean(np.diag(matrix)))
    # LAPACK neither promises to notice NaN nor infinity, and a sum notices both far faster than it factorises.
    if not np.isfinite(np.sum(matrix)):
        raise NumericalError(
            f"a covariance matrix must be finite, found NaN or infinity in one of shape {matrix.shape}; "
            "check the inputs and hyper-parameters for values that are not finite or overflow"
        )
    for jitter in JITTERS:
        attempt = np.array(matrix, order="F")
        if jitter:
            attempt[np.arange(size), np.arange(size)] += jitter * typical
        lower, failed_at = lapack.dpotrf(attempt, lower=1, clean=1, overwrite_a=1)
        if failed_at == 0:
            return np.asarray(lower, dtype=np.float64)
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    raise NumericalError(
        f"a covariance matrix must be positive definite, the one of shape {matrix.shape} has eigenvalue "
        f"{smallest:.3g} and mean variance {typical:.3g} and stays indefinite with jitter {JITTERS[-1]:g}; "
        "give the model more noise, or check that the matrix is symmetric"
    )
