"""Trials per second that a store takes from several processes at once.

Run: python benchmarks/store.py [--postgresql URL] [--seconds 5] [--writers 1 8 32]

Each writer is a process with a study of its own. A trial is asked for in one transaction and finished in another, with
8 kB of predictions; both have reached the disk before the next trial. Without ``--postgresql`` only SQLite is measured;
the URL is that of an empty database, or of one with a store whose studies may be added to.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from headstart import Outcome, Pipeline, Proposal, Store, Trial

_READY, _GO = "ready", "go"


def throughput(location: str | Path, writers: int, seconds: float) -> float:
    """Trials per second of all writers together."""
    with Store.open(location) as store:
        store.add_task("benchmark", {})
    command = [sys.executable, __file__, "--write", str(location), "--seconds", str(seconds)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(writers)]  # type: ignore[call-overload]
    for process in processes:
        if process.stdout.readline().strip() != _READY:
            raise RuntimeError("a writer did not start")
    for process in processes:  # all at once
        process.stdin.write(_GO + "\n")
        process.stdin.flush()
    rates = [float(process.communicate()[0]) for process in processes]
    return sum(rates)


def write(location: str, seconds: float) -> None:
    """Be one writer: print how many trials per second were stored."""
    predictions = np.zeros(1000)
    with Store.open(location) as store, store.create_study(f"writer {uuid.uuid4()}", "benchmark", 0, {}) as log:
        print(_READY, flush=True)
        sys.stdin.readline()
        started, number = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            proposal = Proposal(number, Pipeline(["pca", "knn"], [{"n": 5}, {"k": number + 1}]))
            log.ask(proposal)
            log.finish(Trial(proposal, Outcome.of(0.5, artefacts={"predictions": predictions}), 1.0, 2.0))
            number += 1
        print(number / (time.perf_counter() - started))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgresql", metavar="URL", help="a database to measure, besides SQLite")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement")
    parser.add_argument("--writers", type=int, nargs="+", default=[1, 8, 32], help="processes that write at once")
    parser.add_argument("--write", metavar="LOCATION", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.write is not None:
        write(args.write, args.seconds)
        return
    table = Table(title="Store: trials per second, in two transactions each")
    table.add_column("writers", justify="right")
    places = ["SQLite directory", *(["PostgreSQL"] if args.postgresql else [])]
    for place in places:
        table.add_column(place, justify="right")
    for writers in args.writers:
        cells = []
        for place in places:
            with tempfile.TemporaryDirectory() as directory:
                location = args.postgresql if place == "PostgreSQL" else Path(directory) / "store"
                cells.append(f"{throughput(location, writers, args.seconds):.0f}")
        table.add_row(str(writers), *cells)
    Console().print(table)


if __name__ == "__main__":
    main()
