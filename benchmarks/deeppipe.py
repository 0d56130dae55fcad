"""Meta-training of DeepPipe over time, and what a suggestion takes. Run: python benchmarks/deeppipe.py [--meta pmf …]

For each meta-dataset: the validation loss (negative log likelihood by observation) over time, the early stop, and the
most memory. A published one must have been fetched (``headstart meta fetch pmf``); without ``--meta`` 40 synthetic
tasks are learned from. Then milliseconds per suggestion, model update included, with 100 observations over 20,000
synthetic candidates: with parameters as meta-learned, and with 100 steps of fine-tuning of the kernel. On a shared
machine wall-clock time says little: beside it stands the time of the processor.
"""

from __future__ import annotations

import argparse
import copy
import resource
import statistics
import time

from rich.console import Console
from rich.table import Table
from suggest import begun, recorded, step

from headstart.evaluation.recorded import Replay, recorded_task
from headstart.learning.monitor import Check, Monitor, monitored
from headstart.metadata import MetaDataset
from headstart.metadata.sources import load
from headstart.methods.deeppipe import DeepPipe
from headstart.optimizers.bayes import Bayes
from headstart.registry import create
from headstart.replay.protocol import Method

console = Console()
AIMS = {"none": 50, "kernel": 200}
"""Milliseconds that a suggestion may take on a quiet machine, by what is fine-tuned."""
SHOWN = 12
"""Lines of a table of validation losses."""


def trained(model: DeepPipe, meta: MetaDataset, name: str) -> DeepPipe:
    """Meta-trained, with its progress shown."""
    checks: list[Check] = []
    started = time.perf_counter()
    with monitored(Monitor(checks.append)):
        model.meta_fit(meta)
    seconds = time.perf_counter() - started
    table = Table(title=f"{name}: {meta!r}")
    for column in ("step", "seconds", "validation loss", "best"):
        table.add_column(column, justify="right")
    best = min(checks, key=lambda check: check.loss)
    every = max(1, len(checks) // SHOWN)
    for check in [c for i, c in enumerate(checks) if i % every == 0 or c in (best, checks[-1])]:
        table.add_row(str(check.step), f"{check.seconds:.0f}", f"{check.loss:.4f}", f"{check.best:.4f}")
    console.print(table)
    end = "stopped early" if checks[-1].step < checks[-1].steps else "all steps made"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    console.print(f"{end}; best after {best.step} steps; {seconds:.0f} s in all, {memory:.1f} GB at most\n")
    return model


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--surrogate", default="deeppipe_network", help="or with settings: 'deeppipe_network(steps=500)'"
    )
    parser.add_argument("--meta", action="append", help="pmf, tensor_oboe, zap or a directory; may be repeated")
    parser.add_argument("--candidates", type=int, default=20_000)
    parser.add_argument("--observations", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    method = Method.parse(options.surrogate)

    def new() -> DeepPipe:
        model: DeepPipe = create("surrogate", method.name, **method.settings)
        return model

    for name in options.meta or ():
        meta = load(name)
        splits = {split: meta.splits.get(split, meta.splits["train"][:0]).tolist() for split in ("train", "validation")}
        trained(new(), meta.learning(splits["train"], splits["validation"]), name)

    meta = recorded(options.candidates, 41)
    model = new()
    if options.meta:
        model.steps = 0  # what it has learned does not change how long it takes
        model.meta_fit(meta.select(range(1, 41)))
    else:
        trained(model, meta.select(range(1, 41)), "synthetic")
    task, replay = recorded_task(meta, 0), Replay(meta, 0)
    table = Table(title=f"{options.candidates:,} candidates, {options.observations} observations and more")
    for column in ("fine-tuning", "median ms", "processor ms", "aim, ms", "first, ms"):
        table.add_column(column, justify="left" if column == "fine-tuning" else "right")
    for fine_tune, aim in AIMS.items():
        tuned = copy.copy(model)
        tuned.fine_tune, tuned.fine_tune_steps = fine_tune, 100  # type: ignore[assignment]
        run = begun(Bayes(tuned), task, replay, options.observations)
        first = step(run, replay)[0]  # embeds the pool, once per task
        spent = [step(run, replay) for _ in range(options.repeats)]
        wall, processor = (1e3 * statistics.median(column) for column in zip(*spent, strict=True))
        label = "none" if fine_tune == "none" else f"{fine_tune}, 100 steps"
        table.add_row(label, f"{wall:.0f}", f"{processor:.0f}", str(aim), f"{1e3 * first:.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
