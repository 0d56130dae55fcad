"""Measured coverage of prediction intervals and sets. Run: python benchmarks/intervals.py --data DIR

DIR holds ``index.csv`` and ``regression/NAME.parquet``, ``classification/NAME.parquet`` with a column ``target``. A
model is fitted to at most 1,500 rows of each table; at least 500 others are test rows. Beside it stands MAPIE: CV+ with
five folds around histogram gradient boosting of scikit-learn with its defaults, on the same rows. Tables are taken in
the order of the index, one of each group; results are appended to the file that ``--out`` names, and those that are
there already are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mapie.classification import CrossConformalClassifier
from mapie.regression import CrossConformalRegressor
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.model_selection import train_test_split

from headstart import HeadstartClassifier, HeadstartRegressor

COVERAGE = 0.9
TRAIN_ROWS, LEAST_TEST_ROWS, MOST_TEST_ROWS = 1_500, 500, 5_000
_ESTIMATORS = {"regression": HeadstartRegressor, "classification": HeadstartClassifier}


def measure(path: Path, task: str, evaluations: int, seed: int) -> dict[str, Any]:
    """Coverage and width, or classes in a set, of ours and of MAPIE's."""
    table = pd.read_parquet(path)
    y = table.pop("target")
    y = y.astype(float) if task == "regression" else pd.Series(pd.factorize(y, sort=True)[0])
    rows = min(TRAIN_ROWS, len(y) - LEAST_TEST_ROWS)
    strata = y if task == "classification" and y.value_counts().min() > 1 else None
    X, X_test, y, y_test = train_test_split(table, y, train_size=rows, random_state=seed, stratify=strata)
    X_test, y_test = X_test[:MOST_TEST_ROWS], y_test[:MOST_TEST_ROWS].to_numpy()
    started = time.perf_counter()
    model = _ESTIMATORS[task](evaluations=evaluations, exclude=["catboost"], n_jobs=1, random_state=seed, splitter=5)
    model.fit(X, y)
    found = {"task": task, "train": len(y), "test": len(y_test), "seconds": time.perf_counter() - started}
    numbers, numbers_test = _as_numbers(X), _as_numbers(X_test)
    if task == "regression":
        spread = float(np.std(y_test)) or 1.0
        theirs = CrossConformalRegressor(HistGradientBoostingRegressor(), confidence_level=COVERAGE, random_state=seed)
        _, bounds = theirs.fit_conformalize(numbers, y).predict_interval(numbers_test)
        for name, (low, high) in {"": model.predict_interval(X_test, COVERAGE).T, "mapie_": bounds[:, :, 0].T}.items():
            found[f"{name}coverage"] = float(np.mean((low <= y_test) & (y_test <= high)))
            found[f"{name}size"] = float(np.mean(high - low)) / spread
    else:
        theirs = CrossConformalClassifier(
            HistGradientBoostingClassifier(), confidence_level=COVERAGE, random_state=seed
        )
        _, sets = theirs.fit_conformalize(numbers, y).predict_set(numbers_test, agg_scores="crossval")
        for name, own in {"": model.predict_set(X_test, COVERAGE), "mapie_": sets[:, :, 0]}.items():
            found[f"{name}coverage"] = float(own[np.arange(len(y_test)), y_test].mean())
            found[f"{name}size"] = float(own.sum(axis=1).mean())
    return found


def _as_numbers(X: pd.DataFrame) -> Any:
    codes = {n: c.cat.codes if isinstance(c.dtype, pd.CategoricalDtype) else c for n, c in X.items()}
    return pd.DataFrame(codes).astype(np.float64).to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="a folder with index.csv and tables by task")
    parser.add_argument("--tables", type=int, default=20, help="how many of them, of both tasks in turn")
    parser.add_argument("--evaluations", type=int, default=6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("intervals.json"))
    given = parser.parse_args()
    index = pd.read_csv(given.data / "index.csv")
    index = index[index["rows"].between(TRAIN_ROWS // 2 + LEAST_TEST_ROWS, 50_000) & (index["features"] <= 40)]
    index = index.drop_duplicates("group")
    index["turn"] = index.groupby("task").cumcount()
    chosen = index.sort_values("turn")[: given.tables]
    results = json.loads(given.out.read_text()) if given.out.exists() else {}
    for name, task in zip(chosen["name"], chosen["task"], strict=True):
        if name in results:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = given.data / task / f"{name}.parquet"
            results[name] = measure(path, task, given.evaluations, given.seed)
        given.out.write_text(json.dumps(results, indent=1))
        print(name, results[name], flush=True)
    print("\n| table | train | test | coverage | size | MAPIE coverage | MAPIE size |\n|---|---|---|---|---|---|---|")
    for name, row in results.items():
        print(
            f"| {name} | {row['train']:,} | {row['test']:,} | {row['coverage']:.3f} | {row['size']:.2f} | "
            f"{row['mapie_coverage']:.3f} | {row['mapie_size']:.2f} |"
        )
    for task in _ESTIMATORS:
        ours = np.array([row["coverage"] for row in results.values() if row["task"] == task])
        theirs = np.array([row["mapie_coverage"] for row in results.values() if row["task"] == task])
        if len(ours):
            print(
                f"{task}, {len(ours)} tables: {ours.mean():.3f} on average, {ours.min():.3f} at least; MAPIE "
                f"{theirs.mean():.3f} and {theirs.min():.3f}"
            )


if __name__ == "__main__":
    main()
