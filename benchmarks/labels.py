"""Whether recorded pipelines are what they are said to be. Run: python benchmarks/labels.py --data DIR

First, for all meta-datasets: how well a forest that has seen 70 % of at most 3,000 pipelines of a task predicts the
losses of the others from hyper-parameters. Then, for Tensor-OBOE, whose pipelines can be built: random recorded ones
are evaluated anew on raw tables of its own tasks (``DIR/pmf_tables``), and their losses and seconds compared with those
on record, as named here and as published (see `headstart.metadata.sources.tensor_oboe`). Machines, folds and versions
differ, so correlations are not 1; where names are wrong they are near 0.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from experiments.live_tables import RawTable, read_index, read_table
from headstart.evaluation.live import LiveObjective
from headstart.evaluation.sandbox import Sandbox
from headstart.metadata import MetaDataset
from headstart.metadata.sources import SOURCES, load, source
from headstart.metadata.sources.extras import TABLES
from headstart.metadata.sources.tensor_oboe import SETTINGS, recorded_order
from headstart.metadata.sources.wheels import download, opened
from headstart.trials import Limits

console = Console()
LIMITS = Limits(20.0, 3_000_000_000)
ROWS = (500, 2000)
Array = NDArray[np.float64]


def measured(meta: MetaDataset, table: RawTable, columns: NDArray[np.int64]) -> tuple[Array, Array]:
    """Losses and seconds of these recorded pipelines on a table, NaN where one failed."""
    ready = read_table(table, max_rows=ROWS[1], test=0.1, folds=3, seed=0)
    losses, seconds = np.full(len(columns), np.nan), np.full(len(columns), np.nan)
    objective = LiveObjective(meta.pipelines.space, ready.dataset, ready.splits, "balanced_accuracy")
    with Sandbox(objective) as sandbox:
        sandbox.warm()
        for i, column in enumerate(columns):
            started = time.perf_counter()
            outcome = sandbox(meta.pipelines[int(column)], LIMITS, 0)
            if outcome.loss is not None:
                losses[i], seconds[i] = outcome.loss, time.perf_counter() - started
    return losses, seconds


def told(meta: MetaDataset, tasks: int = 12) -> list[float]:
    """How well hyper-parameters tell losses, by task; tasks with few different losses are left out."""
    from sklearn.ensemble import RandomForestRegressor

    rng = np.random.default_rng(0)
    features = meta.pipelines.features(-1.0)  # which tells what is not there from what is 0
    found = []
    for task in rng.choice(len(meta.tasks), tasks, replace=False):
        losses = meta.loss_row(int(task))
        there = np.flatnonzero(np.isfinite(losses))
        if len(there) < 400 or len(np.unique(losses[there])) < 40:
            continue
        there = rng.permutation(there)[:3000]
        seen, other = np.split(there, [int(0.7 * len(there))])
        forest = RandomForestRegressor(60, min_samples_leaf=2, random_state=0).fit(features[seen], losses[seen])
        found.append(float(np.corrcoef(forest.predict(features[other]), losses[other])[0, 1]))
    return found


def alike(one: Array, other: NDArray[Any] | None) -> float:
    """Rank correlation where both are known."""
    if other is None:
        return float("nan")
    there = np.isfinite(one) & np.isfinite(other)
    return float(spearmanr(one[there], other[there])[0]) if there.sum() > 2 else float("nan")


def published(columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of these columns' pipelines, the columns that they have as published."""
    with tempfile.TemporaryDirectory() as folder:
        wheel = download(source("tensor_oboe").wheels[1], Path(folder))
        with opened(wheel, SETTINGS) as (stream, _):
            return recorded_order(json.loads(stream.read()))[columns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"a folder with {TABLES}/")
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--pipelines", type=int, default=60)
    given = parser.parse_args()
    for name in SOURCES:
        found = told(load(name))
        console.print(f"{name}: hyper-parameters tell losses, correlation {np.median(found):.2f} ({len(found)} tasks)")
    meta = load("tensor_oboe")
    tasks = {name: task for task, name in enumerate(meta.ids)}
    there = [t for t in read_index(given.data / TABLES) if t.id in tasks and ROWS[0] <= t.rows <= ROWS[1]]
    rng = np.random.default_rng(0)
    chosen = [there[i] for i in rng.permutation(len(there))[: given.tables]]
    columns = rng.choice(len(meta.pipelines), given.pipelines, replace=False)
    before = published(columns)
    report = Table(title="tensor_oboe: rank correlation of what is recorded with what is measured")
    for name in ("table", "pipelines", "losses", "seconds", "losses, as published"):
        report.add_column(name, justify="left" if name == "table" else "right")
    rows = []
    for table in chosen:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses, seconds = measured(meta, table, columns)
        recorded, taken = meta.loss_row(tasks[table.id]), meta.seconds_row(tasks[table.id])
        cells = [
            alike(losses, recorded[columns]),
            alike(seconds, None if taken is None else taken[columns]),
            alike(losses, recorded[before]),
        ]
        rows.append(cells)
        report.add_row(f"{table.name} ({table.id})", str(int(np.isfinite(losses).sum())), *(f"{c:.2f}" for c in cells))
        console.print(f"{table.name}: {cells[0]:.2f}")
    report.add_row("mean", "", *(f"{c:.2f}" for c in np.mean(rows, axis=0)))
    console.print(report)


if __name__ == "__main__":
    main()
