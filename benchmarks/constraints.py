"""Fits under constraints against random search that is filtered afterwards, in the same time.

``python benchmarks/constraints.py --data DIR`` where DIR has ``tables/classification``. For each table a disparity
between groups and a latency are bounded at values that a third of random pipelines satisfy (measured here first). Each
fit is given the same seconds and rows; what it returns is measured again: latency by timing its predictions,
disparities by scikit-learn, from what the models of its folds predict for the rows that they have not seen.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from headstart import HeadstartClassifier

TABLES = {"credit.g": ("age", "personal_status"), "heart.c": ("sex",)}
ROUNDS = 5


def bounds(table: pd.DataFrame, names: list[str], trials: int) -> dict[str, float]:
    """Values that a third of random pipelines satisfy."""
    free = HeadstartClassifier(
        evaluations=trials, optimizer="random", constraints=dict.fromkeys(names, 1e12), random_state=100
    ).fit(table, target="target")
    measured = [t.outcome.constraints for t in free.history_ if t.outcome.ok]
    return {name: float(np.quantile([m[name] for m in measured], 1 / 3)) for name in names}


def latency(model: HeadstartClassifier, table: pd.DataFrame) -> float:
    """Seconds for a row, the median of some rounds."""
    rows = table.drop(columns="target")
    seconds = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        model.predict_proba(rows)
        seconds.append((time.perf_counter() - started) / len(rows))
    return float(np.median(seconds))


def groups(column: pd.Series) -> np.ndarray[Any, Any]:
    """Quintiles of numbers, other values as they are."""
    if pd.api.types.is_numeric_dtype(column) and column.nunique() > 5:
        return np.asarray(pd.qcut(column, 5, labels=False, duplicates="drop"))
    return np.asarray(column.astype(str))


def disparity(model: HeadstartClassifier, table: pd.DataFrame, column: str, folds: Any) -> float:
    """Largest difference of AUC between groups, out of fold."""
    X, y = table.drop(columns="target"), table["target"]
    ready = model.model_.schema.apply(X)
    fitted = model.model_.best.models
    splits = list(folds.split(X, y))
    assert len(fitted) == len(splits), "the model of a disparity is a bag of all folds"
    found = np.empty(len(X))
    for one, (_, unseen) in zip(fitted, splits, strict=True):
        found[unseen] = one.predict_proba(ready.iloc[unseen])[:, 1]
    of_rows, truth = groups(X[column]), np.asarray(y == model.classes_[1])
    scores = [
        roc_auc_score(truth[of_rows == g], found[of_rows == g])
        for g in np.unique(of_rows)
        if 0 < truth[of_rows == g].sum() < (of_rows == g).sum()
    ]
    return float(max(scores) - min(scores))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder with tables/classification")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--trials", type=int, default=60, help="random pipelines that bounds are chosen from")
    parser.add_argument("--only", choices=("disparity", "latency"), help="constraints of one kind")
    parser.add_argument("--out", type=Path, help="JSON file for the rows")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    print(f"{'table':9} {'constraint':32} {'bound':>9} {'seed':>4} {'ours':>8} {'random':>8} {'measured again':>15} ok")
    for name, columns in TABLES.items():
        table = pd.read_parquet(args.data / "tables" / "classification" / f"{name}.parquet")
        wanted = [*(f"disparity({column})" for column in columns), "latency"]
        wanted = [constraint for constraint in wanted if args.only is None or constraint.startswith(args.only)]
        found = bounds(table, wanted, args.trials)
        for constraint in wanted:
            for seed in range(args.seeds):
                folds = StratifiedKFold(5, shuffle=True, random_state=seed)
                scores, again = {}, float("nan")
                for optimizer in ("default", "random"):
                    model = HeadstartClassifier(
                        time_budget=args.seconds,
                        optimizer=optimizer,
                        constraints={constraint: found[constraint]},
                        splitter=folds,
                        random_state=seed,
                    ).fit(table, target="target")
                    best = model.history_.best
                    scores[optimizer] = float("nan") if best is None else 1.0 - float(best.outcome.loss or 0.0)
                    if optimizer == "default":
                        again = (
                            latency(model, table)
                            if constraint == "latency"
                            else disparity(model, table, constraint[10:-1], folds)
                        )
                bound = found[constraint]
                row = {"table": name, "constraint": constraint, "bound": bound, "seed": seed}
                rows.append({**row, **scores, "measured": again, "holds": bool(again <= bound)})
                print(
                    f"{name:9} {constraint:32} {bound:9.3g} {seed:4} {scores['default']:8.4f} {scores['random']:8.4f} "
                    f"{again:15.3g} {again <= bound}",
                    flush=True,
                )
    better = np.array([row["default"] - row["random"] for row in rows])
    print(f"ours minus random: mean {better.mean():+.4f}, better {(better > 0).sum()}, worse {(better < 0).sum()}")
    if args.out is not None:
        args.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
