"""What the machinery costs: sandbox, limits, ask, store, space. Run: python benchmarks/overhead.py [--quick]

Timings on a shared machine are noisy; each part prints what it is compared with, measured in the same run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from headstart import FunctionObjective, Limits, Pipeline, Proposal, Sandbox, Store, Trial
from headstart.optimizers.base import Optimizer
from headstart.optimizers.bayes import Bayes
from headstart.optimizers.portfolio import Portfolio
from headstart.optimizers.random import RandomSearch
from headstart.testing.examples import evaluate, feed, live_task, pool_task, random_trials, small_meta
from headstart.trials import Outcome

console = Console()
GIB = 2**30


def timed(call: Callable[[], object], repeats: int) -> list[float]:
    """Seconds of each of `repeats` calls, after one to warm up."""
    call()
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return seconds


class TrivialPipeline:
    """Cross-validates a tiny pipeline on a small table, with ten megabytes of other data in tow."""

    def __init__(self) -> None:
        from sklearn.datasets import load_iris

        self.table, self.target = load_iris(return_X_y=True)
        self.ballast = np.zeros(10 * 2**20 // 8)

    def __call__(self, pipeline: Pipeline) -> float:
        from sklearn.naive_bayes import GaussianNB

        del pipeline
        return 1.0 - float(GaussianNB().fit(self.table, self.target).score(self.table, self.target))


def sandbox_cost(repeats: int) -> None:
    """An evaluation in the sandbox against the same in process."""
    pipeline = Pipeline(["naive_bayes"])
    function = TrivialPipeline()
    inside = FunctionObjective(function)
    table = Table(title="Sandbox: cost of one evaluation (trivial pipeline, small table)")
    for column in ("where", "median ms", "90th ms", "more than in process, ms"):
        table.add_column(column, justify="left" if column == "where" else "right")
    base = timed(lambda: inside(pipeline, Limits(), 0), repeats)
    table.add_row("in process", *_quantiles(base), "")
    limits = Limits(seconds=30, bytes=GIB)
    for mode in ("fork", "serve"):
        started = time.perf_counter()
        with Sandbox(inside, preload=("sklearn.naive_bayes",), mode=mode) as sandbox:
            sandbox.warm(1)
            ready = time.perf_counter() - started

            def call(sandbox: Sandbox = sandbox) -> object:
                return sandbox(pipeline, limits, 0)

            cost = timed(call, repeats)
        more = 1e3 * (statistics.median(cost) - statistics.median(base))
        table.add_row(f"sandbox, {mode} (worker ready in {ready:.2f} s)", *_quantiles(cost), f"{more:.1f}")
    console.print(table)


def _quantiles(seconds: list[float]) -> tuple[str, str]:
    return f"{1e3 * statistics.median(seconds):.2f}", f"{1e3 * float(np.quantile(seconds, 0.9)):.2f}"


def limit_overrun(repeats: int) -> None:
    """How long after its limit an evaluation that never ends gives its outcome."""

    def for_ever(pipeline: Pipeline) -> float:
        del pipeline
        while True:
            pass

    def hold_memory(pipeline: Pipeline) -> float:
        import numpy as np

        del pipeline
        held = np.ones(512 * 2**20 // 8)
        while True:
            held += 1

    table = Table(title="Sandbox: overrun of a limit of 1 s")
    for column in ("evaluation", "mode", "median ms", "max ms"):
        table.add_column(column, justify="left" if column in ("evaluation", "mode") else "right")
    for mode in ("fork", "serve"):
        for name, function, n in (("endless loop", for_ever, repeats), ("endless, holds 512 MB", hold_memory, 2)):
            with Sandbox(function, mode=mode) as sandbox:
                over = []
                for _ in range(n):
                    sandbox.warm(1)
                    started = time.perf_counter()
                    outcome = sandbox(Pipeline(["a"]), Limits(seconds=1), 0)
                    over.append(time.perf_counter() - started - 1)
                    assert outcome.status == "timeout", outcome
            table.add_row(name, mode, f"{1e3 * statistics.median(over):.0f}", f"{1e3 * max(over):.0f}")
    console.print(table)


def ask_seconds(sizes: tuple[int, ...]) -> None:
    """Seconds of one ask (fit included) after so many trials, for each optimizer."""
    space = live_task().space
    portfolio = space.sample(np.random.default_rng(5), 3000).unique()
    optimizers: dict[str, Optimizer] = {
        "random": RandomSearch(),
        "portfolio": Portfolio(portfolio),
        "bayes (gp)": Bayes("gp"),
        "bayes (forest)": Bayes("forest"),
    }
    pool = pool_task(small_meta(n_tasks=2, n_pipelines=3000, missing=0.0))
    table = Table(title="ask: milliseconds after n trials (whole space | pool of recorded pipelines)")
    table.add_column("optimizer")
    for size in sizes:
        table.add_column(f"n = {size}", justify="right")
    for name, optimizer in optimizers.items():
        cells = []
        for size in sizes:
            both = []
            for task in (live_task(), pool):
                if name == "portfolio" and task is pool:
                    both.append("-")
                    continue
                run = optimizer.start(task, 0)
                feed(run, random_trials(task, size))
                seconds = []
                for _ in range(3):
                    started = time.perf_counter()
                    (proposal,) = run.ask(1)
                    seconds.append(time.perf_counter() - started)
                    run.tell(evaluate(proposal, task))
                both.append(f"{1e3 * statistics.median(seconds):.1f}")
            cells.append(" | ".join(both))
        table.add_row(name, *cells)
    console.print(table)


def store_rate(n: int) -> None:
    """Trials per second that a store takes, each durable before the next."""
    trials = random_trials(live_task(), n)
    predictions = np.zeros(1000)
    table = Table(title=f"Store: trials per second ({n} trials, one transaction to ask and one to finish each)")
    table.add_column("store")
    table.add_column("trials / s", justify="right")
    table.add_column("read back, ms", justify="right")
    with tempfile.TemporaryDirectory() as directory:
        plain_file = Path(directory) / "synced"
        started = time.perf_counter()
        for _ in range(n):
            with plain_file.open("ab") as file:
                file.write(b"x" * 500)
                file.flush()
                os.fsync(file.fileno())
        table.add_row("for comparison: a line and fsync", f"{n / (time.perf_counter() - started):.0f}", "")
        for name, location, artefacts in (
            ("directory", str(Path(directory) / "plain"), {}),
            ("directory, 8 kB of predictions each", str(Path(directory) / "files"), {"predictions": predictions}),
            ("SQLite URL, the same as blobs", f"sqlite:///{directory}/blobs.db", {"predictions": predictions}),
        ):
            with Store.open(location) as store:
                store.add_task("task", {})
                with store.create_study("study", "task", 0, {}) as log:
                    started = time.perf_counter()
                    for trial in trials:
                        log.ask(trial.proposal)
                        log.finish(_with_artefacts(trial, artefacts))
                    rate = n / (time.perf_counter() - started)
                    started = time.perf_counter()
                    events = log.events()
                    read = time.perf_counter() - started
                    assert len(events) == 2 * n
            table.add_row(name, f"{rate:.0f}", f"{1e3 * read:.0f}")
    console.print(table)


def _with_artefacts(trial: Trial, artefacts: Mapping[str, object]) -> Trial:
    if not artefacts or not trial.outcome.ok:
        return trial
    outcome = Outcome.of(float(trial.outcome.loss or 0), artefacts=artefacts)
    return Trial(Proposal(trial.number, trial.pipeline), outcome, trial.started, trial.finished)


def space_seconds(repeats: int) -> None:
    """What a pipeline of the default space costs to draw, to encode and to decode."""
    from headstart.space.catalog import load

    space, rng = load("classification"), np.random.default_rng(0)
    many = space.sample(rng, 20_000)
    pipelines = list(many)
    table = Table(title="Default space: seconds")
    for column in ("what", "median s", "aim, at most"):
        table.add_column(column, justify="left" if column == "what" else "right")
    table.add_row("sample 1,000", f"{statistics.median(timed(lambda: space.sample(rng, 1000), repeats)):.3f}", "0.2")
    table.add_row("encode 20,000", f"{statistics.median(timed(lambda: space.encode(pipelines), repeats)):.3f}", "1")
    table.add_row("decode 20,000", f"{statistics.median(timed(lambda: list(many), repeats)):.3f}", "")
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    quick = parser.parse_args().quick
    sandbox_cost(30 if quick else 200)
    limit_overrun(2 if quick else 10)
    ask_seconds((10, 100) if quick else (10, 100, 1000))
    store_rate(200 if quick else 1000)
    space_seconds(3 if quick else 10)


if __name__ == "__main__":
    main()
