"""Random pipelines on many tables: do all tables load, and does every evaluation end in an explained outcome?

Run: python benchmarks/outcomes.py --data DIR [--store DIR] [--pipelines 10] [--seconds 10] [--jobs 2]

Each table has a seed of its own, so that the tables together try all algorithms.

DIR holds ``index.csv`` (columns name, task) and ``classification/NAME.parquet``, ``regression/NAME.parquet`` with a
column ``target``. What is finished is kept in the store: the command can be stopped and started again.
"""

from __future__ import annotations

import argparse
import csv
import re
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from headstart import Limits, Sandbox, Store, Study, Task, Trial
from headstart.data import Dataset, make_splits
from headstart.evaluation.live import LiveObjective
from headstart.space.catalog import load

STATUSES = ("ok", "timeout", "memory", "crashed", "invalid")
console = Console() if Console().is_terminal else Console(width=140)


def run(
    store: Store, path: Path, task: str, pipelines: int, limits: Limits, jobs: int, seed: int
) -> tuple[list[Trial], float]:
    """Outcomes of random pipelines on one table, and the seconds it took to load."""
    started = time.perf_counter()
    dataset = Dataset.from_table(path, "target", task=None if task == "classification" else task, name=path.stem)
    seconds = time.perf_counter() - started
    space = load(task)
    splits = make_splits(dataset, folds=3)
    key = f"{path.stem}-{dataset.key}-{splits.key}-{space.key}"
    with Sandbox(LiveObjective(space, dataset, splits)) as sandbox:
        study = Study(
            Task(space, key=key), sandbox, "random", seed=seed, limits=limits, store=store, name=key, resume=True
        )
        if len(study.history) < pipelines:
            study.run(evaluations=pipelines, n_jobs=jobs)
    return study.history.trials, seconds


def reason(error: str | None) -> str:
    """An error without what differs from case to case."""
    first = (error or "").splitlines()[0] if error else ""
    return re.sub(r"\d+(\.\d+)?", "#", first)[:100]


def report(found: list[tuple[str, Trial]], loading: dict[str, float], broken: dict[str, str]) -> None:
    """Shares of each outcome by algorithm, and the reasons of those that are not ok."""
    by_algorithm: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    reasons: Counter[tuple[str, str, str]] = Counter()
    stages = {task: [stage.name for stage in load(task).stages] for task in {task for task, _ in found}}
    order = {name: i for names in stages.values() for i, name in enumerate(names)}
    trials = [trial for _, trial in found]
    for task, trial in found:
        outcome = trial.outcome
        for stage, algorithm in zip(stages[task], trial.pipeline.algorithms, strict=True):
            by_algorithm[stage, algorithm][outcome.status.value] += 1
        if not outcome.ok:
            reasons[outcome.status.value, trial.pipeline.algorithms[-1], reason(outcome.error)] += 1
    table = Table(title=f"{len(trials)} evaluations on {len(loading)} tables: share of each outcome, %")
    table.add_column("stage")
    table.add_column("algorithm")
    table.add_column("evaluations", justify="right")
    for status in STATUSES:
        table.add_column(status, justify="right")
    total: Counter[str] = Counter(t.outcome.status.value for t in trials)
    ordered = sorted(by_algorithm.items(), key=lambda item: (order[item[0][0]], item[0]))
    rows = [(stage, algorithm, counts) for (stage, algorithm), counts in ordered]
    for stage_name, algorithm, counts in [*rows, ("", "all", total)]:
        n = sum(counts.values())
        table.add_row(stage_name, algorithm, str(n), *[f"{100 * counts[s] / n:.1f}" for s in STATUSES])
    console.print(table)
    table = Table(title="Why evaluations were not ok")
    for column in ("evaluations", "status", "estimator", "reason"):
        table.add_column(column)
    for (status, estimator, text), count in reasons.most_common(60):
        table.add_row(str(count), status, estimator, text)
    console.print(table)
    slowest = sorted(loading.items(), key=lambda item: -item[1])[:3]
    console.print(f"{len(loading)} tables loaded; slowest: " + ", ".join(f"{n} {s:.2f} s" for n, s in slowest))
    for name, error in broken.items():
        console.print(f"not loaded: {name}: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="directory with index.csv and the tables")
    parser.add_argument("--store", type=Path, help="where finished evaluations are kept; a temporary place by default")
    parser.add_argument("--pipelines", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of one evaluation")
    parser.add_argument("--megabytes", type=int, default=2000, help="limit of one evaluation")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tables", type=int, help="only the first so many of the index")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    limits = Limits(seconds=args.seconds, bytes=args.megabytes * 10**6)
    with (args.data / "index.csv").open(newline="", encoding="utf-8") as file:
        index = list(csv.DictReader(file))[: args.tables]
    trials: list[tuple[str, Trial]] = []
    loading: dict[str, float] = {}
    broken: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as temporary, Store.open(args.store or Path(temporary) / "store") as store:
        for i, row in enumerate(index):
            path = args.data / row["task"] / f"{row['name']}.parquet"
            try:
                found, loading[f"{row['task']}/{row['name']}"] = run(
                    store, path, row["task"], args.pipelines, limits, args.jobs, i
                )
            except Exception as error:
                broken[row["name"]] = f"{type(error).__name__}: {error}"
                continue
            trials += [(row["task"], trial) for trial in found]
            ok = sum(t.outcome.ok for t in found)
            console.print(f"{i + 1}/{len(index)} {row['name']}: {ok} of {len(found)} ok", highlight=False)
    report(trials, loading, broken)


if __name__ == "__main__":
    main()
