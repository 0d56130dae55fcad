"""Small tables, and settings that fit them fast."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest


@pytest.fixture(scope="session")
def frame() -> pd.DataFrame:
    """Numbers with gaps, a category, a date and a text label to predict."""
    rng = np.random.default_rng(0)
    n = 120
    size = rng.normal(size=n)
    colour = rng.choice(["red", "green", "blue"], n)
    label = np.where(size + (colour == "red") + 0.3 * rng.normal(size=n) > 0.3, "yes", "no")
    size[::11] = np.nan
    return pd.DataFrame(
        {
            "size": size,
            "weight": rng.normal(size=n) + (label == "yes"),
            "colour": colour,
            "day": pd.date_range("2024-01-01", periods=n).astype(str),
            "label": label,
        }
    )


@pytest.fixture
def quick() -> dict[str, Any]:
    """Two pipelines in this process."""
    return {
        "evaluations": 2,
        "include": ["logistic_regression", "decision_tree"],
        "splitter": 3,
        "sandbox": False,
        "n_jobs": 1,
    }
