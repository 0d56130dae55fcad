from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest


def _numeric_gradient(function: Callable[[np.ndarray], float], at: np.ndarray, step: float = 1e-5) -> np.ndarray:
    at = np.asarray(at, dtype=np.float64)
    gradient = np.zeros(at.size)
    for i in range(at.size):
        shift = np.zeros(at.size)
        shift[i] = step
        shift = shift.reshape(at.shape)
        gradient[i] = (function(at + shift) - function(at - shift)) / (2 * step)
    return gradient.reshape(at.shape)


@pytest.fixture
def numeric_gradient() -> Callable[..., np.ndarray]:
    """Central differences of a scalar function of an array."""
    return _numeric_gradient
