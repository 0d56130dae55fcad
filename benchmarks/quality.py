"""How good the models are: Headstart, FLAML, LightGBM and random search side by side on the same tables.

Run: python benchmarks/quality.py --data DIR [--flaml PYTHON] [--seconds 60] [--jobs 1] [--results FILE] [--write]

DIR holds ``index.csv`` and ``classification/NAME.parquet``, ``regression/NAME.parquet`` with a column ``target``.
FLAML is run by the interpreter PYTHON, which has it installed (it wants other versions of libraries than ours). Every
system gets two thirds of a table, one thread and the same time, in a process of its own; the rest is for the test. What
is finished is kept in FILE, so the command can be stopped and started again. --write makes docs/results/quality.md.

The tables were drawn once (seed 2026) from those with at least 500 rows: 12 with two classes, 4 with more, 4 with
numbers to predict, none sharing rows with another. Nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

TABLES = {
    "classification": [
        "boston_corrected_bin", "stock_bin", "kc2", "banana", "pc1", "letter_bin", "fri_c0_500_25_bin", "credit.g",
        "fri_c1_500_10_bin", "xd6", "puma8NH_bin", "profb", "semeion", "led24", "mfeat_fourier", "led7",
    ],
    "regression": ["fried", "529_pollen", "666_rmftsa_ladata", "sensory"],
}  # fmt: skip
SYSTEMS = ("headstart", "flaml", "lightgbm", "random")
FLAML_METRICS = {"roc_auc": "roc_auc", "neg_log_loss": "log_loss", "neg_root_mean_squared_error": "rmse"}
HERE = Path(__file__).resolve().parent


# -- one system on one table, in a process of its own ----------------------------------------------------------------


def rows(path: Path, task: str) -> tuple[Any, Any, Any, Any, str]:
    """Training and test part, and the metric they are judged by."""
    import pandas as pd
    from sklearn.model_selection import train_test_split

    table = pd.read_parquet(path)
    X, y = table.drop(columns="target"), table["target"]
    if task == "classification":
        y = pd.Series(pd.factorize(y, sort=True)[0], name="target")
        metric = "roc_auc" if y.nunique() == 2 else "neg_log_loss"
    else:
        metric = "neg_root_mean_squared_error"
    stratify = y if task == "classification" and y.value_counts().min() > 1 else None
    return (*train_test_split(X, y, test_size=1 / 3, random_state=0, stratify=stratify), metric)


def score(metric: str, y: Any, predicted: Any) -> float:
    from sklearn.metrics import log_loss, roc_auc_score, root_mean_squared_error

    if metric == "roc_auc":
        return float(roc_auc_score(y, predicted[:, 1]))
    if metric == "neg_log_loss":
        return -float(log_loss(y, predicted, labels=list(range(predicted.shape[1]))))
    return -float(root_mean_squared_error(y, predicted))


def run_headstart(X: Any, y: Any, X_test: Any, task: str, metric: str, seconds: float, optimizer: str) -> Any:
    from headstart import HeadstartClassifier, HeadstartRegressor

    kind = HeadstartClassifier if task == "classification" else HeadstartRegressor
    model = kind(time_budget=seconds, metric=metric, n_jobs=1, optimizer=optimizer)
    started = time.time()
    model.fit(X, y)
    wall = time.time() - started
    ok = sum(t.outcome.seconds for t in model.history_ if t.outcome.ok)
    facts = {
        "wall": wall,
        "ok_share": ok / wall,
        "pipelines": len(model.history_),
        "members": len(model.model_.members),
    }
    return model.predict_proba(X_test) if task == "classification" else model.predict(X_test), facts


def run_flaml(X: Any, y: Any, X_test: Any, task: str, metric: str, seconds: float) -> Any:
    from flaml import AutoML  # type: ignore[import-not-found,unused-ignore]

    model = AutoML()
    started = time.time()
    model.fit(X, y, task=task, metric=FLAML_METRICS[metric], time_budget=seconds, n_jobs=1, verbose=0, seed=0)
    facts = {"wall": time.time() - started}
    return model.predict_proba(X_test) if task == "classification" else model.predict(X_test), facts


def run_lightgbm(X: Any, y: Any, X_test: Any, task: str) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    model = (LGBMClassifier if task == "classification" else LGBMRegressor)(n_jobs=1, random_state=0, verbose=-1)
    started = time.time()
    model.fit(X, y)
    facts = {"wall": time.time() - started}
    return model.predict_proba(X_test) if task == "classification" else model.predict(X_test), facts


def one(data: Path, system: str, task: str, name: str, seconds: float) -> dict[str, Any]:
    """Score and facts of one system on one table."""
    import warnings

    warnings.simplefilter("ignore")
    X, X_test, y, y_test, metric = rows(data / task / f"{name}.parquet", task)
    if system == "flaml":
        predicted, facts = run_flaml(X, y, X_test, task, metric, seconds)
    elif system == "lightgbm":
        predicted, facts = run_lightgbm(X, y, X_test, task)
    else:
        optimizer = "default" if system == "headstart" else "random"
        predicted, facts = run_headstart(X, y, X_test, task, metric, seconds, optimizer)
    return {"score": score(metric, y_test, predicted), "metric": metric, "rows": len(X), **facts}


# -- all of them -----------------------------------------------------------------------------------------------------


def run_all(args: argparse.Namespace) -> dict[str, Any]:
    """Results of all systems on all tables, those of an earlier run included."""
    found: dict[str, Any] = json.loads(args.results.read_text()) if args.results.exists() else {}
    if found and found["seconds"] != args.seconds:
        raise SystemExit(f"{args.results} has results for {found['seconds']} s, not {args.seconds}; give another file")
    found.setdefault("seconds", args.seconds)
    cells: dict[str, dict[str, Any]] = found.setdefault("results", {})
    lock = Lock()
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def do(system: str, task: str, name: str) -> None:
        python = args.flaml if system == "flaml" else sys.executable
        script, data = Path(__file__).resolve(), args.data.resolve()
        call = [python, script, "--data", data, "--one", system, task, name, "--seconds", args.seconds]
        with tempfile.TemporaryDirectory() as folder:  # some libraries leave files where they are run
            done = subprocess.run(
                [str(c) for c in call], capture_output=True, text=True, env=environment, check=False, cwd=folder
            )
        try:
            result = json.loads(done.stdout.splitlines()[-1])
        except (IndexError, ValueError):
            result = {"error": (done.stderr.strip().splitlines() or ["no output"])[-1][:300]}
        with lock:
            cells.setdefault(name, {})[system] = result
            args.results.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
            print(f"{name:22} {system:10} {json.dumps(result)}", flush=True)

    systems = [s for s in SYSTEMS if s != "flaml" or args.flaml]
    wanted = [
        (system, task, name)
        for task, names in TABLES.items()
        for name in names
        for system in systems
        if system not in cells.get(name, {})
    ]
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda item: do(*item), wanted))
    return found


def ranks(scores: dict[str, float]) -> dict[str, float]:
    """1 for the best; equals share the mean of their places, a system without a score comes last."""
    from scipy.stats import rankdata

    names = list(scores)
    places = rankdata([-scores[name] for name in names])
    return dict(zip(names, places.tolist(), strict=True))


def summary(found: dict[str, Any]) -> Iterable[str]:
    """Lines of docs/results/quality.md."""
    import numpy as np

    cells = found["results"]
    systems = [s for s in SYSTEMS if any(s in row for row in cells.values())]
    names = [n for names in TABLES.values() for n in names if all(s in cells.get(n, {}) for s in systems)]
    placed = {n: ranks({s: cells[n][s].get("score", -np.inf) for s in systems}) for n in names}
    yield "# Quality of the models\n"
    yield (
        f"Written by `benchmarks/quality.py --write` from `docs/results/data/quality.json`. {len(names)} tables, two "
        f"thirds for training, one third for the test (split seed 0); {found['seconds']:g} s and one thread for each "
        "system, seed 0; scores on the test part, higher is better: ROC AUC for two classes, negative log loss for "
        "more, negative root mean squared error for numbers. FLAML 2.7.0; `lightgbm`: its defaults, no search; "
        "`random`: Headstart with random search in the same space, everything else equal.\n"
    )
    yield "| table | rows | metric | " + " | ".join(systems) + " |"
    yield "|---|---|---|" + "---|" * len(systems)
    for n in names:
        row = cells[n]
        best = min(placed[n].values())
        shown = []
        for s in systems:
            text = f"{row[s]['score']:.4f}" if "score" in row[s] else "failed"
            shown.append(f"**{text}**" if placed[n][s] == best else text)
        first = row[systems[0]]
        yield f"| {n} | {first.get('rows', '')} | {first.get('metric', '')} | " + " | ".join(shown) + " |"
    means = {s: np.mean([placed[n][s] for n in names]) for s in systems}
    errors = {s: 1.96 * np.std([placed[n][s] for n in names], ddof=1) / np.sqrt(len(names)) for s in systems}
    yield "| **mean rank** (95 %) | | | " + " | ".join(f"{means[s]:.2f} ± {errors[s]:.2f}" for s in systems) + " |"
    if "flaml" in systems:
        wins = sum(placed[n]["headstart"] < placed[n]["flaml"] for n in names)
        yield f"\nHeadstart is before FLAML on {wins} of {len(names)} tables.\n"
    yield "\n## Time\n"
    yield "| system | wall / budget, median | largest | share of the time in evaluations that ended ok, median |"
    yield "|---|---|---|---|"
    for s in systems:
        walls = [cells[n][s]["wall"] / found["seconds"] for n in names if "wall" in cells[n][s]]
        shares = [cells[n][s]["ok_share"] for n in names if "ok_share" in cells[n][s]]
        share = f"{np.median(shares):.2f}" if shares else ""
        yield f"| {s} | {np.median(walls):.2f} | {max(walls):.2f} | {share} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="directory with index.csv and the tables")
    parser.add_argument("--flaml", help="a Python interpreter that has FLAML; without one FLAML is left out")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each with one thread")
    parser.add_argument("--results", type=Path, default=HERE.parent / "docs/results/data/quality.json")
    parser.add_argument("--write", action="store_true", help="write docs/results/quality.md from the results")
    parser.add_argument("--table", action="append", help="TASK/NAME instead of the tables listed here; repeat it")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        system, task, name = args.one
        print(json.dumps(one(args.data, system, task, name, args.seconds)))
        return
    if args.table:
        TABLES.clear()
        for task, name in (table.split("/", 1) for table in args.table):
            TABLES.setdefault(task, []).append(name)
    args.results.parent.mkdir(parents=True, exist_ok=True)
    found = run_all(args)
    lines = "\n".join(summary(found)) + "\n"
    print(lines)
    if args.write:
        (HERE.parent / "docs/results/quality.md").write_text(lines)


if __name__ == "__main__":
    main()
