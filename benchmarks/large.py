"""Large tables: seconds, memory and score.

Run: python benchmarks/large.py [--rows 1000000 10000000] [--wide] [--classes] [--time 300]

For each number of rows, a table of 50 columns is generated (28 floats, 12 whole numbers, 8 categories, 2 booleans; a
twentieth of ten of the columns is missing) whose binary target needs interactions and effects of categories, and
written as Parquet. ``--wide`` adds one of 2,000 rows and 5,000 columns, 50 of which tell something of two classes;
``--classes`` one of 20,000 rows, 20 columns and 1,000 classes. Then, each in a process of its own:

- the table is read (`Dataset.from_table`): its size in memory is that of the features and the target as the dataset
  holds them, and all memory below is given as a multiple of that;
- ``headstart fit`` runs with the time budget. Memory is the sum over all of its processes of the proportional set size
  (PSS: a page that several processes share counts once), sampled four times a second;
- LightGBM with its defaults is fitted to a sample of 100,000 rows (not with 1,000 classes: 100,000 trees).

Both models are scored on other rows than those of the table, 200,000 of the tall ones: ROC AUC, of 1,000 classes
accuracy.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
from rich.console import Console
from rich.table import Table

from headstart.fitting.plan import available_cores

TARGET = "y"
FLOATS, INTEGERS, CATEGORIES, BOOLEANS = 28, 12, 8, 2
CATEGORY_SIZES = (3, 5, 8, 12, 30, 60, 150, 400)
GROUP_ROWS = 250_000
"""Rows that are generated and written at once."""
TEST_ROWS, SMALL_TEST_ROWS, SAMPLE_ROWS = 200_000, 5_000, 100_000
TEST_SEED = 10**6
console = Console(width=110)


def wide(rows: int, seed: int) -> pd.DataFrame:
    """Rows of 5,000 columns."""
    effects = np.random.default_rng(0).normal(0, 0.5, 50)
    rng = np.random.default_rng([2, seed])
    values = rng.normal(size=(rows, 5000))
    y = rng.random(rows) < 1 / (1 + np.exp(-values[:, :50] @ effects))
    table = pd.DataFrame(values, columns=[f"f{i}" for i in range(5000)])
    table[TARGET] = np.where(y, "yes", "no")
    return table


def classes(rows: int, seed: int) -> pd.DataFrame:
    """Rows of 1,000 classes, which lie around points of their own."""
    centers = np.random.default_rng(0).normal(size=(1000, 20))
    rng = np.random.default_rng([3, seed])
    y = rng.permutation(np.arange(rows) % 1000)
    values = centers[y] + rng.normal(0, 0.6, size=(rows, 20))
    return pd.DataFrame(values, columns=[f"f{i}" for i in range(20)]).assign(**{TARGET: [f"class {k}" for k in y]})


def tall(rows: int, seed: int) -> pd.DataFrame:
    """Rows of 50 columns."""
    law = np.random.default_rng(0)
    effects = [law.normal(0, 0.7, size) for size in CATEGORY_SIZES]
    slopes = [law.normal(0, 0.7, size) for size in CATEGORY_SIZES]
    rng = np.random.default_rng([1, seed])
    floats = rng.normal(size=(rows, FLOATS))
    integers = rng.poisson(np.linspace(0.5, 200, INTEGERS), size=(rows, INTEGERS))
    codes = [rng.integers(size, size=rows) for size in CATEGORY_SIZES]
    truths = rng.random((rows, BOOLEANS)) < 0.3
    score = -0.3 + floats[:, 0] * floats[:, 1] + np.sin(2 * floats[:, 2]) * (1 + truths[:, 0])
    score += np.where(floats[:, 3] > 0.5, floats[:, 4], -0.5 * floats[:, 5])
    score += 0.3 * (integers[:, 1] > 15) * floats[:, 6] - 0.4 * np.abs(floats[:, 7])
    for code, effect, slope, column in zip(codes, effects, slopes, range(8, 16), strict=True):
        score += 0.5 * effect[code] + 0.5 * slope[code] * floats[:, column]
    y = rng.random(rows) < 1 / (1 + np.exp(-score))
    floats[:, 10:20][rng.random((rows, 10)) < 0.05] = np.nan
    columns: dict[str, Any] = {f"f{i}": floats[:, i] for i in range(FLOATS)}
    columns |= {f"n{i}": integers[:, i] for i in range(INTEGERS)}
    for i, (code, size) in enumerate(zip(codes, CATEGORY_SIZES, strict=True)):
        columns[f"c{i}"] = pd.Categorical.from_codes(code, [f"level {k}" for k in range(size)]).astype("str")
    columns |= {f"b{i}": truths[:, i] for i in range(BOOLEANS)}
    return pd.DataFrame(columns | {TARGET: np.where(y, "yes", "no")})


GENERATED = {"large": tall, "wide": wide, "classes": classes}
"""By the first word of the name of a file; all seeds have the same law."""


def generate(path: str | Path, rows: int, seed: int) -> pd.DataFrame:
    """Some rows of the table that a file holds."""
    return GENERATED[Path(path).name.partition("-")[0]](rows, seed)


def write(path: Path, rows: int) -> None:
    """The table as Parquet, a row group at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for number, start in enumerate(range(0, rows, GROUP_ROWS)):
        part = pa.Table.from_pandas(generate(path, min(GROUP_ROWS, rows - start), number), preserve_index=False)
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part)
    if writer is not None:
        writer.close()


def watched(command: Sequence[str]) -> tuple[float, int, str]:
    """Run a program: seconds, most memory of all its processes, what it printed."""
    started, peak = time.time(), 0
    program = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    printed: list[str] = []
    reader = threading.Thread(target=lambda: printed.extend(program.stdout or ()))
    reader.start()
    root = psutil.Process(program.pid)
    while program.poll() is None:
        try:
            peak = max(peak, sum(map(_memory, [root, *root.children(recursive=True)])))
        except psutil.NoSuchProcess:
            pass
        time.sleep(0.25)
    seconds = time.time() - started
    reader.join()
    if program.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {program.returncode}:\n{''.join(printed)}")
    return seconds, peak, "".join(printed)


def _memory(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


# -- what runs in processes of their own ------------------------------------------------------------------------------


def read(path: str) -> dict[str, Any]:
    """How large the table is in memory, and how long it takes to read."""
    from headstart.data import Dataset

    started = time.time()
    dataset = Dataset.from_table(path, TARGET)
    return {"seconds": time.time() - started, "bytes": dataset.nbytes}


def score(path: str, model: str) -> dict[str, Any]:
    """The test score of a model that was fitted to a table."""
    from sklearn.metrics import roc_auc_score

    from headstart import HeadstartClassifier

    loaded = HeadstartClassifier.load(model)
    if Path(path).name.startswith("classes"):
        test = classes(SMALL_TEST_ROWS, TEST_SEED)
        return {"score": float(np.mean(loaded.predict(test) == test[TARGET]))}
    test = _test(path)
    return {"score": roc_auc_score(test[TARGET] == "yes", loaded.predict_proba(test)[:, 1])}


def _test(path: str) -> pd.DataFrame:
    return generate(path, TEST_ROWS if Path(path).name.startswith("large") else SMALL_TEST_ROWS, TEST_SEED)


def lightgbm(path: str) -> dict[str, Any]:
    """The test score of LightGBM with its defaults, fitted to a random sample of the table."""
    import pyarrow.parquet as pq
    from lightgbm import LGBMClassifier
    from sklearn.metrics import roc_auc_score

    file, rng = pq.ParquetFile(path), np.random.default_rng(0)
    chosen = np.sort(rng.choice(file.metadata.num_rows, min(SAMPLE_ROWS, file.metadata.num_rows), replace=False))
    parts, start = [], 0
    for group in range(file.num_row_groups):
        part = file.read_row_group(group)
        here = chosen[(chosen >= start) & (chosen < start + part.num_rows)] - start
        parts.append(part.take(here).to_pandas())
        start += part.num_rows
    sample, test = pd.concat(parts, ignore_index=True), _test(path)
    for name in [n for n in sample if n.startswith("c")]:
        kind = pd.CategoricalDtype(sorted(sample[name].unique()))
        sample[name], test[name] = sample[name].astype(kind), test[name].astype(kind)
    model = LGBMClassifier(verbosity=-1).fit(sample.drop(columns=TARGET), sample[TARGET] == "yes")
    return {
        "score": roc_auc_score(test[TARGET] == "yes", np.asarray(model.predict_proba(test.drop(columns=TARGET)))[:, 1])
    }


STEPS: dict[str, Any] = {"read": read, "score": score, "lightgbm": lightgbm}


def step(name: str, *arguments: Path) -> tuple[float, int, dict[str, Any]]:
    """One of `STEPS` in a process of its own."""
    seconds, peak, printed = watched([sys.executable, __file__, "--step", name, *map(str, arguments)])
    return seconds, peak, json.loads(printed.strip().splitlines()[-1])


def measure(kind: str, rows: int, budget: float, folder: Path) -> list[str]:
    """One row of the table that is printed."""
    path, out = folder / f"{kind}-{rows}.parquet", folder / f"fit-{kind}-{rows}-{time.time_ns()}"
    if not path.exists():
        write(path, rows)
    _, read_peak, table = step("read", path)
    command = [sys.executable, "-m", "headstart", "fit", str(path), "--target", TARGET, "--time", f"{budget}"]
    seconds, peak, printed = watched([*command, "--out", str(out)])
    console.print(printed)
    ours = step("score", path, out / "model.headstart")[2]["score"]
    theirs = "" if kind == "classes" else f"{step('lightgbm', path)[2]['score']:.4f}"
    size = table["bytes"]
    return [
        f"{kind}, {rows:,}",
        f"{size / 1e9:.2f}",
        f"{table['seconds']:.1f}",
        f"{read_peak / size:.2f}",
        f"{seconds:.1f}",
        f"{peak / 1e9:.2f}",
        f"{peak / size:.2f}",
        f"{ours:.4f}",
        theirs,
    ]


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="*", default=[1_000_000, 10_000_000])
    parser.add_argument("--wide", action="store_true", help="also 2,000 rows of 5,000 columns")
    parser.add_argument("--classes", action="store_true", help="also 20,000 rows of 1,000 classes")
    parser.add_argument("--time", type=float, default=300.0, help="seconds of the time budget")
    parser.add_argument("--folder", type=Path, help="for tables and fits; a table that is there is not made again")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        name, *given = arguments.step
        print(json.dumps(STEPS[name](*given)))
        return
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="large-"))
    folder.mkdir(parents=True, exist_ok=True)
    table = Table(title=f"fits of {arguments.time:g} s on {available_cores()} cores")
    for name in ("table", "table GB", "read s", "peak ×", "fit s", "peak GB", "peak ×", "ours", "LightGBM"):
        table.add_column(name, justify="right")
    wanted = [("large", rows) for rows in arguments.rows]
    wanted += [("wide", 2_000)] * arguments.wide + [("classes", 20_000)] * arguments.classes
    for kind, rows in wanted:
        table.add_row(*measure(kind, rows, arguments.time, folder))
    console.print(table)


if __name__ == "__main__":
    main()
