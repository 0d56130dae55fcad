"""A CSV file with missing values, categories and dates: fit, look, predict.

Run: python examples/csv_table.py [EVALUATIONS]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from headstart import HeadstartClassifier

BUDGET: dict[str, Any] = {"evaluations": int(sys.argv[1])} if len(sys.argv) > 1 else {"time_budget": 20}


def customers(n: int) -> pd.DataFrame:
    """Customers of a made-up shop, and whether they came back."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 90, n).astype(float)
    city = rng.choice(["Berlin", "Lyon", "Oslo", "Porto"], n, p=[0.4, 0.3, 0.2, 0.1])
    joined = pd.Timestamp("2021-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    spent = rng.gamma(2.0, 40.0, n) + 30 * (city == "Oslo")
    chance = 1 / (1 + np.exp(-(0.03 * (spent - 90) - 0.02 * (age - 50) + (joined.month == 12))))
    spent[rng.random(n) < 0.1] = np.nan
    return pd.DataFrame(
        {
            "customer": [f"C{i:05d}" for i in range(n)],
            "age": age,
            "city": pd.Series(city).mask(rng.random(n) < 0.05),
            "joined": joined.strftime("%d.%m.%Y"),
            "spent": spent.round(2),
            "returned": np.where(rng.random(n) < chance, "yes", "no"),
        }
    )


with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "customers.csv")
    customers(2000).to_csv(path, index=False, sep=";")

    model = HeadstartClassifier(**BUDGET, verbose=True).fit(path, target="returned")

    print("\nWhat was noticed and chosen:")
    for note in model.notes_:
        print("-", note)
    print("\nThe best pipelines:")
    print(model.leaderboard_[["score", "weight", "estimator", "seconds"]].head(5).to_string(index=False))

    new = customers(2100).tail(100)
    print("\nColumns by importance, on new rows:")
    print(model.feature_importance(new).to_string(index=False))
    print("\nProbability to come back:", model.predict_proba(new)[:5, 1].round(3).tolist())
