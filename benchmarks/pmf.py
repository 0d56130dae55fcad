"""PMF's meta-training and suggestions. Run: python benchmarks/pmf.py [--meta pmf|tensor_oboe|DIR|small] [--method pmf]

Prints the validation likelihood over time, the time to the early stop, the peak memory of the process, and milliseconds
per suggestion over all recorded pipelines, model update included. A test task has no loss for some of them: there one
of its others stands in, so that the pool is whole. On a shared machine wall-clock time says little: beside it stands
the time of the processor.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from suggest import begun, recorded, step

from experiments.model_error import model_of
from headstart.evaluation.recorded import Replay, recorded_task
from headstart.metadata import MetaDataset
from headstart.metadata.sources import load
from headstart.optimizers.base import Optimizer
from headstart.replay.partition import Partition
from headstart.replay.protocol import Method
from headstart.surrogates.meta_trained import MetaTrained

console = Console()
MINUTES, GIGABYTES, MILLISECONDS = 20, 4, 50
"""What it may take."""


def small() -> MetaDataset:
    """Synthetic, for a quick look."""
    meta = recorded(2_000, 60)
    return meta.changed(splits={"train": range(45), "validation": range(45, 55), "test": range(55, 60)}, name="small")


def gigabytes() -> float:
    """The most memory that this process has had so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def train(method: Method, meta: MetaDataset, partition: Partition, every: int) -> Optimizer:
    """Meta-train, and show how it went."""
    learning = partition.learning(meta)
    before = gigabytes()
    wall, processor = time.perf_counter(), time.process_time()
    optimizer = method.make().meta_fit(learning)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    model = model_of(optimizer)
    checks = model.validation_losses if isinstance(model, MetaTrained) else np.zeros((0, 3))
    table = Table(title=f"{method.text} on {len(learning)} tasks of {meta.name} × {len(meta.pipelines):,} pipelines")
    for column in ("step", "validation, −log likelihood of a cell", "seconds"):
        table.add_column(column, justify="right")
    best = int(np.argmin(checks[:, 1])) if len(checks) else -1
    for i, (number, likelihood, seconds) in enumerate(checks):
        if i % every == 0 or i in (best, len(checks) - 1):
            table.add_row(f"{number:.0f}", f"{likelihood:.4f}{' best' if i == best else ''}", f"{seconds:.1f}")
    console.print(table)
    console.print(f"meta-training: {wall:.0f} s (processor {processor:.0f} s); at most {60 * MINUTES} s are allowed")
    console.print(f"peak memory: {gigabytes():.2f} GB ({before:.2f} before); at most {GIGABYTES} GB are allowed")
    return optimizer


def whole(meta: MetaDataset, task: int) -> MetaDataset:
    """One task, on which every pipeline has a loss."""
    losses = np.array(meta.loss_row(task), dtype=np.float64)
    missing = np.isnan(losses)
    losses[missing] = np.random.default_rng(0).choice(losses[~missing], missing.sum())
    return MetaDataset(meta.pipelines, losses[None], [meta.tasks[task]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--meta", default="pmf", help="name or directory of a meta-dataset, or small")
    parser.add_argument("--data", type=Path, help="directory with more about the tasks")
    parser.add_argument("--method", default="pmf", help="pmf, pmf_paper, or with settings: 'pmf(latent=10)'")
    parser.add_argument("--every", type=int, default=1, help="show every so many looks at the validation tasks")
    parser.add_argument("--observations", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()

    meta = small() if options.meta == "small" else load(options.meta, options.data)
    partition = Partition.of(meta, "test")
    optimizer = train(Method.parse(options.method), meta, partition, options.every)
    filled = whole(meta, partition.test[0])
    replay = Replay(filled, 0)
    run = begun(optimizer, recorded_task(filled, 0), replay, options.observations)
    step(run, replay)  # caches of the pool, once per task
    spent = [step(run, replay) for _ in range(options.repeats)]
    wall, processor = (1e3 * statistics.median(column) for column in zip(*spent, strict=True))
    console.print(
        f"a suggestion over {len(filled.pipelines):,} candidates with {options.observations} observations and more: "
        f"{wall:.0f} ms (processor {processor:.0f} ms), median of {options.repeats}; "
        f"at most {MILLISECONDS} ms are allowed"
    )


if __name__ == "__main__":
    main()
