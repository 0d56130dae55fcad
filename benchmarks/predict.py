"""How fast a model predicts. Run: python benchmarks/predict.py [--quick]

For tables of 20 numeric columns, of mixed columns and with texts: the time of `predict_proba` of a default model for
one row and for 1,000, beside that of its fitted pipelines called one after the other; the memory that a million rows
take above the model and the table; `headstart predict` with its start; a model of ``deploy="fast"`` beside the best.
Timings on a shared machine are noisy: the ratios were measured in the same run, one right after the other.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_classification

from headstart import HeadstartClassifier

console = Console()
ROWS = 1_000


def table(kind: str, n: int, seed: int = 0) -> tuple[pd.DataFrame, Any]:
    """Columns of numbers; ``mixed`` has gaps, categories and dates too, ``text`` also two columns of words."""
    rng = np.random.default_rng(seed)
    numbers, y = make_classification(n, 20, n_informative=8, flip_y=0.1, random_state=seed)
    X = pd.DataFrame(numbers, columns=[f"x{i}" for i in range(20)])
    if kind != "numeric":
        X.loc[rng.random(n) < 0.1, "x3"] = np.nan
        X["letter"], X["colour"] = rng.choice(list("abcdefgh"), n), rng.choice(["red", "green", "blue"], n)
        X["day"] = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), "D")
    if kind == "text":
        words = np.array([f"word{i}" for i in range(300)])
        X["title"] = [" ".join(rng.choice(words, 10)) for _ in range(n)]
        X["body"] = [" ".join(rng.choice(words, 30)) for _ in range(n)]
    return X, y


def seconds(call: Callable[..., object], *given: object, repeats: int = 5) -> float:
    """The least of several calls, after one to warm up."""
    call(*given)
    found = []
    for _ in range(repeats):
        started = time.perf_counter()
        call(*given)
        found.append(time.perf_counter() - started)
    return min(found)


def one_by_one(model: HeadstartClassifier, X: pd.DataFrame) -> Any:
    """What `predict_proba` gives, by the fitted pipelines as scikit-learn calls them."""
    ready = model.model_.schema.apply(X)
    total = 0.0
    for member in model.model_.members:
        for pipeline in member.models:
            total = total + member.weight / len(member.models) * pipeline.predict_proba(ready)
    return total


def command(file: Path, X: pd.DataFrame) -> float:
    """Seconds of ``headstart predict``, with its start."""
    X.to_csv(file.with_suffix(".csv"), index=False)
    call = [sys.executable, "-m", "headstart", "predict", str(file), str(file.with_suffix(".csv")), "--proba"]
    return seconds(lambda: subprocess.run(call, check=True, capture_output=True), repeats=3)


def compare(kind: str, evaluations: int, place: Path) -> list[str]:
    X, y = table(kind, ROWS)
    settings: dict[str, Any] = {"evaluations": evaluations, "n_jobs": 1}
    model = HeadstartClassifier(**settings).fit(X, y)
    model.save(place / kind)
    fast = HeadstartClassifier(**settings, deploy="fast").fit(X, y)
    fast.save(place / f"{kind}-fast")
    cells = [kind, str(sum(len(member.models) for member in model.model_.members))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows in (X.iloc[[0]], X):
            apart = float(np.abs(model.predict_proba(rows) - one_by_one(model, rows)).max())
            assert apart < 1e-12, f"{kind}: predictions differ by {apart}"
            ours, plain = (
                seconds(lambda f=f, r=rows: f(r)) for f in (model.predict_proba, lambda r: one_by_one(model, r))
            )
            cells.append(f"{1e3 * ours:.1f} ms, {plain / ours:.1f} × faster")
    cells.append(f"{command(place / kind, X):.2f} s")
    best, small = (seconds(found.predict_proba, X) for found in (model, fast))
    sizes = [(place / name).stat().st_size for name in (kind, f"{kind}-fast")]
    scores = [f"{found.score_:.4f}" for found in (model, fast)]
    cells.append(f"{best / small:.0f} × faster, {sizes[0] / sizes[1]:.0f} × smaller, {' → '.join(scores)}")
    return cells


def memory(file: Path, rows: int) -> str:
    """Seconds and memory of many rows, in a process of its own."""
    from headstart.estimators import load

    model = load(file)
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(rows, 20)), columns=[f"x{i}" for i in range(20)])
    assert isinstance(model, HeadstartClassifier)
    model.predict_proba(X[:ROWS])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    model.predict_proba(X)
    above = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return f"{rows:,} rows: {time.perf_counter() - started:.0f} s, {above:.0f} MB above model and table"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer pipelines and rows")
    parser.add_argument("--memory", nargs=2, metavar=("FILE", "ROWS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.memory:
        console.print(memory(Path(given.memory[0]), int(given.memory[1])))
        return
    shown = Table(title=f"Models fitted to {ROWS:,} rows", title_justify="left")
    for column in ("table", "models", "1 row", f"{ROWS:,} rows", f"headstart predict, {ROWS:,} rows", "deploy=fast"):
        shown.add_column(column)
    with tempfile.TemporaryDirectory() as place:
        for kind in ("numeric", "mixed", "text"):
            shown.add_row(*compare(kind, 6 if given.quick else 25, Path(place)))
        console.print(shown)
        rows = 100_000 if given.quick else 1_000_000
        subprocess.run([sys.executable, __file__, "--memory", str(Path(place) / "numeric"), str(rows)], check=True)


if __name__ == "__main__":
    main()
