"""Whether recorded pipelines are what they are said to be. Run: python benchmarks/labels.py --data DIR [--meta pmf]

Random recorded pipelines are evaluated anew on raw tables of the meta-dataset's own tasks (``DIR/pmf_tables``), and
their losses and seconds compared with those on record: rank correlations by table. Machines, folds and versions
differ, so they are not 1; where labels are wrong they are near 0. Of Tensor-OBOE the labels as published are compared
as well: see `headstart.metadata.sources.tensor_oboe`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.stats import spearmanr

from headstart.evaluation.live import LiveObjective
from headstart.evaluation.sandbox import Sandbox
from headstart.experiments.live_tables import TableFile, read_index, read_table
from headstart.metadata import MetaDataset
from headstart.metadata.sources import load
from headstart.metadata.sources.extras import TABLES
from headstart.trials import Limits

console = Console()
LIMITS = Limits(20.0, 3_000_000_000)
ROWS = (500, 2000)
Array = NDArray[np.float64]


def measured(meta: MetaDataset, table: TableFile, columns: NDArray[np.int64]) -> tuple[Array, Array]:
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


def alike(one: Array, other: NDArray[Any] | None) -> float:
    """Rank correlation where both are known."""
    if other is None:
        return float("nan")
    there = np.isfinite(one) & np.isfinite(other)
    return float(spearmanr(one[there], other[there])[0]) if there.sum() > 2 else float("nan")


def published(columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Of these columns' pipelines, the columns that they have as published."""
    import json
    import tempfile

    from headstart.metadata.sources import source
    from headstart.metadata.sources.tensor_oboe import SETTINGS, recorded_order
    from headstart.metadata.sources.wheels import download, opened

    with tempfile.TemporaryDirectory() as folder:
        wheel = download(source("tensor_oboe").wheels[1], Path(folder))
        with opened(wheel, SETTINGS) as (stream, _):
            return recorded_order(json.loads(stream.read()))[columns]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help=f"a folder with {TABLES}/")
    parser.add_argument("--meta", default="tensor_oboe")
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--pipelines", type=int, default=60)
    given = parser.parse_args()
    meta = load(given.meta)
    tasks = {name: task for task, name in enumerate(meta.ids)}
    there = [t for t in read_index(given.data / TABLES) if t.id in tasks and ROWS[0] <= t.rows <= ROWS[1]]
    rng = np.random.default_rng(0)
    chosen = [there[i] for i in rng.permutation(len(there))[: given.tables]]
    columns = rng.choice(len(meta.pipelines), given.pipelines, replace=False)
    before = published(columns) if given.meta == "tensor_oboe" else None
    report = Table(title=f"{given.meta}: rank correlation of what is recorded with what is measured")
    for name in ("table", "pipelines", "losses", "seconds", "losses, as published"):
        report.add_column(name, justify="left" if name == "table" else "right")
    found = []
    for table in chosen:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            losses, seconds = measured(meta, table, columns)
        recorded, taken = meta.loss_row(tasks[table.id]), meta.seconds_row(tasks[table.id])
        cells = [
            alike(losses, recorded[columns]),
            alike(seconds, None if taken is None else taken[columns]),
            alike(losses, None if before is None else recorded[before]),
        ]
        found.append(cells)
        report.add_row(f"{table.name} ({table.id})", str(int(np.isfinite(losses).sum())), *(f"{c:.2f}" for c in cells))
        console.print(f"{table.name}: {cells[0]:.2f}")
    report.add_row("mean", "", *(f"{c:.2f}" for c in np.mean(found, axis=0)))
    console.print(report)


if __name__ == "__main__":
    main()
