"""How far it goes: fits on one machine and on Dask, stores with many writers, and many workers in virtual time.

Run: python benchmarks/scale.py [--short] [--part fits store simulation] [--postgresql URL] [--write]

fits
    A number-of-evaluations fit of a generated table with 1 and 2 jobs, here and on a Dask scheduler with 1 and 2
    workers of one thread, in turns. Each pair does the same work: their leaderboards must be equal.
store
    Writers are processes with a study of their own. A trial is asked for in one transaction and finished in another,
    with 8 kB of predictions; both have reached the disk before the next trial. PostgreSQL is a server that is started
    for this with its usual settings, or that of ``--postgresql``: an empty database, or a store that may be added to.
simulation
    `benchmarks.simulation` on recorded results: headstart meta fetch tensor_oboe

All of it takes about 10 minutes, and wants the machine for itself; ``--short``, of fewer repetitions, about 3. --write
keeps what was measured in docs/results/data/scale.json and puts it into docs/scale.md, also without a measurement
(``--part`` with nothing after it).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table
from servers import Dask, NoServer, PostgreSQL
from simulation import Seconds, simulate

from headstart import HeadstartClassifier, Outcome, Pipeline, Proposal, Store, Trial
from headstart.fitting.plan import available_cores

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE = ROOT / "docs/results/data/scale.json", ROOT / "docs/scale.md"
WORKERS = (1, 10, 100, 1000)
METHODS = ("random", "forest")
Rows = list[dict[str, Any]]
console = Console(width=120)


# -- fits --------------------------------------------------------------------------------------------------------------


def generated(rows: int = 3000, columns: int = 20) -> pd.DataFrame:
    """A table of two classes."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(rows, columns)), columns=[f"x{i}" for i in range(columns)])
    score = table["x0"] * table["x1"] + np.sin(2 * table["x2"]) + rng.normal(size=rows)
    return table.assign(y=np.where(score > 0, "yes", "no"))


def fits(short: bool) -> Rows:
    """Evaluations per second of fits with 1 and 2 jobs, here and on Dask."""
    evaluations, rounds = (20, 1) if short else (40, 3)
    table = generated()
    found: dict[tuple[str, int], list[tuple[float, pd.DataFrame]]] = {}
    with ExitStack() as stack:
        places: dict[tuple[str, int], dict[str, Any]] = {("here", n): {"n_jobs": n} for n in (1, 2)}
        for n in (1, 2):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            dask = stack.enter_context(Dask(folder))
            for _ in range(n):
                dask.worker()
            places["Dask", n] = {"cluster": dask.address}
        for _ in range(rounds):
            for place, settings in places.items():
                started = time.perf_counter()
                model = HeadstartClassifier(evaluations=evaluations, **settings).fit(table, target="y")
                seconds = time.perf_counter() - started
                board = model.leaderboard_[["trial", "score", "estimator"]]
                found.setdefault(place, []).append((evaluations / seconds, board))
    rows = []
    for n in (1, 2):
        here, there = found["here", n], found["Dask", n]
        same = all(board.equals(here[0][1]) for _, board in [*here, *there])
        rates = [statistics.median(rate for rate, _ in runs) for runs in (here, there)]
        ratio = statistics.median(b / a for (a, _), (b, _) in zip(here, there, strict=True))
        rows.append(
            {"jobs": n, "here, evaluations/s": rates[0], "Dask, evaluations/s": rates[1], "Dask/here": ratio}
            | {"leaderboards": "equal" if same else "DIFFERENT"}
        )
    return rows


# -- store -------------------------------------------------------------------------------------------------------------


def stores(short: bool, postgresql: str | None) -> Rows:
    """Trials per second of writers at once, on SQLite and PostgreSQL."""
    seconds = 2.0 if short else 5.0
    with ExitStack() as stack:
        url = postgresql
        if url is None:
            try:
                url = stack.enter_context(PostgreSQL(durable=True)).url
            except NoServer as error:
                console.print(f"PostgreSQL is left out: {error}")
        rows = []
        for writers in (1, 8, 32):
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            row = {"writers": writers, "SQLite, trials/s": throughput(str(Path(folder) / "store"), writers, seconds)}
            rows.append(row | ({"PostgreSQL, trials/s": throughput(url, writers, seconds)} if url else {}))
        return rows


def throughput(location: str, writers: int, seconds: float) -> float:
    """Trials per second of all writers together."""
    with Store.open(location) as store:
        store.add_task("benchmark", {})
    command = [sys.executable, __file__, "--be-writer", location, str(seconds)]
    pipe = subprocess.PIPE
    processes = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(writers)]
    for process in processes:
        assert process.stdout is not None
        if process.stdout.readline().strip() != "ready":
            raise RuntimeError("a writer did not start")
    for process in processes:  # all at once
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return sum(float(process.communicate()[0]) for process in processes)


def be_writer(location: str, seconds: float) -> None:
    """Print how many trials per second were stored."""
    predictions = np.zeros(1000)
    with Store.open(location) as store, store.create_study(f"writer {uuid.uuid4()}", "benchmark", 0, {}) as log:
        print("ready", flush=True)
        sys.stdin.readline()
        started, number = time.perf_counter(), 0
        while time.perf_counter() - started < seconds:
            proposal = Proposal(number, Pipeline(["pca", "knn"], [{"n": 5}, {"k": number + 1}]))
            log.ask(proposal)
            log.finish(Trial(proposal, Outcome.of(0.5, artefacts={"predictions": predictions}), 1.0, 2.0))
            number += 1
        print(number / (time.perf_counter() - started))


# -- simulation --------------------------------------------------------------------------------------------------------


def durations() -> Iterator[tuple[str, Seconds]]:
    """What evaluations take, by name."""
    yield "1 s", lambda _: 1.0
    yield "30 s", lambda _: 30.0
    yield "recorded", lambda outcome: max(outcome.seconds, 0.01)


def simulation(short: bool) -> Rows:
    """Many workers on test tasks of Tensor-OBOE; medians over tasks.

    There are 10 evaluations for each worker, but at least 100 and at most 3,000 in all: the start counts too, and with
    few for each worker it counts for much. The short form has 2 for each and one task. The regret to be reached is
    that of one worker after 100 evaluations on the same task.
    """
    from headstart.metadata.sources import load

    meta = load("tensor_oboe")
    tasks = [int(task) for task in meta.splits["test"][: 1 if short else 5]]
    rows = []
    each, most = (2, 2000) if short else (10, 3000)
    for method in METHODS:
        simulate(meta, tasks[0], method, 2, 15, lambda _: 1.0)  # imports
        for name, seconds in durations():
            wanted: dict[int, float] = {}
            for workers in WORKERS:
                runs = []
                for task in tasks if workers < 1000 else tasks[:1]:
                    run = simulate(meta, task, method, workers, min(max(100, each * workers), most), seconds)
                    wanted.setdefault(task, float(run.regrets[99]))
                    runs.append((run, run.time_to(wanted[task])))
                rows.append(
                    {"method": method, "evaluation": name, "workers": workers}
                    | {"idle": 1 - statistics.median(run.busy for run, _ in runs)}
                    | {"s to the regret": statistics.median(seconds for _, seconds in runs)}
                    | {"suggestions/s": statistics.median(run.suggestions for run, _ in runs)}
                    | {"store transactions/s": statistics.median(run.transactions for run, _ in runs)}
                    | {"suggestions/s at most": statistics.median(run.possible for run, _ in runs)}
                )
    return rows


# -- what came of it ---------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """A cell."""
    if not isinstance(value, float):
        return str(value)
    return "never" if value == np.inf else f"{value:.0f}" if value >= 100 else f"{value:.2g}"


def show(title: str, rows: Rows) -> None:
    """Print a table."""
    table = Table(title=title)
    for column in rows[0]:
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(*map(shown, row.values()))
    console.print(table)


def markdown(rows: Rows) -> str:
    """The same for a page."""
    lines = [[*rows[0]], ["---" if isinstance(value, str) else "---:" for value in rows[0].values()]]
    lines += [[shown(value) for value in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(text: str, found: dict[str, Any]) -> str:
    """The page with what was found between its marks."""
    for part, content in found.items():
        rows = f"{markdown(content['rows'])}\n\n{content['about']}"
        mark = re.compile(rf"(<!-- {part} -->\n).*?(<!-- end -->)", re.DOTALL)
        text, n = mark.subn(lambda match, rows=rows: f"{match[1]}{rows}\n{match[2]}", text)  # type: ignore[misc]
        if n != 1:
            raise SystemExit(f"{PAGE.name} must have one place for {part}, it has {n}")
    return text


def about(short: bool) -> str:
    """When and on what something was measured, for the page."""
    load = os.getloadavg()[0]
    kind = "short form, in which the start counts for much" if short else "full form"
    return f"*{time.strftime('%Y-%m-%d')}, {available_cores()} cores, {kind}, load average {load:.1f} at the end.*"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ("fits", "store", "simulation")
    parser.add_argument("--part", nargs="*", choices=parts, default=parts, help="only these")
    parser.add_argument("--short", action="store_true", help="fewer repetitions")
    parser.add_argument("--postgresql", metavar="URL", help="a database to measure, instead of a server of its own")
    parser.add_argument("--write", action="store_true", help="keep what was measured, and write docs/scale.md")
    parser.add_argument("--be-writer", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args(arguments)
    if args.be_writer is not None:
        be_writer(args.be_writer[0], float(args.be_writer[1]))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are stopped on the way out
    found = json.loads(DATA.read_text()) if DATA.exists() else {}
    for part in args.part:
        started = time.perf_counter()
        if part == "fits":
            rows = fits(args.short)
        else:
            rows = stores(args.short, args.postgresql) if part == "store" else simulation(args.short)
        show(f"{part}, measured in {time.perf_counter() - started:.0f} s", rows)
        found[part] = {"rows": rows, "about": about(args.short)}
        if args.write:
            DATA.write_text(json.dumps(found, indent=1) + "\n")
    if args.write:
        PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), found), encoding="utf-8")
        console.print(f"written: {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
