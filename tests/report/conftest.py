"""Three small fits with their reports."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_iris

from headstart import HeadstartClassifier, HeadstartRegressor

QUICK = {"sandbox": False, "n_jobs": 1, "splitter": 3}


def customers(rows=90):
    """Numbers with gaps, a category with markup in it, a date, texts, an id and a constant."""
    rng = np.random.default_rng(0)
    months, plan = rng.gamma(2, 12, rows).round(), rng.choice(["basic", "<b>pro</b>", "a & b"], rows)
    frame = pd.DataFrame(
        {
            "customer_id": [f"C{i:05d}" for i in range(rows)],
            "months": months,
            "plan": plan,
            "charge": rng.normal(40, 12, rows),
            "signed_up": (pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 500, rows), unit="D")).astype(
                str
            ),
            "note": [
                " ".join(rng.choice(["slow", "bill", "router", "works", "great", "again"], 8)) for _ in range(rows)
            ],
            "country": "NL",
            "left": np.where(months + 8 * (plan == "basic") + rng.normal(size=rows) < 20, "yes", "no"),
        }
    )
    frame.loc[::9, "charge"] = np.nan
    return frame


@pytest.fixture(scope="session")
def places(tmp_path_factory):
    return tmp_path_factory.mktemp("reports")


@pytest.fixture(scope="session")
def binary(places):
    model = HeadstartClassifier(
        evaluations=2,
        include=["logistic_regression", "decision_tree", "preprocessing.none"],
        report_file=places / "binary.html",
        **QUICK,
    )
    return model.fit(customers(), target="left")


@pytest.fixture(scope="session")
def multiclass(places):
    X, y = load_iris(return_X_y=True, as_frame=True)
    table = X.assign(species=y.map({0: "setosa", 1: "versicolor", 2: "virginica"}))
    model = HeadstartClassifier(
        evaluations=5,
        include=["lda", "decision_tree"],
        optimizer="mosaic",
        report_file=places / "multiclass.html",
        **QUICK,
    )
    return model.fit(table, target="species")


@pytest.fixture(scope="session")
def regression(places):
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = HeadstartRegressor(
        evaluations=3,
        include=["ridge", "preprocessing.none"],
        constraints={"size": "1MB"},
        report_file=places / "regression.html",
        **QUICK,
    )
    return model.fit(X.assign(progression=y), target="progression")
